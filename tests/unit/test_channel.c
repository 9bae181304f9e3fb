/* What is said to a driver, where it can't be said. The rest: tests/fuzz/fuzz_channel.c. */
#include "session/channel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

static void a_request_waits_until_it_is_answered(void **state _unused_)
{
	struct channel c = CHANNEL_CLOSED;

	c.state = CHANNEL_BUSY;
	c.waits = true;
	c.out = BUF(8);
	assert_int_equal(channel_answer(&c, "text", 4), -EFBIG);
	assert_true(c.waits);
	assert_int_equal(c.out.len, 0);
	buf_done(&c.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_waits_until_it_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
