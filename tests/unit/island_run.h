/*
 * island_run.h: a plan's program on an island, to its end. For tests of what islands are.
 */
#pragma once

#include "../launch.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/pipes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* On an island that was made ahead, where there are such. */
static inline int start_on(struct launcher *l, const struct plan *plan, const int stdio[3],
			   struct launched *ret, struct cay_error *err)
{
	return launcher_stock(l).islands > 0 ? launch_live(l, plan, stdio, ret, err)
			      : launcher_start(l, plan, stdio, false, ret, err);
}

/* Runs it to its end; returns its exit code, or -1 with err. */
static inline int run(struct launcher *l, const struct plan *plan, struct isolation *iso, char *out,
		      size_t size, struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct launched island;
	struct usage usage;
	struct message m = {.status = -1};
	struct pollfd wait;
	size_t n_fds, len = 0;
	ssize_t n;

	assert_int_equal(pipes_open(&pipes, 0, err), 0);
	if (start_on(l, plan, pipes.theirs, &island, err) < 0) {
		print_message("refused: %s\n", err->text);
		return -1;
	}
	pipes_close_theirs(&pipes);
	(void)fd_set_nonblock(pipes.ours[1], 0);
	while (len + 1 < size && (n = read(pipes.ours[1], out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	if (size > 0)
		out[len] = '\0';
	wait = (struct pollfd){.fd = island.pidfd, .events = POLLIN};
	assert_int_equal(poll(&wait, 1, 20000), 1);
	/* Without "stdio" a sanitizer's words come this way, too. */
	while ((n = msg_recv(island.control, &m, sizeof(m), NULL, 0, &n_fds)) > 0)
		if (n == (ssize_t)sizeof(m) && m.kind == MESSAGE_EXITED)
			break;
	*iso = island.isolation;
	launched_reap(&island, &usage);
	assert_int_equal(m.kind, MESSAGE_EXITED);
	return WEXITSTATUS(m.status);
}
