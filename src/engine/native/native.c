/*
 * The native engine for one run: pipes, launcher, watch, result.
 */
#include "engine/engine.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/client.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/native/layout.h"
#include "engine/overlay.h"
#include "engine/pipes.h"
#include "engine/watch.h"
#include "image/host.h"
#include "image/images.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPILER 1u /* the number of its command */

enum { LAYER_LOWER, LAYER_UPPER, LAYER_MERGED, LAYERS };

/* One run, from its start to its end. */
struct island_run {
	const struct run *run;
	uint64_t start_ns;
	bool held; /* the program waits for files */
	struct launched island;
	int layers[LAYERS];          /* of an overlay: they outlive the island; else -1 */
	struct egress_client egress; /* where there is a network */
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
	} else if (m.kind == MESSAGE_EXITED && m.command == COMPILER) {
		r->compile.ended = true;
		r->compile.wait_status = m.status;
	} else if (m.kind == MESSAGE_EXITED) {
		r->status = m.status;
	}
	return true;
}

/*
 * It has ended, and what it left goes; or the island with it. Only when the watch has seen
 * that end: its word, once taken, would be waited for in vain.
 */
static void clear_compiler(void *ctx)
{
	struct island_run *r = ctx;
	struct pollfd said = {.fd = r->island.control, .events = POLLIN};

	while (!r->compile.ended && poll(&said, 1, 0) > 0 && take_message(r))
		;
	if (!r->compile.ended || launched_clear(&r->island, 0) < 0)
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

/* While the island lives: they are mounts of its own. */
static int open_layers(struct island_run *r, struct cay_error *err)
{
	static const char *const names[LAYERS] = {SCRATCH_OVERLAY "/" OVERLAY_LOWER,
						  SCRATCH_OVERLAY "/" OVERLAY_UPPER,
						  SCRATCH_OVERLAY "/" OVERLAY_MERGED};

	if (!r->held || !plan_overlay(r->run->plan))
		return 0;
	for (int n = 0; n < LAYERS; n++) {
		r->layers[n] = open_dir(r->island.scratch, names[n]);
		if (r->layers[n] < 0)
			return cay_fail(err, CAY_E_INTERNAL, errno, "open the workspace's layers");
	}
	return 0;
}

static int open_workspace(const struct island_run *r, int host)
{
	if (r->layers[LAYER_MERGED] >= 0)
		return open_dir(r->layers[LAYER_MERGED], ".");
	return host < 0 ? open_dir(r->island.scratch, SCRATCH_WORKSPACE)
			: open_dir(r->island.hostdirs[host].fd, ".");
}

static int with_files(const struct island_run *r, island_files_fn *fn, struct cay_error *err)
{
	_cleanup_(fd_closep) int workspace = -1, tmp = -1;
	const struct run *run = r->run;
	const struct launched *i = &r->island;
	struct island_files files = {.as_owner = i->first_id != 0,
				     .overlay = r->layers[LAYER_UPPER] >= 0,
				     .lower = r->layers[LAYER_LOWER],
				     .upper = r->layers[LAYER_UPPER]};
	int host = find_host_workspace(run->plan);

	if (!fn)
		return 0;
	files.workspace = workspace = open_workspace(r, host);
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

/* Of the compiler, or of the program. */
static void watch_island(struct island_run *r, struct pipes *pipes, bool compiler,
			 struct watched *ret)
{
	const struct run *run = r->run;
	struct watch w = {
		.limits = &run->plan->limits,
		.start_ns = r->start_ns,
		.stdin_fd = compiler ? -1 : run->stdin_fd,
		.stdin_pipe = take_fd(&pipes->ours[0]),
		.output = {take_fd(&pipes->ours[1]), take_fd(&pipes->ours[2])},
		.cancel_fd = run->cancel_fd,
		.oom_event = r->island.cgroup.oom_event,
		/* The next word on a compiler's island is of its end. */
		.alive_fd = compiler ? r->island.control : r->island.pidfd,
		.sink = run->sink,
		.ctx = r,
		.kill = kill_island,
		.clear = compiler ? clear_compiler : NULL,
		.cpu_ms = island_cpu_ms,
	};

	watch_until_end(&w, ret);
	/* v2 kills the whole group by itself and says so only here. */
	if (ret->cause == CAUSE_NONE && cgroup_oom_kills(&r->island.cgroup) > 0)
		ret->cause = CAUSE_MEMORY;
}

/* With PID 1 all are gone: what is left in the files stays as it is. */
static void end_island(struct launched *i)
{
	struct pollfd end = {.fd = i->pidfd, .events = POLLIN};

	launched_kill(i);
	while (poll(&end, 1, -1) < 0 && errno == EINTR)
		;
}

/*
 * A command of its own, whose output has ended before the program begins: no byte of the
 * one's can be taken for the other's. 1: the program is to run, 0: the compiler's end is
 * the run's.
 */
static int compile(struct island_run *r, struct pipes *pipes, struct watched *ret,
		   struct cay_error *err)
{
	/* It reads nothing, and all it says is about itself. */
	const int stdio[3] = {pipes->theirs[0], pipes->theirs[2], pipes->theirs[2]};
	struct compilation *c = &r->compile;

	if (launched_begin(&r->island, COMPILER, ORDER_COMPILE, r->run->plan, stdio, err) < 0)
		return -1;
	pipes_close_theirs(pipes);
	watch_island(r, pipes, true, ret);
	c->wall_ms = clock_ms_since(r->start_ns);
	if (c->ended)
		r->run->sink.compiled(r->run->sink.ctx);
	if (c->ended && c->wait_status == 0 && ret->cause == CAUSE_NONE)
		return 1;
	end_island(&r->island);
	if (c->ended)
		r->status = c->wait_status;
	return 0;
}

static int begin_compiled(struct island_run *r, struct pipes *pipes, struct cay_error *err)
{
	pipes_done(pipes);
	if (pipes_open(pipes, r->run->stdin_fd >= 0, err) < 0)
		return -1;
	return launched_begin(&r->island, 0, ORDER_LAST, r->run->plan, pipes->theirs, err);
}

/* Its files are in: on to its end. */
static int run_to_end(struct island_run *r, struct pipes *pipes, struct watched *ret,
		      struct cay_error *err)
{
	int on = 1;

	if (r->compile.begun) {
		on = compile(r, pipes, ret, err);
		if (on > 0 && begin_compiled(r, pipes, err) < 0)
			on = -1;
	} else if (r->held && launched_go(&r->island, err) < 0) {
		on = -1;
	}
	if (on <= 0)
		return on;
	pipes_close_theirs(pipes);
	watch_island(r, pipes, false, ret);
	return 0;
}

/* The program waits for its files, or for a compiler; or begins at once. */
static int start(struct launcher *l, struct island_run *r, struct pipes *pipes,
		 struct cay_error *err)
{
	const struct run *run = r->run;
	bool with_input = !r->compile.begun && run->stdin_fd >= 0;

	if (pipes_open(pipes, with_input, err) < 0)
		return -1;
	if (r->compile.begun)
		return launcher_start_waiting(l, run->plan, pipes->theirs, &r->island, err);
	return launcher_start(l, run->plan, pipes->theirs, r->held, &r->island, err);
}

/* It starts while the island is made. */
static int start_egress(struct island_run *r, struct cay_error *err)
{
	r->egress = EGRESS_CLIENT_NONE;
	return r->run->plan->network == NETWORK_NONE
		       ? 0
		       : egress_client_start(&r->egress, r->run->settings, err);
}

/* A program that was quicker has waited. */
static int open_network(struct island_run *r, struct cay_error *err)
{
	const struct egress_rules rules = egress_rules_of(r->run->plan);
	int e = 0;

	if (r->run->plan->network == NETWORK_NONE)
		return 0;
	e = egress_client_open(&r->egress, &rules, r->island.wires, err);
	wires_close(r->island.wires);
	return e;
}

static int run_island(struct launcher *l, const struct run *run, struct result *ret,
		      struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct island_run this;
	struct launched *island = &this.island;
	struct watched watched;
	int r;

	this.run = run;
	this.start_ns = clock_now_ns();
	this.held = run->files_in || run->files_out;
	this.compile = (struct compilation){.begun = run->plan->compile.len > 0};
	this.status = -1;
	this.failed = false;
	for (int n = 0; n < LAYERS; n++)
		this.layers[n] = -1;
	if (start_egress(&this, err) < 0)
		return -1;
	if (start(l, &this, &pipes, err) < 0) {
		egress_client_end(&this.egress, &ret->egress);
		return -1;
	}
	r = open_network(&this, err);
	if (r == 0)
		r = open_layers(&this, err);
	if (r == 0)
		r = with_files(&this, run->files_in, err);
	if (r == 0)
		r = run_to_end(&this, &pipes, &watched, err);
	if (r < 0)
		launched_kill(island);
	else
		r = last_words(&this, err);
	if (r == 0) {
		ret->compile = this.compile;
		watch_conclude(&watched, &run->plan->limits, this.status, ret);
		ret->isolation = island->isolation;
		r = with_files(&this, run->files_out, err);
	}
	for (int n = 0; n < LAYERS; n++)
		fd_closep(&this.layers[n]);
	launched_reap(island, &ret->usage);
	egress_client_end(&this.egress, &ret->egress);
	ret->usage.wall_ms = clock_ms_since(this.start_ns);
	return r;
}

int native_run(const struct run *run, struct result *ret, struct cay_error *err)
{
	char store[PATH_MAX];
	struct launcher l;
	int r;

	launcher_init(&l, run->rules);
	if (plan_image(run->plan) && images_dir(run->settings, store) == 0)
		l.image_store = store;
	r = run_island(&l, run, ret, err);
	launcher_done(&l);
	ret->image = strdup(plan_image(run->plan) ? plan_image(run->plan) : HOST_IMAGE);
	return r;
}
