/* What is a request of service.h, for launcher and containers alike. */
#include "engine/packet.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static int pipes[2], sockets[2], null, directory, file;

static int open_all(void **state _unused_)
{
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return pipe2(pipes, O_CLOEXEC) < 0 || null < 0 || directory < 0 || file < 0
		       ? -1
		       : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets);
}

static int close_all(void **state _unused_)
{
	const int all[] = {pipes[0], pipes[1], sockets[0], sockets[1], null, directory, file};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		(void)close(all[i]);
	return 0;
}

static bool ok(uint32_t kind, uint32_t flags, int first, int last, size_t n_fds)
{
	const struct service_request q = {.kind = kind, .flags = flags, .island = 1};
	const int fds[] = {first, null, last, null};

	return packet_ok(&q, sizeof(q), fds, n_fds);
}

static void streams_are_pipes(void **state _unused_)
{
	assert_true(ok(SERVICE_RUN, 0, pipes[0], pipes[1], 3));
	assert_true(ok(SERVICE_COMMAND, FLAG_TELL_READY, null, null, 3));
	assert_false(ok(SERVICE_RUN, 0, directory, pipes[1], 3));
	assert_false(ok(SERVICE_RUN, 0, pipes[0], file, 3));
	assert_false(ok(SERVICE_COMMAND, 0, sockets[0], pipes[1], 3));
	assert_false(ok(SERVICE_COMMAND, ORDER_TERMINAL, pipes[0], sockets[1], 3));
	assert_true(ok(SERVICE_COMMAND, ORDER_TERMINAL, sockets[0], pipes[1], 3));
	assert_false(ok(SERVICE_COMMAND, 0, -1, pipes[1], 3));
}

static void as_many_as_its_kind_has(void **state _unused_)
{
	for (size_t n = 0; n <= 4; n++) {
		assert_int_equal(ok(SERVICE_RUN, 0, null, null, n), n == 3);
		assert_int_equal(ok(SERVICE_MAKE, 0, null, null, n), n == 0);
		assert_int_equal(ok(SERVICE_KILL, 0, null, null, n), n == 0);
		assert_int_equal(ok(SERVICE_RUN, FLAG_BARE | FLAG_PEER, null, null, n), n == 4);
	}
}

static void kinds_and_flags(void **state _unused_)
{
	assert_false(ok(0, 0, null, null, 0));
	assert_false(ok(SERVICE_COPY + 1, 0, null, null, 0));
	assert_false(ok(UINT32_MAX, 0, null, null, 0));
	assert_false(ok(SERVICE_KILL, FLAG_OWN, null, null, 0));
	assert_false(ok(SERVICE_MAKE, FLAG_STAYS, null, null, 0));
	assert_false(ok(SERVICE_RUN, ORDER_AGENT, null, null, 3));
	assert_false(ok(SERVICE_RUN, FLAG_PEER, null, null, 4));
}

static void length_of_a_header(void **state _unused_)
{
	struct service_request q = {.kind = SERVICE_KILL, .island = 1};

	assert_true(packet_ok(&q, sizeof(q), NULL, 0));
	assert_false(packet_ok(&q, sizeof(q) + 1, NULL, 0));
	q.kind = SERVICE_MAKE;
	assert_true(packet_ok(&q, sizeof(q) + 1, NULL, 0));
}

static void times_of_the_plan(void **state _unused_)
{
	const struct limits l = {.timeout_ms = 1000, .cpu_time_ms = 500};
	struct service_request q = {
		.kind = SERVICE_COMMAND, .timeout_ms = 1000, .cpu_time_ms = 500};

	assert_true(packet_times_ok(&q, &l));
	q.timeout_ms++;
	assert_false(packet_times_ok(&q, &l));
	q.flags = FLAG_STAYS;
	assert_true(packet_times_ok(&q, &l));
	q.cpu_time_ms++;
	assert_false(packet_times_ok(&q, &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_are_pipes), cmocka_unit_test(as_many_as_its_kind_has),
		cmocka_unit_test(kinds_and_flags),   cmocka_unit_test(length_of_a_header),
		cmocka_unit_test(times_of_the_plan),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
