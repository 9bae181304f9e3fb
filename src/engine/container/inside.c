#include "engine/container/inside.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/container/facts.h"
#include "engine/processes.h"
#include "engine/seccomp.h"
#include "engine/self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often memory and CPU time are looked at, while something runs. */
#define TICK_MS       250
#define TICK_CLOCK_MS 40

static void refuse(struct inside *in, uint32_t command, const struct cay_error *err)
{
	(void)relay_say(&in->wire, WIRE_FAILED, command, err, sizeof(*err), NULL, 0);
}

static struct inside_command *command_find(struct inside *in, uint32_t number)
{
	for (size_t n = 0; n < WIRE_COMMANDS; n++)
		if (in->commands[n].pid > 0 && in->commands[n].number == number)
			return &in->commands[n];
	return NULL;
}

/* The plan behind a head; a copy, in memory as a plan needs it. NULL: it is none. */
static struct plan *take_plan(const void *data, size_t len, struct cay_error *err)
{
	struct plan *p = malloc(len ? len : 1);

	if (!p) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the plan");
		return NULL;
	}
	memcpy(p, data, len);
	if (plan_check(p, len, err) == 0)
		return p;
	free(p);
	return NULL;
}

/* p: taken over where it works. */
static int hold(struct inside *in, struct plan *p, const struct wire_setup *who,
		const struct wire_mount *mounts, struct cay_error *err)
{
	struct wire_facts facts;
	int r;

	if (p->n_mounts != who->n_mounts)
		return cay_fail(err, CAY_E_INVALID, 0, "not what its mounts are");
	if (inside_check_mounts(p, mounts, err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "set no_new_privs");
	r = syscall_filter_load(plan_may_set_ids(p));
	if (r < 0)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "load the system call filter");
	if (inside_facts(&facts, err) < 0 || facts_hold(&facts, p, who, err) < 0)
		return -1;
	in->plan = p;
	return relay_say(&in->wire, WIRE_READY, 0, &facts, sizeof(facts), NULL, 0);
}

/* Where it fails there is no plan, and no order is obeyed. */
static int be_made_for(struct inside *in, const struct wire_head *h, const void *body,
		       struct cay_error *err)
{
	struct wire_mount mounts[PLAN_MOUNTS_MAX];
	struct wire_setup setup;
	struct plan *p;
	size_t at = sizeof(setup);
	bool again = in->told;

	in->told = true;
	memcpy(&setup, body, sizeof(setup));
	if (again || setup.n_mounts > PLAN_MOUNTS_MAX ||
	    h->len - at < setup.n_mounts * sizeof(mounts[0]))
		return cay_fail(err, CAY_E_INVALID, 0, "not what a container is made for");
	memcpy(mounts, (const char *)body + at, setup.n_mounts * sizeof(mounts[0]));
	at += setup.n_mounts * sizeof(mounts[0]);
	p = take_plan((const char *)body + at, h->len - at, err);
	if (!p)
		return -1;
	if (hold(in, p, &setup, mounts, err) == 0)
		return 0;
	if (in->plan != p)
		free(p);
	return -1;
}

static bool any_runs(const struct inside *in, bool *ret_clock)
{
	bool runs = false;

	*ret_clock = false;
	for (size_t n = 0; n < WIRE_COMMANDS; n++) {
		runs |= in->commands[n].pid > 0;
		*ret_clock |= in->commands[n].pid > 0 && in->commands[n].clock;
	}
	return runs;
}

static void tell_use(struct inside *in)
{
	struct wire_use use;

	inside_use(&use);
	in->oom_told = use.oom_kills;
	(void)relay_say(&in->wire, WIRE_USE, 0, &use, sizeof(use), NULL, 0);
}

static void set_tick(struct inside *in)
{
	bool clock;

	if (any_runs(in, &clock))
		(void)loop_after(in->loop, &in->tick, clock ? TICK_CLOCK_MS : TICK_MS);
	else
		loop_cancel(in->loop, &in->tick);
}

static void on_tick(struct loop_timer *t)
{
	struct inside *in = t->ctx;
	struct wire_use use;
	bool clock;

	inside_use(&use);
	if (any_runs(in, &clock) && (clock || use.oom_kills > in->oom_told)) {
		in->oom_told = use.oom_kills;
		(void)relay_say(&in->wire, WIRE_USE, 0, &use, sizeof(use), NULL, 0);
	}
	set_tick(in);
}

/* Until it is the program, its process says why it could not be that. */
static void on_word(struct loop_fd *f, uint32_t events _unused_)
{
	struct inside_command *c = f->ctx;
	struct inside *in = c->inside;
	struct inside_word word;
	ssize_t n = read(f->fd, &word, sizeof(word));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	loop_remove(in->loop, f);
	fd_closep(&f->fd);
	if (n == (ssize_t)sizeof(word)) {
		relay_drop(&in->wire, c->number);
		refuse(in, c->number, &word.error);
		c->number = 0; /* of its end nobody needs to hear */
	} else {
		(void)relay_say(&in->wire, WIRE_READY, c->number, NULL, 0, NULL, 0);
	}
}

static int relay_ends(struct inside *in, uint32_t number, struct inside_ends *e,
		      struct cay_error *err)
{
	int r = 0;

	for (unsigned s = 0; s < WIRE_STREAMS && r == 0; s++)
		if (e->ours[s] >= 0)
			r = s == WIRE_IN ? relay_to(&in->wire, number, s, take_fd(&e->ours[s]))
					 : relay_from(&in->wire, number, s, take_fd(&e->ours[s]));
	return r < 0 ? cay_fail(err, CAY_E_AT_CAPACITY, -r, "pass on what it reads and prints") : 0;
}

static struct inside_command *command_free(struct inside *in)
{
	for (size_t n = 0; n < WIRE_COMMANDS; n++)
		if (in->commands[n].pid == 0)
			return &in->commands[n];
	return NULL;
}

static int start_process(struct inside *in, struct inside_command *c, const struct wire_order *o,
			 const struct plan *p, const struct inside_ends *ends,
			 struct cay_error *err)
{
	int word[2];

	if (pipe2(word, O_CLOEXEC) < 0)
		return cay_fail(err, CAY_E_AT_CAPACITY, errno, "make a pipe");
	c->pid = fork();
	if (c->pid == 0)
		inside_become(in->plan, o, p, ends, word[1]);
	(void)close(word[1]);
	c->word = (struct loop_fd){.fd = word[0], .ready = on_word, .ctx = c};
	if (c->pid < 0 || fd_set_nonblock(word[0], 1) < 0 ||
	    loop_add(in->loop, &c->word, EPOLLIN) < 0) {
		(void)cay_fail(err, CAY_E_AT_CAPACITY, errno, "start another process there");
		(void)cay_hint(err, "the limit of processes may be reached: end some");
		if (c->pid > 0)
			(void)kill(c->pid, SIGKILL);
		c->pid = c->pid > 0 ? c->pid : 0;
		c->number = 0;
		fd_closep(&c->word.fd);
		return -1;
	}
	return 0;
}

static int start(struct inside *in, const struct wire_head *h, const void *body,
		 struct cay_error *err)
{
	_cleanup_(inside_ends_done) struct inside_ends ends = INSIDE_ENDS_NONE;
	struct inside_command *c = command_free(in);
	struct wire_order o;
	struct plan *p = NULL;
	int r;

	memcpy(&o, body, sizeof(o));
	if (!in->plan || h->command == 0 || command_find(in, h->command))
		return cay_fail(err, CAY_E_INVALID, 0, "an order at the wrong time");
	if (!c)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "%u commands run there already",
				WIRE_COMMANDS);
	if (!(o.flags & ORDER_AGENT)) {
		p = take_plan((const char *)body + sizeof(o), h->len - sizeof(o), err);
		if (!p)
			return -1;
	}
	*c = (struct inside_command){
		.number = h->command, .own = o.own, .clock = o.clock, .inside = in};
	r = inside_ends_open(&o, &ends, err);
	if (r == 0)
		r = start_process(in, c, &o, p, &ends, err);
	if (r == 0)
		r = relay_ends(in, h->command, &ends, err);
	if (r < 0 && c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		loop_remove(in->loop, &c->word);
		fd_closep(&c->word.fd);
		c->number = 0; /* of its end nobody needs to hear */
	}
	free(p);
	if (r < 0)
		relay_drop(&in->wire, h->command);
	set_tick(in);
	return r;
}

/* With all it started; others are spared, but for what they left in the background. */
static void clear(struct inside *in, uint32_t number)
{
	pid_t others[WIRE_COMMANDS];
	size_t n_others = 0;

	if (number && !command_find(in, number))
		return;
	for (size_t n = 0; n < WIRE_COMMANDS && number; n++)
		if (in->commands[n].pid > 0 && in->commands[n].number != number)
			others[n_others++] = in->commands[n].pid;
	if (n_others > 0)
		processes_kill_but(others, n_others);
	else
		(void)kill(-1, SIGKILL); /* ESRCH: there was nobody */
}

static void interrupt(struct inside *in, uint32_t number)
{
	struct inside_command *c = command_find(in, number);

	if (c)
		(void)kill(-c->pid, SIGINT);
}

static void resize(struct inside *in, const struct wire_head *h, const void *body)
{
	struct wire_size size;
	struct winsize w = {0};
	int fd = relay_fd(&in->wire, h->command, WIRE_OUT);

	memcpy(&size, body, sizeof(size));
	w.ws_row = (unsigned short)size.rows;
	w.ws_col = (unsigned short)size.columns;
	if (fd >= 0)
		(void)ioctl(fd, TIOCSWINSZ, &w);
}

static void on_said(struct relay *r, const struct wire_head *h, const void *body)
{
	struct inside *in = r->ctx;
	struct cay_error err;

	switch (h->kind) {
	case WIRE_SETUP:
		if (be_made_for(in, h, body, &err) < 0)
			refuse(in, 0, &err);
		break;
	case WIRE_ORDER:
		if (start(in, h, body, &err) < 0)
			refuse(in, h->command, &err);
		break;
	case WIRE_CLEAR:
		clear(in, h->command);
		break;
	case WIRE_INTERRUPT:
		interrupt(in, h->command);
		break;
	case WIRE_SIZE:
		resize(in, h, body);
		break;
	case WIRE_ASK_USE:
		tell_use(in);
		break;
	default:
		break;
	}
}

static void on_closed(struct relay *r _unused_, uint32_t command _unused_)
{
}

/* With us all that runs here ends. */
static void on_ended(struct relay *r, const char *why)
{
	(void)r;
	_exit(why ? 125 : 0);
}

static void tell_end(struct inside *in, struct inside_command *c, int status,
		     const struct rusage *used)
{
	struct wire_end end = {
		.status = status,
		.cpu_us = clock_cpu_us(used),
		.memory_peak_bytes = (uint64_t)used->ru_maxrss * 1024,
	};

	/* Its process may be gone before its word was heard. */
	if (c->number && c->word.fd >= 0)
		on_word(&c->word, EPOLLIN);
	inside_use(&end.use);
	in->oom_told = end.use.oom_kills;
	if (c->number)
		(void)relay_say(&in->wire, WIRE_EXITED, c->number, &end, sizeof(end), NULL, 0);
	c->pid = 0;
	if (c->own)
		clear(in, 0);
}

static void on_children(struct loop_fd *f, uint32_t events _unused_)
{
	struct inside *in = f->ctx;
	struct signalfd_siginfo unused;
	struct rusage used;
	int status;
	pid_t pid;

	(void)!read(f->fd, &unused, sizeof(unused));
	while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0 || (pid < 0 && errno == EINTR))
		for (size_t n = 0; n < WIRE_COMMANDS && pid > 0; n++)
			if (in->commands[n].pid == pid)
				tell_end(in, &in->commands[n], status, &used);
	set_tick(in);
}

static int watch_children(struct inside *in)
{
	sigset_t child;
	int fd;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &child, NULL) < 0)
		return -1;
	fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -1;
	in->children = (struct loop_fd){.fd = fd, .ready = on_children, .ctx = in};
	return loop_add(in->loop, &in->children, EPOLLIN);
}

int inside_serve(int in_fd, int out_fd)
{
	static const struct relay_events events = {on_said, on_closed, on_ended};
	static struct inside in;

	signals_reset();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return 125;
	in.tick = (struct loop_timer){.fire = on_tick, .ctx = &in};
	in.loop = loop_new();
	in.wire.events = &events;
	in.wire.ctx = &in;
	if (!in.loop || watch_children(&in) < 0 ||
	    relay_init(&in.wire, in.loop, in_fd, out_fd, false) < 0)
		return 125;
	return loop_run(in.loop) < 0 ? 125 : 0;
}
