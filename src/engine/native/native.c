/*
 * The native engine for one run: pipes, launcher, watch, result.
 */
#include "engine/engine.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/native/layout.h"
#include "engine/pipes.h"
#include "engine/watch.h"
#include "image/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One run, from its start to its end. */
struct island_run {
	struct launched island;
	struct compilation compile;
	int status;  /* the program's, from wait(); -1: not known */
	bool failed; /* the island said why */
	struct cay_error error;
};

static void kill_island(void *ctx)
{
	launched_kill(&((struct island_run *)ctx)->island);
}

static uint64_t island_cpu_ms(void *ctx)
{
	return cgroup_cpu_ms(&((struct island_run *)ctx)->island.cgroup);
}

/* Takes what the island says, if it says anything. */
static bool take_message(struct island_run *r)
{
	struct message m;

	if (!launcher_listen(r->island.control, &m, NULL))
		return false;
	if (m.kind == MESSAGE_FAILED) {
		r->failed = true;
		r->error = m.error;
	} else if (m.kind == MESSAGE_COMPILED) {
		r->compile.ended = true;
		r->compile.wait_status = m.status;
	} else if (m.kind == MESSAGE_EXITED) {
		r->status = m.status;
	}
	return true;
}

static void compiled(void *ctx)
{
	struct island_run *r = ctx;
	struct cay_error unused;
	bool told = take_message(r);

	/* It waits for our word: if that can't be given, nobody else ends it before its time. */
	if (!told || (r->compile.ended && r->compile.wait_status == 0 &&
		      launched_go(&r->island, &unused) < 0))
		launched_kill(&r->island);
}

/* The host directory that was put at /workspace, if one was. */
static int find_host_workspace(const struct plan *p)
{
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (strcmp(plan_str(p, p->mounts[n].target), ISLAND_WORKSPACE) == 0)
			return (int)n;
	return -1;
}

static int open_dir(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int with_files(const struct run *run, const struct launched *i, island_files_fn *fn,
		      struct cay_error *err)
{
	_cleanup_(fd_closep) int workspace = -1, tmp = -1;
	struct island_files files = {.as_owner = i->first_id != 0};
	int host = find_host_workspace(run->plan);

	if (!fn)
		return 0;
	files.workspace = workspace = host < 0 ? open_dir(i->scratch, SCRATCH_WORKSPACE)
					       : open_dir(i->hostdirs[host].fd, ".");
	files.read_only = host >= 0 && run->plan->mounts[host].access == ACCESS_READ;
	files.tmp = tmp = open_dir(i->scratch, SCRATCH_TMP);
	if (workspace < 0 || tmp < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "open the island's files");
	return fn(run->files_ctx, &files, err);
}

/*
 * The island's last words: how the program ended, or that it never began. An
 * island that was killed says nothing.
 */
static int last_words(struct island_run *r, struct cay_error *err)
{
	if (fd_set_nonblock(r->island.control, 1) < 0)
		return 0;
	while (!r->failed && take_message(r))
		;
	if (!r->failed)
		return 0;
	*err = r->error;
	return -1;
}

static void watch_island(const struct run *run, struct island_run *r, struct pipes *pipes,
			 uint64_t start_ns, struct watched *ret)
{
	struct watch w = {
		.limits = &run->plan->limits,
		.start_ns = start_ns,
		.stdin_fd = run->stdin_fd,
		.stdin_pipe = take_fd(&pipes->ours[0]),
		.output = {take_fd(&pipes->ours[1]), take_fd(&pipes->ours[2])},
		.cancel_fd = run->cancel_fd,
		.oom_event = r->island.cgroup.oom_event,
		.alive_fd = r->island.pidfd,
		.compiled_fd = r->compile.begun ? r->island.control : -1,
		.sink = run->sink,
		.ctx = r,
		.kill = kill_island,
		.cpu_ms = island_cpu_ms,
		.compiled = compiled,
	};

	watch_until_end(&w, ret);
	r->compile.wall_ms = ret->compiled_ns ? (double)(ret->compiled_ns - start_ns) / 1e6
					      : clock_ms_since(start_ns);
	/* v2 kills the whole group by itself and says so only here. */
	if (ret->cause == CAUSE_NONE && cgroup_oom_kills(&r->island.cgroup) > 0)
		ret->cause = CAUSE_MEMORY;
}

static int run_island(struct launcher *l, const struct run *run, struct result *ret,
		      struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	uint64_t start_ns = clock_now_ns();
	bool held = run->files_in || run->files_out;
	struct island_run this;
	struct launched *island = &this.island;
	struct watched watched;
	int r;

	this.compile = (struct compilation){.begun = run->plan->compile.len > 0};
	this.status = -1;
	this.failed = false;
	if (pipes_open(&pipes, run->stdin_fd >= 0, err) < 0 ||
	    launcher_start(l, run->plan, pipes.theirs, held, island, err) < 0)
		return -1;
	pipes_close_theirs(&pipes);
	r = with_files(run, island, run->files_in, err);
	if (r == 0 && held)
		r = launched_go(island, err);
	if (r < 0)
		launched_kill(island);
	if (r == 0) {
		watch_island(run, &this, &pipes, start_ns, &watched);
		r = last_words(&this, err);
	}
	if (r == 0) {
		ret->compile = this.compile;
		watch_conclude(&watched, &run->plan->limits, this.status, ret);
		ret->isolation = island->isolation;
		island->isolation.degraded = (struct strv){0};
		r = with_files(run, island, run->files_out, err);
	}
	strv_done(&island->isolation.degraded);
	launched_reap(island, &ret->usage);
	ret->usage.wall_ms = clock_ms_since(start_ns);
	return r;
}

int native_run(const struct run *run, struct result *ret, struct cay_error *err)
{
	struct launcher l;
	int r;

	launcher_init(&l, run->rules);
	r = run_island(&l, run, ret, err);
	launcher_done(&l);
	ret->image = strdup(HOST_IMAGE);
	return r;
}
