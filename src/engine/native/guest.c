#include "engine/native/guest.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/removal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETUP_MS    30000
#define CPU_TICK_MS 20
#define AGAIN_MS    1000
#define ORDERS_MAX  256 /* that wait */

/* What was killed is dead in a moment, unless the kernel itself has to wait for something. */
#define LINGER_MS     2
#define LINGER_ROUNDS 2500

static void report(struct service *s, const struct service_report *r, const int *fds, size_t n_fds)
{
	struct service_report whole = *r;

	whole.stock = s->told = launcher_stock(&s->launcher);
	if (msg_send(s->asker.fd, &whole, sizeof(whole), fds, n_fds) < 0)
		loop_stop(s->loop); /* nobody is there any more */
}

void service_report(struct service *s, const struct service_report *r)
{
	report(s, r, NULL, 0);
}

/* With them it is the asker who has its connections carried. */
static void hand_wires_out(struct guest *g)
{
	const struct service_report r = {.kind = REPORT_NETWORK, .island = g->number};

	if (g->plan->network == NETWORK_NONE)
		return;
	report(g->service, &r, g->island.wires, EGRESS_FDS);
	wires_close(g->island.wires);
}

void service_report_failure(struct service *s, uint32_t island, uint32_t command,
			    const struct cay_error *err)
{
	struct service_report r = {
		.kind = REPORT_FAILED, .island = island, .command = command, .error = *err};

	service_report(s, &r);
}

struct guest *guest_find(struct service *s, uint32_t number)
{
	struct guest *g = s->guests[number % BUCKETS];

	while (g && g->number != number)
		g = g->next;
	return g;
}

struct command *command_known(const struct guest *g, uint32_t number)
{
	struct command *c = g->commands;

	while (c && c->number != number)
		c = c->next;
	return c;
}

struct command *command_find(const struct guest *g, uint32_t number)
{
	struct command *c = command_known(g, number);

	return c && !c->ended ? c : NULL;
}

static void stop_timers(struct command *c)
{
	loop_cancel(c->guest->service->loop, &c->deadline);
	loop_cancel(c->guest->service->loop, &c->tick);
}

static void command_free(struct command *c)
{
	struct guest *g = c->guest;
	struct command **at = &g->commands;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	stop_timers(c);
	(void)command_cgroup_remove(&g->island.cgroup, &c->cgroup);
	command_cgroup_close(&c->cgroup);
	free(c);
}

/* Those whose last processes were still dying when they ended. */
static void commands_tidy(struct guest *g)
{
	for (struct command *c = g->commands, *next; c; c = next) {
		next = c->next;
		if (c->ended && command_cgroup_remove(&g->island.cgroup, &c->cgroup) == 0)
			command_free(c);
	}
}

void guest_kill(struct guest *g, enum cause cause)
{
	if (g->cause == CAUSE_NONE)
		g->cause = cause;
	launched_kill(&g->island);
}

/* Hears it, and where orders wait, until they are taken. */
static int listen_on(struct guest *g)
{
	uint32_t events = g->island.orders.first ? EPOLLIN | EPOLLOUT : EPOLLIN;

	return loop_change(g->service->loop, &g->control, events);
}

/*
 * What runs there ends, or command alone; or all that does. An island's PID 1 can reach
 * everything on it; without one, each command's cgroup does.
 */
static void guest_clear(struct guest *g, uint32_t command)
{
	int r = 0;

	for (struct command *c = g->commands; g->island.bare && c; c = c->next)
		command_cgroup_kill(&c->cgroup);
	if (!g->frozen)
		r = launched_clear(&g->island, command);
	if (r == 0)
		r = listen_on(g);
	/* One that is gone already has its own reason, and tells of it. */
	if (r < 0 && r != -EPIPE)
		guest_kill(g, CAUSE_ERROR);
}

void guest_interrupt(struct guest *g, uint32_t command)
{
	int r = 0;

	/* One that is not taken is said in vain: there are as many as somebody asks for. */
	if (command_find(g, command) && !g->single && !g->frozen &&
	    g->island.orders.len < ORDERS_MAX)
		r = launched_interrupt(&g->island, command);
	if (r == 0)
		r = listen_on(g);
	if (r < 0 && r != -EPIPE)
		guest_kill(g, CAUSE_ERROR);
}

void command_kill(struct command *c, enum cause cause)
{
	struct guest *g = c->guest;

	if (g->single) {
		guest_kill(g, cause);
		return;
	}
	if (c->cause == CAUSE_NONE)
		c->cause = cause;
	if (c->cgroup.dir >= 0)
		command_cgroup_kill(&c->cgroup);
	else if (!g->frozen)
		guest_clear(g, g->own ? 0 : c->number);
}

static void on_deadline(struct loop_timer *t)
{
	struct command *c = t->ctx;

	/* Again, as a starved PID 1 may start it only now; or does not get to end it. */
	if (c->cause != CAUSE_NONE && c->guest->own)
		guest_kill(c->guest, c->cause);
	else
		command_kill(c, CAUSE_TIMEOUT);
	(void)loop_after(c->guest->service->loop, t, AGAIN_MS);
}

/* CPU time of it and all that it started, living and dead; 0 if it is not known. */
static uint64_t command_cpu_ms(const struct command *c)
{
	const struct guest *g = c->guest;

	return g->single || g->own ? cgroup_cpu_ms(&g->island.cgroup) - c->cpu_before_ms
				   : command_cgroup_cpu_ms(&c->cgroup);
}

static void on_tick(struct loop_timer *t)
{
	struct command *c = t->ctx;

	if (command_cpu_ms(c) >= c->cpu_time_ms)
		command_kill(c, CAUSE_CPU_TIME);
	else
		(void)loop_after(c->guest->service->loop, t, CPU_TICK_MS);
}

/*
 * A process of a live island's was killed for memory: whose was it? What stays may only be the last
 * that is left, and not have been the one; where it was, its end says so.
 */
static void oom_on_live(struct guest *g)
{
	struct command *only = NULL;
	size_t n = 0;

	for (struct command *c = g->commands; c; c = c->next)
		if (!c->ended) {
			only = c;
			n++;
		}
	if (n == 1 && !(only->flags & FLAG_STAYS))
		command_kill(only, CAUSE_MEMORY);
}

static void on_oom(struct loop_fd *f, uint32_t events _unused_)
{
	struct guest *g = f->ctx;
	uint64_t count;

	(void)!read(f->fd, &count, sizeof(count));
	if (g->single)
		guest_kill(g, CAUSE_MEMORY);
	else
		oom_on_live(g);
}

/* Whether memory ran out since it was last asked. */
static bool oom_since(struct guest *g)
{
	uint64_t kills = cgroup_oom_kills(&g->island.cgroup);
	bool more = kills > g->oom_kills;

	g->oom_kills = kills;
	return more;
}

static void note_what_holds(const struct guest *g, struct service_report *r)
{
	r->isolation = g->island.isolation;
	r->warm = g->island.warm;
	if (g->island.bare)
		r->uid = g->island.bare->user.uid;
}

static void ready(struct guest *g, struct command *c, const struct facts *f)
{
	struct service_report r = {.kind = REPORT_READY, .island = g->number, .command = c->number};

	if (launched_judge(&g->island, g->plan, f, &g->error) < 0) {
		g->failed = true;
		guest_kill(g, CAUSE_ERROR);
		return;
	}
	if (c->number == CHECK_COMMAND) {
		r.command = 0;
		loop_cancel(g->service->loop, &c->deadline);
	} else if (!(c->flags & FLAG_TELL_READY)) {
		return;
	}
	note_what_holds(g, &r);
	service_report(g->service, &r);
}

/* What it waited for, and what the cgroups know besides: peaks only where it was alone. */
static struct usage command_usage(const struct command *c, const struct spent *spent)
{
	struct usage u = {.memory_peak_bytes = spent->memory_peak_bytes};
	double waited_ms = (double)launched_cpu_us(&c->guest->island, spent->cpu_us) / 1e3;
	double all_ms = (double)command_cpu_ms(c);

	if (c->guest->own)
		cgroup_usage(&c->guest->island.cgroup, &u);
	u.cpu_ms = all_ms > waited_ms ? all_ms : waited_ms;
	return u;
}

static void command_ended(struct guest *g, struct command *c, const struct message *m)
{
	struct service_report r = {
		.kind = REPORT_EXITED,
		.island = g->number,
		.command = c->number,
		.status = m->status,
	};

	if (c->number != CHECK_COMMAND) /* of which nobody hears */
		r.usage = command_usage(c, &m->spent);
	if (WIFSIGNALED(m->status) && WTERMSIG(m->status) == SIGKILL && c->cause == CAUSE_NONE &&
	    oom_since(g))
		c->cause = CAUSE_MEMORY;
	r.cause = (uint32_t)c->cause;
	stop_timers(c);
	/*
	 * What it left behind in the background stays, unless it was ended by us. Agents
	 * leave nothing, and the next command may have begun.
	 */
	if (g->own && !(c->flags & (ORDER_CHECK | ORDER_AGENT)))
		guest_clear(g, 0);
	c->ended = true;
	commands_tidy(g);
	if (r.command != CHECK_COMMAND)
		service_report(g->service, &r);
}

static void hear(struct guest *g, const struct message *m)
{
	struct command *c = command_find(g, m->command);

	if (!c)
		return;
	if (m->kind == MESSAGE_READY) {
		if (g->island.waits && c->number != CHECK_COMMAND && !(c->flags & ORDER_AGENT))
			g->island.warm = m->status == READY_WAITED;
		ready(g, c, &m->facts);
	} else if (m->kind == MESSAGE_EXITED && g->single) {
		g->status = m->status;
		g->island.cpu_us = m->spent.cpu_us;
		g->island.memory_bytes = m->spent.memory_peak_bytes;
		/* What it left would live on, and the steward with it. */
		if (g->island.bare)
			guest_kill(g, CAUSE_NONE);
	} else if (m->kind == MESSAGE_EXITED) {
		command_ended(g, c, m);
	} else if (m->kind == MESSAGE_FAILED && (g->single || c->number == CHECK_COMMAND)) {
		g->failed = true;
		g->error = m->error;
		guest_kill(g, CAUSE_ERROR);
	} else if (m->kind == MESSAGE_FAILED) {
		/* Its process ends as well, and says so; of that nobody needs to hear. */
		service_report_failure(g->service, g->number, c->number, &m->error);
		command_free(c);
	}
}

static void on_control(struct loop_fd *f, uint32_t events)
{
	struct guest *g = f->ctx;
	struct message m;

	if (events & EPOLLOUT) {
		int r = outbox_flush(&g->island.orders, f->fd);

		if ((r < 0 && r != -EAGAIN) || listen_on(g) < 0)
			guest_kill(g, CAUSE_ERROR);
	}
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	if (launcher_listen(f->fd, &m, NULL))
		hear(g, &m);
	else
		loop_remove(g->service->loop, f); /* its end is told by the pidfd */
}

static void last_words(struct guest *g)
{
	struct message m;

	while (launcher_listen(g->island.control, &m, NULL))
		hear(g, &m);
}

static void guest_forget(struct guest *g)
{
	struct service *s = g->service;
	struct guest **at = &s->guests[g->number % BUCKETS];

	while (g->commands)
		command_free(g->commands);
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at) {
		*at = g->next;
		s->n_guests--;
		rush_end(&s->rush, g->began, clock_now_ms());
	}
	free(g->plan);
	free(g);
}

static void guest_report_end(struct guest *g, const struct usage *used, uid_t uid)
{
	struct service_report r = {
		.kind = g->failed ? REPORT_FAILED : REPORT_GONE,
		.island = g->number,
		.status = g->status,
		.cause = (uint32_t)g->cause,
		.usage = *used,
		.isolation = g->island.isolation,
		.warm = g->island.warm,
		.uid = uid,
	};

	if (g->failed)
		r.error = g->error;
	service_report(g->service, &r);
}

/* With an island's PID 1 all is gone; a steward's end is the end of the steward alone. */
static bool lingers(struct guest *g)
{
	if (!g->island.bare || cgroup_is_empty(&g->island.cgroup) || g->lingered++ >= LINGER_ROUNDS)
		return false;
	launched_kill(&g->island);
	loop_remove(g->service->loop, &g->end);
	return loop_after(g->service->loop, &g->linger, LINGER_MS) == 0;
}

static void on_end(struct loop_fd *f, uint32_t events _unused_)
{
	struct guest *g = f->ctx;
	struct service *s = g->service;
	struct usage used = {0};
	uid_t uid;

	last_words(g);
	if (lingers(g))
		return;
	if (g->cause == CAUSE_NONE && oom_since(g))
		g->cause = CAUSE_MEMORY;
	while (g->commands)
		command_free(g->commands);
	loop_remove(s->loop, &g->control);
	loop_remove(s->loop, &g->end);
	loop_remove(s->loop, &g->oom);
	loop_cancel(s->loop, &g->linger);
	uid = g->island.bare ? g->island.bare->user.uid : 0;
	if (g->island.bare)
		removal_start(s, &g->island.bare->workspace);
	launched_reap(&g->island, &used);
	guest_report_end(g, &used, uid);
	guest_forget(g);
	(void)loop_after(s->loop, &s->stock, 0);
}

static void on_linger(struct loop_timer *t)
{
	struct guest *g = t->ctx;

	on_end(&g->end, 0);
}

int guest_watch(struct guest *g)
{
	struct loop *l = g->service->loop;
	int r;

	g->control = (struct loop_fd){.fd = g->island.control, .ready = on_control, .ctx = g};
	g->end = (struct loop_fd){.fd = g->island.pidfd, .ready = on_end, .ctx = g};
	g->oom = (struct loop_fd){.fd = g->island.cgroup.oom_event, .ready = on_oom, .ctx = g};
	g->linger = (struct loop_timer){.fire = on_linger, .ctx = g};
	/* Its PID 1 may be slow, as it has the island's share of the CPU; it may not hold us up. */
	r = fd_set_nonblock(g->island.control, 1);
	if (r == 0)
		r = loop_add(l, &g->control, EPOLLIN);
	if (r == 0)
		r = loop_add(l, &g->end, EPOLLIN);
	if (r == 0 && g->oom.fd >= 0)
		r = loop_add(l, &g->oom, EPOLLIN);
	return r;
}

struct plan *plan_copy(const struct plan *p)
{
	struct plan *copy = malloc(p->size);

	if (copy)
		memcpy(copy, p, p->size);
	return copy;
}

struct guest *guest_new(struct service *s, uint32_t number, uint32_t flags, const struct plan *p,
			const struct bare_user *who, struct cay_error *err)
{
	struct guest *g;
	int r;

	if (number == 0 || guest_find(s, number) || s->n_guests >= GUESTS_MAX) {
		(void)cay_fail(err, CAY_E_AT_CAPACITY, 0, "no room for island %u", number);
		return NULL;
	}
	g = calloc(1, sizeof(*g));
	if (g)
		g->plan = plan_copy(p);
	if (!g || !g->plan) {
		free(g);
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make an island");
		return NULL;
	}
	g->service = s;
	g->number = number;
	g->status = -1;
	g->own = flags & FLAG_OWN;
	r = who ? launcher_make_bare(&s->launcher, p, who, &g->island, err)
		: launcher_make_live(&s->launcher, p,
				     flags & FLAG_COLD    ? MADE_COLD
				     : flags & ORDER_LAST ? MADE_SINGLE
				     : flags & FLAG_OWN   ? MADE_OWN
							  : MADE_LIVE,
				     &g->island, err);
	if (r < 0) {
		free(g->plan);
		free(g);
		return NULL;
	}
	/* One is wanted now, or there is one less. */
	if ((plan_warm(p) && !g->island.warm && !(flags & FLAG_COLD)) || s->launcher.zygote_news)
		(void)loop_after(s->loop, &s->tend, 0);
	g->next = s->guests[number % BUCKETS];
	s->guests[number % BUCKETS] = g;
	s->n_guests++;
	g->began = rush_begin(&s->rush, clock_now_ms());
	hand_wires_out(g);
	return g;
}

static int start_timers(struct command *c, uint64_t timeout_ms)
{
	struct loop *l = c->guest->service->loop;
	int r = loop_after(l, &c->deadline, timeout_ms);

	if (r == 0 && c->cpu_time_ms && c->guest->island.cgroup.has_unified)
		r = loop_after(l, &c->tick, CPU_TICK_MS);
	return r;
}

/* A cgroup of its own where it may have neighbours. How many doors it has, or -errno. */
static int make_cgroup(struct command *c, int ret_doors[COMMAND_DOORS])
{
	const struct guest *g = c->guest;
	int r;

	if (g->single || (g->own && !g->island.bare) || c->number == CHECK_COMMAND)
		return 0;
	r = command_cgroup_make(&g->island.cgroup, c->number, c->cpu_time_ms > 0, &c->cgroup);
	if (r < 0)
		return r == -ENOTSUP ? 0 : r;
	return command_cgroup_doors(&c->cgroup, ret_doors);
}

static struct command *command_new(struct guest *g, const struct service_request *q,
				   const struct plan *p)
{
	struct command *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct command){
		.guest = g,
		.number = q->command,
		.flags = q->flags,
		.cgroup = COMMAND_CGROUP_NONE,
		.cpu_time_ms = q->cpu_time_ms ? q->cpu_time_ms : p->limits.cpu_time_ms,
		.cpu_before_ms = g->single ? 0 : cgroup_cpu_ms(&g->island.cgroup),
		.deadline = {.fire = on_deadline, .ctx = c},
		.tick = {.fire = on_tick, .ctx = c},
		.next = g->commands,
	};
	if (c->number == CHECK_COMMAND || q->flags & ORDER_AGENT)
		c->cpu_time_ms = 0;
	g->commands = c;
	return c;
}

/* What can't be sent ends the island, as nobody knows what it heard of it. 0 or -errno. */
static int send_order(struct command *c, const struct service_request *q, const struct plan *p,
		      const int stdio[3], const int *doors, size_t n_doors)
{
	struct guest *g = c->guest;
	/* What executes nothing looks at the island's part alone. */
	bool own = q->flags & (ORDER_CHECK | ORDER_AGENT);
	int r = launched_order(&g->island, c->number, q->flags & ORDER_FLAGS_ALL, own ? NULL : p,
			       stdio, doors, n_doors);

	if (r == 0)
		r = listen_on(g);
	if (r < 0)
		guest_kill(g, CAUSE_ERROR);
	return r;
}

int command_start(struct guest *g, const struct service_request *q, const struct plan *p,
		  const int stdio[3], struct cay_error *err)
{
	uint64_t ms = q->timeout_ms ? q->timeout_ms : p->limits.timeout_ms;
	int doors[COMMAND_DOORS] = {-1, -1}, n_doors, r;
	struct command *c;

	commands_tidy(g);
	if (g->island.orders.len >= ORDERS_MAX)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "too many commands wait to begin there");
	c = command_new(g, q, p);
	if (!c)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start a command");
	r = n_doors = make_cgroup(c, doors);
	if (r >= 0)
		r = start_timers(c, c->number == CHECK_COMMAND ? SETUP_MS : ms);
	if (r < 0)
		command_free(c); /* nothing was sent */
	else
		r = send_order(c, q, p, stdio, doors, (size_t)n_doors);
	for (int n = 0; n < COMMAND_DOORS; n++)
		fd_closep(&doors[n]);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "start a command on the island") : 0;
}

void guest_drop(struct guest *g)
{
	struct usage unused;

	launched_kill(&g->island);
	if (g->island.bare)
		bare_await_end(&g->island);
	launched_reap(&g->island, &unused);
	guest_forget(g);
}
