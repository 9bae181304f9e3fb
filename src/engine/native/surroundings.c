#include "engine/native/surroundings.h"

#include "base/attr.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAG_FILTER   "--security-opt seccomp=unconfined"
#define FLAG_PROC     "--security-opt systempaths=unconfined"
#define FLAG_APPARMOR "--security-opt apparmor=unconfined"
#define FLAG_CGROUPS  "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw"
#define FLAG_MOUNTS   "--cap-add SYS_ADMIN"

/* A container with many volumes has many lines; what matters comes early. */
#define MOUNTINFO_MAX 65536

static bool says(int root, const char *file, const char *value)
{
	char text[64];

	if (fd_read_text_at(root, file, text, sizeof(text)) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, value) == 0;
}

/* What the kernel says of us: whether a filter is on, and whether root is whole. */
static void read_status(struct surroundings *s, int root)
{
	char text[4096];
	const char *caps;

	if (fd_read_text_at(root, "proc/self/status", text, sizeof(text)) <= 0)
		return;
	s->filtered = strstr(text, "\nSeccomp:\t2\n") != NULL;
	caps = strstr(text, "\nCapEff:\t");
	s->admin = caps && strtoull(caps + 9, NULL, 16) & 1ull << CAP_SYS_ADMIN;
}

static void read_profile(int root, char *ret, size_t size)
{
	char text[64];

	/* Where another security module is active, that one answers: it confines no namespaces. */
	if (faccessat(root, "sys/kernel/security/apparmor", F_OK, 0) < 0 &&
	    faccessat(root, "sys/module/apparmor", F_OK, 0) < 0)
		return;
	if (fd_read_text_at(root, "proc/self/attr/current", text, sizeof(text)) <= 0)
		return;
	/* "unconfined", "docker-default (enforce)", "cay (unconfined)" */
	if (strstr(text, "unconfined"))
		return;
	text[strcspn(text, " \n")] = '\0';
	(void)snprintf(ret, size, "%s", text);
}

/* One line: "36 35 0:5 /root /mount/point ro,nosuid …" */
static void read_mount(struct surroundings *s, const char *line)
{
	static const char *const cgroups[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"};
	char point[256], options[256];

	if (sscanf(line, "%*s %*s %*s %*s %255s %255s", point, options) != 2)
		return;
	/* That one is the machine's own, and lies on an empty directory, which hides nothing. */
	if (strncmp(point, "/proc/", 6) == 0 && strcmp(point, "/proc/sys/fs/binfmt_misc") != 0)
		s->proc_covered = true;
	for (size_t i = 0; i < ARRAY_LEN(cgroups); i++)
		if (strcmp(point, cgroups[i]) == 0)
			s->cgroups_read_only = strncmp(options, "ro", 2) == 0;
}

static void read_mounts(struct surroundings *s, int root)
{
	char *text = malloc(MOUNTINFO_MAX);

	if (text && fd_read_text_at(root, "proc/self/mountinfo", text, MOUNTINFO_MAX) > 0)
		for (char *line = text; line; line = strchr(line, '\n')) {
			line += *line == '\n';
			read_mount(s, line);
		}
	free(text);
}

void surroundings_read(struct surroundings *ret, const char *root)
{
	_cleanup_(fd_closep) int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*ret = (struct surroundings){.privileged = geteuid() == 0};
	if (dir < 0)
		return;
	read_mounts(ret, dir);
	read_profile(dir, ret->profile, sizeof(ret->profile));
	read_status(ret, dir);
	ret->namespaces_none = says(dir, "proc/sys/user/max_user_namespaces", "0");
	ret->namespaces_off = says(dir, "proc/sys/kernel/unprivileged_userns_clone", "0");
	ret->namespaces_bound =
		says(dir, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1");
}

static const char *advise_namespaces(const struct surroundings *s)
{
	if (s->namespaces_none)
		return "sysctl user.max_user_namespaces is 0: raise it";
	if (s->filtered)
		return "a system call filter that cay was started under forbids it: start the "
		       "container with " FLAG_FILTER ", a service of systemd without "
		       "SystemCallFilter= and RestrictNamespaces=";
	if (s->namespaces_off && !s->privileged)
		return "sysctl kernel.unprivileged_userns_clone is 0: set it to 1";
	if (s->namespaces_bound && !s->privileged)
		return "AppArmor lets only programs with a profile for it use user namespaces "
		       "(sysctl kernel.apparmor_restrict_unprivileged_userns is 1): as root, copy "
		       "cay's (packaging/apparmor/cay; installed: share/cay/apparmor/cay) to "
		       "/etc/apparmor.d/cay if it is not there, and load it by `apparmor_parser -r "
		       "/etc/apparmor.d/cay`; it is for /usr/bin/cay and /usr/local/bin/cay";
	if (s->profile[0])
		return "an AppArmor profile confines cay: start the container with " FLAG_APPARMOR
		       ", or allow 'userns,', 'mount,', 'pivot_root,' and 'capability,' in it";
	return "the kernel must be built with it (Linux 5.14 or newer)";
}

static const char *advise_proc(const struct surroundings *s)
{
	if (s->proc_covered)
		return "parts of /proc are covered, and the kernel gives nobody a fresh one who "
		       "could see more by it: start the container with " FLAG_PROC
		       " (podman: --security-opt unmask=ALL; Kubernetes: procMount: Unmasked), a "
		       "service of systemd without ProtectKernelTunables=";
	return advise_namespaces(s);
}

static const char *advise_cgroups(const struct surroundings *s)
{
	if (s->privileged)
		return "start the container with " FLAG_CGROUPS
		       " (its root may then change every cgroup of the machine), a service of "
		       "systemd without ProtectControlGroups=; or run with --allow-degraded and "
		       "give the limits to the container";
	if (s->cgroups_read_only)
		return "run as root of the container, with cgroups that may be written "
		       "(" FLAG_CGROUPS "), or with --allow-degraded and limits of the container";
	return "run as root, in a user session of systemd, or in a delegated cgroup "
	       "(systemd-run --user --scope -p Delegate=yes cay …)";
}

static const char *advise_mounts(const struct surroundings *s)
{
	if (s->privileged && !s->admin)
		return "--workspace and -v only: start the container with " FLAG_MOUNTS
		       ", or use --put";
	return "directories of this file system can't be mounted on islands: use --put";
}

void surroundings_advise(const struct surroundings *s, enum lacking what, char *text, size_t size)
{
	const char *advice = "";

	switch (what) {
	case LACKING_NAMESPACES:
		advice = advise_namespaces(s);
		break;
	case LACKING_PROC:
		advice = advise_proc(s);
		break;
	case LACKING_CGROUPS:
		advice = advise_cgroups(s);
		break;
	case LACKING_FILTER:
		advice = s->filtered ? advise_namespaces(s)
				     : "the kernel must be built with CONFIG_SECCOMP_FILTER";
		break;
	case LACKING_MOUNTS:
		advice = advise_mounts(s);
		break;
	}
	(void)snprintf(text, size, "%s", advice);
}

int surroundings_flags(const struct surroundings *s, bool limited, struct buf *ret)
{
	const struct {
		bool wanted;
		const char *flag;
	} rows[] = {
		{s->filtered, FLAG_FILTER},
		{s->proc_covered, FLAG_PROC},
		{s->profile[0] != '\0', FLAG_APPARMOR},
		{!limited && (s->privileged || s->cgroups_read_only), FLAG_CGROUPS},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows) && r == 0; i++)
		if (rows[i].wanted)
			r = buf_printf(ret, "%s%s", ret->len > 0 ? " " : "", rows[i].flag);
	return r;
}
