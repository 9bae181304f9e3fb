/* What the files agent says of directories and files: list and stat. */
#include "core/limits.h"
#include "engine/seccomp.h"

#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <cmocka.h>

#include "agent_support.h"
#include "must_work.h"

/*
 * list, stat
 */

static void lists(void **state _unused_)
{
	make("ws/b", "12");
	make("ws/.hidden", "");
	assert_int_equal(mkdir("ws/a", 0700), 0);
	make("ws/a/in", "x");
	assert_int_equal(symlink("/etc", "ws/z"), 0);
	list(".", 1, 100, NULL);
	ok();
	assert_int_equal(got.n_files, 4);
	assert_string_equal(got.files[0].path, ".hidden");
	assert_string_equal(got.files[1].path, "a");
	assert_int_equal(got.files[1].type, AGENT_DIR);
	assert_int_equal(got.files[1].mode, 0700);
	assert_string_equal(got.files[2].path, "b");
	assert_int_equal(got.files[2].size, 2);
	assert_true(got.files[2].mtime_ns > 1500000000ll * 1000000000);
	assert_string_equal(got.files[3].path, "z");
	assert_int_equal(got.files[3].type, AGENT_LINK);
	assert_string_equal(got.files[3].target, "/etc");
	assert_false(got.end.truncated);
	list(".", 5, 100, NULL);
	assert_int_equal(got.n_files, 5); /* not into z */
	assert_string_equal(got.files[2].path, "a/in");
	list("b", 1, 100, NULL);
	fails(CAY_E_INVALID, "no directory");
	list("none", 1, 100, NULL);
	fails(CAY_E_NOT_FOUND, "none");
	list(".", 1, 0, NULL);
	fails(CAY_E_INVALID, "limit");
	list(".", TREE_DEPTH_MAX + 1, 1, NULL);
	fails(CAY_E_INVALID, "depth");
}

/* Page by page must give what all at once gives, wherever a page ends. */
static void lists_in_pages(void **state _unused_)
{
	char cursor[300] = "";
	size_t n = 0, pages = 0;

	for (int i = 0; i < 6; i++) {
		char path[40];

		(void)snprintf(path, sizeof(path), "ws/d%d", i);
		assert_int_equal(mkdir(path, 0755), 0);
		for (int k = 0; k < i; k++) {
			(void)snprintf(path, sizeof(path), "ws/d%d/f%d", i, k);
			make(path, "");
		}
	}
	for (; pages < 100; pages++) {
		list(".", 3, 2, cursor);
		ok();
		n += got.n_files;
		if (!got.end.truncated)
			break;
		assert_int_equal(got.n_files, 2);
		assert_true(strcmp(got.files[0].path, cursor) > 0);
		(void)snprintf(cursor, sizeof(cursor), "%s", got.files[1].path);
	}
	assert_int_equal(n, 6 + 15);
	assert_int_equal(pages, 10);
}

static void lists_ten_thousand(void **state _unused_)
{
	for (int i = 0; i < 10100; i++) {
		char path[40];

		(void)snprintf(path, sizeof(path), "ws/%05d", i * 7919 % 10100);
		assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	}
	list(".", 1, AGENT_LIST_MAX, NULL);
	ok();
	assert_int_equal(got.n_files, AGENT_LIST_MAX);
	assert_true(got.end.truncated);
	for (size_t i = 0; i < got.n_files; i++)
		assert_int_equal(strtol(got.files[i].path, NULL, 10), i);
	list(".", 1, AGENT_LIST_MAX, "09999");
	assert_int_equal(got.n_files, 100);
	assert_false(got.end.truncated);
	assert_string_equal(got.files[0].path, "10000");
	remove_path("../ws/../ws", AGENT_RECURSIVE);
	fails(CAY_E_INVALID, "the workspace itself");
}

static void names_are_bytes(void **state _unused_)
{
	static const char *const names[] = {"a\nb",
					    "\033[31mred",
					    "\xff\xfe",
					    "\xe2\x80\xae"
					    "x",
					    "-rf",
					    " ",
					    "\\",
					    "a\"b"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		write_file(names[i], names[i], 0);
		ok();
		read_file(names[i]);
		assert_string_equal(buf_str(&got.data), names[i]);
	}
	list(".", 1, 100, NULL);
	assert_int_equal(got.n_files, ARRAY_LEN(names));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t k = 0;

		while (k < got.n_files && strcmp(got.files[k].path, names[i]) != 0)
			k++;
		assert_true(k < got.n_files);
	}
	/* In an error they are harmless. */
	read_file("\033]0;x\007none\n");
	fails(CAY_E_NOT_FOUND, "?]0;x?none");
}

static void stats(void **state _unused_)
{
	make("ws/f", "123");
	assert_int_equal(symlink("f", "ws/l"), 0);
	ask((struct agent_ask){.op = AGENT_STAT, .path = "l"});
	ok();
	assert_int_equal(got.files[0].type, AGENT_LINK);
	assert_string_equal(got.files[0].target, "f");
	ask((struct agent_ask){.op = AGENT_STAT, .path = "l", .flags = AGENT_FOLLOW});
	assert_int_equal(got.files[0].type, AGENT_FILE);
	assert_int_equal(got.files[0].size, 3);
	ask((struct agent_ask){.op = AGENT_STAT, .path = "/dev/null"});
	assert_int_equal(got.files[0].type, AGENT_DEVICE);
	ask((struct agent_ask){.op = AGENT_STAT, .path = "none"});
	fails(CAY_E_NOT_FOUND, "none");
}

static void all_of_it_works_under_the_filter(void **state _unused_)
{
	static agent_test *const tests[] = {lists, names_are_bytes, stats};

	under_the_filter(tests, ARRAY_LEN(tests));
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists),           TEST(lists_in_pages), TEST(lists_ten_thousand),
		TEST(names_are_bytes), TEST(stats),          TEST(all_of_it_works_under_the_filter),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
