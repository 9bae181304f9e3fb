/*
 * The layer over a workspace: what it has changed, and a file of it.
 */
#include "engine/agent_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/agent_walk.h"
#include "engine/changes.h"
#include "engine/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static int open_top(const struct agent *a, const char *name)
{
	return openat(a->layers, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory that path lies in; each name on the way must be one. -1 and errno. */
static int open_parent(int top, const char *path, const char **ret_name)
{
	_cleanup_(fd_closep) int at = fcntl(top, F_DUPFD_CLOEXEC, 3);
	char name[NAME_MAX + 1];

	while (at >= 0) {
		size_t len = strcspn(path, "/");
		int next;

		if (!agent_is_name(path, len) || len > NAME_MAX) {
			errno = EINVAL;
			return -1;
		}
		if (path[len] == '\0') {
			*ret_name = path;
			return take_fd(&at);
		}
		memcpy(name, path, len);
		name[len] = '\0';
		next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd_closep(&at);
		at = next;
		path += len + 1;
	}
	return -1;
}

int agent_open_layered(struct agent *a, struct stat *ret)
{
	_cleanup_(fd_closep) int top = open_top(a, OVERLAY_UPPER), dir = -1;
	const char *name;

	dir = top < 0 ? -1 : open_parent(top, a->path, &name);
	return dir < 0 ? -1 : agent_open_file(a, dir, name, O_RDONLY | O_NOFOLLOW, ret);
}

static int send_change(void *ctx, const struct changed *c, struct cay_error *err)
{
	struct agent *a = ctx;

	if (a->end.entries >= a->ask.count) {
		a->end.truncated = 1;
		return WALK_STOP;
	}
	a->end.entries++;
	return agent_send_change(a, c->st, c->path, c->target, c->change, err);
}

int agent_do_diff(struct agent *a, struct cay_error *err)
{
	_cleanup_(fd_closep) int lower = open_top(a, OVERLAY_LOWER), upper = -1;

	upper = lower < 0 ? -1 : open_top(a, OVERLAY_UPPER);
	if (upper < 0)
		return agent_fail(err, errno, "open", "the workspace's layers");
	return changes_find(lower, upper, send_change, a, &a->end.skipped, err);
}
