/* Which addresses are this host's own, as its kernel says. */
#include "egress/own.h"

#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_own(int sock, const char *text)
{
	struct address a;

	assert_int_equal(address_parse(text, &a), 0);
	return own_address(sock, &a);
}

static void knows_its_own(void **state)
{
	int sock = own_open();

	(void)state;
	assert_true(sock >= 0);
	assert_true(is_own(sock, "127.0.0.1"));
	assert_true(is_own(sock, "127.1.2.3"));
	assert_true(is_own(sock, "255.255.255.255"));
	/* Wherever this machine is: it has a way to others, or none at all. */
	assert_false(is_own(sock, "93.184.216.34"));
	assert_true(is_own(sock, "127.0.0.1"));
	fd_closep(&sock);
}

static void what_can_not_be_told_is(void **state)
{
	int pair[2];

	(void)state;
	assert_true(is_own(-1, "93.184.216.34"));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	assert_true(is_own(pair[0], "93.184.216.34"));
	assert_int_equal(send(pair[1], "", 1, 0), 1);
	assert_true(is_own(pair[0], "93.184.216.34"));
	(void)close(pair[0]);
	(void)close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_its_own),
		cmocka_unit_test(what_can_not_be_told_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
