/*
 * bare.h: programs without an island, where the operator's mode says so: on the host's own
 * files, processes and network, as an ordinary user, within the limits that cgroups keep.
 *
 * Theory of operation
 *
 *   launcher ──clone3──> steward ──fork──> program, files agent …, each the user's
 *
 * In the place of an island's PID 1 there is a steward, which takes the same orders and
 * answers with the same messages (island.h), so that the launcher's service treats both
 * alike. The steward keeps the launcher's rights, because only so can the program, which
 * sees all processes, do nothing to it; it reads nothing but the launcher's orders. Each
 * program loses everything before it is executed.
 *
 * Nothing here is held together by a namespace. What is to be ended is in one cgroup, and
 * ended by that, whatever sessions or parents it took; if the launcher dies, the steward
 * does it. Where the machine has no cgroup v2 tree, process groups must do, and a program
 * that leaves its own is not found.
 */
#pragma once

#include "core/error.h"
#include "engine/native/bare_user.h"
#include "engine/workspace.h"
#include "policy/plan.h"

#include <stdbool.h>

struct facts;
struct island;
struct launched;
struct launcher;

/* What a struct launched has of one. */
struct bare {
	struct bare_user user;
	struct workspace workspace;
};

/*
 * As launcher_make_live(), without an island. A limit that this machine can't hold is told
 * by the isolation, and is no failure. Of mounts there are only the operator's.
 */
int launcher_make_bare(struct launcher *l, const struct plan *p, const struct bare_user *who,
		       struct launched *ret, struct cay_error *err);

/* launched_judge()'s part. */
int bare_judge(struct launched *i, const struct plan *p, const struct facts *f,
	       struct cay_error *err);

/* Where there is no cgroup to do it by: has the steward end all that it knows of. */
void bare_ask_to_end(const struct launched *i);

/* Waits until all is dead that was killed, but not for ever. */
void bare_await_end(const struct launched *i);

/* launched_reap()'s part. Removes the workspace, unless that was taken over (removal.h). */
void bare_done(struct launched *i);

/* The steward's whole life. */
_noreturn_ void steward_main(struct island *i);

/* The steward's last deed: ends everything, and itself. Returns where there is no cgroup. */
void steward_end(const struct island *i);

/* A command's process from its birth to its exec: the exit code where it does not come to that. */
int steward_command(struct island *i);
