/* A cell that leaves. What contexts do with interpreters: tests/serve/test_contexts.py. */
#include "session/context_impl.h"
#include "session/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

static size_t heard[2];

static bool hear(struct cell *cell, enum stream s _unused_, const char *data _unused_, size_t len)
{
	heard[*cell->run - '0'] += len;
	return false;
}

static const struct cell_events events = {.output = hear};

static void what_is_in_the_pipe_is_the_cells_that_leaves(void **state _unused_)
{
	struct job_place place = {.loop = loop_new()};
	struct contexts all = {.place = &place};
	struct context c = {.all = &all, .cause = CAUSE_CANCELLED};
	struct cell first = {.events = &events, .run = "0"}, next = {.events = &events, .run = "1"};
	int ends[2];

	context_init(&c);
	context_run(&c, &first);
	context_run(&c, &next);
	cell_prepared(&first);
	cell_prepared(&next);
	c.state = CONTEXT_BUSY;
	assert_int_equal(pipe(ends), 0);
	c.streams[STREAM_STDOUT].in.fd = ends[0];
	assert_int_equal(write(ends[1], "last words", 10), 10);
	(void)close(ends[1]);
	assert_true(cell_leave(&first));
	assert_int_equal(heard[0], 10);
	assert_int_equal(heard[1], 0);
	assert_true(c.cells == &next && c.cause == CAUSE_NONE && c.state == CONTEXT_ENDED);
	loop_cancel(place.loop, &c.next_turn);
	loop_free(place.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_the_pipe_is_the_cells_that_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
