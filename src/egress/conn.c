/*
 * A connection's life. A program's SYN is held back by the kernel, and we see a copy of it:
 *
 *   SYN -> judged -> resolved -> dialled upstream -> the SYN is let through -> accepted -> relayed
 *
 * so that inside, "connected" means that the far side answered, and "refused" that it refused.
 * What fails on the way is told to the program's kernel with a packet, and noted. Connections to
 * our own address need nobody upstream: they are let through at once.
 */
#include "egress/conn.h"

#include "base/clock.h"
#include "base/fd.h"
#include "egress/dial.h"
#include "egress/dns_server.h"

#include <arpa/inet.h>
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

#define DNS_PORT 53

/* Name servers, then all addresses: more than both may take. */
#define HELD_MS 30000
/* From when its SYN was let through: the program may have given up. */
#define ACCEPT_MS 5000

enum conn_kind {
	CONN_THROUGH, /* to somebody upstream */
	CONN_DNS,     /* to us, who answer */
};

/* Where a program wants to go. */
struct target {
	enum conn_kind kind;
	bool literal;           /* an address that is of no name */
	char name[DOMAIN_SIZE]; /* or the address, as text */
	struct address address;
	uint16_t port;
};

struct conn {
	struct tuple tuple; /* first: the tree's key */
	struct net *net;
	struct conn *next, *prev;
	struct conn *next_paused;
	bool is_paused;
	struct target target;
	struct syn syn;
	bool let_through;
	int island, upstream; /* -1: not yet */
	struct names_wait wait;
	struct dial dial;
	struct relay relay;
	bool relays;
	struct dns_stream *stream;
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

static void unpause(struct conn *c)
{
	struct conn **at = &c->net->paused;

	if (!c->is_paused)
		return;
	while (*at != c)
		at = &(*at)->next_paused;
	*at = c->next_paused;
	c->is_paused = false;
}

static void conn_free(struct conn *c, bool reset)
{
	struct net *n = c->net;

	names_leave(&c->wait);
	dial_stop(&c->dial);
	if (c->relays)
		relay_stop(&c->relay);
	dns_stream_free(c->stream);
	loop_cancel(n->egress->loop, &c->timer);
	unpause(c);
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

/* Tells the program's kernel why its SYN leads to nothing. */
static void refuse(const struct net *n, const struct syn *s, enum egress_why why)
{
	uint8_t packet[SYN_ANSWER_MAX];
	size_t len;

	if (why == WHY_REFUSED || why == WHY_RESET || why == WHY_CONNECTIONS)
		len = syn_refused(s, packet);
	else
		len = syn_unreachable(s,
				      journal_verdict(why) == VERDICT_DENIED ? ICMP_PKT_FILTERED
									     : ICMP_HOST_UNREACH,
				      packet);
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

	if (c->island < 0 && c->let_through)
		conn_free(c, true); /* nobody waits for it any more */
	else if (c->island < 0 || now - c->active_ns >= idle_ns)
		end(c, WHY_TIMED_OUT);
	else
		(void)loop_at(c->net->egress->loop, t, c->active_ns + idle_ns);
}

static void on_dialled(struct dial *d, int fd, enum egress_why why)
{
	struct conn *c = d->ctx;

	if (fd < 0) {
		end(c, why);
		return;
	}
	c->upstream = fd;
	c->entry = net_note(c->net, c->target.name, c->target.port, WHY_NONE);
	set_timer(c, ACCEPT_MS);
	let_through(c);
}

/* To those of the addresses that may be connected to. */
static void dial(struct conn *c, const struct address *list, size_t n)
{
	struct address allowed[BOOK_RESULTS];
	size_t n_allowed = 0;

	for (size_t k = 0; k < n && k < BOOK_RESULTS; k++)
		if (verdict_address(&c->net->egress->operator, & list[k], c->target.port) ==
		    WHY_NONE)
			allowed[n_allowed++] = list[k];
	if (n_allowed == 0)
		end(c, n > 0 ? WHY_NOT_PUBLIC : WHY_NO_SUCH_NAME);
	else if (dial_start(&c->dial, allowed, n_allowed, c->target.port) < 0)
		end(c, WHY_UNREACHABLE);
}

static void on_resolved(struct names_wait *w, enum egress_why why, struct book_name *found)
{
	struct conn *c = w->ctx;

	if (why != WHY_NONE)
		end(c, why);
	else
		dial(c, found ? found->leads_to : NULL, found ? found->n_leads_to : 0);
}

static void resolve(struct conn *c)
{
	struct book_name *found;
	int r = names_resolve(&c->net->names, c->target.name, &c->wait, &found);

	if (r < 0)
		end(c, WHY_NO_ANSWER);
	else if (r > 0)
		dial(c, found->leads_to, found->n_leads_to);
}

static void find_target(const struct net *n, const struct tuple *t, struct target *ret)
{
	uint32_t to = ntohl(t->to);
	const struct book_name *known = book_at(&n->names.book, to);

	*ret = (struct target){.port = ntohs(t->to_port), .literal = !known};
	ret->address.bytes[10] = ret->address.bytes[11] = 0xff;
	memcpy(ret->address.bytes + 12, &t->to, 4);
	if (known)
		(void)snprintf(ret->name, sizeof(ret->name), "%s", known->name);
	else
		address_text(&ret->address, ret->name);
	if (!known && ret->port == DNS_PORT && dns_server_is_asked(n, to))
		ret->kind = CONN_DNS;
}

static enum egress_why judge(const struct net *n, const struct target *t)
{
	if (t->kind == CONN_DNS)
		return WHY_NONE;
	return t->literal ? verdict_literal(&n->policy, &t->address, t->port)
			  : verdict_name(&n->policy, t->name, t->port);
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
	c->dial = (struct dial){
		.loop = n->loop, .timers = n->egress->loop, .done = on_dialled, .ctx = c};
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
	set_timer(c, t->kind == CONN_THROUGH ? HELD_MS : ACCEPT_MS);
	if (t->kind != CONN_THROUGH)
		let_through(c);
	else if (t->literal)
		dial(c, &t->address, 1);
	else
		resolve(c);
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

	if (!s->udp && is_known(n, s))
		return;
	find_target(n, &s->tuple, &t);
	if (s->udp) {
		(void)net_note(n, t.name, t.port, WHY_PROTOCOL);
		return;
	}
	why = judge(n, &t);
	if (why == WHY_NONE && net_is_spent(n))
		why = WHY_BYTES;
	if (why == WHY_NONE && is_full(n))
		why = WHY_CONNECTIONS;
	if (why == WHY_NONE) {
		begin(n, s, &t);
		return;
	}
	(void)net_note(n, t.name, t.port, why);
	refuse(n, s, why);
}

static size_t on_room(void *ctx, enum relay_side from)
{
	struct conn *c = ctx;
	size_t room = net_room(c->net, from);

	if (room == 0 && !c->is_paused) {
		c->is_paused = true;
		c->next_paused = c->net->paused;
		c->net->paused = c;
		net_wait(c->net);
	}
	return room;
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
	if (how == RELAY_DENIED)
		end(c, WHY_NAME_DIFFERS);
	else
		conn_free(c, how != RELAY_FINISHED);
}

/* What programs send is shown to nobody yet: .show is where names in it are looked at. */
static const struct relay_calls relay_calls = {
	.room = on_room, .moved = on_moved, .ended = on_ended};

static void on_stream(void *ctx, bool over)
{
	struct conn *c = ctx;

	c->active_ns = clock_now_ns();
	if (over)
		conn_free(c, false);
}

static int start(struct conn *c)
{
	struct net *n = c->net;

	set_timer(c, n->egress->settings.network_idle_timeout * 1000);
	if (c->target.kind == CONN_DNS) {
		c->stream = dns_stream_new(n, c->island, on_stream, c);
		return c->stream ? 0 : -ENOMEM;
	}
	(void)setsockopt(c->island, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	c->relay.loop = n->loop;
	c->relay.pipes = &n->egress->pipes;
	c->relay.calls = &relay_calls;
	c->relay.ctx = c;
	c->relays = relay_start(&c->relay, c->island, c->upstream) == 0;
	return c->relays ? 0 : -ENOMEM;
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
		enum egress_why why = judge(n, &c->target);

		next = c->next;
		if (why != WHY_NONE)
			end(c, why);
	}
}

void conn_resume(struct net *n)
{
	struct conn *c = n->paused;

	/* Those that find no room again come to a new list. */
	n->paused = NULL;
	while (c) {
		struct conn *next = c->next_paused;

		c->is_paused = false;
		relay_resume(&c->relay);
		c = next;
	}
}
