#include "engine/native/bare.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limit.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/native/stock.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define END_ROUNDS   2000
#define END_PAUSE_US 1000

static int check_plan(const struct plan *p, const struct bare_user *who, struct cay_error *err)
{
	if (plan_check(p, p->size, err) < 0)
		return -1;
	if (who->uid == 0 || who->gid == 0 || (!who->change && who->uid != geteuid()))
		return cay_fail(err, CAY_E_POLICY, 0, "nothing runs as root without a sandbox");
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (p->mounts[n].kind != MOUNT_OPERATOR)
			return cay_fail(err, CAY_E_UNSUPPORTED, 0,
					"mounts: can't be had without a sandbox");
	return 0;
}

static int prepare(struct launcher *l, const struct plan *p, struct launched *i,
		   struct cay_error *err)
{
	const struct bare_user *u = &i->bare->user;
	int r = workspace_make(&i->bare->workspace, u->uid, u->gid, p->compile.len > 0);

	if (r < 0)
		return cay_fail(err, CAY_E_ENGINE, -r, "make a workspace");
	if (stock_take_cgroup(l, &l->cgroups, p, &i->cgroup, err) < 0 ||
	    (!i->cgroup.reused && cgroup_limit(&i->cgroup, &p->limits, true, err) < 0))
		return -1;
	cgroup_read_back(&i->cgroup, &p->limits, &i->isolation);
	return 0;
}

/* In the child: of all that is open in the launcher only what is for this one. */
static int let_go(const struct island *i, size_t n_tasks)
{
	int keep[CONTROLLERS + 2] = {i->control, i->end_all};
	size_t n = 2;

	for (size_t k = 0; k < n_tasks; k++)
		keep[n++] = i->tasks[k];
	return fd_close_others(keep, n);
}

_noreturn_ static void be_steward(const struct plan *p, const struct launched *i, int control,
				  int end_all)
{
	struct island inside = {.plan = p, .control = control, .bare = i->bare, .end_all = end_all};
	size_t n = 0;

	cgroup_ticket(&i->cgroup, &inside.provision.ticket);
	for (int k = 0; k < CONTROLLERS; k++)
		if (i->cgroup.tasks[k] >= 0)
			inside.tasks[n++] = i->cgroup.tasks[k];
	if (let_go(&inside, n) < 0)
		_exit(125);
	steward_main(&inside);
}

static int spawn(const struct plan *p, struct launched *i, struct cay_error *err)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&i->pidfd,
		.exit_signal = SIGCHLD,
	};
	_cleanup_(fd_closep) int theirs = -1, end_all = -1;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "make the control socket");
	i->control = fd_above_stdio(pair[0]);
	theirs = fd_above_stdio(pair[1]);
	if (i->cgroup.unified >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)i->cgroup.unified;
		/* Opened with our rights: the steward may be in no position to. */
		end_all = openat(i->cgroup.unified, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	}
	i->pid = (pid_t)sys_clone3(&args);
	if (i->pid == 0)
		be_steward(p, i, theirs, end_all);
	return i->pid < 0 ? cay_fail(err, CAY_E_ENGINE, errno, "start the program's steward") : 0;
}

int launcher_make_bare(struct launcher *l, const struct plan *p, const struct bare_user *who,
		       struct launched *ret, struct cay_error *err)
{
	struct usage unused;

	if (check_plan(p, who, err) < 0)
		return -1;
	launched_init(ret, l);
	ret->bare = calloc(1, sizeof(*ret->bare));
	if (!ret->bare)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "run without a sandbox");
	ret->bare->user = *who;
	if (prepare(l, p, ret, err) == 0 && spawn(p, ret, err) == 0)
		return 0;
	launched_kill(ret);
	launched_reap(ret, &unused);
	return -1;
}

static unsigned lacking(const char *limit, enum hold how)
{
	return how == HOLD_NONE ? limit_bit(limit_find(limit)) : 0;
}

int bare_judge(struct launched *i, const struct plan *p, const struct facts *f,
	       struct cay_error *err)
{
	const struct bare_user *u = &i->bare->user;
	struct isolation *iso = &i->isolation;

	if (f->uid != u->uid || f->gid != u->gid || f->uid == 0 || f->gid == 0)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "the user is not in force");
	if (f->caps_effective | f->caps_permitted | f->caps_inheritable | f->caps_ambient ||
	    (u->change && f->caps_bounding))
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
				"the empty capability sets are not in force");
	if (f->no_new_privs != 1 || !f->in_cgroups || f->open_files > p->limits.open_files)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
				"no_new_privs, cgroups or resource limits are not in force");
	iso->user = HOLD_NONE;
	iso->disk = HOLD_NONE;
	iso->seccomp = HOLD_NONE;
	iso->network = HOLD_HOST;
	iso->capabilities = HOLD_NONE;
	iso->no_new_privs = true;
	iso->degraded = lacking("memory", iso->memory) | lacking("cpus", iso->cpu) |
			lacking("pids", iso->pids);
	return 0;
}

void bare_ask_to_end(const struct launched *i)
{
	if (i->control >= 0)
		(void)shutdown(i->control, SHUT_RDWR);
	/* It may have been stopped, by a program of the same user. */
	if (i->pid > 0)
		(void)kill(i->pid, SIGCONT);
}

void bare_await_end(const struct launched *i)
{
	for (int n = 0; n < END_ROUNDS && !cgroup_is_empty(&i->cgroup); n++)
		(void)usleep(END_PAUSE_US);
}

void bare_done(struct launched *i)
{
	workspace_remove(&i->bare->workspace);
	free(i->bare);
	i->bare = NULL;
}
