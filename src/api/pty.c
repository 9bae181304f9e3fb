#include "api/pty.h"

#include "base/attr.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READ_BYTES 32768

/* How soon a terminal that nobody had open is looked at again: it may be opened once more. */
#define AGAIN_MS 250

/* A program may have left others behind that print for ever. */
#define LAST_MAX ((size_t)1 << 20)

static size_t waiting(const struct pty *p)
{
	return p->input.len - p->written;
}

/*
 * A hang-up is reported whether it is asked for or not, so what is not to be looked at
 * is not in the loop at all.
 */
static void attend(struct pty *p)
{
	uint32_t events =
		(p->stopped ? 0u : (uint32_t)EPOLLIN) | (waiting(p) > 0 ? (uint32_t)EPOLLOUT : 0u);

	if (p->master.fd < 0)
		return;
	if (events == 0 || p->hung_up)
		loop_remove(p->loop, &p->master);
	else if (p->master.added)
		(void)loop_change(p->loop, &p->master, events);
	else
		(void)loop_add(p->loop, &p->master, events);
}

static void finish(struct pty *p)
{
	pty_close(p);
	p->over(p->ctx);
}

static void hang_up(struct pty *p)
{
	p->hung_up = true;
	attend(p);
	(void)loop_after(p->loop, &p->again, AGAIN_MS);
}

/* 0 while there may be more, EAGAIN, or EIO when nobody has the terminal open. */
static int read_some(struct pty *p)
{
	char data[READ_BYTES];
	size_t len = 0;
	ssize_t n;

	do {
		n = read(p->master.fd, data + len, sizeof(data) - len);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0 && len < sizeof(data));
	if (n <= 0)
		n = n < 0 ? errno : EIO;
	else
		n = 0;
	if (p->last) {
		len = size_min(len, p->left);
		p->left -= len;
		n = p->left == 0 ? EIO : n;
	}
	if (len > 0)
		p->output(p->ctx, data, len);
	return (int)n;
}

static void read_on(struct pty *p)
{
	int r = read_some(p);

	if (r == 0 || r == EINTR) {
		if (p->last && !p->stopped)
			(void)loop_after(p->loop, &p->again, 0);
		return;
	}
	if (p->last)
		finish(p);
	else if (r != EAGAIN)
		hang_up(p);
}

static void flush(struct pty *p)
{
	while (waiting(p) > 0) {
		ssize_t n = write(p->master.fd, p->input.data + p->written, waiting(p));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 && (n == 0 || errno == EAGAIN))
			break;
		/* Where nobody can read it any more it goes nowhere. */
		p->written += n < 0 ? waiting(p) : (size_t)n;
	}
	if (waiting(p) == 0) {
		buf_done(&p->input);
		p->written = 0;
	}
	if (p->full && waiting(p) < PTY_INPUT_HIGH / 2) {
		p->full = false;
		p->room(p->ctx);
	}
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct pty *p = f->ctx;

	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
		flush(p);
		attend(p);
	}
	if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) && !p->stopped)
		read_on(p);
}

static void on_again(struct loop_timer *t)
{
	struct pty *p = t->ctx;

	p->hung_up = false;
	attend(p);
	if (!p->stopped)
		read_on(p);
}

void pty_init(struct pty *p)
{
	p->master = (struct loop_fd){.fd = -1, .ready = on_ready, .ctx = p};
	p->again = (struct loop_timer){.fire = on_again, .ctx = p};
	p->input = BUF(PTY_INPUT_MAX);
}

void pty_close(struct pty *p)
{
	loop_cancel(p->loop, &p->again);
	loop_remove(p->loop, &p->master);
	fd_closep(&p->master.fd);
}

void pty_done(struct pty *p)
{
	pty_close(p);
	buf_done(&p->input);
}

/*
 * By its numbers first, which is the kernel's word: an ioctl of something else might
 * wait for whoever made that. A second holder could undo O_NONBLOCK; but only
 * our own code on the island has had it, and user code has not.
 */
static bool is_master(int fd)
{
	struct stat st;
	int n;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == 5 &&
	       minor(st.st_rdev) == 2 && ioctl(fd, TIOCGPTN, &n) == 0 && isatty(fd);
}

int pty_take(struct pty *p, int fd)
{
	_cleanup_(fd_closep) int master = fd;

	assert(p->master.fd < 0);
	if (!is_master(master) || fd_set_nonblock(master, 1) < 0)
		return -1;
	p->master.fd = take_fd(&master);
	if (p->size.ws_col > 0)
		(void)ioctl(p->master.fd, TIOCSWINSZ, &p->size);
	flush(p);
	attend(p);
	return 0;
}

size_t pty_write(struct pty *p, const void *data, size_t len)
{
	if (p->written > 0 && waiting(p) + len <= p->input.max) {
		memmove(p->input.data, p->input.data + p->written, waiting(p));
		p->input.len -= p->written;
		p->written = 0;
	}
	if (buf_append(&p->input, data, len) < 0)
		return PTY_INPUT_MAX + 1;
	if (p->master.fd >= 0) {
		flush(p);
		attend(p);
	}
	p->full = waiting(p) >= PTY_INPUT_HIGH;
	return waiting(p);
}

void pty_stop(struct pty *p, bool stop)
{
	if (p->stopped == stop)
		return;
	p->stopped = stop;
	attend(p);
	/* From where it was asked to go on nothing is called back. */
	if (!stop && p->last && p->master.fd >= 0)
		(void)loop_after(p->loop, &p->again, 0);
}

void pty_resize(struct pty *p, unsigned columns, unsigned rows)
{
	assert(columns > 0 && columns <= PTY_SIDE_MAX && rows > 0 && rows <= PTY_SIDE_MAX);
	p->size =
		(struct winsize){.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
	if (p->master.fd >= 0)
		(void)ioctl(p->master.fd, TIOCSWINSZ, &p->size);
}

int pty_signal(const struct pty *p, int signal)
{
	if (p->master.fd < 0)
		return -EAGAIN;
	return ioctl(p->master.fd, TIOCSIG, signal) < 0 ? -errno : 0;
}

void pty_last(struct pty *p)
{
	p->last = true;
	p->left = LAST_MAX;
	if (p->master.fd < 0)
		p->over(p->ctx);
	else if (!p->stopped)
		(void)loop_after(p->loop, &p->again, 0);
}
