#include "engine/native/machine.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define V1_MEMORY MACHINE_CGROUP "/memory"

static const char *const cpu_dirs[] = {"devices", "devices/system", "devices/system/cpu"};

/* Our umask is 0 here: the mode is as it stands. */
static int make_dirs(int dir_fd, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (mkdirat(dir_fd, names[i], 0755) < 0)
			return -errno;
	return 0;
}

unsigned machine_cpus(const struct plan *p)
{
	uint64_t want = (p->limits.cpus_milli + 999) / 1000;
	cpu_set_t have;

	if (sched_getaffinity(0, sizeof(have), &have) < 0)
		return 0;
	return want < (uint64_t)CPU_COUNT(&have) ? (unsigned)want : (unsigned)CPU_COUNT(&have);
}

/*
 * The C library counts the CPUs here, not in the affinity: without this file
 * Python's Pool() starts a process for each CPU of the host. Not "possible",
 * which sizes tables that are looked up by the number of the real CPU.
 */
static int describe_cpus(int sys_fd, const struct plan *p)
{
	unsigned n = machine_cpus(p);
	char text[32];
	int r = n == 0 ? -errno : make_dirs(sys_fd, cpu_dirs, ARRAY_LEN(cpu_dirs));

	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), n > 1 ? "0-%u\n" : "0\n", n - 1);
	return fd_create_file_at(sys_fd, "devices/system/cpu/online", text, strlen(text), 0444);
}

/*
 * node makes its heap half as large as what it finds here, else up to 4 GiB by the
 * host's memory: it would be killed for garbage that it need not keep. On v1 the
 * file is a copy: each controller would be a mount of its own.
 */
static int describe_memory(int sys_fd, const struct plan *p, const struct cgroup_ticket *t)
{
	static const char *const dirs[] = {"fs", MACHINE_CGROUP, V1_MEMORY};
	bool v1 = t->v1[CONTROLLER_MEMORY], v2 = t->v2[CONTROLLER_MEMORY];
	char text[32];
	int r = make_dirs(sys_fd, dirs, v1 ? 3 : v2 ? 2 : 0);

	if (r < 0 || !v1)
		return r;
	(void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)p->limits.memory_bytes);
	r = fd_create_file_at(sys_fd, V1_MEMORY "/memory.limit_in_bytes", text, strlen(text), 0444);
	if (r < 0)
		return r;
	/* node takes the lower of both, and none if one is missing. */
	return symlinkat("memory.limit_in_bytes", sys_fd, V1_MEMORY "/memory.soft_limit_in_bytes") <
			       0
		       ? -errno
		       : 0;
}

int machine_describe(int sys_fd, const struct plan *p, const struct cgroup_ticket *t)
{
	int r = describe_cpus(sys_fd, p);

	return r < 0 ? r : describe_memory(sys_fd, p, t);
}
