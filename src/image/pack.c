#include "image/pack.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)64 << 10)

struct pack_job {
	const char *dir;
	int out;
};

static int fail(struct archive *a, const char *what, struct cay_error *err)
{
	const char *why = archive_error_string(a);

	(void)cay_fail(err, CAY_E_INVALID, 0, "%s: %s", what, why ? why : "out of memory");
	err->sys_errno = archive_errno(a);
	text_flatten(err->text, strlen(err->text));
	return -1;
}

static la_ssize_t put_output(struct archive *a, void *ctx, const void *data, size_t len)
{
	int r = fd_write_all(*(const int *)ctx, data, len);

	if (r == 0)
		return (la_ssize_t)len;
	archive_set_error(a, -r, "%s", strerror(-r));
	return -1;
}

static int copy_data(struct archive *from, struct archive *to, struct cay_error *err)
{
	static const char zeros[BLOCK_BYTES];
	const void *data;
	la_int64_t at, done = 0;
	size_t n;
	int r;

	while ((r = archive_read_data_block(from, &data, &n, &at)) == ARCHIVE_OK) {
		for (; done < at; done += (la_int64_t)size_min((size_t)(at - done), BLOCK_BYTES))
			if (archive_write_data(to, zeros,
					       size_min((size_t)(at - done), BLOCK_BYTES)) < 0)
				return fail(to, "write the tar", err);
		if (n > 0 && archive_write_data(to, data, n) < 0)
			return fail(to, "write the tar", err);
		done = at + (la_int64_t)n;
	}
	return r == ARCHIVE_EOF ? 0 : fail(from, "read a file", err);
}

/* "/srv/root/etc/passwd" of /srv/root is "./etc/passwd". */
static void rename_entry(struct archive_entry *e, size_t prefix)
{
	const char *path = archive_entry_pathname(e), *hard = archive_entry_hardlink(e);
	_cleanup_(buf_done) struct buf name = BUF(2 * PATH_MAX), link = BUF(2 * PATH_MAX);

	if (path && strlen(path) >= prefix && buf_printf(&name, ".%s", path + prefix) == 0)
		archive_entry_copy_pathname(e, buf_str(&name));
	if (hard && strlen(hard) >= prefix && buf_printf(&link, ".%s", hard + prefix) == 0)
		archive_entry_copy_hardlink(e, buf_str(&link));
}

static int pack_entry(struct archive *disk, struct archive *tar, struct archive_entry *e,
		      size_t prefix, struct cay_error *err)
{
	int r;

	/* No sockets: a tar has none. */
	if (archive_entry_filetype(e) == AE_IFSOCK)
		return 0;
	rename_entry(e, prefix);
	r = archive_write_header(tar, e);
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return fail(tar, "write the tar", err);
	return archive_entry_size(e) > 0 ? copy_data(disk, tar, err) : 0;
}

static int pack(struct archive *disk, struct archive *tar, struct archive_entry_linkresolver *links,
		const struct pack_job *job, struct cay_error *err)
{
	struct archive_entry *e, *spare;
	int r;

	if (archive_read_disk_open(disk, job->dir) != ARCHIVE_OK)
		return fail(disk, "open the directory", err);
	for (;;) {
		e = archive_entry_new();
		r = e ? archive_read_next_header2(disk, e) : ARCHIVE_FATAL;
		if (r == ARCHIVE_EOF) {
			archive_entry_free(e);
			return 0;
		}
		if (r != ARCHIVE_OK) {
			archive_entry_free(e);
			return fail(disk, "read the directory", err);
		}
		(void)archive_read_disk_descend(disk);
		archive_entry_linkify(links, &e, &spare);
		r = e ? pack_entry(disk, tar, e, strlen(job->dir), err) : 0;
		archive_entry_free(e);
		if (r < 0)
			return -1;
	}
}

static int run(void *ctx, int tell _unused_, struct buf *result _unused_, struct cay_error *err)
{
	struct pack_job *job = ctx;
	struct archive *disk = archive_read_disk_new(), *tar = archive_write_new();
	struct archive_entry_linkresolver *links = archive_entry_linkresolver_new();
	int r = -1;

	if (!disk || !tar || !links || archive_write_set_format_pax_restricted(tar) != ARCHIVE_OK ||
	    archive_write_open(tar, &job->out, NULL, put_output, NULL) != ARCHIVE_OK) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "write a tar");
	} else {
		archive_entry_linkresolver_set_strategy(links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
		(void)archive_read_disk_set_symlink_physical(disk);
		(void)archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS |
								   ARCHIVE_READDISK_NO_ACL |
								   ARCHIVE_READDISK_NO_FFLAGS);
		r = pack(disk, tar, links, job, err);
		if (r == 0 && archive_write_close(tar) != ARCHIVE_OK)
			r = fail(tar, "write the tar", err);
	}
	if (links)
		archive_entry_linkresolver_free(links);
	if (tar)
		(void)archive_write_free(tar);
	if (disk)
		(void)archive_read_free(disk);
	return r;
}

int pack_start(struct packing *p, const char *dir, int *ret_fd, struct cay_error *err)
{
	int pipe[2], r;
	struct pack_job job = {.dir = dir};
	const struct child_job child = {.kind = CHILD_OPEN,
					.fds = &job.out,
					.n_fds = 1,
					.one_id = true,
					.run = run,
					.ctx = &job};

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "read %s", dir);
	job.out = pipe[1];
	r = child_start(&p->child, &child, err);
	fd_closep(&pipe[1]);
	if (r < 0)
		fd_closep(&pipe[0]);
	else
		*ret_fd = pipe[0];
	return r;
}

int pack_end(struct packing *p, struct cay_error *err)
{
	return p->child.pid > 0 ? child_wait(&p->child, NULL, NULL, NULL, err) : 0;
}
