#include "core/scope.h"

#include <string.h>

static const char *const names[SCOPES] = {
	[SCOPE_SESSION] = "session",
	[SCOPE_AGENT] = "agent",
	[SCOPE_SHARED] = "shared",
};

const char *scope_kind_name(enum scope_kind k)
{
	return names[k];
}

static int bad(const char *text, const char *why, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no scope: %s", text, why);
	return cay_hint(err,
			"it is session:ID, agent:ID or shared; an ID has up to %d letters, "
			"digits and . _ : @ + = ~ -, and begins with a letter or digit",
			SCOPE_ID_MAX);
}

static int check_id(const char *text, const char *id, struct cay_error *err)
{
	static const char first[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = strlen(id), n = 0;

	if (len == 0)
		return bad(text, "there is no ID", err);
	if (len > SCOPE_ID_MAX)
		return bad(text, "its ID is too long", err);
	while (n < len && (strchr(first, id[n]) || (n > 0 && strchr("._:@+=~-", id[n]))))
		n++;
	return n == len ? 0 : bad(text, "its ID has characters that it can't have", err);
}

int scope_parse(const char *text, enum scope_kind *ret, struct cay_error *err)
{
	size_t n = strcspn(text, ":");
	int k = 0;

	while (k < SCOPES && (strlen(names[k]) != n || strncmp(names[k], text, n) != 0))
		k++;
	if (k == SCOPES)
		return bad(text, "there is no such kind", err);
	if (k == SCOPE_SHARED ? text[n] != '\0' : text[n] != ':')
		return bad(text, k == SCOPE_SHARED ? "shared has no ID" : "there is no ID", err);
	if (k != SCOPE_SHARED && check_id(text, text + n + 1, err) < 0)
		return -1;
	*ret = (enum scope_kind)k;
	return 0;
}
