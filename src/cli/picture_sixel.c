/*
 * Sixels of a picture: cay-sixel makes them, which reads what a stranger's program calls a PNG. So
 * it is believed as little as that program: what it says has to be sixels of the size asked for,
 * and what goes around them is ours.
 */
#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/helper.h"
#include "cli/picture.h"
#include "cli/sixel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME       "cay-sixel"
#define CONVERT_MS 10000
#define NUMBER_LEN 16

_noreturn_ static void be_sixel(int program, int picture, int out, const struct screen *s)
{
	char width[NUMBER_LEN], height[NUMBER_LEN], colours[NUMBER_LEN];
	char *argv[] = {(char *)NAME, width, height, colours, NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)snprintf(width, sizeof(width), "%u", s->width);
	(void)snprintf(height, sizeof(height), "%u", s->height);
	(void)snprintf(colours, sizeof(colours), "%u", s->colours);
	if (null < 0 || dup2(picture, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(125);
	(void)fexecve(program, argv, environ);
	_exit(127);
}

/* All it says, in time. */
static int listen_to(int fd, struct buf *text)
{
	int64_t end = clock_now_ms() + CONVERT_MS;

	for (;;) {
		struct pollfd f = {.fd = fd, .events = POLLIN};
		int64_t left = end - clock_now_ms();
		static char bytes[65536];
		ssize_t n;
		int r;

		if (left <= 0 || poll(&f, 1, (int)left) == 0)
			return -ETIMEDOUT;
		n = read(fd, bytes, sizeof(bytes));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		r = n > 0 ? buf_append(text, bytes, (size_t)n) : 0;
		if (r < 0)
			return r;
	}
}

static int end(pid_t pid, bool kills)
{
	int status = 0;

	if (kills)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int convert(int program, int picture, const struct screen *s, struct buf *text)
{
	_cleanup_(fd_closep) int in = -1, out = -1;
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	in = ends[0];
	out = ends[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		be_sixel(program, picture, out, s);
	fd_closep(&out);
	r = listen_to(in, text);
	return end(pid, r < 0) < 0 && r == 0 ? -EINVAL : r;
}

int picture_sixel(struct buf *out, const struct screen *s, const void *data, size_t len)
{
	_cleanup_(buf_done) struct buf text = BUF(SIXEL_BYTES_MAX);
	_cleanup_(fd_closep) int program = helper_open(NAME), picture = -1;
	int r;

	if (program < 0)
		return 1;
	picture = fd_sealed("picture", data, len);
	if (picture < 0 || convert(program, picture, s, &text) < 0 ||
	    !sixel_is_sound(text.data, text.len, s->width, s->height, s->colours))
		return 1;
	r = buf_append_str(out, "\033Pq");
	if (r == 0)
		r = buf_append(out, text.data, text.len);
	return r < 0 ? r : buf_append_str(out, "\033\\\n");
}
