#include "image/auth.h"

#include "base/attr.h"
#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define LETTERS    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS     "0123456789"
#define TOKEN      LETTERS DIGITS "!#$%&'*+-.^_`|~" /* RFC 9110, 5.6.2 */
#define TOKEN_68   LETTERS DIGITS "-._~+/"          /* 11.2, and RFC 6750 */
#define BLANK      " \t"
#define NAME_SIZE  32
#define SCHEME_MAX 32 /* challenges of one header */

struct reader {
	const char *at;
};

static void skip(struct reader *r, const char *characters)
{
	r->at += strspn(r->at, characters);
}

/* A word that does not fit is cut: it is none that we know. */
static bool read_word(struct reader *r, char ret[NAME_SIZE])
{
	size_t len = strspn(r->at, TOKEN), kept = size_min(len, NAME_SIZE - 1);

	memcpy(ret, r->at, kept);
	ret[kept] = '\0';
	r->at += len;
	return len > 0;
}

static int read_quoted(struct reader *r, char ret[AUTH_TEXT_SIZE])
{
	size_t n = 0;

	for (r->at++; *r->at && *r->at != '"'; r->at++) {
		if (*r->at == '\\')
			r->at++;
		if ((unsigned char)*r->at < ' ' || *r->at == 0x7f || n == AUTH_TEXT_SIZE - 1)
			return -EINVAL;
		ret[n++] = *r->at;
	}
	ret[n] = '\0';
	if (*r->at != '"')
		return -EINVAL;
	r->at++;
	return 0;
}

static int read_value(struct reader *r, char ret[AUTH_TEXT_SIZE])
{
	size_t len = strspn(r->at, TOKEN);

	if (*r->at == '"')
		return read_quoted(r, ret);
	if (len == 0 || len >= AUTH_TEXT_SIZE)
		return -EINVAL;
	memcpy(ret, r->at, len);
	ret[len] = '\0';
	r->at += len;
	return 0;
}

static void keep(struct challenge *c, const char *name, const char *value)
{
	struct {
		const char *name;
		char *value;
	} rows[] = {{"realm", c->realm}, {"service", c->service}, {"scope", c->scope}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcasecmp(name, rows[i].name) == 0 && !rows[i].value[0])
			memcpy(rows[i].value, value, strlen(value) + 1);
}

/* One NAME = VALUE, if that is what stands there; a word alone is the next scheme. */
static int read_parameter(struct reader *r, struct challenge *c, bool *ret_read)
{
	struct reader start = *r;
	char name[NAME_SIZE], value[AUTH_TEXT_SIZE];

	*ret_read = false;
	if (!read_word(r, name))
		return 0;
	skip(r, BLANK);
	if (*r->at != '=') {
		*r = start;
		return 0;
	}
	r->at++;
	skip(r, BLANK);
	if (read_value(r, value) < 0)
		return -EINVAL;
	keep(c, name, value);
	*ret_read = true;
	return 0;
}

static int read_parameters(struct reader *r, struct challenge *c)
{
	for (;;) {
		bool read;

		skip(r, BLANK ",");
		if (read_parameter(r, c, &read) < 0)
			return -EINVAL;
		if (!read)
			return 0;
		skip(r, BLANK);
		if (*r->at && *r->at != ',')
			return -EINVAL;
	}
}

static int read_challenge(struct reader *r, struct challenge *ret)
{
	char scheme[NAME_SIZE];
	size_t len;

	*ret = (struct challenge){0};
	if (!read_word(r, scheme) || (*r->at && !strchr(BLANK ",", *r->at)))
		return -EINVAL;
	skip(r, BLANK);
	/* A blob such as Negotiate's has no name, and an end that may look like one's. */
	len = strspn(r->at, TOKEN_68);
	len += strspn(r->at + len, "=");
	if (len > 0 && (!r->at[len] || r->at[len] == ','))
		r->at += len;
	if (read_parameters(r, ret) < 0)
		return -EINVAL;
	if (strcasecmp(scheme, "Basic") == 0)
		ret->kind = AUTH_BASIC;
	else if (strcasecmp(scheme, "Bearer") == 0 && ret->realm[0])
		ret->kind = AUTH_BEARER;
	return 0;
}

int challenge_parse(const char *header, struct challenge *ret)
{
	struct reader r = {header};
	struct challenge best = {0}, next;

	skip(&r, BLANK ",");
	for (int n = 0; *r.at; n++) {
		if (n == SCHEME_MAX || read_challenge(&r, &next) < 0)
			return -EINVAL;
		if (next.kind > best.kind)
			best = next;
	}
	*ret = best;
	return 0;
}

int token_parse(const char *text, size_t len, char ret[AUTH_TOKEN_SIZE])
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const char *token;
	size_t n;

	if (json_parse(text, len, AUTH_ANSWER_MAX, &j, &fault) < 0)
		return -EINVAL;
	token = json_str(json_get(j, "token"));
	if (!token)
		token = json_str(json_get(j, "access_token"));
	if (!token)
		return -EINVAL;
	n = strlen(token);
	if (n == 0 || n >= AUTH_TOKEN_SIZE || strspn(token, TOKEN_68 "=") != n)
		return -EINVAL;
	memcpy(ret, token, n + 1);
	return 0;
}
