#include "engine/container/inside.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "engine/agent.h"
#include "engine/landlock.h"
#include "engine/rlimit.h"
#include "engine/self.h"
#include "engine/sys.h"
#include "policy/command.h"
#include "policy/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Thousandths of the memory, beside its own size: programs go before PID 1 does. */
#define PROGRAM_OOM_SCORE "600"

extern char **environ;

void inside_ends_done(struct inside_ends *e)
{
	for (int n = 0; n < 3; n++)
		fd_closep(&e->theirs[n]);
	for (int n = 0; n < (int)WIRE_STREAMS; n++)
		fd_closep(&e->ours[n]);
}

/* Ends that are to become 0, 1, 2 must not overwrite each other there. */
static int two(int made, int ends[2], int *ret_ours, int *ret_theirs, int ours)
{
	if (made < 0)
		return -1;
	*ret_ours = fd_above_stdio(ends[ours]);
	*ret_theirs = fd_above_stdio(ends[!ours]);
	return *ret_ours < 0 || *ret_theirs < 0 ? -1 : 0;
}

static int open_input(const struct wire_order *o, struct inside_ends *e)
{
	int ends[2];

	if (o->input)
		return two(pipe2(ends, O_CLOEXEC), ends, &e->ours[WIRE_IN], &e->theirs[0], 1);
	e->theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return e->theirs[0] < 0 ? -1 : 0;
}

static int open_outputs(struct inside_ends *e)
{
	int ends[2];

	if (two(pipe2(ends, O_CLOEXEC), ends, &e->ours[WIRE_OUT], &e->theirs[1], 0) < 0)
		return -1;
	return two(pipe2(ends, O_CLOEXEC), ends, &e->ours[WIRE_ERR], &e->theirs[2], 0);
}

static int open_terminal(const struct wire_order *o, struct inside_ends *e)
{
	struct winsize size = {.ws_row = (unsigned short)o->rows,
			       .ws_col = (unsigned short)o->columns};
	int unlock = 0, master;

	master = e->ours[WIRE_OUT] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -1;
	if (o->rows && o->columns)
		(void)ioctl(master, TIOCSWINSZ, &size);
	e->ours[WIRE_IN] = fcntl(master, F_DUPFD_CLOEXEC, 3);
	e->theirs[0] = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	for (int n = 1; n < 3 && e->theirs[0] >= 0; n++)
		e->theirs[n] = fcntl(e->theirs[0], F_DUPFD_CLOEXEC, 3);
	return e->ours[WIRE_IN] < 0 || e->theirs[0] < 0 || e->theirs[2] < 0 ? -1 : 0;
}

static int open_channel(struct inside_ends *e)
{
	int ends[2];

	if (two(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ends, &e->ours[WIRE_IN],
		&e->theirs[0], 0) < 0)
		return -1;
	e->ours[WIRE_BACK] = fcntl(e->ours[WIRE_IN], F_DUPFD_CLOEXEC, 3);
	return e->ours[WIRE_BACK] < 0 ? -1 : open_outputs(e);
}

int inside_ends_open(const struct wire_order *o, struct inside_ends *ret, struct cay_error *err)
{
	int r;

	if (o->flags & ORDER_TERMINAL)
		r = open_terminal(o, ret);
	else if (o->flags & ORDER_CHANNEL)
		r = open_channel(ret);
	else
		r = open_input(o, ret) < 0 ? -1 : open_outputs(ret);
	return r < 0 ? cay_fail(err, CAY_E_AT_CAPACITY, errno, "make what it reads and prints by")
		     : 0;
}

_noreturn_ static void give_up(int word, const struct cay_error *err)
{
	struct inside_word w = {.error = *err};

	(void)fd_write_all(word, &w, sizeof(w));
	_exit(125);
}

static int fail(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_ENGINE, errno, "%s", what);
}

static int set_limits(const struct limits *l, struct cay_error *err)
{
	const struct {
		int resource;
		uint64_t value;
	} limits[] = {
		{RLIMIT_CORE, CORE_LIMIT},
		{RLIMIT_NOFILE, l->open_files},
		{RLIMIT_FSIZE, l->file_size_bytes ? l->file_size_bytes : RLIM_INFINITY},
		{RLIMIT_CPU, l->cpu_time_ms ? (l->cpu_time_ms + 999) / 1000 : RLIM_INFINITY},
		{RLIMIT_MEMLOCK, 8 << 20},
		{RLIMIT_MSGQUEUE, 819200},
		{RLIMIT_SIGPENDING, 4096},
	};

	for (size_t n = 0; n < ARRAY_LEN(limits); n++)
		if (rlimit_lower((int)limits[n].resource, limits[n].value) < 0)
			return fail(err, "set resource limits");
	return 0;
}

/* As many CPUs as may be used are in sight, so that programs size their thread pools by that. */
static int show_cpus(const struct limits *l, struct cay_error *err)
{
	uint64_t want = (l->cpus_milli + 999) / 1000;
	int now = sched_getcpu();
	cpu_set_t have, use;

	if (now < 0 || sched_getaffinity(0, sizeof(have), &have) < 0)
		return fail(err, "read the CPUs");
	if (want >= (uint64_t)CPU_COUNT(&have))
		return 0;
	CPU_ZERO(&use);
	for (unsigned k = 0; k < CPU_SETSIZE && want > 0; k++) {
		unsigned cpu = ((unsigned)now + k) % CPU_SETSIZE;

		if (CPU_ISSET(cpu, &have)) {
			CPU_SET(cpu, &use);
			want--;
		}
	}
	return sched_setaffinity(0, sizeof(use), &use) < 0 ? fail(err, "set the CPUs") : 0;
}

static int connect_stdio(const struct wire_order *o, const struct inside_ends *e,
			 struct cay_error *err)
{
	if (setsid() < 0)
		return fail(err, "make a session");
	if (o->flags & ORDER_TERMINAL && ioctl(e->theirs[0], TIOCSCTTY, 0) < 0)
		return fail(err, "take the terminal");
	for (int n = 0; n < 3; n++)
		if (dup2(e->theirs[n], n) < 0)
			return fail(err, "connect standard input and output");
	return 0;
}

/* Nothing of PID 1's stays open: only what says how it went, which closes on exec. */
static int close_others(int *word, struct cay_error *err)
{
	int r = fd_close_others(word, 1);

	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "close what is not the program's") : 0;
}

static int confine_files(const struct plan *p, struct cay_error *err)
{
	const char *scratch[] = {"/tmp", "/dev/shm", NULL, NULL, NULL};
	const char *host_dirs[PLAN_MOUNTS_MAX + 1] = {NULL};
	size_t n_scratch = 2, len = 0;
	int r;

	/* A container's own filter may deny it: the facts say that there is none. */
	if (landlock_abi() <= 0)
		return 0;
	if (p->scratch_workspace)
		scratch[n_scratch++] = ISLAND_WORKSPACE;
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (p->mounts[n].access == ACCESS_WRITE)
			host_dirs[len++] = plan_str(p, p->mounts[n].target);
	if (p->writable)
		scratch[n_scratch++] = "/";
	r = landlock_confine(scratch, host_dirs);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "confine files by Landlock") : 0;
}

/* The last of all, as for this moment another of its user's could look into it. */
static void go_first(void)
{
	(void)prctl(PR_SET_DUMPABLE, 1);
	(void)fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", PROGRAM_OOM_SCORE);
	(void)prctl(PR_SET_DUMPABLE, 0);
}

static int enter(const char *dir, struct cay_error *err)
{
	if (chdir(dir) == 0)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, errno, "the working directory %s", dir);
	return cay_hint(err, "it must exist on the island: /workspace, /tmp, a mount, or put");
}

/* What the image says of its environment is ours; the plan's wins. */
static int merge_env(const struct plan *p, struct strv *env)
{
	const char *s = plan_first(p, p->env);
	int r = 0;

	for (char **e = environ; *e && r == 0; e++)
		r = strv_add(env, *e);
	for (uint32_t n = 0; n < p->env.len && r == 0; n++, s = plan_next(s)) {
		size_t len = strcspn(s, "=");
		char *name = strndup(s, len);

		r = name ? strv_set_env(env, name, s[len] ? s + len + 1 : "") : -ENOMEM;
		free(name);
	}
	return r;
}

static int words_of(const struct plan *p, struct plan_list l, struct strv *ret)
{
	const char *s = plan_first(p, l);
	int r = 0;

	for (uint32_t n = 0; n < l.len && r == 0; n++, s = plan_next(s))
		r = strv_add(ret, s);
	return r;
}

static int execute(char *const *argv, char *const *env, struct cay_error *err)
{
	(void)execute_search(argv, env);
	if (errno == ENOENT || errno == ENOTDIR)
		(void)cay_fail(err, CAY_E_NOT_FOUND, 0, "%s: command not found on the island",
			       argv[0]);
	else
		(void)cay_fail(err, CAY_E_INVALID, errno, "%s can't be executed", argv[0]);
	if (strncmp(argv[0], ISLAND_BUILD "/", strlen(ISLAND_BUILD "/")) == 0)
		(void)cay_hint(err, "the compiler made no program: has the source a main?");
	err->exit_code = err->code == CAY_E_NOT_FOUND ? 127 : 126;
	return -1;
}

static int become_program(const struct plan *island, const struct wire_order *o,
			  const struct plan *p, struct cay_error *err)
{
	struct strv argv = {0}, env = {0};
	bool compile = o->flags & ORDER_COMPILE;

	if (compile && mkdir(ISLAND_BUILD, 0700) < 0 && errno != EEXIST)
		return fail(err, "make the compiler's directory");
	if (words_of(p, compile ? p->compile : p->argv, &argv) < 0 || !argv.items ||
	    merge_env(p, &env) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the program");
	if (show_cpus(&island->limits, err) < 0 || set_limits(&p->limits, err) < 0 ||
	    confine_files(island, err) < 0 || enter(plan_str(p, p->workdir), err) < 0)
		return -1;
	go_first();
	return execute(argv.items, env.items, err);
}

_noreturn_ void inside_become(const struct plan *island, const struct wire_order *o,
			      const struct plan *p, const struct inside_ends *ends, int word)
{
	struct cay_error err;
	sigset_t none;

	(void)sigemptyset(&none);
	signals_reset();
	if (connect_stdio(o, ends, &err) < 0 || close_others(&word, &err) < 0 ||
	    sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		give_up(word, &err);
	if (!(o->flags & ORDER_AGENT)) {
		(void)become_program(island, o, p, &err);
		give_up(word, &err);
	}
	if (set_limits(&island->limits, &err) < 0 || confine_files(island, &err) < 0)
		give_up(word, &err);
	(void)close(word);
	_exit(agent_serve(ISLAND_WORKSPACE, STDIN_FILENO, STDOUT_FILENO, -1) < 0);
}
