#include "engine/native/probe.h"

#include "base/attr.h"
#include "base/fd.h"
#include "core/limit.h"
#include "engine/native/hostdir.h"
#include "engine/native/landlock.h"
#include "engine/native/launcher.h"
#include "engine/native/seccomp.h"
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

/* In a process of its own: 0, or the errno of what failed. */
static int try_in_child(int (*fn)(void), unsigned long long flags)
{
	struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
	int status;
	pid_t pid = (pid_t)sys_clone3(&args);

	if (pid == 0)
		_exit(fn ? fn() : 0);
	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

static bool sysctl_is(const char *file, const char *value)
{
	char text[32];

	if (fd_read_text_at(AT_FDCWD, file, text, sizeof(text)) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, value) == 0;
}

/* Why user namespaces are refused: each distribution has its own switch. */
static void userns_todo(struct probe *p)
{
	if (sysctl_is("/proc/sys/user/max_user_namespaces", "0"))
		todo(p, "sysctl user.max_user_namespaces is 0: raise it");
	else if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
		todo(p, "sysctl kernel.unprivileged_userns_clone is 0: set it to 1");
	else if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
		todo(p, "AppArmor restricts user namespaces: give cay a profile with "
			"'userns,', or set kernel.apparmor_restrict_unprivileged_userns to 0");
	else
		todo(p,
		     "in a container: allow clone and unshare in its seccomp profile, and give it "
		     "CAP_SYS_ADMIN or an unrestricted user namespace");
}

static void probe_namespaces(struct list *l)
{
	static const struct {
		const char *control;
		unsigned long long flag;
	} rows[] = {
		{"user namespace", 0},
		{"pid namespace", CLONE_NEWPID},
		{"mount namespace", CLONE_NEWNS},
		{"network namespace", CLONE_NEWNET},
		{"ipc namespace", CLONE_NEWIPC},
		{"uts namespace", CLONE_NEWUTS},
		{"cgroup namespace", CLONE_NEWCGROUP},
		{"time namespace", CLONE_NEWTIME},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct probe *p = add(l, rows[i].control, true);
		int e = try_in_child(NULL, CLONE_NEWUSER | rows[i].flag);

		p->ok = e == 0;
		(void)snprintf(p->how, sizeof(p->how), "clone3");
		if (p->ok)
			continue;
		say(p, "%s", strerror(e));
		if (e == EPERM || e == EACCES || e == ENOSPC)
			userns_todo(p);
		else
			todo(p, "the kernel must be built with it (Linux 5.14 or newer)");
	}
}

static void probe_cgroups(struct list *l, const struct cgroups *host)
{
	static const char *const controls[CONTROLLERS] = {"memory limit", "process limit",
							  "cpu limit"};
	struct limits limits = {0};
	struct isolation seen = {0};
	struct cgroup c;
	struct cay_error err;
	const char *how[CONTROLLERS] = {"none", "none", "none"};

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
		if (k == CONTROLLER_PIDS && strcmp(how[k], "none") == 0)
			how[k] = "rlimit";
		p->ok = strcmp(how[k], "none") != 0;
		(void)snprintf(p->how, sizeof(p->how), "%s", p->ok ? how[k] : "cgroup");
		if (p->ok)
			continue;
		say(p, "%s", host->dir[k] < 0 ? host->why[k] : err.text);
		todo(p, "run as root, in a user session of systemd, or in a delegated cgroup "
			"(systemd-run --user --scope -p Delegate=yes cay …)");
	}
}

static int load_filter(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	return -syscall_filter_load();
}

static void probe_filters(struct list *l)
{
	struct probe *p = add(l, "seccomp", true);
	int e = try_in_child(load_filter, 0), abi = landlock_abi();

	p->ok = e == 0;
	(void)snprintf(p->how, sizeof(p->how), "allow list, %u instructions",
		       syscall_filter_length());
	if (!p->ok) {
		say(p, "%s", strerror(e));
		todo(p, "the kernel must be built with CONFIG_SECCOMP_FILTER");
	}
	p = add(l, "landlock", false);
	p->ok = abi > 0;
	(void)snprintf(p->how, sizeof(p->how), "ABI %d", abi);
	if (!p->ok) {
		say(p, "not in this kernel, or not among its active security modules");
		todo(p, "a second fence only: add landlock to the kernel's lsm= list to have it");
	}
}

static void probe_idmap(struct list *l, const struct launcher *launcher)
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
		todo(p, "directories of this file system can't be mounted on islands: use --put");
	}
	hostdir_done(&h);
}

static int make_plan(struct plan **ret, struct cay_error *err)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	int r;

	settings_init(&settings);
	r = strv_add(&spec.args, "/bin/true") < 0
		    ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a plan")
		    : plan_make(&spec, &settings, NULL, NULL, ret, err);
	spec_done(&spec);
	settings_done(&settings);
	return r;
}

/* The whole thing, as `cay run -- true` would do it. */
static int try_island(struct launcher *launcher, struct isolation *ret, struct cay_error *err)
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
		*ret = island.isolation;
		launched_reap(&island, &usage);
	}
	free(plan);
	return r;
}

static void probe_island(struct list *l, struct launcher *launcher)
{
	struct probe *p = add(l, "default run", true);
	struct isolation iso = {0};
	struct cay_error err;

	p->ok = try_island(launcher, &iso, &err) == 0;
	(void)snprintf(p->how, sizeof(p->how), "cay run -- true");
	if (!p->ok) {
		say(p, "%s", err.text);
		todo(p, err.hint[0] ? err.hint : "see the rows above");
	}
	strv_done(&iso.degraded);
}

size_t probe_all(struct probe ret[PROBES_MAX])
{
	struct list l = {.items = ret};
	struct mount_rules none = {0};
	struct launcher launcher;
	struct probe *ids;

	launcher_init(&launcher, &none);
	probe_namespaces(&l);
	ids = add(&l, "user ids", true);
	ids->ok = true;
	(void)snprintf(ids->how, sizeof(ids->how), "%s",
		       launcher.many_ids ? "a range for each island" : "one id: your own");
	probe_cgroups(&l, &launcher.cgroups);
	probe_filters(&l);
	probe_idmap(&l, &launcher);
	probe_island(&l, &launcher);
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
