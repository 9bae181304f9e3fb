/*
 * launch.h: a program on an island as the daemon has it: one that waits for its order,
 * made ahead where there is such.
 */
#pragma once

#include "engine/native/island.h"
#include "engine/native/launcher.h"

#include <poll.h>

/* As launcher_start() otherwise. */
static inline int launch_live(struct launcher *l, const struct plan *p, const int stdio[3],
			      struct launched *ret, struct cay_error *err)
{
	struct pollfd said = {.events = POLLIN};
	struct message m;
	struct usage unused;
	int r;

	if (launcher_make_live(l, p, MADE_LIVE, ret, err) < 0)
		return -1;
	r = launched_order(ret, 0, ORDER_LAST, p, stdio, NULL, 0);
	if (r == 0)
		r = outbox_flush(&ret->orders, ret->control); /* the daemon's loop does it */
	said.fd = ret->control;
	/* One that gave up took none, and said why; one that took half of it says nothing. */
	if ((r < 0 && poll(&said, 1, 0) != 1) || !launcher_listen(ret->control, &m, NULL)) {
		r = cay_fail(err, CAY_E_ENGINE, -r, "the island died");
	} else if (m.kind == MESSAGE_FAILED) {
		*err = m.error;
		r = -1;
	} else {
		r = launched_judge(ret, p, &m.facts, err);
	}
	if (r == 0)
		return 0;
	launched_kill(ret);
	launched_reap(ret, &unused);
	return -1;
}
