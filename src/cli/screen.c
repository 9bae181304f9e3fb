/*
 * CSI c: "what are you?" is answered by every terminal, by CSI ? 6x ; … ; 4 ; … c where it has
 * sixels. Only such a one is asked for colours and size (XTSMGRAPHICS, CSI ? … S), which some don't
 * answer; the first question again, behind it, tells when there is nothing to wait for.
 */
#include "cli/screen.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/sixel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ANSWER_MS     1000
#define PARAMETERS    16
#define NUMBER_MAX    65535u
#define CELL_WIDTH    8u /* of a character, where nobody says */
#define SIXEL_FEATURE 4u /* of CSI ? … c */
#define ASK_WHAT      "\033[c"
#define ASK_SIXEL     "\033[?1;1;0S\033[?2;1;0S" ASK_WHAT

enum graphics { GRAPHICS_COLOURS = 1, GRAPHICS_SIZE = 2 };

static size_t read_parameters(const char *at, const char *end, unsigned ret[PARAMETERS])
{
	size_t n = 0;

	ret[0] = 0;
	for (; at < end; at++) {
		if (*at == ';' && ++n == PARAMETERS)
			return 0;
		if (*at == ';')
			ret[n] = 0;
		else if (*at < '0' || *at > '9' || ret[n] > NUMBER_MAX)
			return 0;
		else
			ret[n] = 10 * ret[n] + (unsigned)(*at - '0');
	}
	return n + 1;
}

static void note_graphics(struct answers *a, const unsigned *p, size_t n)
{
	if (n < 3 || p[1] != 0) /* an error */
		return;
	if (p[0] == GRAPHICS_COLOURS) {
		a->colours = p[2];
	} else if (p[0] == GRAPHICS_SIZE && n >= 4) {
		a->width = p[2];
		a->height = p[3];
	}
}

/* A whole one. False: it answers nothing. */
static bool note_answer(struct answers *a)
{
	unsigned p[PARAMETERS];
	char last = a->sequence[a->len - 1];
	size_t n;

	if (a->len < 4 || a->sequence[2] != '?' || (last != 'c' && last != 'S'))
		return false;
	n = read_parameters(a->sequence + 3, a->sequence + a->len - 1, p);
	if (n == 0)
		return false;
	if (last == 'S')
		note_graphics(a, p, n);
	for (size_t i = 1; last == 'c' && i < n; i++)
		a->sixel |= p[i] == SIXEL_FEATURE;
	a->attributes |= last == 'c';
	return true;
}

int answers_end(struct answers *a, struct buf *keys)
{
	int r = a->len > 0 ? buf_append(keys, a->sequence, a->len) : 0;

	a->len = 0;
	return r;
}

static bool goes_on(const struct answers *a, char c)
{
	if (a->len == 0)
		return c == '\033';
	if (a->len == 1)
		return c == '[';
	return c >= ' ' && a->len < sizeof(a->sequence);
}

static int take_byte(struct answers *a, char c, struct buf *keys)
{
	int r = 0;

	if (!goes_on(a, c)) {
		r = answers_end(a, keys);
		if (c != '\033')
			return r < 0 ? r : buf_append(keys, &c, 1);
	}
	a->sequence[a->len++] = c;
	if (a->len < 3 || c < '@' || c > '~')
		return r;
	if (note_answer(a))
		a->len = 0;
	return r < 0 ? r : answers_end(a, keys);
}

int answers_take(struct answers *a, const char *bytes, size_t len, struct buf *keys)
{
	int r = 0;

	for (size_t i = 0; i < len && r == 0; i++)
		r = take_byte(a, bytes[i], keys);
	return r;
}

/* Until it has said what it is, which comes last. */
static int converse(struct screen *s, const char *question, struct answers *a)
{
	int64_t end = clock_now_ms() + ANSWER_MS;
	int r = fd_write_all(STDOUT_FILENO, question, strlen(question));

	a->attributes = false;
	while (r == 0 && !a->attributes) {
		struct pollfd f = {.fd = STDOUT_FILENO, .events = POLLIN};
		int64_t left = end - clock_now_ms();
		char bytes[256];
		ssize_t n;

		if (left <= 0 || poll(&f, 1, (int)left) == 0)
			break;
		n = read(STDOUT_FILENO, bytes, sizeof(bytes));
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			break;
		if (n > 0)
			r = answers_take(a, bytes, (size_t)n, s->typed);
	}
	(void)answers_end(a, s->typed);
	return a->attributes ? 0 : -1;
}

/* Of whom else's terminal an answer would be taken, or where nobody reads it. */
static bool is_ours(void)
{
	const char *term = getenv("TERM");
	int flags = fcntl(STDOUT_FILENO, F_GETFL);

	return isatty(STDOUT_FILENO) == 1 && flags >= 0 && (flags & O_ACCMODE) == O_RDWR &&
	       tcgetpgrp(STDOUT_FILENO) == getpgrp() && term && term[0] &&
	       strcmp(term, "dumb") != 0;
}

static unsigned bounded(unsigned value, unsigned max)
{
	return value > 0 && value < max ? value : max;
}

/* The window's width, and what pictures may have of height. */
static void note_size(struct screen *s, const struct answers *a)
{
	struct winsize w = {0};

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
	s->width = w.ws_xpixel > 0 ? w.ws_xpixel : a->width > 0 ? a->width : w.ws_col * CELL_WIDTH;
	s->width = bounded(s->width, bounded(a->width, SIXEL_SIDE_MAX));
	s->height = bounded(a->height, SIXEL_SIDE_MAX);
	s->colours = bounded(a->colours, SIXEL_COLOURS_MAX);
	if (s->colours < SIXEL_COLOURS_MIN)
		s->sixel = false;
}

void screen_init(struct screen *s, struct buf *typed)
{
	*s = (struct screen){.typed = typed};
}

bool screen_ask(struct screen *s)
{
	struct termios before, raw;
	struct answers a = {0};

	if (s->asked)
		return s->sixel;
	s->asked = true;
	if (!is_ours() || tcgetattr(STDOUT_FILENO, &before) < 0)
		return false;
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDOUT_FILENO, TCSANOW, &raw) < 0)
		return false;
	s->sixel = converse(s, ASK_WHAT, &a) == 0 && a.sixel;
	if (s->sixel)
		(void)converse(s, ASK_SIXEL, &a);
	(void)tcsetattr(STDOUT_FILENO, TCSANOW, &before);
	if (s->sixel)
		note_size(s, &a);
	return s->sixel;
}
