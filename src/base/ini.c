/*
 * inih gets its lines from a reader of ours, which is where its habits are
 * dealt with. Left alone, inih takes an indented line for one more value of the
 * key above, goes on in the middle of a line longer than its buffer as if that
 * were the next line, cuts section names, cuts values at " ;", forgets what
 * stands behind a section's "]", says nothing of sections without keys, and
 * goes on after errors.
 */
#include "base/ini.h"

#include "base/attr.h"

#include <errno.h>
#include <ini.h>
#include <stdbool.h>
#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

struct walk {
	const char *next; /* what is still to be read */
	int line;
	ini_item_fn *fn;
	void *ctx;
	bool wrong; /* at this line; why is NULL if fn said so */
	const char *why;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The next line without white space around it; false at the end. */
static bool cut_line(struct walk *w, const char **ret_s, size_t *ret_len)
{
	const char *s = w->next;
	size_t len = strcspn(s, "\n");

	if (!*s)
		return false;
	w->next = s + len + (s[len] == '\n');
	w->line++;
	if (len > 0 && s[len - 1] == '\r')
		len--;
	while (len > 0 && is_blank(s[len - 1]))
		len--;
	for (; len > 0 && is_blank(*s); s++)
		len--;
	*ret_s = s;
	*ret_len = len;
	return true;
}

/* What is wrong with the characters of a line, or NULL. */
static const char *check_chars(const char *s, size_t len)
{
	if (len > INI_LINE_MAX)
		return "the line is too long";
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return "control characters are not allowed";
		if (i > 0 && (c == '#' || c == ';') && is_blank(s[i - 1]))
			return "a comment needs a line of its own";
	}
	return NULL;
}

static const char *check_section(struct walk *w, const char *s, size_t len)
{
	char name[INI_SECTION_MAX + 1];
	struct cay_ini_item item = {.line = w->line, .section = name};
	const char *end = memchr(s, ']', len);

	if (!end)
		return "a section needs a closing ']'";
	if (end != s + len - 1)
		return "nothing may follow the ']' of a section";
	len -= 2;
	if (len > INI_SECTION_MAX)
		return "the name of the section is too long";
	memcpy(name, s + 1, len);
	name[len] = '\0';
	w->wrong = w->fn(w->ctx, &item) != 0;
	return NULL;
}

static const char *check_line(struct walk *w, const char *s, size_t len)
{
	const char *why = check_chars(s, len);

	if (why || len == 0)
		return why;
	/* inih would take it off its first line, and read another line than we looked at. */
	if (strncmp(s, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		return "a byte order mark is allowed at the very beginning alone";
	if (*s == '[')
		return check_section(w, s, len);
	if (!memchr(s, '=', len) && !memchr(s, ':', len))
		return "expected [section] or key = value";
	return NULL;
}

/* What inih calls for a line, as fgets(). Once something is wrong, the text is at its end. */
static char *next_line(char *str, int size, void *stream)
{
	struct walk *w = stream;
	const char *s;
	size_t len;

	if (w->wrong || !cut_line(w, &s, &len))
		return NULL;
	/* Comments may be of any length: inih does not get to see them. */
	if (len > 0 && (*s == '#' || *s == ';'))
		len = 0;
	w->why = check_line(w, s, len);
	if (!w->why && len + 2 > (size_t)size)
		w->why = "the line is too long";
	if (w->why)
		w->wrong = true;
	if (w->wrong)
		return NULL;
	memcpy(str, s, len);
	memcpy(str + len, "\n", 2);
	return str;
}

/* inih's sense is the other way round: 0 is an error. */
static int handler(void *user, const char *section, const char *key, const char *value)
{
	struct walk *w = user;
	struct cay_ini_item item = {w->line, section, key, value ? value : ""};

	w->wrong = w->fn(w->ctx, &item) != 0;
	return !w->wrong;
}

int ini_each(const char *text, ini_item_fn *fn, void *ctx, const char **ret_why)
{
	struct walk w = {.next = text, .fn = fn, .ctx = ctx};
	int r;

	if (strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		w.next += strlen(BYTE_ORDER_MARK);
	r = ini_parse_stream(next_line, &w, handler, &w);
	*ret_why = w.why;
	if (w.wrong)
		return w.line;
	if (r > 0)
		*ret_why = "expected [section] or key = value";
	return r < 0 ? -ENOMEM : r;
}
