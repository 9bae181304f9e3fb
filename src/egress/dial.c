#include "egress/dial.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000ull

static enum egress_why why_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return WHY_REFUSED;
	case ETIMEDOUT:
		return WHY_TIMED_OUT;
	case ECONNRESET:
		return WHY_RESET;
	default:
		return WHY_UNREACHABLE;
	}
}

/* Of several failures the first is told, but for that there is no way at all to an address. */
static void note(struct dial *d, enum egress_why why)
{
	if (d->why == WHY_NONE || d->why == WHY_UNREACHABLE)
		d->why = why;
}

static void close_try(struct dial *d, struct dial_try *t)
{
	if (t->f.fd < 0)
		return;
	loop_remove(d->loop, &t->f);
	fd_closep(&t->f.fd);
	d->open--;
}

void dial_stop(struct dial *d)
{
	if (!d->timers)
		return;
	loop_cancel(d->timers, &d->timer);
	for (size_t n = 0; n < d->next; n++)
		close_try(d, &d->tries[n]);
	/* Those that were never tried are none: they have no fd, not even -1. */
	d->n = d->next;
}

static void fail(struct dial *d, enum egress_why why)
{
	dial_stop(d);
	d->done(d, -1, why);
}

static int begin_v4(int fd, const struct address *a, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&to.sin_addr, a->bytes + 12, 4);
	return connect(fd, (const struct sockaddr *)&to, sizeof(to));
}

static int begin_v6(int fd, const struct address *a, uint16_t port)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memcpy(&to.sin6_addr, a->bytes, 16);
	return connect(fd, (const struct sockaddr *)&to, sizeof(to));
}

/* An fd that connects, or -errno. */
static int begin(const struct address *a, uint16_t port)
{
	bool v4 = address_is_v4(a);
	_cleanup_(fd_closep) int fd =
		socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if ((v4 ? begin_v4(fd, a, port) : begin_v6(fd, a, port)) < 0 && errno != EINPROGRESS)
		return -errno;
	return take_fd(&fd);
}

static void set_timer(struct dial *d)
{
	uint64_t now = clock_now_ns(), at = d->until_ns;

	if (d->next < d->n && now + DIAL_STAGGER_MS * MS < at)
		at = now + DIAL_STAGGER_MS * MS;
	(void)loop_at(d->timers, &d->timer, at);
}

static void on_ready(struct loop_fd *f, uint32_t events);

/* Goes on to the next address that can be tried at all. */
static void try_next(struct dial *d)
{
	while (d->next < d->n) {
		struct dial_try *t = &d->tries[d->next];
		int fd = begin(&d->list[d->next++], d->port);

		*t = (struct dial_try){.f = {.fd = fd, .ready = on_ready, .ctx = t}, .dial = d};
		if (fd >= 0 && loop_add(d->loop, &t->f, EPOLLOUT) == 0) {
			d->open++;
			break;
		}
		note(d, why_of(fd < 0 ? -fd : ENOMEM));
		fd_closep(&t->f.fd);
		t->f.fd = -1;
	}
	if (d->open == 0)
		fail(d, d->why);
	else
		set_timer(d);
}

static void on_ready(struct loop_fd *f, uint32_t events _unused_)
{
	struct dial_try *t = f->ctx;
	struct dial *d = t->dial;
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0) {
		note(d, why_of(error));
		close_try(d, t);
		try_next(d);
		return;
	}
	loop_remove(d->loop, f);
	d->open--;
	error = take_fd(&f->fd);
	dial_stop(d);
	d->done(d, error, WHY_NONE);
}

static void on_timer(struct loop_timer *timer)
{
	struct dial *d = timer->ctx;

	if (clock_now_ns() >= d->until_ns)
		fail(d, WHY_TIMED_OUT);
	else
		try_next(d);
}

/* The next of a kind, from n on. */
static size_t skip(const struct address *list, size_t n, size_t len, bool v4)
{
	while (n < len && address_is_v4(&list[n]) != v4)
		n++;
	return n;
}

int dial_start(struct dial *d, const struct address *list, size_t n, uint16_t port)
{
	bool v4 = n > 0 && address_is_v4(&list[0]);
	size_t at[2] = {skip(list, 0, n, false), skip(list, 0, n, true)};

	d->n = d->next = d->open = 0;
	d->why = WHY_NONE;
	d->port = port;
	while (d->n < DIAL_ADDRESSES && (at[0] < n || at[1] < n)) {
		if (at[v4] >= n)
			v4 = !v4;
		d->list[d->n++] = list[at[v4]];
		at[v4] = skip(list, at[v4] + 1, n, v4);
		v4 = !v4;
	}
	d->until_ns = clock_now_ns() + d->timeout_ms * MS;
	d->timer = (struct loop_timer){.fire = on_timer, .ctx = d};
	return loop_at(d->timers, &d->timer, 0);
}
