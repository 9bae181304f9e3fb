/*
 * A container's stream, whatever has become of its PID 1: frames of the engine's with frames of
 * ours in them. A keeper that has streams open takes it; nothing but what a guest may say is passed
 * on, in the lengths that it has, and no stream gets more than its window.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "engine/container/facts.h"
#include "engine/container/relay.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned ended;

static void look_at_facts(const void *body)
{
	struct wire_setup who = {.uid = ISLAND_UID, .gid = ISLAND_GID};
	struct plan p = {.limits = {.memory_bytes = 1 << 20, .disk_bytes = 1 << 20}};
	struct isolation iso = {0};
	struct wire_facts facts;
	struct cay_error err;

	p.uid = ISLAND_UID;
	p.gid = ISLAND_GID;
	memcpy(&facts, body, sizeof(facts));
	if (facts_judge(&facts, &p, &who, NULL, &iso, &err) == 0)
		CHECK(facts.caps_effective == 0 && facts.no_new_privs == 1 &&
		      facts.uid == ISLAND_UID && iso.degraded == 0);
}

static void on_said(struct relay *r, const struct wire_head *h, const void *body)
{
	struct cay_error err;

	CHECK(!r->over);
	CHECK(h->kind == WIRE_READY || h->kind == WIRE_FAILED || h->kind == WIRE_EXITED ||
	      h->kind == WIRE_USE);
	CHECK(h->len <= WIRE_BODY_MAX);
	if (h->kind == WIRE_READY && h->len == sizeof(struct wire_facts))
		look_at_facts(body);
	if (h->kind == WIRE_FAILED) {
		CHECK(h->len == sizeof(err));
		memcpy(&err, body, sizeof(err));
		cay_error_mend(&err);
		CHECK(strlen(err.text) < sizeof(err.text));
	}
}

static void on_closed(struct relay *r, uint32_t command)
{
	CHECK(!r->over && command > 0);
}

static void on_ended(struct relay *r, const char *why)
{
	CHECK(r->over && why && ended++ == 0);
}

static const struct relay_events events = {on_said, on_closed, on_ended};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct relay r = {.events = &events};
	struct loop *loop = loop_new();
	int wire[2], in[2], out[2], got = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	ended = 0;
	CHECK(loop && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire) == 0);
	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	CHECK(relay_init(&r, loop, wire[0], wire[0], true) == 0);
	CHECK(relay_from(&r, 1, WIRE_IN, in[0]) == 0 && relay_to(&r, 1, WIRE_OUT, out[1]) == 0);
	/* Cut anywhere. */
	relay_take(&r, (const char *)data, size / 2);
	if (!r.over)
		relay_take(&r, (const char *)data + size / 2, size - size / 2);
	relay_done(&r);
	(void)fd_set_nonblock(out[0], 1);
	for (char chunk[4096]; got >= 0;) {
		ssize_t n = read(out[0], chunk, sizeof(chunk));

		if (n <= 0)
			break;
		got += (int)n;
	}
	CHECK((size_t)got <= size);
	(void)close(in[1]);
	(void)close(out[0]);
	(void)close(wire[0]);
	(void)close(wire[1]);
	loop_free(loop);
	return 0;
}
