#include "engine/container/inside.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/parse.h"
#include "engine/mountinfo.h"
#include "engine/self.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TEXT_SIZE     8192
#define MOUNTINFO_MAX (1u << 20)

/* A controller's files, as containers see them: on v2 all are in one directory. */
#define V2 "/sys/fs/cgroup/"

static bool is_v2(void)
{
	return access(V2 "cgroup.controllers", R_OK) == 0;
}

static int read_text(const char *dir, const char *file, char text[TEXT_SIZE])
{
	char path[128];

	(void)snprintf(path, sizeof(path), V2 "%s%s%s", dir, *dir ? "/" : "", file);
	return fd_read_text_at(AT_FDCWD, path, text, TEXT_SIZE) < 0 ? -1 : 0;
}

/* The number a text begins with; 0: "max", -1 or none. */
static uint64_t number_of(const char *text)
{
	char digits[24];
	uint64_t n;
	size_t len = strspn(text, "0123456789");

	if (len == 0 || len >= sizeof(digits))
		return 0;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)len, text);
	return parse_u64(digits, 0, UINT64_MAX, &n) < 0 ? 0 : n;
}

static uint64_t read_number(const char *dir, const char *file)
{
	char text[TEXT_SIZE];

	return read_text(dir, file, text) < 0 ? 0 : number_of(text);
}

/* "name NUMBER" on a line of its own. */
static uint64_t read_field(const char *dir, const char *file, const char *name)
{
	char text[TEXT_SIZE];
	size_t len = strlen(name);

	if (read_text(dir, file, text) < 0)
		return 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			return number_of(line + len + 1);
		if (!*line)
			break;
	}
	return 0;
}

/* What v1 says of what is not limited. */
#define V1_NO_MEMORY (1ull << 60)

static void read_limits(struct wire_facts *f)
{
	char text[TEXT_SIZE];

	uint64_t period_us;

	if (is_v2()) {
		const char *period;

		f->memory_bytes = read_number("", "memory.max");
		f->pids = read_number("", "pids.max");
		period = read_text("", "cpu.max", text) == 0 ? strchr(text, ' ') : NULL;
		period_us = period ? number_of(period + 1) : 0;
		f->cpus_milli = period_us ? number_of(text) * 1000 / period_us : 0;
		f->cgroup = 2;
		return;
	}
	f->memory_bytes = read_number("memory", "memory.limit_in_bytes");
	if (f->memory_bytes >= V1_NO_MEMORY)
		f->memory_bytes = 0;
	f->pids = read_number("pids", "pids.max");
	period_us = read_number("cpu", "cpu.cfs_period_us");
	f->cpus_milli = period_us ? read_number("cpu", "cpu.cfs_quota_us") * 1000 / period_us : 0;
	f->cgroup = f->memory_bytes || f->pids ? 1 : 0;
}

void inside_use(struct wire_use *ret)
{
	*ret = (struct wire_use){0};
	if (is_v2()) {
		ret->cpu_us = read_field("", "cpu.stat", "usage_usec");
		ret->memory_bytes = read_number("", "memory.current");
		ret->memory_peak_bytes = read_number("", "memory.peak");
		ret->oom_kills = read_field("", "memory.events", "oom_kill");
		ret->processes = (uint32_t)read_number("", "pids.current");
		ret->processes_peak = (uint32_t)read_number("", "pids.peak");
		return;
	}
	ret->cpu_us = read_number("cpuacct", "cpuacct.usage") / 1000;
	ret->memory_bytes = read_number("memory", "memory.usage_in_bytes");
	ret->memory_peak_bytes = read_number("memory", "memory.max_usage_in_bytes");
	ret->oom_kills = read_field("memory", "memory.oom_control", "oom_kill");
	ret->processes = (uint32_t)read_number("pids", "pids.current");
}

/* Of a tmpfs of its own, not of the root. */
static uint64_t size_of(const char *path)
{
	struct statvfs fs;
	struct stat here, root;

	if (stat(path, &here) < 0 || stat("/", &root) < 0 || here.st_dev == root.st_dev ||
	    statvfs(path, &fs) < 0)
		return 0;
	return (uint64_t)fs.f_blocks * fs.f_frsize;
}

/* "  lo: …": the table has two lines of headings. */
static int32_t only_loopback(void)
{
	char text[TEXT_SIZE];
	const char *line;
	int n = 0;

	if (fd_read_text_at(AT_FDCWD, "/proc/self/net/dev", text, sizeof(text)) < 0)
		return 0;
	for (line = text; (line = strchr(line, '\n')) && *++line; n++) {
		const char *name = line + strspn(line, " ");

		if (n > 0 && strncmp(name, "lo:", 3) != 0)
			return 0;
	}
	return n > 0;
}

static int32_t user_mapped(void)
{
	char text[TEXT_SIZE];
	unsigned long long inside, outside, len;

	if (fd_read_text_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) < 0)
		return 0;
	return sscanf(text, "%llu %llu %llu", &inside, &outside, &len) != 3 || inside != outside ||
	       len < UINT32_MAX;
}

int inside_facts(struct wire_facts *ret, struct cay_error *err)
{
	struct capability_sets sets;
	struct statvfs root;
	struct stat top, workspace;
	int abi = landlock_abi();

	*ret = (struct wire_facts){
		.uid = geteuid(),
		.gid = getegid(),
		.pid = getpid(),
		.no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
		.seccomp_mode = prctl(PR_GET_SECCOMP),
		.dumpable = prctl(PR_GET_DUMPABLE),
		.landlock = abi > 0 ? abi : 0,
		.only_loopback = only_loopback(),
		.user_mapped = user_mapped(),
		.tmp_bytes = size_of("/tmp"),
		.shm_bytes = size_of("/dev/shm"),
	};
	if (capabilities_read(&sets) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "read the capabilities back");
	ret->caps_effective = sets.effective;
	ret->caps_permitted = sets.permitted;
	ret->caps_inheritable = sets.inheritable;
	ret->caps_bounding = sets.bounding;
	ret->caps_ambient = sets.ambient;
	if (statvfs("/", &root) < 0 || stat("/", &top) < 0 ||
	    stat(ISLAND_WORKSPACE, &workspace) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "look at the file systems");
	ret->root_read_only = (root.f_flag & ST_RDONLY) != 0;
	ret->workspace_bytes = size_of(ISLAND_WORKSPACE);
	read_limits(ret);
	if (namespaces_read(ret->namespaces) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "read the namespaces back");
	return 0;
}

static int unreadable(int r, struct cay_error *err)
{
	return cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "read the container's mounts");
}

int inside_landed(const struct plan *p, const char *mountinfo, struct cay_error *err)
{
	unsigned there[PLAN_MOUNTS_MAX] = {0};
	struct mount_line m;
	int r;

	while ((r = mountinfo_next(&mountinfo, &m)) > 0)
		for (uint32_t n = 0; n < p->n_mounts; n++)
			there[n] += strcmp(m.point, plan_str(p, p->mounts[n].target)) == 0;
	if (r < 0)
		return unreadable(r, err);
	for (uint32_t n = 0; n < p->n_mounts; n++) {
		if (there[n] == 1)
			continue;
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "the mount at %s did not land there",
			       plan_str(p, p->mounts[n].target));
		return cay_hint(err, "the image has a symbolic link, or a mount, on its path: "
				     "name another");
	}
	return 0;
}

static int check_landed(const struct plan *p, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf info = BUF(MOUNTINFO_MAX);
	int r = fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", &info);

	return r < 0 ? unreadable(r, err) : inside_landed(p, buf_str(&info), err);
}

int inside_check_mounts(const struct plan *p, const struct wire_mount *m, struct cay_error *err)
{
	if (p->n_mounts > 0 && check_landed(p, err) < 0)
		return -1;
	for (uint32_t n = 0; n < p->n_mounts; n++) {
		const char *target = plan_str(p, p->mounts[n].target);
		struct statvfs fs;
		struct stat st;

		if (stat(target, &st) < 0 || statvfs(target, &fs) < 0)
			return cay_fail(err, CAY_E_ENGINE, errno, "look at the mount %s", target);
		if (st.st_dev != m[n].dev || st.st_ino != m[n].ino) {
			(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
				       "%s is not what was allowed to be mounted there", target);
			return cay_hint(err,
					"its path was changed, or the engine has other files: it "
					"must share this machine's, and its kernel");
		}
		if (p->mounts[n].access != ACCESS_WRITE && !(fs.f_flag & ST_RDONLY))
			return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
					"%s can be written to in the container", target);
	}
	return 0;
}
