/*
 * Trees that programs left: as deep and as locked as they like.
 */
#include "base/attr.h"
#include "base/fd.h"
#include "engine/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Directories in each other below dir, a file in each, the last ones closed to everybody. */
static void make_chain(int dir, const char *name, int depth)
{
	int at = dup(dir);

	for (int n = 0; n < depth; n++) {
		int next, file;

		assert_int_equal(mkdirat(at, name, 0700), 0);
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		file = openat(next, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(file >= 0);
		(void)close(file);
		if (n + 3 > depth)
			assert_int_equal(fchmod(next, 0), 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
}

static void deep_trees_go_entirely(void **state _unused_)
{
	const struct rlimit few = {200, 200};
	char place[] = "/tmp/cay-test-tree-XXXXXX", outside[] = "/tmp/cay-test-out-XXXXXX";
	int dir, out;

	assert_non_null(mkdtemp(place));
	out = mkstemp(outside);
	assert_true(out >= 0);
	dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	make_chain(dir, "a", 3000);
	make_chain(dir, "b", 700);
	make_chain(dir, "c", 2);
	assert_int_equal(symlinkat(outside, dir, "link"), 0);
	tree_empty(dir);
	assert_int_equal(rmdir(place), 0);
	assert_int_equal(unlink(outside), 0); /* no link was followed */
	(void)close(dir);
	(void)close(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deep_trees_go_entirely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
