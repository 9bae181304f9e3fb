#include "base/fd.h"

#include "base/attr.h"
#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static char dir[] = "/tmp/cay-test-fd-XXXXXX";
static int dir_fd = -1;

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int remove_dir(void **state)
{
	(void)state;
	(void)unlinkat(dir_fd, "file", 0);
	(void)unlinkat(dir_fd, "link", 0);
	fd_closep(&dir_fd);
	return rmdir(dir);
}

static int count_open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static bool is_cloexec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void make_pipe(int ends[2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

static void make_pair(int ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void closes_and_keeps_errno(void **state)
{
	int p[2], old;

	(void)state;
	make_pipe(p);
	old = p[0];
	errno = ENOTTY;
	fd_closep(&p[0]);
	fd_closep(&p[0]); /* -1 now: nothing happens */
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(p[0], -1);
	assert_int_equal(fcntl(old, F_GETFD), -1);
	fd_closep(&p[1]);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* From now on system calls are interrupted every millisecond. */
static void be_interrupted(void)
{
	const struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
	const struct itimerval often = {{0, 1000}, {0, 1000}};

	if (sigaction(SIGALRM, &action, NULL) < 0 || setitimer(ITIMER_REAL, &often, NULL) < 0)
		_exit(2);
}

/*
 * More than a pipe holds, and interrupted: the writer meets short writes, and
 * while the reader waits, EINTR.
 */
static void writes_and_reads_all(void **state)
{
	enum { SIZE = 1 << 20 };
	_cleanup_(buf_done) struct buf out = BUF(SIZE);
	char *data = malloc(SIZE);
	int p[2], status;
	pid_t pid;

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (char)(i / 1000);
	make_pipe(p);
	pid = fork();
	if (pid == 0) {
		be_interrupted();
		_exit(fd_write_all(p[1], data, SIZE) == 0 ? 0 : 1);
	}
	fd_closep(&p[1]);
	(void)poll(NULL, 0, 20);
	assert_int_equal(fd_read_all(p[0], &out), 0);
	assert_int_equal(out.len, SIZE);
	assert_memory_equal(out.data, data, SIZE);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fd_closep(&p[0]);
	free(data);
}

static void read_all_is_bounded(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(3);
	int p[2];

	(void)state;
	make_pipe(p);
	assert_int_equal(fd_write_all(p[1], "abcd", 4), 0);
	fd_closep(&p[1]);
	assert_int_equal(fd_read_all(p[0], &out), -EFBIG);
	fd_closep(&p[0]);
	assert_int_equal(fd_read_all(-1, &out), -EBADF);
	assert_int_equal(fd_write_all(-1, "a", 1), -EBADF);
}

static void reads_exactly(void **state)
{
	char data[4] = "";
	int p[2];

	(void)state;
	make_pipe(p);
	assert_int_equal(fd_write_all(p[1], "abcdef", 6), 0);
	fd_closep(&p[1]);
	assert_int_equal(fd_read_exact(p[0], data, 4), 0);
	assert_memory_equal(data, "abcd", 4);
	assert_int_equal(fd_read_exact(p[0], data, 4), -EPIPE);
	assert_int_equal(fd_read_exact(p[0], data, 0), 0);
	fd_closep(&p[0]);
}

static void creates_files(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(100);
	mode_t old = umask(077);
	struct stat st;

	(void)state;
	assert_int_equal(fd_create_file_at(dir_fd, "file", "longer text", 11, 0600), 0);
	assert_int_equal(fd_create_file_at(dir_fd, "file", "a\0b", 3, 0644), 0);
	(void)umask(old);
	assert_int_equal(fstatat(dir_fd, "file", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(fd_read_file_at(dir_fd, "file", &out), 0);
	assert_int_equal(out.len, 3);
	assert_memory_equal(out.data, "a\0b", 3);
	/* A link in the file's place is not followed. */
	assert_int_equal(symlinkat("file", dir_fd, "link"), 0);
	assert_int_equal(fd_create_file_at(dir_fd, "link", "x", 1, 0644), -ELOOP);
}

static void writes_and_reads_small_files(void **state)
{
	char text[4];

	(void)state;
	assert_int_equal(fd_create_file_at(dir_fd, "file", "", 0, 0644), 0);
	assert_int_equal(fd_write_file_at(dir_fd, "file", "abcdef"), 0);
	assert_int_equal(fd_read_text_at(dir_fd, "file", text, sizeof(text)), 3);
	assert_string_equal(text, "abc");
	assert_int_equal(fd_read_text_at(dir_fd, "none", text, sizeof(text)), -ENOENT);
	assert_int_equal(fd_write_file_at(dir_fd, "none", "x"), -ENOENT);
	assert_int_equal(faccessat(dir_fd, "none", F_OK, 0), -1); /* nor was it made */
}

static void sets_nonblock(void **state)
{
	int p[2];
	char c;

	(void)state;
	make_pipe(p);
	assert_int_equal(fd_set_nonblock(p[0], 1), 0);
	assert_int_equal(fd_read_exact(p[0], &c, 1), -EAGAIN);
	assert_int_equal(fd_set_nonblock(p[0], 0), 0);
	assert_false(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_nonblock(-1, 1), -EBADF);
	fd_closep(&p[0]);
	fd_closep(&p[1]);
}

static void knows_real_paths(void **state)
{
	char path[PATH_MAX], exact[sizeof(dir)], small[sizeof(dir) - 1];

	(void)state;
	assert_int_equal(fd_real_path(dir_fd, path, sizeof(path)), 0);
	assert_string_equal(path, dir);
	assert_int_equal(fd_real_path(dir_fd, exact, sizeof(exact)), 0);
	assert_string_equal(exact, dir);
	assert_int_equal(fd_real_path(dir_fd, small, sizeof(small)), -ENAMETOOLONG);
	assert_int_equal(fd_real_path(12345, path, sizeof(path)), -ENOENT);
}

static void moves_above_stdio(void **state)
{
	int before = dup(0), moved, p[2];

	(void)state;
	make_pipe(p);
	assert_int_equal(fd_above_stdio(p[0]), p[0]);
	assert_int_equal(dup2(p[0], 0), 0);
	moved = fd_above_stdio(0);
	assert_in_range(moved, 3, INT_MAX);
	assert_true(is_cloexec(moved));
	assert_int_equal(fcntl(0, F_GETFD), -1);
	if (before >= 0)
		(void)dup2(before, 0);
	fd_closep(&before);
	fd_closep(&moved);
	fd_closep(&p[0]);
	fd_closep(&p[1]);
}

static void sends_fds_along(void **state)
{
	int s[2], p[2], got[MSG_FDS_MAX];
	char data[10];
	size_t n = 99;

	(void)state;
	make_pair(s);
	make_pipe(p);
	assert_int_equal(msg_send(s[0], "hello", 5, p, 2), 0);
	fd_closep(&p[0]);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), got, MSG_FDS_MAX, &n), 5);
	assert_memory_equal(data, "hello", 5);
	assert_int_equal(n, 2);
	assert_true(is_cloexec(got[0]) && is_cloexec(got[1]));
	/* They are the pipe that was sent. */
	assert_int_equal(fd_write_all(p[1], "x", 1), 0);
	assert_int_equal(fd_read_exact(got[0], data, 1), 0);
	assert_int_equal(data[0], 'x');
	for (size_t i = 0; i < n; i++)
		fd_closep(&got[i]);
	fd_closep(&p[1]);
	fd_closep(&s[0]);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), got, MSG_FDS_MAX, &n), 0);
	assert_int_equal(n, 0);
	fd_closep(&s[1]);
}

static void sends_as_many_fds_as_allowed(void **state)
{
	int s[2], many[MSG_FDS_MAX + 1], got[MSG_FDS_MAX];
	char data[10];
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = dir_fd;
	make_pair(s);
	assert_int_equal(msg_send(s[0], "x", 1, many, MSG_FDS_MAX + 1), -E2BIG);
	assert_int_equal(msg_send(s[0], "x", 1, many, MSG_FDS_MAX), 0);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), got, MSG_FDS_MAX, &n), 1);
	assert_int_equal(n, MSG_FDS_MAX);
	for (size_t i = 0; i < n; i++)
		fd_closep(&got[i]);
	fd_closep(&s[0]);
	fd_closep(&s[1]);
}

/* A packet that does not fit is refused as a whole, and its fds are closed. */
static void refuses_what_does_not_fit(void **state)
{
	int s[2], two[2] = {dir_fd, dir_fd}, got[2] = {-2, -2}, before;
	char data[4];
	size_t n;

	(void)state;
	make_pair(s);
	before = count_open_fds();
	assert_int_equal(msg_send(s[0], "hello", 5, two, 2), 0);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), got, 2, &n), -EMSGSIZE);
	assert_int_equal(count_open_fds(), before);
	assert_true(got[0] == -1 && got[1] == -1); /* nobody closes another's by its number */
	assert_int_equal(msg_send(s[0], "abc", 3, two, 2), 0);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), got, 1, &n), -EMSGSIZE);
	assert_int_equal(count_open_fds(), before);
	assert_int_equal(msg_send(s[0], "abc", 3, two, 2), 0);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), NULL, 0, &n), -EMSGSIZE);
	assert_int_equal(count_open_fds(), before);
	/* Nothing of them is left in the way of the next. */
	assert_int_equal(msg_send(s[0], "abcd", 4, NULL, 0), 0);
	assert_int_equal(msg_recv(s[1], data, sizeof(data), got, 2, &n), 4);
	assert_int_equal(n, 0);
	fd_closep(&s[1]);
	assert_int_equal(msg_send(s[0], "x", 1, NULL, 0), -EPIPE);
	fd_closep(&s[0]);
}

static void closes_all_others(void **state)
{
	int fds[8], keep[4];

	(void)state;
	for (int n = 0; n < 8; n++)
		assert_true((fds[n] = open("/dev/null", O_RDONLY)) > 2);
	keep[0] = fds[6];
	keep[1] = -1;
	keep[2] = fds[2];
	keep[3] = fds[2];
	if (fork() == 0) {
		bool ok = fd_close_others(keep, 4) == 0;

		for (int n = 0; n < 8; n++)
			ok = ok && (fcntl(fds[n], F_GETFD) >= 0) == (n == 2 || n == 6);
		_exit(ok && fcntl(0, F_GETFD) >= 0 ? 0 : 1);
	}
	for (int n = 0; n < 8; n++)
		(void)close(fds[n]);
	assert_true(wait(&fds[0]) > 0);
	assert_int_equal(fds[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closes_all_others),
		cmocka_unit_test(closes_and_keeps_errno),
		cmocka_unit_test(writes_and_reads_all),
		cmocka_unit_test(read_all_is_bounded),
		cmocka_unit_test(reads_exactly),
		cmocka_unit_test(creates_files),
		cmocka_unit_test(writes_and_reads_small_files),
		cmocka_unit_test(sets_nonblock),
		cmocka_unit_test(knows_real_paths),
		cmocka_unit_test(moves_above_stdio),
		cmocka_unit_test(sends_fds_along),
		cmocka_unit_test(sends_as_many_fds_as_allowed),
		cmocka_unit_test(refuses_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
