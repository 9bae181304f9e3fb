#include "egress/dns_server.h"

#include "base/attr.h"
#include "egress/bytes.h"
#include "egress/dns.h"
#include "egress/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define LOOPBACK_NET 127
#define LENGTH       2 /* in front of a question by TCP */
#define DNS_PORT     53

/* A question. It is copied where it has to wait, as those about names that are not known do. */
struct asked {
	struct asked *next, *prev;
	struct net *net;
	struct names_wait wait;
	struct dns_query query;
	struct sockaddr_in from; /* by UDP */
	struct in_addr at;
	struct dns_stream *stream; /* or by TCP; NULL */
};

struct dns_stream {
	struct net *net;
	struct loop_fd f;
	dns_stream_fn *on;
	void *ctx;
	struct asked *asked; /* that waits: one at a time */
	size_t len;
	uint8_t data[LENGTH + DNS_QUERY_MAX];
};

bool dns_server_is_asked(const struct net *n, uint32_t address)
{
	return address == BOOK_OURS || address >> 24 == LOOPBACK_NET ||
	       n->policy.mode == NETWORK_FULL;
}

static void send_udp(const struct asked *a, const uint8_t *data, size_t len)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {.room = {0}};
	struct iovec piece = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr m = {
		.msg_name = (void *)&a->from,
		.msg_namelen = sizeof(a->from),
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct in_pktinfo info = {.ipi_spec_dst = a->at};

	/* From the address that was asked: programs don't listen to others. */
	control.head = (struct cmsghdr){.cmsg_level = IPPROTO_IP,
					.cmsg_type = IP_PKTINFO,
					.cmsg_len = CMSG_LEN(sizeof(info))};
	memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
	(void)sendmsg(a->net->dns.fd, &m, MSG_NOSIGNAL);
}

static void send_tcp(struct dns_stream *s, const uint8_t *data, size_t len)
{
	uint8_t out[LENGTH + DNS_ANSWER_MAX];

	bytes_put16(out, (unsigned)len);
	memcpy(out + LENGTH, data, len);
	/* One who does not read answers this short is not waited for: on_stream sees the end. */
	if (send(s->f.fd, out, LENGTH + len, MSG_NOSIGNAL) != (ssize_t)(LENGTH + len))
		(void)shutdown(s->f.fd, SHUT_RDWR);
}

static void answer(const struct asked *a, enum dns_code code, const struct book_name *found)
{
	uint8_t out[DNS_ANSWER_MAX];
	uint32_t address = found ? htonl(found->address) : 0;
	bool told = found && a->query.type == DNS_TYPE_A;
	size_t len = dns_answer(&a->query, code, told ? (const uint8_t *)&address : NULL, out);

	if (a->stream)
		send_tcp(a->stream, out, len);
	else
		send_udp(a, out, len);
}

static enum dns_code code_of(enum egress_why why)
{
	if (why == WHY_NONE)
		return DNS_OK;
	return why == WHY_NO_ANSWER || why == WHY_NAMES || why == WHY_LOOKUPS ? DNS_FAILED
									      : DNS_NO_NAME;
}

/* Whether there is a port of one of its addresses that may be connected to. */
static bool is_of_use(const struct egress *e, const struct book_name *found)
{
	for (size_t k = 0; k < found->n_leads_to; k++) {
		const struct address *to = &found->leads_to[k];

		if (verdict_address(&e->operator, to, own_address(e->own, to), 0) == WHY_NONE)
			return true;
	}
	return false;
}

static void conclude(const struct asked *a, enum egress_why why, const struct book_name *found)
{
	if (found && !is_of_use(a->net->egress, found)) {
		why = WHY_NOT_PUBLIC;
		found = NULL;
	}
	if (why != WHY_NONE)
		(void)net_note(a->net, a->query.name, 0, why);
	answer(a, code_of(why), found);
}

static void asked_free(struct asked *a)
{
	struct net *n = a->net;

	names_leave(&a->wait);
	if (a->next)
		a->next->prev = a->prev;
	*(a->prev ? &a->prev->next : &n->asked) = a->next;
	n->n_asked--;
	free(a);
}

void dns_server_leave(struct net *n)
{
	while (n->asked)
		asked_free(n->asked);
}

static void go_on(struct dns_stream *s);

static void on_resolved(struct names_wait *w, enum egress_why why, struct book_name *found)
{
	struct asked *a = w->ctx;
	struct dns_stream *s = a->stream;

	conclude(a, why, found);
	asked_free(a);
	if (s) {
		s->asked = NULL;
		go_on(s);
	}
}

/* A copy of it that can wait; NULL: there are too many, or no memory. */
static struct asked *keep(const struct asked *a)
{
	struct net *n = a->net;
	struct asked *copy = n->n_asked < DNS_ASKED_MAX ? malloc(sizeof(*copy)) : NULL;

	if (!copy)
		return NULL;
	*copy = *a;
	copy->wait = (struct names_wait){.done = on_resolved, .ctx = copy};
	copy->prev = NULL;
	copy->next = n->asked;
	if (copy->next)
		copy->next->prev = copy;
	n->asked = copy;
	n->n_asked++;
	return copy;
}

/* Answers it, or returns one that waits. */
static struct asked *resolve(const struct asked *a)
{
	struct asked *waiting = keep(a);
	struct book_name *found = NULL;
	int r;

	if (!waiting) {
		conclude(a, WHY_LOOKUPS, NULL);
		return NULL;
	}
	r = names_resolve(&a->net->names, a->query.name, &waiting->wait, &found);
	if (r == 0)
		return waiting;
	conclude(a, r > 0 ? WHY_NONE : r == -EAGAIN ? WHY_LOOKUPS : WHY_NO_ANSWER, found);
	asked_free(waiting);
	return NULL;
}

/* at: the address that was asked, in the host's order. */
static struct asked *take(const struct asked *a, uint32_t at)
{
	enum egress_why why;

	if (!dns_server_is_asked(a->net, at)) {
		char text[INET_ADDRSTRLEN] = "";

		(void)inet_ntop(AF_INET, &a->at, text, sizeof(text));
		(void)net_note(a->net, text, DNS_PORT, WHY_LITERAL);
		answer(a, DNS_REFUSED, NULL);
		return NULL;
	}
	if (a->query.code != DNS_OK) {
		answer(a, a->query.code, NULL);
		return NULL;
	}
	why = a->query.is_name ? verdict_name(&a->net->policy, a->query.name, 0) : WHY_NOT_A_NAME;
	if (why == WHY_NONE)
		return resolve(a);
	conclude(a, why, NULL);
	return NULL;
}

/* The address that a datagram was sent to. */
static bool find_address(struct msghdr *m, struct in_addr *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
		    c->cmsg_len >= CMSG_LEN(sizeof(struct in_pktinfo))) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			*ret = info.ipi_addr;
			return true;
		}
	return false;
}

bool dns_server_read(struct net *n)
{
	struct asked a = {.net = n};
	char control[256];
	uint8_t data[DNS_QUERY_MAX];
	struct iovec piece = {.iov_base = data, .iov_len = sizeof(data)};
	struct msghdr m = {
		.msg_name = &a.from,
		.msg_namelen = sizeof(a.from),
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t len = recvmsg(n->dns.fd, &m, 0);

	if (len < 0)
		return false;
	if (!(m.msg_flags & MSG_TRUNC) && find_address(&m, &a.at) &&
	    dns_parse(data, (size_t)len, &a.query) == 0)
		(void)take(&a, ntohl(a.at.s_addr));
	return true;
}

/* The length of the first question, if all of it is there; 0: not yet. -EBADMSG: never. */
static int whole(const struct dns_stream *s)
{
	size_t len = s->len < LENGTH ? 0 : bytes_get16(s->data);

	if (s->len >= LENGTH && (len == 0 || len > DNS_QUERY_MAX))
		return -EBADMSG;
	return s->len >= LENGTH && s->len >= LENGTH + len ? (int)len : 0;
}

/* Takes the questions that are there, up to one that waits. */
static int take_all(struct dns_stream *s)
{
	int len = 0;

	while (!s->asked && (len = whole(s)) > 0) {
		struct asked a = {.net = s->net, .stream = s};
		size_t used = LENGTH + (size_t)len;

		if (dns_parse(s->data + LENGTH, (size_t)len, &a.query) < 0)
			return -EBADMSG;
		s->len -= used;
		memmove(s->data, s->data + used, s->len);
		/* Whether it is for us was seen when the connection was let through. */
		s->asked = take(&a, BOOK_OURS);
	}
	return s->asked ? 0 : len;
}

static void go_on(struct dns_stream *s)
{
	int r = take_all(s);

	if (r == 0)
		r = loop_change(s->net->loop, &s->f, s->asked ? 0 : EPOLLIN);
	s->on(s->ctx, r < 0);
}

static void on_stream(struct loop_fd *f, uint32_t events _unused_)
{
	struct dns_stream *s = f->ctx;
	ssize_t n = recv(f->fd, s->data + s->len, sizeof(s->data) - s->len, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		s->on(s->ctx, true);
		return;
	}
	s->len += (size_t)n;
	go_on(s);
}

struct dns_stream *dns_stream_new(struct net *n, int fd, dns_stream_fn *on, void *ctx)
{
	struct dns_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->net = n;
	s->f = (struct loop_fd){.fd = fd, .ready = on_stream, .ctx = s};
	s->on = on;
	s->ctx = ctx;
	if (loop_add(n->loop, &s->f, EPOLLIN) == 0)
		return s;
	free(s);
	return NULL;
}

void dns_stream_free(struct dns_stream *s)
{
	if (!s)
		return;
	loop_remove(s->net->loop, &s->f);
	if (s->asked)
		asked_free(s->asked);
	free(s);
}
