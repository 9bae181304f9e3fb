/* Zygotes as the launcher sees them; their side is played, on a real island. Needs root. */
#include "base/attr.h"
#include "base/clock.h"
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

static struct mount_rules no_rules;
static struct launcher l;
static struct zygote_kind kind;
static struct plan *wanted;

static struct plan *make_plan(void)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	settings_init(&settings);
	assert_int_equal(strv_add(&spec.args, "/usr/bin/python3"), 0);
	assert_int_equal(strv_add(&spec.args, "-c"), 0);
	assert_int_equal(strv_add(&spec.args, PLAYED), 0);
	assert_int_equal(strv_addf(&spec.args, "%zu", sizeof(struct zygote_message)), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

static int begin(void **state _unused_)
{
	launcher_init(&l, &no_rules);
	wanted = make_plan();
	kind = (struct zygote_kind){.set = "default",
				    .program = "/usr/bin/python3",
				    .plan = make_plan(),
				    .module = open("/dev/null", O_RDONLY | O_CLOEXEC),
				    .wanted = true};
	kind.plan->uid = kind.plan->gid = 0;
	l.zygote_kinds = &kind;
	l.n_zygote_kinds = 1;
	return 0;
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
		(void)zygotes_tend(&l, &news);
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
	(void)zygotes_tend(&l, &news);
	assert_true(news);
	(void)zygotes_tend(&l, &news);
	assert_false(news);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_that_fails_at_a_birth_is_news),
	};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_zygote needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
