/*
 * outbox.h: packets for a SOCK_SEQPACKET socket that does not block. What it does not
 * take at once is kept, with copies of its fds, and goes in order when it does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct outbox_packet;

/* All zeros is an empty one. */
struct outbox {
	struct outbox_packet *first, *last;
	size_t len;
};

void outbox_done(struct outbox *o);

/* All return 0 or -errno. The fds stay the caller's. */
int outbox_send(struct outbox *o, int sock, const void *data, size_t len, const int *fds,
		size_t n_fds);
/* Only keeps it. */
int outbox_keep(struct outbox *o, const void *data, size_t len, const int *fds, size_t n_fds);
/* Sends what it takes now; -EAGAIN: there is more. A failure other than that loses a packet. */
int outbox_flush(struct outbox *o, int sock);

/* Behind what waits there already; from is empty then. */
void outbox_move(struct outbox *to, struct outbox *from);
