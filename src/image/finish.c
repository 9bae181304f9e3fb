#include "image/finish.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/host.h"
#include "image/layer.h"
#include "image/wipe.h"
#include "policy/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACCOUNTS_MAX (4u << 20)

static const struct {
	const char *name;
	mode_t mode; /* where the image has none */
} dirs[] = {
	{"proc", 0555},      {"sys", 0555}, {"dev", 0755}, {"tmp", 01777},
	{"workspace", 0755}, {"run", 0755}, {"etc", 0755}, {"var", 0755},
};

/* Files that are the same for all islands (host.c has them); of an image, its own are not asked
 * for. */
static const char *const replaced[] = {"etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"};

static int make_dirs(int root, uint64_t *bytes, struct cay_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		struct stat st;
		int r = mkdirat(root, dirs[i].name, dirs[i].mode);

		if (r == 0) {
			*bytes += LAYER_BLOCK;
			continue;
		}
		if (errno == EEXIST)
			r = fstatat(root, dirs[i].name, &st, AT_SYMLINK_NOFOLLOW);
		if (r < 0)
			return cay_fail(err, CAY_E_INTERNAL, errno, "make /%s of the image",
					dirs[i].name);
		if (!S_ISDIR(st.st_mode))
			return cay_fail(err, CAY_E_INVALID, 0,
					"/%s of the image is no directory, and can't be used",
					dirs[i].name);
	}
	return 0;
}

static const struct host_item *host_item(const char *path)
{
	for (size_t i = 0; i < n_host_items; i++)
		if (host_items[i].kind != HOST_WHEN && strcmp(host_items[i].path, path) == 0)
			return &host_items[i];
	abort(); /* a table of ours names what another has not */
}

/* A new file: the one of that name is the layer's, and not to be written to. */
static int put_file(int root, const char *path, const char *text, size_t len, uint64_t *bytes)
{
	*bytes += (len + LAYER_BLOCK - 1) / LAYER_BLOCK * LAYER_BLOCK;
	return fd_create_file_at(root, path, text, len, 0644);
}

static int replace_files(int root, uint64_t *bytes, struct cay_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(replaced); i++) {
		const struct host_item *item = host_item(replaced[i]);
		int r = unlinkat(root, item->path, 0) < 0 && errno != ENOENT ? -errno : 0;

		if (r == -EISDIR)
			return cay_fail(err, CAY_E_INVALID, 0, "/%s of the image is a directory",
					item->path);
		if (r == 0 && item->kind == HOST_SYMLINK)
			r = symlinkat(item->text, root, item->path) < 0 ? -errno : 0;
		else if (r == 0)
			r = put_file(root, item->path, item->text, strlen(item->text), bytes);
		if (r < 0)
			return cay_fail(err, CAY_E_INTERNAL, -r, "make /%s of the image",
					item->path);
	}
	return 0;
}

/* Both are one, unless the image keeps something there: an island has one scratch. */
static int join_tmp(int root, struct cay_error *err)
{
	const struct host_item *item = host_item("var/tmp");

	if (unlinkat(root, item->path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return 0;
	return symlinkat(item->text, root, item->path) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, errno, "make /%s of the image", item->path)
		       : 0;
}

/* The third field, of passwd and group alike. */
static bool has_id(const char *text, unsigned long id)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *end, *field;
		char *behind;

		line += *line == '\n';
		end = strchrnul(line, '\n');
		field = memchr(line, ':', (size_t)(end - line));
		field = field ? memchr(field + 1, ':', (size_t)(end - field - 1)) : NULL;
		if (field && strtoul(field + 1, &behind, 10) == id && behind > field + 1 &&
		    *behind == ':')
			return true;
		line = end;
	}
	return false;
}

/* The line of "cay" in what the host's islands have. */
static const char *own_line(const char *text, size_t *ret_len)
{
	const char *line = strstr(text, "\ncay:");

	*ret_len = strcspn(line + 1, "\n") + 1;
	return line + 1;
}

static int add_account(int root, const char *path, struct buf *text, uint64_t *bytes)
{
	size_t len;
	const char *line = own_line(host_item(path)->text, &len);
	int r = 0;

	if (has_id(buf_str(text), ISLAND_UID))
		return 0;
	if (text->len > 0 && text->data[text->len - 1] != '\n')
		r = buf_append(text, "\n", 1);
	if (r == 0)
		r = buf_append(text, line, len);
	if (r == 0 && unlinkat(root, path, 0) < 0)
		r = -errno;
	return r < 0 ? r : put_file(root, path, text->data, text->len, bytes);
}

/* A link is left alone: where it leads, others have written what they wanted. */
static int name_user(int root, const char *path, uint64_t *bytes, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(ACCOUNTS_MAX);
	_cleanup_(fd_closep) int fd = -1;
	const char *whole = host_item(path)->text;
	struct stat st;
	int r = 0;

	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		r = errno == ENOENT ? put_file(root, path, whole, strlen(whole), bytes) : -errno;
	} else if (S_ISREG(st.st_mode)) {
		fd = openat(root, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : fd_read_all(fd, &text);
		if (r == 0)
			r = add_account(root, path, &text, bytes);
	}
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "/%s of the image can't be used", path) : 0;
}

int finish_root(int root_fd, uint64_t *bytes, struct cay_error *err)
{
	_cleanup_(fd_closep) int dev = -1;
	int r;

	if (make_dirs(root_fd, bytes, err) < 0)
		return -1;
	dev = openat(root_fd, "dev", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dev < 0 ? -errno : wipe_inside(dev, NULL);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "empty /dev of the image");
	if (replace_files(root_fd, bytes, err) < 0 || join_tmp(root_fd, err) < 0)
		return -1;
	if (name_user(root_fd, "etc/passwd", bytes, err) < 0)
		return -1;
	return name_user(root_fd, "etc/group", bytes, err);
}
