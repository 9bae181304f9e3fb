/*
 * control.h: what is said with whoever has islands made (wire.h). Nothing it hears is believed:
 * a packet that makes no sense is answered with a failure, or ignored.
 */
#pragma once

#include "base/loop.h"
#include "base/outbox.h"
#include "egress/net.h"

struct control {
	struct egress *egress;
	struct loop_fd f;
	struct outbox outbox;
	struct loop_timer totals;
	struct egress_totals told;
	char *packet; /* that was read last */
};

/* Says HELLO. The loop stops when the channel ends. */
int control_start(struct control *c, struct egress *e, int fd, struct cay_error *err);
void control_stop(struct control *c);
