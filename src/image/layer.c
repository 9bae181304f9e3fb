/*
 * layer.c: unpacks a layer.
 *
 * libarchive reads the tar, and nothing else of it is used: what is written is made here, by one
 * call for one name in a directory that cursor.c has walked to. A later entry of the same name
 * replaces an earlier one, but for a directory that has something in it.
 */
#include "image/layer.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/text.h"
#include "image/cursor.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define INPUT_BYTES ((size_t)256 << 10)
/* Of the tar, beside what it brings: headers, and data of what is not kept. */
#define HEAD_BYTES  1024ull
#define SPARE_BYTES (64ull << 20)
#define ID_MAX      65535

struct unpacking {
	const struct layer_limits *limits;
	struct layer_count count;
	struct archive *archive;
	int tar_fd, read_error;
	uint64_t tar_bytes;
	char *input;
	char path[PATH_MAX]; /* of the entry at hand */
	int dir;             /* where it goes */
	const char *leaf;    /* and as what */
	struct timespec top_mtime;
	bool top_told;          /* the top has an entry of its own */
	struct cursor to, from; /* from: what hard links lead to */
	struct cay_error *err;
};

static int refuse(struct unpacking *u, enum cay_code code, int sys_errno, const char *what)
{
	(void)cay_fail(u->err, code, sys_errno, "'%.300s' in the layer %s", u->path, what);
	text_flatten(u->err->text, strlen(u->err->text));
	return -1;
}

/* A call for this entry failed. */
static int failed(struct unpacking *u, int sys_errno)
{
	if (sys_errno == ENOSPC || sys_errno == EDQUOT)
		return refuse(u, CAY_E_TOO_LARGE, sys_errno, "does not fit the disk");
	return refuse(u, CAY_E_INVALID, sys_errno, "can't be unpacked");
}

int layer_too_large(struct cay_error *err, const char *what)
{
	(void)cay_fail(err, CAY_E_TOO_LARGE, 0, "the layer has %s", what);
	return cay_hint(err, LAYER_ROOM_HINT);
}

static la_ssize_t get_input(struct archive *a, void *ctx, const void **ret)
{
	struct unpacking *u = ctx;
	uint64_t most = u->limits->bytes + SPARE_BYTES + HEAD_BYTES * u->count.entries;
	ssize_t n;

	do
		n = read(u->tar_fd, u->input, INPUT_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		archive_set_error(a, errno, "can't read the layer");
		return ARCHIVE_FATAL;
	}
	u->tar_bytes += (uint64_t)n;
	if (u->tar_bytes > most) {
		u->read_error = EFBIG;
		archive_set_error(a, EFBIG, "too much");
		return ARCHIVE_FATAL;
	}
	*ret = u->input;
	return n;
}

static int fail_archive(struct unpacking *u)
{
	const char *why = archive_error_string(u->archive);

	if (u->read_error == EFBIG)
		return layer_too_large(u->err, "more in it than there is room for");
	(void)cay_fail(u->err, CAY_E_INVALID, 0, "the layer is no tar that can be read: %s",
		       why ? why : "out of memory");
	text_flatten(u->err->text, strlen(u->err->text));
	return -1;
}

static int add_bytes(struct unpacking *u, uint64_t bytes)
{
	if (bytes > u->limits->bytes || u->count.bytes > u->limits->bytes - bytes)
		return layer_too_large(u->err, "more in it than there is room for");
	u->count.bytes += bytes;
	return 0;
}

/* What has the name goes, if it can; a directory that has something in it can't. */
static int clear_name(struct unpacking *u)
{
	struct stat st;

	if (fstatat(u->dir, u->leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(u, errno);
	/* Marks of our own in it don't count. */
	if (S_ISDIR(st.st_mode)) {
		_cleanup_(fd_closep) int dir =
			openat(u->dir, u->leaf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		(void)unlinkat(dir, LAYER_IMPLIED, 0);
		cursor_leave(&u->from);
	}
	if (unlinkat(u->dir, u->leaf, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		return errno == ENOTEMPTY ? refuse(u, CAY_E_INVALID, 0,
						   "is a directory that has something in it, and "
						   "then something else")
					  : failed(u, errno);
	return 0;
}

static mode_t mode_of(const struct unpacking *u, struct archive_entry *e, bool dir)
{
	/* No set-id bits: nobody becomes anybody by a file of an image. */
	mode_t mode = archive_entry_perm(e) & (dir ? 01777 : 0777);

	if (u->limits->one_id)
		mode |= dir ? 0700 : 0400;
	return mode;
}

static struct timespec mtime_of(struct archive_entry *e)
{
	return (struct timespec){.tv_sec = archive_entry_mtime(e),
				 .tv_nsec = archive_entry_mtime_nsec(e)};
}

static int check_ids(struct unpacking *u, struct archive_entry *e)
{
	la_int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);

	if (uid < 0 || uid > ID_MAX || gid < 0 || gid > ID_MAX)
		return refuse(u, CAY_E_INVALID, 0, "belongs to an id above 65535");
	return 0;
}

static int set_owner(struct unpacking *u, struct archive_entry *e)
{
	uid_t uid = (uid_t)archive_entry_uid(e);
	gid_t gid = (gid_t)archive_entry_gid(e);

	/* It is 0 that makes them. */
	if (u->limits->one_id || (uid == 0 && gid == 0))
		return 0;
	if (fchownat(u->dir, u->leaf, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(u, errno);
	return 0;
}

static int set_mtime(struct unpacking *u, struct archive_entry *e)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};

	if (utimensat(u->dir, u->leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(u, errno);
	return 0;
}

/* Those that are for the programs inside; the others say something to the kernel. */
static bool is_wanted(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

static int set_xattrs(struct unpacking *u, struct archive_entry *e, int fd)
{
	const char *name;
	const void *value;
	size_t size;

	(void)archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
		if (!name || !is_wanted(name))
			continue;
		if (size > LAYER_XATTR_MAX)
			return refuse(u, CAY_E_INVALID, 0, "has too large an attribute");
		/* A file system without any, or without room for more: as if it had none. */
		if (fsetxattr(fd, name, value, size, 0) < 0 && errno != EOPNOTSUPP &&
		    errno != ENOSPC && errno != E2BIG)
			return failed(u, errno);
	}
	return 0;
}

/* Sparse as it came. */
static int write_data(struct unpacking *u, int fd, la_int64_t size)
{
	la_int64_t end = 0, at = 0;
	const void *data;
	size_t n;
	int r;

	while ((r = archive_read_data_block(u->archive, &data, &n, &at)) == ARCHIVE_OK ||
	       r == ARCHIVE_WARN) {
		/* A piece behind a hole begins a block of its own. */
		if (add_bytes(u, n) < 0 || (at != end && add_bytes(u, LAYER_BLOCK) < 0))
			return -1;
		if (at != end && lseek(fd, at, SEEK_SET) < 0)
			return failed(u, errno);
		r = fd_write_all(fd, data, n);
		if (r < 0)
			return failed(u, -r);
		end = at + (la_int64_t)n;
	}
	if (r != ARCHIVE_EOF)
		return fail_archive(u);
	if (end < size && ftruncate(fd, size) < 0)
		return failed(u, errno);
	return add_bytes(u, (LAYER_BLOCK - (uint64_t)end % LAYER_BLOCK) % LAYER_BLOCK);
}

static int open_new(struct unpacking *u, mode_t mode, int *ret_fd)
{
	const int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

	*ret_fd = openat(u->dir, u->leaf, how, mode);
	if (*ret_fd >= 0)
		return 0;
	if (errno != EEXIST)
		return failed(u, errno);
	if (clear_name(u) < 0)
		return -1;
	*ret_fd = openat(u->dir, u->leaf, how, mode);
	return *ret_fd < 0 ? failed(u, errno) : 0;
}

static int make_file(struct unpacking *u, struct archive_entry *e)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
	/* Attributes are only for those who may write to it. */
	mode_t mode = mode_of(u, e, false), first = mode | 0200;
	_cleanup_(fd_closep) int fd = -1;

	if (open_new(u, first, &fd) < 0 || set_xattrs(u, e, fd) < 0 ||
	    write_data(u, fd, archive_entry_size(e)) < 0 || set_owner(u, e) < 0)
		return -1;
	if (first != mode && fchmod(fd, mode) < 0)
		return failed(u, errno);
	return futimens(fd, times) < 0 ? failed(u, errno) : 0;
}

static int make_dir(struct unpacking *u, struct archive_entry *e)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (fstatat(u->dir, u->leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
	    clear_name(u) < 0)
		return -1;
	if (mkdirat(u->dir, u->leaf, 0700) < 0 && errno != EEXIST)
		return failed(u, errno);
	fd = openat(u->dir, u->leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed(u, errno);
	(void)unlinkat(fd, LAYER_IMPLIED, 0);
	if (set_owner(u, e) < 0 || add_bytes(u, LAYER_BLOCK) < 0)
		return -1;
	if (fchmod(fd, mode_of(u, e, true)) < 0 || futimens(fd, times) < 0)
		return failed(u, errno);
	return 0;
}

static int make_symlink(struct unpacking *u, struct archive_entry *e)
{
	const char *target = archive_entry_symlink(e);

	if (!target || !*target || strlen(target) >= PATH_MAX)
		return refuse(u, CAY_E_INVALID, 0,
			      "is a link without a target, or with too long a one");
	if (symlinkat(target, u->dir, u->leaf) < 0) {
		if (errno != EEXIST)
			return failed(u, errno);
		if (clear_name(u) < 0)
			return -1;
		if (symlinkat(target, u->dir, u->leaf) < 0)
			return failed(u, errno);
	}
	return set_owner(u, e) < 0 ? -1 : set_mtime(u, e);
}

static int make_fifo(struct unpacking *u, struct archive_entry *e)
{
	mode_t mode = S_IFIFO | mode_of(u, e, false);

	if (mknodat(u->dir, u->leaf, mode, 0) < 0) {
		if (errno != EEXIST)
			return failed(u, errno);
		if (clear_name(u) < 0)
			return -1;
		if (mknodat(u->dir, u->leaf, mode, 0) < 0)
			return failed(u, errno);
	}
	return set_owner(u, e) < 0 ? -1 : set_mtime(u, e);
}

/* To a file of this layer, which is there; through no link either. */
static int make_hard_link(struct unpacking *u, const char *raw)
{
	char target[PATH_MAX];
	const char *leaf;
	struct stat st, own;
	int dir, r;

	if (cursor_plain(raw, target) < 0 || !target[0] ||
	    cursor_go(&u->from, target, &dir, &leaf) < 0 ||
	    strncmp(leaf, LAYER_WHITEOUT, sizeof(LAYER_WHITEOUT) - 1) == 0 ||
	    fstatat(dir, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode))
		return refuse(u, CAY_E_INVALID, 0,
			      "is a hard link to what is no file of the layer");
	if (st.st_nlink >= LAYER_LINKS_MAX)
		return refuse(u, CAY_E_INVALID, 0,
			      "is a hard link to a file that has too many already");
	if (fstatat(u->dir, u->leaf, &own, AT_SYMLINK_NOFOLLOW) == 0) {
		if (own.st_ino == st.st_ino && own.st_dev == st.st_dev)
			return 0;
		/* Where it was a directory, we may have stood in it. */
		if (clear_name(u) < 0)
			return -1;
		r = cursor_go(&u->from, target, &dir, &leaf);
		if (r < 0)
			return failed(u, -r);
	}
	return linkat(dir, leaf, u->dir, u->leaf, 0) < 0 ? failed(u, errno) : 0;
}

/* 1: it was a whiteout, and is dealt with. */
static int try_whiteout(struct unpacking *u, struct archive_entry *e)
{
	const char *of = u->leaf + sizeof(LAYER_WHITEOUT) - 1;
	int fd;

	if (strncmp(u->leaf, LAYER_WHITEOUT, sizeof(LAYER_WHITEOUT) - 1) != 0)
		return 0;
	if (strncmp(u->leaf, LAYER_RESERVED, sizeof(LAYER_RESERVED) - 1) == 0 &&
	    strcmp(u->leaf, LAYER_OPAQUE) != 0)
		return 1;
	if (archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e) || !*of ||
	    strcmp(of, ".") == 0 || strcmp(of, "..") == 0)
		return refuse(u, CAY_E_INVALID, 0, "is no whiteout that can be");
	if (open_new(u, 0600, &fd) < 0)
		return -1;
	fd_closep(&fd);
	return 1;
}

/* "./": the tree itself. */
static int set_top(struct unpacking *u, struct archive_entry *e)
{
	if (archive_entry_filetype(e) != AE_IFDIR)
		return refuse(u, CAY_E_INVALID, 0, "has no name");
	u->dir = u->to.top;
	u->leaf = ".";
	u->top_mtime = mtime_of(e);
	u->top_told = true;
	if (set_owner(u, e) < 0)
		return -1;
	return fchmod(u->to.top, mode_of(u, e, true)) < 0 ? failed(u, errno) : 0;
}

static int add_entries(struct unpacking *u, uint64_t n)
{
	if (n > u->limits->entries || u->count.entries > u->limits->entries - n)
		return layer_too_large(u->err, "too many entries");
	u->count.entries += n;
	return 0;
}

/* Directories on the way, which have no entry, count as if they had: a name can have hundreds. */
static int find_place(struct unpacking *u)
{
	int r = cursor_go(&u->to, u->path, &u->dir, &u->leaf);
	uint64_t made = u->to.made;

	u->to.made = 0;
	if (made > 0 && (add_entries(u, made) < 0 || add_bytes(u, made * LAYER_BLOCK) < 0))
		return -1;
	switch (r) {
	case -ENOTDIR:
		return refuse(u, CAY_E_INVALID, 0, "lies below what is no directory");
	case -EINVAL:
		return refuse(u, CAY_E_INVALID, 0, "lies below a whiteout");
	default:
		return r < 0 ? failed(u, -r) : 0;
	}
}

static int make_entry(struct unpacking *u, struct archive_entry *e)
{
	const char *hard = archive_entry_hardlink(e);
	int r = try_whiteout(u, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (hard)
		return make_hard_link(u, hard);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return make_file(u, e);
	case AE_IFDIR:
		return make_dir(u, e);
	case AE_IFLNK:
		return make_symlink(u, e);
	case AE_IFIFO:
		return make_fifo(u, e);
	case AE_IFCHR:
	case AE_IFBLK:
		u->count.left_out++;
		return 0;
	default:
		return refuse(u, CAY_E_INVALID, 0, "is of a kind that no image has");
	}
}

static int unpack_entry(struct unpacking *u, struct archive_entry *e)
{
	const char *raw = archive_entry_pathname(e);
	int r;

	if (add_entries(u, 1) < 0)
		return -1;
	(void)snprintf(u->path, sizeof(u->path), "%s", raw ? raw : "?");
	if (!raw)
		return refuse(u, CAY_E_INVALID, 0, "has a name that can't be read");
	r = cursor_plain(raw, u->path);
	if (r < 0) {
		(void)snprintf(u->path, sizeof(u->path), "%s", raw);
		return refuse(u, CAY_E_INVALID, 0,
			      r == -EINVAL ? "leads out of it" : "has too long a name");
	}
	if (check_ids(u, e) < 0)
		return -1;
	if (!u->path[0])
		return set_top(u, e);
	return find_place(u) < 0 ? -1 : make_entry(u, e);
}

static int unpack_all(struct unpacking *u)
{
	struct archive_entry *e;
	const void *rest;
	la_ssize_t n;
	int r = archive_read_open(u->archive, u, NULL, get_input, NULL);

	if (r != ARCHIVE_OK)
		return fail_archive(u);
	while ((r = archive_read_next_header(u->archive, &e)) != ARCHIVE_EOF) {
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return fail_archive(u);
		if (unpack_entry(u, e) < 0)
			return -1;
	}
	/* What is behind its end counts for its digest, which another process makes. */
	do
		n = get_input(u->archive, u, &rest);
	while (n > 0);
	return n < 0 ? fail_archive(u) : 0;
}

static int end(struct unpacking *u)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, u->top_mtime};
	char text[128];
	int r;

	(void)snprintf(text, sizeof(text), "%llu %llu %llu\n", (unsigned long long)u->count.bytes,
		       (unsigned long long)u->count.entries, (unsigned long long)u->count.left_out);
	cursor_leave(&u->to);
	r = fd_create_file_at(u->to.top, LAYER_FACTS, text, strlen(text), 0600);
	if (r == 0 && !u->top_told)
		r = fd_create_file_at(u->to.top, LAYER_IMPLIED, "", 0, 0600);
	if (r == 0 && futimens(u->to.top, times) < 0)
		r = -errno;
	return r < 0 ? cay_fail(u->err, CAY_E_INTERNAL, -r, "finish the layer") : 0;
}

int layer_unpack(int tar_fd, int tree_fd, const struct layer_limits *limits,
		 struct layer_count *ret, struct cay_error *err)
{
	struct unpacking *u = calloc(1, sizeof(*u));
	int r = -1;

	if (u) {
		u->input = malloc(INPUT_BYTES);
		u->archive = archive_read_new();
	}
	if (!u || !u->input || !u->archive ||
	    archive_read_support_format_tar(u->archive) != ARCHIVE_OK ||
	    archive_read_support_format_empty(u->archive) != ARCHIVE_OK) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read a layer");
	} else {
		u->limits = limits;
		u->tar_fd = tar_fd;
		u->err = err;
		cursor_init(&u->to, tree_fd, true);
		cursor_init(&u->from, tree_fd, false);
		r = unpack_all(u) < 0 || end(u) < 0 ? -1 : 0;
		cursor_leave(&u->to);
		cursor_leave(&u->from);
		*ret = u->count;
	}
	if (u && u->archive)
		(void)archive_read_free(u->archive);
	if (u)
		free(u->input);
	free(u);
	return r;
}
