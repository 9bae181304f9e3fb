#include "session/outlet.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ANSWER_MS 3000

/* Packets that wait for one who does not read. What closes, or opens again, is not counted. */
#define WAITING_MAX 1024

struct outlet_ask {
	struct outlet_ask *next;
	struct outlets *all;
	uint64_t serial;
	struct outlet *outlet; /* whose rules change; NULL: a log is asked for, or it is closed */
	bool rules;
	outlet_told_fn *told; /* NULL, as the next: nobody waits, or no longer */
	outlet_ruled_fn *ruled;
	void *ctx;
	struct loop_timer timer;
};

struct outlets {
	struct loop *loop;
	struct loop_fd sock;
	struct outbox waiting; /* what the socket did not take yet */
	bool greeted;
	uint64_t last_number, last_serial;
	struct outlet *open;
	struct outlet_ask *asks;
	struct egress_totals totals; /* of all processes that there were */
	struct egress_totals before; /* of those that have ended */
	char packet[EGRESS_REQUEST_MAX];
	union {
		struct egress_answer fixed;
		char bytes[EGRESS_ANSWER_MAX];
	} answer;
};

static int watch(struct outlets *all)
{
	return loop_change(all->loop, &all->sock,
			   all->waiting.first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int send_packet(struct outlets *all, size_t len, const int *fds, size_t n_fds)
{
	bool waits = all->waiting.first;
	int r = outbox_send(&all->waiting, all->sock.fd, all->packet, len, fds, n_fds);

	return r == 0 && !waits && all->waiting.first ? watch(all) : r;
}

static int check_room(const struct outlets *all, struct cay_error *err)
{
	return all->waiting.len < WAITING_MAX
		       ? 0
		       : cay_fail(err, CAY_E_AT_CAPACITY, 0,
				  "too much waits for cay-egress, which does not read");
}

/* With the rules that it has, or is to have. */
static int say(struct outlet *o, enum egress_request_kind kind)
{
	const struct outlet_rules *is = o->change ? &o->changed : &o->rules;
	const struct egress_rules rules = {
		.name = o->name, .mode = is->mode, .text = is->text, .len = is->len};
	const struct egress_request q = {
		.kind = (uint32_t)kind, .number = o->number, .serial = ++o->all->last_serial};
	bool opens = kind == EGRESS_OPEN;
	ssize_t n = egress_pack(&q, &rules, o->all->packet);

	if (o->change)
		o->change->serial = q.serial;
	return n < 0 ? (int)n : send_packet(o->all, (size_t)n, o->wires, opens ? EGRESS_FDS : 0);
}

static int say_number(struct outlets *all, enum egress_request_kind kind, uint64_t number)
{
	const struct egress_request q = {
		.kind = (uint32_t)kind, .number = number, .serial = ++all->last_serial};

	memcpy(all->packet, &q, sizeof(q));
	return send_packet(all, sizeof(q), NULL, 0);
}

const struct egress_totals *outlets_totals(const struct outlets *all)
{
	return &all->totals;
}

static int copy_rules(const struct egress_rules *rules, struct outlet_rules *ret,
		      struct cay_error *err)
{
	*ret = (struct outlet_rules){
		.mode = rules->mode, .text = malloc(rules->len + 1), .len = rules->len};
	if (!ret->text)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "open a way out");
	memcpy(ret->text, rules->text, rules->len);
	return 0;
}

/* The change is over, and these hold. */
static void keep_rules(struct outlet *o, bool changed)
{
	free(changed ? o->rules.text : o->changed.text);
	if (changed)
		o->rules = o->changed;
	o->changed = (struct outlet_rules){0};
	o->change = NULL;
}

int outlet_prepare(struct outlet *o, struct outlets *all, const struct plan *p,
		   struct cay_error *err)
{
	const struct egress_rules rules = egress_rules_of(p);

	*o = (struct outlet){.all = all};
	memcpy(o->name, p->id, sizeof(o->name));
	memset(o->wires, -1, sizeof(o->wires));
	return copy_rules(&rules, &o->rules, err);
}

int outlet_open(struct outlet *o, const int wires[EGRESS_FDS], struct cay_error *err)
{
	int r;

	memcpy(o->wires, wires, sizeof(o->wires));
	if (check_room(o->all, err) < 0)
		return -1;
	o->number = ++o->all->last_number;
	r = say(o, EGRESS_OPEN);
	if (r < 0) {
		o->number = 0;
		return cay_fail(err, CAY_E_ENGINE, -r, "open a way out");
	}
	o->next = o->all->open;
	o->all->open = o;
	return 0;
}

static int write_rules(struct buf *text, char sign, const struct strv *rules)
{
	int r = 0;

	/* The NUL behind each is part of it. */
	for (size_t i = 0; i < rules->len && r == 0; i++) {
		r = buf_append(text, &sign, 1);
		if (r == 0)
			r = buf_append(text, rules->items[i], strlen(rules->items[i]) + 1);
	}
	return r;
}

static void ask_free(struct outlet_ask *a)
{
	struct outlet_ask **at = &a->all->asks;

	while (*at && *at != a)
		at = &(*at)->next;
	if (*at)
		*at = a->next;
	loop_cancel(a->all->loop, &a->timer);
	free(a);
}

static void answer(struct outlet_ask *a, struct egress_log log)
{
	outlet_told_fn *told = a->told;
	void *ctx = a->ctx;

	ask_free(a);
	if (told)
		told(ctx, log);
	else
		egress_log_done(&log);
}

/* err: NULL: they hold. */
static void answer_ruled(struct outlet_ask *a, const struct cay_error *err)
{
	outlet_ruled_fn *ruled = a->ruled;
	void *ctx = a->ctx;

	if (a->outlet)
		keep_rules(a->outlet, !err);
	ask_free(a);
	if (ruled)
		ruled(ctx, err);
}

static void on_no_answer(struct loop_timer *t)
{
	struct outlet_ask *a = t->ctx;
	struct outlet *o = a->outlet;
	struct cay_error err;

	if (!a->rules) {
		answer(a, egress_log_lost());
		return;
	}
	(void)cay_fail(&err, CAY_E_ENGINE, 0, "cay-egress does not say that it has the rules");
	answer_ruled(a, &err);
	/* Should it come to read them yet, it reads that they are off, too. */
	if (o)
		(void)say(o, EGRESS_RULES);
}

/* One who waits for an answer, the last in line. NULL: no memory. */
static struct outlet_ask *ask_new(struct outlets *all, void *ctx)
{
	struct outlet_ask *a = calloc(1, sizeof(*a)), **at;

	if (!a)
		return NULL;
	*a = (struct outlet_ask){.all = all, .ctx = ctx, .timer = {.fire = on_no_answer, .ctx = a}};
	if (loop_after(all->loop, &a->timer, ANSWER_MS) < 0) {
		free(a);
		return NULL;
	}
	for (at = &all->asks; *at; at = &(*at)->next)
		;
	*at = a;
	return a;
}

static int change_rules(struct outlet *o, outlet_ruled_fn *ruled, void *ctx)
{
	o->change = ask_new(o->all, ctx);
	if (!o->change)
		return -ENOMEM;
	o->change->outlet = o;
	o->change->rules = true;
	o->change->ruled = ruled;
	return say(o, EGRESS_RULES);
}

int outlet_set_rules(struct outlet *o, const struct network_spec *n, outlet_ruled_fn *ruled,
		     void *ctx, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(EGRESS_RULES_BYTES);
	struct egress_rules rules = {.mode = n->mode};
	int r = write_rules(&text, '+', &n->allow);

	if (r == 0)
		r = write_rules(&text, '-', &n->block);
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, -r, "change the rules of a way out");
	rules.text = buf_str(&text);
	rules.len = text.len;
	if (o->change)
		return cay_fail(err, CAY_E_CONFLICT, 0, "its rules are being changed already");
	if (check_room(o->all, err) < 0 || copy_rules(&rules, &o->changed, err) < 0)
		return -1;
	if (!o->number) {
		keep_rules(o, true);
		return 1;
	}
	r = change_rules(o, ruled, ctx);
	if (r == 0)
		return 0;
	if (o->change)
		ask_free(o->change);
	keep_rules(o, false);
	return cay_fail(err, CAY_E_ENGINE, -r, "change the rules of a way out");
}

/* It is closed there: nothing is to be opened again by the next one. */
static void shut(struct outlet *o)
{
	struct outlet **at = &o->all->open;

	while (*at && *at != o)
		at = &(*at)->next;
	if (*at)
		*at = o->next;
	o->number = 0;
	if (o->change) {
		/* Not from here: whoever closes it may be about to free the one who waits. */
		o->change->outlet = NULL;
		(void)loop_after(o->all->loop, &o->change->timer, 0);
		keep_rules(o, false);
	}
	for (int i = 0; i < EGRESS_FDS; i++)
		fd_closep(&o->wires[i]);
}

int outlet_ask(struct outlet *o, bool close, outlet_told_fn *told, void *ctx)
{
	struct outlets *all = o->all;
	struct outlet_ask *a;
	struct cay_error unused;

	if (!o->number || (!close && check_room(all, &unused) < 0))
		return -1;
	a = ask_new(all, ctx);
	if (!a)
		return -1;
	a->told = told;
	if (say_number(all, close ? EGRESS_CLOSE : EGRESS_REPORT, o->number) < 0) {
		ask_free(a);
		return -1;
	}
	a->serial = all->last_serial;
	if (close)
		shut(o);
	return 0;
}

void outlets_forget(struct outlets *all, const void *ctx)
{
	for (struct outlet_ask *a = all->asks; a; a = a->next)
		if (a->ctx == ctx) {
			a->told = NULL;
			a->ruled = NULL;
		}
}

void outlet_done(struct outlet *o)
{
	if (o->number)
		(void)say_number(o->all, EGRESS_CLOSE, o->number);
	if (o->all)
		shut(o);
	free(o->rules.text);
	*o = (struct outlet){0};
}

/* NULL: it came too late. */
static struct outlet_ask *find_ask(const struct outlets *all)
{
	struct outlet_ask *a = all->asks;

	while (a && a->serial != all->answer.fixed.serial)
		a = a->next;
	return a;
}

static void hear_log(struct outlets *all, size_t len)
{
	const struct egress_answer *said = &all->answer.fixed;
	struct outlet_ask *a = find_ask(all);
	struct egress_log log;

	if (!a || a->rules)
		return;
	if (egress_unpack(said, len, &log) < 0)
		log = egress_log_lost();
	answer(a, log);
}

static void hear_done(struct outlets *all, bool failed)
{
	struct outlet_ask *a = find_ask(all);
	struct cay_error err = all->answer.fixed.error;

	cay_error_mend(&err);
	if (a && a->rules)
		answer_ruled(a, failed ? &err : NULL);
	else if (failed)
		log_warning("cay-egress refuses", "why", err.text);
}

/* The next process knows of nothing: rules that are being changed are said with the rest. */
static void begin_again(struct outlets *all)
{
	all->before = all->totals;
	if (all->greeted)
		for (struct outlet *o = all->open; o; o = o->next)
			(void)say(o, EGRESS_OPEN);
	all->greeted = true;
}

static void hear_totals(struct outlets *all, const struct egress_totals *said)
{
	const struct egress_totals *before = &all->before;

	all->totals = (struct egress_totals){
		.networks = said->networks,
		.connections = said->connections,
		.allowed = before->allowed + said->allowed,
		.denied = before->denied + said->denied,
		.failed = before->failed + said->failed,
		.bytes_in = before->bytes_in + said->bytes_in,
		.bytes_out = before->bytes_out + said->bytes_out,
	};
}

static void hear(struct outlets *all, size_t len)
{
	switch ((enum egress_answer_kind)all->answer.fixed.kind) {
	case ANSWER_HELLO:
		begin_again(all);
		break;
	case ANSWER_REPORT:
	case ANSWER_CLOSED:
		hear_log(all, len);
		break;
	case ANSWER_TOTALS:
		hear_totals(all, &all->answer.fixed.totals);
		break;
	case ANSWER_DONE:
	case ANSWER_FAILED:
		hear_done(all, all->answer.fixed.kind == ANSWER_FAILED);
		break;
	}
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	struct outlets *all = f->ctx;
	size_t n_fds;
	ssize_t n;

	if (events & EPOLLOUT && outbox_flush(&all->waiting, f->fd) != -EAGAIN)
		(void)watch(all);
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	n = msg_recv(f->fd, all->answer.bytes, sizeof(all->answer), NULL, 0, &n_fds);
	/* One that says what makes no sense is not the last there is. */
	if (n >= (ssize_t)sizeof(all->answer.fixed))
		hear(all, (size_t)n);
	else if (events & EPOLLHUP && n <= 0 && n != -EMSGSIZE)
		loop_remove(all->loop, f); /* whoever started both of us is gone */
}

struct outlets *outlets_new(struct loop *loop, int sock)
{
	struct outlets *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->loop = loop;
	all->sock = (struct loop_fd){.fd = sock, .ready = on_sock, .ctx = all};
	if (fd_set_nonblock(sock, 1) < 0 || loop_add(loop, &all->sock, EPOLLIN) < 0) {
		free(all);
		return NULL;
	}
	return all;
}

void outlets_free(struct outlets *all)
{
	if (!all)
		return;
	while (all->asks)
		ask_free(all->asks);
	loop_remove(all->loop, &all->sock);
	(void)close(all->sock.fd);
	outbox_done(&all->waiting);
	free(all);
}
