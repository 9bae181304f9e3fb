#include "cli/run_changes.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cli/apply.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "engine/changes.h"

#include <unistd.h>

int run_changes_init(struct run_changes *c, const struct run_options *q,
		     const struct settings *settings, struct cay_error *err)
{
	*c = RUN_CHANGES_NONE;
	if (!q->diff && !q->apply)
		return 0;
	if (!q->spec.workspace.source || q->spec.workspace.access != ACCESS_OVERLAY) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "--%s needs a workspace that is an overlay",
			       q->diff ? "diff" : "apply");
		return cay_hint(err, "--workspace SRC:overlay");
	}
	c->asked = q;
	c->since_ms = clock_wall_ms();
	return q->apply ? apply_open(q->spec.workspace.source, settings, &c->top, err) : 0;
}

void run_changes_done(struct run_changes *c)
{
	fd_closep(&c->top);
}

static int take(void *ctx, const struct changed *found, struct cay_error *err)
{
	const struct stat *st = found->st;
	const struct change item = {
		.path = (char *)(uintptr_t)found->path,
		.target = (char *)(uintptr_t)found->target,
		.change = found->change,
		.type = S_ISREG(st->st_mode)   ? AGENT_FILE
			: S_ISDIR(st->st_mode) ? AGENT_DIR
			: S_ISLNK(st->st_mode) ? AGENT_LINK
					       : AGENT_DEVICE,
		.mode = st->st_mode & 0777,
		.size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
	};

	return changes_add(ctx, &item, err);
}

static int fetch(void *ctx, const char *path, int to_fd, struct cay_error *err)
{
	return apply_copy(((struct run_changes *)ctx)->upper, path, to_fd, err);
}

static int bring_back(struct run_changes *c, struct changes *changes, const struct result *result,
		      struct cay_error *err)
{
	struct apply apply = {.top = c->top, .since_ms = c->since_ms, .fetch = fetch, .ctx = c};

	if (result->status != STATUS_OK) {
		cli_say("changes are not brought back: the program did not succeed");
		return 0;
	}
	if (changes_choose(changes, NULL, 0, err) < 0)
		return -1;
	apply_changes(&apply, changes);
	return apply_conclude(&apply, err);
}

int run_changes_out(struct run_changes *c, const struct island_files *files,
		    const struct result *result, struct cay_error *err)
{
	struct changes changes = {0};
	uint32_t skipped = 0;
	int r;

	if (!files->overlay)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "the engine has laid no overlay");
	r = changes_find(files->lower, files->upper, take, &changes, &skipped, err);
	c->upper = files->upper;
	if (r == 0 && c->asked->diff)
		r = changes_print(&changes, STDERR_FILENO, err);
	if (r == 0)
		changes_say_left_out(&changes);
	if (r == 0 && skipped > 0)
		cli_say("%u directories could not be looked at", skipped);
	if (r == 0 && c->asked->apply)
		r = bring_back(c, &changes, result, err);
	changes_done(&changes);
	return r;
}
