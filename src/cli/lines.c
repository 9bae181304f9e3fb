#include "cli/lines.h"

#include "base/attr.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define LINE_BYTES_MAX (16u << 20)

void lines_init(struct lines *l)
{
	*l = (struct lines){.pending = BUF(LINE_BYTES_MAX)};
}

void lines_done(struct lines *l)
{
	buf_done(&l->pending);
}

/* The line that is there, or all of it at the end. */
static int take(struct lines *l, bool ended, struct buf *into, struct cay_error *err)
{
	const char *lf = l->pending.len ? memchr(l->pending.data, '\n', l->pending.len) : NULL;
	size_t n = lf ? (size_t)(lf - l->pending.data) + 1 : ended ? l->pending.len : 0;

	if (n == 0)
		return LINE_NONE;
	if (buf_append(into, l->pending.data, n) < 0 || (!lf && buf_append(into, "\n", 1) < 0))
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "what was typed is too long");
	l->pending.len -= n;
	memmove(l->pending.data, l->pending.data + n, l->pending.len);
	return LINE_CAME;
}

static int read_more(struct lines *l, bool *ret_ended, struct cay_error *err)
{
	char bytes[4096];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && errno != EINTR && errno != EAGAIN)
		return cay_fail(err, CAY_E_INVALID, errno, "read standard input");
	*ret_ended = n == 0;
	if (n > 0 && buf_append(&l->pending, bytes, (size_t)n) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "a line is too long");
	return 0;
}

static int await(struct lines *l, struct remote *r, struct buf *into, struct cay_error *err)
{
	struct pollfd f[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			     {.fd = remote_signal_fd(r), .events = POLLIN}};
	bool ended = false;
	int came = take(l, false, into, err);

	while (came == LINE_NONE && !ended) {
		if (poll(f, ARRAY_LEN(f), -1) < 0) {
			if (errno == EINTR)
				continue;
			return cay_fail(err, CAY_E_INTERNAL, errno, "wait for a line");
		}
		if (f[1].revents) {
			l->pending.len = 0;
			return remote_interrupted(r, err) < 0 ? -1 : LINE_INTERRUPTED;
		}
		if (read_more(l, &ended, err) < 0)
			return -1;
		came = take(l, ended, into, err);
	}
	return came;
}

int lines_next(struct lines *l, struct remote *r, bool hidden, struct buf *into,
	       struct cay_error *err)
{
	struct termios before, quiet;
	int came;

	if (!hidden || tcgetattr(STDIN_FILENO, &before) < 0)
		return await(l, r, into, err);
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	came = await(l, r, into, err);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	return came;
}
