#include "engine/native/bare.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/title.h"
#include "engine/agent.h"
#include "engine/native/confine.h"
#include "engine/native/island.h"
#include "engine/native/orders.h"
#include "engine/sys.h"
#include "engine/unboxed.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static pid_t steward; /* whose children the commands are */

static int fail(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_ENGINE, errno, "%s", what);
}

static int set_limits(struct island *i, struct cay_error *err)
{
	int r = unboxed_limit(&i->plan->limits);

	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "set resource limits") : 0;
}

/* The primary group alone: others would have to be looked up in a database. */
static int become_user(struct island *i, struct cay_error *err)
{
	const struct bare_user *u = &i->bare->user;

	if (!u->change)
		return 0;
	/* The bounding set while we still may: it takes a capability. */
	if (confine_bounding(i, err) < 0)
		return -1;
	if (sys_setgroups(0, NULL) < 0 || sys_setresgid(u->gid, u->gid, u->gid) < 0 ||
	    sys_setresuid(u->uid, u->uid, u->uid) < 0)
		return fail(err, "become the user");
	return 0;
}

/* From the kernel's mouth, and by trying. */
static int check_user(struct island *i, struct cay_error *err)
{
	const struct bare_user *u = &i->bare->user;
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return fail(err, "read the user back");
	if (r != u->uid || e != u->uid || s != u->uid || rg != u->gid || eg != u->gid ||
	    sg != u->gid || u->uid == 0 || u->gid == 0 || (u->change && getgroups(0, NULL) != 0))
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "the user is not in force");
	if (sys_setresuid(0, 0, 0) == 0 || sys_setresgid(0, 0, 0) == 0 ||
	    sys_setgroups(0, NULL) == 0)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "root could be had back");
	return 0;
}

/* The change of ids untied us. */
static int tie_to_steward(struct island *i _unused_, struct cay_error *err)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return fail(err, "tie the program's life to the steward's");
	return getppid() == steward ? 0 : cay_fail(err, CAY_E_ENGINE, 0, "the steward is gone");
}

static const struct {
	const char *name;
	int (*run)(struct island *i, struct cay_error *err);
} steps[] = {
	/* Before there is anything of the program's that could be outside of it. */
	{"command cgroup", confine_command},
	{"session", confine_session},
	{"limits", set_limits},
	{"user", become_user},
	/* The daemon's own is nothing for it; this one is the user's. */
	{"keyring", confine_keyring},
	{"capabilities", confine_capabilities},
	{"no new privileges", confine_no_new_privs},
	{"user check", check_user},
	{"steward", tie_to_steward},
	{"stdio", confine_stdio},
	{"fds", confine_fds},
};

static int give_up(const struct island *i, const struct cay_error *err)
{
	struct message m = {.kind = MESSAGE_FAILED, .command = i->command, .error = *err};

	(void)msg_send(i->control, &m, sizeof(m), NULL, 0);
	return 125;
}

static int run_steps(struct island *i, struct facts *ret, struct cay_error *err)
{
	for (size_t n = 0; n < ARRAY_LEN(steps); n++)
		if (steps[n].run(i, err) < 0)
			return cay_wrap(err, "run without a sandbox (%s)", steps[n].name);
	return confine_read_facts(i, ret, err);
}

static int enter(const struct island *i, struct cay_error *err)
{
	int r = unboxed_enter(&i->bare->workspace, i->plan);

	if (r == 0)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, -r, "the working directory %s",
		       plan_str(i->plan, i->plan->workdir));
	return cay_hint(err, "it must be there, and its user must be able to reach it and %s",
			i->bare->workspace.home);
}

int steward_command(struct island *i)
{
	const struct plan *p = i->plan;
	const struct workspace *w = &i->bare->workspace;
	struct message m = {.kind = MESSAGE_READY, .command = i->command};
	struct plan_list words = i->order.flags & ORDER_COMPILE ? p->compile : p->argv;
	struct strv argv = {0}, env = {0};
	struct cay_error err;

	if (i->order.flags & ORDER_TERMINAL || unboxed_words(&argv, w, p, words) < 0 ||
	    unboxed_words(&env, w, p, p->env) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "start the program");
		return give_up(i, &err);
	}
	if (run_steps(i, &m.facts, &err) < 0)
		return give_up(i, &err);
	if (msg_send(i->control, &m, sizeof(m), NULL, 0) < 0)
		return 125;
	if (i->order.flags & ORDER_CHECK)
		return 0;
	if (i->order.flags & ORDER_AGENT) {
		(void)close(i->control);
		return agent_serve(w->home, STDIN_FILENO, STDOUT_FILENO, -1) < 0;
	}
	if (enter(i, &err) < 0)
		return give_up(i, &err);
	return island_exec(i, argv.items, env.items);
}

void steward_end(const struct island *i)
{
	if (i->end_all >= 0)
		(void)fd_write_all(i->end_all, "1", 1);
}

void steward_main(struct island *i)
{
	struct cay_error err;

	steward = getpid();
	title_set("cay: steward");
	(void)umask(022);
	signals_reset();
	/* It has nothing to do with the files of anybody, nor with the daemon's terminal. */
	if (chdir("/") < 0 || setsid() < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		_exit(125);
	if (confine_cgroup(i, &err) < 0) {
		(void)give_up(i, &err);
		_exit(125);
	}
	i->in_cgroups = cgroup_is_joined(&i->provision.ticket, 0);
	orders_serve(i);
	_exit(125); /* there is no last order here */
}
