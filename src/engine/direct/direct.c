/*
 * The direct engine: no sandbox at all, for those who ask for it by name. Time,
 * output and what rlimits can do still hold; the result says what does not.
 */
#include "engine/engine.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/pipes.h"
#include "engine/sys.h"
#include "engine/unboxed.h"
#include "engine/watch.h"
#include "engine/workspace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct direct {
	pid_t pid; /* leader of its process group */
	int pidfd;
	struct workspace workspace; /* its home is another directory where one was named */
	int workspace_fd;
};

static void kill_group(void *ctx)
{
	const struct direct *d = ctx;

	(void)kill(-d->pid, SIGKILL);
}

_noreturn_ static void child(const struct plan *p, const struct direct *d, const int stdio[3],
			     int report, char **argv, char **env)
{
	sigset_t none;
	int saved;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && setpgid(0, 0) == 0 &&
	    unboxed_limit(&p->limits) == 0 && unboxed_enter(&d->workspace, p) == 0 &&
	    dup2(stdio[0], 0) == 0 && dup2(stdio[1], 1) == 1 && dup2(stdio[2], 2) == 2 &&
	    sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		(void)execvpe(argv[0], argv, env);
	saved = errno;
	(void)fd_write_all(report, &saved, sizeof(saved));
	_exit(127);
}

/* HOME and the working directory are the workspace, whatever it is called here. */
static int start(const struct plan *p, struct direct *d, struct plan_list words, const int stdio[3],
		 struct cay_error *err)
{
	_cleanup_(strv_done) struct strv argv = {0}, env = {0};
	int report[2] = {-1, -1}, failed = 0, r = -1;

	if (unboxed_words(&argv, &d->workspace, p, words) < 0 ||
	    unboxed_words(&env, &d->workspace, p, p->env) < 0 || pipe2(report, O_CLOEXEC) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start the program");
	assert(argv.items); /* a plan has a program, and a compiler where this is called for one */
	d->pid = fork();
	if (d->pid == 0)
		child(p, d, stdio, report[1], argv.items, env.items);
	(void)setpgid(d->pid, d->pid); /* both sides do it: whoever comes first */
	fd_closep(&report[1]);
	if (d->pid < 0) {
		(void)cay_fail(err, CAY_E_INTERNAL, errno, "start the program");
	} else if (fd_read_exact(report[0], &failed, sizeof(failed)) == 0) {
		(void)waitpid(d->pid, NULL, 0);
		(void)cay_fail(err, failed == ENOENT ? CAY_E_NOT_FOUND : CAY_E_INVALID, failed,
			       "%s can't be executed", argv.items[0]);
		err->exit_code = failed == ENOENT ? 127 : 126;
	} else {
		fd_closep(&d->pidfd);
		d->pidfd = sys_pidfd_open(d->pid);
		r = d->pidfd < 0 ? cay_fail(err, CAY_E_INTERNAL, errno, "watch the program") : 0;
	}
	fd_closep(&report[0]);
	return r;
}

static int open_workspace(const struct plan *p, struct direct *d, struct cay_error *err)
{
	const char *dir = NULL;
	int r;

	for (uint32_t n = 0; n < p->n_mounts; n++) {
		if (p->mounts[n].kind == MOUNT_OPERATOR)
			continue;
		if (strcmp(plan_str(p, p->mounts[n].target), ISLAND_WORKSPACE) != 0) {
			(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
				       "the direct engine has no mounts: --volume can't be given");
			return cay_hint(err, "it runs on the host's own files");
		}
		dir = plan_str(p, p->mounts[n].source);
	}
	r = dir && p->compile.len == 0
		    ? 0
		    : workspace_make(&d->workspace, geteuid(), getegid(), p->compile.len > 0);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "make a workspace");
	if (!dir)
		dir = d->workspace.home;
	d->workspace_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->workspace_fd < 0 ||
	    fd_real_path(d->workspace_fd, d->workspace.home, sizeof(d->workspace.home)) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "the workspace %s", dir);
	return 0;
}

static int with_files(const struct run *run, const struct direct *d, island_files_fn *fn,
		      struct cay_error *err)
{
	struct island_files files = {.workspace = d->workspace_fd, .tmp = -1};

	return fn ? fn(run->files_ctx, &files, err) : 0;
}

static void read_usage(struct usage *u, const struct rusage *r, uint64_t start_ns)
{
	u->wall_ms = clock_ms_since(start_ns);
	u->cpu_ms = (double)clock_cpu_us(r) / 1e3;
	u->memory_peak_bytes = (uint64_t)r->ru_maxrss * 1024;
}

/* One process and all it starts, to its end. *ret_status: from wait(). */
static int run_stage(const struct run *run, struct direct *d, bool compiler, uint64_t start_ns,
		     struct watched *ret, int *ret_status, struct rusage *ret_used,
		     struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	int stdin_fd = compiler ? -1 : run->stdin_fd;
	struct watch w;

	if (pipes_open(&pipes, stdin_fd >= 0, err) < 0)
		return -1;
	/* What a compiler says is about itself, on whichever stream. */
	if (start(run->plan, d, compiler ? run->plan->compile : run->plan->argv,
		  (int[3]){pipes.theirs[0], pipes.theirs[compiler ? 2 : 1], pipes.theirs[2]},
		  err) < 0)
		return -1;
	pipes_close_theirs(&pipes);
	w = (struct watch){
		.limits = &run->plan->limits,
		.start_ns = start_ns,
		.stdin_fd = stdin_fd,
		.stdin_pipe = take_fd(&pipes.ours[0]),
		.output = {take_fd(&pipes.ours[1]), take_fd(&pipes.ours[2])},
		.cancel_fd = run->cancel_fd,
		.oom_event = -1,
		.alive_fd = d->pidfd,
		.sink = run->sink,
		.ctx = d,
		.kill = kill_group,
	};
	watch_until_end(&w, ret);
	*ret_status = -1;
	(void)wait4(d->pid, ret_status, 0, ret_used);
	return 0;
}

/* Whether the program is to run, or the compiler's end is the run's. */
static int compile(const struct run *run, struct direct *d, uint64_t start_ns,
		   struct compilation *ret, struct watched *watched, int *ret_status,
		   struct rusage *ret_used, struct cay_error *err)
{
	ret->begun = true;
	if (run_stage(run, d, true, start_ns, watched, ret_status, ret_used, err) < 0)
		return -1;
	ret->wall_ms = clock_ms_since(start_ns);
	ret->ended = watched->cause == CAUSE_NONE;
	ret->wait_status = *ret_status;
	if (!ret->ended)
		return 0;
	run->sink.compiled(run->sink.ctx);
	return *ret_status == 0;
}

static int run_in(const struct run *run, struct direct *d, struct result *ret,
		  struct cay_error *err)
{
	uint64_t start_ns = clock_now_ns();
	struct watched watched;
	struct rusage used = {0};
	int status = -1, go_on = 1;

	if (with_files(run, d, run->files_in, err) < 0)
		return -1;
	if (run->plan->compile.len > 0)
		go_on = compile(run, d, start_ns, &ret->compile, &watched, &status, &used, err);
	if (go_on < 0 ||
	    (go_on && run_stage(run, d, false, start_ns, &watched, &status, &used, err) < 0))
		return -1;
	read_usage(&ret->usage, &used, start_ns);
	watch_conclude(&watched, &run->plan->limits, status, ret);
	result_warn(ret, geteuid());
	return with_files(run, d, run->files_out, err);
}

int direct_run(const struct run *run, struct result *ret, struct cay_error *err)
{
	struct direct d = {.pid = -1, .pidfd = -1, .workspace_fd = -1};
	int r = open_workspace(run->plan, &d, err);

	ret->isolation = (struct isolation){
		.user = HOLD_NONE,
		.memory = HOLD_NONE,
		.pids = HOLD_NONE,
		.cpu = HOLD_NONE,
		.disk = HOLD_NONE,
		.seccomp = HOLD_NONE,
		.network = HOLD_HOST,
		.capabilities = HOLD_KEPT,
	};
	if (r == 0)
		r = run_in(run, &d, ret, err);
	fd_closep(&d.pidfd);
	fd_closep(&d.workspace_fd);
	workspace_remove(&d.workspace);
	return r;
}
