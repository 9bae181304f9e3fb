/* Zygotes as the launcher sees them; their side is played, on a real island. Needs root. */
#include "base/attr.h"
#include "base/clock.h"
#include "engine/native/island.h"
#include "engine/native/zygote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* Says that it is ready, and ends with the first word that it hears. argv: how long a word is. */
#define PLAYED                                                \
	"import os, sys\n"                                    \
	"os.write(0, b'\\1' + bytes(int(sys.argv[1]) - 1))\n" \
	"os.read(0, 1 << 20)\n"

/* Bears islands that do nothing: a PID 1 each, which sleeps. */
#define FERTILE                                                                                 \
	"import array, ctypes, os, signal, socket, sys\n"                                       \
	"def say(word, *fds):\n"                                                                \
	"    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))]\n"        \
	"    s.sendmsg([bytes([word]) + bytes(int(sys.argv[1]) - 1)], rights if fds else [])\n" \
	"s, controls = socket.socket(fileno=0), []\n"                                           \
	"say(1)\n"                                                                              \
	"while True:\n"                                                                         \
	"    word, fds, _, _ = socket.recv_fds(s, 1 << 20, 3)\n"                                \
	"    if not word: sys.exit()\n"                                                         \
	"    if word[0] != 2: continue\n"                                                       \
	"    controls += fds\n"                                                                 \
	"    r, w = os.pipe()\n"                                                                \
	"    middle = os.fork()\n"                                                              \
	"    if middle == 0:\n"                                                                 \
	"        ctypes.CDLL(None).unshare(0x20000000)\n"                                       \
	"        child = os.fork()\n"                                                           \
	"        if child == 0: signal.pause()\n"                                               \
	"        os.write(w, b'%d' % child)\n"                                                  \
	"        os._exit(0)\n"                                                                 \
	"    os.waitpid(middle, 0)\n"                                                           \
	"    pidfd = os.pidfd_open(int(os.read(r, 20)))\n"                                      \
	"    for fd in (r, w): os.close(fd)\n"                                                  \
	"    say(4, pidfd)\n"                                                                   \
	"    os.close(pidfd)\n"

static struct mount_rules no_rules;
static struct launcher l;
static struct zygote_kind kind;
static struct plan *wanted;

static struct plan *make_plan(const char *code)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	settings_init(&settings);
	assert_int_equal(strv_add(&spec.args, "/usr/bin/python3"), 0);
	assert_int_equal(strv_add(&spec.args, "-c"), 0);
	assert_int_equal(strv_add(&spec.args, code), 0);
	assert_int_equal(strv_addf(&spec.args, "%zu", sizeof(struct zygote_message)), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

static int begin_with(const char *code)
{
	launcher_init(&l, &no_rules);
	wanted = make_plan(code);
	kind = (struct zygote_kind){.set = "default",
				    .program = "/usr/bin/python3",
				    .plan = make_plan(code),
				    .module = open("/dev/null", O_RDONLY | O_CLOEXEC),
				    .births_max = ZYGOTE_BIRTHS,
				    .kept = true};
	kind.plan->uid = kind.plan->gid = 0;
	l.zygote_kinds = &kind;
	l.n_zygote_kinds = 1;
	return 0;
}

static int begin(void **state _unused_)
{
	return begin_with(PLAYED);
}

static int begin_fertile(void **state _unused_)
{
	return begin_with(FERTILE);
}

static int end(void **state _unused_)
{
	launcher_done(&l);
	(void)close(kind.module);
	free(kind.plan);
	free(wanted);
	return 0;
}

/* Until there is news. */
static void await_news(void)
{
	int64_t began = clock_now_ms();
	bool news = false;

	while (!news) {
		(void)zygotes_tend(&l, clock_now_ms(), &news);
		assert_true(clock_now_ms() - began < PATIENCE_MS);
		(void)usleep(5000);
	}
}

/* Islands that it bore are out of date, and a shelf that asks for more must not go on. */
static void one_that_fails_at_a_birth_is_news(void **state _unused_)
{
	struct launched i;
	struct cay_error err;
	struct zygote *z;
	bool news;

	await_news();
	z = zygote_find(&l, &kind);
	assert_non_null(z);
	assert_int_equal(launcher_bear(&l, z, wanted, true, &i, &err), -1);
	assert_null(zygote_find(&l, &kind));
	(void)zygotes_tend(&l, clock_now_ms(), &news);
	assert_true(news);
	(void)zygotes_tend(&l, clock_now_ms(), &news);
	assert_false(news);
}

static struct zygote *bear_one(void)
{
	struct zygote *z = zygote_find(&l, &kind);
	struct launched i;
	struct cay_error err;

	assert_non_null(z);
	if (launcher_bear(&l, z, wanted, true, &i, &err) < 0)
		fail_msg("%s", err.text);
	launched_discard(&i);
	return z;
}

/* Whatever it says of itself. */
static void one_that_is_not_in_its_cgroups_is_refused(void **state _unused_)
{
	struct facts facts = {0};
	struct launched i;
	struct cay_error err;

	await_news();
	assert_int_equal(launcher_bear(&l, zygote_find(&l, &kind), wanted, true, &i, &err), 0);
	assert_int_equal(launched_judge(&i, wanted, &facts, &err), -1);
	assert_int_equal(err.code, CAY_E_NOT_ENFORCEABLE);
	assert_non_null(strstr(err.text, "is not in its cgroups"));
	launched_discard(&i);
}

/* Nobody has to start cold because of it. */
static void another_takes_over_before_the_last_birth(void **state _unused_)
{
	struct zygote *first;
	int64_t began;

	kind.births_max = 32;
	await_news();
	first = zygote_find(&l, &kind);
	for (int n = 0; n < 30; n++)
		assert_ptr_equal(bear_one(), first);
	assert_true(l.zygote_news);
	for (began = clock_now_ms(); zygote_find(&l, &kind) == first; (void)usleep(5000)) {
		bool news;

		(void)zygotes_tend(&l, clock_now_ms(), &news);
		assert_true(clock_now_ms() - began < PATIENCE_MS);
	}
	assert_ptr_not_equal(bear_one(), first);
}

/* Where no other can be had, it has its time all the same. */
static void no_more_are_borne_than_may_be(void **state _unused_)
{
	kind.births_max = 3;
	await_news();
	for (int n = 0; n < 3; n++)
		(void)bear_one();
	assert_null(zygote_find(&l, &kind));
}

/* Until it has ended, and with it the last reason to look again. */
static void await_rest(int64_t later_ms)
{
	int64_t began = clock_now_ms();
	bool news;

	while (zygotes_tend(&l, clock_now_ms() + later_ms, &news) >= 0) {
		assert_true(clock_now_ms() - began < PATIENCE_MS);
		(void)usleep(5000);
	}
}

static void one_that_nobody_wants_goes(void **state _unused_)
{
	bool news;

	kind.kept = false;
	assert_int_equal(zygotes_tend(&l, clock_now_ms(), &news), -1);
	zygote_want(&kind, clock_now_ms());
	await_news();
	(void)zygotes_tend(&l, clock_now_ms() + ZYGOTE_FORGET_MS - PATIENCE_MS, &news);
	assert_non_null(zygote_find(&l, &kind));
	assert_true(zygotes_bytes(&l) > 0);
	await_rest(ZYGOTE_FORGET_MS + 1);
	assert_null(zygote_find(&l, &kind));
	assert_null(l.zygotes);
	assert_false(kind.wanted);
}

static void one_that_is_kept_stays(void **state _unused_)
{
	bool news;

	await_news();
	(void)zygotes_tend(&l, clock_now_ms() + 2 * ZYGOTE_FORGET_MS, &news);
	assert_non_null(zygote_find(&l, &kind));
}

/* Of what is named islands are ready for good, and so is who bears them. */
static void one_whose_islands_are_named_is_kept(void **state _unused_)
{
	struct cay_error err;

	kind.kept = false;
	wanted = realloc(wanted, wanted->size + sizeof("default"));
	assert_non_null(wanted);
	memcpy((char *)wanted + wanted->size, "default", sizeof("default"));
	wanted->warm = (uint32_t)(wanted->size - sizeof(*wanted));
	wanted->size += (uint32_t)sizeof("default");
	assert_ptr_equal(zygote_kind_of(&l, wanted), &kind);
	assert_int_equal(shelves_name(&l, wanted, 1, clock_now_ms(), &err), 0);
	assert_true(kind.kept && l.zygote_news);
}

static void none_is_started_without_room(void **state _unused_)
{
	bool news;

	l.shelves.memory_bytes = 1 << 20;
	assert_true(zygotes_tend(&l, clock_now_ms(), &news) > 0);
	assert_null(l.zygotes);
	l.shelves.memory_bytes = UINT64_MAX;
	await_news();
	assert_non_null(zygote_find(&l, &kind));
}

/* What was started by a guess, and takes more than that, goes again. */
static void one_that_takes_too_much_goes(void **state _unused_)
{
	bool news;

	kind.memory_bytes = 1;
	l.shelves.memory_bytes = AHEAD_BYTES - 1; /* one that is ready counts as more */
	await_news();
	assert_null(zygote_find(&l, &kind));
	assert_int_equal(kind.memory_bytes, AHEAD_BYTES);
	while (l.zygotes)
		(void)zygotes_tend(&l, clock_now_ms(), &news);
	(void)zygotes_tend(&l, clock_now_ms(), &news);
	assert_null(l.zygotes);
}

static void the_unused_gives_way(void **state _unused_)
{
	struct zygote_kind two[2] = {kind, kind};
	int64_t now = clock_now_ms();
	bool news;

	two[0].kept = two[1].kept = false;
	two[1].set = "other";
	two[1].memory_bytes = AHEAD_BYTES;
	l.zygote_kinds = two;
	l.n_zygote_kinds = 2;
	zygote_want(&two[0], now);
	await_news();
	l.shelves.memory_bytes = zygotes_bytes(&l);
	zygote_want(&two[1], now + 1);
	(void)zygotes_tend(&l, now + ZYGOTE_YIELD_MS - 1, &news);
	assert_non_null(zygote_find(&l, &two[0]));
	(void)zygotes_tend(&l, now + ZYGOTE_YIELD_MS, &news);
	assert_null(zygote_find(&l, &two[0]));
	await_news();
	assert_non_null(zygote_find(&l, &two[1]));
}

#define TEST(f)         cmocka_unit_test_setup_teardown(f, begin, end)
#define FERTILE_TEST(f) cmocka_unit_test_setup_teardown(f, begin_fertile, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_that_fails_at_a_birth_is_news),
		FERTILE_TEST(one_that_is_not_in_its_cgroups_is_refused),
		FERTILE_TEST(another_takes_over_before_the_last_birth),
		FERTILE_TEST(no_more_are_borne_than_may_be),
		TEST(one_that_nobody_wants_goes),
		TEST(one_that_is_kept_stays),
		TEST(one_whose_islands_are_named_is_kept),
		TEST(none_is_started_without_room),
		TEST(one_that_takes_too_much_goes),
		TEST(the_unused_gives_way),
	};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_zygote needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
