#include "egress/control.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/types.h>

#define TOTALS_MS 1000

static void stop(struct control *c)
{
	loop_stop(c->egress->loop);
}

/* Requests are only read while nothing waits to be sent: so little ever does. */
static void watch(struct control *c)
{
	if (loop_change(c->egress->loop, &c->f, c->outbox.first ? EPOLLOUT : EPOLLIN) < 0)
		stop(c);
}

static void say(struct control *c, const void *data, size_t len)
{
	if (outbox_send(&c->outbox, c->f.fd, data, len, NULL, 0) < 0)
		stop(c);
	watch(c);
}

/* err: NULL: it was done. */
static void say_done(struct control *c, const struct egress_request *q, const struct cay_error *err)
{
	struct egress_answer a = {.kind = err ? ANSWER_FAILED : ANSWER_DONE,
				  .number = q->number,
				  .serial = q->serial};

	if (err)
		a.error = *err;
	say(c, &a, sizeof(a));
}

static void say_entries(struct control *c, enum egress_answer_kind kind,
			const struct egress_request *q, const struct journal *j)
{
	struct {
		struct egress_answer answer;
		struct egress_entry entries[EGRESS_ENTRIES_MAX];
	} packet = {.answer = {.kind = kind, .number = q->number, .serial = q->serial}};

	_Static_assert(sizeof(packet) == EGRESS_ANSWER_MAX, "entries are right behind the answer");
	if (j) {
		packet.answer.n_entries = (uint32_t)j->n;
		packet.answer.unlisted = j->unlisted;
		memcpy(packet.entries, j->entries, j->n * sizeof(j->entries[0]));
	}
	say(c, &packet,
	    sizeof(packet.answer) + packet.answer.n_entries * sizeof(struct egress_entry));
}

static int parse_rules(const struct egress_request *q, const char *text, size_t len,
		       struct rules *ret, struct cay_error *err)
{
	if (q->mode >= NETWORK_MODES)
		return cay_fail(err, CAY_E_INVALID, 0, "there is no such network mode");
	return rules_parse(text, len, ret, err);
}

/* Takes the fds if it succeeds. */
static int open_net(struct control *c, const struct egress_request *q, const char *text, size_t len,
		    const int *fds, size_t n_fds, struct cay_error *err)
{
	struct rules rules;

	if (n_fds != EGRESS_FDS)
		return cay_fail(err, CAY_E_INVALID, 0, "a network has %d sockets, not %zu",
				EGRESS_FDS, n_fds);
	if (parse_rules(q, text, len, &rules, err) < 0)
		return -1;
	if (net_open(c->egress, q, fds, &rules, err) == 0)
		return 0;
	rules_done(&rules);
	return -1;
}

static int set_rules(struct control *c, const struct egress_request *q, const char *text,
		     size_t len, struct cay_error *err)
{
	struct net *n = net_find(c->egress, q->number);
	struct rules rules;

	if (!n)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no such network");
	if (parse_rules(q, text, len, &rules, err) < 0)
		return -1;
	net_set_rules(n, q->mode, &rules);
	return 0;
}

static void close_net(struct control *c, const struct egress_request *q)
{
	struct net *n = net_find(c->egress, q->number);

	/* Of one that is not known there is nothing to tell, but that it is closed. */
	say_entries(c, ANSWER_CLOSED, q, n ? &n->journal : NULL);
	if (n)
		net_close(n);
}

/* Whether the fds were taken. */
static bool take(struct control *c, const struct egress_request *q, const char *text, size_t len,
		 const int *fds, size_t n_fds)
{
	const struct net *n = net_find(c->egress, q->number);
	struct cay_error err;
	int r;

	switch (q->kind) {
	case EGRESS_OPEN:
		r = open_net(c, q, text, len, fds, n_fds, &err);
		say_done(c, q, r < 0 ? &err : NULL);
		return r == 0;
	case EGRESS_RULES:
		r = set_rules(c, q, text, len, &err);
		say_done(c, q, r < 0 ? &err : NULL);
		break;
	case EGRESS_REPORT:
		say_entries(c, ANSWER_REPORT, q, n ? &n->journal : NULL);
		break;
	case EGRESS_CLOSE:
		close_net(c, q);
		break;
	default:
		(void)cay_fail(&err, CAY_E_INVALID, 0, "there is no such request");
		say_done(c, q, &err);
	}
	return false;
}

static void read_packet(struct control *c)
{
	int fds[MSG_FDS_MAX];
	size_t n_fds = 0;
	ssize_t len = msg_recv(c->f.fd, c->packet, EGRESS_REQUEST_MAX, fds, MSG_FDS_MAX, &n_fds);
	struct egress_request q;
	bool taken = false;

	if (len == -EAGAIN || len == -EINTR || len == -EMSGSIZE)
		return;
	if (len <= 0) {
		stop(c);
		return;
	}
	if ((size_t)len >= sizeof(q)) {
		memcpy(&q, c->packet, sizeof(q));
		taken = take(c, &q, c->packet + sizeof(q), (size_t)len - sizeof(q), fds, n_fds);
	}
	for (size_t k = 0; !taken && k < n_fds; k++)
		fd_closep(&fds[k]);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct control *c = f->ctx;
	int r = outbox_flush(&c->outbox, f->fd);

	if (r < 0 && r != -EAGAIN) {
		stop(c);
		return;
	}
	/* With EPOLLHUP, too: what was said before is read to its end, which is seen there. */
	if (!c->outbox.first || events & EPOLLHUP)
		read_packet(c);
	watch(c);
}

static void on_totals(struct loop_timer *t)
{
	struct control *c = t->ctx;
	const struct egress_answer a = {.kind = ANSWER_TOTALS, .totals = c->egress->totals};

	if (!c->outbox.first && memcmp(&c->told, &a.totals, sizeof(c->told)) != 0) {
		c->told = a.totals;
		say(c, &a, sizeof(a));
	}
	(void)loop_after(c->egress->loop, t, TOTALS_MS);
}

int control_start(struct control *c, struct egress *e, int fd, struct cay_error *err)
{
	const struct egress_answer hello = {.kind = ANSWER_HELLO};
	int r;

	*c = (struct control){.egress = e, .packet = malloc(EGRESS_REQUEST_MAX)};
	c->f = (struct loop_fd){.fd = fd, .ready = on_channel, .ctx = c};
	c->totals = (struct loop_timer){.fire = on_totals, .ctx = c};
	r = c->packet ? fd_set_nonblock(fd, 1) : -ENOMEM;
	if (r == 0)
		r = loop_add(e->loop, &c->f, EPOLLIN);
	if (r == 0)
		r = loop_after(e->loop, &c->totals, TOTALS_MS);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "take requests");
	say(c, &hello, sizeof(hello));
	return 0;
}

void control_stop(struct control *c)
{
	loop_remove(c->egress->loop, &c->f);
	loop_cancel(c->egress->loop, &c->totals);
	outbox_done(&c->outbox);
	free(c->packet);
}
