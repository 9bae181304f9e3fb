/*
 * The engines with containers for one run: a keeper of its own, which it talks to as the daemon
 * would (engine/service.h); pipes, watch, result.
 */
#include "engine/engine.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/container/docker_images.h"
#include "engine/container/keeper.h"
#include "engine/container/place.h"
#include "engine/container/stage.h"
#include "engine/container/sweep.h"
#include "engine/pipes.h"
#include "engine/watch.h"
#include "image/naming.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ISLAND 1u /* its number; there is no other */

struct container_run {
	const struct run *run;
	int sock;
	pid_t keeper;
	uint32_t commands; /* numbers given out */
	uint64_t start_ns;
	bool cancelled, gone;
	int signal;
	struct service_report last; /* of the island, once it is gone */
};

static int ask(struct container_run *c, struct service_request *q, const struct plan *p,
	       const int *fds, struct cay_error *err)
{
	size_t len = sizeof(*q) + (p ? p->size : 0);
	char *packet;
	int r;

	q->island = ISLAND;
	if (len > SERVICE_PACKET_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0,
				"arguments and environment are larger than %u bytes together",
				ORDER_PLAN_MAX);
	packet = malloc(len);
	if (!packet)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "ask for a container");
	memcpy(packet, q, sizeof(*q));
	if (p)
		memcpy(packet + sizeof(*q), p, p->size);
	r = msg_send(c->sock, packet, len, fds, fds ? 3 : 0);
	free(packet);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "talk to the container's keeper") : 0;
}

static void kill_command(void *ctx)
{
	struct container_run *c = ctx;
	struct service_request q = {
		.kind = SERVICE_KILL, .command = c->commands, .cause = CAUSE_CANCELLED};
	struct cay_error unused;

	(void)ask(c, &q, NULL, NULL, &unused);
}

static void end_container(struct container_run *c)
{
	struct service_request q = {.kind = SERVICE_KILL, .cause = CAUSE_CANCELLED};
	struct cay_error unused;

	(void)ask(c, &q, NULL, NULL, &unused);
}

/* The next report; one that says that all is over is kept. -1: nobody will say more. */
static int next_report(struct container_run *c, struct service_report *ret)
{
	size_t none;

	if (c->gone || msg_recv(c->sock, ret, sizeof(*ret), NULL, 0, &none) != sizeof(*ret))
		return -1;
	if (ret->kind == REPORT_GONE || (ret->kind == REPORT_FAILED && ret->command == 0)) {
		c->gone = true;
		c->last = *ret;
	}
	return 0;
}

static void read_cancel(struct container_run *c)
{
	struct signalfd_siginfo info;

	if (read(c->run->cancel_fd, &info, sizeof(info)) != (ssize_t)sizeof(info) || c->cancelled)
		return;
	c->cancelled = true;
	c->signal = (int)info.ssi_signo;
	end_container(c);
}

/* Waits for a report of that kind about that command, or for the end of it all. */
static int await(struct container_run *c, enum service_report_kind kind, uint32_t command,
		 struct service_report *ret, struct cay_error *err)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = c->sock, .events = POLLIN},
			{.fd = c->cancelled ? -1 : c->run->cancel_fd, .events = POLLIN}};

		if (poll(fds, ARRAY_LEN(fds), -1) < 0)
			continue;
		if (fds[1].revents)
			read_cancel(c);
		if (!fds[0].revents)
			continue;
		if (next_report(c, ret) < 0)
			return cay_fail(err, CAY_E_ENGINE, 0, "the container's keeper is gone");
		if (ret->kind == (uint32_t)kind && ret->command == command)
			return 0;
		if (ret->kind == REPORT_FAILED && (c->gone || ret->command == command)) {
			*err = ret->error;
			cay_error_mend(err);
			return -1;
		}
		if (c->gone)
			return cay_fail(err, CAY_E_ENGINE, 0, "the container ended");
	}
}

/* One conversation with the files agent: *ret_to and *ret_from are our ends. */
static int start_agent(struct container_run *c, int *ret_to, int *ret_from, struct cay_error *err)
{
	struct service_request q = {.kind = SERVICE_COMMAND,
				    .command = ++c->commands,
				    .flags = ORDER_AGENT,
				    .timeout_ms = LIMIT_MAX_TIME_MS};
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int to[2] = {-1, -1}, from[2] = {-1, -1}, r;

	if (null < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
		r = cay_fail(err, CAY_E_INTERNAL, errno, "make pipes");
	} else {
		int fds[3] = {to[0], from[1], null};

		r = ask(c, &q, c->run->plan, fds, err);
	}
	fd_closep(&to[0]);
	fd_closep(&from[1]);
	if (r < 0) {
		fd_closep(&to[1]);
		fd_closep(&from[0]);
		return -1;
	}
	*ret_to = to[1];
	*ret_from = from[0];
	return 0;
}

static int move_tree(struct container_run *c, int dir, const char *path, bool in,
		     struct cay_error *err)
{
	_cleanup_(fd_closep) int to = -1, from = -1;
	struct service_report report;
	struct cay_error first;
	int r;

	if (start_agent(c, &to, &from, err) < 0)
		return -1;
	r = in ? stage_in(dir, path, &to, from, &first)
	       : stage_out(dir, path, c->run->plan->limits.disk_bytes, &to, from, &first);
	fd_closep(&from);
	if (await(c, REPORT_EXITED, c->commands, &report, err) < 0)
		return -1;
	if (r < 0)
		*err = first;
	return r;
}

/* The host directory that was put at /workspace, opened; -1 and 0: there is none. */
static int open_workspace(const struct plan *p, struct island_files *f, struct cay_error *err)
{
	for (uint32_t n = 0; n < p->n_mounts; n++) {
		if (strcmp(plan_str(p, p->mounts[n].target), ISLAND_WORKSPACE) != 0)
			continue;
		f->workspace =
			open(plan_str(p, p->mounts[n].source), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		f->read_only = p->mounts[n].access != ACCESS_WRITE;
		f->as_owner = geteuid() == 0;
		return f->workspace < 0 ? cay_fail(err, CAY_E_NOT_FOUND, errno, "the workspace")
					: 0;
	}
	return 0;
}

static int move_trees(struct container_run *c, const struct stage *s, bool host_workspace, bool in,
		      struct cay_error *err)
{
	if (move_tree(c, s->tmp, "/tmp", in, err) < 0)
		return -1;
	return host_workspace ? 0 : move_tree(c, s->workspace, ISLAND_WORKSPACE, in, err);
}

static int with_files(struct container_run *c, island_files_fn *fn, bool in, struct cay_error *err)
{
	_cleanup_(stage_remove) struct stage s = STAGE_NONE;
	struct island_files files = {.workspace = -1};
	bool host;
	int r;

	if (!fn)
		return 0;
	if (stage_make(&s, err) < 0 || open_workspace(c->run->plan, &files, err) < 0)
		return -1;
	host = files.workspace >= 0;
	if (!host)
		files.workspace = s.workspace;
	files.tmp = s.tmp;
	r = in ? 0 : move_trees(c, &s, host, false, err);
	if (r == 0)
		r = fn(c->run->files_ctx, &files, err);
	if (r == 0 && in)
		r = move_trees(c, &s, host, true, err);
	if (host)
		(void)close(files.workspace);
	return r;
}

static void nothing(void *ctx _unused_)
{
}

/* One command and all it starts, to its end. */
static int run_stage(struct container_run *c, bool compiler, struct watched *ret,
		     struct service_report *ret_end, struct cay_error *err)
{
	const struct run *run = c->run;
	int stdin_fd = compiler ? -1 : run->stdin_fd;
	struct service_request q = {.kind = SERVICE_COMMAND,
				    .command = ++c->commands,
				    .flags = compiler ? ORDER_COMPILE : 0};
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct watch w;
	int r;

	if (pipes_open(&pipes, stdin_fd >= 0, err) < 0)
		return -1;
	/* What a compiler says is about itself, on whichever stream. */
	r = ask(c, &q, run->plan,
		(int[3]){pipes.theirs[0], pipes.theirs[compiler ? 2 : 1], pipes.theirs[2]}, err);
	pipes_close_theirs(&pipes);
	if (r < 0)
		return -1;
	w = (struct watch){
		.limits = &run->plan->limits,
		.start_ns = c->start_ns,
		.stdin_fd = stdin_fd,
		.stdin_pipe = take_fd(&pipes.ours[0]),
		.output = {take_fd(&pipes.ours[1]), take_fd(&pipes.ours[2])},
		.cancel_fd = run->cancel_fd,
		.oom_event = -1,
		/* The next word is of its end. */
		.alive_fd = c->sock,
		.sink = run->sink,
		.ctx = c,
		.kill = kill_command,
		.clear = nothing,
	};
	watch_until_end(&w, ret);
	r = await(c, REPORT_EXITED, c->commands, ret_end, err);
	if (r < 0 && c->gone && c->last.kind == REPORT_GONE) {
		*ret_end = c->last; /* the container went, and that is what became of it */
		r = 0;
	}
	if (r == 0 && ret->cause == CAUSE_NONE)
		ret->cause = (enum cause)ret_end->cause;
	return r;
}

/* 1: the program is to run; 0: the compiler's end is the run's. */
static int compile(struct container_run *c, struct compilation *ret, struct watched *watched,
		   struct service_report *ret_end, struct cay_error *err)
{
	ret->begun = true;
	if (run_stage(c, true, watched, ret_end, err) < 0)
		return -1;
	ret->wall_ms = clock_ms_since(c->start_ns);
	ret->ended = watched->cause == CAUSE_NONE && ret_end->kind == REPORT_EXITED;
	ret->wait_status = ret_end->status;
	if (!ret->ended)
		return 0;
	c->run->sink.compiled(c->run->sink.ctx);
	return ret_end->status == 0;
}

static void add_usage(struct usage *sum, const struct usage *u)
{
	sum->cpu_ms += u->cpu_ms;
	if (u->memory_peak_bytes > sum->memory_peak_bytes)
		sum->memory_peak_bytes = u->memory_peak_bytes;
	if (u->processes_peak > sum->processes_peak)
		sum->processes_peak = u->processes_peak;
}

static int run_program(struct container_run *c, struct result *ret, struct cay_error *err)
{
	const struct run *run = c->run;
	struct service_report end = {0};
	struct watched watched;
	int go_on = 1;

	c->start_ns = clock_now_ns();
	if (run->plan->compile.len > 0) {
		go_on = compile(c, &ret->compile, &watched, &end, err);
		add_usage(&ret->usage, &end.usage);
	}
	if (go_on < 0 || (go_on > 0 && run_stage(c, false, &watched, &end, err) < 0))
		return -1;
	if (go_on > 0)
		add_usage(&ret->usage, &end.usage);
	ret->usage.wall_ms = clock_ms_since(c->start_ns);
	watch_conclude(&watched, &run->plan->limits, end.status, ret);
	return 0;
}

static int run_in(struct container_run *c, struct result *ret, struct cay_error *err)
{
	struct service_request make = {.kind = SERVICE_MAKE, .flags = FLAG_OWN};
	struct service_report report;

	if (ask(c, &make, c->run->plan, NULL, err) < 0 ||
	    await(c, REPORT_READY, 0, &report, err) < 0)
		return -1;
	ret->isolation = report.isolation;
	if (with_files(c, c->run->files_in, true, err) < 0 || run_program(c, ret, err) < 0)
		return -1;
	/* Where the container is gone, so are its files. */
	return c->gone ? 0 : with_files(c, c->run->files_out, false, err);
}

static void tell_pull(void *ctx, const struct docker_pull *p)
{
	const struct run *run = ctx;
	char words[256] = "";

	if (!run->pulling)
		return;
	if (p && p->total_bytes)
		(void)snprintf(words, sizeof(words), "%s %.64s %.1f of %.1f MB",
			       p->layer ? p->layer : "", p->words ? p->words : "",
			       (double)p->now_bytes / 1e6, (double)p->total_bytes / 1e6);
	else if (p)
		(void)snprintf(words, sizeof(words), "%s %.64s", p->layer ? p->layer : "",
			       p->words ? p->words : "");
	run->pulling(run->pulling_ctx, words);
}

static int start_keeper(struct container_run *c, struct cay_error *err)
{
	const struct run *run = c->run;
	enum spec_engine engine = (enum spec_engine)run->plan->engine;
	char owner[SWEEP_OWNER_SIZE];
	struct keeper_config config = {
		.rules = run->rules,
		.owner = owner,
		.runtime = place_settings(engine, run->settings)->runtime,
		.may_pull = run->settings->images_pull == PULL_MISSING,
		.pulled = tell_pull,
		.ctx = (void *)(uintptr_t)run,
	};
	int ends[2], r;

	if (place_find(engine, run->settings, &config.place, err) < 0)
		return -1;
	r = sweep_owner(owner);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "say whose container it is");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start a keeper");
	c->keeper = fork();
	if (c->keeper == 0) {
		(void)close(ends[0]);
		_exit(keeper_serve(ends[1], &config));
	}
	(void)close(ends[1]);
	c->sock = ends[0];
	return c->keeper < 0 ? cay_fail(err, CAY_E_AT_CAPACITY, errno, "start a keeper") : 0;
}

/* Only when the container is removed, and told of; then there is nothing left of it. */
static void end_keeper(struct container_run *c)
{
	struct service_report report;

	if (c->keeper <= 0)
		return;
	if (!c->gone)
		end_container(c);
	while (next_report(c, &report) == 0)
		;
	fd_closep(&c->sock);
	while (waitpid(c->keeper, NULL, 0) < 0 && errno == EINTR)
		;
}

int container_run(const struct run *run, struct result *ret, struct cay_error *err)
{
	struct container_run c = {.run = run, .sock = -1};
	struct watched cancelled = {.cause = CAUSE_CANCELLED};
	char name[IMAGE_REF_SIZE];
	int r = start_keeper(&c, err);

	if (r == 0)
		r = run_in(&c, ret, err);
	end_keeper(&c);
	if (c.cancelled) {
		cancelled.signal = c.signal;
		watch_conclude(&cancelled, &run->plan->limits, -1, ret);
		r = 0;
	}
	if (r == 0 && !c.cancelled &&
	    c.last.kind == REPORT_FAILED) { /* the container could not be removed */
		*err = c.last.error;
		r = -1;
	}
	image_name_short(plan_container_image(run->plan), name);
	ret->image = strdup(name);
	return r;
}
