#include "api/workspaces.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "session/sandbox.h"
#include "spec/fields.h"
#include "spec/request.h"
#include "store/workspaces.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX_BYTES 65536
#define SIZE_MIN       (1u << 20)
#define DAY_MS         (24ll * 3600 * 1000)

/*
 * As JSON
 */

static struct json *snapshot_json(const struct workspace_record *w)
{
	struct json *j = json_new_object();

	json_set_str(j, "name", w->name);
	json_set_int(j, "created", w->created_ms);
	return j;
}

static void add_snapshot(void *ctx, const struct workspace_record *w)
{
	json_add(ctx, snapshot_json(w));
}

static struct json *workspace_json(const struct api *api, const struct workspace_record *w)
{
	const struct viewer everybody = {.all = true};
	const struct sandbox *user = sandbox_with_workspace(api->sandboxes, w->id);
	struct json *j = json_new_object(), *snapshots = json_new_array();
	char owner[OWNER_SIZE];
	struct cay_error unused;

	json_set_str(j, "id", w->id);
	json_set_str(j, "name", w->name);
	json_set_str(j, "owner", owner_text(&w->owner, owner));
	json_set_int(j, "size", w->size);
	json_set_int(j, "created", w->created_ms);
	json_set_int(j, "last_used", w->last_used_ms);
	json_set_str(j, "sandbox", user ? user->id : NULL);
	(void)store_workspaces_list(api->store, &everybody, w->id, add_snapshot, snapshots,
				    &unused);
	json_set(j, "snapshots", snapshots);
	return j;
}

static void respond(struct exchange *x, int status, const struct workspace_record *w)
{
	_cleanup_(json_freep) struct json *j = workspace_json(api_of(x), w);

	exchange_respond_json(x, status, j);
}

/*
 * Which
 */

int workspace_find(struct exchange *x, struct workspace_record *ret, struct cay_error *err)
{
	const struct viewer viewer = api_viewer(x);
	const char *name = request_param(exchange_request(x), "name");

	if (store_workspace_get(api_of(x)->store, &viewer, name, ret, err) < 0)
		return -1;
	exchange_set_target(x, ret->id);
	return 0;
}

/* Nobody has it: what is to be done with it can be. */
static int find_unused(struct exchange *x, struct workspace_record *ret, struct cay_error *err)
{
	const struct sandbox *user;

	if (workspace_find(x, ret, err) < 0)
		return -1;
	user = sandbox_with_workspace(api_of(x)->sandboxes, ret->id);
	if (!user)
		return 0;
	(void)cay_fail(err, CAY_E_CONFLICT, 0, "the workspace %.64s is in use by %s", ret->name,
		       user->id);
	return cay_hint(err, "end that sandbox first");
}

/*
 * What is asked
 */

struct body {
	char *name, *snapshot;
	uint64_t size;
};

enum { OF_CREATE = 1, OF_SNAPSHOT = 2, OF_RESTORE = 4 };

static void body_done(struct body *b)
{
	free(b->name);
	free(b->snapshot);
}

static int copy_name(const struct json *v, char **ret, struct cay_error *err)
{
	if (field_copy(v, ret, err) < 0)
		return -1;
	return request_name_ok(*ret) && strncmp(*ret, "wsp_", 4) != 0 && strcspn(*ret, ".") > 0 &&
			       strlen(*ret) < WORKSPACE_NAME_SIZE
		       ? 0
		       : field_invalid(err, "expected letters, digits, '.', '_' and '-'");
}

static int set_name(struct reader *r, const struct json *v, struct cay_error *err)
{
	return copy_name(v, &((struct body *)r->into)->name, err);
}

static int set_snapshot(struct reader *r, const struct json *v, struct cay_error *err)
{
	return copy_name(v, &((struct body *)r->into)->snapshot, err);
}

static int set_size(struct reader *r, const struct json *v, struct cay_error *err)
{
	char room[40];
	const char *text = field_number(v, room, sizeof(room));

	return text && parse_size(text, SIZE_MIN, 1ull << 44, &((struct body *)r->into)->size) == 0
		       ? 0
		       : field_invalid(err, "expected a size of at least 1m");
}

static const struct field fields[] = {
	{"name", TAKES_STR, set_name, OF_CREATE | OF_SNAPSHOT},
	{"size", TAKES_STR | TAKES_NUMBER, set_size, OF_CREATE},
	{"snapshot", TAKES_STR, set_snapshot, OF_RESTORE},
};

static int read_body(const struct exchange *x, unsigned place, struct body *ret,
		     struct cay_error *err)
{
	const struct request *q = exchange_request(x);
	_cleanup_(json_freep) struct json *j = NULL;
	struct reader r = {.into = ret, .place = place, .place_is = "this request"};

	if (fields_parse(q->body, q->body_len, BODY_MAX_BYTES, &j, err) < 0)
		return cay_wrap(err, "the request");
	if (fields_read(&r, fields, ARRAY_LEN(fields), j, err) < 0)
		return reader_fail(&r, err);
	if (place == OF_RESTORE ? ret->snapshot != NULL : ret->name != NULL)
		return 0;
	return cay_fail(err, CAY_E_INVALID, 0, "%s: is missing",
			place == OF_RESTORE ? "snapshot" : "name");
}

static int check_count(const struct exchange *x, const struct owner *o, struct cay_error *err)
{
	const struct settings *s = &api_of(x)->settings;
	int64_t own = 0, all = 0;

	if (store_workspaces_count(api_of(x)->store, o, &own, &all, err) < 0)
		return -1;
	if (s->workspaces_max && (uint64_t)own >= s->workspaces_max) {
		(void)cay_fail(err, CAY_E_RATE_LIMITED, 0,
			       "there are %lld workspaces and snapshots: no more can be had",
			       (long long)own);
		return cay_hint(err, "delete some; the setting is [workspaces] max");
	}
	if (s->workspaces_max_total && (uint64_t)all >= s->workspaces_max_total)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0,
				"all together have as many workspaces as there can be");
	return 0;
}

/*
 * Create, list, get, remove, reset
 */

/* Never larger than the limit disk of a sandbox of the caller's may be. */
static int decide_size(const struct exchange *x, uint64_t asked, int64_t *ret,
		       struct cay_error *err)
{
	const struct settings settings = caller_settings(caller_of(x), &api_of(x)->settings);
	uint64_t max = settings.workspaces_max_size, disk = settings.maximum.disk_bytes;
	uint64_t size = asked ? asked : settings.workspaces_size;
	char most[32];

	if (disk && (max == 0 || disk < max))
		max = disk;
	if (max && asked > max)
		return cay_fail(err, CAY_E_POLICY, 0, "a workspace can have %s at most",
				format_size(max, most, sizeof(most)));
	*ret = (int64_t)(max && size > max ? max : size ? size : SIZE_MIN);
	return 0;
}

static void named_create(struct exchange *x)
{
	_cleanup_(body_done) struct body b = {0};
	struct workspace_record w = {.owner = api_viewer(x).owner};
	struct cay_error err;

	w.created_ms = w.last_used_ms = clock_wall_ms();
	if (api_check_open(x, &err) < 0 || read_body(x, OF_CREATE, &b, &err) < 0 ||
	    decide_size(x, b.size, &w.size, &err) < 0 || check_count(x, &w.owner, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	(void)snprintf(w.name, sizeof(w.name), "%s", b.name);
	if (id_make("wsp", w.id) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, errno, "name the workspace");
		exchange_fail(x, &err);
		return;
	}
	exchange_set_target(x, w.id);
	if (store_workspace_put(api_of(x)->store, &w, &err) < 0)
		exchange_fail(x, &err);
	else
		respond(x, 201, &w);
}

struct listing {
	struct workspace_record *items;
	size_t n;
	bool failed;
};

/* Kept: their snapshots are asked for by the same statement. */
static void add(void *ctx, const struct workspace_record *w)
{
	struct listing *l = ctx;
	struct workspace_record *grown = l->items;

	if (l->n % 64 == 0)
		grown = reallocarray(l->items, l->n + 64, sizeof(*grown));
	l->failed |= !grown;
	if (l->failed)
		return;
	l->items = grown;
	l->items[l->n++] = *w;
}

static void named_list(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	const struct viewer viewer = api_viewer(x);
	struct json *list = json_new_array();
	struct api *api = api_of(x);
	struct listing l = {0};
	struct cay_error err;
	int r = store_workspaces_list(api->store, &viewer, NULL, add, &l, &err);

	json_set(j, "workspaces", list);
	if (r == 0 && l.failed)
		r = cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "list the workspaces");
	for (size_t n = 0; n < l.n && r == 0; n++)
		json_add(list, workspace_json(api, &l.items[n]));
	free(l.items);
	if (r < 0)
		exchange_fail(x, &err);
	else
		exchange_respond_json(x, 200, j);
}

static void named_get(struct exchange *x)
{
	struct workspace_record w;
	struct cay_error err;

	if (workspace_find(x, &w, &err) < 0)
		exchange_fail(x, &err);
	else
		respond(x, 200, &w);
}

struct names {
	char ids[64][ID_SIZE];
	size_t n;
	struct islands *islands;
};

static void flush_names(struct names *names)
{
	struct cay_error unused;

	/* What is left where it fails is swept when the daemon starts. */
	if (names->n > 0)
		(void)islands_discard(names->islands, (const char(*)[ID_SIZE])names->ids, names->n,
				      &unused);
	names->n = 0;
}

static void note_id(void *ctx, const struct workspace_record *w)
{
	struct names *names = ctx;

	if (names->n == ARRAY_LEN(names->ids))
		flush_names(names);
	memcpy(names->ids[names->n++], w->id, ID_SIZE);
}

/* With its snapshots. First nobody knows of them, then they are gone: never the other way round. */
static int remove_all(struct api *api, const struct workspace_record *w, struct cay_error *err)
{
	const struct viewer everybody = {.all = true};
	struct names names = {.islands = api->place.islands};

	note_id(&names, w);
	if (store_workspaces_list(api->store, &everybody, w->id, note_id, &names, err) < 0 ||
	    store_workspace_remove(api->store, w->id, err) < 0)
		return -1;
	flush_names(&names);
	return 0;
}

static void named_remove(struct exchange *x)
{
	struct workspace_record w;
	struct cay_error err;

	if (find_unused(x, &w, &err) < 0 || remove_all(api_of(x), &w, &err) < 0)
		exchange_fail(x, &err);
	else
		exchange_respond(x, 204, NULL, NULL, 0);
}

/* It is made anew when it is next used. */
static void named_reset(struct exchange *x)
{
	struct workspace_record w;
	struct cay_error err;

	if (find_unused(x, &w, &err) < 0 ||
	    islands_discard(api_of(x)->place.islands, &w.id, 1, &err) < 0)
		exchange_fail(x, &err);
	else
		respond(x, 200, &w);
}

/*
 * Snapshots and restoring: copies, which take their time.
 */

struct copying {
	struct api *api;
	struct exchange *x; /* NULL: it went away */
	struct island_ref ref;
	struct workspace_record workspace, made; /* made.id "": none is */
};

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct copying *c = exchange_ctx(x);

	if (c)
		c->x = NULL;
}

static const struct exchange_events copying_events = {.on_close = on_close};

static void discard(struct copying *c)
{
	struct cay_error unused;

	if (c->made.id[0])
		(void)islands_discard(c->api->place.islands, &c->made.id, 1, &unused);
}

static void answer(struct copying *c, const struct cay_error *err)
{
	struct exchange *x = c->x;

	if (!x)
		return;
	exchange_watch(x, NULL, NULL);
	if (err) {
		exchange_fail(x, err);
	} else if (c->made.id[0]) {
		_cleanup_(json_freep) struct json *j = snapshot_json(&c->made);

		exchange_respond_json(x, 201, j);
	} else {
		respond(x, 200, &c->workspace);
	}
}

/* Deleted while it was copied: nothing of it may stay. */
static bool is_gone(const struct copying *c, struct cay_error *err)
{
	const struct viewer everybody = {.all = true};
	struct workspace_record now;
	struct cay_error unused;

	if (store_workspace_get(c->api->store, &everybody, c->workspace.id, &now, err) == 0)
		return false;
	(void)islands_discard(c->api->place.islands, &c->workspace.id, 1, &unused);
	return true;
}

/* A snapshot counts when it is known; one that was copied and is not is swept. */
static void on_copied(struct island_ref *ref, const struct service_report *r)
{
	struct copying *c = ref->ctx;
	const struct cay_error *err = r->kind == REPORT_FAILED ? &r->error : NULL;
	struct cay_error failed;

	if (ref->number)
		return; /* a word about something else */
	if (!err && r->status != 0) {
		(void)cay_fail(&failed, CAY_E_ENGINE, 0, "the workspace was not copied");
		err = &failed;
	}
	if (!err && is_gone(c, &failed))
		err = &failed;
	if (!err && c->made.id[0] && store_workspace_put(c->api->store, &c->made, &failed) < 0)
		err = &failed;
	if (err)
		discard(c);
	answer(c, err);
	free(c);
}

/* c is taken over. */
static void copy(struct exchange *x, struct copying *c, const char *from, const char *to)
{
	struct cay_error err;

	c->api = api_of(x);
	c->x = x;
	c->ref = (struct island_ref){
		.islands = c->api->place.islands, .ctx = c, .report = on_copied};
	if (islands_copy(&c->ref, from, to, &err) < 0) {
		free(c);
		exchange_fail(x, &err);
		return;
	}
	exchange_watch(x, &copying_events, c);
}

static struct copying *copying_new(struct exchange *x)
{
	struct copying *c = calloc(1, sizeof(*c));
	struct cay_error err;

	if (c)
		return c;
	(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "copy the workspace");
	exchange_fail(x, &err);
	return NULL;
}

static int prepare_snapshot(struct exchange *x, struct copying *c, struct cay_error *err)
{
	_cleanup_(body_done) struct body b = {0};
	struct workspace_record other;
	struct cay_error none;

	if (api_check_open(x, err) < 0 || read_body(x, OF_SNAPSHOT, &b, err) < 0 ||
	    find_unused(x, &c->workspace, err) < 0 || check_count(x, &c->workspace.owner, err) < 0)
		return -1;
	if (store_workspace_snapshot(api_of(x)->store, &c->workspace, b.name, &other, &none) == 0)
		return cay_fail(err, CAY_E_CONFLICT, 0,
				"there is a snapshot called '%.64s' already", b.name);
	c->made = c->workspace;
	c->made.created_ms = c->made.last_used_ms = clock_wall_ms();
	memcpy(c->made.of, c->workspace.id, ID_SIZE);
	(void)snprintf(c->made.name, sizeof(c->made.name), "%s", b.name);
	return id_make("wsp", c->made.id) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, errno, "name the snapshot")
		       : 0;
}

static void named_snapshot(struct exchange *x)
{
	struct copying *c = copying_new(x);
	struct cay_error err;

	if (!c)
		return;
	if (prepare_snapshot(x, c, &err) == 0) {
		copy(x, c, c->workspace.id, c->made.id);
		return;
	}
	free(c);
	exchange_fail(x, &err);
}

static void named_restore(struct exchange *x)
{
	_cleanup_(body_done) struct body b = {0};
	struct copying *c = copying_new(x);
	struct workspace_record from;
	struct cay_error err;

	if (!c)
		return;
	if (api_check_open(x, &err) == 0 && read_body(x, OF_RESTORE, &b, &err) == 0 &&
	    find_unused(x, &c->workspace, &err) == 0 &&
	    store_workspace_snapshot(api_of(x)->store, &c->workspace, b.snapshot, &from, &err) ==
		    0) {
		copy(x, c, from.id, c->workspace.id);
		return;
	}
	free(c);
	exchange_fail(x, &err);
}

static void named_forget(struct exchange *x)
{
	const char *name = request_param(exchange_request(x), "snapshot");
	struct api *api = api_of(x);
	struct workspace_record w, s;
	struct cay_error err;

	if (workspace_find(x, &w, &err) < 0 ||
	    store_workspace_snapshot(api->store, &w, name, &s, &err) < 0 ||
	    store_workspace_remove(api->store, s.id, &err) < 0 ||
	    islands_discard(api->place.islands, (const char(*)[ID_SIZE])s.id, 1, &err) < 0)
		exchange_fail(x, &err);
	else
		exchange_respond(x, 204, NULL, NULL, 0);
}

/*
 * Those that are not used
 */

struct expiring {
	struct api *api;
	int64_t before_ms;
	struct workspace_record found;
	bool any;
};

static void find_old(void *ctx, const struct workspace_record *w)
{
	struct expiring *e = ctx;

	if (!e->any && w->last_used_ms < e->before_ms &&
	    !sandbox_with_workspace(e->api->sandboxes, w->id)) {
		e->any = true;
		e->found = *w;
	}
}

void workspaces_expire(struct api *api)
{
	const struct viewer everybody = {.all = true};
	struct expiring e = {.api = api,
			     .before_ms = clock_wall_ms() -
					  (int64_t)api->settings.workspaces_keep_days * DAY_MS};
	struct cay_error err;

	if (api->settings.workspaces_keep_days == 0 || !api->sandboxes)
		return;
	do {
		e.any = false;
		if (store_workspaces_list(api->store, &everybody, NULL, find_old, &e, &err) < 0 ||
		    (e.any && remove_all(api, &e.found, &err) < 0)) {
			log_error(err.text);
			return;
		}
		if (e.any)
			log_info("a workspace that nobody used was removed", "workspace",
				 e.found.id, "name", e.found.name);
	} while (e.any);
}

const struct route route_named_create = {.method = "POST",
					 .pattern = "/v1/workspaces",
					 .handle = named_create,
					 .name = "workspace.create"};
const struct route route_named_list = {.method = "GET",
				       .pattern = "/v1/workspaces",
				       .handle = named_list,
				       .name = "workspace.list"};
const struct route route_named_get = {.method = "GET",
				      .pattern = "/v1/workspaces/{name}",
				      .handle = named_get,
				      .name = "workspace.get"};
const struct route route_named_remove = {.method = "DELETE",
					 .pattern = "/v1/workspaces/{name}",
					 .handle = named_remove,
					 .name = "workspace.remove"};
const struct route route_named_reset = {.method = "POST",
					.pattern = "/v1/workspaces/{name}/reset",
					.handle = named_reset,
					.name = "workspace.reset"};
const struct route route_named_snapshot = {.method = "POST",
					   .pattern = "/v1/workspaces/{name}/snapshots",
					   .handle = named_snapshot,
					   .name = "workspace.snapshot"};
const struct route route_named_forget = {.method = "DELETE",
					 .pattern = "/v1/workspaces/{name}/snapshots/{snapshot}",
					 .handle = named_forget,
					 .name = "workspace.forget"};
const struct route route_named_restore = {.method = "POST",
					  .pattern = "/v1/workspaces/{name}/restore",
					  .handle = named_restore,
					  .name = "workspace.restore"};
