/*
 * handover.h: something new for a process that runs, as an fd by a socket of its own, and its word
 * that it took it. One SOCK_SEQPACKET pair.
 */
#pragma once

#include <stdbool.h>

/* How long the giver waits for that word. */
#define HANDOVER_MS 10000

/* 0 once it was taken; -errno; -EINVAL: it is not wanted. */
int handover_give(int sock, int fd);

/* The fd, which is the caller's; -errno; -EPIPE: nothing will come any more. */
int handover_take(int sock);

/* Whether it is of use. */
void handover_answer(int sock, bool well);
