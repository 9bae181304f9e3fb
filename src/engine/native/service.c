/*
 * Theory of operation
 *
 *   asker ──request──> service ──clone3──> PID 1 of each island
 *      <──report────       │ control socket, pidfd and OOM event of each, in one loop
 *
 * Nothing here waits for an island: it is cloned and provided for (a millisecond), and
 * what it has to say comes by its control socket. An island is a guest from the moment
 * it is asked for until its PID 1 is reaped; only then GONE is reported, so that
 * whoever hears it knows that nothing of it is left.
 */
#include "engine/native/service_main.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/handover.h"
#include "base/title.h"
#include "core/limit.h"
#include "engine/native/guest.h"
#include "engine/native/making.h"
#include "engine/native/removal.h"
#include "engine/native/zygote.h"
#include "engine/packet.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NETWORKS_READY 4
#define CGROUPS_READY  CGROUP_POOL_MAX
#define REQUEST_FDS    4 /* stdio, and the caller's connection */

/* *ret_who is NULL where it is for an island. */
static int find_user(const struct service *s, const struct service_request *q, int peer,
		     struct bare_user *room, const struct bare_user **ret_who,
		     struct cay_error *err)
{
	*ret_who = NULL;
	if (!(q->flags & FLAG_BARE))
		return 0;
	if (bare_user_find(s->bare, peer, room, err) < 0)
		return -1;
	*ret_who = room;
	return 0;
}

static int do_run(struct service *s, const struct service_request *q, const struct plan *p,
		  const int fds[REQUEST_FDS], struct cay_error *err)
{
	struct service_request last = *q;
	const struct bare_user *who;
	struct bare_user room;
	struct guest *g;
	int r;

	if (plan_kept(p))
		return cay_fail(err, CAY_E_INVALID, 0, "a run has no workspace that is kept");
	if (find_user(s, q, fds[3], &room, &who, err) < 0)
		return -1;
	g = guest_new(s, q->island, (q->flags & FLAG_COLD) | ORDER_LAST, p, who, err);
	if (!g)
		return -1;
	g->single = true;
	r = guest_watch(g);
	if (r < 0) {
		guest_drop(g);
		return cay_fail(err, CAY_E_ENGINE, -r, "watch the island");
	}
	last.command = 0;
	last.flags |= ORDER_LAST;
	if (command_start(g, &last, p, fds, err) < 0) {
		g->failed = true; /* its end is the answer */
		g->error = *err;
		guest_kill(g, CAUSE_ERROR);
	}
	return 0;
}

int service_make(struct service *s, uint32_t number, uint32_t flags, const struct plan *p,
		 const struct bare_user *who, struct cay_error *err)
{
	const struct service_request check = {.command = CHECK_COMMAND, .flags = ORDER_CHECK};
	int null[3] = {STDIN_FILENO, STDIN_FILENO, STDIN_FILENO};
	struct guest *g = guest_new(s, number, flags, p, who, err);
	int r;

	if (!g)
		return -1;
	cgroup_spare_others(&g->island.cgroup);
	if (!g->own) /* a run's ends soon, and what it has is used again */
		launched_settle(&g->island);
	r = guest_watch(g);
	if (r < 0) {
		guest_drop(g);
		return cay_fail(err, CAY_E_ENGINE, -r, "watch the island");
	}
	if (command_start(g, &check, p, null, err) < 0) {
		g->failed = true;
		g->error = *err;
		guest_kill(g, CAUSE_ERROR);
	}
	return 0;
}

static int do_make(struct service *s, const struct service_request *q, const struct plan *p,
		   int peer, struct cay_error *err)
{
	const struct bare_user *who;
	struct bare_user room;

	if (find_user(s, q, peer, &room, &who, err) < 0)
		return -1;
	return plan_kept(p) && !who ? making_start(s, q->island, p, err)
				    : service_make(s, q->island, q->flags, p, who, err);
}

static int do_command(struct guest *g, const struct service_request *q, const struct plan *p,
		      const int fds[3], struct cay_error *err)
{
	if (g->single || q->command == 0 || q->command == CHECK_COMMAND ||
	    command_find(g, q->command))
		return cay_fail(err, CAY_E_INVALID, 0, "command %u can't be started", q->command);
	if (g->frozen)
		return cay_fail(err, CAY_E_CONFLICT, 0, "the island is paused");
	if (!plan_fits_command(g->plan, p))
		return cay_fail(err, CAY_E_INVALID, 0, "the command's plan is not this island's");
	return command_start(g, q, p, fds, err);
}

static int do_kill(struct guest *g, const struct service_request *q)
{
	struct command *c = command_known(g, q->command);
	enum cause cause = q->cause <= CAUSE_ERROR ? (enum cause)q->cause : CAUSE_CANCELLED;

	if (q->command == 0)
		guest_kill(g, cause);
	else if (c)
		command_kill(c, cause);
	return 0; /* one that has ended already is what was wanted */
}

static int do_freeze(struct guest *g, bool on, struct cay_error *err)
{
	int r = cgroup_freeze(&g->island.cgroup, on);

	if (r == -ENOTSUP)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"this machine has no cgroup v2 tree to pause islands by");
	if (r < 0)
		return cay_fail(err, CAY_E_ENGINE, -r, on ? "pause the island" : "resume it");
	g->frozen = on;
	return 0;
}

/* One that has ended has told of it, or is about to. */
static void report_command_usage(const struct guest *g, uint32_t number)
{
	struct service_report r = {.kind = REPORT_USAGE, .island = g->number, .command = number};
	const struct command *c = command_find(g, number);
	struct command_spent spent;
	bool known;

	if (!c)
		return;
	known = command_cgroup_spent(&c->cgroup, &spent);
	r.usage.cpu_ms = known ? (double)spent.cpu_us / 1e3 : NAN;
	r.usage.memory_peak_bytes = spent.peak_bytes;
	service_report(g->service, &r);
}

static void report_usage(struct guest *g)
{
	struct service_report r = {.kind = REPORT_USAGE, .island = g->number};

	cgroup_usage(&g->island.cgroup, &r.usage);
	cgroup_now(&g->island.cgroup, &r.memory_bytes, &r.processes);
	service_report(g->service, &r);
}

static int do_ahead(struct service *s, const struct service_request *q, const struct plan *p,
		    struct cay_error *err)
{
	if (shelves_name(&s->launcher, p, q->command, clock_now_ms(), err) < 0)
		return -1;
	(void)loop_after(s->loop, &s->stock, 0);
	return 0;
}

static int no_island(struct cay_error *err)
{
	return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no such island");
}

static int with_guest(struct service *s, const struct service_request *q, const struct plan *p,
		      const int fds[3], struct cay_error *err)
{
	struct guest *g = guest_find(s, q->island);
	int r = 0;

	if (!g && q->kind == SERVICE_KILL &&
	    (making_cancel(s, q->island) || copying_cancel(s, q->island)))
		return 0;
	if (!g)
		return no_island(err);
	switch (q->kind) {
	case SERVICE_COMMAND:
		return do_command(g, q, p, fds, err);
	case SERVICE_KILL:
		return do_kill(g, q);
	case SERVICE_INTERRUPT:
		guest_interrupt(g, q->command);
		return 0;
	case SERVICE_FREEZE:
	case SERVICE_THAW:
		r = do_freeze(g, q->kind == SERVICE_FREEZE, err);
		break;
	default:
		break;
	}
	if (r == 0 && q->kind == SERVICE_USAGE && q->command)
		report_command_usage(g, q->command);
	else if (r == 0)
		report_usage(g);
	return r;
}

/* A name that was lost would be a workspace that is removed: then nothing is. */
static int do_sweep(struct service *s, const struct service_request *q, size_t len,
		    struct cay_error *err)
{
	int r;

	if (buf_append(&s->known, q + 1, len - sizeof(*q)) < 0)
		s->known_lost = true;
	if (q->flags & FLAG_MORE)
		return 0;
	if (s->known_lost)
		(void)cay_fail(err, CAY_E_TOO_LARGE, 0, "the workspaces are too many");
	else
		making_sweep(s, (const char(*)[ID_SIZE])s->known.data, s->known.len / ID_SIZE);
	r = s->known_lost ? -1 : 0;
	buf_done(&s->known);
	s->known = BUF(SERVICE_SWEEP_MAX * ID_SIZE);
	s->known_lost = false;
	return r;
}

static int obey(struct service *s, const struct service_request *q, size_t len,
		const int fds[REQUEST_FDS], struct cay_error *err)
{
	const struct plan *p = (const struct plan *)(q + 1);
	const char(*names)[ID_SIZE] = (const void *)(q + 1);
	size_t n_names = (len - sizeof(*q)) / ID_SIZE;

	switch (q->kind) {
	case SERVICE_DISCARD:
		making_discard(s, names, n_names);
		return 0;
	case SERVICE_COPY:
		return copying_start(s, q->island, names, n_names, err);
	case SERVICE_SWEEP:
		return do_sweep(s, q, len, err);
	case SERVICE_RUN:
		return do_run(s, q, p, fds, err);
	case SERVICE_MAKE:
		return do_make(s, q, p, fds[0], err);
	case SERVICE_AHEAD:
		return do_ahead(s, q, p, err);
	default:
		return with_guest(s, q, p, fds, err);
	}
}

static bool names_ok(const struct service_request *q, size_t len)
{
	const char(*names)[ID_SIZE] = (const void *)(q + 1);
	size_t n = (len - sizeof(*q)) / ID_SIZE;

	for (size_t k = 0; k < n; k++)
		if (!id_is_kept(names[k]))
			return false;
	return (len - sizeof(*q)) % ID_SIZE == 0;
}

static bool plan_ok(const struct service *s, const struct service_request *q, size_t len,
		    struct cay_error *err)
{
	const struct plan *p = (const struct plan *)(q + 1);

	if (plan_check(p, len - sizeof(*q), err) < 0 ||
	    (s->maximum && limits_check(&p->limits, s->maximum, err) < 0))
		return false;
	if (p->allow_degraded && !s->may_degrade) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the operator has every limit enforced");
		return false;
	}
	if (packet_times_ok(q, &p->limits))
		return true;
	(void)cay_fail(err, CAY_E_INVALID, 0, "more time than the plan has");
	return false;
}

/* A packet is what its kind says it must be: nothing is done with any other. */
static bool request_ok(const struct service *s, const struct service_request *q, size_t len,
		       const int *fds, size_t n_fds, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "not a request");
	if (!packet_ok(q, len, fds, n_fds))
		return false;
	if (packet_has_names(q))
		return names_ok(q, len);
	return !packet_has_plan(q) || plan_ok(s, q, len, err);
}

static void on_request(struct loop_fd *f, uint32_t events _unused_)
{
	static uint64_t room[SERVICE_PACKET_MAX / sizeof(uint64_t) + 1];
	struct service *s = f->ctx;
	const struct service_request *q = (const struct service_request *)room;
	struct cay_error err = {0};
	int fds[REQUEST_FDS] = {-1, -1, -1, -1};
	size_t n_fds = 0;
	ssize_t n;

	/* Where it can't be taken, it is known at least whose it was. */
	memset(room, 0, sizeof(*q));
	n = msg_recv(f->fd, room, sizeof(room), fds, REQUEST_FDS, &n_fds);

	if (n == 0 || (n < 0 && n != -EMSGSIZE)) {
		loop_stop(s->loop);
		return;
	}
	if (n == -EMSGSIZE)
		(void)cay_fail(&err, CAY_E_AT_CAPACITY, EMFILE, "the launcher can't take it");
	else if (n < (ssize_t)sizeof(*q))
		(void)cay_fail(&err, CAY_E_INVALID, 0, "not a request");
	else if (request_ok(s, q, (size_t)n, fds, n_fds, &err))
		if (obey(s, q, (size_t)n, fds, &err) == 0)
			err.code = CAY_OK;
	if (err.code != CAY_OK)
		service_report_failure(s, q->island, q->command, &err);
	for (size_t k = 0; k < n_fds; k++)
		(void)close(fds[k]);
}

/* It was reported with the last that happened, and has grown since. */
static void tell_stock(struct service *s)
{
	struct service_stock now = launcher_stock(&s->launcher);

	if (now.islands != s->told.islands || now.networks != s->told.networks)
		service_report(s, &(struct service_report){.kind = REPORT_STOCK});
}

/* One thing at a time, so that a request that comes meanwhile waits for one only. */
static void on_stock(struct loop_timer *t)
{
	struct service *s = t->ctx;
	struct cay_error unused;
	int r;

	launcher_tidy(&s->launcher);
	if (rush_count(&s->rush, clock_now_ms()) >= s->cpus) {
		(void)loop_after(s->loop, t, RUSH_MS);
		return;
	}
	r = launcher_restock(&s->launcher, NETWORKS_READY, &unused);
	if (s->launcher.zygote_news)
		(void)loop_after(s->loop, &s->tend, 0);
	if (r == 0) {
		(void)loop_after(s->loop, t, 0);
		return;
	}
	tell_stock(s);
	if (shelves_ease_later(&s->launcher.shelves))
		(void)loop_after(s->loop, t, SHELF_EASE_MS);
}

static void on_tend(struct loop_timer *t)
{
	struct service *s = t->ctx;
	bool news;
	int again_ms = zygotes_tend(&s->launcher, clock_now_ms(), &news);

	if (news) {
		shelves_retry(&s->launcher.shelves);
		(void)loop_after(s->loop, &s->stock, 0);
	}
	if (again_ms >= 0)
		(void)loop_after(s->loop, t, (uint64_t)again_ms);
}

/* From the next plan on. */
static void on_news(struct loop_fd *f, uint32_t events _unused_)
{
	struct service *s = f->ctx;
	struct service_rules rules;
	_cleanup_(fd_closep) int fd = handover_take(f->fd);
	int r = fd < 0 ? fd : service_rules_unpack(fd, &rules);

	if (r == -EPIPE) {
		loop_remove(s->loop, f);
		return;
	}
	if (r == 0) {
		service_rules_done(&s->given);
		s->given = rules;
		s->launcher.rules = &s->given.mounts;
		s->bare = &s->given.bare;
		s->maximum = &s->given.maximum;
		s->may_degrade = s->given.may_degrade;
	}
	handover_answer(f->fd, r == 0);
}

static int service_init(struct service *s, int sock, const struct service_config *config,
			struct cay_error *err)
{
	*s = (struct service){
		.asker = {.fd = sock, .ready = on_request, .ctx = s},
		.stock = {.fire = on_stock, .ctx = s},
		.tend = {.fire = on_tend, .ctx = s},
		.news = {.fd = config->has_news ? config->news : -1, .ready = on_news, .ctx = s},
		.emptier.fd = -1,
		.known = BUF(SERVICE_SWEEP_MAX * ID_SIZE),
		.bare = config->bare,
		.maximum = config->maximum,
		.may_degrade = config->may_degrade};
	launcher_init(&s->launcher, config->rules);
	s->launcher.kept_dir = config->kept_dir;
	s->launcher.image_store = config->image_store;
	s->launcher.zygote_kinds = config->zygote_kinds;
	s->launcher.n_zygote_kinds = config->n_zygote_kinds;
	s->launcher.shelves.memory_bytes = config->ahead_bytes;
	s->loop = loop_new();
	if (!s->loop || loop_add(s->loop, &s->asker, EPOLLIN) < 0 ||
	    (s->news.fd >= 0 && loop_add(s->loop, &s->news, EPOLLIN) < 0))
		return cay_fail(err, CAY_E_ENGINE, errno, "start the launcher");
	if (launcher_keep_cgroups(&s->launcher, CGROUPS_READY, err) < 0)
		return -1;
	s->cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	launcher_tidy_later(&s->launcher);
	if (s->launcher.many_ids && launcher_make_template(&s->launcher, err) < 0)
		return -1;
	(void)loop_after(s->loop, &s->tend, 0);
	return 0;
}

static void service_done(struct service *s)
{
	for (size_t n = 0; n < BUCKETS; n++)
		while (s->guests[n])
			guest_drop(s->guests[n]);
	makings_done(s);
	copyings_done(s);
	removals_done(s);
	launcher_done(&s->launcher);
	buf_done(&s->known);
	service_rules_done(&s->given);
	loop_free(s->loop);
}

int service_main(int sock, const struct service_config *config)
{
	struct service s;
	struct cay_error err = {0};
	int r;

	title_set("cay: launcher");
	r = service_init(&s, sock, config, &err);
	if (r < 0)
		service_report_failure(&s, 0, 0, &err);
	else
		r = loop_run(s.loop);
	service_done(&s);
	return r < 0 ? 125 : 0;
}
