/* The api's side of cay-egress, when that is hung, or somebody else's. */
#include "session/outlet.h"

#include "base/fd.h"
#include "base/loop.h"
#include "base/strv.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop *loop;
static struct outlets *outlets;
static struct outlet outlet;
static int theirs;

static int begin(void **state)
{
	int pair[2], wires[EGRESS_FDS];
	struct cay_error err;

	(void)state;
	loop = loop_new();
	if (!loop ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	theirs = pair[1];
	outlets = outlets_new(loop, pair[0]);
	outlet = (struct outlet){.all = outlets};
	for (int n = 0; n < EGRESS_FDS; n++)
		wires[n] = dup(theirs);
	return outlets ? outlet_open(&outlet, wires, &err) : -1;
}

static int end(void **state)
{
	(void)state;
	outlet_done(&outlet);
	outlets_free(outlets);
	loop_free(loop);
	(void)close(theirs);
	return 0;
}

/* The kinds of all that it was sent so far; how many. */
static size_t read_all(uint32_t last_kind[1])
{
	static char packet[EGRESS_REQUEST_MAX];
	size_t n = 0;
	ssize_t len;

	for (;;) {
		loop_turn(loop, LOOP_ROUND);
		len = recv(theirs, packet, sizeof(packet), 0);
		if (len < 0)
			return n;
		assert_true(len >= (ssize_t)sizeof(struct egress_request));
		*last_kind = ((const struct egress_request *)(const void *)packet)->kind;
		n++;
	}
}

static void one_who_does_not_read(void **state)
{
	struct network_spec rules = {.mode = NETWORK_FULL};
	struct cay_error err;
	uint32_t kind = 0;
	size_t said = 0;

	(void)state;
	while (said < 100000 && outlet_set_rules(&outlet, &rules, &err) == 0)
		said++;
	assert_true(said > 0 && said < 100000);
	assert_int_equal(err.code, CAY_E_AT_CAPACITY);
	assert_int_equal(outlet_ask(&outlet, false, NULL, NULL), -1);
	/* Its end is never lost. */
	assert_int_equal(outlet_ask(&outlet, true, NULL, NULL), 0);
	assert_int_equal(read_all(&kind), 1 + said + 1);
	assert_int_equal(kind, EGRESS_CLOSE);
}

static void on_told(void *ctx, struct egress_log log)
{
	*(size_t *)ctx = log.n + 1;
	egress_log_done(&log);
}

static void one_who_talks_nonsense(void **state)
{
	static const char nonsense[EGRESS_ANSWER_MAX + 1];
	const struct egress_answer closed = {.kind = ANSWER_CLOSED, .number = outlet.number};
	const size_t lengths[] = {0, 1, sizeof(closed) - 1, sizeof(closed), sizeof(nonsense)};
	size_t told = 0;

	(void)state;
	assert_int_equal(outlet_ask(&outlet, true, on_told, &told), 0);
	for (size_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++) {
		assert_int_equal(send(theirs, nonsense, lengths[n], 0), lengths[n]);
		loop_turn(loop, LOOP_ROUND);
	}
	assert_int_equal(told, 0);
	assert_int_equal(send(theirs, &closed, sizeof(closed), 0), sizeof(closed));
	loop_turn(loop, LOOP_ROUND);
	assert_int_equal(told, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_who_does_not_read),
		TEST(one_who_talks_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
