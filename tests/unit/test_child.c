/* What a process that touches what strangers made can't do, and that it ends with its parent. */
#include "base/attr.h"
#include "base/fd.h"
#include "image/child.h"
#include "image/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "must_work.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[] = "/tmp/cay-test-child-XXXXXX";
static pid_t tests_pid;

static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* What a writer may do, and then what nobody is to: each that works is named. */
static int attack(void *ctx, int tell _unused_, struct buf *result, struct cay_error *err)
{
	const int *trees = ctx;
	char *argv[] = {(char *)"/bin/true", NULL};

	if (fcntl(trees[1], F_GETFD) >= 0)
		(void)buf_append_str(result, "fd ");
	if (!is_null(STDIN_FILENO) || !is_null(STDOUT_FILENO))
		(void)buf_append_str(result, "streams ");
	if (!CONFINE_SANITIZED && fcntl(trees[0], F_SETOWN, getpid()) == 0)
		(void)buf_append_str(result, "owner ");
	if (openat(trees[0], "own", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "write to its tree");
	if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0)
		(void)buf_append_str(result, "open ");
	if (openat(trees[0], "../beside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0)
		(void)buf_append_str(result, "beside ");
	if (socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0)
		(void)buf_append_str(result, "socket ");
	if (mknodat(trees[0], "null", S_IFCHR | 0666, 0x103) == 0)
		(void)buf_append_str(result, "device ");
	if (kill(tests_pid, 0) == 0)
		(void)buf_append_str(result, "kill ");
	(void)execv(argv[0], argv); /* nothing is told then */
	if (chroot(".") == 0)
		(void)buf_append_str(result, "chroot ");
	return 0;
}

static int start(struct child *c, enum child_kind kind, bool one_id, int trees[2])
{
	const struct child_job job = {.kind = kind,
				      .one_id = one_id,
				      .fds = trees,
				      .n_fds = 1,
				      .trees = trees,
				      .n_trees = 1,
				      .run = attack,
				      .ctx = trees};
	struct cay_error err;
	int r = child_start(c, &job, &err);

	if (r < 0)
		print_error("%s\n", err.text);
	return r;
}

static void open_trees(int trees[2], bool one_id)
{
	char inner[64];

	(void)snprintf(place, sizeof(place), "/tmp/cay-test-child-XXXXXX");
	assert_non_null(mkdtemp(place));
	(void)snprintf(inner, sizeof(inner), "%s/tree", place);
	assert_int_equal(mkdir(inner, 0755), 0);
	trees[0] = open(inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	trees[1] = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(trees[0] >= 0 && trees[1] >= 0);
	if (!one_id)
		assert_int_equal(fchown(trees[0], IMAGE_IDS_FIRST, IMAGE_IDS_FIRST), 0);
}

static void close_trees(int trees[2])
{
	(void)unlinkat(trees[0], "own", 0);
	(void)unlinkat(trees[0], "null", 0);
	(void)unlinkat(trees[1], "beside", 0);
	(void)unlinkat(trees[1], "tree", AT_REMOVEDIR);
	(void)close(trees[0]);
	(void)close(trees[1]);
	(void)rmdir(place);
}

static void check_confined(bool one_id)
{
	_cleanup_(buf_done) struct buf result = BUF(4096);
	struct child c;
	struct cay_error err;
	int trees[2], pipes[2], in;

	/* Whatever the tests themselves were started with. */
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	in = dup(STDIN_FILENO);
	assert_true(in >= 0 && dup2(pipes[0], STDIN_FILENO) >= 0);
	open_trees(trees, one_id);
	assert_int_equal(start(&c, CHILD_WRITER, one_id, trees), 0);
	if (child_wait(&c, NULL, NULL, &result, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(buf_str(&result), "");
	close_trees(trees);
	assert_true(dup2(in, STDIN_FILENO) >= 0);
	(void)close(in);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
}

static void as_its_user(void **state _unused_)
{
	check_confined(true);
}

static void as_root(void **state _unused_)
{
	if (geteuid() != 0)
		CANT_RUN("only root has ids to give away");
	check_confined(false);
}

/* The same, let loose: all of that works, up to the exec, which tells nothing any more. */
static void control(void **state _unused_)
{
	struct child c;
	struct cay_error err;
	struct stat st;
	int trees[2];

	open_trees(trees, true);
	assert_int_equal(start(&c, CHILD_OPEN, true, trees), 0);
	assert_int_equal(child_wait(&c, NULL, NULL, NULL, &err), -1);
	assert_string_equal(err.text, "the process that unpacks images was lost");
	assert_int_equal(fstatat(trees[1], "beside", &st, 0), 0);
	close_trees(trees);
}

static int wait_for_ever(void *ctx _unused_, int tell, struct buf *result _unused_,
			 struct cay_error *err _unused_)
{
	char byte;

	child_progress(tell, 1);
	/* Nobody writes there. */
	(void)!read(*(const int *)ctx, &byte, 1);
	return 0;
}

/* The parent is killed; the child holds the other end of a pipe until it ends, too. */
static void ends_with_its_parent(void **state _unused_)
{
	int pipes[2], gone[2];
	char byte;
	pid_t parent;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
	parent = fork();
	if (parent == 0) {
		int fds[2] = {pipes[0], gone[1]};
		const struct child_job job = {.kind = CHILD_READER,
					      .one_id = true,
					      .fds = fds,
					      .n_fds = 2,
					      .run = wait_for_ever,
					      .ctx = fds};
		struct cay_error err;
		struct child c;

		if (child_start(&c, &job, &err) < 0 || fd_read_exact(c.out, &byte, 1) < 0)
			_exit(1);
		(void)raise(SIGKILL);
	}
	(void)close(gone[1]);
	(void)close(pipes[0]);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_int_equal(read(gone[0], &byte, 1), 0);
	(void)close(gone[0]);
	(void)close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_its_user),
		cmocka_unit_test(as_root),
		cmocka_unit_test(control),
		cmocka_unit_test(ends_with_its_parent),
	};

	tests_pid = getpid();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
