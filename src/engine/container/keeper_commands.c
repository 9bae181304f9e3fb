#include "engine/container/keeper_impl.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* What was told to end in there has so long to do it. */
#define GRACE_MS 3000
/* How often it is seen whether a terminal has another size. */
#define SIZE_MS 150

struct keeper_command *keeper_command_find(struct keeper *k, uint32_t number)
{
	struct keeper_command *c = k->commands;

	while (c && (c->number != number || c->ended))
		c = c->next;
	return c;
}

void keeper_command_free(struct keeper_command *c)
{
	struct keeper *k = c->keeper;
	struct keeper_command **at = &k->commands;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	loop_cancel(k->loop, &c->deadline);
	loop_cancel(k->loop, &c->sized);
	free(c);
}

static void on_grace(struct loop_timer *t)
{
	struct keeper_command *c = t->ctx;

	keeper_end(c->keeper, c->cause);
}

/*
 * PID 1 ends it, and passes on what it had printed by then. One that does not get to it, or whose
 * engine is stuck, goes with its container.
 */
void keeper_command_kill(struct keeper_command *c, enum cause cause)
{
	struct keeper *k = c->keeper;
	bool own = k->own || k->single;

	if (c->cause == CAUSE_NONE)
		c->cause = cause;
	if (k->frozen)
		return;
	(void)relay_say(&k->wire, WIRE_CLEAR, own ? 0 : c->number, NULL, 0, NULL, 0);
	c->deadline.fire = on_grace;
	(void)loop_after(k->loop, &c->deadline, GRACE_MS);
}

static void on_deadline(struct loop_timer *t)
{
	keeper_command_kill(t->ctx, CAUSE_TIMEOUT);
}

static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static void read_size(struct keeper_command *c)
{
	struct wire_size now;
	struct winsize w;
	int fd = relay_fd(&c->keeper->wire, c->number, WIRE_OUT);

	if (fd < 0 || ioctl(fd, TIOCGWINSZ, &w) < 0 ||
	    (w.ws_row == c->rows && w.ws_col == c->columns))
		return;
	now = (struct wire_size){.rows = c->rows = w.ws_row, .columns = c->columns = w.ws_col};
	(void)relay_say(&c->keeper->wire, WIRE_SIZE, c->number, &now, sizeof(now), NULL, 0);
}

static void on_sized(struct loop_timer *t)
{
	struct keeper_command *c = t->ctx;

	read_size(c);
	(void)loop_after(c->keeper->loop, t, SIZE_MS);
}

/* A terminal of the host's, whose program is PID 1's: what is typed goes as it is. */
static int open_terminal(struct keeper_command *c, int sock, struct wire_order *o)
{
	struct keeper *k = c->keeper;
	_cleanup_(fd_closep) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios raw;
	struct winsize size;
	int unlock = 0, slave, r;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	if (recv(sock, &size, sizeof(size), MSG_DONTWAIT) == (ssize_t)sizeof(size)) {
		(void)ioctl(master, TIOCSWINSZ, &size);
		o->rows = c->rows = size.ws_row;
		o->columns = c->columns = size.ws_col;
	}
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || tcgetattr(slave, &raw) < 0)
		return -errno;
	cfmakeraw(&raw);
	(void)tcsetattr(slave, TCSANOW, &raw);
	r = relay_from(&k->wire, c->number, WIRE_IN, slave);
	if (r == 0)
		r = relay_to(&k->wire, c->number, WIRE_OUT, fcntl(slave, F_DUPFD_CLOEXEC, 3));
	if (r == 0)
		r = msg_send(sock, "", 1, &master, 1);
	c->sized = (struct loop_timer){.fire = on_sized, .ctx = c};
	return r < 0 ? r : loop_after(k->loop, &c->sized, SIZE_MS);
}

static int open_channel(struct keeper_command *c, int sock)
{
	struct relay *w = &c->keeper->wire;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	r = msg_send(sock, "", 1, &ends[0], 1);
	(void)close(ends[0]);
	if (r == 0)
		r = relay_to(w, c->number, WIRE_BACK, fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
	if (r < 0) {
		(void)close(ends[1]);
		return r;
	}
	return relay_from(w, c->number, WIRE_IN, ends[1]);
}

static int open_outputs(struct keeper_command *c, int fds[3])
{
	struct relay *w = &c->keeper->wire;
	int r = relay_to(w, c->number, WIRE_OUT, take_fd(&fds[1]));

	return r < 0 ? r : relay_to(w, c->number, WIRE_ERR, take_fd(&fds[2]));
}

static int open_streams(struct keeper_command *c, int fds[3], struct wire_order *o)
{
	int r = 0;

	if (c->flags & ORDER_TERMINAL)
		return open_terminal(c, fds[0], o);
	if (c->flags & ORDER_CHANNEL)
		r = open_channel(c, fds[0]);
	else if (!is_null(fds[0])) {
		o->input = 1;
		r = relay_from(&c->keeper->wire, c->number, WIRE_IN, take_fd(&fds[0]));
	}
	return r < 0 ? r : open_outputs(c, fds);
}

static struct keeper_command *command_new(struct keeper *k, const struct service_request *q,
					  uint32_t number, const struct plan *p)
{
	struct keeper_command *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct keeper_command){
		.keeper = k,
		.number = number,
		.flags = q->flags,
		.cpu_time_ms = q->cpu_time_ms ? q->cpu_time_ms : p->limits.cpu_time_ms,
		.deadline = {.fire = on_deadline, .ctx = c},
		.next = k->commands,
	};
	if (q->flags & ORDER_AGENT)
		c->cpu_time_ms = 0;
	k->commands = c;
	return c;
}

int keeper_command_start(struct keeper *k, const struct service_request *q, uint32_t number,
			 const struct plan *p, int fds[3], struct cay_error *err)
{
	struct keeper_command *c = command_new(k, q, number, p);
	bool agent = q->flags & ORDER_AGENT;
	struct wire_order o = {
		.flags = q->flags & ORDER_FLAGS_ALL,
		.own = (k->own || k->single) && !agent,
	};
	int r;

	if (!c)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start a command");
	o.clock = c->cpu_time_ms > 0;
	r = open_streams(c, fds, &o);
	if (r == 0)
		r = loop_after(k->loop, &c->deadline,
			       q->timeout_ms ? q->timeout_ms : p->limits.timeout_ms);
	if (r == 0)
		(void)relay_say(&k->wire, WIRE_ASK_USE, 0, NULL, 0, NULL, 0);
	if (r == 0)
		r = relay_say(&k->wire, WIRE_ORDER, number, &o, sizeof(o), agent ? NULL : p,
			      agent ? 0 : p->size);
	if (r == 0)
		return 0;
	relay_drop(&k->wire, number);
	keeper_command_free(c);
	return cay_fail(err, CAY_E_ENGINE, -r, "start a command in the container");
}

void keeper_command_stream(struct keeper *k, uint32_t number)
{
	struct keeper_command *c = k->commands;

	while (c && c->number != number)
		c = c->next;
	if (!c)
		return;
	/* With one direction the other is over; else nobody would be told of the end. */
	if ((c->flags & ORDER_TERMINAL && relay_fd(&k->wire, number, WIRE_OUT) < 0) ||
	    (c->flags & ORDER_CHANNEL && relay_fd(&k->wire, number, WIRE_BACK) < 0 &&
	     relay_fd(&k->wire, number, WIRE_OUT) < 0))
		relay_drop(&k->wire, number);
	if (c->ended && relay_open(&k->wire, number) == 0)
		keeper_command_free(c);
}

/* A process was killed for memory: whose was it? What stays may only be the last that is left. */
static void ran_out(struct keeper *k)
{
	struct keeper_command *only = NULL;
	size_t n = 0;

	for (struct keeper_command *c = k->commands; c; c = c->next)
		if (!c->ended) {
			only = c;
			n++;
		}
	if (n == 1 && !(only->flags & FLAG_STAYS))
		keeper_command_kill(only, CAUSE_MEMORY);
}

/* What is told may be less than it was: then it is nothing. */
static uint64_t cpu_us_since(const struct keeper_command *c, const struct wire_use *use)
{
	return use->cpu_us > c->cpu_before_us ? use->cpu_us - c->cpu_before_us : 0;
}

void keeper_used(struct keeper *k, const struct wire_use *use)
{
	bool more = use->oom_kills > k->oom_kills;

	k->use = *use;
	k->oom_kills = use->oom_kills;
	for (struct keeper_command *c = k->commands; c; c = c->next) {
		if (!c->cpu_known)
			c->cpu_before_us = use->cpu_us;
		c->cpu_known = true;
		if (c->cpu_time_ms && !c->ended && c->cause == CAUSE_NONE &&
		    cpu_us_since(c, use) / 1000 >= c->cpu_time_ms)
			keeper_command_kill(c, CAUSE_CPU_TIME);
	}
	if (more)
		ran_out(k);
}

struct usage keeper_command_usage(const struct keeper *k, uint32_t number)
{
	struct usage u = {.cpu_ms = NAN, .memory_peak_bytes = k->use.memory_peak_bytes};
	const struct keeper_command *its = NULL;
	size_t n = 0;

	for (const struct keeper_command *c = k->commands; c; c = c->next) {
		n += !c->ended && !(c->flags & ORDER_AGENT);
		its = c->number == number && !c->ended ? c : its;
	}
	if (its && n == 1 && its->cpu_known)
		u.cpu_ms = (double)cpu_us_since(its, &k->use) / 1e3;
	return u;
}

static struct usage usage_of(const struct keeper_command *c, const struct wire_end *end)
{
	const struct keeper *k = c->keeper;
	double all_ms = c->cpu_known ? (double)cpu_us_since(c, &end->use) / 1e3 : 0;
	double waited_ms = (double)end->cpu_us / 1e3;
	struct usage u = {.memory_peak_bytes = end->memory_peak_bytes};

	u.cpu_ms = all_ms > waited_ms ? all_ms : waited_ms;
	if ((k->own || k->single) && end->use.memory_peak_bytes)
		u.memory_peak_bytes = end->use.memory_peak_bytes;
	if (k->own || k->single)
		u.processes_peak = end->use.processes_peak > 1 ? end->use.processes_peak - 1 : 0;
	return u;
}

void keeper_command_ended(struct keeper_command *c, const struct wire_end *end)
{
	struct keeper *k = c->keeper;
	struct service_report r = {
		.kind = REPORT_EXITED,
		.island = k->number,
		.command = c->number,
		.status = end->status,
	};

	if (c->cause == CAUSE_NONE && WIFSIGNALED(end->status) &&
	    WTERMSIG(end->status) == SIGKILL && end->use.oom_kills > k->oom_kills)
		c->cause = CAUSE_MEMORY;
	k->oom_kills = end->use.oom_kills;
	k->use = end->use;
	r.cause = (uint32_t)c->cause;
	r.usage = usage_of(c, end);
	c->ended = true;
	loop_cancel(k->loop, &c->deadline);
	loop_cancel(k->loop, &c->sized);
	if (k->single) {
		k->status = end->status;
		k->usage = r.usage;
		k->cause = c->cause;
	} else {
		keeper_report(k, &r);
	}
	if (relay_open(&k->wire, c->number) == 0)
		keeper_command_free(c);
}
