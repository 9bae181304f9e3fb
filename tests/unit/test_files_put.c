/* Files that are put onto an island. */
#include "files_support.h"

static void writes_files(void **state)
{
	struct cay_error err;

	(void)state;
	write_ok("main.py", "1");
	write_ok("/workspace/a/b/c", "2");
	write_ok("/workspace//a//d", "3");
	write_ok("/tmp/t/x", "4");
	write_ok(".hidden/..x", "5");
	check_file("ws/main.py", "1");
	check_file("ws/a/b/c", "2");
	check_file("ws/a/d", "3");
	check_file("tmp/t/x", "4");
	check_file("ws/.hidden/..x", "5");
	check_mode("ws/main.py", 0644);
	check_mode("ws/a/b", 0755);
	/* Replaced, not appended; and no set-id bits. */
	assert_int_equal(files_write(&files, "main.py", "new", 3, 06755, &err), 0);
	check_file("ws/main.py", "new");
	check_mode("ws/main.py", 0755);
}

static void traversal_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		".",
		"..",
		"../x",
		"../out/x",
		"a/../x",
		"a/../../out/x",
		"a/..",
		"./x",
		"a/./b",
		"a/",
		"a/b/",
		"/workspace",
		"/workspace/",
		"/workspace/..",
		"/workspace/../out/x",
		"/tmp/../out/x",
		"/tmp",
		"/workspace/a/../../out/x",
	};
	static const char *const elsewhere[] = {"/",           "/etc/x",        "/tmpx/y",
						"/workspacex", "//workspace/x", "/out/x"};
	char name[NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		write_refused(bad[i], "Invalid argument");
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		write_refused(elsewhere[i], "is not below /workspace or /tmp");
	memset(name, 'n', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	write_refused(name, "Invalid argument");
	name[NAME_MAX] = '\0';
	write_ok(name, "x");
	make_file("src/f", "1");
	put_refused("src/f", "../out/x", CAY_E_INVALID);
	put_refused("src/f", "a/../../out/x", CAY_E_INVALID);
	put_refused("src", "..", CAY_E_INVALID);
}

/* Each step of a/b/f in turn is a link that leads out, by every kind of way. */
static void links_on_the_way_are_refused(void **state)
{
	static const char *const targets[] = {"../out", "../../out", "/proc/self/cwd/out", "."};

	(void)state;
	make_file("src/f", "bad");
	make_dir("src/t");
	make_file("src/t/f", "bad");
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		make_link(targets[i], "ws/a");
		write_refused("a/b/f", "put a/b/f");
		write_refused("a/f", "put a/f");
		put_refused("src/f", "a/f", CAY_E_INVALID);
		put_refused("src/t", "a", CAY_E_INVALID);
		put_refused("src/t", "a/d", CAY_E_INVALID);
		assert_int_equal(unlink("ws/a"), 0);
		make_dir("ws/a");
		make_link(targets[i], "ws/a/b");
		write_refused("a/b/f", "put a/b/f");
		write_refused("/workspace/a/b/d/f", "put /workspace/a/b/d/f");
		put_refused("src/f", "a/b/f", CAY_E_INVALID);
		put_refused("src/t", "a/b", CAY_E_INVALID);
		assert_int_equal(unlink("ws/a/b"), 0);
		assert_int_equal(rmdir("ws/a"), 0);
	}
	/* Inside a tree that is put, too. */
	make_dir("src/t/d");
	make_file("src/t/d/f", "bad");
	make_dir("ws/t");
	make_link("../../out/d", "ws/t/d");
	put_refused("src/t", "t", CAY_E_INVALID);
	assert_false(exists("out/d/f"));
}

/* What lies at the last name is replaced, and what it led to stays as it is. */
static void last_name_is_replaced(void **state)
{
	static const char *const targets[] = {"../out/f", "../out/none", "../out/d", "f"};

	(void)state;
	make_file("src/f", "new");
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		make_link(targets[i], "ws/f");
		write_ok("f", "new");
		check_file("ws/f", "new");
		assert_int_equal(unlink("ws/f"), 0);
		make_link(targets[i], "ws/f");
		put_ok("src/f", NULL);
		check_file("ws/f", "new");
		assert_int_equal(unlink("ws/f"), 0);
		check_outside_untouched();
	}
	/* In a tree. */
	make_dir("ws/src");
	make_link("../../out/f", "ws/src/f");
	put_ok("src", NULL);
	check_file("ws/src/f", "new");
	check_outside_untouched();
}

static void hard_links_are_not_written_through(void **state)
{
	struct stat st;

	(void)state;
	make_file("src/f", "new");
	assert_int_equal(link("out/f", "ws/f"), 0);
	assert_int_equal(link("out/f", "ws/g"), 0);
	write_ok("f", "new");
	put_ok("src/f", "g");
	check_file("ws/f", "new");
	check_file("ws/g", "new");
	check_outside_untouched();
	assert_int_equal(stat("out/f", &st), 0);
	assert_int_equal(st.st_nlink, 1);
}

static void odd_targets_are_replaced(void **state)
{
	(void)state;
	make_file("src/f", "2");
	make_fifo("ws/fifo");
	make_socket("ws/socket");
	write_ok("fifo", "1"); /* would wait for a reader if it were opened */
	write_ok("socket", "1");
	check_file("ws/fifo", "1");
	check_file("ws/socket", "1");
	make_fifo("ws/fifo2");
	put_ok("src/f", "fifo2");
	check_file("ws/fifo2", "2");
	/* On the way they are refused. */
	make_fifo("ws/way");
	write_refused("way/f", "Not a directory");
	write_refused("fifo2/f", "Not a directory");
	/* A directory is not removed for a file, nor a file for a directory. */
	make_dir("ws/d");
	make_file("ws/d/keep", "k");
	write_refused("d", "Is a directory");
	put_refused("src/f", "d", CAY_E_INVALID);
	check_file("ws/d/keep", "k");
	put_refused("src", "fifo2", CAY_E_INVALID);
	check_file("ws/fifo2", "2");
}

static void puts_files(void **state)
{
	(void)state;
	make_file("src/f", "1");
	make_file("src/run", "2");
	assert_int_equal(chmod("src/f", 0600), 0);
	assert_int_equal(chmod("src/run", 06700), 0);
	put_ok("src/f", NULL);
	put_ok("src/run", "bin/run");
	put_ok("src/f", "/tmp/x/f");
	check_file("ws/f", "1");
	check_file("ws/bin/run", "2");
	check_file("tmp/x/f", "1");
	check_mode("ws/f", 0644);
	check_mode("ws/bin/run", 0744);
	put_refused("src/none", NULL, CAY_E_NOT_FOUND);
	put_refused("src/f", "/etc/f", CAY_E_INVALID);
}

static void puts_trees(void **state)
{
	(void)state;
	make_dir("src/d");
	make_dir("src/d/empty");
	make_file("src/d/f", "1");
	make_file("src/.h", "2");
	make_link("../out/f", "src/link");
	make_link("../out", "src/linked");
	make_fifo("src/fifo");
	make_socket("src/socket");
	put_ok("src", "t");
	check_file("ws/t/d/f", "1");
	check_file("ws/t/.h", "2");
	assert_true(exists("ws/t/d/empty"));
	assert_false(exists("ws/t/link"));
	assert_false(exists("ws/t/linked"));
	assert_false(exists("ws/t/fifo"));
	assert_false(exists("ws/t/socket"));
	/* Its name is known also where it is not written. */
	put_ok("src/d/", NULL);
	check_file("ws/d/f", "1");
	assert_int_equal(chdir("src"), 0);
	put_ok(".", NULL);
	assert_int_equal(chdir(".."), 0);
	check_file("ws/src/d/f", "1");
	/* Onto what is there: merged. */
	make_file("ws/t/d/mine", "m");
	make_file("src/d/f", "changed");
	put_ok("src", "t");
	check_file("ws/t/d/mine", "m");
	check_file("ws/t/d/f", "changed");
	check_outside_untouched();
}

static void odd_sources_are_refused(void **state)
{
	(void)state;
	make_fifo("src/fifo");
	make_socket("src/socket");
	put_refused("src/fifo", NULL, CAY_E_INVALID); /* and without waiting */
	put_refused("src/socket", NULL, CAY_E_NOT_FOUND);
	put_refused("/dev/null", "x", CAY_E_INVALID);
	put_refused("/", NULL, CAY_E_INVALID);
	assert_false(exists("ws/fifo"));
	assert_false(exists("ws/x"));
}

/* "The same name" is the one the caller gave, also when it is a link's. */
static void links_are_put_by_their_own_name(void **state)
{
	(void)state;
	make_file("src/2026.csv", "1");
	make_link("2026.csv", "src/latest.csv");
	put_ok("src/latest.csv", NULL);
	check_file("ws/latest.csv", "1");
}

static void deep_trees_are_bounded(void **state)
{
	_cleanup_(fd_closep) int last = -1;
	struct cay_error err = {0};

	(void)state;
	make_dir("src/deep");
	last = make_deep("src/deep", TREE_DEPTH_MAX - 1);
	assert_int_equal(fd_create_file_at(last, "f", "x", 1, 0644), 0);
	put_ok("src/deep", "ok");
	assert_int_equal(mkdirat(last, "d", 0755), 0);
	assert_int_equal(put_named(&files, "src/deep", "no", &err), -1);
	assert_int_equal(err.code, CAY_E_INVALID);
}

static void read_only_workspace(void **state)
{
	struct cay_error err = {0};

	(void)state;
	make_file("src/f", "1");
	make_file("ws/there", "t");
	files.read_only = true;
	write_refused("f", "the workspace is read-only");
	write_refused("/workspace/f", "the workspace is read-only");
	assert_int_equal(put_named(&files, "src/f", "there", &err), -1);
	assert_non_null(strstr(err.text, "the workspace is read-only"));
	assert_non_null(strstr(err.hint, "--workspace SRC:rw"));
	check_file("ws/there", "t");
	assert_false(exists("ws/f"));
	write_ok("/tmp/f", "2");
	put_ok("src/f", "/tmp/g");
	check_file("tmp/f", "2");
	check_file("tmp/g", "1");
}

static void without_tmp(void **state)
{
	(void)state;
	fd_closep(&files.tmp);
	write_refused("/tmp/f", "is not below");
	write_ok("f", "1");
}

/* As root: what is put in belongs to the owner of the workspace. */
static void owners_are_given(void **state)
{
	static const char *const paths[] = {"ws/a",   "ws/a/b",   "ws/a/b/f",
					    "ws/src", "ws/src/d", "ws/src/d/f"};

	(void)state;
	if (geteuid() != 0)
		CANT_RUN("needs root");
	make_dir("src/d");
	make_file("src/d/f", "1");
	assert_int_equal(chown("ws", 1234, 2345), 0);
	files.as_owner = true;
	write_ok("a/b/f", "1");
	put_ok("src", NULL);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		check_owner(paths[i], 1234, 2345);
	/* And we are who we were. */
	make_file("ws/mine", "1");
	check_owner("ws/mine", 0, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_files),
		TEST(traversal_is_refused),
		TEST(links_on_the_way_are_refused),
		TEST(last_name_is_replaced),
		TEST(hard_links_are_not_written_through),
		TEST(odd_targets_are_replaced),
		TEST(puts_files),
		TEST(puts_trees),
		TEST(odd_sources_are_refused),
		TEST(links_are_put_by_their_own_name),
		TEST(deep_trees_are_bounded),
		TEST(read_only_workspace),
		TEST(without_tmp),
		TEST(owners_are_given),
	};

	(void)alarm(120); /* whoever waits on a FIFO waits for ever */
	return cmocka_run_group_tests(tests, make_top, remove_top);
}
