/*
 * resident template|networks|ahead ROUNDS COMMAND [ARG...]
 *
 * A resident launcher as a daemon would drive it: prepares, then runs the command
 * on ROUNDS islands, one after the other; what the programs print goes to
 * standard output. A round that fails is a line on standard error, and the next one
 * goes on all the same. Exit code: 125 if anything failed, else 0.
 */
#include "../launch.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/pipes.h"
#include "policy/plan.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL 1

#define END_MS 5000

static int complain(const struct cay_error *err)
{
	(void)fprintf(stderr, "cay: %s\n", err->text);
	return -1;
}

static struct plan *make_plan(char **argv, struct cay_error *err)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct plan *plan = NULL;

	settings_init(&settings);
	for (; *argv; argv++)
		if (strv_add(&spec.args, *argv) < 0)
			abort();
	if (plan_make(&spec, &settings, NULL, NULL, NULL, &plan, err) < 0)
		plan = NULL;
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

static int prepare(struct launcher *l, const char *mode, const struct plan *plan,
		   struct cay_error *err)
{
	if (launcher_keep_cgroups(l, POOL, err) < 0)
		return -1;
	launcher_tidy_later(l);
	if (strcmp(mode, "ahead") == 0)
		return launcher_make_ahead(l, plan, POOL, err);
	if (launcher_make_template(l, err) < 0)
		return -1;
	return strcmp(mode, "networks") == 0 ? launcher_fill_networks(l, POOL, err) : 0;
}

/* Copies what the program prints until it is gone; whether init told of a good end. */
static bool stand_by(struct launched *island, struct pipes *pipes)
{
	struct pollfd end = {.fd = island->pidfd, .events = POLLIN};
	struct message m = {0};
	char text[4096];
	size_t n_fds;
	ssize_t n;
	int r = fd_set_nonblock(pipes->ours[1], 0);

	while (r == 0 && (n = read(pipes->ours[1], text, sizeof(text))) != 0)
		r = n < 0 ? -1 : fd_write_all(STDOUT_FILENO, text, (size_t)n);
	if (r < 0 || poll(&end, 1, END_MS) != 1)
		launched_kill(island);
	if (fd_set_nonblock(island->control, 1) < 0 ||
	    msg_recv(island->control, &m, sizeof(m), NULL, 0, &n_fds) != (ssize_t)sizeof(m))
		return false;
	return r == 0 && m.kind == MESSAGE_EXITED && m.status == 0;
}

static int run(struct launcher *l, const struct plan *plan, struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct launched island;
	struct usage usage;
	bool well;

	if (pipes_open(&pipes, 0, err) < 0 ||
	    (l->shelves.n > 0 ? launch_live(l, plan, pipes.theirs, &island, err)
			   : launcher_start(l, plan, pipes.theirs, false, &island, err)) < 0)
		return -1;
	pipes_close_theirs(&pipes);
	well = stand_by(&island, &pipes);
	launched_reap(&island, &usage);
	return well ? 0 : cay_fail(err, CAY_E_ENGINE, 0, "the program's end is not known");
}

int main(int argc, char **argv)
{
	struct mount_rules no_rules = {0};
	struct launcher l;
	struct cay_error err;
	struct plan *plan;
	bool ready;
	int r = 0;

	if (argc < 4) {
		(void)fprintf(stderr, "usage: resident MODE ROUNDS COMMAND [ARG...]\n");
		return 2;
	}
	plan = make_plan(argv + 3, &err);
	if (!plan) {
		(void)complain(&err);
		return 125;
	}
	(void)alarm(0); /* what is before is the C library's: see Run.calls of faults.py */
	launcher_init(&l, &no_rules);
	ready = prepare(&l, argv[1], plan, &err) == 0;
	if (!ready)
		r = complain(&err);
	for (long n = strtol(argv[2], NULL, 10); ready && n > 0; n--) {
		if (run(&l, plan, &err) < 0)
			r = complain(&err);
		launcher_tidy(&l);
	}
	launcher_done(&l);
	free(plan);
	return r < 0 ? 125 : 0;
}
