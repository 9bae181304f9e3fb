#include "engine/native/cgroup_find.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/cgroup.h"
#include "engine/native/systemd_scope.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOUNT "/sys/fs/cgroup"

/* Where we sit ourselves, below a directory whose children have controllers. */
#define SELF "cay-self"

const char *const controller_names[CONTROLLERS] = {"memory", "pids", "cpu"};

int cgroup_open_dir(int at, const char *path)
{
	return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* By a path as /proc has it: "/" and "" are the top. */
static int open_below(int top, const char *own)
{
	own += strspn(own, "/");
	return cgroup_open_dir(top, *own ? own : ".");
}

static bool is_cgroup2(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 && s.f_type == CGROUP2_SUPER_MAGIC;
}

/*
 * access(2) with the effective ids: a read-only mount says EROFS here too, also to
 * root. Where it can't be told, it is tried: the limit is not given up for that.
 */
static bool may_write(int dir, const char *name)
{
	return faccessat(dir, name, W_OK, AT_EACCESS) == 0 ||
	       (errno != EACCES && errno != EPERM && errno != EROFS && errno != ENOENT);
}

static bool may_make_here(int dir)
{
	if (!may_write(dir, "."))
		return false;
	return geteuid() == 0 || /* mkdir() itself will say */
	       may_write(dir, "cgroup.procs");
}

bool cgroup_own_path(const char *text, const char *controller, char *path, size_t size)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *names, *colon, *end;
		size_t n = strlen(controller);

		line += *line == '\n';
		names = strchr(line, ':');
		colon = names ? strchr(names + 1, ':') : NULL;
		if (!colon)
			return false;
		end = strchrnul(colon, '\n');
		for (const char *p = names + 1; p <= colon; p += strcspn(p, ",:") + 1)
			if (strncmp(p, controller, n) == 0 && (p[n] == ',' || p[n] == ':')) {
				if ((size_t)(end - colon) >= size)
					return false;
				(void)snprintf(path, size, "%.*s", (int)(end - colon) - 1,
					       colon + 1);
				return true;
			}
	}
	return false;
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p += n)
		if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || !p[n]))
			return true;
	return false;
}

static bool all_enabled(int dir)
{
	char text[512];

	if (fd_read_text_at(dir, "cgroup.subtree_control", text, sizeof(text)) < 0)
		return false;
	for (int i = 0; i < CONTROLLERS; i++)
		if (!has_word(text, controller_names[i]))
			return false;
	return true;
}

/*
 * A directory whose children can have controllers must have no processes of
 * its own. If we are alone in it (a scope made for us), we move into a leaf.
 */
static bool move_aside(int dir)
{
	char text[64], own[32];

	(void)snprintf(own, sizeof(own), "%d\n", (int)getpid());
	if (fd_read_text_at(dir, "cgroup.procs", text, sizeof(text)) < 0 || strcmp(text, own) != 0)
		return false;
	if (mkdirat(dir, SELF, 0755) < 0 && errno != EEXIST)
		return false;
	return fd_write_file_at(dir, SELF "/cgroup.procs", "0") == 0;
}

static bool enable_all(int dir)
{
	static const char all[] = "+memory +pids +cpu";

	if (all_enabled(dir))
		return true;
	if (fd_write_file_at(dir, "cgroup.subtree_control", all) == 0)
		return true;
	return move_aside(dir) && fd_write_file_at(dir, "cgroup.subtree_control", all) == 0;
}

/*
 * The nearest directory from our own upwards that is usable, if not NULL, says so of, and
 * in which we may make children that have the controllers.
 */
static int find_upwards2(int mount, const char *own, bool (*usable)(int dir, const char *name))
{
	char path[4096];

	(void)snprintf(path, sizeof(path), ".%s", own);
	for (;;) {
		_cleanup_(fd_closep) int dir = cgroup_open_dir(mount, path);
		char *slash = strrchr(path, '/');
		const char *name = slash ? slash + 1 : path;

		/* In SELF we are by an earlier look: its parent is ready. */
		if (dir >= 0 && strcmp(name, SELF) != 0 && (!usable || usable(dir, name)) &&
		    may_make_here(dir) && enable_all(dir))
			return take_fd(&dir);
		if (!slash)
			return -1;
		*slash = '\0';
	}
}

static int read_own2(char *own, size_t size)
{
	char text[4096];
	ssize_t n = fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));

	return n >= 0 && cgroup_own_path(text, "", own, size) ? 0 : -1;
}

/* So that it is found at once by those that we start, whichever systemd this is. */
static int use_scope(int mount, char *own, size_t size)
{
	_cleanup_(fd_closep) int dir = -1;

	if (read_own2(own, size) < 0)
		return -1;
	dir = open_below(mount, own);
	scope_mark(dir);
	return find_upwards2(mount, own, scope_is_free);
}

/* What was delegated, or what systemd says is or delegates now, or what happens to be ours. */
static int find_users2(int mount, char *ret_why, size_t size)
{
	char own[3072] = "/";
	int dir = -1;

	if (read_own2(own, sizeof(own)) == 0)
		dir = find_upwards2(mount, own, scope_is_free);
	if (dir < 0 && scope_ask(ret_why, size) == 0)
		dir = use_scope(mount, own, sizeof(own));
	return dir >= 0 ? dir : find_upwards2(mount, own, NULL);
}

/*
 * What the service manager delegated to us: elsewhere is not ours, and it could neither
 * account for our islands nor end them. Otherwise the top, as container engines do.
 */
static int find_roots2(int mount)
{
	char own[3072];
	int dir = -1;

	if (read_own2(own, sizeof(own)) == 0)
		dir = find_upwards2(mount, own, scope_is_given);
	if (dir < 0 && may_make_here(mount) && enable_all(mount))
		dir = fcntl(mount, F_DUPFD_CLOEXEC, 3);
	return dir;
}

static void use_v2(struct cgroups *c, int mount)
{
	char scope_why[96] = "";
	int dir = geteuid() == 0 ? find_roots2(mount) : -1;

	if (dir < 0)
		dir = find_users2(mount, scope_why, sizeof(scope_why));
	if (dir < 0) {
		for (int i = 0; i < CONTROLLERS; i++)
			(void)snprintf(
				c->why[i], sizeof(c->why[i]),
				"no cgroup with the controller %s is delegated to this user%s%s",
				controller_names[i], scope_why[0] ? "; " : "", scope_why);
		return;
	}
	c->unified = dir;
	for (int i = 0; i < CONTROLLERS; i++) {
		c->dir[i] = fcntl(dir, F_DUPFD_CLOEXEC, 3);
		c->v2[i] = true;
	}
}

/*
 * Where root works in the hierarchies, by their names of it: what the service manager
 * delegated to us, as its mark in the v2 tree says; "" is the top.
 */
static void find_given1(int unified, const char *text, char *ret, size_t size)
{
	_cleanup_(fd_closep) int dir = -1;
	const char *slash;

	if (unified < 0 || !cgroup_own_path(text, "", ret, size)) {
		ret[0] = '\0';
		return;
	}
	slash = strrchr(ret, '/');
	dir = open_below(unified, ret);
	if (dir < 0 || !slash || !scope_is_given(dir, slash + 1))
		ret[0] = '\0';
}

/* One v1 hierarchy: its top or what was given as root, else our own directory there. */
static int find_v1(const char *controller, const char *text, const char *given, char *why,
		   size_t size)
{
	char path[4096], own[3072];
	int dir;

	(void)snprintf(path, sizeof(path), MOUNT "/%s", controller);
	if (cgroup_own_path(text, controller, own, sizeof(own)) &&
	    (geteuid() != 0 || strcmp(own, given) == 0))
		(void)snprintf(path, sizeof(path), MOUNT "/%s%s", controller, own);
	dir = cgroup_open_dir(AT_FDCWD, path);
	if (dir >= 0 && may_make_here(dir))
		return dir;
	if (dir < 0 && errno == ENOENT) {
		(void)snprintf(path, sizeof(path), MOUNT "/%s", controller);
		if (access(path, F_OK) == 0)
			(void)snprintf(why, size,
				       "the cgroup of the controller %s is out of sight here, as "
				       "in a container",
				       controller);
		else
			(void)snprintf(why, size, "the kernel has no cgroup controller %s mounted",
				       controller);
		return -1;
	}
	(void)snprintf(why, size, "the cgroup of the controller %s %s", controller,
		       errno == EROFS ? "is mounted read-only" : "may not be written to");
	fd_closep(&dir);
	return -1;
}

static void use_v1(struct cgroups *c, const char *text)
{
	_cleanup_(fd_closep) int unified = cgroup_open_dir(AT_FDCWD, MOUNT "/unified");
	char own[3072] = "";
	bool found = true;

	if (unified >= 0 && !is_cgroup2(unified))
		fd_closep(&unified);
	if (geteuid() == 0)
		find_given1(unified, text, own, sizeof(own));
	else
		found = cgroup_own_path(text, "", own, sizeof(own));
	for (int i = 0; i < CONTROLLERS; i++)
		c->dir[i] = find_v1(controller_names[i], text, own, c->why[i], sizeof(c->why[i]));
	if (unified >= 0 && found) {
		int dir = open_below(unified, own);

		if (dir >= 0 && may_make_here(dir))
			c->unified = dir;
		else
			fd_closep(&dir);
	}
}

void cgroups_init(struct cgroups *c)
{
	_cleanup_(fd_closep) int mount = cgroup_open_dir(AT_FDCWD, MOUNT);
	char text[4096] = "";

	*c = (struct cgroups){.dir = {-1, -1, -1}, .unified = -1};
	for (int i = 0; i < CONTROLLERS; i++)
		(void)snprintf(c->why[i], sizeof(c->why[i]), "no cgroup file system at %s", MOUNT);
	if (mount < 0)
		return;
	if (is_cgroup2(mount)) {
		use_v2(c, mount);
		return;
	}
	/* Root can do without: it works from the top then. */
	if (fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0 &&
	    geteuid() != 0)
		return;
	use_v1(c, text);
}

void cgroups_done(struct cgroups *c)
{
	for (int i = 0; i < CONTROLLERS; i++)
		fd_closep(&c->dir[i]);
	fd_closep(&c->unified);
}
