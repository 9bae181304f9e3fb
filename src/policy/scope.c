#include "policy/scope.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/limit.h"
#include "policy/bounds.h"
#include "policy/network.h"
#include "policy/tier.h"
#include "spec/fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum scope_kind kind_of(const char *scope)
{
	enum scope_kind k = SCOPE_SESSION;
	struct cay_error unused;

	(void)scope_parse(scope, &k, &unused); /* it was, when it was read */
	return k;
}

const struct scope_settings *scope_of(const struct settings *s, const struct request_body *q)
{
	return &s->scopes[kind_of(q->scope)];
}

static int above(struct cay_error *err, const char *scope, const char *what)
{
	const char *kind = scope_kind_name(kind_of(scope));

	(void)cay_fail(err, CAY_E_POLICY, 0,
		       "%s: more than the settings have for scopes of the "
		       "kind %s",
		       what, kind);
	return cay_hint(err, "[scope %s] in the settings says what there is: leave it out", kind);
}

/* What is being put together: the request's own words, and the scope's. */
struct making {
	const struct settings *s;
	const struct scope_settings *scope;
	const struct request_body *q;
	struct json *place; /* NULL: q says nothing of it */
	struct spec tier;   /* the tier alone */
	struct json *to;
};

/* Of what settings say: as much as the caller may have. */
static uint64_t within(const struct making *m, const struct limit_row *row, uint64_t v)
{
	struct spec spec = m->tier;
	struct settings s = *m->s;
	struct limits most;
	struct cay_error unused;

	limit_set(&s.limits, row, v);
	/* A tier's own value would come before the scope's. */
	if (spec.has_tier && limit_get(&s.tiers[spec.tier].limits, row) > v)
		limit_set(&s.tiers[spec.tier].limits, row, v);
	return tier_limits(&spec, &s, &most, &unused) < 0 ? v : limit_get(&most, row);
}

static bool is_commands(const struct limit_row *row)
{
	return strcmp(row->name, "timeout") == 0 || strcmp(row->name, "output") == 0;
}

static int check_limit(const char *scope, const struct limit_row *row, uint64_t asked, uint64_t has,
		       struct cay_error *err)
{
	char what[48];

	if (!has || asked <= has)
		return 0;
	(void)snprintf(what, sizeof(what), "the limit %s", row->name);
	return above(err, scope, what);
}

int scope_check_command(const struct settings *s, const char *scope, const struct limits *asked,
			struct cay_error *err)
{
	const struct limits *has = &s->scopes[kind_of(scope)].limits;

	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];

		if (is_commands(row) &&
		    check_limit(scope, row, limit_get(asked, row), limit_get(has, row), err) < 0)
			return -1;
	}
	return 0;
}

static int add_limits(struct making *m, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *all = NULL;
	struct json *said = json_new_object();
	struct limits want = {0};
	const struct json *value;
	const char *name;
	void *at = NULL;

	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t has = limit_get(&m->scope->limits, row);
		uint64_t asked = m->place ? limit_get(&m->q->spec.limits, row) : 0;

		if (check_limit(m->q->scope, row, asked, has, err) < 0) {
			json_free(said);
			return -1;
		}
		if (asked && !is_commands(row))
			limit_set(&want, row, asked);
		else if (has)
			limit_set(&want, row, within(m, row, has));
	}
	all = limits_json(&want);
	while (json_next(all, &at, &name, &value))
		if (json_kind(value) != JSON_KIND_NULL)
			json_set(said, name, json_share(value));
	json_set(m->to, "limits", said);
	return 0;
}

static int add_tier(struct making *m, struct cay_error *err)
{
	const struct spec *asked = &m->q->spec;
	const struct bounds *b = m->s->key;
	enum tier t = m->scope->tier;

	if (m->place && asked->has_tier) {
		if (t < TIERS && asked->tier > t)
			return above(err, m->q->scope, "the tier");
		t = asked->tier;
	} else if (t < TIERS && b && b->has_tier && b->tier < t) {
		t = b->tier;
	}
	if (t == TIERS)
		return 0;
	m->tier = (struct spec){.has_tier = true, .tier = t};
	json_set_str(m->to, "tier", tier_name(t));
	return 0;
}

/* Domains that are listed mean allowlist; NETWORK_MODES: nothing is said. */
static enum network_mode most_network(const struct scope_settings *scope)
{
	return scope->network == NETWORK_MODES && scope->allow.len > 0 ? NETWORK_ALLOWLIST
								       : scope->network;
}

int scope_allow(const struct settings *s, const char *scope, const struct strv *asked,
		const struct strv **ret, struct cay_error *err)
{
	const struct scope_settings *is = &s->scopes[kind_of(scope)];
	const char *unused;
	int r;

	*ret = asked;
	if (most_network(is) < NETWORK_ALLOWLIST)
		return above(err, scope, "network.allow");
	if (is->allow.len == 0)
		return 0;
	if (asked->len == 0)
		*ret = &is->allow;
	r = network_rules_within(*ret, &is->allow, &unused, err);
	return r == 0 ? above(err, scope, "network.allow") : r < 0 ? -1 : 0;
}

static void set_network(struct making *m, enum network_mode mode, const struct strv *allow)
{
	static const struct strv none = {0};
	struct json *o = egress_rules_json(allow ? allow : &none,
					   m->place ? &m->q->spec.network.block : &none);

	json_set_str(o, "mode", network_mode_name(mode));
	json_set(m->to, "network", o);
}

/* As much of what settings say as the caller may have. */
static void add_own_network(struct making *m)
{
	struct spec spec = m->tier;
	struct network_spec n;
	struct cay_error unused;
	int mode = (int)most_network(m->scope);

	spec.network.said = true;
	for (; mode > NETWORK_NONE; mode--) {
		spec.network.mode = (enum network_mode)mode;
		spec.network.allow = mode == NETWORK_ALLOWLIST ? m->scope->allow : (struct strv){0};
		if (network_decide(&spec, m->s, &n, &unused) < 0)
			continue;
		network_spec_done(&n);
		break;
	}
	set_network(m, (enum network_mode)mode,
		    mode == NETWORK_ALLOWLIST ? &m->scope->allow : NULL);
}

static int add_network(struct making *m, struct cay_error *err)
{
	const struct network_spec *n = &m->q->spec.network;
	bool asked = m->place && (n->said || n->allow.len > 0);
	enum network_mode mode = n->said ? n->mode : NETWORK_ALLOWLIST;
	enum network_mode most = most_network(m->scope);
	const struct strv *allow;

	if (most == NETWORK_MODES)
		return 0;
	if (!asked) {
		add_own_network(m);
		return 0;
	}
	if (mode > most)
		return above(err, m->q->scope, "the network");
	if (mode != NETWORK_ALLOWLIST)
		return 0;
	if (scope_allow(m->s, m->q->scope, &n->allow, &allow, err) < 0)
		return -1;
	set_network(m, mode, allow);
	return 0;
}

static int add_directory(struct making *m, struct cay_error *err)
{
	const char *text = m->scope->workspace;
	size_t len = text ? strlen(text) : 0;
	bool writes, said;
	struct json *o;
	char *path;

	if (!text)
		return 0;
	if (m->place && json_get(m->place, "workspace"))
		return above(err, m->q->scope, "the workspace");
	writes = len > 3 && strcmp(text + len - 3, ":rw") == 0;
	said = writes || (len > 3 && strcmp(text + len - 3, ":ro") == 0);
	path = strndup(text, said ? len - 3 : len);
	if (!path)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make the scope's sandbox");
	o = json_new_object();
	json_set_str(o, "source", path);
	json_set_str(o, "access", access_name(writes ? ACCESS_WRITE : ACCESS_READ));
	json_set(m->to, "workspace", o);
	free(path);
	return 0;
}

static int add_image(struct making *m, struct cay_error *err)
{
	if (!m->scope->image)
		return 0;
	if (m->place && m->q->spec.image && strcmp(m->q->spec.image, m->scope->image) != 0)
		return above(err, m->q->scope, "the image");
	json_set_str(m->to, "image", m->scope->image);
	return 0;
}

static int make(struct making *m, struct request_body *ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(REQUEST_KEPT_MAX);
	const struct json *value;
	const char *name;
	void *at = NULL;
	char idle[32];

	while (m->place && json_next(m->place, &at, &name, &value))
		json_set(m->to, name, json_share(value));
	(void)snprintf(idle, sizeof(idle), "%llums", (unsigned long long)m->scope->idle_timeout_ms);
	json_set_str(m->to, "scope", m->q->scope);
	json_set_str(m->to, "idle_timeout", idle);
	if (m->scope->keep)
		json_set_bool(m->to, "persistent", true);
	if (add_tier(m, err) < 0 || add_limits(m, err) < 0 || add_network(m, err) < 0 ||
	    add_directory(m, err) < 0 || add_image(m, err) < 0)
		return -1;
	if (json_text(m->to, &text) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make the scope's sandbox");
	return request_parse(ret, REQUEST_SANDBOX, text.data, text.len, err);
}

int scope_request(const struct settings *s, const struct request_body *q, bool for_everybody,
		  struct request_body *ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *place = NULL, *to = json_new_object();
	struct making m = {.s = s, .scope = scope_of(s, q), .q = q, .to = to};

	*ret = (struct request_body){0};
	if (!for_everybody &&
	    fields_parse(q->place, strlen(q->place), REQUEST_KEPT_MAX, &place, err) < 0)
		return -1;
	m.place = place;
	return make(&m, ret, err);
}

static int differs(struct cay_error *err, const char *what, const char *is)
{
	(void)cay_fail(err, CAY_E_CONFLICT, 0, "%s: the scope's sandbox has %s", what, is);
	return cay_hint(err, "it is made by the first request: leave it out, or end the scope "
			     "first");
}

static int check_limits(const struct request_body *q, const struct spec *is, struct cay_error *err)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t asked = limit_get(&q->spec.limits, row), has = limit_get(&is->limits, row);
		char what[48], text[32];

		if (!asked || asked == has || is_commands(row))
			continue;
		(void)snprintf(what, sizeof(what), "limits.%s", row->name);
		return differs(err, what,
			       has ? limit_format(row, has, text, sizeof(text)) : "no limit");
	}
	return 0;
}

static bool has_all(const struct strv *list, const struct strv *of)
{
	for (size_t i = 0; i < of->len; i++)
		if (!strv_has(list, of->items[i]))
			return false;
	return true;
}

static int check_network(const struct request_body *q, const struct spec *is, struct cay_error *err)
{
	const struct network_spec *n = &q->spec.network, *has = &is->network;

	if (n->said && n->mode != has->mode)
		return differs(err, "network.mode", network_mode_name(has->mode));
	if (n->allow.len > 0 &&
	    (has->mode != NETWORK_ALLOWLIST || !has_all(&has->allow, &n->allow) ||
	     !has_all(&n->allow, &has->allow)))
		return differs(err, "network.allow", "another list");
	/* Without a network everything is blocked. */
	if (has->mode != NETWORK_NONE && !has_all(&has->block, &n->block))
		return differs(err, "network.block", "another list");
	return 0;
}

static bool is_same_mount(const struct mount_spec *a, const struct mount_spec *b)
{
	return strcmp(a->source, b->source) == 0 && strcmp(a->target, b->target) == 0 &&
	       a->access == b->access;
}

static int check_mounts(const struct request_body *q, const struct spec *is, struct cay_error *err)
{
	const struct spec *s = &q->spec;

	for (size_t i = 0; i < s->n_mounts; i++) {
		size_t k = 0;

		while (k < is->n_mounts && !is_same_mount(&s->mounts[i], &is->mounts[k]))
			k++;
		if (k == is->n_mounts)
			return differs(err, "mounts", "others");
	}
	if (s->workspace.source &&
	    (!is->workspace.source || strcmp(s->workspace.source, is->workspace.source) != 0 ||
	     s->workspace.access != is->workspace.access))
		return differs(err, "workspace", "another");
	return 0;
}

static enum spec_engine engine_of(const struct spec *s)
{
	return s->engine == ENGINE_AUTO ? ENGINE_NATIVE : s->engine;
}

int scope_check(const struct request_body *q, const struct spec *is, struct cay_error *err)
{
	const struct spec *s = &q->spec;

	if (check_limits(q, is, err) < 0 || check_network(q, is, err) < 0 ||
	    check_mounts(q, is, err) < 0)
		return -1;
	if (s->engine != ENGINE_AUTO && s->engine != engine_of(is))
		return differs(err, "engine", spec_engine_name(engine_of(is)));
	if (s->has_tier && (!is->has_tier || s->tier != is->tier))
		return differs(err, "tier", is->has_tier ? tier_name(is->tier) : "none");
	if (s->writable && !is->writable)
		return differs(err, "writable", "a root that is not");
	if (s->as_root && !is->as_root)
		return differs(err, "user", "another");
	/* What one has agreed to, others have not. */
	if (is->allow_degraded && !s->allow_degraded)
		return differs(err, "allow_degraded", "limits that may not be enforced");
	return 0;
}

/* Without a network everything is blocked. */
static int check_block(const struct bounds *b, const struct spec *is, struct cay_error *err)
{
	const char *rule = "";
	int r = is->network.mode == NETWORK_NONE
			? 1
			: network_rules_within(&b->block, &is->network.block, &rule, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	(void)cay_fail(err, CAY_E_POLICY, 0, "the domain %s: the scope's sandbox does not block it",
		       rule);
	return cay_hint(err, "the key's bound block says what may not be reached");
}

int scope_may_use(const struct settings *s, const struct spec *is, struct cay_error *err)
{
	static const struct bounds none = {0};
	const struct bounds *b = s->key ? s->key : &none;
	struct network_spec n;
	struct limits unused;

	if (bounds_check(b, is, err) < 0 || tier_check(is, s, err) < 0 ||
	    tier_limits(is, s, &unused, err) < 0 || network_decide(is, s, &n, err) < 0)
		return -1;
	network_spec_done(&n);
	return check_block(b, is, err);
}
