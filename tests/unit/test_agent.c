/*
 * The files agent, driven through its client. In one directory lie "ws", which is
 * its workspace, and "out", beside it; the current directory is there, so that
 * tests can say "ws/a". What the agent does it does in a child, as the test's user.
 */
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
 * read
 */

static void reads(void **state _unused_)
{
	make("ws/a", "0123456789");
	read_file("a");
	ok();
	assert_string_equal(buf_str(&got.data), "0123456789");
	assert_int_equal(got.n_files, 1);
	assert_int_equal(got.files[0].size, 10);
	assert_int_equal(got.files[0].mode, 0644);
	assert_string_equal(got.files[0].path, "a");
	assert_int_equal(got.end.bytes, 10);
	ask((struct agent_ask){.op = AGENT_READ, .path = "./a", .offset = 3, .length = 4});
	assert_string_equal(buf_str(&got.data), "3456");
	ask((struct agent_ask){.op = AGENT_READ, .path = "a", .offset = 30, .length = 4});
	ok();
	assert_int_equal(got.data.len, 0);
	ask((struct agent_ask){.op = AGENT_READ, .path = "a", .offset = UINT64_MAX, .length = 4});
	fails(CAY_E_INVALID, "offset");
	make("ws/empty", "");
	read_file("empty");
	ok();
	/* Of no size, and yet something. */
	read_file("/proc/self/status");
	ok();
	assert_true(got.data.len > 100);
}

static void reads_only_files_and_waits_for_none(void **state _unused_)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "ws/sock"};
	_cleanup_(fd_closep) int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(mkfifo("ws/fifo", 0644), 0);
	assert_int_equal(symlink("fifo", "ws/link"), 0);
	assert_int_equal(bind(s, (struct sockaddr *)&name, sizeof(name)), 0);
	read_file("fifo");
	fails(CAY_E_INVALID, "no regular file");
	read_file("link");
	fails(CAY_E_INVALID, "no regular file");
	read_file("sock");
	fails(CAY_E_INVALID, "no regular file");
	read_file("/dev/zero");
	fails(CAY_E_INVALID, "no regular file");
	read_file(".");
	fails(CAY_E_INVALID, "directory");
	read_file("none");
	fails(CAY_E_NOT_FOUND, "none");
	read_file("none/x");
	fails(CAY_E_NOT_FOUND, "none/x");
	write_file("fifo", "x", AGENT_APPEND);
	fails(CAY_E_INVALID, "fifo");
	write_file("link", "x", AGENT_APPEND);
	fails(CAY_E_INVALID, "link");
}

static void our_own_process_leads_nowhere(void **state _unused_)
{
	read_file("/proc/self/exe");
	fails(CAY_E_POLICY, "exe");
	assert_int_equal(symlink("/proc/self/exe", "ws/exe"), 0);
	read_file("exe");
	fails(CAY_E_POLICY, "exe");
	write_file("exe", "x", AGENT_APPEND);
	fails(CAY_E_INVALID, "exe");
	for (int fd = 0; fd < 16; fd++) {
		char path[40];

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		read_file(path);
		/* Those of the test's own that came along by the fork, as no agent has. */
		if (got.ok)
			assert_true(fd < 3);
	}
}

static void paths_that_are_none(void **state _unused_)
{
	char longest[5000];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	read_file("");
	fails(CAY_E_INVALID, "empty");
	read_file(longest);
	fails(CAY_E_INVALID, "4095");
	longest[300] = '\0';
	read_file(longest);
	fails(CAY_E_INVALID, "name too long");
	write_file("a/..", "x", AGENT_PARENTS);
	fails(CAY_E_INVALID, "end in a name");
	write_file("a/", "x", AGENT_PARENTS);
	fails(CAY_E_INVALID, "directory");
	assert_false(exists("ws/a"));
	remove_path(".", AGENT_RECURSIVE);
	fails(CAY_E_INVALID, "end in a name");
	remove_path(base, AGENT_RECURSIVE);
	fails(CAY_E_INVALID, "the workspace itself");
	assert_true(exists("ws"));
}

/* A client that is not ours: a NUL in the path, and requests that end in the middle. */
static void requests_that_are_none(void **state _unused_)
{
	const struct agent_request good = {
		.op = AGENT_MKDIR, .path_len = 3, .mode = AGENT_MODE_KEEP};
	struct agent_request bad[] = {good, good, good, good, good};
	int to, from, status;

	bad[0].op = 0;
	bad[1].op = 77;
	bad[2].flags = 0xffffffff;
	bad[3].path_len = 0xffffffff;
	bad[4].arg_len = 0xffffffff;
	for (size_t i = 0; i <= ARRAY_LEN(bad) + sizeof(good); i++) {
		const struct agent_request *r = i < ARRAY_LEN(bad) ? &bad[i] : &good;
		size_t len = i < ARRAY_LEN(bad) ? sizeof(good) : i - ARRAY_LEN(bad);
		pid_t pid = start_agent(base, &to, &from);
		struct agent_record record = {0};

		assert_int_equal(fd_write_all(to, r, len), 0);
		if (len == sizeof(good))
			(void)fd_write_all(to, "a\0b", 3);
		(void)close(to);
		assert_int_equal(fd_read_exact(from, &record, sizeof(record)), 0);
		assert_int_equal(record.kind, RECORD_ERROR);
		(void)close(from);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 1 << 8);
	}
	list("..", 1, 10, NULL);
	assert_int_equal(got.n_files, 2); /* ws and out: nothing was made */
}

static void a_file_that_changes_while_it_is_read(void **state _unused_)
{
	static const char block[4096];
	_cleanup_(fd_closep) int fd = open("ws/f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	pid_t pid;
	int status;

	assert_int_equal(ftruncate(fd, 8 << 20), 0);
	pid = fork_bound();
	for (unsigned n = 0; pid == 0; n++) {
		if (ftruncate(fd, n % 2 ? 8 << 20 : 100) < 0 ||
		    pwrite(fd, block, 4096, 9 << 20) < 0)
			_exit(1);
	}
	for (int n = 0; n < 50; n++) {
		read_file("f");
		ok();
		assert_true(got.data.len <= got.files[0].size);
		assert_int_equal(got.end.bytes, got.data.len);
	}
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/*
 * write
 */

static void writes(void **state _unused_)
{
	struct stat st;

	write_file("a", "one", 0);
	ok();
	holds("ws/a", "one");
	assert_int_equal(got.files[0].size, 3);
	assert_int_equal(got.end.bytes, 3);
	assert_int_equal(stat("ws/a", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	write_file("a", "two", 0);
	fails(CAY_E_CONFLICT, "a");
	holds("ws/a", "one");
	assert_int_equal(chmod("ws/a", 0750), 0);
	write_file("a", "two", AGENT_OVERWRITE);
	ok();
	holds("ws/a", "two");
	assert_int_equal(got.files[0].mode, 0750);
	write_file("a", "", AGENT_OVERWRITE);
	holds("ws/a", "");
	write_file("x/y/z", "deep", 0);
	fails(CAY_E_NOT_FOUND, "x/y");
	write_file("x/y/z", "deep", AGENT_PARENTS);
	ok();
	holds("ws/x/y/z", "deep");
	write_file("x", "on a directory", AGENT_OVERWRITE);
	fails(CAY_E_INVALID, "directory");
	ask_agent(&got, base, (struct agent_ask){.op = AGENT_WRITE, .path = "s", .mode = 06755},
		  "x", 1);
	ok();
	assert_int_equal(stat("ws/s", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	nothing_left();
}

static void appends(void **state _unused_)
{
	write_file("log", "one ", AGENT_APPEND);
	ok();
	write_file("log", "two", AGENT_APPEND);
	ok();
	holds("ws/log", "one two");
	assert_int_equal(got.files[0].size, 7);
	nothing_left();
}

static void replaces_links_and_does_not_write_through_them(void **state _unused_)
{
	make("out/f", "kept");
	assert_int_equal(symlink("../out/f", "ws/l"), 0);
	assert_int_equal(link("out/f", "ws/h"), 0);
	write_file("l", "new", AGENT_OVERWRITE);
	ok();
	write_file("h", "new", AGENT_OVERWRITE);
	ok();
	holds("out/f", "kept");
	holds("ws/l", "new");
	assert_int_equal(got.files[0].type, AGENT_FILE);
}

/* Bytes of all kinds, more than a pipe holds, and back. */
static void writes_and_reads_much(void **state _unused_)
{
	size_t len = 3000001;
	char *body = malloc(len);

	assert_non_null(body);
	for (size_t i = 0; i < len; i++)
		body[i] = (char)(i * 7 + i / 251);
	ask_agent(&got, base, (struct agent_ask){.op = AGENT_WRITE, .path = "big", .mode = 0600},
		  body, len);
	ok();
	read_file("big");
	ok();
	assert_int_equal(got.data.len, len);
	assert_memory_equal(got.data.data, body, len);
	free(body);
}

static void nothing_stays_of_what_is_broken_off(void **state _unused_)
{
	static char body[500000];

	make("ws/old", "old");
	make("ws/log", "log");
	for (int n = 0; n < 8; n++) {
		struct session s = {.out = &got,
				    .body = body,
				    .len = sizeof(body),
				    .break_off = n % 2 ? 1 : 300000};
		struct agent_ask a = {.op = AGENT_WRITE,
				      .path = n & 2   ? "old"
					      : n & 4 ? "log"
						      : "new",
				      .flags = n & 4 ? AGENT_APPEND : AGENT_OVERWRITE,
				      .mode = AGENT_MODE_KEEP};

		outcome_done(&got);
		run_session(&s, base, &a);
		assert_false(got.done);
		assert_int_equal(got.status, 1 << 8);
	}
	assert_false(exists("ws/new"));
	holds("ws/old", "old");
	holds("ws/log", "log");
	nothing_left();
}

/* Killed, the agent leaves nothing: its file had no name yet. */
static void nothing_stays_of_an_agent_that_is_killed(void **state _unused_)
{
	const struct agent_request r = {.op = AGENT_WRITE, .path_len = 1, .mode = 0644};
	const struct agent_record d = {.kind = RECORD_DATA, .len = 65536};
	static char bytes[65536];
	int to, from, status;
	pid_t pid = start_agent(base, &to, &from);

	assert_int_equal(fd_write_all(to, &r, sizeof(r)), 0);
	assert_int_equal(fd_write_all(to, "a", 1), 0);
	for (int n = 0; n < 8; n++) {
		assert_int_equal(fd_write_all(to, &d, sizeof(d)), 0);
		assert_int_equal(fd_write_all(to, bytes, sizeof(bytes)), 0);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(to);
	(void)close(from);
	assert_int_equal(rmdir("ws"), 0);
	assert_int_equal(mkdir("ws", 0755), 0);
}

static void limit_file_size(void)
{
	const struct rlimit l = {98304, 98304};

	if (setrlimit(RLIMIT_FSIZE, &l) < 0)
		_exit(99);
}

static void the_file_size_limit_is_named(void **state _unused_)
{
	static char body[400000];

	agent_prepare = limit_file_size;
	ask_agent(&got, base, (struct agent_ask){.op = AGENT_WRITE, .path = "big", .mode = 0600},
		  body, sizeof(body));
	fails(CAY_E_TOO_LARGE, "File too large");
	assert_non_null(strstr(got.err.hint, "file_size"));
	assert_non_null(strstr(got.err.hint, "96 KiB"));
	assert_false(exists("ws/big"));
	nothing_left();
}

static void a_full_disk_is_named(void **state _unused_)
{
	static char body[400000];

	if (mount("none", "ws", "tmpfs", 0, "size=128k") < 0)
		CANT_RUN("a small tmpfs needs root");
	ask_agent(&got, base, (struct agent_ask){.op = AGENT_WRITE, .path = "big", .mode = 0600},
		  body, sizeof(body));
	write_file("small", "x", 0);
	(void)umount2("ws", MNT_DETACH);
	ok(); /* there is place again */
	(void)mount("none", "ws", "tmpfs", 0, "size=128k");
	ask_agent(&got, base, (struct agent_ask){.op = AGENT_WRITE, .path = "big", .mode = 0600},
		  body, sizeof(body));
	nothing_left();
	(void)umount2("ws", MNT_DETACH);
	fails(CAY_E_TOO_LARGE, "No space left");
	assert_non_null(strstr(got.err.hint, "disk"));
}

/*
 * mkdir, move, remove
 */

static void makes_directories(void **state _unused_)
{
	ask((struct agent_ask){.op = AGENT_MKDIR, .path = "a/b/c", .mode = AGENT_MODE_KEEP});
	fails(CAY_E_NOT_FOUND, "a/b");
	ask((struct agent_ask){
		.op = AGENT_MKDIR, .path = "a/b//c/", .mode = 02700, .flags = AGENT_PARENTS});
	ok();
	assert_int_equal(got.files[0].type, AGENT_DIR);
	ask((struct agent_ask){.op = AGENT_STAT, .path = "a/b/c"});
	assert_int_equal(got.files[0].type, AGENT_DIR);
	ask((struct agent_ask){.op = AGENT_MKDIR, .path = "a", .mode = AGENT_MODE_KEEP});
	fails(CAY_E_CONFLICT, "exists");
	ask((struct agent_ask){
		.op = AGENT_MKDIR, .path = "a", .mode = 0700, .flags = AGENT_PARENTS});
	ok();
	assert_int_equal(got.files[0].mode, 0755);
	make("ws/f", "");
	ask((struct agent_ask){
		.op = AGENT_MKDIR, .path = "f", .mode = 0700, .flags = AGENT_PARENTS});
	fails(CAY_E_CONFLICT, "f");
	ask((struct agent_ask){.op = AGENT_MKDIR, .path = "/proc/x", .mode = 0700});
	assert_false(got.ok);
}

static void moves(void **state _unused_)
{
	make("ws/a", "a");
	make("ws/b", "b");
	move("a", "b", 0);
	fails(CAY_E_CONFLICT, "move b");
	move("a", "x/y", 0);
	fails(CAY_E_NOT_FOUND, "x");
	move("a", "x/y", AGENT_PARENTS);
	ok();
	assert_false(exists("ws/a"));
	holds("ws/x/y", "a");
	move("b", "x/y", AGENT_OVERWRITE);
	ok();
	holds("ws/x/y", "b");
	move("none", "c", 0);
	fails(CAY_E_NOT_FOUND, "none");
	move("x", "x/in/itself", AGENT_PARENTS);
	fails(CAY_E_INVALID, "move x");
	move("x", "", 0);
	fails(CAY_E_INVALID, "empty");
}

static void moves_files_between_file_systems(void **state _unused_)
{
	char there[] = "/dev/shm/cay-test-agent-XXXXXX", path[64];
	struct stat a, b;

	if (stat("/dev/shm", &a) < 0 || stat(".", &b) < 0 || a.st_dev == b.st_dev ||
	    !mkdtemp(there))
		CANT_RUN("there is no second file system");
	(void)snprintf(path, sizeof(path), "%s/f", there);
	make("ws/f", "text");
	assert_int_equal(chmod("ws/f", 0750), 0);
	assert_int_equal(mkdir("ws/d", 0755), 0);
	move("f", path, 0);
	ok();
	assert_int_equal(got.files[0].mode, 0750);
	assert_false(exists("ws/f"));
	holds(path, "text");
	make("ws/f", "other");
	move("f", path, 0);
	fails(CAY_E_CONFLICT, path);
	holds("ws/f", "other");
	move("d", path, AGENT_OVERWRITE);
	fails(CAY_E_UNSUPPORTED, "d");
	assert_true(exists("ws/d"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(there), 0);
}

static void removes(void **state _unused_)
{
	make("out/f", "kept");
	make("ws/f", "");
	assert_int_equal(mkdir("ws/d", 0755), 0);
	make("ws/d/f", "");
	assert_int_equal(symlink("../../out", "ws/d/l"), 0);
	assert_int_equal(symlink("../out", "ws/l"), 0);
	remove_path("f", 0);
	ok();
	assert_false(exists("ws/f"));
	remove_path("f", 0);
	fails(CAY_E_NOT_FOUND, "f");
	remove_path("d", 0);
	fails(CAY_E_CONFLICT, "not empty");
	remove_path("d", AGENT_RECURSIVE);
	ok();
	assert_int_equal(got.end.entries, 3);
	remove_path("l", AGENT_RECURSIVE);
	ok();
	assert_false(exists("ws/l"));
	holds("out/f", "kept");
}

static void trees_of_two_thousand_levels(void **state _unused_)
{
	assert_int_equal(mkdir("ws/d", 0755), 0);
	make_deep("ws/d", 2000);
	list("d", TREE_DEPTH_MAX, 1000, NULL);
	ok();
	assert_int_equal(got.n_files, TREE_DEPTH_MAX);
	remove_path("d", AGENT_RECURSIVE);
	ok();
	assert_int_equal(got.end.entries, 2001);
	assert_false(exists("ws/d"));
}

/*
 * Races: another process swaps a directory with a symlink that leads out, all the
 * while. (Inside an island there is no out: the rights of the user are the fence.
 * But what removes and creates must not follow all the same.)
 */

static pid_t start_swapping(void)
{
	pid_t pid = fork_bound();

	while (pid == 0)
		(void)syscall(SYS_renameat2, AT_FDCWD, "ws/d", AT_FDCWD, "ws/l", 2 /* EXCHANGE */);
	return pid;
}

static void removal_never_follows_a_link(void **state _unused_)
{
	int status, made = 0;
	pid_t pid;

	make("out/kept", "kept");
	pid = start_swapping();
	for (int n = 0; n < 100; n++) {
		/* The other one swaps meanwhile: what fails here is there already. */
		(void)mkdir("ws/d", 0755);
		(void)mkdir("ws/d/f", 0755);
		if (symlink("../out", "ws/l") == 0)
			made++;
		remove_path("d", AGENT_RECURSIVE);
		holds("out/kept", "kept");
	}
	assert_true(made > 0);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)rmdir("out/f"); /* the test's own went through the link at times */
}

/* Readers see the old file or the new one, never less. */
static void writes_are_atomic(void **state _unused_)
{
	static char body[200000];
	int status;
	pid_t pid;

	memset(body, 'x', sizeof(body) - 1);
	make("ws/f", "old");
	pid = fork_bound();
	while (pid == 0) {
		struct stat st;

		if (stat("ws/f", &st) < 0 || (st.st_size != 3 && st.st_size != sizeof(body) - 1))
			_exit(1);
	}
	for (int n = 0; n < 100; n++) {
		write_file("f", n % 2 ? "old" : body, AGENT_OVERWRITE);
		ok();
	}
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	nothing_left();
}

/*
 * Under the island's filter
 */

static void all_of_it_works_under_the_filter(void **state _unused_)
{
	static agent_test *const tests[] = {
		reads,
		reads_only_files_and_waits_for_none,
		writes,
		appends,
		makes_directories,
		moves,
		removes,
		writes_and_reads_much,
	};

	under_the_filter(tests, ARRAY_LEN(tests));
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads),
		TEST(reads_only_files_and_waits_for_none),
		TEST(our_own_process_leads_nowhere),
		TEST(paths_that_are_none),
		TEST(requests_that_are_none),
		TEST(a_file_that_changes_while_it_is_read),
		TEST(writes),
		TEST(appends),
		TEST(replaces_links_and_does_not_write_through_them),
		TEST(writes_and_reads_much),
		TEST(nothing_stays_of_what_is_broken_off),
		TEST(nothing_stays_of_an_agent_that_is_killed),
		TEST(the_file_size_limit_is_named),
		TEST(a_full_disk_is_named),
		TEST(makes_directories),
		TEST(moves),
		TEST(moves_files_between_file_systems),
		TEST(removes),
		TEST(trees_of_two_thousand_levels),
		TEST(removal_never_follows_a_link),
		TEST(writes_are_atomic),
		TEST(all_of_it_works_under_the_filter),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
