/*
 * cay-shell: the terminal of `cay shell`. A program of its own, because wslay comes as a
 * shared library only, and cay is static.
 *
 *   keyboard -> raw bytes -> binary messages -> the sandbox's pty
 *   screen  <-  raw bytes <- binary messages <-  the same
 *   texts: from us {"resize":[cols,rows]}; to us {"terminal":…} first, {"exit":{…}} last
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/http.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/shell.h"

#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>
#include <wslay/wslay.h>

#define HANDSHAKE_MS 20000
#define MESSAGE_MAX  ((uint64_t)4 << 20)
#define QUEUED_HIGH  ((size_t)256 << 10) /* from here on the keyboard waits */
#define HEAD_BYTES   ((size_t)16 << 10)
#define DETACH_1     0x10 /* Ctrl-P */
#define DETACH_2     0x11 /* Ctrl-Q */

struct shell {
	struct remote *remote;
	int fd, resized; /* a signalfd */
	wslay_event_context_ptr ws;
	struct buf early; /* bytes that came with the handshake's answer */
	size_t early_at;
	struct termios before;
	bool raw, over, detached, held; /* held: a Ctrl-P, until it is known what follows */
	int code;                       /* to exit with; -1: not known */
	char terminal[64];
	const char *sandbox;
	struct cay_error err;
};

/* The handshake: RFC 6455, 4.1. */

static int make_key(char key[32])
{
	_cleanup_(buf_done) struct buf text = BUF(64);
	unsigned char random[16];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random) ||
	    text_append_base64(&text, random, sizeof(random)) < 0)
		return -1;
	(void)snprintf(key, 32, "%s", buf_str(&text));
	return 0;
}

static bool accepts(const char *key, const char *answer)
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	_cleanup_(buf_done) struct buf both = BUF(256), text = BUF(256);
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	return answer && buf_printf(&both, "%s%s", key, guid) == 0 &&
	       EVP_Digest(both.data, both.len, digest, &len, EVP_sha1(), NULL) == 1 &&
	       text_append_base64(&text, digest, len) == 0 && strcmp(buf_str(&text), answer) == 0;
}

static struct winsize window(void)
{
	struct winsize w = {0};

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0 || w.ws_row == 0)
		w = (struct winsize){.ws_col = 80, .ws_row = 24};
	return w;
}

static int append_query(struct buf *out, const struct shell_ask *ask)
{
	const struct winsize w = window();
	const char *term = getenv("TERM");
	int r = buf_printf(out, "?cols=%u&rows=%u", w.ws_col, w.ws_row);

	if (r == 0 && ask->terminal)
		r = buf_append_str(out, "&terminal=") < 0 ? -1
							  : text_append_encoded(out, ask->terminal);
	if (r == 0 && !ask->terminal && term && term[0])
		r = buf_append_str(out, "&term=") < 0 ? -1 : text_append_encoded(out, term);
	if (r == 0 && ask->command.len > 0)
		r = buf_append_str(out, "&command=") < 0
			    ? -1
			    : text_append_encoded(out, buf_str(&ask->command));
	return r;
}

static int send_handshake(struct shell *s, const struct shell_ask *ask, const char *key)
{
	_cleanup_(buf_done) struct buf path = {0}, out = BUF(64u << 10);
	const struct remote_place *place = remote_place(s->remote);
	char host[300];
	int r;

	if (remote_sandbox_path(&path, ask->sandbox, "/terminal", &s->err) < 0)
		return -1;
	r = append_query(&path, ask);
	if (r == 0)
		r = buf_printf(&out,
			       "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
			       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
			       "Sec-WebSocket-Key: %s\r\n",
			       buf_str(&path),
			       place->tcp ? remote_place_text(place, host) + strlen("http://")
					  : "localhost",
			       key);
	if (r == 0 && remote_append_key(&out, &s->err) < 0)
		return -1;
	if (r == 0)
		r = buf_append_str(&out, "\r\n");
	if (r < 0)
		return cay_fail(&s->err, CAY_E_TOO_LARGE, 0, "the command");
	/* A new connection has room for it. */
	return send(s->fd, out.data, out.len, MSG_NOSIGNAL) == (ssize_t)out.len
		       ? 0
		       : cay_fail(&s->err, CAY_E_ENGINE, errno, "ask for a terminal");
}

static int wait_readable(struct shell *s)
{
	struct pollfd f[] = {{.fd = s->fd, .events = POLLIN},
			     {.fd = remote_signal_fd(s->remote), .events = POLLIN}};
	int n = poll(f, ARRAY_LEN(f), HANDSHAKE_MS);

	if (n > 0 && f[1].revents)
		return remote_interrupted(s->remote, &s->err);
	if (n == 0)
		return cay_fail(&s->err, CAY_E_ENGINE, ETIMEDOUT, "wait for a terminal");
	return 0;
}

/* What came behind the head is kept. */
static int on_answer(struct shell *s, struct http_parser *p, const char *key, const char *rest,
		     size_t len, struct buf *refusal)
{
	const struct http_head *head = http_parser_head(p);

	if (head->status == 101 && accepts(key, http_header(head, "sec-websocket-accept")))
		return buf_append(&s->early, rest, len) < 0
			       ? cay_fail(&s->err, CAY_E_INTERNAL, ENOMEM, "open a terminal")
			       : 1;
	if (head->status >= 400)
		return remote_refusal(head->status, buf_str(refusal), refusal->len, &s->err);
	return cay_fail(&s->err, CAY_E_ENGINE, 0, "this is no terminal of a daemon");
}

/* 1: we are connected. */
static int take_bytes(struct shell *s, struct http_parser *p, const char *key, const char *data,
		      size_t len, struct buf *refusal)
{
	enum http_event e;
	size_t used, n;

	while ((e = http_parse(p, data, len, &used)) != HTTP_MORE) {
		const char *body;

		data += used;
		len -= used;
		if (e == HTTP_BAD)
			return cay_fail(&s->err, CAY_E_ENGINE, 0, "this is no daemon: %s",
					http_parser_reason(p));
		if (e == HTTP_GOT_BODY) {
			body = http_parser_body(p, &n);
			(void)buf_append(refusal, body, size_min(n, refusal->max - refusal->len));
		}
		if (e == HTTP_GOT_END || (e == HTTP_GOT_HEAD && http_parser_head(p)->upgrade))
			return on_answer(s, p, key, data, len, refusal);
	}
	return 0;
}

static int handshake(struct shell *s, const struct shell_ask *ask)
{
	static const struct http_limits limits = {
		.line_bytes = 1024, .head_bytes = HEAD_BYTES, .header_lines = HTTP_HEADERS_MAX};
	_cleanup_(http_parser_freep) struct http_parser *p =
		http_parser_new(HTTP_RESPONSES, &limits);
	_cleanup_(buf_done) struct buf refusal = BUF(64u << 10);
	char key[32], bytes[4096];
	int r;

	if (!p || make_key(key) < 0)
		return cay_fail(&s->err, CAY_E_INTERNAL, 0, "open a terminal");
	r = send_handshake(s, ask, key);
	while (r == 0) {
		ssize_t n = recv(s->fd, bytes, sizeof(bytes), 0);

		if (n > 0)
			r = take_bytes(s, p, key, bytes, (size_t)n, &refusal);
		else if (n < 0 && errno == EAGAIN)
			r = wait_readable(s);
		else if (n == 0 || errno != EINTR)
			r = cay_fail(&s->err, CAY_E_ENGINE, n == 0 ? 0 : errno,
				     "the daemon went away");
	}
	return r < 0 ? -1 : 0;
}

/* Messages */

static ssize_t on_recv(wslay_event_context_ptr ws, uint8_t *data, size_t len, int flags _unused_,
		       void *ctx)
{
	struct shell *s = ctx;
	size_t early = size_min(len, s->early.len - s->early_at);
	ssize_t n;

	if (early > 0) {
		memcpy(data, s->early.data + s->early_at, early);
		s->early_at += early;
		return (ssize_t)early;
	}
	do {
		n = recv(s->fd, data, len, 0);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	wslay_event_set_error(ws, n < 0 && errno == EAGAIN ? WSLAY_ERR_WOULDBLOCK
							   : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr ws, const uint8_t *data, size_t len,
		       int flags _unused_, void *ctx)
{
	struct shell *s = ctx;
	ssize_t n;

	do {
		n = send(s->fd, data, len, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		wslay_event_set_error(ws, errno == EAGAIN ? WSLAY_ERR_WOULDBLOCK
							  : WSLAY_ERR_CALLBACK_FAILURE);
	return n;
}

static int on_mask(wslay_event_context_ptr ws, uint8_t *mask, size_t len, void *ctx _unused_)
{
	if (getrandom(mask, len, 0) == (ssize_t)len)
		return 0;
	wslay_event_set_error(ws, WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static void on_text(struct shell *s, const char *text, size_t len)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const struct json *end;
	const char *id;
	int64_t code, sig;

	if (json_parse(text, len, MESSAGE_MAX, &j, &fault) < 0)
		return;
	id = json_str(json_get(j, "terminal"));
	if (id && strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz_") == strlen(id))
		(void)snprintf(s->terminal, sizeof(s->terminal), "%s", id);
	end = json_get(j, "exit");
	if (!end)
		return;
	code = json_int(json_get(end, "exit_code"));
	sig = json_int(json_get(end, "signal"));
	s->code = sig > 0 && sig <= 64 ? 128 + (int)sig : (int)(code & 255);
	s->over = true;
}

static void on_message(wslay_event_context_ptr ws _unused_,
		       const struct wslay_event_on_msg_recv_arg *m, void *ctx)
{
	struct shell *s = ctx;

	if (m->opcode == WSLAY_BINARY_FRAME)
		(void)fd_write_all(STDOUT_FILENO, m->msg, m->msg_length);
	else if (m->opcode == WSLAY_TEXT_FRAME)
		on_text(s, (const char *)m->msg, m->msg_length);
	else if (m->opcode == WSLAY_CONNECTION_CLOSE)
		s->over = true;
}

static void send_message(struct shell *s, bool text, const void *data, size_t len)
{
	const struct wslay_event_msg m = {.opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
					  .msg = data,
					  .msg_length = len};

	if (len > 0 && wslay_event_queue_msg(s->ws, &m) != 0)
		s->over = true;
}

/* The keyboard and the window */

static void on_keys(struct shell *s)
{
	char keys[4096], out[2 * sizeof(keys) + 1];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	size_t len = 0;

	if (n <= 0 && !(n < 0 && errno == EINTR))
		s->over = s->detached = true; /* the terminal is gone: as if it were left */
	for (ssize_t i = 0; i < n && !s->detached; i++) {
		if (s->held && keys[i] == DETACH_2) {
			s->over = s->detached = true;
			break;
		}
		if (s->held)
			out[len++] = DETACH_1;
		s->held = keys[i] == DETACH_1;
		if (!s->held)
			out[len++] = keys[i];
	}
	send_message(s, false, out, len);
}

static void on_resize(struct shell *s)
{
	struct signalfd_siginfo info;
	const struct winsize w = window();
	char text[48];
	int n;

	while (read(s->resized, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	n = snprintf(text, sizeof(text), "{\"resize\":[%u,%u]}", w.ws_col, w.ws_row);
	send_message(s, true, text, (size_t)n);
}

static int make_raw(struct shell *s)
{
	struct termios raw;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	s->resized = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->resized < 0 || tcgetattr(STDIN_FILENO, &s->before) < 0)
		return -1;
	raw = s->before;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return -1;
	s->raw = true;
	return 0;
}

static void make_cooked(struct shell *s)
{
	if (s->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
	s->raw = false;
}

/* The loop */

static int on_socket(struct shell *s, short ready)
{
	if ((ready & (POLLIN | POLLHUP | POLLERR)) && wslay_event_recv(s->ws) != 0)
		return -1;
	return wslay_event_want_write(s->ws) && wslay_event_send(s->ws) != 0 ? -1 : 0;
}

static int look(struct shell *s)
{
	bool room = wslay_event_get_queued_msg_length(s->ws) < QUEUED_HIGH;
	struct pollfd f[] = {
		{.fd = s->fd,
		 .events = (short)(POLLIN | (wslay_event_want_write(s->ws) ? POLLOUT : 0))},
		{.fd = room ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = s->resized, .events = POLLIN},
		{.fd = remote_signal_fd(s->remote), .events = POLLIN},
	};

	if (poll(f, ARRAY_LEN(f), -1) < 0)
		return errno == EINTR ? 0 : cay_fail(&s->err, CAY_E_INTERNAL, errno, "wait");
	if (f[3].revents)
		return remote_interrupted(s->remote, &s->err);
	if (f[2].revents)
		on_resize(s);
	if (f[1].revents)
		on_keys(s);
	if (on_socket(s, f[0].revents) < 0 && !s->over)
		return cay_fail(&s->err, CAY_E_ENGINE, 0, "the connection to the daemon is lost");
	return 0;
}

static void say_goodbye(struct shell *s)
{
	(void)wslay_event_queue_close(s->ws, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
	(void)wslay_event_send(s->ws);
}

static int talk(struct shell *s)
{
	static const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_msg_recv_callback = on_message,
	};
	int r = 0;

	if (wslay_event_context_client_init(&s->ws, &callbacks, s) != 0)
		return cay_fail(&s->err, CAY_E_INTERNAL, ENOMEM, "open a terminal");
	wslay_event_config_set_max_recv_msg_length(s->ws, MESSAGE_MAX);
	if (make_raw(s) < 0)
		r = cay_fail(&s->err, CAY_E_INTERNAL, errno, "take the terminal");
	if (r == 0 && s->early.len > 0 && wslay_event_recv(s->ws) != 0)
		r = cay_fail(&s->err, CAY_E_ENGINE, 0, "this is no terminal of a daemon");
	while (r == 0 && !s->over)
		r = look(s);
	if (r == 0)
		say_goodbye(s);
	make_cooked(s);
	wslay_event_context_free(s->ws);
	return r;
}

static int conclude(const struct shell *s)
{
	if (!s->detached && s->code < 0) {
		cli_say("the daemon closed the terminal");
		return EXIT_OURS;
	}
	if (!s->detached)
		return s->code;
	cli_note("left running: cay shell --terminal %s %s", s->terminal, s->sandbox);
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(remote_freep) struct remote *remote = NULL;
	_cleanup_(shell_ask_done) struct shell_ask ask;
	static struct shell s = {.fd = -1, .resized = -1, .code = -1};
	int r = shell_parse(argc, argv, &ask, &s.err);

	if (r == 1)
		return 0;
	s.early = BUF(MESSAGE_MAX);
	s.sandbox = ask.sandbox;
	if (r == 0)
		r = remote_open(&remote, &s.err);
	if (r == 0) {
		s.remote = remote;
		s.fd = remote_fd(remote);
		r = handshake(&s, &ask);
	}
	if (r == 0)
		r = talk(&s);
	buf_done(&s.early);
	fd_closep(&s.resized);
	return r < 0 ? cli_error(&s.err, false) : conclude(&s);
}
