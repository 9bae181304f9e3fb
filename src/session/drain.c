#include "session/drain.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct drains {
	struct loop *loop;
	struct loop_fd slots[DRAINS_MAX];
	size_t next;
};

static void slot_close(struct drains *d, struct loop_fd *f)
{
	loop_remove(d->loop, f);
	fd_closep(&f->fd);
}

static void on_ready(struct loop_fd *f, uint32_t events _unused_)
{
	static char chunk[65536];
	ssize_t n = read(f->fd, chunk, sizeof(chunk));

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		slot_close(f->ctx, f);
}

struct drains *drains_new(struct loop *loop)
{
	struct drains *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->loop = loop;
	for (size_t n = 0; n < DRAINS_MAX; n++)
		d->slots[n] = (struct loop_fd){.fd = -1, .ready = on_ready, .ctx = d};
	return d;
}

void drains_free(struct drains *d)
{
	if (!d)
		return;
	for (size_t n = 0; n < DRAINS_MAX; n++)
		slot_close(d, &d->slots[n]);
	free(d);
}

void drain(struct drains *d, int fd)
{
	struct loop_fd *f = &d->slots[d->next++ % DRAINS_MAX];

	slot_close(d, f);
	f->fd = fd;
	if (loop_add(d->loop, f, EPOLLIN) < 0)
		fd_closep(&f->fd);
}
