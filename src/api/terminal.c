#include "api/terminal.h"

#include "api/api.h"
#include "api/exchange.h"
#include "api/pty.h"
#include "api/sandboxes.h"
#include "api/terminal_text.h"
#include "api/websocket.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "core/id.h"
#include "session/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define CLOSE_NORMAL   1000
#define CLOSE_AWAY     1001
#define CLOSE_POLICY   1008
#define CLOSE_INTERNAL 1011
#define CLOSE_TAKEN    4001

/* As much again is gathered before the oldest is thrown away. */
#define KEPT_MAX (2 * TERMINAL_KEPT)

/* A WebSocket that is or was a terminal's; it lives until that is closed. */
struct client {
	struct websocket *ws;
	struct terminal *terminal; /* NULL: not any more */
};

struct terminal {
	struct terminal *next;
	struct terminals *all;
	char id[ID_SIZE], sandbox[ID_SIZE];
	struct sandbox_terminal *program; /* NULL: it has ended */
	struct loop_fd sock;              /* where the master comes */
	struct pty pty;
	struct buf kept;
	struct client *client;    /* NULL: nobody */
	struct loop_timer ending; /* the program has: to be dealt with in the loop's next round */
	struct loop_timer linger; /* how long it is kept without a client, or a line */
	struct json *farewell;    /* the last message */
	uint16_t code;            /* and what it is closed with */
	const char *reason;
	bool over; /* nothing more is printed */
};

struct terminals {
	struct loop *loop;
	struct terminal *first;
};

static void say(struct client *c, const struct json *j)
{
	_cleanup_(buf_done) struct buf text = BUF((size_t)64 << 10);

	if (json_text(j, &text) == 0)
		(void)websocket_send(c->ws, true, text.data, text.len - 1);
}

static void close_sock(struct terminal *t)
{
	loop_remove(t->all->loop, &t->sock);
	fd_closep(&t->sock.fd);
}

/* Its client has been told, or there is none. */
static void terminal_free(struct terminal *t)
{
	struct terminal **at = &t->all->first;

	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
	if (t->client)
		t->client->terminal = NULL;
	loop_cancel(t->all->loop, &t->ending);
	loop_cancel(t->all->loop, &t->linger);
	close_sock(t);
	pty_done(&t->pty);
	if (t->program)
		sandbox_terminal_close(t->program);
	buf_done(&t->kept);
	json_free(t->farewell);
	free(t);
}

/* The terminal has no client from here on, and goes on. */
static void detach(struct terminal *t)
{
	struct client *c = t->client;

	if (!c)
		return;
	c->terminal = NULL;
	t->client = NULL;
	pty_stop(&t->pty, false);
	(void)loop_after(t->all->loop, &t->linger, TERMINAL_LINGER_MS);
}

static void dismiss(struct terminal *t, uint16_t code, const char *reason)
{
	struct client *c = t->client;

	if (!c)
		return;
	detach(t);
	websocket_close(c->ws, code, reason);
}

/* Tells its client how it ended; without one that waits for whoever comes back. */
static void conclude(struct terminal *t)
{
	if (!t->client)
		return;
	say(t->client, t->farewell);
	dismiss(t, t->code, t->reason);
	terminal_free(t);
}

/* What comes of the program: the first word is the last. */
static void set_farewell(struct terminal *t, const struct service_report *r)
{
	if (t->farewell)
		return;
	t->code = CLOSE_NORMAL;
	t->reason = "the program ended";
	if (r && r->kind == REPORT_FAILED) {
		t->farewell = cay_error_json(&r->error, NULL);
		t->code = CLOSE_INTERNAL;
		t->reason = "the terminal failed";
		return;
	}
	t->farewell = terminal_exit_json(r);
	if (r && r->kind == REPORT_GONE) {
		t->code = CLOSE_AWAY;
		t->reason = "the sandbox is gone";
	}
}

static void fail_terminal(struct terminal *t, const char *why)
{
	struct service_report r = {.kind = REPORT_FAILED};

	(void)cay_fail(&r.error, CAY_E_INTERNAL, 0, "%s", why);
	set_farewell(t, &r);
	(void)loop_after(t->all->loop, &t->ending, 0);
}

static void take_master(struct terminal *t)
{
	size_t n_fds = 0;
	int master = -1;
	char byte;
	ssize_t n;

	if (t->sock.fd < 0)
		return;
	n = msg_recv(t->sock.fd, &byte, sizeof(byte), &master, 1, &n_fds);
	if (n == -EAGAIN)
		return;
	close_sock(t);
	/* Without one the program could not be started, and the report says why. */
	if (n_fds == 1 && pty_take(&t->pty, master) < 0)
		fail_terminal(t, "what came is no terminal");
}

static void on_sock(struct loop_fd *f, uint32_t events _unused_)
{
	take_master(f->ctx);
}

static void on_ending(struct loop_timer *timer)
{
	struct terminal *t = timer->ctx;

	take_master(t); /* of a program that was quick */
	if (t->program)
		sandbox_terminal_close(t->program);
	t->program = NULL;
	pty_last(&t->pty);
}

/* From inside the sandbox's own doings: nothing is freed here. */
static void on_ended(void *ctx, const struct service_report *r)
{
	struct terminal *t = ctx;

	set_farewell(t, r);
	(void)loop_after(t->all->loop, &t->ending, 0);
}

static void kill_program(struct terminal *t)
{
	set_farewell(t, NULL);
	(void)loop_after(t->all->loop, &t->ending, 0);
}

static void on_linger(struct loop_timer *timer)
{
	struct terminal *t = timer->ctx;

	if (t->client)
		kill_program(t);
	else
		terminal_free(t);
}

/* The pty's side */

static void keep(struct terminal *t, const char *data, size_t len)
{
	if (t->kept.len + len > KEPT_MAX) {
		memmove(t->kept.data, t->kept.data + t->kept.len - TERMINAL_KEPT, TERMINAL_KEPT);
		t->kept.len = TERMINAL_KEPT;
	}
	(void)buf_append(&t->kept, data, len); /* where memory is out, there is less to see again */
}

static void on_output(void *ctx, const char *data, size_t len)
{
	struct terminal *t = ctx;

	keep(t, data, len);
	if (t->client && websocket_send(t->client->ws, false, data, len) >= EXCHANGE_HIGH)
		pty_stop(&t->pty, true);
}

static void on_room(void *ctx)
{
	struct terminal *t = ctx;

	if (t->client)
		websocket_resume(t->client->ws);
}

static void on_over(void *ctx)
{
	struct terminal *t = ctx;

	t->over = true;
	conclude(t);
}

/* The client's side */

static void tell_unsupported(struct terminal *t)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct cay_error err;

	(void)cay_fail(&err, CAY_E_UNSUPPORTED, 0,
		       "from outside the island this signal can't be sent to a terminal's program");
	(void)cay_hint(&err, "send it with kill, in a command of the sandbox");
	j = cay_error_json(&err, NULL);
	say(t->client, j);
}

static void send_signal(struct terminal *t, int signal)
{
	if (signal == SIGTERM || signal == SIGKILL) {
		kill_program(t);
	} else if (signal == SIGHUP) {
		pty_close(&t->pty);
		close_sock(t);
		(void)loop_after(t->all->loop, &t->linger, TERMINAL_HANGUP_MS);
	} else if (signal == SIGUSR1 || signal == SIGUSR2) {
		tell_unsupported(t);
	} else {
		(void)pty_signal(&t->pty, signal);
	}
}

static void on_text(struct terminal *t, const char *data, size_t len)
{
	struct terminal_message m;

	if (terminal_message_read(data, len, &m) < 0) {
		dismiss(t, CLOSE_POLICY, "a text is {\"resize\":[cols,rows]} or {\"signal\":NAME}");
		return;
	}
	if (t->farewell)
		return;
	if (m.word == WORD_RESIZE)
		pty_resize(&t->pty, m.columns, m.rows);
	else
		send_signal(t, m.signal);
}

static void on_message(struct websocket *w, bool text, const char *data, size_t len)
{
	struct client *c = websocket_ctx(w);
	struct terminal *t = c->terminal;
	size_t waits;

	if (!t)
		return;
	if (text) {
		on_text(t, data, len);
		return;
	}
	if (t->farewell || len == 0)
		return;
	waits = pty_write(&t->pty, data, len);
	if (waits > PTY_INPUT_MAX)
		dismiss(t, CLOSE_POLICY, "the program does not take that much");
	else if (waits >= PTY_INPUT_HIGH)
		websocket_pause(w);
}

static void on_drain(struct websocket *w)
{
	struct client *c = websocket_ctx(w);

	if (c->terminal)
		pty_stop(&c->terminal->pty, false);
}

static void on_close(struct websocket *w, int code _unused_)
{
	struct client *c = websocket_ctx(w);

	if (c->terminal)
		detach(c->terminal);
	free(c);
}

static const struct websocket_events client_events = {
	.on_message = on_message, .on_drain = on_drain, .on_close = on_close};

/* The last of what was printed, from the beginning of a character. */
static size_t replay_from(const struct terminal *t)
{
	size_t at = t->kept.len - size_min(t->kept.len, TERMINAL_KEPT);

	for (int n = 0; n < 3 && at > 0 && at < t->kept.len; n++)
		if (((unsigned char)t->kept.data[at] & 0xc0) == 0x80)
			at++;
	return at;
}

static void greet(struct terminal *t)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	size_t from = replay_from(t), len = t->kept.len - from;

	json_set_str(j, "terminal", t->id);
	json_set_str(j, "sandbox", t->sandbox);
	json_set_int(j, "replay", (int64_t)len);
	say(t->client, j);
	if (len > 0 &&
	    websocket_send(t->client->ws, false, t->kept.data + from, len) >= EXCHANGE_HIGH)
		pty_stop(&t->pty, true);
}

/* Answers the exchange in any case. 0 or -1: there is no client. */
static int attach(struct terminal *t, struct exchange *x)
{
	struct client *c = calloc(1, sizeof(*c));
	struct cay_error err;

	if (!c) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "attach to the terminal");
		exchange_fail(x, &err);
		return -1;
	}
	c->ws = websocket_new(x, &client_events, c);
	if (!c->ws) {
		free(c);
		return -1;
	}
	dismiss(t, CLOSE_TAKEN, "taken over");
	loop_cancel(t->all->loop, &t->linger);
	c->terminal = t;
	t->client = c;
	greet(t);
	if (t->over)
		conclude(t);
	return 0;
}

/* New ones */

static struct terminal *terminal_new(struct terminals *all, const struct sandbox *s)
{
	struct terminal *t = calloc(1, sizeof(*t));

	if (!t || id_make("term", t->id) < 0) {
		free(t);
		return NULL;
	}
	t->all = all;
	memcpy(t->sandbox, s->id, sizeof(t->sandbox));
	t->sock = (struct loop_fd){.fd = -1, .ready = on_sock, .ctx = t};
	t->ending = (struct loop_timer){.fire = on_ending, .ctx = t};
	t->linger = (struct loop_timer){.fire = on_linger, .ctx = t};
	t->kept = BUF(KEPT_MAX);
	t->pty = (struct pty){
		.loop = all->loop, .ctx = t, .output = on_output, .room = on_room, .over = on_over};
	pty_init(&t->pty);
	t->next = all->first;
	all->first = t;
	return t;
}

/* One that is over has nothing but its last words: it gives way. */
static int make_room(struct terminals *all, const struct sandbox *s, struct cay_error *err)
{
	struct terminal *spare = NULL;
	size_t n = 0;

	for (struct terminal *t = all->first; t; t = t->next) {
		if (strcmp(t->sandbox, s->id) != 0)
			continue;
		n++;
		if (t->over && !t->client)
			spare = t; /* the oldest is the last of the list */
	}
	if (n < TERMINAL_MAX)
		return 0;
	if (!spare) {
		(void)cay_fail(err, CAY_E_AT_CAPACITY, 0, "the sandbox has %d terminals already",
			       TERMINAL_MAX);
		return cay_hint(err, "end one, or attach to it by its id");
	}
	terminal_free(spare);
	return 0;
}

static int start_program(struct terminal *t, struct sandbox *s, const struct terminal_query *q,
			 struct cay_error *err)
{
	struct job_order order = {.script = SCRIPT_NONE};
	struct request_body *body;

	pty_resize(&t->pty, q->columns ? q->columns : 80, q->rows ? q->rows : 24);
	if (terminal_body_make(q, &body, err) < 0)
		return -1;
	if (sandbox_order(s, body, 0, &order, err) == 0)
		t->program =
			sandbox_terminal(s, &order, &t->pty.size, on_ended, t, &t->sock.fd, err);
	job_order_done(&order);
	if (!t->program)
		return -1;
	if (fd_set_nonblock(t->sock.fd, 1) < 0 || loop_add(t->all->loop, &t->sock, EPOLLIN) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a terminal");
	return 0;
}

static struct terminal *open_new(struct terminals *all, struct sandbox *s,
				 const struct terminal_query *q, struct cay_error *err)
{
	struct terminal *t;

	if (make_room(all, s, err) < 0)
		return NULL;
	t = terminal_new(all, s);
	if (!t) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a terminal");
		return NULL;
	}
	if (start_program(t, s, q, err) < 0) {
		terminal_free(t);
		return NULL;
	}
	return t;
}

static struct terminal *find(struct terminals *all, struct sandbox *s,
			     const struct terminal_query *q, struct cay_error *err)
{
	for (struct terminal *t = all->first; t; t = t->next) {
		if (strcmp(t->sandbox, s->id) != 0 || strcmp(t->id, q->terminal) != 0)
			continue;
		if (q->columns)
			pty_resize(&t->pty, q->columns, q->rows);
		sandbox_touch(s);
		return t;
	}
	(void)cay_fail(err, CAY_E_NOT_FOUND, 0, "the sandbox has no terminal %.64s", q->terminal);
	return NULL;
}

static struct terminal *find_or_open(struct exchange *x, struct sandbox *s, struct cay_error *err)
{
	struct terminals *all = api_of(x)->terminals;
	struct terminal_query q;

	if (terminal_query_read(exchange_request(x), &q, err) < 0)
		return NULL;
	if (q.terminal)
		return find(all, s, &q, err);
	return api_check_open(x, err) < 0 ? NULL : open_new(all, s, &q, err);
}

static void terminal(struct exchange *x)
{
	struct terminal *t;
	struct sandbox *s;
	struct cay_error err;

	/* Before anything is started for it. */
	if (!request_header(exchange_request(x), "upgrade")) {
		(void)exchange_upgrade(x);
		return;
	}
	s = sandbox_of(x);
	if (!s)
		return;
	t = find_or_open(x, s, &err);
	if (t)
		exchange_set_target(x, t->id);
	if (!t)
		exchange_fail(x, &err);
	else if (attach(t, x) < 0 && !request_query(exchange_request(x), "terminal"))
		terminal_free(t);
}

struct terminals *terminals_new(struct loop *loop)
{
	struct terminals *all = calloc(1, sizeof(*all));

	if (all)
		all->loop = loop;
	return all;
}

void terminals_free(struct terminals *all)
{
	if (!all)
		return;
	while (all->first)
		terminal_free(all->first);
	free(all);
}

void terminals_leave(struct terminals *all)
{
	for (struct terminal *t = all->first; t; t = t->next)
		dismiss(t, CLOSE_AWAY, "the daemon is ending");
}

const struct route route_terminal = {.method = "GET",
				     .pattern = "/v1/sandboxes/{id}/terminal",
				     .handle = terminal,
				     .name = "terminal.open"};
