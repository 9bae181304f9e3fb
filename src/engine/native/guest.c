#include "engine/native/guest.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/island.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETUP_MS     30000
#define CPU_TICK_MS  20
#define SEND_SECONDS 2

void service_report(struct service *s, const struct service_report *r)
{
	const struct launcher *l = &s->launcher;
	struct service_report whole = *r;

	s->told = (struct service_stock){.islands = (uint32_t)l->n_ahead,
					 .networks = (uint32_t)l->n_networks,
					 .cgroups = (uint32_t)l->n_spare};
	whole.stock = s->told;
	if (msg_send(s->asker.fd, &whole, sizeof(whole), NULL, 0) < 0)
		loop_stop(s->loop); /* nobody is there any more */
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

static void command_free(struct command *c)
{
	struct guest *g = c->guest;
	struct command **at = &g->commands;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	loop_cancel(g->service->loop, &c->deadline);
	(void)command_cgroup_remove(&g->island.cgroup, &c->cgroup);
	fd_closep(&c->cgroup.dir);
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
		(void)launched_clear(&g->island, c->number);
}

static void on_deadline(struct loop_timer *t)
{
	struct command *c = t->ctx;

	command_kill(c, CAUSE_TIMEOUT);
}

static void on_tick(struct loop_timer *t)
{
	struct guest *g = t->ctx;

	if (cgroup_cpu_ms(&g->island.cgroup) >= g->plan->limits.cpu_time_ms)
		guest_kill(g, CAUSE_CPU_TIME);
	else
		(void)loop_after(g->service->loop, t, CPU_TICK_MS);
}

/* A process of a live island's was killed for memory: whose was it? */
static void oom_on_live(struct guest *g)
{
	struct command *only = NULL;
	size_t n = 0;

	for (struct command *c = g->commands; c; c = c->next)
		if (!c->ended) {
			only = c;
			n++;
		}
	if (n == 1)
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
	isolation_pack(&g->island.isolation, &r.isolation);
	service_report(g->service, &r);
}

static void command_ended(struct guest *g, struct command *c, const struct message *m)
{
	struct service_report r = {
		.kind = REPORT_EXITED,
		.island = g->number,
		.command = c->number,
		.status = m->status,
		.usage.cpu_ms = (double)m->spent.cpu_us / 1e3,
		.usage.memory_peak_bytes = m->spent.memory_peak_bytes,
	};

	if (WIFSIGNALED(m->status) && WTERMSIG(m->status) == SIGKILL && c->cause == CAUSE_NONE &&
	    oom_since(g))
		c->cause = CAUSE_MEMORY;
	r.cause = (uint32_t)c->cause;
	loop_cancel(g->service->loop, &c->deadline);
	/* What it left behind in the background stays, unless it was ended by us. */
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
		ready(g, c, &m->facts);
	} else if (m->kind == MESSAGE_EXITED && g->single) {
		g->status = m->status;
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

static void on_control(struct loop_fd *f, uint32_t events _unused_)
{
	struct guest *g = f->ctx;
	struct message m;

	if (launcher_listen(f->fd, &m, NULL))
		hear(g, &m);
	else
		loop_remove(g->service->loop, f); /* its end is told by the pidfd */
}

static void last_words(struct guest *g)
{
	struct message m;

	if (fd_set_nonblock(g->island.control, 1) < 0)
		return;
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
	}
	free(g->plan);
	free(g);
}

static void guest_report_end(struct guest *g, const struct usage *used)
{
	struct service_report r = {
		.kind = g->failed ? REPORT_FAILED : REPORT_GONE,
		.island = g->number,
		.status = g->status,
		.cause = (uint32_t)g->cause,
		.usage = *used,
	};

	if (g->failed)
		r.error = g->error;
	isolation_pack(&g->island.isolation, &r.isolation);
	service_report(g->service, &r);
}

static void on_end(struct loop_fd *f, uint32_t events _unused_)
{
	struct guest *g = f->ctx;
	struct service *s = g->service;
	struct usage used = {0};

	last_words(g);
	if (g->cause == CAUSE_NONE && oom_since(g))
		g->cause = CAUSE_MEMORY;
	while (g->commands)
		command_free(g->commands);
	loop_remove(s->loop, &g->control);
	loop_remove(s->loop, &g->end);
	loop_remove(s->loop, &g->oom);
	loop_cancel(s->loop, &g->tick);
	launched_reap(&g->island, &used);
	guest_report_end(g, &used);
	strv_done(&g->island.isolation.degraded);
	guest_forget(g);
	(void)loop_after(s->loop, &s->stock, 0);
}

/* Its PID 1 may be slow, as it has the island's share of the CPU; it may not hold us up. */
static int limit_sending(const struct guest *g)
{
	const struct timeval wait = {.tv_sec = SEND_SECONDS};

	return setsockopt(g->island.control, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0
		       ? -errno
		       : 0;
}

int guest_watch(struct guest *g)
{
	struct loop *l = g->service->loop;
	int r;

	g->control = (struct loop_fd){.fd = g->island.control, .ready = on_control, .ctx = g};
	g->end = (struct loop_fd){.fd = g->island.pidfd, .ready = on_end, .ctx = g};
	g->oom = (struct loop_fd){.fd = g->island.cgroup.oom_event, .ready = on_oom, .ctx = g};
	g->tick = (struct loop_timer){.fire = on_tick, .ctx = g};
	r = limit_sending(g);
	if (r == 0)
		r = loop_add(l, &g->control, EPOLLIN);
	if (r == 0)
		r = loop_add(l, &g->end, EPOLLIN);
	if (r == 0 && g->oom.fd >= 0)
		r = loop_add(l, &g->oom, EPOLLIN);
	if (r == 0 && g->single && g->plan->limits.cpu_time_ms)
		r = loop_after(l, &g->tick, CPU_TICK_MS);
	return r;
}

struct plan *plan_copy(const struct plan *p)
{
	struct plan *copy = malloc(p->size);

	if (copy)
		memcpy(copy, p, p->size);
	return copy;
}

struct guest *guest_new(struct service *s, uint32_t number, const struct plan *p,
			struct cay_error *err)
{
	struct guest *g;

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
	if (launcher_make_live(&s->launcher, p, &g->island, err) < 0) {
		free(g->plan);
		free(g);
		return NULL;
	}
	g->next = s->guests[number % BUCKETS];
	s->guests[number % BUCKETS] = g;
	s->n_guests++;
	return g;
}

int command_start(struct guest *g, uint32_t number, uint32_t flags, const struct plan *p,
		  const int stdio[3], struct cay_error *err)
{
	struct command *c = calloc(1, sizeof(*c));
	_cleanup_(fd_closep) int door = -1;
	uint64_t ms = number == CHECK_COMMAND ? SETUP_MS : p->limits.timeout_ms;
	int r;

	if (!c)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start a command");
	commands_tidy(g);
	*c = (struct command){.guest = g,
			      .number = number,
			      .flags = flags,
			      .cgroup = COMMAND_CGROUP_NONE,
			      .deadline = {.fire = on_deadline, .ctx = c},
			      .next = g->commands};
	g->commands = c;
	r = g->single || number == CHECK_COMMAND
		    ? -ENOTSUP
		    : command_cgroup_make(&g->island.cgroup, number, &c->cgroup);
	if (r == 0)
		r = door = command_cgroup_door(&c->cgroup);
	if (r >= 0 || r == -ENOTSUP)
		r = loop_after(g->service->loop, &c->deadline, ms);
	if (r == 0)
		r = launched_order(&g->island, number, flags & ORDER_FLAGS_ALL, p, stdio, door);
	if (r < 0)
		guest_kill(g, CAUSE_ERROR);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "start a command on the island") : 0;
}

void guest_drop(struct guest *g)
{
	struct usage unused;

	launched_kill(&g->island);
	launched_reap(&g->island, &unused);
	guest_forget(g);
}
