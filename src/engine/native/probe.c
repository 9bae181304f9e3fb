#include "engine/native/probe.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "core/limit.h"
#include "engine/native/hostdir.h"
#include "engine/native/launcher.h"
#include "engine/native/mount.h"
#include "engine/native/network.h"
#include "engine/seccomp.h"
#include "engine/native/surroundings.h"
#include "engine/pipes.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct list {
	struct probe *items;
	size_t len;
};

static struct probe *add(struct list *l, const char *control, bool required)
{
	struct probe *p = &l->items[l->len++];

	*p = (struct probe){.control = control, .required = required};
	return p;
}

_printf_(2, 3) static void say(struct probe *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

static void todo(struct probe *p, const char *text)
{
	(void)snprintf(p->todo, sizeof(p->todo), "%s", text);
}

static void advise(struct probe *p, const struct surroundings *around, enum lacking what)
{
	surroundings_advise(around, what, p->todo, sizeof(p->todo));
}

int probe_outcome(pid_t pid)
{
	int status;

	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

/* In a process of its own: 0, or the errno of what failed. Without flags no filter is in the way.
 */
static int try_in_child(int (*fn)(void), unsigned long long flags)
{
	struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
	pid_t pid = flags ? (pid_t)sys_clone3(&args) : fork();

	if (pid == 0)
		_exit(fn ? fn() : 0);
	return probe_outcome(pid);
}

/* The kernel may grant a namespace and no rights in it, as AppArmor makes it do on Ubuntu. */
static int use_user_namespace(void)
{
	return sethostname("cay", 3) < 0 ? errno : 0;
}

static void probe_namespaces(struct list *l, const struct surroundings *around)
{
	static const struct {
		const char *control;
		unsigned long long flag;
		int (*use)(void);
	} rows[] = {
		{"user namespace", CLONE_NEWUTS, use_user_namespace},
		{"pid namespace", CLONE_NEWPID, NULL},
		{"mount namespace", CLONE_NEWNS, NULL},
		{"network namespace", CLONE_NEWNET, NULL},
		{"ipc namespace", CLONE_NEWIPC, NULL},
		{"uts namespace", CLONE_NEWUTS, NULL},
		{"cgroup namespace", CLONE_NEWCGROUP, NULL},
		{"time namespace", CLONE_NEWTIME, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct probe *p = add(l, rows[i].control, true);
		int e = try_in_child(rows[i].use, CLONE_NEWUSER | rows[i].flag);

		p->ok = e == 0;
		(void)snprintf(p->how, sizeof(p->how), "clone3");
		if (p->ok)
			continue;
		say(p, "%s", strerror(e));
		advise(p, around, LACKING_NAMESPACES);
	}
}

static int mount_proc(void)
{
	_cleanup_(fd_closep) int fd = mount_new("proc", NULL, 0);

	return fd < 0 ? -fd : 0;
}

static void probe_proc(struct list *l, const struct surroundings *around)
{
	struct probe *p = add(l, "/proc of its own", true);
	int e = try_in_child(mount_proc, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID);

	p->ok = e == 0;
	(void)snprintf(p->how, sizeof(p->how), "mount");
	if (p->ok)
		return;
	say(p, "%s", strerror(e));
	advise(p, around, LACKING_PROC);
}

/* Why one limit can't be had, where the machine has its cgroup: asked for alone. */
static void say_refusal(struct probe *p, const struct cgroups *host, const struct limits *limits)
{
	struct cay_error err = {0};
	struct cgroup c;

	if (cgroup_make(host, &c, &err) == 0)
		(void)cgroup_limit(&c, limits, false, &err);
	cgroup_remove(&c);
	say(p, "%s", err.text);
}

static void probe_cgroups(struct list *l, const struct cgroups *host,
			  const struct surroundings *around)
{
	static const char *const controls[CONTROLLERS] = {"memory limit", "process limit",
							  "cpu limit"};
	struct limits limits = {0};
	struct isolation seen = {0};
	struct cgroup c;
	struct cay_error err;
	enum hold how[CONTROLLERS] = {HOLD_NONE, HOLD_NONE, HOLD_NONE};

	for (size_t i = 0; i < n_limit_rows; i++)
		limit_set(&limits, &limit_rows[i], limit_rows[i].initial);
	if (cgroup_make(host, &c, &err) == 0 && cgroup_limit(&c, &limits, true, &err) == 0) {
		cgroup_read_back(&c, &limits, &seen);
		how[CONTROLLER_MEMORY] = seen.memory;
		how[CONTROLLER_PIDS] = seen.pids;
		how[CONTROLLER_CPU] = seen.cpu;
	}
	cgroup_remove(&c);
	for (int k = 0; k < CONTROLLERS; k++) {
		struct probe *p = add(l, controls[k], true);

		/* The island's user namespace has a count of its own, which its rlimit bounds. */
		if (k == CONTROLLER_PIDS && how[k] == HOLD_NONE)
			how[k] = HOLD_RLIMIT;
		p->ok = how[k] != HOLD_NONE;
		(void)snprintf(p->how, sizeof(p->how), "%s", p->ok ? hold_name(how[k]) : "cgroup");
		if (p->ok)
			continue;
		if (host->dir[k] < 0)
			say(p, "%s", host->why[k]);
		else
			say_refusal(p, host, &limits);
		advise(p, around, LACKING_CGROUPS);
	}
}

static int load_filter(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	return -syscall_filter_load(false);
}

static void probe_filters(struct list *l, const struct surroundings *around)
{
	struct probe *p = add(l, "seccomp", true);
	int e = try_in_child(load_filter, 0), abi = landlock_abi();

	p->ok = e == 0;
	(void)snprintf(p->how, sizeof(p->how), "allow list, %u instructions",
		       syscall_filter_length());
	if (!p->ok) {
		say(p, "%s", strerror(e));
		advise(p, around, LACKING_FILTER);
	}
	p = add(l, "landlock", false);
	p->ok = abi > 0;
	(void)snprintf(p->how, sizeof(p->how), "ABI %d", abi);
	if (!p->ok) {
		say(p, "not in this kernel, or not among its active security modules");
		todo(p, "a second fence only: add landlock to the kernel's lsm= list to have it");
	}
}

static void probe_idmap(struct list *l, const struct launcher *launcher,
			const struct surroundings *around)
{
	struct probe *p = add(l, "host directories", false);
	struct hostdir h = HOSTDIR_NONE;
	struct cay_error err;

	if (!launcher->many_ids) {
		p->ok = true;
		(void)snprintf(p->how, sizeof(p->how), "bind, as yourself");
		return;
	}
	(void)snprintf(p->how, sizeof(p->how), "idmapped mount");
	h.path = strdup("the current directory");
	h.fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	p->ok = h.fd >= 0 && h.path && hostdir_idmap(&h, ACCESS_READ, true, 1, 1, &err) == 0;
	if (!p->ok) {
		say(p, "%s", h.fd < 0 ? strerror(errno) : err.text);
		advise(p, around, LACKING_MOUNTS);
	}
	hostdir_done(&h);
}

static int make_wired(void)
{
	struct cay_error err = {0};
	int wires[EGRESS_FDS];

	if (network_make(wires, &err) == 0)
		return 0;
	return err.sys_errno ? err.sys_errno : EFAULT;
}

static void probe_network(struct list *l, const struct surroundings *around)
{
	struct probe *p = add(l, "way out", false);
	int e = try_in_child(make_wired, CLONE_NEWUSER);

	p->ok = e == 0;
	(void)snprintf(p->how, sizeof(p->how), "nf_tables, tproxy, nflog");
	if (p->ok)
		return;
	say(p, "%s", strerror(e));
	todo(p, "only for --network allowlist and full: modprobe -a nf_tables nft_tproxy "
		"nft_log nfnetlink_log");
	if (e == EPERM)
		advise(p, around, LACKING_NAMESPACES);
}

static int make_plan(struct plan **ret, struct cay_error *err)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	int r;

	settings_init(&settings);
	r = strv_add(&spec.args, "/bin/true") < 0
		    ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a plan")
		    : plan_make(&spec, &settings, NULL, NULL, NULL, ret, err);
	spec_done(&spec);
	settings_done(&settings);
	return r;
}

/* The whole thing, as `cay run -- true` would do it. */
static int try_island(struct launcher *launcher, struct cay_error *err)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct plan *plan = NULL;
	struct launched island;
	struct usage usage;
	int r;

	if (make_plan(&plan, err) < 0)
		return -1;
	r = pipes_open(&pipes, 0, err);
	if (r == 0)
		r = launcher_start(launcher, plan, pipes.theirs, false, &island, err);
	if (r == 0) {
		struct pollfd end = {.fd = island.pidfd, .events = POLLIN};

		(void)poll(&end, 1, 10000);
		launched_kill(&island);
		launched_reap(&island, &usage);
	}
	free(plan);
	return r;
}

/* All flags at once: one that is missing hides what others are. */
static void todo_in_container(struct probe *p, const struct surroundings *around, bool limited)
{
	struct buf flags = BUF(sizeof(p->todo) / 2);

	if (surroundings_flags(around, limited, &flags) == 0 && flags.len > 0)
		(void)snprintf(p->todo, sizeof(p->todo), "start the container with: %s%s",
			       buf_str(&flags),
			       around->privileged ? ""
						  : " ; and run cay as root of the container, or "
						    "with --allow-degraded");
	buf_done(&flags);
}

static void probe_island(struct list *l, struct launcher *launcher,
			 const struct surroundings *around)
{
	struct probe *p = add(l, "default run", true);
	struct cay_error err;

	p->ok = try_island(launcher, &err) == 0;
	(void)snprintf(p->how, sizeof(p->how), "cay run -- true");
	if (!p->ok) {
		say(p, "%s", err.text);
		todo(p, err.hint[0] ? err.hint : "see the rows above");
		todo_in_container(p, around, launcher->cgroups.dir[CONTROLLER_MEMORY] >= 0);
	}
}

size_t probe_all(struct probe ret[PROBES_MAX], struct probe_store *ret_store)
{
	struct list l = {.items = ret};
	struct mount_rules none = {0};
	struct surroundings around;
	struct launcher launcher;
	struct probe *ids;

	surroundings_read(&around, "/");
	launcher_init(&launcher, &none);
	probe_namespaces(&l, &around);
	ids = add(&l, "user ids", true);
	ids->ok = true;
	(void)snprintf(ids->how, sizeof(ids->how), "%s",
		       launcher.many_ids ? "a range for each island" : "one id: your own");
	probe_proc(&l, &around);
	probe_cgroups(&l, &launcher.cgroups, &around);
	probe_filters(&l, &around);
	probe_idmap(&l, &launcher, &around);
	probe_network(&l, &around);
	l.len += probe_images(&ret[l.len], launcher.many_ids, ret_store);
	probe_island(&l, &launcher, &around);
	launcher_done(&launcher);
	return l.len;
}

int probe_clean(void)
{
	struct cgroups host;
	int n;

	cgroups_init(&host);
	n = cgroups_sweep(&host);
	cgroups_done(&host);
	return n;
}
