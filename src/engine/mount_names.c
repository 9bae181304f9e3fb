#include "engine/mount_names.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "engine/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MOUNTINFO_MAX (16u << 20)

bool mount_name_join(char *out, size_t size, const char *dir, const char *rest)
{
	int n = snprintf(out, size, "%s%s", strcmp(dir, "/") == 0 ? "" : dir, rest);

	if (n == 0)
		n = snprintf(out, size, "/");
	return n > 0 && (size_t)n < size;
}

static int unreadable(int r, struct cay_error *err)
{
	return cay_fail(err, CAY_E_INTERNAL, -r, "read the list of mounts");
}

/*
 * A directory can have more names than the one it was opened by: bind mounts
 * show a forbidden one elsewhere. fs_path is where it lies in its file system;
 * every mount of that file system gives it a name, and none may be forbidden.
 */
static int check_aliases(const struct mount_rules *rules, const char *info,
			 const struct mount_line *self, const char *fs_path, struct cay_error *err)
{
	struct mount_line m;
	int r;

	while ((r = mountinfo_next(&info, &m)) > 0) {
		char name[PATH_MAX];

		if (m.major != self->major || m.minor != self->minor)
			continue;
		if (path_is_within(fs_path, m.root)) {
			const char *rest =
				fs_path + (strcmp(m.root, "/") == 0 ? 0 : strlen(m.root));

			if (!mount_name_join(name, sizeof(name), m.point, rest))
				return cay_fail(err, CAY_E_POLICY, 0, "a path is too long");
			if (mount_check_forbidden(rules, name, err) < 0)
				return -1;
		} else if (path_is_within(m.root, fs_path) &&
			   mount_check_forbidden(rules, m.point, err) < 0) {
			return -1; /* something below it is mounted where nothing may come from */
		}
	}
	return r < 0 ? unreadable(r, err) : 0;
}

/* Judges the directory at path, which lies on the mount self, by all its names. */
static int check_names(const struct mount_rules *rules, const char *info,
		       const struct mount_line *self, const char *path, struct cay_error *err)
{
	char fs_path[PATH_MAX];
	const char *rest = path + (strcmp(self->point, "/") == 0 ? 0 : strlen(self->point));

	if (!mount_name_join(fs_path, sizeof(fs_path), self->root,
			     strcmp(rest, "/") == 0 ? "" : rest))
		return cay_fail(err, CAY_E_POLICY, 0, "the path %s is too long", path);
	return check_aliases(rules, info, self, fs_path, err);
}

/* The mount that an fd is on: by number, because mount points can be covered by others. */
static int mount_id(int fd, unsigned *ret)
{
	char file[48], text[512];
	const char *line;

	(void)snprintf(file, sizeof(file), "/proc/self/fdinfo/%d", fd);
	if (fd_read_text_at(AT_FDCWD, file, text, sizeof(text)) < 0)
		return -errno;
	line = strstr(text, "mnt_id:");
	return line && sscanf(line, "mnt_id: %u", ret) == 1 ? 0 : -EINVAL;
}

int mount_check_names(const struct mount_rules *rules, int fd, const char *path, bool overlay,
		      struct cay_error *err)
{
	_cleanup_(buf_done) struct buf info = BUF(MOUNTINFO_MAX);
	struct mount_line self = {0}, m;
	unsigned id = 0;
	int r = mount_id(fd, &id);

	if (r == 0)
		r = fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", &info);
	if (r < 0)
		return unreadable(r, err);
	for (const char *at = buf_str(&info); (r = mountinfo_next(&at, &m)) > 0;) {
		if (m.id == id)
			self = m;
		/* The layer would show what such a mount covers. */
		else if (overlay && path_is_within(m.point, path))
			return cay_fail(err, CAY_E_UNSUPPORTED, 0,
					"%s is mounted below %s: no overlay can be laid over that",
					m.point, path);
		else if (path_is_within(m.point, path) &&
			 check_names(rules, buf_str(&info), &m, m.point, err) < 0)
			return cay_wrap(err, "%s is mounted below %s", m.point, path);
	}
	if (r < 0)
		return unreadable(r, err);
	if (self.id == 0 || !path_is_within(path, self.point))
		return cay_fail(err, CAY_E_POLICY, 0, "the mount that holds %s is out of sight",
				path);
	return check_names(rules, buf_str(&info), &self, path, err);
}
