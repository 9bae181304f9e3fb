#include "base/fd.h"

#include "base/attr.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

void fd_closep(int *fd)
{
	int saved = errno;

	/* Never retried: on Linux the fd is gone even when close() says EINTR. */
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static ssize_t read_retry(int fd, void *data, size_t len)
{
	ssize_t n;

	do
		n = read(fd, data, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int fd_read_exact(int fd, void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = read_retry(fd, p, len);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return -EPIPE;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, struct buf *out)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = read_retry(fd, chunk, sizeof(chunk));
		int r;

		if (n <= 0)
			return (int)n;
		r = buf_append(out, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

int fd_write_file_at(int dir_fd, const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fd_write_all(fd, text, strlen(text));
}

int fd_read_file_at(int dir_fd, const char *path, struct buf *out)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return -errno;
	return fd_read_all(fd, out);
}

ssize_t fd_read_text_at(int dir_fd, const char *path, char *text, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t n = read_retry(fd, text + len, size - 1 - len);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	return (ssize_t)len;
}

int fd_create_file_at(int dir_fd, const char *path, const void *data, size_t len, mode_t mode)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd < 0)
		return -errno;
	/* The umask had its say in open(). */
	if (fchmod(fd, mode) < 0)
		return -errno;
	return fd_write_all(fd, data, len);
}

int fd_open_within(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	const struct open_how how = {.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
				     .resolve = resolve};
	long fd;

	/* Whoever renames anything on this machine while a ".." is looked up. */
	do
		fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	return fd < 0 ? -errno : (int)fd;
}

int fd_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_real_path(int fd, char *path, size_t size)
{
	char link[40];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	path[n] = '\0';
	return 0;
}

int fd_above_stdio(int fd)
{
	int moved;

	if (fd > 2)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (moved < 0)
		return -errno;
	(void)close(fd);
	return moved;
}

DIR *fd_opendir(int fd)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		fd_closep(&fd);
	return d;
}

DIR *fd_opendir_again(int dir)
{
	return fd_opendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static int close_from_to(unsigned first, unsigned last)
{
	return first <= last && syscall(SYS_close_range, first, last, 0) < 0 ? -errno : 0;
}

int fd_sealed(const char *name, const void *data, size_t len)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_all(fd, data, len);

	if (r == 0 &&
	    (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0 ||
	     lseek(fd, 0, SEEK_SET) < 0))
		r = -errno;
	if (r < 0)
		fd_closep(&fd);
	return r < 0 ? r : fd;
}

/* Above all those numbers first, so that none is lost. */
int fd_place(int *fds, int first, int end, int *program)
{
	*program = fcntl(*program, F_DUPFD_CLOEXEC, 2 * end);
	if (*program < 0)
		return -errno;
	for (int n = first; n < end; n++)
		if (fds[n] >= 0)
			fds[n] = fcntl(fds[n], F_DUPFD_CLOEXEC, end);
	for (int n = first; n < end; n++) {
		if (fds[n] >= 0 && dup2(fds[n], n) < 0)
			return -errno;
		if (fds[n] < 0)
			(void)close(n);
	}
	return 0;
}

int fd_mute(void)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return -errno;
	return 0;
}

int fd_close_others(int *keep, size_t n)
{
	unsigned next = 3;
	int r = 0;

	qsort(keep, n, sizeof(*keep), compare_fds);
	for (size_t i = 0; i < n && r == 0; i++) {
		unsigned fd = (unsigned)keep[i];

		if (keep[i] < 0 || fd < next)
			continue;
		if (fd > next)
			r = close_from_to(next, fd - 1);
		next = fd + 1;
	}
	return r < 0 ? r : close_from_to(next, ~0u);
}

union fds_space {
	struct cmsghdr align;
	char space[CMSG_SPACE(MSG_FDS_MAX * sizeof(int))];
};

int msg_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union fds_space control;
	ssize_t n;

	if (n_fds > MSG_FDS_MAX)
		return -E2BIG;
	if (n_fds > 0) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen =
			(__typeof__(msg.msg_controllen))CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = (__typeof__(c->cmsg_len))CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fd_closep(&fds[i]);
}

/* musl's CMSG_NXTHDR() mixes signs in a way that is right and warned about. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

/* How many came; those past max are closed. */
static size_t take_fds(struct msghdr *msg, int *fds, size_t max)
{
	size_t came = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (came < max)
				fds[came] = fd;
			else
				(void)close(fd);
			came++;
		}
	}
	return came;
}

#pragma GCC diagnostic pop

ssize_t msg_recv(int sock, void *data, size_t size, int *ret_fds, size_t max_fds, size_t *ret_n_fds)
{
	struct iovec iov = {.iov_base = data, .iov_len = size};
	union fds_space control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	size_t came;
	ssize_t n;

	/* ECONNRESET, once: who is gone left something unread. What it said itself comes after. */
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	came = take_fds(&msg, ret_fds, max_fds);
	if (came > max_fds || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		close_all(ret_fds, size_min(came, max_fds));
		return -EMSGSIZE;
	}
	*ret_n_fds = came;
	return n;
}
