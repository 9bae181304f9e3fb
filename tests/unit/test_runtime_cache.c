/* What is remembered of versions. */
#include "runtime_support.h"

static void the_cache_goes_by_identity(void **state)
{
	struct fixture *f = *state;
	const char *path = "usr/bin/python3.11";
	struct stat st;

	put_program(f, path, "3.11.2");
	assert_string_equal(choose(f, NULL), "3.11.2");
	assert_int_equal(stat(in_tree(f, path), &st), 0);

	/* The same inode, size and time: the bytes are not looked at again. */
	put_program(f, path, "3.11.7");
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.2");

	/* A nanosecond is enough. */
	st.st_mtim.tv_nsec = (st.st_mtim.tv_nsec + 1) % 1000000000;
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.7");

	/* So is a size, */
	put_bytes(f, path, "\0003.11.9", 8, 0755);
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.9");

	/* and another file in its place. */
	put_bytes(f, "usr/bin/new", "\0003.11.8", 8, 0755);
	assert_int_equal(rename(in_tree(f, "usr/bin/new"), in_tree(f, path)), 0);
	keep_time(in_tree(f, path), &st);
	assert_string_equal(choose(f, NULL), "3.11.8");
}

static void the_cache_file_is_plain(void **state)
{
	struct fixture *f = *state;
	char expected[256];
	_cleanup_(buf_done) struct buf text = BUF(4096);
	struct stat st;

	put_program(f, "usr/bin/python3.11", "3.11.2");
	(void)umask(077);
	assert_string_equal(choose(f, NULL), "3.11.2");
	(void)umask(022);
	assert_int_equal(stat(in_tree(f, "usr/bin/python3.11"), &st), 0);
	(void)snprintf(expected, sizeof(expected),
		       "cay " CAY_VERSION "\npython %ju %ju %ju %ju 256 3.11.2\n",
		       (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (uintmax_t)st.st_mtim.tv_sec,
		       (uintmax_t)st.st_mtim.tv_nsec);
	assert_int_equal(fd_read_file_at(AT_FDCWD, in_tree(f, "var/cache/runtimes"), &text), 0);
	assert_string_equal(buf_str(&text), expected);
	assert_int_equal(stat(in_tree(f, "var/cache/runtimes"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

/* Puts a cache there that says version of python3.11; extra stands before and after. */
static void forge_by(struct fixture *f, const char *maker, const char *extra, const char *version,
		     mode_t mode)
{
	char text[65536];
	struct stat st;
	int n;

	assert_int_equal(stat(in_tree(f, "usr/bin/python3.11"), &st), 0);
	n = snprintf(text, sizeof(text), "%s\n%s\npython %ju %ju %ju %ju %ju %s\n%s", maker, extra,
		     (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (uintmax_t)st.st_mtim.tv_sec,
		     (uintmax_t)st.st_mtim.tv_nsec, (uintmax_t)st.st_size, version, extra);
	assert_true(n > 0 && (size_t)n < sizeof(text));
	make_dirs(f, "var/cache/");
	put_bytes(f, "var/cache/runtimes", text, (size_t)n, 0644);
	assert_int_equal(chmod(in_tree(f, "var/cache/runtimes"), mode), 0);
}

static void forge(struct fixture *f, const char *extra, const char *version, mode_t mode)
{
	forge_by(f, "cay " CAY_VERSION, extra, version, mode);
}

static void a_corrupt_cache_is_ignored(void **state)
{
	static const char *const wrong[] = {
		"",
		"x",
		"3.11.9 ",
		" 3.11.9",
		"3.11.9/../..",
		"3.11.\033[1m",
		"3.12.99",
		"3.11.9;",
		"3.11.99999999999999999999999999999999999",
		"3.119",
	};
	struct fixture *f = *state;
	char huge[40000];

	put_program(f, "usr/bin/python3.11", "3.11.2");
	/* The control: a sound one is believed, also between lines that are not. */
	forge(f, "", "3.11.99", 0644);
	assert_string_equal(choose(f, NULL), "3.11.99");
	forge(f, "python\npython 1 2\n\n \n\001\002\npython x 1 1 1 1 3.1", "3.11.98", 0644);
	assert_string_equal(choose(f, NULL), "3.11.98");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		forge(f, "", wrong[i], 0644);
		assert_string_equal(choose(f, NULL), "3.11.2");
	}
	memset(huge, 'x', sizeof(huge));
	huge[sizeof(huge) / 2] = '\0';
	forge(f, huge, "3.11.99", 0644);
	assert_string_equal(choose(f, NULL), "3.11.2");
}

static void a_cache_of_others_is_ignored(void **state)
{
	struct fixture *f = *state;
	const char *file = "var/cache/runtimes";

	put_program(f, "usr/bin/python3.11", "3.11.2");
	forge_by(f, "cay 0.0", "", "3.11.99", 0644);
	assert_string_equal(choose(f, NULL), "3.11.2");
	forge(f, "", "3.11.99", 0664);
	assert_string_equal(choose(f, NULL), "3.11.2");

	forge(f, "", "3.11.99", 0644);
	assert_int_equal(rename(in_tree(f, file), in_tree(f, "mine")), 0);
	assert_int_equal(symlink(in_tree(f, "mine"), in_tree(f, file)), 0);
	assert_string_equal(choose(f, NULL), "3.11.2");

	if (geteuid() == 0) {
		forge(f, "", "3.11.99", 0644);
		assert_int_equal(chown(in_tree(f, file), 12345, 12345), 0);
		assert_string_equal(choose(f, NULL), "3.11.2");
	}
}

static void no_cache_is_no_error(void **state)
{
	struct fixture *f = *state;

	put_program(f, "usr/bin/python3.11", "3.11.2");
	put_bytes(f, "var/cache", "a file", 6, 0644);
	assert_string_equal(choose(f, NULL), "3.11.2");
	f->places.cache_dir = "/proc/nowhere/cay";
	assert_string_equal(choose(f, NULL), "3.11.2");
	f->places.cache_dir = NULL;
	assert_string_equal(choose(f, NULL), "3.11.2");
}

/* The oldest go; the file never grows beyond what is read back. */
static void the_cache_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct runtime_cache c = {0};
	struct stat st = {.st_dev = UINT64_MAX, .st_size = INT64_MAX};

	make_dirs(f, "var/cache/");
	st.st_mtim.tv_sec = INT64_MAX;
	st.st_mtim.tv_nsec = 999999999;
	for (size_t i = 0; i < RUNTIME_CACHE_MAX + 10; i++) {
		st.st_ino = UINT64_MAX - i;
		runtime_cache_put(&c, "fifteen-letters", &st, "3.12.1234567890123456789012345");
	}
	runtime_cache_save(&c, f->cache);
	runtime_cache_load(&c, f->cache);
	assert_int_equal(c.len, RUNTIME_CACHE_MAX);
	assert_non_null(runtime_cache_get(&c, "fifteen-letters", &st));
	assert_null(runtime_cache_get(&c, "python", &st));
	st.st_ino = UINT64_MAX - 9;
	assert_null(runtime_cache_get(&c, "fifteen-letters", &st));
	st.st_ino = UINT64_MAX - 10;
	assert_non_null(runtime_cache_get(&c, "fifteen-letters", &st));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_cache_goes_by_identity), TEST(the_cache_file_is_plain),
		TEST(a_corrupt_cache_is_ignored), TEST(a_cache_of_others_is_ignored),
		TEST(no_cache_is_no_error),       TEST(the_cache_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
