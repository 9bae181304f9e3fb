#include "engine/native/cgroup.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/leftover.h"
#include "base/parse.h"
#include "core/limit.h"
#include "engine/native/cgroup_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPU_PERIOD_US 100000ull

#define NAME_PREFIX "cay-"

#define SWEEP_ROUNDS   20
#define SWEEP_PAUSE_US 50000

/* The island's own init is one process more than the program may have. */
#define INIT_PIDS 1u

/*
 * A file of its directory in one of the trees, by a path below the host's: whoever has thousands of
 * islands has no fd for each.
 */
struct spot {
	int dir;
	char path[CGROUP_NAME_SIZE + 48];
};

#define UNIFIED CONTROLLERS /* the v2 tree itself, as one of the trees */

static int dir_of(const struct cgroups *host, enum controller tree)
{
	if (tree >= UNIFIED || host->v2[tree])
		return host->unified;
	return host->dir[tree];
}

static struct spot spot_of(const struct cgroup *c, enum controller tree, const char *file)
{
	struct spot s = {.dir = dir_of(c->host, tree)};

	(void)snprintf(s.path, sizeof(s.path), "%s/%s", c->name, file);
	return s;
}

static int write_text(const struct cgroup *c, enum controller tree, const char *file,
		      const char *text)
{
	struct spot s = spot_of(c, tree, file);

	return fd_write_file_at(s.dir, s.path, text);
}

static int write_u64(const struct cgroup *c, enum controller tree, const char *file, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return write_text(c, tree, file, text);
}

static ssize_t read_text(const struct cgroup *c, enum controller tree, const char *file, char *text,
			 size_t size)
{
	struct spot s = spot_of(c, tree, file);

	return fd_read_text_at(s.dir, s.path, text, size);
}

static int read_u64(const struct cgroup *c, enum controller tree, const char *file, uint64_t *ret)
{
	char text[32];
	ssize_t n = read_text(c, tree, file, text, sizeof(text));

	if (n < 0)
		return (int)n;
	text[strcspn(text, "\n")] = '\0';
	if (strcmp(text, "max") == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	return parse_u64(text, 0, UINT64_MAX, ret);
}

/* "oom_kill 3" in a file of such lines; 0 if it is not there. */
static uint64_t read_field_at(int dir, const char *file, const char *field)
{
	char text[1024];
	size_t n = strlen(field);

	if (fd_read_text_at(dir, file, text, sizeof(text)) < 0)
		return 0;
	for (char *line = text; line && *line; line = strchr(line, '\n')) {
		uint64_t v;

		line += *line == '\n';
		if (strncmp(line, field, n) != 0 || line[n] != ' ')
			continue;
		line[n + 1 + strcspn(line + n + 1, "\n")] = '\0';
		return parse_u64(line + n + 1, 0, UINT64_MAX, &v) == 0 ? v : 0;
	}
	return 0;
}

static uint64_t read_field(const struct cgroup *c, enum controller tree, const char *file,
			   const char *field)
{
	struct spot s = spot_of(c, tree, file);

	return read_field_at(s.dir, s.path, field);
}

/* Kernels without swap accounting have no file for it, which only matters if there is swap. */
static int without_swap(int r)
{
	char text[4096];
	const char *first;

	if (r != -ENOENT || fd_read_text_at(AT_FDCWD, "/proc/swaps", text, sizeof(text)) < 0)
		return r;
	first = strchr(text, '\n'); /* behind the heading */
	return first && first[1] ? r : 0;
}

static int set_memory1(const struct cgroup *c, uint64_t bytes)
{
	const enum controller k = CONTROLLER_MEMORY;
	int r = write_u64(c, k, "memory.limit_in_bytes", bytes);

	/* It may not go above the one below, which a directory from a pool has already. */
	if (r == -EINVAL && write_u64(c, k, "memory.memsw.limit_in_bytes", bytes) == 0)
		r = write_u64(c, k, "memory.limit_in_bytes", bytes);
	if (r < 0)
		return r;
	/*
	 * Socket buffers count apart here, and the host's own are out of the same
	 * total. A kernel without the file is taken as it is.
	 */
	r = write_u64(c, k, "memory.kmem.tcp.limit_in_bytes", bytes / 4);
	if (r < 0 && r != -ENOENT && r != -EOPNOTSUPP)
		return r;
	/* Memory and swap together: the same number leaves no swap. */
	return without_swap(write_u64(c, k, "memory.memsw.limit_in_bytes", bytes));
}

static int set_memory2(const struct cgroup *c, uint64_t bytes)
{
	const enum controller k = CONTROLLER_MEMORY;
	int r = write_u64(c, k, "memory.max", bytes);

	if (r == 0)
		r = write_text(c, k, "memory.oom.group", "1");
	if (r < 0)
		return r;
	return without_swap(write_u64(c, k, "memory.swap.max", 0));
}

static int set_cpu1(const struct cgroup *c, uint64_t quota_us)
{
	int r = write_u64(c, CONTROLLER_CPU, "cpu.cfs_period_us", CPU_PERIOD_US);

	return r < 0 ? r : write_u64(c, CONTROLLER_CPU, "cpu.cfs_quota_us", quota_us);
}

static int set_cpu2(const struct cgroup *c, uint64_t quota_us)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)quota_us,
		       CPU_PERIOD_US);
	return write_text(c, CONTROLLER_CPU, "cpu.max", text);
}

static uint64_t quota_us(const struct limits *l)
{
	return l->cpus_milli * (CPU_PERIOD_US / 1000);
}

static int set_limit(const struct cgroup *c, enum controller k, const struct limits *l)
{
	bool v2 = c->host->v2[k];

	switch (k) {
	case CONTROLLER_MEMORY:
		return v2 ? set_memory2(c, l->memory_bytes) : set_memory1(c, l->memory_bytes);
	case CONTROLLER_PIDS:
		return write_u64(c, k, "pids.max", l->pids + INIT_PIDS);
	case CONTROLLER_CPU:
		return v2 ? set_cpu2(c, quota_us(l)) : set_cpu1(c, quota_us(l));
	case CONTROLLERS:
		break;
	}
	return -EINVAL;
}

/* v1 tells of OOM only to those who asked: an eventfd tied to memory.oom_control. */
static int watch_oom1(struct cgroup *c)
{
	struct spot s = spot_of(c, CONTROLLER_MEMORY, "memory.oom_control");
	_cleanup_(fd_closep) int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	_cleanup_(fd_closep) int control = openat(s.dir, s.path, O_RDONLY | O_CLOEXEC);
	char text[64];
	int r;

	if (event < 0 || control < 0)
		return -errno;
	(void)snprintf(text, sizeof(text), "%d %d", event, control);
	r = write_text(c, CONTROLLER_MEMORY, "cgroup.event_control", text);
	if (r == 0)
		c->oom_event = take_fd(&event);
	return r;
}

static int make_dir(int parent, const char *name, int *ret)
{
	if (mkdirat(parent, name, 0755) < 0)
		return -errno;
	*ret = cgroup_open_dir(parent, name);
	if (*ret < 0) {
		int saved = errno;

		(void)unlinkat(parent, name, AT_REMOVEDIR); /* nobody else knows of it */
		return -saved;
	}
	return 0;
}

static int make_controller(struct cgroup *c, enum controller k, const struct limits *l)
{
	struct spot tasks = spot_of(c, k, "tasks");
	int r;

	if (!c->host->v2[k] && mkdirat(c->host->dir[k], c->name, 0755) < 0)
		return -errno;
	c->has[k] = true;
	if (c->host->v2[k])
		return set_limit(c, k, l);
	c->tasks[k] = openat(tasks.dir, tasks.path, O_WRONLY | O_CLOEXEC);
	if (c->tasks[k] < 0)
		return -errno;
	r = set_limit(c, k, l);
	if (r == 0 && k == CONTROLLER_MEMORY)
		r = watch_oom1(c);
	return r;
}

static int refuse(const struct cgroup *c, enum controller k, int r, const struct limits *l,
		  struct cay_error *err)
{
	static const char *const limit_of[CONTROLLERS] = {"memory", "pids", "cpus"};
	const struct limit_row *row = limit_find(limit_of[k]);
	char value[32];

	(void)limit_format(row, limit_get(l, row), value, sizeof(value));
	if (c->host->dir[k] < 0)
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
			       "the limit %s (%s) can't be enforced: %s", row->name, value,
			       c->host->why[k]);
	else
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r,
			       "the limit %s (%s) can't be enforced", row->name, value);
	return cay_hint(err, "`cay doctor` says what is missing; --allow-degraded runs without it");
}

/*
 * Not the run's id: a pooled directory serves many runs. The process id alone does not do: it comes
 * again, and in containers that share these cgroups everybody has the same.
 */
static void make_name(char name[CGROUP_NAME_SIZE])
{
	static unsigned serial;
	uint32_t chance = 0;

	(void)!getrandom(&chance, sizeof(chance), 0); /* does not fail; were it so: EEXIST */
	(void)snprintf(name, CGROUP_NAME_SIZE, NAME_PREFIX "%d-%08x-%u", (int)getpid(), chance,
		       ++serial);
}

int cgroup_make(const struct cgroups *host, struct cgroup *ret, struct cay_error *err)
{
	int r;

	*ret = CGROUP_NONE;
	ret->host = host;
	make_name(ret->name);
	r = host->unified >= 0 ? make_dir(host->unified, ret->name, &ret->unified) : 0;
	ret->has_unified = ret->unified >= 0;
	return r < 0 ? cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "make the cgroup %s", ret->name)
		     : 0;
}

int cgroup_limit(struct cgroup *c, const struct limits *limits, bool allow_degraded,
		 struct cay_error *err)
{
	for (int k = 0; k < CONTROLLERS; k++) {
		int r = -ENOENT;

		if (c->host->dir[k] >= 0)
			r = make_controller(c, (enum controller)k, limits);
		/* Processes are counted by an rlimit, too; the launcher looks if it holds. */
		if (r < 0 && !allow_degraded && k != CONTROLLER_PIDS)
			return refuse(c, (enum controller)k, r, limits, err);
		if (r < 0)
			fd_closep(&c->tasks[k]);
		c->joins[k] = c->tasks[k] >= 0;
	}
	c->limits = *limits;
	return 0;
}

static uint64_t read_oom_kills(const struct cgroup *c)
{
	const enum controller k = CONTROLLER_MEMORY;

	if (!c->has[k])
		return 0;
	return read_field(c, k, c->host->v2[k] ? "memory.events" : "memory.oom_control",
			  "oom_kill");
}

/* cpu.stat is there in every v2 directory, with the controller or without. */
uint64_t cgroup_dir_cpu_usec(int dir)
{
	return dir < 0 ? 0 : read_field_at(dir, "cpu.stat", "usage_usec");
}

static uint64_t cpu_usec(const struct cgroup *c)
{
	return c->has_unified ? read_field(c, UNIFIED, "cpu.stat", "usage_usec") : 0;
}

int cgroup_reuse(struct cgroup *c, const struct limits *limits)
{
	const bool same[CONTROLLERS] = {
		limits->memory_bytes == c->limits.memory_bytes,
		limits->pids == c->limits.pids,
		limits->cpus_milli == c->limits.cpus_milli,
	};
	uint64_t event;

	for (int k = 0; k < CONTROLLERS; k++) {
		int r = !c->has[k] ? -ENOENT
			: same[k]  ? 0
				   : set_limit(c, (enum controller)k, limits);

		if (r < 0)
			return r;
	}
	/* A live island's processes go one by one: not those of the next. */
	if (c->host->v2[CONTROLLER_MEMORY] &&
	    write_text(c, CONTROLLER_MEMORY, "memory.oom.group", "1") < 0)
		return -EIO;
	if (!c->host->v2[CONTROLLER_MEMORY])
		(void)write_u64(c, CONTROLLER_MEMORY, "memory.max_usage_in_bytes", 0);
	/* An OOM of the last island must not be the next one's. */
	if (c->oom_event >= 0)
		(void)!read(c->oom_event, &event, sizeof(event));
	c->limits = *limits;
	c->reused = true;
	c->oom_kills_before = read_oom_kills(c);
	c->cpu_usec_before = cpu_usec(c);
	return 0;
}

void cgroup_ticket(const struct cgroup *c, struct cgroup_ticket *ret)
{
	memcpy(ret->name, c->name, sizeof(ret->name));
	for (int k = 0; k < CONTROLLERS; k++) {
		ret->v1[k] = c->joins[k];
		ret->v2[k] = c->has[k] && c->host->v2[k];
	}
}

/* Does the text of /proc/PID/cgroup say that the controller is in our directory? */
static bool is_member(const char *text, const char *controller, const char *name)
{
	char path[4096];
	const char *last;

	if (!cgroup_own_path(text, controller, path, sizeof(path)))
		return false;
	last = strrchr(path, '/');
	return last && strcmp(last + 1, name) == 0;
}

int cgroup_join(const struct cgroup_ticket *t, const int *tasks, struct cay_error *err)
{
	for (int k = 0, n = 0; k < CONTROLLERS; k++) {
		/* "tasks", not "cgroup.procs": the latter waits for an RCU grace period (4 ms). */
		int r = t->v1[k] ? fd_write_all(tasks[n++], "0", 1) : 0;

		if (r < 0)
			return cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "join the cgroup of %s",
					controller_names[k]);
	}
	return 0;
}

bool cgroup_is_joined(const struct cgroup_ticket *t, pid_t pid)
{
	char path[64] = "/proc/self/cgroup", text[4096];

	if (pid > 0)
		(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	for (int k = 0; k < CONTROLLERS; k++)
		if ((t->v1[k] && !is_member(text, controller_names[k], t->name)) ||
		    (t->v2[k] && !is_member(text, "", t->name)))
			return false;
	return true;
}

static uint64_t limit_in_force(const struct cgroup *c, enum controller k)
{
	bool v2 = c->host->v2[k];
	uint64_t v = UINT64_MAX;
	char text[64];

	switch (k) {
	case CONTROLLER_MEMORY:
		(void)read_u64(c, k, v2 ? "memory.max" : "memory.limit_in_bytes", &v);
		break;
	case CONTROLLER_PIDS:
		if (read_u64(c, k, "pids.max", &v) == 0 && v != UINT64_MAX)
			v -= INIT_PIDS;
		break;
	case CONTROLLER_CPU:
		if (read_text(c, k, v2 ? "cpu.max" : "cpu.cfs_quota_us", text, sizeof(text)) < 0)
			break;
		text[strcspn(text, " \n")] = '\0';
		if (parse_u64(text, 0, UINT64_MAX / 1000, &v) == 0)
			v = v * 1000 / CPU_PERIOD_US;
		break;
	case CONTROLLERS:
		break;
	}
	return v;
}

void cgroup_read_back(const struct cgroup *c, const struct limits *limits, struct isolation *ret)
{
	const uint64_t want[CONTROLLERS] = {limits->memory_bytes, limits->pids, limits->cpus_milli};
	enum hold *how[CONTROLLERS] = {&ret->memory, &ret->pids, &ret->cpu};

	for (int k = 0; k < CONTROLLERS; k++) {
		uint64_t v;

		*how[k] = HOLD_NONE;
		if (!c->has[k])
			continue;
		v = limit_in_force(c, (enum controller)k);
		/* Memory is kept in whole pages. */
		if (v > want[k] || (k == CONTROLLER_MEMORY ? v + 65536 < want[k] : v != want[k]))
			continue;
		*how[k] = c->host->v2[k] ? HOLD_CGROUP2 : HOLD_CGROUP1;
	}
}

void cgroup_kill(struct cgroup *c)
{
	if (!c->has_unified)
		return;
	(void)write_text(c, UNIFIED, "cgroup.kill", "1");
	c->killed = true;
}

uint64_t cgroup_oom_kills(const struct cgroup *c)
{
	return read_oom_kills(c) - c->oom_kills_before;
}

uint64_t cgroup_restart_clock(struct cgroup *c)
{
	uint64_t now = cpu_usec(c), before = c->cpu_usec_before;

	c->cpu_usec_before = now;
	return now - before;
}

uint64_t cgroup_cpu_ms(const struct cgroup *c)
{
	return (cpu_usec(c) - c->cpu_usec_before) / 1000;
}

void cgroup_usage(const struct cgroup *c, struct usage *ret)
{
	const enum controller memory = CONTROLLER_MEMORY, pids = CONTROLLER_PIDS;
	double cpu_ms;
	uint64_t v;
	bool v2;

	if (!c->host)
		return;
	v2 = c->host->v2[memory];
	cpu_ms = (double)(cpu_usec(c) - c->cpu_usec_before) / 1e3;
	/* What was killed is counted here alone. */
	if (cpu_ms > ret->cpu_ms)
		ret->cpu_ms = cpu_ms;
	/* Peaks that can't be set back are those of all islands the directory had. */
	if (c->has[memory] && !(c->reused && v2) &&
	    read_u64(c, memory, v2 ? "memory.peak" : "memory.max_usage_in_bytes", &v) == 0)
		ret->memory_peak_bytes = v;
	if (c->has[pids] && !c->reused && read_u64(c, pids, "pids.peak", &v) == 0 && v > INIT_PIDS)
		ret->processes_peak = v - INIT_PIDS;
}

void cgroup_now(const struct cgroup *c, uint64_t *ret_memory_bytes, uint32_t *ret_processes)
{
	const enum controller memory = CONTROLLER_MEMORY, pids = CONTROLLER_PIDS;
	uint64_t v = 0;

	*ret_memory_bytes = 0;
	*ret_processes = 0;
	if (!c->host)
		return;
	if (c->has[memory])
		(void)read_u64(c, memory,
			       c->host->v2[memory] ? "memory.current" : "memory.usage_in_bytes",
			       ret_memory_bytes);
	if (c->has[pids] && read_u64(c, pids, "pids.current", &v) == 0 && v > INIT_PIDS)
		*ret_processes = (uint32_t)(v - INIT_PIDS);
}

int cgroup_freeze(const struct cgroup *c, bool on)
{
	return c->has_unified ? write_text(c, UNIFIED, "cgroup.freeze", on ? "1" : "0") : -ENOTSUP;
}

void cgroup_spare_others(const struct cgroup *c)
{
	if (c->has[CONTROLLER_MEMORY] && c->host->v2[CONTROLLER_MEMORY])
		(void)write_text(c, CONTROLLER_MEMORY, "memory.oom.group", "0");
}

bool cgroup_is_empty(const struct cgroup *c)
{
	return !c->has_unified || read_field(c, UNIFIED, "cgroup.events", "populated") == 0;
}

static bool is_ours(const char *name)
{
	return strncmp(name, COMMAND_CGROUP, strlen(COMMAND_CGROUP)) == 0 ||
	       strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0;
}

/* With what is below it: commands of a live island, a zygote's islands and theirs. */
static int remove_dir(int parent, const char *name) /* NOLINT(misc-no-recursion): three deep */
{
	DIR *d;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
		return 0;
	d = fd_opendir(cgroup_open_dir(parent, name));
	if (!d)
		return -EBUSY;
	for (struct dirent *e; (e = readdir(d));)
		if (is_ours(e->d_name))
			(void)remove_dir(dirfd(d), e->d_name);
	(void)closedir(d);
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

void cgroup_let_go(struct cgroup *c)
{
	for (int k = 0; k < CONTROLLERS; k++)
		fd_closep(&c->tasks[k]);
	fd_closep(&c->unified);
}

void cgroup_remove(struct cgroup *c)
{
	cgroup_let_go(c);
	fd_closep(&c->oom_event);
	for (int k = 0; k < CONTROLLERS; k++) {
		if (c->has[k] && !c->host->v2[k])
			(void)remove_dir(c->host->dir[k], c->name);
		c->has[k] = false;
	}
	if (c->has_unified)
		(void)remove_dir(c->host->unified, c->name);
	c->has_unified = false;
	c->name[0] = '\0';
}

int cgroup_open_birth(const struct cgroup *c, uid_t owner)
{
	return c->unified < 0 || owner == 0 ||
			       fchownat(c->unified, "cgroup.procs", owner, (gid_t)-1, 0) == 0
		       ? 0
		       : -errno;
}

/* What the islands need of it, for the directories below dir. */
static int pass_controllers_on(const struct cgroups *host, int dir)
{
	for (int k = 0; k < CONTROLLERS; k++) {
		char text[32];
		int r;

		if (host->dir[k] < 0 || !host->v2[k])
			continue;
		(void)snprintf(text, sizeof(text), "+%s", controller_names[k]);
		r = fd_write_file_at(dir, "cgroup.subtree_control", text);
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroups_below_make(const struct cgroups *host, uid_t owner, struct cgroups_below *ret,
		       struct cay_error *err)
{
	struct cgroup c = CGROUP_NONE;
	int r;

	ret->host = NULL;
	ret->cgroups = *host;
	if (host->unified < 0)
		return 0;
	if (cgroup_make(host, &c, err) < 0)
		return -1;
	ret->host = host;
	ret->cgroups.unified = c.unified;
	memcpy(ret->name, c.name, sizeof(ret->name));
	r = pass_controllers_on(host, c.unified);
	if (r == 0)
		r = cgroup_open_birth(&c, owner);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "make a cgroup for a zygote") : 0;
}

void cgroups_below_remove(struct cgroups_below *b)
{
	if (!b->host)
		return;
	(void)remove_dir(b->host->unified, b->name);
	fd_closep(&b->cgroups.unified);
	b->host = NULL;
}

/* Removes what can be: a directory with processes in it stays, whoever they belong to. */
static int sweep_dir(int dir, int *ret_busy)
{
	DIR *d = fd_opendir_again(dir);
	int n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));) {
		int r;

		if (!leftover_is_orphan(e->d_name, NAME_PREFIX))
			continue;
		r = remove_dir(dir, e->d_name);

		n += r == 0;
		*ret_busy += r == -EBUSY;
	}
	(void)closedir(d);
	return n;
}

static int sweep_once(const struct cgroups *c, int *ret_busy)
{
	int n = 0;

	*ret_busy = 0;
	for (int k = 0; k < CONTROLLERS; k++)
		if (c->dir[k] >= 0 && !c->v2[k])
			n += sweep_dir(c->dir[k], ret_busy);
	if (c->unified >= 0)
		n += sweep_dir(c->unified, ret_busy);
	return n;
}

int cgroups_sweep(const struct cgroups *c)
{
	int busy, n = sweep_once(c, &busy);

	/* An island whose launcher was killed takes a moment to die. */
	for (int round = 0; round < SWEEP_ROUNDS && busy > 0; round++) {
		(void)usleep(SWEEP_PAUSE_US);
		n += sweep_once(c, &busy);
	}
	return n;
}
