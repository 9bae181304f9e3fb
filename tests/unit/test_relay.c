/* Both ends of a wire in one loop, with pipes at their outer ends. */
#include "engine/container/relay.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct end {
	struct relay relay;
	unsigned said, closed, ended;
	const char *why;
	struct wire_head head;
};

static struct loop *loop;
static struct end ends[2];
static int wire[2];

static void on_said(struct relay *r, const struct wire_head *h, const void *body)
{
	struct end *e = r->ctx;

	(void)body;
	e->said++;
	e->head = *h;
}

static void on_closed(struct relay *r, uint32_t command)
{
	(void)command;
	((struct end *)r->ctx)->closed++;
}

static void on_ended(struct relay *r, const char *why)
{
	struct end *e = r->ctx;

	e->ended++;
	e->why = why;
}

static const struct relay_events events = {on_said, on_closed, on_ended};

static void start(struct end *e, int fd, bool keeper)
{
	*e = (struct end){.relay = {.events = &events, .ctx = e}};
	assert_int_equal(relay_init(&e->relay, loop, fd, fd, keeper), 0);
}

static int make_wire(void **state)
{
	(void)state;
	loop = loop_new();
	if (!loop || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire) < 0)
		return -1;
	for (int n = 0; n < 2; n++)
		start(&ends[n], wire[n], false);
	return 0;
}

static int free_wire(void **state)
{
	(void)state;
	for (int n = 0; n < 2; n++) {
		relay_done(&ends[n].relay);
		(void)close(wire[n]);
	}
	loop_free(loop);
	return 0;
}

/* All that can happen now. */
static void turn(void)
{
	for (int n = 0; n < 200; n++)
		loop_turn(loop, LOOP_ROUND);
}

static void make_pipe(int ret[2])
{
	assert_int_equal(pipe2(ret, O_CLOEXEC), 0);
}

/* A stream from end 0 to end 1: what is written to *ret_in can be read from *ret_out. */
static void join(uint32_t command, enum wire_stream s, int *ret_in, int *ret_out)
{
	int in[2], out[2];

	make_pipe(in);
	make_pipe(out);
	assert_int_equal(relay_to(&ends[1].relay, command, s, out[1]), 0);
	assert_int_equal(relay_from(&ends[0].relay, command, s, in[0]), 0);
	*ret_in = in[1];
	*ret_out = out[0];
	assert_int_equal(fd_set_nonblock(*ret_in, 1), 0);
	assert_int_equal(fd_set_nonblock(*ret_out, 1), 0);
}

static void test_bytes_and_their_end(void **state)
{
	char text[16];
	int in, out;

	(void)state;
	join(7, WIRE_OUT, &in, &out);
	assert_int_equal(write(in, "hello", 5), 5);
	turn();
	assert_int_equal(read(out, text, sizeof(text)), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(relay_open(&ends[1].relay, 7), 1);
	(void)close(in);
	turn();
	assert_int_equal(read(out, text, sizeof(text)), 0);
	assert_int_equal(relay_open(&ends[0].relay, 7) + relay_open(&ends[1].relay, 7), 0);
	assert_int_equal(ends[0].closed, 1);
	assert_int_equal(ends[1].closed, 1);
	assert_int_equal(ends[0].ended + ends[1].ended, 0);
	(void)close(out);
}

/* Writes as long as it is taken. */
static size_t fill(int in, size_t most)
{
	static const char zeros[4096];
	size_t sum = 0;
	ssize_t n;

	while (sum < most) {
		n = write(in, zeros, sizeof(zeros));
		if (n > 0)
			sum += (size_t)n;
		turn();
		if (n < 0 && write(in, zeros, 1) < 0)
			break;
	}
	return sum;
}

static void test_a_slow_reader_holds_up_nobody(void **state)
{
	int slow_in, slow_out, in, out;
	char text[16];
	size_t sum;

	(void)state;
	join(1, WIRE_OUT, &slow_in, &slow_out);
	join(2, WIRE_OUT, &in, &out);
	sum = fill(slow_in, 64u << 20);
	/* Two pipes, and what is under way. */
	assert_in_range(sum, WIRE_WINDOW, WIRE_WINDOW + (512u << 10));
	assert_int_equal(write(in, "x", 1), 1);
	turn();
	assert_int_equal(read(out, text, sizeof(text)), 1);
	(void)close(slow_in);
	(void)close(slow_out);
	(void)close(in);
	(void)close(out);
	turn();
	assert_int_equal(ends[0].ended + ends[1].ended, 0);
}

static void test_much_passes(void **state)
{
	static char chunk[65536];
	size_t sent = 0, got = 0;
	int in, out;
	ssize_t n;

	(void)state;
	join(1, WIRE_IN, &in, &out);
	while (got < 8u << 20) {
		if (sent < 8u << 20) {
			memset(chunk, (int)(sent >> 16), sizeof(chunk));
			n = write(in, chunk, sizeof(chunk) - sent % sizeof(chunk));
			sent += n > 0 ? (size_t)n : 0;
		}
		loop_turn(loop, LOOP_ROUND);
		n = read(out, chunk, sizeof(chunk));
		for (ssize_t k = 0; k < n; k++)
			assert_int_equal((unsigned char)chunk[k],
					 (unsigned char)((got + (size_t)k) >> 16));
		got += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(got, sent);
	(void)close(in);
	(void)close(out);
}

static void test_nobody_reads(void **state)
{
	int in, out;

	(void)state;
	join(3, WIRE_ERR, &in, &out);
	(void)close(out);
	turn();
	assert_int_equal(relay_open(&ends[0].relay, 3), 0);
	assert_int_equal(write(in, "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	(void)close(in);
}

static void test_devnull_has_nothing(void **state)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), out[2];
	char text[4];

	(void)state;
	make_pipe(out);
	assert_int_equal(relay_to(&ends[1].relay, 1, WIRE_IN, out[1]), 0);
	assert_int_equal(relay_from(&ends[0].relay, 1, WIRE_IN, null), 0);
	turn();
	assert_int_equal(read(out[0], text, sizeof(text)), 0);
	(void)close(out[0]);
}

static void test_frames_of_both(void **state)
{
	struct wire_size size = {.rows = 24, .columns = 80};

	(void)state;
	assert_int_equal(relay_say(&ends[0].relay, WIRE_SIZE, 9, &size, sizeof(size), NULL, 0), 0);
	assert_int_equal(relay_say(&ends[0].relay, WIRE_CLEAR, 5, NULL, 0, NULL, 0), 0);
	turn();
	assert_int_equal(ends[1].said, 2);
	assert_int_equal(ends[1].head.kind, WIRE_CLEAR);
	assert_int_equal(ends[1].head.command, 5);
}

static void test_what_is_too_much_is_not_said(void **state)
{
	static char body[WIRE_BODY_MAX];

	(void)state;
	assert_int_equal(relay_say(&ends[0].relay, WIRE_ORDER, 1, body, sizeof(body), body, 1),
			 -EFBIG);
}

static void test_the_end(void **state)
{
	(void)state;
	(void)shutdown(wire[0], SHUT_WR);
	turn();
	assert_int_equal(ends[1].ended, 1);
	assert_null(ends[1].why);
	assert_int_equal(relay_say(&ends[1].relay, WIRE_CLEAR, 0, NULL, 0, NULL, 0), -EPIPE);
}

/* What comes from a guest, in frames of the engine's. */
static void feed(struct end *e, const struct wire_head *h, const void *body)
{
	unsigned char packet[8 + sizeof(*h) + 4096] = {1};
	size_t len = sizeof(*h) + h->len;

	assert_true(h->len <= 4096);
	packet[6] = (unsigned char)(len >> 8);
	packet[7] = (unsigned char)len;
	memcpy(packet + 8, h, sizeof(*h));
	if (h->len)
		memcpy(packet + 8 + sizeof(*h), body, h->len);
	/* However it is cut. */
	for (size_t at = 0; at < 8 + len && !e->ended; at += 3)
		relay_take(&e->relay, (char *)packet + at, 8 + len - at < 3 ? 8 + len - at : 3);
}

static void as_keeper(struct end *e, int null[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, null), 0);
	start(e, null[0], true);
}

static void test_a_guest_is_not_believed(void **state)
{
	static char body[4096];
	const struct {
		struct wire_head head;
		bool good;
	} cases[] = {
		{{.kind = WIRE_USE, .len = sizeof(struct wire_use)}, true},
		{{.kind = WIRE_DATA, .command = 99, .stream = WIRE_OUT, .len = 5}, true},
		{{.kind = WIRE_CLOSE, .command = 99, .stream = WIRE_OUT}, true},
		{{.kind = WIRE_DATA, .command = 1, .stream = WIRE_OUT, .len = 5}, true},
		{{.kind = 0}, false},
		{{.kind = WIRE_KINDS}, false},
		{{.kind = WIRE_ORDER, .len = 100}, false},
		{{.kind = WIRE_CLEAR}, false},
		{{.kind = WIRE_USE, .len = 1}, false},
		{{.kind = WIRE_DATA, .command = 1, .stream = WIRE_STREAMS, .len = 1}, false},
		{{.kind = WIRE_DATA, .command = 1, .stream = WIRE_OUT, .len = 0}, false},
		/* Of a stream that goes the other way; and room that nobody made. */
		{{.kind = WIRE_DATA, .command = 1, .stream = WIRE_IN, .len = 1}, false},
		{{.kind = WIRE_CREDIT, .command = 1, .stream = WIRE_OUT, .len = 8}, false},
		{{.kind = WIRE_CREDIT, .command = 1, .stream = WIRE_IN, .len = 8}, false},
	};

	(void)state;
	memset(body, 1, sizeof(body));
	for (size_t n = 0; n < ARRAY_LEN(cases); n++) {
		struct end e;
		int null[2], in[2], out[2];

		as_keeper(&e, null);
		make_pipe(in);
		make_pipe(out);
		assert_int_equal(relay_from(&e.relay, 1, WIRE_IN, in[0]), 0);
		assert_int_equal(relay_to(&e.relay, 1, WIRE_OUT, out[1]), 0);
		feed(&e, &cases[n].head, body);
		assert_int_equal(e.ended, !cases[n].good);
		if (!cases[n].good)
			assert_non_null(e.why);
		relay_done(&e.relay);
		(void)close(in[1]);
		(void)close(out[0]);
		(void)close(null[0]);
		(void)close(null[1]);
	}
}

static void test_more_than_there_is_room_for(void **state)
{
	static char body[4096];
	struct wire_head h = {.kind = WIRE_DATA, .command = 1, .stream = WIRE_OUT, .len = 4096};
	struct end e;
	int null[2], out[2];
	unsigned frames = 0;

	(void)state;
	as_keeper(&e, null);
	make_pipe(out);
	assert_int_equal(relay_to(&e.relay, 1, WIRE_OUT, out[1]), 0);
	while (!e.ended && frames < 1000) {
		feed(&e, &h, body);
		frames++;
	}
	/* What a pipe holds was passed on, and room for it told of. */
	assert_in_range(frames, WIRE_WINDOW / 4096, WIRE_WINDOW / 4096 + 17);
	assert_non_null(e.why);
	relay_done(&e.relay);
	(void)close(out[0]);
	(void)close(null[0]);
	(void)close(null[1]);
}

static void test_words_beside_the_frames(void **state)
{
	static const char words[] = "\2\0\0\0\0\0\0\5oops\n";
	struct end e;
	int null[2];

	(void)state;
	as_keeper(&e, null);
	relay_take(&e.relay, words, sizeof(words) - 1);
	assert_string_equal(e.relay.words, "oops\n");
	relay_take(&e.relay, "no frame of theirs", 18);
	assert_int_equal(e.ended, 1);
	relay_done(&e.relay);
	(void)close(null[0]);
	(void)close(null[1]);
}

int main(void)
{
#define WIRE_TEST(f) cmocka_unit_test_setup_teardown(f, make_wire, free_wire)
	const struct CMUnitTest tests[] = {
		WIRE_TEST(test_bytes_and_their_end),
		WIRE_TEST(test_a_slow_reader_holds_up_nobody),
		WIRE_TEST(test_much_passes),
		WIRE_TEST(test_nobody_reads),
		WIRE_TEST(test_devnull_has_nothing),
		WIRE_TEST(test_frames_of_both),
		WIRE_TEST(test_what_is_too_much_is_not_said),
		WIRE_TEST(test_the_end),
		WIRE_TEST(test_a_guest_is_not_believed),
		WIRE_TEST(test_more_than_there_is_room_for),
		WIRE_TEST(test_words_beside_the_frames),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
