#include "cli/output.h"

#include "base/attr.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "core/limits.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* What poll() promises of a pipe: this much does not block. */
#define WRITE_STEP 4096

#define FILTERED_MAX (1u << 20)

void output_init(struct output *o, bool capture, uint64_t limit_bytes)
{
	*o = (struct output){.capture = capture, .limit = limit_bytes};
	for (int s = 0; s < STREAMS; s++) {
		int fd = s == STREAM_STDOUT ? STDOUT_FILENO : STDERR_FILENO;

		capture_init(&o->kept[s], limit_bytes);
		o->through[s] = (struct output_stream){
			.fd = fd, .filter = isatty(fd) == 1, .ready = BUF(FILTERED_MAX)};
	}
}

void output_done(struct output *o)
{
	for (int s = 0; s < STREAMS; s++) {
		capture_done(&o->kept[s]);
		buf_done(&o->through[s].ready);
	}
	capture_done(&o->compiler);
}

static bool writable_now(int fd)
{
	struct pollfd f = {.fd = fd, .events = POLLOUT};

	return poll(&f, 1, 0) > 0;
}

/* Writes what does not block; returns how much, or -EPIPE. */
static ssize_t write_some(struct output_stream *t, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len && writable_now(t->fd)) {
		ssize_t n = write(t->fd, data + done, size_min(len - done, WRITE_STEP));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			t->error = errno;
			return -EPIPE;
		}
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int flush_ready(struct output_stream *t)
{
	ssize_t n = write_some(t, t->ready.data + t->written, t->ready.len - t->written);

	if (n < 0)
		return (int)n;
	t->written += (size_t)n;
	if (t->written == t->ready.len) {
		buf_done(&t->ready);
		t->written = 0;
	}
	return 0;
}

static ssize_t pass(struct output_stream *t, const char *data, size_t len)
{
	int r = flush_ready(t);

	if (r < 0)
		return r;
	if (t->ready.len > 0)
		return 0;
	if (!t->filter)
		return write_some(t, data, len);
	/* Caret notation makes it at most three times as long. */
	len = size_min(len, FILTERED_MAX / 8);
	if (text_filter_feed(&t->state, &t->ready, data, len) < 0)
		return -EPIPE;
	r = flush_ready(t);
	return r < 0 ? r : (ssize_t)len;
}

static ssize_t keep(struct output *o, enum stream s, const char *data, size_t len)
{
	int r = capture_add(&o->kept[s], data, len);

	if (r < 0)
		return r;
	return o->kept[s].dropped > FLOOD_BYTES ? -EFBIG : (ssize_t)len;
}

/* Through, up to half the limit; the rest is kept as far as it goes, and follows at the end. */
static ssize_t pass_limited(struct output *o, enum stream s, const char *data, size_t len)
{
	struct output_stream *t = &o->through[s];
	uint64_t head = o->limit - o->limit / 2;

	if (t->passed < head) {
		ssize_t n =
			pass(t, data, (size_t)(head - t->passed < len ? head - t->passed : len));

		if (n > 0)
			t->passed += (uint64_t)n;
		return n;
	}
	/* The head went out already: only the tail's half is of use. */
	o->kept[s].head_max = 0;
	return keep(o, s, data, len);
}

static ssize_t take(void *ctx, enum stream s, const char *data, size_t len)
{
	struct output *o = ctx;

	if (!o->capture)
		return o->limit ? pass_limited(o, s, data, len) : pass(&o->through[s], data, len);
	return keep(o, s, data, len);
}

/* The compiler has one stream: that of errors. */
void output_compiled(struct output *o)
{
	if (!o->capture)
		return;
	capture_done(&o->compiler);
	o->compiler = o->kept[STREAM_STDERR];
	capture_init(&o->kept[STREAM_STDERR], o->limit);
}

static void compiled(void *ctx)
{
	output_compiled(ctx);
}

struct sink output_sink(struct output *o)
{
	return (struct sink){
		.ctx = o,
		.output = take,
		.compiled = compiled,
		.wait_fd = {o->through[STREAM_STDOUT].fd, o->through[STREAM_STDERR].fd},
	};
}

/* The end may wait for its reader: nothing else is left to do. */
static void write_rest(struct output_stream *t, const char *data, size_t len)
{
	while (len > 0) {
		struct pollfd f = {.fd = t->fd, .events = POLLOUT};
		ssize_t n = write_some(t, data, len);

		if (n < 0)
			return;
		data += n;
		len -= (size_t)n;
		if (len > 0)
			(void)poll(&f, 1, -1);
	}
}

static void write_ready(struct output_stream *t)
{
	write_rest(t, t->ready.data + t->written, t->ready.len - t->written);
	buf_done(&t->ready);
	t->written = 0;
}

static void write_tail(struct output *o, enum stream s)
{
	struct output_stream *t = &o->through[s];
	_cleanup_(buf_done) struct buf tail = BUF(SIZE_MAX / 4);

	if (capture_text(&o->kept[s], &tail) < 0)
		return;
	write_ready(t);
	for (size_t at = 0; at < tail.len;) {
		size_t n = size_min(tail.len - at, FILTERED_MAX / 8);

		if (!t->filter)
			write_rest(t, tail.data + at, n);
		else if (text_filter_feed(&t->state, &t->ready, tail.data + at, n) == 0)
			write_ready(t);
		at += n;
	}
	if (capture_truncated(&o->kept[s]))
		cli_say("%llu bytes of %s were dropped before the last %zu",
			(unsigned long long)o->kept[s].dropped,
			s == STREAM_STDOUT ? "stdout" : "stderr", tail.len);
}

bool output_failed(const struct output *o)
{
	bool failed = false;

	for (int s = 0; s < STREAMS; s++) {
		int error = o->through[s].error;

		if (error == 0 || error == EPIPE)
			continue;
		cli_say("standard %s: %s", s == STREAM_STDOUT ? "output" : "error",
			strerror(error));
		failed = true;
	}
	return failed;
}

void output_settle(struct output *o)
{
	for (int s = 0; s < STREAMS; s++)
		write_ready(&o->through[s]);
}

void output_finish(struct output *o)
{
	if (o->capture)
		return;
	for (int s = 0; s < STREAMS; s++) {
		struct output_stream *t = &o->through[s];

		if (o->limit)
			write_tail(o, (enum stream)s);
		if (t->filter)
			(void)text_filter_end(&t->state, &t->ready);
		write_ready(t);
	}
}
