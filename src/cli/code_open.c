#include "cli/code_open.h"

#include "base/attr.h"

#include <ctype.h>
#include <string.h>

static const struct code_manner manners[] = {
	{.language = "python",
	 .prompt = ">>> ",
	 .more = "... ",
	 .quotes = "'\"",
	 .long_quotes = "",
	 .triple = true,
	 .comment = "#",
	 .opens = "([{",
	 .closes = ")]}",
	 .colons = true},
	{.language = "node",
	 .prompt = "> ",
	 .more = "... ",
	 .quotes = "'\"`",
	 .long_quotes = "`",
	 .comment = "//",
	 .slash_star = true,
	 .opens = "([{",
	 .closes = ")]}"},
	{.language = "bash",
	 .prompt = "$ ",
	 .more = "> ",
	 .quotes = "'\"`",
	 .long_quotes = "'\"`",
	 .comment = "#",
	 .opens = "",
	 .closes = "",
	 .words = true},
};

const struct code_manner *code_manner_find(const char *language)
{
	for (size_t i = 0; i < ARRAY_LEN(manners); i++)
		if (strcmp(manners[i].language, language) == 0)
			return &manners[i];
	return NULL;
}

/* What has been read of a code. */
struct reading {
	const struct code_manner *m;
	const char *at, *end;
	const char *line; /* where the one begins that is read */
	char last;        /* of this line that is no white space or comment; 0: none */
	char before_last;
	bool in_text;         /* one that goes over lines has no end yet */
	bool joined;          /* the last line says that it goes on */
	bool block;           /* one has begun */
	int depth;            /* of brackets, or words */
	const char *here_end; /* of a here-document that follows this line */
	size_t here_len;
};

static bool looking_at(const struct reading *r, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(r->end - r->at) >= n && memcmp(r->at, what, n) == 0;
}

static void mark(struct reading *r, char c)
{
	r->before_last = r->last;
	r->last = c;
}

/* Past a text, whose first quote is at at. */
static void pass_text(struct reading *r)
{
	char quote = *r->at, whole[4] = {quote, quote, quote, '\0'};
	bool over_lines = strchr(r->m->long_quotes, quote);
	/* In sh no backslash stands for itself between these. */
	bool escapes = !(r->m->words && quote == '\'');
	const char *closing = whole + 2;

	if (r->m->triple && looking_at(r, whole)) {
		closing = whole;
		over_lines = true;
	}
	for (r->at += strlen(closing); r->at < r->end; r->at++) {
		if (looking_at(r, closing)) {
			r->at += strlen(closing);
			mark(r, quote);
			return;
		}
		if (*r->at == '\n' && !over_lines)
			return;
		if (*r->at == '\\' && escapes && r->at + 1 < r->end)
			r->at++;
	}
	r->in_text = over_lines;
}

static void pass_slash_star(struct reading *r)
{
	const char *closing = memmem(r->at, (size_t)(r->end - r->at), "*/", 2);

	r->in_text = !closing;
	r->at = closing ? closing + 2 : r->end;
}

/* <<WORD, <<-'WORD' */
static void begin_here(struct reading *r)
{
	const char *p = r->at + 2;

	while (p < r->end && strchr("-'\"\\ ", *p))
		p++;
	r->here_end = p;
	while (p < r->end && (isalnum((unsigned char)*p) || *p == '_'))
		p++;
	r->here_len = (size_t)(p - r->here_end);
	if (r->here_len == 0)
		r->here_end = NULL;
	r->at = p + (p < r->end && (*p == '\'' || *p == '"'));
}

static void pass_here(struct reading *r)
{
	while (r->at < r->end) {
		const char *line = r->at, *lf = memchr(line, '\n', (size_t)(r->end - line));
		size_t n;

		r->at = lf ? lf + 1 : r->end;
		while (*line == '\t')
			line++;
		n = (size_t)((lf ? lf : r->end) - line);
		if (n == r->here_len && memcmp(line, r->here_end, n) == 0) {
			r->here_end = NULL;
			return;
		}
	}
	r->in_text = true;
}

static void pass_word(struct reading *r)
{
	static const char *const opens[] = {"if", "do", "case", "{"}, *const closes[] = {
									      "fi", "done", "esac",
									      "}"};
	const char *p = r->at;
	size_t n;

	while (p < r->end && !isspace((unsigned char)*p) && !strchr("'\"`;&|()<>\\", *p))
		p++;
	n = (size_t)(p - r->at);
	for (size_t i = 0; i < ARRAY_LEN(opens); i++) {
		r->depth += n == strlen(opens[i]) && memcmp(r->at, opens[i], n) == 0;
		r->depth -= n == strlen(closes[i]) && memcmp(r->at, closes[i], n) == 0;
	}
	mark(r, n > 0 ? 'w' : *r->at);
	r->at += n > 0 ? n : 1;
}

static void pass_line_end(struct reading *r)
{
	const struct code_manner *m = r->m;

	r->joined = r->last == '\\' ||
		    (m->words && (r->last == '|' || (r->last == '&' && r->before_last == '&')));
	r->block |= m->colons && r->depth == 0 && (r->last == ':' || *r->line == '@');
	r->at++;
	r->line = r->at;
	r->last = r->before_last = '\0';
	if (r->here_end)
		pass_here(r);
}

static void pass_other(struct reading *r)
{
	char c = *r->at;

	/* One at the end of the line joins it with the next. */
	if (c == '\\' && r->at + 1 < r->end && r->at[1] != '\n') {
		mark(r, 'x');
		r->at += 2;
		return;
	}
	if (r->m->words && looking_at(r, "<<<")) {
		r->at += 3;
		return;
	}
	if (r->m->words && looking_at(r, "<<")) {
		begin_here(r);
		return;
	}
	if (r->m->words && !isspace((unsigned char)c) && c != '\\') {
		pass_word(r);
		return;
	}
	if (strchr(r->m->opens, c))
		r->depth++;
	if (strchr(r->m->closes, c))
		r->depth--;
	if (!isspace((unsigned char)c))
		mark(r, c);
	r->at++;
}

static bool begins_comment(const struct reading *r)
{
	/* In sh it is one only where a word could begin. */
	return looking_at(r, r->m->comment) &&
	       (!r->m->words || r->at == r->line || isspace((unsigned char)r->at[-1]));
}

static bool ends_empty(const char *code, size_t len)
{
	if (len > 0 && code[len - 1] == '\n')
		len--;
	while (len > 0 && code[len - 1] != '\n')
		if (!isspace((unsigned char)code[--len]))
			return false;
	return true;
}

bool code_open(const struct code_manner *m, const char *code, size_t len)
{
	struct reading r = {.m = m, .at = code, .end = code + len, .line = code};

	while (r.at < r.end) {
		if (*r.at == '\n')
			pass_line_end(&r);
		else if (begins_comment(&r))
			while (r.at < r.end && *r.at != '\n')
				r.at++;
		else if (m->slash_star && looking_at(&r, "/*"))
			pass_slash_star(&r);
		else if (*r.at && strchr(m->quotes, *r.at))
			pass_text(&r);
		else
			pass_other(&r);
	}
	return r.in_text || ((r.joined || r.depth > 0 || r.block) && !ends_empty(code, len));
}
