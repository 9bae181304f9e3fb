/*
 * conn.h: connections of an island's programs, each from the SYN that was held back to the last
 * byte.
 */
#pragma once

#include "egress/net.h"

/* A SYN that the kernel held back, or a packet that it let be refused. */
void conn_syn(struct net *n, const struct syn *s);

/* One that was let through, and is ours to close. */
void conn_accepted(struct net *n, int fd);

/* Ends those that are not allowed any more. */
void conn_judge_all(struct net *n);

/* Ends all. why: noted for each, unless WHY_NONE. */
void conn_end_all(struct net *n, enum egress_why why);

/* Those that wait for room for bytes from a side go on, as far as there is some. */
void conn_resume(struct net *n, enum relay_side from);
