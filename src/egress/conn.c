/*
 * A connection's life. A program's SYN is held back by the kernel, and we see a copy of it:
 *
 *   SYN -> judged -> resolved -> dialled upstream -> the SYN is let through -> accepted -> relayed
 *
 * so that inside, "connected" means that the far side answered, and "refused" that it refused.
 * What fails on the way is told to the program's kernel with a packet, and noted. Connections to
 * our own address need nobody upstream: they are let through at once. One to the HTTP proxy is
 * accepted first; then what it asks for is judged, resolved, dialled and relayed in the same way,
 * and what fails is told in HTTP.
 *
 * Where names are checked, what programs send to the ports of the web is looked at (sniff.h).
 */
#include "egress/conn.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/dial.h"
#include "egress/dns_server.h"
#include "egress/own.h"
#include "egress/proxy.h"
#include "egress/sniff.h"
#include "egress/target.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than name servers may take; then come all addresses. */
#define HELD_MS 20000
/* From when its SYN was let through: the program may have given up. */
#define ACCEPT_MS 5000
/* How often a program's kernel is asked whether a socket is there of which one half has ended. */
#define ALIVE_S 5

/* A place in line for bytes from one side. */
struct paused {
	TAILQ_ENTRY(paused) line;
	struct conn *conn; /* NULL: it waits for nothing */
};

struct conn {
	struct tuple tuple; /* first: the tree's key */
	struct net *net;
	struct conn *next, *prev;
	struct paused paused[2]; /* by the side that bytes come from */
	struct target target;
	struct syn syn;
	bool let_through;
	int island, upstream; /* -1: not yet */
	struct names_wait wait;
	struct dial dial;
	struct relay relay;
	bool relays;
	struct dns_stream *stream;
	struct proxy *proxy;        /* NULL: none was asked */
	bool tunnel;                /* through it */
	struct sniff *sniff;        /* NULL: what is sent is not looked at, or no longer */
	enum sniff_verdict sniffed; /* last */
	struct egress_entry *entry; /* of an allowed one; may be NULL */
	struct loop_timer timer;
	uint64_t active_ns;
};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct tuple));
}

static struct conn *find(const struct net *n, const struct tuple *t)
{
	struct conn *const *found = tfind(t, &n->by_tuple, compare);

	return found ? *found : NULL;
}

static void close_side(int *fd, bool reset)
{
	const struct linger at_once = {.l_onoff = 1};

	if (*fd >= 0 && reset)
		(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	fd_closep(fd);
}

static void pause_side(struct conn *c, enum relay_side from)
{
	struct paused *p = &c->paused[from];

	if (p->conn)
		return;
	p->conn = c;
	TAILQ_INSERT_TAIL(&c->net->paused[from], p, line);
	net_wait(c->net, from);
}

static void unpause(struct conn *c, enum relay_side from)
{
	struct paused *p = &c->paused[from];

	if (p->conn)
		TAILQ_REMOVE(&c->net->paused[from], p, line);
	p->conn = NULL;
}

static void conn_free(struct conn *c, bool reset)
{
	struct net *n = c->net;

	names_leave(&c->wait);
	dial_stop(&c->dial);
	if (c->relays)
		relay_stop(&c->relay);
	dns_stream_free(c->stream);
	proxy_free(c->proxy);
	sniff_free(c->sniff);
	loop_cancel(n->egress->loop, &c->timer);
	unpause(c, RELAY_ISLAND);
	unpause(c, RELAY_UPSTREAM);
	close_side(&c->island, reset);
	close_side(&c->upstream, reset);
	(void)tdelete(c, &n->by_tuple, compare);
	if (c->next)
		c->next->prev = c->prev;
	*(c->prev ? &c->prev->next : &n->conns) = c->next;
	n->n_conns--;
	n->egress->totals.connections--;
	free(c);
}

/*
 * Tells the program's kernel why its SYN leads to nothing. Only what is so outside is called
 * unreachable: where ICMP comes while the kernel is about the socket, a program that asks by
 * SO_ERROR sees none, and takes itself for connected until it sends. A reset has no such moment.
 */
static void refuse(const struct net *n, const struct syn *s, enum egress_why why)
{
	bool outside = why == WHY_UNREACHABLE || why == WHY_TIMED_OUT;
	uint8_t packet[SYN_ANSWER_MAX];
	size_t len =
		outside ? syn_unreachable(s, ICMP_HOST_UNREACH, packet) : syn_refused(s, packet);

	net_send(n, packet, len, s->tuple.from);
}

/* Ends one, whatever it has come to by now. */
static void end(struct conn *c, enum egress_why why)
{
	if (why != WHY_NONE)
		(void)net_note(c->net, c->target.name, c->target.port, why);
	if (!c->let_through)
		refuse(c->net, &c->syn, why == WHY_NONE ? WHY_UNREACHABLE : why);
	conn_free(c, true);
}

/* The same, but whoever speaks HTTP is told, and ends later. */
static void fail(struct conn *c, enum egress_why why)
{
	char text[DOMAIN_SIZE + 64];

	if (!c->proxy || c->relays) {
		end(c, why);
		return;
	}
	(void)net_note(c->net, c->target.name, c->target.port, why);
	(void)snprintf(text, sizeof(text), "%s:%u: %s", c->target.name, c->target.port,
		       egress_why_text(why));
	names_leave(&c->wait);
	dial_stop(&c->dial);
	c->target.kind = TARGET_PROXY;
	proxy_refuse(c->proxy, proxy_status(why), text);
}

void conn_end_all(struct net *n, enum egress_why why)
{
	while (n->conns)
		end(n->conns, why);
}

static void let_through(struct conn *c)
{
	uint8_t packet[SYN_ANSWER_MAX];
	size_t len = syn_again(&c->syn, packet);

	c->let_through = true;
	net_send(c->net, packet, len, c->tuple.to);
}

static void set_timer(struct conn *c, uint64_t ms)
{
	c->active_ns = clock_now_ns();
	(void)loop_after(c->net->egress->loop, &c->timer, ms);
}

static void on_timer(struct loop_timer *t)
{
	struct conn *c = t->ctx;
	uint64_t idle_ns = c->net->egress->settings.network_idle_timeout * 1000000000ull;
	uint64_t now = clock_now_ns();

	if ((c->island < 0 && c->let_through) || c->target.kind == TARGET_PROXY)
		conn_free(c, true); /* nobody waits for it any more */
	else if (c->proxy && !c->relays)
		fail(c, WHY_TIMED_OUT);
	else if (c->island < 0 || now - c->active_ns >= idle_ns)
		end(c, WHY_TIMED_OUT);
	else
		(void)loop_at(c->net->egress->loop, t, c->active_ns + idle_ns);
}

static size_t on_room(void *ctx, enum relay_side from)
{
	struct conn *c = ctx;
	size_t room = net_room(c->net, from);

	if (room == 0)
		pause_side(c, from);
	return room;
}

/*
 * The program has ended its half. Whether it still listens, the kernel does not show, but it
 * answers for sockets that are there: of one that was closed it keeps a trace for a minute
 * (tcp_fin_timeout), and then what comes for it is answered with a reset.
 */
static void ask_for_life(const struct conn *c)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_KEEPIDLE, ALIVE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, ALIVE_S},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
	};

	/* Where it can't be, the time-out of idle ones is left. */
	for (size_t k = 0; k < ARRAY_LEN(options); k++)
		(void)setsockopt(c->island, options[k].level, options[k].name, &options[k].value,
				 sizeof(int));
}

static void on_half(void *ctx, enum relay_side from)
{
	if (from == RELAY_ISLAND)
		ask_for_life(ctx);
}

static void on_moved(void *ctx, enum relay_side from, size_t bytes)
{
	struct conn *c = ctx;

	c->active_ns = clock_now_ns();
	net_used(c->net, from, bytes);
	if (c->entry)
		*(from == RELAY_ISLAND ? &c->entry->bytes_out : &c->entry->bytes_in) += bytes;
}

static void on_ended(void *ctx, enum relay_end how)
{
	struct conn *c = ctx;

	c->relays = false;
	if (how == RELAY_DENIED && c->sniff)
		end(c, c->sniffed == SNIFF_DIFFERS ? WHY_NAME_DIFFERS : WHY_HEAD);
	else
		conn_free(c, how != RELAY_FINISHED);
}

static bool name_ok(void *ctx, const char *name)
{
	const struct conn *c = ctx;

	return target_may_name(c->net, &c->target, name);
}

static enum relay_shown show_to_sniff(void *ctx, const char *data, size_t len, size_t *ret_held)
{
	struct conn *c = ctx;

	c->sniffed = len > 0 ? sniff_bytes(c->sniff, data, len) : sniff_end(c->sniff);
	switch (c->sniffed) {
	case SNIFF_MORE:
	case SNIFF_PASS:
		*ret_held = sniff_held(c->sniff);
		return RELAY_MORE;
	case SNIFF_DONE:
		return RELAY_DONE;
	case SNIFF_DIFFERS:
	case SNIFF_TOO_LONG:
		break;
	}
	return RELAY_END;
}

/* Of a request that was made anew; a second one would go where it was not judged. */
static enum relay_shown show_to_proxy(void *ctx, const char *data, size_t len, size_t *ret_held)
{
	struct conn *c = ctx;
	bool over;
	size_t n;

	if (proxy_body(c->proxy, data, len, &n, &over) < 0)
		return RELAY_END;
	*ret_held = len - n;
	return over ? RELAY_IGNORE : RELAY_MORE;
}

static const struct relay_calls relay_calls = {
	.room = on_room, .moved = on_moved, .half = on_half, .ended = on_ended};
static const struct relay_calls sniffing_calls = {.room = on_room,
						  .moved = on_moved,
						  .half = on_half,
						  .show = show_to_sniff,
						  .ended = on_ended};
static const struct relay_calls proxying_calls = {.room = on_room,
						  .moved = on_moved,
						  .half = on_half,
						  .show = show_to_proxy,
						  .ended = on_ended};

static int start_relay(struct conn *c)
{
	struct net *n = c->net;
	bool proxying = c->proxy && !c->tunnel;
	int r;

	if (n->egress->settings.network_check_names && !proxying &&
	    (c->target.port == 80 || c->target.port == 443)) {
		c->sniff = sniff_new(name_ok, c);
		if (!c->sniff)
			return -ENOMEM;
	}
	set_timer(c, n->egress->settings.network_idle_timeout * 1000);
	(void)setsockopt(c->island, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	c->relay.loop = n->loop;
	c->relay.pipes = &n->egress->pipes;
	c->relay.calls = proxying ? &proxying_calls : c->sniff ? &sniffing_calls : &relay_calls;
	c->relay.ctx = c;
	r = relay_start(&c->relay, c->island, c->upstream);
	c->relays = r == 0;
	return r;
}

static void start_proxied(struct conn *c)
{
	const struct buf *first;
	size_t unseen;

	if (proxy_open(c->proxy, &first, &unseen) < 0 || start_relay(c) < 0) {
		conn_free(c, true);
		return;
	}
	on_moved(c, RELAY_ISLAND, first->len);
	relay_begin_with(&c->relay, first->data, first->len, unseen);
}

static void on_dialled(struct dial *d, int fd, enum egress_why why)
{
	struct conn *c = d->ctx;

	if (fd < 0) {
		fail(c, why);
		return;
	}
	c->upstream = fd;
	c->entry = net_note(c->net, c->target.name, c->target.port, WHY_NONE);
	if (c->proxy) {
		start_proxied(c);
		return;
	}
	set_timer(c, ACCEPT_MS);
	let_through(c);
}

static bool may_dial(const struct conn *c, const struct address *a)
{
	const struct egress *e = c->net->egress;

	return verdict_address(&e->operator, a, own_address(e->own, a), c->target.port) == WHY_NONE;
}

/* To those of the addresses that may be connected to. */
static void dial(struct conn *c, const struct address *list, size_t n)
{
	struct address allowed[BOOK_RESULTS];
	size_t n_allowed = 0;

	for (size_t k = 0; k < n && k < BOOK_RESULTS; k++)
		if (may_dial(c, &list[k]))
			allowed[n_allowed++] = list[k];
	if (n_allowed == 0)
		fail(c, n > 0 ? WHY_NOT_PUBLIC : WHY_NO_SUCH_NAME);
	else if (dial_start(&c->dial, allowed, n_allowed, c->target.port) < 0)
		fail(c, WHY_UNREACHABLE);
}

static void on_resolved(struct names_wait *w, enum egress_why why, struct book_name *found)
{
	struct conn *c = w->ctx;

	if (why != WHY_NONE)
		fail(c, why);
	else
		dial(c, found ? found->leads_to : NULL, found ? found->n_leads_to : 0);
}

static void resolve(struct conn *c)
{
	struct book_name *found;
	int r = names_resolve(&c->net->names, c->target.name, &c->wait, &found);

	if (r < 0)
		fail(c, r == -EAGAIN ? WHY_LOOKUPS : WHY_NO_ANSWER);
	else if (r > 0)
		dial(c, found->leads_to, found->n_leads_to);
}

static void reach(struct conn *c)
{
	set_timer(c, HELD_MS + c->dial.timeout_ms);
	if (c->target.literal)
		dial(c, &c->target.address, 1);
	else
		resolve(c);
}

static bool is_full(const struct net *n)
{
	const struct egress *e = n->egress;

	return n->n_conns >= e->settings.network_connections ||
	       e->totals.connections >= e->connections_max;
}

static struct conn *conn_new(struct net *n, const struct syn *s, const struct target *t)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->tuple = s->tuple;
	if (!tsearch(c, &n->by_tuple, compare)) {
		free(c);
		return NULL;
	}
	c->net = n;
	c->target = *t;
	c->syn = *s;
	c->island = c->upstream = -1;
	c->wait = (struct names_wait){.done = on_resolved, .ctx = c};
	c->dial = (struct dial){.loop = n->loop,
				.timers = n->egress->loop,
				.done = on_dialled,
				.ctx = c,
				.timeout_ms = n->egress->settings.network_connect_timeout * 1000};
	c->timer = (struct loop_timer){.fire = on_timer, .ctx = c};
	c->next = n->conns;
	if (c->next)
		c->next->prev = c;
	n->conns = c;
	n->n_conns++;
	n->egress->totals.connections++;
	return c;
}

static void begin(struct net *n, const struct syn *s, const struct target *t)
{
	struct conn *c = conn_new(n, s, t);

	if (!c) {
		refuse(n, s, WHY_UNREACHABLE);
		return;
	}
	if (t->kind == TARGET_THROUGH) {
		reach(c);
		return;
	}
	set_timer(c, ACCEPT_MS);
	let_through(c);
}

/* A SYN of a connection that we know. Whether that was all. */
static bool is_known(struct net *n, const struct syn *s)
{
	struct conn *c = find(n, &s->tuple);

	if (!c)
		return false;
	if (c->syn.seq == s->seq) {
		if (c->let_through && c->island < 0)
			let_through(c);
		return true;
	}
	/* The program has given up and has the same port again: another connection. */
	conn_free(c, true);
	return false;
}

void conn_syn(struct net *n, const struct syn *s)
{
	struct target t;
	enum egress_why why;

	/* From that port only we send, and are told of that, too. */
	if (s->udp ? ntohs(s->tuple.from_port) == DNS_PORT : is_known(n, s))
		return;
	target_find(n, &s->tuple, &t);
	if (s->udp) {
		(void)net_note(n, t.name, t.port, WHY_PROTOCOL);
		return;
	}
	why = target_judge(n, &t);
	if (why == WHY_NONE && net_is_spent(n))
		why = WHY_BYTES;
	if (why == WHY_NONE && is_full(n))
		why = WHY_CONNECTIONS;
	if (why != WHY_NONE) {
		(void)net_note(n, t.name, t.port, why);
		refuse(n, s, why);
	} else if (rate_room(&n->new_conns, clock_now_ns()) > 0) {
		rate_use(&n->new_conns, 1);
		begin(n, s, &t);
	}
	/* Else it comes again by itself: the island's kernel sends its SYN once more. */
}

static void on_stream(void *ctx, bool over)
{
	struct conn *c = ctx;

	c->active_ns = clock_now_ns();
	if (over)
		conn_free(c, false);
}

static void on_asked(void *ctx, const struct proxy_request *r)
{
	struct conn *c = ctx;
	enum egress_why why;

	c->tunnel = r->connect;
	target_find_proxied(c->net, &r->to, &c->target);
	why = target_judge(c->net, &c->target);
	if (why == WHY_NONE && net_is_spent(c->net))
		why = WHY_BYTES;
	if (why == WHY_NONE)
		reach(c);
	else
		fail(c, why);
}

static void on_over(void *ctx)
{
	conn_free(ctx, false);
}

static const struct proxy_calls proxy_calls = {.asked = on_asked, .over = on_over};

static int start(struct conn *c)
{
	struct net *n = c->net;

	switch (c->target.kind) {
	case TARGET_DNS:
		set_timer(c, n->egress->settings.network_idle_timeout * 1000);
		c->stream = dns_stream_new(n, c->island, on_stream, c);
		return c->stream ? 0 : -ENOMEM;
	case TARGET_PROXY:
		/* It has its own; this is for when memory is out. */
		set_timer(c, HELD_MS);
		c->proxy = proxy_new(n->loop, n->egress->loop, c->island, &proxy_calls, c);
		return c->proxy ? 0 : -ENOMEM;
	case TARGET_THROUGH:
		break;
	}
	return start_relay(c);
}

static int find_tuple(int fd, struct tuple *ret)
{
	struct sockaddr_in from, to;
	socklen_t from_len = sizeof(from), to_len = sizeof(to);

	if (getpeername(fd, (struct sockaddr *)&from, &from_len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&to, &to_len) < 0)
		return -errno;
	*ret = (struct tuple){.from = from.sin_addr.s_addr,
			      .to = to.sin_addr.s_addr,
			      .from_port = from.sin_port,
			      .to_port = to.sin_port};
	return 0;
}

void conn_accepted(struct net *n, int fd)
{
	struct tuple tuple;
	struct conn *c = find_tuple(fd, &tuple) < 0 ? NULL : find(n, &tuple);

	if (!c || !c->let_through || c->island >= 0) {
		close_side(&fd, true);
		return;
	}
	c->island = fd;
	if (start(c) < 0)
		conn_free(c, true);
}

void conn_judge_all(struct net *n)
{
	for (struct conn *c = n->conns, *next; c; c = next) {
		enum egress_why why = target_judge(n, &c->target);

		next = c->next;
		if (why != WHY_NONE)
			fail(c, why);
	}
}

void conn_resume(struct net *n, enum relay_side from)
{
	struct paused *p;

	/* One that takes all there is comes behind the others, which are first the next time. */
	while ((p = TAILQ_FIRST(&n->paused[from])) && net_room(n, from) > 0) {
		struct conn *c = p->conn;

		unpause(c, from);
		relay_resume(&c->relay, from);
	}
	if (p)
		net_wait(n, from);
}
