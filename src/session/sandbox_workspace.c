/*
 * Workspaces of sandboxes that outlive their islands.
 */
#include "session/sandbox_impl.h"

#include "base/clock.h"
#include "store/workspaces.h"

#include <string.h>

void sandbox_name_kept(struct request_body *body, const char *id)
{
	if (body->workspace)
		id = body->workspace_id;
	else if (!body->persistent || body->spec.workspace.source)
		id = NULL;
	body->spec.kept = id;
}

const struct sandbox *sandbox_with_workspace(const struct sandboxes *all, const char *id)
{
	for (const struct sandbox *s = all->list; s; s = s->next)
		if (s->body->workspace && strcmp(s->body->workspace_id, id) == 0 &&
		    (sandbox_is_alive(s->state) || s->ref.number))
			return s;
	return NULL;
}

/* It has a size of its own, which is the sandbox's limit disk then. */
static int take_size(struct request_body *body, int64_t size, struct cay_error *err)
{
	uint64_t *disk = &body->spec.limits.disk_bytes;

	if (*disk && *disk != (uint64_t)size) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "the workspace %.64s has a size of its own",
			       body->workspace);
		return cay_hint(err, "leave limits.disk out");
	}
	*disk = (uint64_t)size;
	return 0;
}

static int find_workspace(const struct sandboxes *all, const struct owner *owner,
			  struct request_body *body, struct cay_error *err)
{
	const struct viewer viewer = {.owner = *owner};
	const struct sandbox *other;
	struct workspace_record w;

	if (!all->config.store)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "nothing is remembered here");
	if (store_workspace_get(all->config.store, &viewer, body->workspace, &w, err) < 0)
		return -1;
	other = sandbox_with_workspace(all, w.id);
	if (other) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the workspace %.64s is in use by %s",
			       w.name, other->id);
		return cay_hint(err, "one sandbox at a time can have it");
	}
	memcpy(body->workspace_id, w.id, sizeof(w.id));
	return take_size(body, w.size, err);
}

int sandbox_check_workspace(const struct sandboxes *all, const struct owner *owner,
			    struct request_body *body, struct cay_error *err)
{
	if (body->persistent && body->spec.workspace.source &&
	    body->spec.workspace.access == ACCESS_OVERLAY) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
			       "the layer of an overlay is gone when the sandbox is stopped");
		return cay_hint(err, "leave persistent out, or ask for another access");
	}
	return body->workspace ? find_workspace(all, owner, body, err) : 0;
}

void sandbox_touch_workspace(const struct sandbox *s)
{
	struct cay_error unused;

	if (s->body->workspace && s->all->config.store)
		(void)store_workspace_touch(s->all->config.store, s->body->workspace_id,
					    clock_wall_ms(), &unused);
}
