/* Orders to an island whose PID 1 takes none. What islands do: tests/unit/test_service.c. */
#include "engine/native/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void interrupts_wait_in_a_bounded_place(void **state _unused_)
{
	struct service *s = calloc(1, sizeof(*s));
	struct guest *g = calloc(1, sizeof(*g));
	struct command command = {.guest = g, .number = 7};
	int pair[2];

	assert_true(s && g);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	s->loop = loop_new();
	g->service = s;
	g->commands = &command;
	g->island.control = g->control.fd = pair[0];
	assert_int_equal(loop_add(s->loop, &g->control, EPOLLIN), 0);
	for (int n = 0; n < 5000; n++)
		guest_interrupt(g, command.number);
	assert_in_range(g->island.orders.len, 1, 256);
	loop_remove(s->loop, &g->control);
	outbox_done(&g->island.orders);
	loop_free(s->loop);
	for (int n = 0; n < 2; n++)
		(void)close(pair[n]);
	free(g);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interrupts_wait_in_a_bounded_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
