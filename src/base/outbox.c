#include "base/outbox.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct outbox_packet {
	struct outbox_packet *next;
	size_t len, n_fds;
	int fds[MSG_FDS_MAX];
	char data[];
};

static void packet_free(struct outbox_packet *p)
{
	for (size_t n = 0; n < p->n_fds; n++)
		fd_closep(&p->fds[n]);
	free(p);
}

static void drop_first(struct outbox *o)
{
	struct outbox_packet *p = o->first;

	o->first = p->next;
	if (!o->first)
		o->last = NULL;
	o->len--;
	packet_free(p);
}

void outbox_done(struct outbox *o)
{
	while (o->first)
		drop_first(o);
}

int outbox_keep(struct outbox *o, const void *data, size_t len, const int *fds, size_t n_fds)
{
	struct outbox_packet *p = n_fds > MSG_FDS_MAX ? NULL : malloc(sizeof(*p) + len);

	if (!p)
		return n_fds > MSG_FDS_MAX ? -E2BIG : -ENOMEM;
	*p = (struct outbox_packet){.len = len};
	memcpy(p->data, data, len);
	for (; p->n_fds < n_fds; p->n_fds++) {
		p->fds[p->n_fds] = fcntl(fds[p->n_fds], F_DUPFD_CLOEXEC, 3);
		if (p->fds[p->n_fds] < 0) {
			int r = -errno;

			packet_free(p);
			return r;
		}
	}
	if (o->last)
		o->last->next = p;
	else
		o->first = p;
	o->last = p;
	o->len++;
	return 0;
}

int outbox_send(struct outbox *o, int sock, const void *data, size_t len, const int *fds,
		size_t n_fds)
{
	int r = o->first ? -EAGAIN : msg_send(sock, data, len, fds, n_fds);

	return r == -EAGAIN ? outbox_keep(o, data, len, fds, n_fds) : r;
}

int outbox_flush(struct outbox *o, int sock)
{
	while (o->first) {
		const struct outbox_packet *p = o->first;
		int r = msg_send(sock, p->data, p->len, p->fds, p->n_fds);

		if (r == -EAGAIN)
			return r;
		drop_first(o);
		if (r < 0)
			return r;
	}
	return 0;
}

void outbox_move(struct outbox *to, struct outbox *from)
{
	if (!from->first)
		return;
	if (to->last)
		to->last->next = from->first;
	else
		to->first = from->first;
	to->last = from->last;
	to->len += from->len;
	*from = (struct outbox){0};
}
