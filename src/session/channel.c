#include "session/channel.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK        65536
#define TYPE_MAX     127  /* characters in a MIME type */
#define PROMPT_MAX   4096 /* bytes; a note's, too */
#define WHY_SIZE     160
#define LATE_MAX     (2 * CHANNEL_MESSAGE_MAX) /* between cells */
#define REST_CHUNKS  64                        /* more than a socket holds */
#define STREAM_BYTES (256u << 10)

void channel_close(struct channel *c)
{
	if (c->sock.fd < 0)
		return;
	loop_remove(c->loop, &c->sock);
	fd_closep(&c->sock.fd);
	buf_done(&c->in);
	buf_done(&c->out);
	c->sent = c->late_bytes = 0;
	c->waits = c->skips = false;
}

static void end(struct channel *c, const char *why)
{
	channel_close(c);
	c->events->ended(c, why);
}

/* What is left of the text that was said last; the socket takes it when it can. */
static int flush(struct channel *c)
{
	while (c->sent < c->out.len) {
		ssize_t n = send(c->sock.fd, c->out.data + c->sent, c->out.len - c->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return loop_change(c->loop, &c->sock, EPOLLIN | EPOLLOUT);
		if (n < 0)
			break; /* its end is heard of by reading */
		c->sent += (size_t)n;
	}
	buf_done(&c->out);
	c->sent = 0;
	return loop_change(c->loop, &c->sock, EPOLLIN);
}

static int say(struct channel *c, const struct json *j)
{
	size_t before = c->out.len;
	int r = json_text(j, &c->out);

	if (r == 0)
		c->out.data[c->out.len - 1] = '\0'; /* instead of the line's end */
	else
		c->out.len = before;
	return r < 0 ? r : flush(c);
}

static int say_plain(struct channel *c, const char *text, size_t len)
{
	int r = buf_append(&c->out, text, len);

	if (r == 0)
		r = buf_append(&c->out, "", 1);
	return r < 0 ? r : flush(c);
}

int channel_run(struct channel *c, const char *code, size_t len, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	int r;

	c->state = CHANNEL_BUSY;
	c->shown_bytes = c->late_bytes = 0;
	c->n_shown = c->n_notes = 0;
	json_set_str(j, "type", "run");
	json_set_bytes(j, "code", code, len);
	json_set_bool(j, "rich", true);
	r = c->plain ? say_plain(c, code, len) : say(c, j);
	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the code is longer than %u MiB",
				CHANNEL_MESSAGE_MAX >> 20);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "send the code") : 0;
}

static int say_input(struct channel *c, const char *key, const char *text, size_t len)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	int r;

	json_set_str(j, "type", "input");
	json_set_bytes(j, key, text, len);
	r = say(c, j);
	if (r == 0)
		c->waits = false;
	return r;
}

int channel_answer(struct channel *c, const char *text, size_t len)
{
	return say_input(c, "text", text, len);
}

int channel_refuse(struct channel *c, const char *why)
{
	return say_input(c, "error", why, strlen(why));
}

/* Not in the middle of a character, where it is text. */
static bool feed_some(struct channel *c, struct channel_input *in)
{
	size_t len = size_min(in->len - in->at, STREAM_BYTES);
	size_t whole = text_utf8_whole(in->data + in->at, len);

	if (whole > 0 && in->at + len < in->len)
		len = whole;
	if (channel_answer(c, in->data + in->at, len) < 0)
		(void)channel_refuse(c, "the input can't be sent");
	in->at += len;
	return true;
}

bool channel_feed(struct channel *c, struct channel_input *in, enum channel_ask what)
{
	const char *line = in->data + in->at, *stop;
	size_t left = in->len - in->at, len;

	if (!in->given && what != CHANNEL_ASK_STREAM)
		return false;
	if (!in->given || left == 0) {
		(void)channel_refuse(c, "the input has ended");
		return true;
	}
	if (what == CHANNEL_ASK_STREAM)
		return feed_some(c, in);
	stop = memchr(line, '\n', left);
	len = stop ? (size_t)(stop - line) : left;
	in->at += len + (stop ? 1 : 0);
	if (channel_answer(c, line, len) < 0)
		(void)channel_refuse(c, "the line is too long");
	return true;
}

/* What it says. Each returns NULL, or what is wrong with it. */

static size_t weight(const struct json *v)
{
	_cleanup_(buf_done) struct buf text = BUF(CHANNEL_VALUE_MAX + 1);
	size_t len;

	if (json_kind(v) == JSON_KIND_STR)
		return json_bytes(v, &len) ? len : 0;
	return json_text(v, &text) < 0 ? SIZE_MAX : text.len;
}

/* What is kept of it: `{},` is three bytes of text, and some 250 as a value. */
static size_t memory_of(const struct json *v)
{
	enum json_kind kind = json_kind(v);
	size_t sum = CHANNEL_NODE_BYTES, len = 0;
	const struct json *child;
	const char *name;
	void *at = NULL;

	if (kind == JSON_KIND_OBJECT || kind == JSON_KIND_ARRAY)
		sum = CHANNEL_TREE_BYTES;
	else if (kind == JSON_KIND_STR && json_bytes(v, &len))
		sum += len;
	for (size_t n = 0; kind == JSON_KIND_ARRAY && n < json_len(v); n++)
		sum += memory_of(json_at(v, n));
	while (kind == JSON_KIND_OBJECT && json_next(v, &at, &name, &child))
		sum += CHANNEL_NODE_BYTES + strlen(name) + memory_of(child);
	return sum;
}

/* A string; of what is JSON itself, anything. */
static const char *check_value(const char *type, const struct json *v, size_t *sum)
{
	bool is_json = strcmp(type, "application/json") == 0 ||
		       (strlen(type) > 5 && strcmp(type + strlen(type) - 5, "+json") == 0);
	enum json_kind kind = json_kind(v);
	size_t n;

	if (!strchr(type, '/') || strlen(type) > TYPE_MAX)
		return "a result of no MIME type";
	if (kind != JSON_KIND_STR &&
	    !(is_json && (kind == JSON_KIND_OBJECT || kind == JSON_KIND_ARRAY)))
		return "a result that is no text";
	n = weight(v);
	if (n > CHANNEL_VALUE_MAX)
		return "a result that is larger than 4 MiB";
	*sum += kind == JSON_KIND_STR ? n : memory_of(v);
	return NULL;
}

static const char *hear_result(struct channel *c, const struct json *m)
{
	const struct json *data = json_get(m, "data"), *value;
	const char *type, *wrong = NULL;
	void *at = NULL;

	if (!data || json_kind(data) != JSON_KIND_OBJECT || json_len(data) == 0 ||
	    json_len(data) > CHANNEL_TYPES_MAX)
		return "a result without data";
	if (++c->n_shown > CHANNEL_RESULTS_MAX)
		return "more than 64 results";
	while (!wrong && json_next(data, &at, &type, &value))
		wrong = check_value(type, value, &c->shown_bytes);
	if (!wrong && c->shown_bytes > CHANNEL_MESSAGE_MAX)
		wrong = "results that are larger than 16 MiB together";
	if (!wrong)
		c->events->shown(c, data);
	return wrong;
}

/* What is read by people; what is longer is cut, at a character's end. */
static const char *short_text(const struct json *v, char room[PROMPT_MAX])
{
	size_t len = 0;
	const char *text = v ? json_bytes(v, &len) : NULL;

	if (!text)
		return NULL;
	len = size_min(len, PROMPT_MAX - 1);
	while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	memcpy(room, text, len);
	room[len] = '\0';
	return room;
}

static const char *hear_note(struct channel *c, const struct json *m)
{
	char room[PROMPT_MAX];
	const char *text = short_text(json_get(m, "text"), room);

	if (!text)
		return "a note without text";
	if (++c->n_notes > CHANNEL_NOTES_MAX)
		return "more than 64 notes";
	c->events->noted(c, text);
	return NULL;
}

static const char *hear_input(struct channel *c, const struct json *m)
{
	char room[PROMPT_MAX];
	const char *prompt = short_text(json_get(m, "prompt"), room);
	const struct json *password = json_get(m, "password"), *stream = json_get(m, "stream");

	/* Whoever asks again has read the answer to what was asked before. */
	if (c->waits || c->out.len > 0)
		return "a request for input before the last was answered";
	c->waits = true;
	c->events->asked(c, prompt ? prompt : "",
			 stream && json_bool(stream)       ? CHANNEL_ASK_STREAM
			 : password && json_bool(password) ? CHANNEL_ASK_PASSWORD
							   : CHANNEL_ASK_LINE);
	return NULL;
}

static const char *hear_done(struct channel *c, const struct json *m)
{
	const struct json *code = json_get(m, "exit_code"), *e = json_get(m, "exception");
	static const char *const names[] = {"name", "value", "traceback"};

	if (!code || json_kind(code) != JSON_KIND_INT)
		return "an end without an exit code";
	if (e && json_kind(e) == JSON_KIND_NULL)
		e = NULL;
	if (e && (json_kind(e) != JSON_KIND_OBJECT || json_len(e) != ARRAY_LEN(names)))
		return "an exception that is none";
	for (size_t n = 0; e && n < ARRAY_LEN(names); n++) {
		const struct json *v = json_get(e, names[n]);

		if (!v || json_kind(v) != JSON_KIND_STR || weight(v) > CHANNEL_VALUE_MAX)
			return "an exception that is none";
	}
	c->state = CHANNEL_IDLE;
	c->waits = false;
	c->events->done(c, (int)(json_int(code) & 0xff), e);
	return NULL;
}

static const char *hear(struct channel *c, const char *type, const struct json *m)
{
	if (strcmp(type, "ready") == 0 && c->state == CHANNEL_NEW) {
		c->state = CHANNEL_IDLE;
		c->events->ready(c);
		return NULL;
	}
	if (c->state != CHANNEL_BUSY)
		return "a message before it was ready";
	if (strcmp(type, "result") == 0)
		return hear_result(c, m);
	if (strcmp(type, "note") == 0)
		return hear_note(c, m);
	if (strcmp(type, "input") == 0)
		return hear_input(c, m);
	if (strcmp(type, "done") == 0)
		return hear_done(c, m);
	return "a message of an unknown type";
}

static const char *read_message(struct channel *c, const char *text, size_t len)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault unused;
	const struct json *type;
	const char *name;

	if (json_parse(text, len, CHANNEL_MESSAGE_MAX, &j, &unused) < 0)
		return "what is no JSON";
	type = json_get(j, "type");
	name = type ? json_str(type) : NULL;
	return name ? hear(c, name, j) : "a message without a type";
}

/* All messages that are whole, which end in what was added last. */
static const char *read_messages(struct channel *c, size_t added)
{
	size_t from = 0, look = c->in.len - added;
	const char *stop, *wrong = NULL;

	while (!wrong && c->sock.fd >= 0 &&
	       (stop = memchr(c->in.data + look, '\0', c->in.len - look))) {
		size_t at = (size_t)(stop - c->in.data);

		if (c->skips || c->state == CHANNEL_IDLE)
			c->late_bytes += at + 1 - from;
		else
			wrong = read_message(c, c->in.data + from, at - from);
		c->skips = false;
		from = look = at + 1;
	}
	if (c->sock.fd < 0)
		return NULL;
	if (c->skips || (c->state == CHANNEL_IDLE && from < c->in.len)) {
		c->skips = true;
		c->late_bytes += c->in.len - from;
		from = c->in.len;
	}
	if (from == c->in.len) {
		buf_done(&c->in); /* between cells nothing is held */
	} else if (from > 0) {
		memmove(c->in.data, c->in.data + from, c->in.len - from);
		c->in.len -= from;
	}
	return wrong || c->late_bytes <= LATE_MAX ? wrong : "more than 32 MiB when no cell ran";
}

/* One read; false when there is nothing more now, or no channel. */
static bool take(struct channel *c)
{
	static char chunk[CHUNK];
	ssize_t n = recv(c->sock.fd, chunk, sizeof(chunk), MSG_DONTWAIT);
	const char *wrong;
	int r;

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		end(c, NULL);
		return false;
	}
	r = buf_append(&c->in, chunk, (size_t)n);
	wrong = r == 0        ? read_messages(c, (size_t)n)
		: r == -EFBIG ? "a message of more than 16 MiB"
			      : "more than there is memory for";
	if (wrong) {
		char why[WHY_SIZE];

		(void)snprintf(why, sizeof(why), "the interpreter sent %s", wrong);
		end(c, why);
		return false;
	}
	return c->sock.fd >= 0;
}

/* Our end of it has come; false: not yet, or it never will. */
static bool accept_channel(struct channel *c)
{
	size_t n_fds = 0;
	int fd = -1;
	char byte;
	ssize_t n = msg_recv(c->sock.fd, &byte, sizeof(byte), &fd, 1, &n_fds);

	if (n == -EAGAIN || n == -EINTR)
		return false;
	loop_remove(c->loop, &c->sock);
	fd_closep(&c->sock.fd);
	if (n == 1 && n_fds == 1)
		c->sock.fd = fd;
	if (c->sock.fd < 0 || fd_set_nonblock(c->sock.fd, 1) < 0 ||
	    loop_add(c->loop, &c->sock, EPOLLIN) < 0) {
		end(c, NULL);
		return false;
	}
	c->given = true;
	return true;
}

void channel_take_rest(struct channel *c)
{
	if (c->sock.fd >= 0 && !c->given && !accept_channel(c))
		return;
	/* What it said before its end, and no more: others may have the socket, and write on. */
	for (int n = 0; n < REST_CHUNKS && c->sock.fd >= 0 && take(c); n++)
		;
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct channel *c = f->ctx;

	if (!c->given) {
		(void)accept_channel(c);
		return;
	}
	if (events & EPOLLOUT && flush(c) < 0) {
		end(c, NULL);
		return;
	}
	if (events & ~(uint32_t)EPOLLOUT)
		(void)take(c);
}

int channel_open(struct channel *c, struct loop *loop, bool plain, int *ret_theirs,
		 struct cay_error *err)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "make the interpreter's channel");
	c->loop = loop;
	c->state = CHANNEL_NEW;
	c->given = false;
	c->plain = plain;
	c->waits = false;
	c->in = c->out = BUF(CHANNEL_MESSAGE_MAX + 1);
	c->sent = 0;
	c->sock = (struct loop_fd){.fd = pair[0], .ready = on_ready, .ctx = c};
	r = fd_set_nonblock(pair[0], 1);
	if (r == 0)
		r = loop_add(loop, &c->sock, EPOLLIN);
	if (r < 0) {
		(void)close(pair[1]);
		channel_close(c);
		return cay_fail(err, CAY_E_INTERNAL, -r, "watch the interpreter's channel");
	}
	*ret_theirs = pair[1];
	return 0;
}
