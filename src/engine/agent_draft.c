/*
 * A file that has no name until it is whole.
 *
 * O_TMPFILE: whatever ends us, nothing is left. It gets its name by linkat(),
 * which replaces nothing: so a name that must be free is taken without a race, and
 * one that is taken is replaced by way of a second name (".cay-…", there for two
 * system calls) and rename(). File systems without O_TMPFILE get a file with such
 * a name from the start, which is removed on every way out but SIGKILL.
 */
#include "engine/agent_impl.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NAMED_FLAGS (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

void draft_name(char name[32])
{
	uint64_t random = 0;

	/* Where there is none yet the name is taken at worst, which is noticed. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = (uintptr_t)name;
	(void)snprintf(name, 32, ".cay-%d-%016llx", (int)getpid(), (unsigned long long)random);
}

int draft_open(struct draft *d, int dir, const char *path, struct cay_error *err)
{
	*d = (struct draft){.dir = dir, .fd = -1};
	/* Its name will be found by way of /proc. */
	if (access("/proc/self/fd", X_OK) == 0)
		d->fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	else
		errno = EOPNOTSUPP;
	if (d->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		draft_name(d->temp);
		d->fd = openat(dir, d->temp, NAMED_FLAGS, 0600);
		if (d->fd < 0)
			d->temp[0] = '\0';
	}
	return d->fd < 0 ? agent_fail(err, errno, "write", path) : 0;
}

int draft_write(struct draft *d, const void *data, size_t len, const char *path,
		struct cay_error *err)
{
	int r = fd_write_all(d->fd, data, len);

	d->written += len;
	return r < 0 ? agent_fail(err, -r, "write", path) : 0;
}

static int give_name(struct draft *d, const char *name)
{
	char self[40];

	if (d->temp[0])
		return linkat(d->dir, d->temp, d->dir, name, 0);
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", d->fd);
	return linkat(AT_FDCWD, self, d->dir, name, AT_SYMLINK_FOLLOW);
}

static int replace(struct draft *d, const char *name)
{
	if (!d->temp[0]) {
		char temp[32];

		draft_name(temp);
		if (give_name(d, temp) < 0)
			return -1;
		memcpy(d->temp, temp, sizeof(temp));
	}
	if (renameat(d->dir, d->temp, d->dir, name) < 0)
		return -1;
	d->temp[0] = '\0';
	return 0;
}

static int set_meta(struct draft *d, const char *name, unsigned mode, long long mtime_ns)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
	struct stat old;

	if (mode == AGENT_MODE_KEEP && fstatat(d->dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(old.st_mode))
		mode = old.st_mode;
	else if (mode == AGENT_MODE_KEEP)
		mode = 0644;
	if (mtime_ns >= 0) {
		times[1].tv_sec = mtime_ns / 1000000000;
		times[1].tv_nsec = mtime_ns % 1000000000;
		if (futimens(d->fd, times) < 0)
			return -1;
	}
	return fchmod(d->fd, mode & 0777);
}

int draft_commit(struct draft *d, const char *name, unsigned mode, long long mtime_ns,
		 bool overwrite, const char *path, struct cay_error *err)
{
	int r = set_meta(d, name, mode, mtime_ns);

	if (r == 0) {
		r = give_name(d, name);
		if (r < 0 && errno == EEXIST && overwrite)
			r = replace(d, name);
	}
	if (r < 0)
		return agent_fail(err, errno, "write", path);
	draft_done(d);
	return 0;
}

void draft_done(struct draft *d)
{
	if (d->temp[0])
		(void)unlinkat(d->dir, d->temp, 0);
	d->temp[0] = '\0';
	fd_closep(&d->fd);
}
