#include "base/loop.h"

#include "base/attr.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct loop *loop;
static int order[64];
static size_t n_order;

static int make_loop(void **state)
{
	(void)state;
	n_order = 0;
	loop = loop_new();
	return loop ? 0 : -1;
}

static int free_loop(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

static void note(int what)
{
	assert_true(n_order < ARRAY_LEN(order));
	order[n_order++] = what;
}

static void on_note(struct loop_timer *t)
{
	note(*(int *)t->ctx);
}

static void on_stop(struct loop_timer *t)
{
	(void)t;
	loop_stop(loop);
}

static struct loop_timer stop = {.fire = on_stop};

static void run_for(uint64_t ms)
{
	assert_int_equal(loop_after(loop, &stop, ms), 0);
	assert_int_equal(loop_run(loop), 0);
}

static void fires_in_order(void **state)
{
	int ids[32];
	struct loop_timer timers[ARRAY_LEN(ids)];
	uint64_t now = clock_now_ns();

	(void)state;
	for (int i = 0; i < (int)ARRAY_LEN(ids); i++) {
		int place = i * 13 % 32;

		ids[i] = place;
		timers[i] = (struct loop_timer){.fire = on_note, .ctx = &ids[i]};
		assert_int_equal(loop_at(loop, &timers[i], now + 1000000 + (uint64_t)place * 1000),
				 0);
	}
	run_for(20);
	assert_int_equal(n_order, ARRAY_LEN(ids));
	for (int i = 0; i < (int)ARRAY_LEN(ids); i++)
		assert_int_equal(order[i], i);
}

static void is_never_early(void **state)
{
	uint64_t start = clock_now_ns();

	(void)state;
	run_for(15);
	assert_true(clock_ms_since(start) >= 15);
}

static void moves_and_cancels(void **state)
{
	int one = 1, two = 2, three = 3;
	struct loop_timer a = {.fire = on_note, .ctx = &one}, b = {.fire = on_note, .ctx = &two},
			  c = {.fire = on_note, .ctx = &three};

	(void)state;
	assert_int_equal(loop_after(loop, &a, 1), 0);
	assert_int_equal(loop_after(loop, &b, 2), 0);
	assert_int_equal(loop_after(loop, &c, 3), 0);
	assert_int_equal(loop_after(loop, &a, 5), 0);
	loop_cancel(loop, &b);
	loop_cancel(loop, &b);
	run_for(10);
	assert_int_equal(n_order, 2);
	assert_int_equal(order[0], 3);
	assert_int_equal(order[1], 1);
}

/* The heap, against a list: many timers set, moved and cancelled at random. */
static void keeps_many(void **state)
{
	static struct loop_timer timers[500];
	static int ids[ARRAY_LEN(timers)];
	uint64_t now = clock_now_ns(), last = 0;
	size_t n = 0;

	(void)state;
	srandom(1);
	for (int i = 0; i < 5000; i++) {
		size_t k = (size_t)random() % ARRAY_LEN(timers);

		timers[k].fire = on_note;
		timers[k].ctx = &ids[k];
		if (random() % 3 == 0)
			loop_cancel(loop, &timers[k]);
		else
			assert_int_equal(loop_at(loop, &timers[k],
						 now + 1000000000 + (uint64_t)(random() % 1000000)),
					 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(timers); i++)
		n += timers[i].place != 0;
	assert_true(n > 100);
	for (; n > 0; n--) {
		struct loop_timer *soonest = NULL;

		for (size_t i = 0; i < ARRAY_LEN(timers); i++)
			if (timers[i].place == 1)
				soonest = &timers[i];
		assert_non_null(soonest);
		assert_true(soonest->at_ns >= last);
		last = soonest->at_ns;
		loop_cancel(loop, soonest);
	}
}

static void on_again(struct loop_timer *t)
{
	note(0);
	if (n_order < 3)
		assert_int_equal(loop_after(loop, t, 0), 0);
}

static void fires_again(void **state)
{
	struct loop_timer t = {.fire = on_again};

	(void)state;
	assert_int_equal(loop_after(loop, &t, 0), 0);
	run_for(10);
	assert_int_equal(n_order, 3);
}

struct pair {
	int ends[2];
	struct loop_fd fd;
	struct pair *other; /* is removed by the first that is called */
};

static void pair_init(struct pair *p, void (*ready)(struct loop_fd *, uint32_t))
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->ends), 0);
	p->fd = (struct loop_fd){.fd = p->ends[0], .ready = ready, .ctx = p};
}

static void pair_done(struct pair *p)
{
	loop_remove(loop, &p->fd);
	(void)close(p->ends[0]);
	(void)close(p->ends[1]);
}

static void on_read(struct loop_fd *f, uint32_t events)
{
	char c;

	assert_true(events & EPOLLIN);
	assert_int_equal(read(f->fd, &c, 1), 1);
	note(c);
}

static void reads(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, on_read);
	assert_int_equal(loop_add(loop, &p.fd, EPOLLIN), 0);
	assert_int_equal(write(p.ends[1], "ab", 2), 2);
	run_for(5);
	assert_int_equal(n_order, 2);
	assert_int_equal(order[1], 'b');
	/* Nothing is called that was not asked for, and again once it is. */
	assert_int_equal(loop_change(loop, &p.fd, 0), 0);
	assert_int_equal(write(p.ends[1], "c", 1), 1);
	run_for(5);
	assert_int_equal(n_order, 2);
	assert_int_equal(loop_change(loop, &p.fd, EPOLLIN), 0);
	run_for(5);
	assert_int_equal(n_order, 3);
	pair_done(&p);
}

static void on_remove(struct loop_fd *f, uint32_t events)
{
	struct pair *p = f->ctx;

	(void)events;
	note(1);
	loop_remove(loop, &p->fd);
	loop_remove(loop, &p->other->fd);
}

/* Two are ready in one round; whichever comes first removes both. */
static void removes_what_is_next(void **state)
{
	struct pair a, b;

	(void)state;
	pair_init(&a, on_remove);
	pair_init(&b, on_remove);
	a.other = &b;
	b.other = &a;
	assert_int_equal(loop_add(loop, &a.fd, EPOLLIN), 0);
	assert_int_equal(loop_add(loop, &b.fd, EPOLLIN), 0);
	assert_int_equal(write(a.ends[1], "x", 1), 1);
	assert_int_equal(write(b.ends[1], "x", 1), 1);
	run_for(5);
	assert_int_equal(n_order, 1);
	pair_done(&a);
	pair_done(&b);
}

static void on_hangup(struct loop_fd *f, uint32_t events)
{
	assert_true(events & EPOLLHUP);
	note(1);
	loop_remove(loop, f);
}

static void hangups_come_unasked(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, on_hangup);
	assert_int_equal(loop_add(loop, &p.fd, 0), 0);
	(void)close(p.ends[1]);
	run_for(5);
	assert_int_equal(n_order, 1);
	(void)close(p.ends[0]);
}

static void refuses_what_is_no_fd(void **state)
{
	struct loop_fd f = {.fd = -1, .ready = on_read};

	(void)state;
	assert_int_equal(loop_add(loop, &f, EPOLLIN), -EBADF);
	loop_remove(loop, &f); /* was not added: nothing happens */
}

static struct loop *inner;
static size_t n_inner;

static void on_inner(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	n_inner++;
}

static void on_turn(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	n_inner = 0;
	loop_turn(inner, 2);
	assert_in_range(n_inner, 1, 2);
	note(1);
}

static void on_other(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	note(2);
	if (n_order >= 20)
		loop_stop(loop);
}

/* All of five fds are always ready, and still get no more than two calls for the other's one. */
static void takes_turns(void **state)
{
	struct loop_fd turn = {.ready = on_turn};
	struct pair busy[5], other;
	int ones = 0;

	(void)state;
	inner = loop_new();
	assert_non_null(inner);
	turn.fd = loop_epoll(inner);
	assert_int_equal(loop_add(loop, &turn, EPOLLIN), 0);
	for (size_t n = 0; n < ARRAY_LEN(busy); n++) {
		pair_init(&busy[n], on_inner);
		assert_int_equal(loop_add(inner, &busy[n].fd, EPOLLIN), 0);
		assert_int_equal(write(busy[n].ends[1], "x", 1), 1);
	}
	pair_init(&other, on_other);
	assert_int_equal(loop_add(loop, &other.fd, EPOLLIN), 0);
	assert_int_equal(write(other.ends[1], "x", 1), 1);
	assert_int_equal(loop_run(loop), 0);
	for (size_t n = 0; n < n_order; n++)
		ones += order[n] == 1;
	assert_in_range(ones, n_order / 2 - 1, n_order / 2 + 1);
	loop_remove(loop, &turn);
	loop_free(inner);
	for (size_t n = 0; n < ARRAY_LEN(busy); n++) {
		(void)close(busy[n].ends[0]);
		(void)close(busy[n].ends[1]);
	}
	pair_done(&other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_loop, free_loop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fires_in_order),       TEST(is_never_early),       TEST(moves_and_cancels),
		TEST(keeps_many),           TEST(fires_again),          TEST(reads),
		TEST(removes_what_is_next), TEST(hangups_come_unasked), TEST(refuses_what_is_no_fd),
		TEST(takes_turns),
	};

	loop_free(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
