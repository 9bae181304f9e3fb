/*
 * What a driver says: whatever it is, nothing comes of it but what is in turn and within bounds,
 * and at most one end.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "base/json.h"
#include "session/channel.h"

#include <sys/socket.h>
#include <unistd.h>

static struct {
	bool ready, ended;
	unsigned shown, noted, dones;
} seen;

static void on_ready(struct channel *c)
{
	struct cay_error err;

	CHECK(!seen.ready && !seen.ended);
	seen.ready = true;
	CHECK(channel_run(c, "1", 1, &err) == 0);
}

static void on_shown(struct channel *c _unused_, const struct json *bundle)
{
	CHECK(seen.ready && !seen.ended && ++seen.shown <= CHANNEL_RESULTS_MAX);
	CHECK(json_len(bundle) > 0 && json_len(bundle) <= CHANNEL_TYPES_MAX);
}

static void on_noted(struct channel *c _unused_, const char *text)
{
	CHECK(seen.ready && !seen.ended && ++seen.noted <= CHANNEL_NOTES_MAX &&
	      strlen(text) < 4096);
}

static void on_asked(struct channel *c, const char *prompt, enum channel_ask what)
{
	static const char lines[] = "a\nb";
	struct channel_input in = {.given = true, .data = lines, .len = sizeof(lines) - 1};

	CHECK(seen.ready && !seen.ended && strlen(prompt) < 4096);
	CHECK(channel_feed(c, &in, what) && in.at == (what == CHANNEL_ASK_STREAM ? 3 : 2));
}

static void on_done(struct channel *c _unused_, int exit_code, const struct json *exception)
{
	CHECK(seen.ready && !seen.ended && ++seen.dones == 1);
	CHECK(exit_code >= 0 && exit_code <= 255);
	CHECK(!exception || json_len(exception) == 3);
}

static void on_ended(struct channel *c, const char *why _unused_)
{
	CHECK(!seen.ended && c->sock.fd < 0);
	seen.ended = true;
}

static const struct channel_events events = {
	.ready = on_ready,
	.shown = on_shown,
	.noted = on_noted,
	.asked = on_asked,
	.done = on_done,
	.ended = on_ended,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct channel c = CHANNEL_CLOSED;
	struct loop *loop = loop_new();
	struct cay_error err;
	int by, pair[2], theirs;

	memset(&seen, 0, sizeof(seen));
	c.events = &events;
	CHECK(loop && channel_open(&c, loop, size & 1, &by, &err) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
	      msg_send(by, "", 1, &pair[0], 1) == 0);
	(void)close(by);
	(void)close(pair[0]);
	theirs = pair[1];
	while (size > 0) {
		ssize_t n = send(theirs, data, size_min(size, 4096), MSG_DONTWAIT | MSG_NOSIGNAL);

		channel_take_rest(&c);
		if (n <= 0)
			break;
		data += n;
		size -= (size_t)n;
	}
	(void)close(theirs);
	channel_take_rest(&c);
	CHECK(seen.ended);
	loop_free(loop);
	return 0;
}
