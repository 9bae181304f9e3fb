#include "egress/net.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "egress/conn.h"
#include "egress/dns_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Calls a turn, and packets or connections a call. */
#define TURN_CALLS    16
#define TURN_PACKETS  16
#define TURN_ACCEPTED 16

/* How long connections wait that the rate holds up. */
#define RATE_WAIT_MS 20

/* Bytes that one has at once of what all share, where many want some. */
#define SHARE_LEAST 4096

/* Lines of the log: one network may be this much ahead of one a second. */
#define LOG_EACH_NS  1000000000ull
#define LOG_AHEAD_NS (20 * LOG_EACH_NS)

/* What comes with one read of NFLOG's: the kernel sends at most a page. */
#define NFLOG_BYTES 8192

static void on_turn(struct loop_fd *f, uint32_t events _unused_)
{
	struct net *n = f->ctx;

	loop_turn(n->loop, TURN_CALLS);
}

static void read_syns(struct net *n, const uint8_t *data, size_t len)
{
	struct nflog log = {data, len};
	const uint8_t *packet;
	size_t packet_len;
	struct syn syn;

	while (nflog_next(&log, &packet, &packet_len))
		if (syn_parse(packet, packet_len, &syn) == 0)
			conn_syn(n, &syn);
}

static void on_syns(struct loop_fd *f, uint32_t events _unused_)
{
	uint8_t data[NFLOG_BYTES];

	/* What got lost because there was too much (ENOBUFS) is sent again by itself. */
	for (int k = 0; k < TURN_PACKETS; k++) {
		ssize_t len = recv(f->fd, data, sizeof(data), 0);

		if (len <= 0 && errno != ENOBUFS)
			break;
		if (len > 0)
			read_syns(f->ctx, data, (size_t)len);
	}
}

static void on_listener(struct loop_fd *f, uint32_t events _unused_)
{
	for (int k = 0; k < TURN_ACCEPTED; k++) {
		int fd = accept4(f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			conn_accepted(f->ctx, fd);
		else if (errno != ECONNABORTED)
			break;
	}
}

static void on_dns(struct loop_fd *f, uint32_t events _unused_)
{
	for (int k = 0; k < TURN_PACKETS; k++)
		if (!dns_server_read(f->ctx))
			break;
}

static void on_again(struct loop_timer *t)
{
	struct net *n = t->ctx;

	conn_resume(n, RELAY_ISLAND);
	conn_resume(n, RELAY_UPSTREAM);
}

static void on_spent(struct loop_timer *t)
{
	conn_end_all(t->ctx, WHY_BYTES);
}

/*
 * What all networks share: so many bytes a second from each side. One that finds none left comes to
 * a line, whose networks have the same share each time there is some; those that came late, or are
 * there again, are behind the others. So it is of no use to have many connections.
 */

static void join_line(struct net *n, enum relay_side from)
{
	struct egress *e = n->egress;
	struct place *p = &n->place[from];

	if (!p->net) {
		p->net = n;
		TAILQ_INSERT_TAIL(&e->waiting[from], p, line);
		e->n_waiting[from]++;
	}
	if (e->share.place == 0)
		(void)loop_after(e->loop, &e->share, RATE_WAIT_MS);
}

static void leave_line(struct net *n, enum relay_side from)
{
	struct place *p = &n->place[from];

	if (!p->net)
		return;
	p->net = NULL;
	TAILQ_REMOVE(&n->egress->waiting[from], p, line);
	n->egress->n_waiting[from]--;
}

static size_t shared_room(struct net *n, enum relay_side from, uint64_t now)
{
	struct egress *e = n->egress;
	size_t room = rate_room(&e->rate[from], now);

	if (e->rate[from].per_second == 0)
		return SIZE_MAX;
	if (n->place[from].share == 0 && TAILQ_EMPTY(&e->waiting[from]))
		n->place[from].share = room;
	return size_min(n->place[from].share, room);
}

static void share_out(struct egress *e, enum relay_side from)
{
	size_t room = rate_room(&e->rate[from], clock_now_ns()), n = e->n_waiting[from];
	size_t each = n > 0 ? size_max(room / n, SHARE_LEAST) : 0;

	for (; n > 0 && room > 0; n--) {
		struct place *p = TAILQ_FIRST(&e->waiting[from]);
		struct net *net = p->net;

		leave_line(net, from);
		p->share = size_min(each, room);
		room -= p->share;
		conn_resume(net, from);
	}
}

static void on_share(struct loop_timer *t)
{
	struct egress *e = t->ctx;

	share_out(e, RELAY_ISLAND);
	share_out(e, RELAY_UPSTREAM);
	if (e->n_waiting[RELAY_ISLAND] + e->n_waiting[RELAY_UPSTREAM] > 0)
		(void)loop_after(e->loop, t, RATE_WAIT_MS);
}

void egress_share_init(struct egress *e)
{
	for (int from = 0; from < 2; from++) {
		e->rate[from] = rate_of_bytes(e->settings.network_total_rate);
		TAILQ_INIT(&e->waiting[from]);
	}
	e->share = (struct loop_timer){.fire = on_share, .ctx = e};
}

static bool has_option(int fd, int name, int value)
{
	int is = -1;
	socklen_t len = sizeof(is);

	return getsockopt(fd, SOL_SOCKET, name, &is, &len) == 0 && is == value;
}

/* Whether it is the kind of sockets that it has to be: whoever sent them may have erred. */
static bool sockets_ok(const int fds[EGRESS_FDS])
{
	for (int k = 0; k < EGRESS_FDS; k++)
		if (fd_set_nonblock(fds[k], 1) < 0)
			return false;
	return has_option(fds[EGRESS_LISTENER], SO_DOMAIN, AF_INET) &&
	       has_option(fds[EGRESS_LISTENER], SO_ACCEPTCONN, 1) &&
	       has_option(fds[EGRESS_DNS], SO_DOMAIN, AF_INET) &&
	       has_option(fds[EGRESS_DNS], SO_TYPE, SOCK_DGRAM) &&
	       has_option(fds[EGRESS_SYNS], SO_DOMAIN, AF_NETLINK) &&
	       has_option(fds[EGRESS_RAW], SO_DOMAIN, AF_INET) &&
	       has_option(fds[EGRESS_RAW], SO_TYPE, SOCK_RAW);
}

static int watch(struct net *n)
{
	int r = loop_add(n->loop, &n->listener, EPOLLIN);

	if (r == 0)
		r = loop_add(n->loop, &n->dns, EPOLLIN);
	if (r == 0)
		r = loop_add(n->loop, &n->syns, EPOLLIN);
	return r == 0 ? loop_add(n->egress->loop, &n->turn, EPOLLIN) : r;
}

static void net_free(struct net *n)
{
	loop_remove(n->egress->loop, &n->turn);
	loop_free(n->loop);
	free(n);
}

static struct net *net_new(struct egress *e, uint64_t number, const int fds[EGRESS_FDS])
{
	struct net *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct net){
		.egress = e,
		.number = number,
		.listener = {.fd = fds[EGRESS_LISTENER], .ready = on_listener, .ctx = n},
		.dns = {.fd = fds[EGRESS_DNS], .ready = on_dns, .ctx = n},
		.syns = {.fd = fds[EGRESS_SYNS], .ready = on_syns, .ctx = n},
		.raw = fds[EGRESS_RAW],
		.loop = loop_new(),
		.turn = {.ready = on_turn, .ctx = n},
		.new_conns = rate_of_things(e->settings.network_connection_rate),
		.rate = {rate_of_bytes(e->settings.network_rate),
			 rate_of_bytes(e->settings.network_rate)},
		.again = {.fire = on_again, .ctx = n},
		.spent = {.fire = on_spent, .ctx = n},
	};
	names_init(&n->names, e->loop, e->resolver, e->settings.network_lookup_rate);
	TAILQ_INIT(&n->paused[RELAY_ISLAND]);
	TAILQ_INIT(&n->paused[RELAY_UPSTREAM]);
	if (n->loop) {
		n->turn.fd = loop_epoll(n->loop);
		if (watch(n) == 0)
			return n;
	}
	net_free(n);
	return NULL;
}

int net_open(struct egress *e, const struct egress_request *q, const int fds[EGRESS_FDS],
	     const struct rules *rules, struct cay_error *err)
{
	struct net *n;

	if (q->number == 0 || net_find(e, q->number))
		return cay_fail(err, CAY_E_CONFLICT, 0, "the network's number is taken");
	if (!sockets_ok(fds))
		return cay_fail(err, CAY_E_INVALID, 0, "these are not a network's sockets");
	n = net_new(e, q->number, fds);
	if (!n)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "take on a network");
	(void)snprintf(n->name, sizeof(n->name), "%.*s", (int)sizeof(q->name) - 1, q->name);
	n->policy = (struct policy){.mode = q->mode, .rules = *rules, .operator= & e->operator};
	n->next = e->nets;
	e->nets = n;
	e->totals.networks++;
	return 0;
}

struct net *net_find(const struct egress *e, uint64_t number)
{
	struct net *n = e->nets;

	while (n && n->number != number)
		n = n->next;
	return n;
}

static void unlink_net(struct net *n)
{
	struct net **at = &n->egress->nets;

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	n->egress->totals.networks--;
}

void net_close(struct net *n)
{
	unlink_net(n);
	conn_end_all(n, WHY_NONE);
	dns_server_leave(n);
	names_done(&n->names);
	leave_line(n, RELAY_ISLAND);
	leave_line(n, RELAY_UPSTREAM);
	loop_cancel(n->egress->loop, &n->again);
	loop_cancel(n->egress->loop, &n->spent);
	loop_remove(n->egress->loop, &n->turn);
	fd_closep(&n->listener.fd);
	fd_closep(&n->dns.fd);
	fd_closep(&n->syns.fd);
	fd_closep(&n->raw);
	rules_done(&n->policy.rules);
	net_free(n);
}

void net_set_rules(struct net *n, enum network_mode mode, const struct rules *rules)
{
	rules_done(&n->policy.rules);
	n->policy.rules = *rules;
	n->policy.mode = mode;
	conn_judge_all(n);
}

static void log_entry(struct net *n, const struct egress_entry *e)
{
	uint64_t now = clock_now_ns();
	char port[8];

	if (n->log_ns > now + LOG_AHEAD_NS)
		return;
	n->log_ns = (n->log_ns > now ? n->log_ns : now) + LOG_EACH_NS;
	(void)snprintf(port, sizeof(port), "%u", e->port);
	log_info(egress_verdict_name(e->verdict), "of", n->name, "name", e->name, "port",
		 e->port > 0 ? port : NULL, "why",
		 e->why != WHY_NONE ? egress_why_text(e->why) : NULL);
}

struct egress_entry *net_note(struct net *n, const char *name, uint16_t port, enum egress_why why)
{
	struct egress_totals *t = &n->egress->totals;
	uint64_t *const counts[VERDICTS] = {&t->allowed, &t->denied, &t->failed};
	bool is_new;
	struct egress_entry *e = journal_note(&n->journal, name, port, why, &is_new);

	(*counts[journal_verdict(why)])++;
	if (is_new)
		log_entry(n, e);
	return e;
}

void net_send(const struct net *n, const uint8_t *packet, size_t len, uint32_t to)
{
	const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = to};

	/* One that gets lost is asked for again: the island's kernel sends its SYN once more. */
	(void)sendto(n->raw, packet, len, 0, (const struct sockaddr *)&address, sizeof(address));
}

bool net_is_spent(const struct net *n)
{
	uint64_t max = n->egress->settings.network_bytes;

	return max > 0 && n->bytes >= max;
}

size_t net_room(struct net *n, enum relay_side from)
{
	uint64_t max = n->egress->settings.network_bytes;
	uint64_t now = clock_now_ns();
	size_t room = size_min(rate_room(&n->rate[from], now), shared_room(n, from, now));

	if (net_is_spent(n)) {
		(void)loop_after(n->egress->loop, &n->spent, 0);
		return 0;
	}
	return max > 0 && max - n->bytes < room ? (size_t)(max - n->bytes) : room;
}

void net_used(struct net *n, enum relay_side from, size_t bytes)
{
	struct egress_totals *t = &n->egress->totals;

	rate_use(&n->rate[from], bytes);
	rate_use(&n->egress->rate[from], bytes);
	n->place[from].share -= size_min(bytes, n->place[from].share);
	n->bytes += bytes;
	*(from == RELAY_ISLAND ? &t->bytes_out : &t->bytes_in) += bytes;
}

void net_wait(struct net *n, enum relay_side from)
{
	uint64_t now = clock_now_ns();

	if (rate_room(&n->rate[from], now) > 0 && shared_room(n, from, now) == 0)
		join_line(n, from);
	else if (n->again.place == 0)
		(void)loop_after(n->egress->loop, &n->again, RATE_WAIT_MS);
}
