/*
 * A workspace as an archive: by the sandbox that has it, or by one that is made for this alone.
 */
#include "api/workspaces.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/exchange.h"
#include "api/files_op.h"
#include "base/attr.h"
#include "session/quota.h"
#include "session/sandbox.h"
#include "store/workspaces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fetching {
	struct exchange *x; /* NULL: it went away */
};

static void fetch_closed(struct exchange *x, enum exchange_end how _unused_)
{
	struct fetching *f = exchange_ctx(x);

	if (f)
		f->x = NULL;
}

static const struct exchange_events fetching_events = {.on_close = fetch_closed};

static void on_sandbox(void *ctx, struct sandbox *s, const struct cay_error *err)
{
	struct fetching *f = ctx;
	struct exchange *x = f->x;

	free(f);
	if (x)
		exchange_watch(x, NULL, NULL);
	if (x && err)
		exchange_fail(x, err);
	else if (x)
		file_pack_of(x, s, true);
	else if (!err)
		sandbox_end(s, "nobody waits for it");
}

static int make_sandbox(struct exchange *x, const struct workspace_record *w, struct cay_error *err)
{
	struct api *api = api_of(x);
	const struct caller *c = caller_of(x);
	struct settings settings = caller_settings(c, &api->settings);
	struct request_body *body = calloc(1, sizeof(*body));
	struct fetching *f = calloc(1, sizeof(*f));
	int64_t retry_s = 1;

	if (!body || !f || !(body->workspace = strdup(w->name))) {
		request_body_free(body);
		free(f);
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "reach the workspace");
	}
	if (quota_take_sandbox(api->quota, &w->owner, &c->quotas, &retry_s, err) < 0) {
		exchange_set_retry(x, retry_s);
		request_body_free(body);
		free(f);
		return -1;
	}
	f->x = x;
	exchange_watch(x, &fetching_events, f);
	if (sandbox_create(api->sandboxes, &w->owner, &settings, body, on_sandbox, f, err) == 0)
		return 0;
	exchange_watch(x, NULL, NULL);
	quota_end_sandbox(api->quota, &w->owner);
	free(f);
	return -1;
}

static void named_archive(struct exchange *x)
{
	const struct viewer everybody = {.all = true};
	const struct sandbox *user;
	struct workspace_record w;
	struct sandbox *s = NULL;
	struct cay_error err;

	if (api_check_open(x, &err) < 0 || file_pack_check(x, &err) < 0 ||
	    workspace_find(x, &w, &err) < 0) {
		exchange_fail(x, &err);
		return;
	}
	user = sandbox_with_workspace(api_of(x)->sandboxes, w.id);
	if (user)
		s = sandbox_find(api_of(x)->sandboxes, &everybody, user->id, &err);
	if (s)
		file_pack_of(x, s, false);
	else if (user || make_sandbox(x, &w, &err) < 0)
		exchange_fail(x, &err);
}

const struct route route_named_archive = {.method = "GET",
					  .pattern = "/v1/workspaces/{name}/archive",
					  .handle = named_archive,
					  .flags = ROUTE_STREAMS_ANSWER,
					  .name = "workspace.archive"};
