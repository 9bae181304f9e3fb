/* What the daemon says to its launcher. */
#include "base/attr.h"
#include "base/fd.h"
#include "base/loop.h"
#include "session/islands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAMES (SERVICE_NAMES_MAX + 1000)

static void lost(void *ctx)
{
	*(bool *)ctx = true;
}

/* One packet; how many names it has. */
static size_t take_names(int sock, size_t from, uint32_t *ret_flags)
{
	static char packet[SERVICE_PACKET_MAX];
	struct service_request q;
	size_t n_fds, n;
	ssize_t len = msg_recv(sock, packet, sizeof(packet), NULL, 0, &n_fds);

	assert_true(len >= (ssize_t)sizeof(q));
	memcpy(&q, packet, sizeof(q));
	assert_int_equal(q.kind, SERVICE_SWEEP);
	*ret_flags = q.flags;
	n = ((size_t)len - sizeof(q)) / ID_SIZE;
	for (size_t i = 0; i < n; i++) {
		char name[ID_SIZE];

		(void)snprintf(name, sizeof(name), "sbx_%016zu", from + i);
		assert_string_equal(packet + sizeof(q) + i * ID_SIZE, name);
	}
	return n;
}

/* More sandboxes than one packet names, which must not keep a daemon from starting. */
static void sweeps_by_many_names(void **state _unused_)
{
	static char names[NAMES][ID_SIZE];
	struct loop *loop = loop_new();
	struct islands *l;
	struct cay_error err;
	bool gone = false;
	uint32_t flags;
	size_t n;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	l = islands_new(loop, pair[0], NULL, lost, &gone);
	assert_non_null(l);
	for (n = 0; n < NAMES; n++)
		(void)snprintf(names[n], ID_SIZE, "sbx_%016zu", n);
	assert_int_equal(islands_sweep(l, (const char(*)[ID_SIZE])names, NAMES, &err), 0);
	n = take_names(pair[1], 0, &flags);
	assert_int_equal(flags, FLAG_MORE);
	n += take_names(pair[1], n, &flags);
	assert_int_equal(flags, 0);
	assert_int_equal(n, NAMES);
	/* None at all is an order, too: everything goes. */
	assert_int_equal(islands_sweep(l, NULL, 0, &err), 0);
	assert_int_equal(take_names(pair[1], 0, &flags), 0);
	assert_int_equal(flags, 0);
	islands_free(l);
	loop_free(loop);
	(void)close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweeps_by_many_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
