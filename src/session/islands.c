#include "session/islands.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BUCKETS 1024
#define FDS_MAX 4 /* stdio, and the caller's connection */

/* What rides along. */
struct riders {
	int fds[FDS_MAX];
	size_t n;
};

#define NO_RIDERS ((struct riders){.n = 0})

struct islands {
	struct loop *loop;
	struct loop_fd sock;
	struct outlets *outlets; /* or NULL */
	void (*lost)(void *ctx);
	void *ctx;
	uint32_t last_number;
	struct island_ref *refs[BUCKETS];
	struct outbox waiting; /* what the socket did not take yet */
	struct service_stock stock;
	char packet[SERVICE_PACKET_MAX];
};

static int watch(struct islands *l)
{
	return loop_change(l->loop, &l->sock, l->waiting.first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* What l->packet has. early: the island it has to wait for; or NULL. */
static int send_packet(struct islands *l, struct island_ref *early, size_t len, const int *fds,
		       size_t n_fds)
{
	bool waits = l->waiting.first;
	int r = early ? outbox_keep(&early->early, l->packet, len, fds, n_fds)
		      : outbox_send(&l->waiting, l->sock.fd, l->packet, len, fds, n_fds);

	return r == 0 && !waits && l->waiting.first ? watch(l) : r;
}

/* early: the island it has to wait for; or NULL. */
static int ask(struct islands *l, struct island_ref *early, struct service_request q,
	       const struct plan *p, struct riders riders, struct cay_error *err)
{
	size_t len = sizeof(q);
	int r;

	if (p && p->size > ORDER_PLAN_MAX) {
		(void)cay_fail(err, CAY_E_TOO_LARGE, 0,
			       "arguments and environment are larger than %u KiB together",
			       ORDER_PLAN_MAX >> 10);
		return cay_hint(err, "send what is large as a file, or as standard input");
	}
	memcpy(l->packet, &q, sizeof(q));
	if (p) {
		memcpy(l->packet + len, p, p->size);
		len += p->size;
	}
	r = send_packet(l, early, len, riders.fds, riders.n);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "ask the launcher") : 0;
}

static void enter(struct island_ref *ref)
{
	struct islands *l = ref->islands;

	if (++l->last_number == 0)
		l->last_number = 1;
	ref->number = l->last_number;
	ref->commands = 0;
	ref->made = false;
	ref->stands = false;
	ref->next = l->refs[ref->number % BUCKETS];
	l->refs[ref->number % BUCKETS] = ref;
}

static void leave(struct island_ref *ref)
{
	struct island_ref **at = &ref->islands->refs[ref->number % BUCKETS];

	while (*at && *at != ref)
		at = &(*at)->next;
	if (*at)
		*at = ref->next;
	ref->number = 0;
	outbox_done(&ref->early);
}

static struct island_ref *early(struct island_ref *ref)
{
	return ref->made && !ref->stands ? ref : NULL;
}

static struct island_ref *find(struct islands *l, uint32_t number)
{
	struct island_ref *ref = l->refs[number % BUCKETS];

	while (ref && ref->number != number)
		ref = ref->next;
	return ref;
}

/* Its wires come with the launcher's first word of it. */
static int open_network(struct island_ref *ref, const struct plan *p, struct cay_error *err)
{
	if (!ref->islands->outlets)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "islands have no network here");
	return outlet_prepare(&ref->outlet, ref->islands->outlets, p, err);
}

static int ask_new(struct island_ref *ref, struct service_request q, const struct plan *p,
		   struct riders riders, const struct islands_bare *bare, struct cay_error *err)
{
	if (bare)
		q.flags |= FLAG_BARE;
	if (bare && bare->peer >= 0) {
		q.flags |= FLAG_PEER;
		riders.fds[riders.n++] = bare->peer;
	}
	outlet_done(&ref->outlet);
	if (p->network != NETWORK_NONE && open_network(ref, p, err) < 0)
		return -1;
	enter(ref);
	q.island = ref->number;
	if (ask(ref->islands, NULL, q, p, riders, err) == 0) {
		ref->made = q.kind == SERVICE_MAKE;
		return 0;
	}
	leave(ref);
	return -1;
}

static struct service_request order_request(const struct island_order *o,
					    enum service_request_kind kind)
{
	return (struct service_request){.kind = (uint32_t)kind,
					.flags = o->flags,
					.timeout_ms = o->timeout_ms,
					.cpu_time_ms = o->cpu_time_ms};
}

static struct riders order_riders(const struct island_order *o)
{
	return (struct riders){{o->fds[0], o->fds[1], o->fds[2]}, 3};
}

int islands_run(struct island_ref *ref, const struct island_order *o,
		const struct islands_bare *bare, struct cay_error *err)
{
	return ask_new(ref, order_request(o, SERVICE_RUN), o->plan, order_riders(o), bare, err);
}

int islands_make(struct island_ref *ref, const struct plan *p, uint32_t flags,
		 const struct islands_bare *bare, struct cay_error *err)
{
	const struct service_request q = {.kind = SERVICE_MAKE, .flags = flags};

	return ask_new(ref, q, p, NO_RIDERS, bare, err);
}

int islands_command(struct island_ref *ref, const struct island_order *o, uint32_t *ret_command,
		    struct cay_error *err)
{
	struct service_request q = order_request(o, SERVICE_COMMAND);

	q.island = ref->number;
	q.command = *ret_command = ++ref->commands;
	return ask(ref->islands, early(ref), q, o->plan, order_riders(o), err);
}

void islands_kill(struct island_ref *ref, uint32_t command, enum cause cause)
{
	struct cay_error unused;

	if (ref->number)
		(void)ask(ref->islands, command ? early(ref) : NULL,
			  (struct service_request){.kind = SERVICE_KILL,
						   .island = ref->number,
						   .command = command,
						   .cause = (uint32_t)cause},
			  NULL, NO_RIDERS, &unused);
}

void islands_interrupt(struct island_ref *ref, uint32_t command)
{
	struct cay_error unused;

	if (ref->number && command)
		(void)ask(ref->islands, early(ref),
			  (struct service_request){.kind = SERVICE_INTERRUPT,
						   .island = ref->number,
						   .command = command},
			  NULL, NO_RIDERS, &unused);
}

int islands_measure(struct island_ref *ref, uint32_t command, struct cay_error *err)
{
	return ask(ref->islands, early(ref),
		   (struct service_request){
			   .kind = SERVICE_USAGE, .island = ref->number, .command = command},
		   NULL, NO_RIDERS, err);
}

int islands_ask(struct island_ref *ref, enum service_request_kind kind, struct cay_error *err)
{
	return ask(ref->islands, early(ref),
		   (struct service_request){.kind = (uint32_t)kind, .island = ref->number}, NULL,
		   NO_RIDERS, err);
}

int islands_ahead(struct islands *l, const struct plan *like, uint32_t n, struct cay_error *err)
{
	return ask(l, NULL, (struct service_request){.kind = SERVICE_AHEAD, .command = n}, like,
		   NO_RIDERS, err);
}

static int ask_names(struct islands *l, enum service_request_kind kind,
		     const char (*names)[ID_SIZE], size_t n, struct cay_error *err)
{
	size_t done = 0;
	int r = 0;

	do {
		size_t some = size_min(n - done, SERVICE_NAMES_MAX);
		const struct service_request q = {.kind = (uint32_t)kind,
						  .flags = done + some < n ? FLAG_MORE : 0};

		memcpy(l->packet, &q, sizeof(q));
		if (some > 0)
			memcpy(l->packet + sizeof(q), names[done], some * ID_SIZE);
		r = send_packet(l, NULL, sizeof(q) + some * ID_SIZE, NULL, 0);
		done += some;
	} while (r == 0 && done < n);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "ask the launcher") : 0;
}

int islands_discard(struct islands *l, const char (*names)[ID_SIZE], size_t n,
		    struct cay_error *err)
{
	return ask_names(l, SERVICE_DISCARD, names, n, err);
}

int islands_copy(struct island_ref *ref, const char from[ID_SIZE], const char to[ID_SIZE],
		 struct cay_error *err)
{
	struct islands *l = ref->islands;
	struct service_request q = {.kind = SERVICE_COPY};
	int r;

	enter(ref);
	q.island = ref->number;
	memcpy(l->packet, &q, sizeof(q));
	memcpy(l->packet + sizeof(q), from, ID_SIZE);
	memcpy(l->packet + sizeof(q) + ID_SIZE, to, ID_SIZE);
	r = send_packet(l, NULL, sizeof(q) + (size_t)2 * ID_SIZE, NULL, 0);
	if (r == 0)
		return 0;
	leave(ref);
	return cay_fail(err, CAY_E_ENGINE, -r, "ask the launcher");
}

int islands_sweep(struct islands *l, const char (*names)[ID_SIZE], size_t n, struct cay_error *err)
{
	return ask_names(l, SERVICE_SWEEP, names, n, err);
}

void islands_forget(struct island_ref *ref)
{
	outlet_done(&ref->outlet);
	if (!ref->number)
		return;
	islands_kill(ref, 0, CAUSE_CANCELLED);
	leave(ref);
}

/* The launcher is trusted more than islands are, but not with our memory. */
static void mend(struct service_report *r)
{
	cay_error_mend(&r->error);
	if (r->cause > CAUSE_ERROR)
		r->cause = CAUSE_ERROR;
}

/* Without a way out it would hang where it should fail. */
static void take_wires(struct island_ref *ref, const int *wires)
{
	struct cay_error unused;

	if (outlet_open(&ref->outlet, wires, &unused) < 0)
		islands_kill(ref, 0, CAUSE_ERROR);
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fd_closep(&fds[i]);
}

static void pass_on(struct islands *l, struct service_report *r, int *fds, size_t n_fds)
{
	struct island_ref *ref = find(l, r->island);

	if (ref && r->kind == REPORT_NETWORK && n_fds == EGRESS_FDS && ref->outlet.all &&
	    !ref->outlet.number) {
		take_wires(ref, fds);
		return;
	}
	close_all(fds, n_fds);
	if (!ref || r->kind == REPORT_NETWORK)
		return; /* forgotten */
	mend(r);
	if (r->kind == REPORT_GONE || (r->kind == REPORT_FAILED && r->command == 0 && !ref->stands))
		leave(ref);
	if (r->kind == REPORT_READY && r->command == 0) {
		ref->stands = true;
		outbox_move(&l->waiting, &ref->early);
		(void)watch(l);
	}
	ref->report(ref, r);
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	struct islands *l = f->ctx;
	struct service_report r;
	int fds[EGRESS_FDS];
	size_t n_fds;
	ssize_t n;

	/* Where it fails the launcher is gone, which we will hear of by reading. */
	if (events & EPOLLOUT && outbox_flush(&l->waiting, f->fd) != -EAGAIN)
		(void)watch(l);
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	n = msg_recv(f->fd, &r, sizeof(r), fds, EGRESS_FDS, &n_fds);
	if (n == -EAGAIN)
		return;
	if (n == (ssize_t)sizeof(r)) {
		l->stock = r.stock;
		pass_on(l, &r, fds, n_fds);
		return;
	}
	if (n > 0)
		close_all(fds, n_fds);
	loop_remove(l->loop, f);
	l->lost(l->ctx);
}

struct service_stock islands_stock(const struct islands *l)
{
	return l->stock;
}

struct islands *islands_new(struct loop *loop, int sock, struct outlets *outlets,
			    void (*lost)(void *ctx), void *ctx)
{
	struct islands *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->loop = loop;
	l->outlets = outlets;
	l->lost = lost;
	l->ctx = ctx;
	l->sock = (struct loop_fd){.fd = sock, .ready = on_sock, .ctx = l};
	if (fd_set_nonblock(sock, 1) < 0 || loop_add(loop, &l->sock, EPOLLIN) < 0) {
		free(l);
		return NULL;
	}
	return l;
}

void islands_free(struct islands *l)
{
	if (!l)
		return;
	loop_remove(l->loop, &l->sock);
	(void)close(l->sock.fd);
	outbox_done(&l->waiting);
	free(l);
}
