#include "engine/native/cgroup.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "engine/native/cgroup_find.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL_ROUNDS   3
#define MEMBERS_BYTES (1u << 20)

/*
 * On v1 in the tree of pids, where joining by "tasks" is quick and a limit of 0 stops
 * forks. On v2 joining waits for an RCU grace period (some ms), as there is no other
 * way for a process that is born behind the filter, which has no clone3().
 */
static int tree_of(const struct cgroup *c, bool *ret_v2)
{
	*ret_v2 = !c->has[CONTROLLER_PIDS] || c->host->v2[CONTROLLER_PIDS];
	if (!*ret_v2)
		return c->host->dir[CONTROLLER_PIDS];
	return c->has_unified ? c->host->unified : -1;
}

#define PATH_SIZE (CGROUP_NAME_SIZE + sizeof(((struct command_cgroup *)NULL)->name))

static void path_below(const struct cgroup *c, const char *name, char ret[PATH_SIZE])
{
	(void)snprintf(ret, PATH_SIZE, "%s/%s", c->name, name);
}

void command_cgroup_close(struct command_cgroup *m)
{
	if (m->meter != m->dir)
		fd_closep(&m->meter);
	m->meter = -1;
	fd_closep(&m->dir);
}

static int make_dir(const struct cgroup *c, int tree, const char *name)
{
	char path[PATH_SIZE];
	int dir, saved;

	path_below(c, name, path);
	if (mkdirat(tree, path, 0755) < 0)
		return -errno;
	dir = cgroup_open_dir(tree, path);
	saved = errno;
	if (dir >= 0)
		return dir;
	(void)unlinkat(tree, path, AT_REMOVEDIR);
	return -saved;
}

static int remove_dir(const struct cgroup *c, int tree, const char *name)
{
	char path[PATH_SIZE];

	path_below(c, name, path);
	return unlinkat(tree, path, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int command_cgroup_make(const struct cgroup *c, uint32_t number, bool metered,
			struct command_cgroup *ret)
{
	int tree = tree_of(c, &ret->v2), r = 0;

	ret->dir = ret->meter = -1;
	if (tree < 0)
		return -ENOTSUP;
	(void)snprintf(ret->name, sizeof(ret->name), COMMAND_CGROUP "%u", number);
	ret->dir = make_dir(c, tree, ret->name);
	if (ret->dir < 0)
		return ret->dir;
	if (ret->v2)
		ret->meter = ret->dir;
	else if (metered && c->has_unified)
		ret->meter = r = make_dir(c, c->host->unified, ret->name);
	if (r >= 0)
		return 0;
	(void)command_cgroup_remove(c, ret);
	return r;
}

int command_cgroup_doors(const struct command_cgroup *m, int ret[COMMAND_DOORS])
{
	bool two = m->meter >= 0 && m->meter != m->dir;

	ret[0] = openat(m->dir, m->v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC);
	if (ret[0] < 0)
		return -errno;
	ret[1] = two ? openat(m->meter, "cgroup.procs", O_WRONLY | O_CLOEXEC) : -1;
	return two && ret[1] < 0 ? -errno : 1 + two;
}

uint64_t command_cgroup_cpu_ms(const struct command_cgroup *m)
{
	return cgroup_dir_cpu_usec(m->meter) / 1000;
}

static bool is_listed(const char *members, const char *pid, size_t len)
{
	for (const char *line = members; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, pid, len) == 0 && line[len] == '\n')
			return true;
	}
	return false;
}

/*
 * One of those that were listed before; it may have ended since, and its number may
 * be another's. So: hold it first, and look again if it is listed.
 */
static void kill_listed(const struct command_cgroup *m, const char *line, size_t len)
{
	_cleanup_(buf_done) struct buf now = BUF(MEMBERS_BYTES);
	_cleanup_(fd_closep) int pidfd = -1;
	char text[24];
	uint64_t pid;

	(void)snprintf(text, sizeof(text), "%.*s", (int)len, line);
	if (parse_u64(text, 1, INT32_MAX, &pid) < 0)
		return;
	pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (pidfd >= 0 && fd_read_file_at(m->dir, "cgroup.procs", &now) == 0 &&
	    is_listed(buf_str(&now), line, len))
		(void)sys_pidfd_kill(pidfd);
}

static bool kill_members(const struct command_cgroup *m)
{
	_cleanup_(buf_done) struct buf members = BUF(MEMBERS_BYTES);

	if (fd_read_file_at(m->dir, "cgroup.procs", &members) < 0 || members.len == 0)
		return false;
	for (const char *line = buf_str(&members); *line;) {
		size_t len = strcspn(line, "\n");

		kill_listed(m, line, len);
		line += len + (line[len] == '\n');
	}
	return true;
}

void command_cgroup_kill(const struct command_cgroup *m)
{
	if (m->dir < 0)
		return;
	if (m->meter >= 0) {
		(void)fd_write_file_at(m->meter, "cgroup.kill", "1");
		return;
	}
	/* No more forks; one that was under way shows in the second round. */
	(void)fd_write_file_at(m->dir, "pids.max", "0");
	for (int round = 0; round < KILL_ROUNDS && kill_members(m); round++)
		;
}

int command_cgroup_remove(const struct cgroup *c, struct command_cgroup *m)
{
	bool v2;
	int tree = tree_of(c, &v2), r = 0;

	if (m->dir < 0)
		return 0;
	if (m->meter >= 0 && m->meter != m->dir)
		r = remove_dir(c, c->host->unified, m->name);
	if (r == 0)
		r = remove_dir(c, tree, m->name);
	if (r == 0)
		command_cgroup_close(m);
	return r;
}
