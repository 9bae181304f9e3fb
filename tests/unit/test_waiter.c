/* Programs that wait, started, on islands made ahead: which they suit, and who gets the order.
 * Needs root. */
#include "engine/native/waiter.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/launcher.h"
#include "engine/native/zygote.h"
#include "policy/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"

static struct mount_rules no_rules;
static struct launcher l;
static struct zygote_kind kind;
static int null = -1;

static struct plan *make_plan(const char *const *words, const char *set)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL, *with;
	size_t room = set ? strlen(set) + 1 : 0;

	settings_init(&settings);
	for (; *words; words++)
		assert_int_equal(strv_add(&spec.args, *words), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	spec_done(&spec);
	settings_done(&settings);
	with = realloc(plan, plan->size + room);
	assert_non_null(with);
	if (set) {
		with->warm = (uint32_t)(with->size - sizeof(*with));
		memcpy((char *)with + with->size, set, room);
		with->size += (uint32_t)room;
	}
	assert_int_equal(plan_check(with, with->size, &err), 0);
	return with;
}

static void wait_by(const char *const *words)
{
	struct plan *p = make_plan(words, NULL);

	kind = (struct zygote_kind){.set = "node",
				    .program = words[0],
				    .plan = p,
				    .waiter = {.plan = p, .boot = "", .module = null}};
}

static int begin(void **state _unused_)
{
	launcher_init(&l, &no_rules);
	l.zygote_kinds = &kind;
	l.n_zygote_kinds = 1;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	return null < 0 ? -1 : 0;
}

static int end(void **state _unused_)
{
	launcher_done(&l);
	free(kind.plan);
	kind = (struct zygote_kind){0};
	return close(null);
}

/* The exit code; *ret_ready is what READY said, and of whom. */
static int order(struct launched *i, const struct plan *p, int32_t *ret_ready)
{
	struct message m;
	struct cay_error err;

	*ret_ready = -1;
	assert_int_equal(launched_order(i, 0, ORDER_LAST, p, (int[]){null, null, null}, NULL, 0),
			 0);
	while (launcher_listen(i->control, &m, NULL)) {
		if (m.kind == MESSAGE_READY) {
			*ret_ready = m.status;
			assert_int_equal(launched_judge(i, p, &m.facts, &err), 0);
		}
		if (m.kind == MESSAGE_FAILED)
			assert_int_equal(m.command, WAITER_COMMAND);
		if (m.kind == MESSAGE_EXITED)
			return WIFEXITED(m.status) ? WEXITSTATUS(m.status) : -1;
	}
	return -2;
}

static const char *const takes[] = {
	PYTHON, "-c",
	"import os, socket\n"
	"plan, fds, _, _ = socket.recv_fds(socket.socket(fileno=0), 1 << 18, 3)\n"
	"os._exit(len(fds) * 10 + (b'the order' in plan))",
	NULL};

static void it_gets_the_order(void **state _unused_)
{
	struct plan *p = make_plan((const char *const[]){"/bin/false", "the order", NULL}, "node");
	struct launched i;
	struct cay_error err;
	int32_t ready;

	wait_by(takes);
	assert_int_equal(launcher_make_waiting(&l, p, &kind, &i, &err), 0);
	assert_true(i.warm);
	assert_int_equal(order(&i, p, &ready), 31);
	assert_int_equal(ready, READY_WAITED);
	launched_discard(&i);
	free(p);
}

/* By a plan that says cold, what waits is ended, and the program executed. */
static void others_get_their_own(void **state _unused_)
{
	struct plan *p = make_plan((const char *const[]){"/bin/sh", "-c", "exit 5", NULL}, NULL);
	struct launched i;
	struct cay_error err;
	int32_t ready;

	wait_by(takes);
	assert_int_equal(launcher_make_waiting(&l, p, &kind, &i, &err), 0);
	assert_int_equal(order(&i, p, &ready), 5);
	assert_int_equal(ready, 0);
	launched_discard(&i);
	free(p);
}

/* It is gone by then: the program runs all the same, on the same island, and is not called warm. */
static void one_that_is_gone(void **state _unused_)
{
	struct plan *p = make_plan((const char *const[]){"/bin/sh", "-c", "exit 6", NULL}, "node");
	struct launched i;
	struct cay_error err;
	int32_t ready;

	wait_by((const char *const[]){"/bin/true", NULL});
	assert_int_equal(launcher_make_waiting(&l, p, &kind, &i, &err), 0);
	(void)usleep(300000);
	assert_int_equal(order(&i, p, &ready), 6);
	assert_int_equal(ready, 0);
	launched_discard(&i);
	free(p);
}

static void restock(void)
{
	struct cay_error err;
	int r;

	do
		r = shelves_restock(&l, 1000, &err);
	while (r == 0);
}

static bool ask_for(const struct plan *p)
{
	struct launched i;
	bool had = shelves_take(&l, p, &kind, 1000, &i);

	if (had)
		launched_discard(&i);
	return had;
}

static void they_are_few(void **state _unused_)
{
	struct plan *p = make_plan((const char *const[]){"/bin/true", NULL}, "node");

	wait_by((const char *const[]){"/bin/sleep", "60", NULL});
	for (int n = 0; n < 6; n++)
		assert_false(ask_for(p));
	restock();
	assert_int_equal(l.shelves.n_islands, WAITERS_MAX);
	l.shelves.memory_bytes = WAITER_BYTES + AHEAD_BYTES;
	assert_true(ask_for(p));
	assert_true(ask_for(p));
	restock();
	assert_int_equal(l.shelves.n_islands, 1);
	l.shelves.memory_bytes--;
	assert_true(ask_for(p));
	restock();
	assert_int_equal(l.shelves.n_islands, 0);
	free(p);
}

/* Not used: those that ended, and those whose program is another by now. */
static void out_of_date(void **state _unused_)
{
	struct plan *p = make_plan((const char *const[]){"/bin/true", NULL}, "node");

	wait_by((const char *const[]){"/bin/sleep", "60", NULL});
	assert_false(ask_for(p));
	assert_false(ask_for(p));
	restock();
	assert_int_equal(l.shelves.n_islands, WAITERS_MAX);
	kind.program = "/bin/true"; /* as if that were its file now */
	assert_false(ask_for(p));
	assert_int_equal(l.shelves.n_islands, 0);
	free(p);
}

/* One that never waits is not started again and again. */
static void of_no_use(void **state _unused_)
{
	struct plan *p = make_plan((const char *const[]){"/bin/true", NULL}, "node");
	int made = 0;

	wait_by((const char *const[]){"/bin/true", NULL});
	for (int n = 0; n < 10; n++) {
		assert_false(ask_for(p));
		restock();
		made += (int)l.shelves.n_islands;
		(void)usleep(50000);
	}
	assert_in_range(made, SHELF_DUDS_MAX, SHELF_DUDS_MAX + WAITERS_MAX);
	assert_int_equal(l.shelves.n_islands, 0);
	free(p);
}

static void which_it_suits(void **state _unused_)
{
	static const struct {
		const char *waits[8], *asked[7];
		bool suits;
	} cases[] = {
#define WAITS_CODE {"/node", "--o", WAITER_OPTION, "B", "-e", "0", "--"}
#define WAITS_FILE                                                       \
	{                                                                \
		"/node", "--o", WAITER_OPTION, "B", "/workspace/main.js" \
	}
		{WAITS_CODE, {"/node", "--o", "--eval=-x", "--", "main.js"}, true},
		{WAITS_CODE, {"/node", "--o", "-e", "x", "--", "main.js"}, true},
		{WAITS_CODE, {"/node", "--o", "/workspace/x.js"}, false},
		{WAITS_CODE, {"/node", "--eval=x"}, false},
		{WAITS_CODE, {"/node", "--p", "--eval=x"}, false},
		{WAITS_CODE, {"/node", "--o"}, false},
		{WAITS_CODE, {"/node"}, false},
		{WAITS_CODE, {"/other", "--o", "--eval=x"}, false},
		{WAITS_FILE, {"/node", "--o", "/workspace/y.js", "a"}, true},
		{WAITS_FILE, {"/node", "--o", "--eval=x"}, false},
		{WAITS_FILE, {"/node", "--o", "--inspect", "/x"}, false},
		{WAITS_FILE, {"/node", "--o", "y.js"}, false},
	};

	for (size_t n = 0; n < ARRAY_LEN(cases); n++) {
		struct plan *p = make_plan(cases[n].asked, "node");

		wait_by(cases[n].waits);
		assert_int_equal(zygote_kind_of(&l, p) != NULL, cases[n].suits);
		p->limits.pids = WAITER_PIDS_MIN - 1;
		assert_null(zygote_kind_of(&l, p));
		free(p);
		free(kind.plan);
		kind.plan = NULL;
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_gets_the_order), TEST(others_get_their_own), TEST(one_that_is_gone),
		TEST(they_are_few),      TEST(out_of_date),          TEST(which_it_suits),
		TEST(of_no_use),
	};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_waiter needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
