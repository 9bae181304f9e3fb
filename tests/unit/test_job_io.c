/* A program's pipes: who may stop their being read, and who lets them go on. */
#include "base/attr.h"
#include "base/fd.h"
#include "base/loop.h"
#include "session/job_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

static size_t heard;

/* One who takes a chunk at a time. */
static bool take_one(struct job *j _unused_, enum stream s _unused_, const char *data _unused_,
		     size_t len)
{
	heard += len;
	return true;
}

static const struct job_events slow = {.output = take_one};

struct scene {
	struct job job;
	struct request_body body;
	int theirs[3];
};

static struct scene *begin(void)
{
	struct scene *s = calloc(1, sizeof(*s));
	struct cay_error err;

	assert_non_null(s);
	s->job = (struct job){.events = &slow, .step = STEP_RUN, .input.fd = -1};
	s->job.order.body = &s->body;
	s->job.place.loop = loop_new();
	assert_non_null(s->job.place.loop);
	assert_int_equal(job_io_open(&s->job, false, s->theirs, &err), 0);
	for (int n = 0; n < STREAMS; n++)
		capture_init(&s->job.result.output[n], 1 << 20);
	heard = 0;
	return s;
}

static void end(struct scene *s)
{
	job_io_close(&s->job);
	for (int n = 0; n < 3; n++)
		fd_closep(&s->theirs[n]);
	for (int n = 0; n < STREAMS; n++)
		capture_done(&s->job.result.output[n]);
	loop_free(s->job.place.loop);
	free(s);
}

static void print(struct scene *s)
{
	assert_int_equal(fd_write_all(s->theirs[1], "abc", 3), 0);
	loop_turn(s->job.place.loop, LOOP_ROUND);
}

static void what_a_taker_paused_stays_so(void **state _unused_)
{
	struct scene *s = begin();

	print(s);
	assert_int_equal(heard, 3);
	/* It has ended, or begun: nothing that the taker asked for. */
	job_io_go_on(&s->job);
	print(s);
	assert_int_equal(heard, 3);
	job_resume(&s->job, STREAM_STDOUT);
	loop_turn(s->job.place.loop, LOOP_ROUND);
	assert_int_equal(heard, 6);
	end(s);
}

static void what_is_held_waits_for_its_start(void **state _unused_)
{
	struct scene *s = begin();

	job_io_hold(&s->job);
	print(s);
	job_resume(&s->job, STREAM_STDOUT);
	loop_turn(s->job.place.loop, LOOP_ROUND);
	assert_int_equal(heard, 0);
	job_io_go_on(&s->job);
	loop_turn(s->job.place.loop, LOOP_ROUND);
	assert_int_equal(heard, 3);
	end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_taker_paused_stays_so),
		cmocka_unit_test(what_is_held_waits_for_its_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
