#include "spec/java.h"

#include "base/attr.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 256

struct scanner {
	const char *at, *end;
	int depth;          /* of braces and parentheses */
	bool is_public;     /* said since the last declaration ended */
	bool found_public;  /* entry is a public class's */
	bool wants_name;    /* class, interface, enum or record was the last word */
	bool wants_package; /* package was */
	char package[NAME_MAX_BYTES], entry[NAME_MAX_BYTES];
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool begins(const struct scanner *s, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(s->end - s->at) >= n && memcmp(s->at, with, n) == 0;
}

/* Past the next end mark, or to the end of the text. */
static void skip_past(struct scanner *s, const char *mark)
{
	while (s->at < s->end && !begins(s, mark))
		s->at += *s->at == '\\' && mark[0] != '\n' && mark[0] != '*' && s->at + 1 < s->end
				 ? 2
				 : 1;
	s->at += size_min(strlen(mark), (size_t)(s->end - s->at));
}

/* Comments, strings and characters: what is in them means nothing. */
static bool skip_quoted(struct scanner *s)
{
	static const char *const quotes[][2] = {
		{"//", "\n"}, {"/*", "*/"}, {"\"\"\"", "\"\"\""}, {"\"", "\""}, {"'", "'"}};

	for (size_t i = 0; i < ARRAY_LEN(quotes); i++)
		if (begins(s, quotes[i][0])) {
			s->at += strlen(quotes[i][0]);
			skip_past(s, quotes[i][1]);
			return true;
		}
	return false;
}

static bool is_word(const char *word, size_t len, const char *const *list)
{
	for (; *list; list++)
		if (strlen(*list) == len && memcmp(word, *list, len) == 0)
			return true;
	return false;
}

static void keep(char *to, const char *word, size_t len)
{
	(void)snprintf(to, NAME_MAX_BYTES, "%.*s", (int)size_min(len, NAME_MAX_BYTES - 1), word);
}

static void take_word(struct scanner *s)
{
	static const char *const kinds[] = {"class", "interface", "enum", "record", NULL};
	static const char *const publics[] = {"public", NULL}, *const packages[] = {"package",
										    NULL};
	const char *word = s->at;
	size_t len;

	while (s->at < s->end && (is_name(*s->at) || (s->wants_package && *s->at == '.')))
		s->at++;
	len = (size_t)(s->at - word);
	if (s->wants_package) {
		keep(s->package, word, len);
		s->wants_package = false;
	} else if (s->wants_name) {
		if (!s->entry[0] || (s->is_public && !s->found_public)) {
			keep(s->entry, word, len);
			s->found_public = s->is_public;
		}
		s->wants_name = false;
	} else if (is_word(word, len, publics)) {
		s->is_public = true;
	} else if (is_word(word, len, packages)) {
		s->wants_package = true;
	} else {
		s->wants_name = is_word(word, len, kinds);
	}
}

static void take_sign(struct scanner *s)
{
	char c = *s->at++;

	if (c == '{' || c == '(')
		s->depth++;
	else if ((c == '}' || c == ')') && s->depth > 0)
		s->depth--;
	if (c == ';' || c == '}')
		s->is_public = s->wants_package = s->wants_name = false;
}

char *java_entry(const char *text, size_t len)
{
	struct scanner s = {.at = text, .end = text + len};
	char *entry;

	while (s.at < s.end) {
		if (skip_quoted(&s))
			continue;
		if (s.depth == 0 && is_name(*s.at))
			take_word(&s);
		else
			take_sign(&s);
	}
	if (!s.entry[0] ||
	    asprintf(&entry, "%s%s%s", s.package, s.package[0] ? "." : "", s.entry) < 0)
		return NULL;
	return entry;
}
