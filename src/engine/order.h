/*
 * order.h: what a program is to be started as, whoever passes it on.
 */
#pragma once

/* Larger plans can't be sent to an island that waits. */
#define ORDER_PLAN_MAX (128u << 10)

/* What an order is about, besides a program. */
enum order_flags {
	/* For askers. */
	ORDER_COMPILE = 4,  /* the plan's compile list, not its argv */
	ORDER_TERMINAL = 8, /* stdio[0] is a socket: the terminal's master is sent there,
			       and a struct winsize may have been */
	/*
	 * stdio[0] is a socket: one end of a channel is sent there, and its other end is standard
	 * input. It is made on the island: a socket is of the network that its maker is in.
	 */
	ORDER_CHANNEL = 256,
	ORDER_AGENT = 64, /* nothing is executed: serves files, by stdio[0] and stdio[1] */

	/* The native engine's own, between launcher and PID 1. */
	ORDER_LAST = 1,    /* PID 1 only reaps from here on, and ends with this program */
	ORDER_SCRATCH = 2, /* MESSAGE_READY brings the scratch fd */
	ORDER_CHECK = 16,  /* nothing is executed: all steps, the facts, and a good end */
	ORDER_CGROUP = 32, /* one or two fds more: cgroups of this command alone, to be joined */
	ORDER_OWN = 128,   /* by the plan that the island was made for: none follows */

	ORDER_FLAGS_ALL = 511,
};
