/* Ranges of host ids: which are taken first, and that blocks lie in one piece. Needs root. */
#include "base/attr.h"
#include "engine/native/ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define LOW      0x70000000u
#define LOW_END  0x7fff0000u
#define HIGH     0x80010000u
#define HIGH_END 0xfffe0000u
#define BLOCK    256u

static struct ids ids;

/* A file of locks of our own: what is tried here is to take all that there are. */
static int own_locks(void **state _unused_)
{
	return unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	       mount("ids", "/run", "tmpfs", 0, NULL) < 0;
}

static int begin(void **state _unused_)
{
	ids_init(&ids);
	return 0;
}

static int end(void **state _unused_)
{
	ids_done(&ids);
	return 0;
}

static uint32_t take(uint32_t n)
{
	struct cay_error err;
	uint32_t base = 0;

	if (ids_take_block(&ids, n, &base, &err) < 0) {
		assert_int_equal(err.code, CAY_E_AT_CAPACITY);
		return 0;
	}
	assert_int_equal(base % IDS_RANGE, 0);
	return base;
}

static void fill(uint32_t first, uint32_t past)
{
	static uint8_t seen[UINT16_MAX];

	memset(seen, 0, sizeof(seen));
	for (uint32_t n = 0; n < (past - first) / IDS_RANGE; n++) {
		uint32_t base = take(1);

		assert_true(base >= first && base < past);
		assert_false(seen[base / IDS_RANGE]);
		seen[base / IDS_RANGE] = 1;
	}
}

static void high_ones_when_the_low_are_used_up(void **state _unused_)
{
	fill(LOW, LOW_END);
	fill(HIGH, HIGH_END);
	assert_int_equal(take(1), 0);
	/* What comes free is taken again, and of both a low one first. */
	ids_give(&ids, 0xabcd0000u);
	ids_give(&ids, 0x7abc0000u);
	assert_int_equal(take(1), 0x7abc0000u);
	assert_int_equal(take(1), 0xabcd0000u);
	assert_int_equal(take(1), 0);
	ids_give(&ids, 0);
	assert_int_equal(take(1), 0);
}

static void blocks_are_high(void **state _unused_)
{
	uint32_t n_high = (HIGH_END - HIGH) / IDS_RANGE / BLOCK;
	const uint32_t size = BLOCK * IDS_RANGE;

	ids.next[1] = 0; /* else the first ones are cut by where it begins */
	for (uint32_t n = 0; n < n_high; n++)
		assert_int_equal(take(BLOCK), HIGH + n * size);
	/* Though all low ones are free: those are for everybody else. */
	assert_int_equal(take(BLOCK), 0);
	fill(LOW, LOW_END);
	/* One range of a block that is not free is in its way; the rest of it is not lost. */
	ids_give_block(&ids, HIGH + size, BLOCK);
	assert_int_equal(take(1), HIGH + size);
	assert_int_equal(take(BLOCK), 0);
	assert_int_equal(take(BLOCK - 1), HIGH + size + IDS_RANGE);
}

static void others_are_in_the_way(void **state _unused_)
{
	struct ids other;
	struct cay_error err;
	uint32_t base;

	fill(LOW, LOW_END);
	ids_init(&other);
	assert_int_equal(ids_take(&other, &base, &err), 0);
	assert_true(base >= HIGH && base < HIGH_END);
	ids_done(&ids); /* as a launcher that died */
	ids_give(&other, base);
	assert_int_equal(ids_take(&other, &base, &err), 0);
	assert_true(base >= LOW && base < LOW_END);
	ids_done(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(high_ones_when_the_low_are_used_up, begin, end),
		cmocka_unit_test_setup_teardown(blocks_are_high, begin, end),
		cmocka_unit_test_setup_teardown(others_are_in_the_way, begin, end),
	};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_ids needs root: the ranges are its alone\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, own_locks, NULL);
}
