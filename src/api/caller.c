#include "api/caller.h"

#include "api/api.h"
#include "api/exchange.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/http.h"
#include "store/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void caller_free(struct caller *c)
{
	if (c) {
		bounds_done(&c->bounds);
		hasher_free(c->body);
	}
	free(c);
}

static void caller_freep(struct caller **c)
{
	caller_free(*c);
}

struct caller *caller_of(const struct exchange *x)
{
	return exchange_caller(x);
}

void caller_release(struct exchange *x)
{
	caller_free(exchange_caller(x));
	exchange_set_caller(x, NULL);
}

static void be_peer(struct caller *c, const struct peer *peer)
{
	c->viewer.owner = (struct owner){.kind = OWNER_UID, .uid = peer->uid};
	c->viewer.all = peer->uid == 0 || peer->uid == geteuid();
}

static int unauthorized(struct cay_error *err, const char *why)
{
	(void)cay_fail(err, CAY_E_UNAUTHORIZED, 0, "%s", why);
	return cay_hint(err, "send the header \"Authorization: Bearer cay_…\"; `cay key create` "
			     "makes a key");
}

/* What follows "Bearer ", or NULL. */
static const char *bearer(const char *value)
{
	if (strncasecmp(value, "bearer ", 7) != 0)
		return NULL;
	value += 7;
	return value + strspn(value, " ");
}

static int be_key(struct caller *c, struct api *api, const char *key, struct cay_error *err)
{
	_cleanup_(key_record_done) struct key_record k = {0};
	struct cay_error ignored;

	/* Hashed and looked up by the hash: how far a guess is right shows nowhere. */
	if (store_key_find(api->store, key, &k, err) < 0)
		return -1;
	c->viewer.owner = (struct owner){.kind = OWNER_KEY};
	memcpy(c->viewer.owner.key, k.id, sizeof(c->viewer.owner.key));
	(void)snprintf(c->name, sizeof(c->name), "%s", k.name);
	c->quotas = k.quotas;
	if (k.bounds && bounds_parse(&c->bounds, k.bounds, strlen(k.bounds), err) < 0)
		return cay_wrap(err, "the key's bounds");
	c->bounds.tier = tier_find(k.tier);
	c->bounds.has_tier = true;
	if (c->bounds.tier == TIERS)
		return cay_fail(err, CAY_E_INTERNAL, 0, "the key's tier is not known");
	(void)store_key_touch(api->store, &k, clock_wall_ms(), &ignored);
	return 0;
}

static int find_out(struct caller *c, struct exchange *x, struct cay_error *err)
{
	const struct request *q = exchange_request(x);
	const char *value = request_header(q, "authorization"), *key;

	if (!value && q->peer->local) {
		be_peer(c, q->peer);
		return 0;
	}
	if (!value)
		return unauthorized(err, "a key is needed");
	key = bearer(value);
	if (!key || http_header_count(q->head, "authorization") != 1)
		return unauthorized(err, "the Authorization header is not understood");
	return be_key(c, api_of(x), key, err);
}

int caller_authorize(struct exchange *x, struct cay_error *err)
{
	_cleanup_(caller_freep) struct caller *c = calloc(1, sizeof(*c));

	if (!c)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "find out who asks");
	if (find_out(c, x, err) < 0)
		return -1;
	exchange_set_caller(x, take_ptr(&c));
	return 0;
}

bool caller_is_operator(struct exchange *x)
{
	struct cay_error err;

	if (caller_of(x)->viewer.all)
		return true;
	(void)cay_fail(&err, CAY_E_POLICY, 0, "this is for operators only");
	(void)cay_hint(&err, "ask by the unix socket, as root or as whoever started the daemon");
	exchange_fail(x, &err);
	return false;
}

struct settings caller_settings(const struct caller *c, const struct settings *s)
{
	struct settings narrowed = *s;

	bounds_lower(&c->bounds, &narrowed.maximum);
	narrowed.key = &c->bounds;
	return narrowed;
}
