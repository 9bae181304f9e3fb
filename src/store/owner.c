#include "store/owner.h"

#include "base/attr.h"
#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define UID_PREFIX "uid:"

_Static_assert(OWNER_SIZE >= ID_SIZE && OWNER_SIZE > sizeof(UID_PREFIX) + 10, "either fits");

const char *owner_text(const struct owner *o, char text[OWNER_SIZE])
{
	if (o->kind == OWNER_KEY)
		(void)snprintf(text, OWNER_SIZE, "%.*s", OWNER_SIZE - 1, o->key);
	else
		(void)snprintf(text, OWNER_SIZE, UID_PREFIX "%u", o->uid);
	return text;
}

int owner_parse(const char *text, struct owner *ret)
{
	size_t n = strlen(UID_PREFIX);
	uint64_t uid;

	if (strncmp(text, UID_PREFIX, n) == 0) {
		if (parse_u64(text + n, 0, UINT32_MAX, &uid) < 0)
			return -EINVAL;
		*ret = (struct owner){.kind = OWNER_UID, .uid = (uid_t)uid};
		return 0;
	}
	if (strlen(text) >= ID_SIZE)
		return -EINVAL;
	*ret = (struct owner){.kind = OWNER_KEY};
	(void)snprintf(ret->key, sizeof(ret->key), "%s", text);
	return id_ok("key", ret->key) ? 0 : -EINVAL;
}

bool owner_is(const struct owner *a, const struct owner *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == OWNER_KEY ? strcmp(a->key, b->key) == 0 : a->uid == b->uid;
}
