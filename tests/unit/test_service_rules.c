#include "engine/native/service_rules.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/handover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void add(struct strv *list, const char *text)
{
	assert_int_equal(strv_add(list, text), 0);
}

static void what_is_packed_is_unpacked(void **state)
{
	struct service_rules r = {.maximum.memory_bytes = 7, .may_degrade = true}, got = {0};
	_cleanup_(fd_closep) int fd = -1;

	(void)state;
	r.bare = (struct bare_rules){.mode = MODE_SELECTIVE, .uid = 8, .socket = "/s"};
	add(&r.mounts.read, "/a");
	add(&r.mounts.read, "/b");
	add(&r.mounts.forbid, "/c");
	fd = service_rules_pack(&r);
	assert_true(fd >= 0);
	assert_int_equal(service_rules_unpack(fd, &got), 0);
	assert_int_equal(got.maximum.memory_bytes, 7);
	assert_true(got.may_degrade);
	assert_int_equal(got.bare.mode, MODE_SELECTIVE);
	assert_string_equal(got.bare.socket, "/s");
	assert_int_equal(got.mounts.read.len, 2);
	assert_string_equal(got.mounts.read.items[1], "/b");
	assert_int_equal(got.mounts.write.len, 0);
	assert_string_equal(got.mounts.forbid.items[0], "/c");
	service_rules_done(&r);
	service_rules_done(&got);
}

/* Cut anywhere, it is none. */
static void what_is_cut_is_refused(void **state)
{
	struct service_rules r = {0}, got = {0};
	_cleanup_(fd_closep) int whole = -1;
	char bytes[4096];
	ssize_t n;

	(void)state;
	add(&r.mounts.read, "/a");
	add(&r.mounts.operators, "/b");
	whole = service_rules_pack(&r);
	n = pread(whole, bytes, sizeof(bytes), 0);
	assert_true(n > 0 && n < (ssize_t)sizeof(bytes));
	for (ssize_t len = 0; len < n; len++) {
		_cleanup_(fd_closep) int fd = fd_sealed("cut", bytes, (size_t)len);

		assert_true(fd >= 0);
		assert_int_equal(service_rules_unpack(fd, &got), -EINVAL);
	}
	service_rules_done(&r);
}

static void it_is_handed_over(void **state)
{
	_cleanup_(fd_closep) int fd = fd_sealed("x", "x", 1), got = -1;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	handover_answer(pair[1], true); /* it has asked before the giver waits */
	assert_int_equal(handover_give(pair[0], fd), 0);
	got = handover_take(pair[1]);
	assert_true(got >= 0);
	handover_answer(pair[1], false);
	assert_int_equal(handover_give(pair[0], fd), -EINVAL);
	(void)close(pair[1]);
	assert_true(handover_give(pair[0], fd) < 0);
	assert_true(handover_take(pair[0]) < 0);
	(void)close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_packed_is_unpacked),
		cmocka_unit_test(what_is_cut_is_refused),
		cmocka_unit_test(it_is_handed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
