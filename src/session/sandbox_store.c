/*
 * What the store knows of a sandbox. Of a persistent one that is enough to start it
 * again: the request as it came, and the limits and the network that were decided for it
 * then, within bounds of its owner's that may not be known any more.
 */
#include "session/sandbox_impl.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/limit.h"
#include "spec/fields.h"
#include "store/workspaces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_MAX   (8u << 20) /* a request of REQUEST_KEPT_MAX, with everything escaped */
#define LABELS_MAX (1u << 20)

static struct json *spec_json(const struct sandbox *s)
{
	struct json *o, *limits, *decided;

	if (!s->body->persistent)
		return sandbox_json(s);
	o = json_new_object();
	limits = json_new_object();
	decided = json_new_object(); /* as a request would ask for it */
	for (size_t n = 0; n < n_limit_rows; n++)
		json_set_int(limits, limit_rows[n].name,
			     (int64_t)limit_get(&s->body->spec.limits, &limit_rows[n]));
	json_set_str(o, "request", s->body->text);
	json_set(o, "limits", limits);
	json_set(decided, "network", sandbox_network_json(s));
	json_set(o, "decided", decided);
	return o;
}

int sandbox_keep(struct sandbox *s, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *labels = request_labels_json(s->body);
	_cleanup_(json_freep) struct json *spec = spec_json(s);
	_cleanup_(buf_done) struct buf labels_text = BUF(LABELS_MAX), spec_text = BUF(SPEC_MAX);
	struct sandbox_record r = {
		.owner = s->owner,
		.name = s->name,
		.state = s->state,
		.persistent = s->body->persistent,
		.created_ms = s->created_ms,
		.last_used_ms = s->last_used_ms,
		.expires_ms = s->expires_ms,
		.idle_timeout_ms = (int64_t)s->idle_timeout_ms,
		.workspace = s->body->spec.kept,
	};

	if (!s->all->config.store)
		return 0;
	memcpy(r.id, s->id, sizeof(r.id));
	if (json_text(labels, &labels_text) < 0 || json_text(spec, &spec_text) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "remember the sandbox");
	r.labels = buf_str(&labels_text);
	r.spec = buf_str(&spec_text);
	return store_sandbox_put(s->all->config.store, &r, err);
}

void sandbox_remember(struct sandbox *s)
{
	struct cay_error unused;

	(void)sandbox_keep(s, &unused);
}

static int read_limits(const struct json *j, struct limits *ret, struct cay_error *err)
{
	for (size_t n = 0; n < n_limit_rows; n++) {
		int64_t v = json_int(json_get(j, limit_rows[n].name));

		if (v < 0)
			return cay_fail(err, CAY_E_INTERNAL, 0, "a limit is out of range");
		limit_set(ret, &limit_rows[n], (uint64_t)v);
	}
	return 0;
}

/* They can have been changed since. */
static int read_labels(const char *text, struct request_body *body, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL, *o = json_new_object();
	struct request_body with = {0};
	int r = fields_parse(text, strlen(text), LABELS_MAX, &j, err);

	if (r == 0) {
		json_set(o, "labels", j);
		j = NULL;
		r = request_read(&with, REQUEST_SANDBOX, o, err);
	}
	if (r == 0) {
		strv_done(&body->labels);
		body->labels = with.labels;
		with.labels = (struct strv){0};
	}
	request_body_done(&with);
	return r;
}

static int read_network(const struct json *decided, struct request_body *body,
			struct cay_error *err)
{
	struct request_body with = {0};
	int r = request_read(&with, REQUEST_SANDBOX, decided, err);

	if (r == 0) {
		network_spec_done(&body->spec.network);
		body->spec.network = with.spec.network;
		with.spec.network = (struct network_spec){0};
	}
	request_body_done(&with);
	return r;
}

static int read_body(const struct sandbox_record *r, struct request_body *body,
		     struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	const char *text;

	if (fields_parse(r->spec, strlen(r->spec), SPEC_MAX, &j, err) < 0)
		return -1;
	text = json_str(json_get(j, "request"));
	if (!text)
		return cay_fail(err, CAY_E_INTERNAL, 0, "its request is not there");
	if (request_parse(body, REQUEST_SANDBOX, text, strlen(text), err) < 0)
		return -1;
	if (read_limits(json_get(j, "limits"), &body->spec.limits, err) < 0)
		return -1;
	/* There were sandboxes before there were networks. */
	if (json_get(j, "decided") && read_network(json_get(j, "decided"), body, err) < 0)
		return -1;
	if (body->workspace && r->workspace && strlen(r->workspace) < sizeof(body->workspace_id))
		memcpy(body->workspace_id, r->workspace, strlen(r->workspace) + 1);
	return read_labels(r->labels, body, err);
}

static struct sandbox *sandbox_of_record(const struct sandbox_record *r)
{
	struct sandbox *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->body = calloc(1, sizeof(*s->body));
	s->name = r->name ? strdup(r->name) : NULL;
	s->owner = r->owner;
	s->created_ms = r->created_ms;
	s->last_used_ms = r->last_used_ms;
	s->expires_ms = r->expires_ms;
	s->idle_timeout_ms = (uint64_t)r->idle_timeout_ms;
	memcpy(s->id, r->id, sizeof(s->id));
	return s;
}

struct restoring {
	struct sandboxes *all;
	char (*names)[ID_SIZE]; /* whose workspaces stay */
	size_t n, room;
	bool failed;
};

static bool note_name(struct restoring *to, const char *id)
{
	if (to->n == to->room) {
		size_t room = to->room ? 2 * to->room : 64;
		char(*names)[ID_SIZE] = reallocarray(to->names, room, sizeof(*names));

		if (!names)
			return false;
		to->names = names;
		to->room = room;
	}
	memcpy(to->names[to->n++], id, ID_SIZE);
	return true;
}

/* One that can't be read keeps its workspace until it can be. */
static void restore_one(void *ctx, const struct sandbox_record *r)
{
	struct restoring *to = ctx;
	struct sandbox *s;
	struct cay_error err = {0};

	if (!r->persistent || to->failed)
		return;
	s = sandbox_of_record(r);
	if (!s || !s->body || !note_name(to, r->id)) {
		to->failed = true;
	} else if (read_body(r, s->body, &err) == 0 &&
		   sandbox_enter_stopped(to->all, s, &err) == 0) {
		return;
	} else {
		to->all->config.unable(to->all->config.ctx, r->id, &err);
	}
	if (s) {
		request_body_free(s->body);
		free(s->name);
	}
	free(s);
}

static void restore_workspace(void *ctx, const struct workspace_record *w)
{
	struct restoring *to = ctx;

	to->failed |= !note_name(to, w->id);
}

struct snapshots {
	struct restoring *to;
	struct strv of;
};

static void note_workspace(void *ctx, const struct workspace_record *w)
{
	struct snapshots *s = ctx;

	restore_workspace(s->to, w);
	s->to->failed |= strv_add(&s->of, w->id) < 0;
}

/* Those with names, and their snapshots, are nobody's sandbox's. */
static int restore_workspaces(struct sandboxes *all, struct restoring *to, struct cay_error *err)
{
	const struct viewer everybody = {.all = true};
	struct snapshots s = {.to = to};
	int r = store_workspaces_list(all->config.store, &everybody, NULL, note_workspace, &s, err);

	for (size_t n = 0; n < s.of.len && r == 0; n++)
		r = store_workspaces_list(all->config.store, &everybody, s.of.items[n],
					  restore_workspace, to, err);
	strv_done(&s.of);
	return r;
}

int sandboxes_restore(struct sandboxes *all, struct cay_error *err)
{
	const struct viewer everybody = {.all = true};
	struct restoring to = {.all = all};
	struct page page = {.limit = PAGE_LIMIT_MAX};
	int r;

	do
		r = store_sandboxes_list(all->config.store, &everybody, false, &page, restore_one,
					 &to, err);
	while (r == 0 && page.cursor[0]);
	if (r == 0)
		r = restore_workspaces(all, &to, err);
	if (r == 0 && to.failed)
		r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "restore the sandboxes");
	if (r == 0)
		r = islands_sweep(all->config.place.islands, (const char(*)[ID_SIZE])to.names, to.n,
				  err);
	free(to.names);
	return r;
}
