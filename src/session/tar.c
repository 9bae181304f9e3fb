/*
 * libarchive writes by being called, but reads by calling: it asks for bytes in the
 * middle of a header and can't be told to come back later. So the reader runs on a
 * stack of its own (ucontext): where it needs bytes that are not there yet, or has
 * something to give, it goes back to its caller, who comes again when it likes.
 * One thread, no locks, and as much in memory as libarchive keeps at once.
 */
#include "session/tar.h"

#include "base/attr.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * Names are UTF-8 in archives, and libarchive asks the locale how ours are written.
 * Only for its calls, and where there is no such locale it is the caller's.
 */
static locale_t utf8_begin(void)
{
	static locale_t utf8;

	if (!utf8)
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
	return utf8 ? uselocale(utf8) : NULL;
}

static void utf8_end(locale_t old)
{
	if (old)
		(void)uselocale(old);
}

/*
 * Out
 */

struct tar_writer {
	struct archive *archive;
	struct archive_entry *entry;
	void (*out)(void *ctx, const void *data, size_t len);
	void *ctx;
};

static int fail(struct archive *a, struct cay_error *err, enum cay_code code, const char *what)
{
	const char *why = archive_error_string(a);

	(void)cay_fail(err, code, 0, "%s: %s", what, why ? why : "out of memory");
	text_flatten(err->text, strlen(err->text));
	return -1;
}

static la_ssize_t pass_on(struct archive *a _unused_, void *ctx, const void *data, size_t len)
{
	struct tar_writer *w = ctx;

	w->out(w->ctx, data, len);
	return (la_ssize_t)len;
}

static int set_filter(struct archive *a, enum tar_filter filter)
{
	switch (filter) {
	case TAR_GZIP:
		return archive_write_add_filter_gzip(a);
	case TAR_ZSTD:
		return archive_write_add_filter_zstd(a);
	case TAR_PLAIN:
	default:
		return ARCHIVE_OK;
	}
}

struct tar_writer *tar_writer_new(enum tar_filter filter,
				  void (*out)(void *ctx, const void *data, size_t len), void *ctx,
				  struct cay_error *err)
{
	_cleanup_(tar_writer_freep) struct tar_writer *w = calloc(1, sizeof(*w));

	if (w) {
		w->archive = archive_write_new();
		w->entry = archive_entry_new();
		w->out = out;
		w->ctx = ctx;
	}
	if (!w || !w->archive || !w->entry) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "begin an archive");
		return NULL;
	}
	/* Filters that are other programs are not what we want: they answer ARCHIVE_WARN. */
	if (archive_write_set_format_pax_restricted(w->archive) != ARCHIVE_OK ||
	    set_filter(w->archive, filter) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(w->archive, 65536) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(w->archive, 1) != ARCHIVE_OK ||
	    archive_write_open(w->archive, w, NULL, pass_on, NULL) != ARCHIVE_OK) {
		(void)fail(w->archive, err, CAY_E_INTERNAL, "begin an archive");
		return NULL;
	}
	return take_ptr(&w);
}

int tar_writer_entry(struct tar_writer *w, const struct agent_file *f, struct cay_error *err)
{
	static const unsigned types[AGENT_TYPES] = {
		[AGENT_FILE] = AE_IFREG, [AGENT_DIR] = AE_IFDIR, [AGENT_LINK] = AE_IFLNK};
	struct archive_entry *e = archive_entry_clear(w->entry);
	locale_t old;
	int r;

	if (f->type >= AGENT_TYPES || types[f->type] == 0)
		return 0;
	archive_entry_set_pathname(e, f->path + strspn(f->path, "/"));
	if (f->type == AGENT_LINK)
		archive_entry_set_symlink(e, f->target);
	archive_entry_set_filetype(e, types[f->type]);
	archive_entry_set_perm(e, (__LA_MODE_T)(f->mode & 0777));
	archive_entry_set_size(e, f->type == AGENT_FILE ? (la_int64_t)f->size : 0);
	archive_entry_set_mtime(e, (time_t)(f->mtime_ns / 1000000000),
				(long)(f->mtime_ns % 1000000000));
	/* ARCHIVE_WARN: a name that is no UTF-8, written as the bytes that it is. */
	old = utf8_begin();
	r = archive_write_header(w->archive, e);
	utf8_end(old);
	if (r < ARCHIVE_WARN)
		return fail(w->archive, err, CAY_E_INTERNAL, "write an archive");
	return 0;
}

int tar_writer_data(struct tar_writer *w, const void *data, size_t len, struct cay_error *err)
{
	const char *p = data;

	while (len > 0) {
		la_ssize_t n = archive_write_data(w->archive, p, len);

		if (n < 0)
			return fail(w->archive, err, CAY_E_INTERNAL, "write an archive");
		if (n == 0)
			break; /* more than the entry said */
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int tar_writer_end(struct tar_writer *w, struct cay_error *err)
{
	return archive_write_close(w->archive) != ARCHIVE_OK
		       ? fail(w->archive, err, CAY_E_INTERNAL, "end an archive")
		       : 0;
}

/* What it still holds is not written: the archive was ended, or broken off. */
void tar_writer_free(struct tar_writer *w)
{
	if (!w)
		return;
	if (w->archive) {
		(void)archive_write_fail(w->archive);
		(void)archive_write_free(w->archive);
	}
	archive_entry_free(w->entry);
	free(w);
}

void tar_writer_freep(struct tar_writer **w)
{
	tar_writer_free(*w);
}

/*
 * In
 */

#define STACK_BYTES (512u << 10)

struct tar_reader {
	struct archive *archive;
	ucontext_t caller, own;
	char *stack; /* with a page below it that nobody may touch */
	size_t guard;
	bool begun, over, leave;
	int step; /* what it came back with */
	struct tar_item item;
	struct cay_error err;
	/* What it was fed. */
	const void *input;
	size_t input_len;
	bool input_there;
	char path[AGENT_PATH_MAX + 1], target[AGENT_PATH_MAX + 1];
	char data[AGENT_CHUNK];
};

/* On its own stack: back to the caller, until that comes again. */
static void come_back(struct tar_reader *r, int step)
{
	r->step = step;
	(void)swapcontext(&r->own, &r->caller);
}

static la_ssize_t get_input(struct archive *a, void *ctx, const void **ret)
{
	struct tar_reader *r = ctx;

	while (!r->input_there && !r->leave)
		come_back(r, TAR_NEEDS_INPUT);
	if (r->leave) {
		archive_set_error(a, ECANCELED, "broken off");
		return -1;
	}
	/* The end stays the end. */
	r->input_there = r->input_len == 0;
	*ret = r->input;
	return (la_ssize_t)r->input_len;
}

static int bad(struct tar_reader *r, const char *path, const char *why)
{
	(void)cay_fail(&r->err, CAY_E_INVALID, 0, "the archive's entry '%s' %s", path, why);
	text_flatten(r->err.text, strlen(r->err.text));
	return -1;
}

/* Without "." and empty parts. "" is the top itself. */
static int plain_path(struct tar_reader *r, const char *raw, char plain[AGENT_PATH_MAX + 1])
{
	const char *p = raw;
	size_t at = 0;

	if (!p)
		return bad(r, "?", "has no name");
	if (*p == '/')
		return bad(r, raw, "has an absolute name");
	while (*p) {
		size_t len = strcspn(p, "/");

		if (len == 2 && p[0] == '.' && p[1] == '.')
			return bad(r, raw, "leads out of the tree");
		if (len > 0 && !(len == 1 && p[0] == '.')) {
			if (at + 1 + len > AGENT_PATH_MAX)
				return bad(r, raw, "has too long a name");
			if (at > 0)
				plain[at++] = '/';
			memcpy(plain + at, p, len);
			at += len;
		}
		p += len + (p[len] == '/');
	}
	plain[at] = '\0';
	return 0;
}

static const char *either(const char *bytes, const char *utf8)
{
	return bytes ? bytes : utf8;
}

/* The type, 0 for what is passed over, -1 for what is refused. */
static int read_type(struct tar_reader *r, struct archive_entry *e)
{
	const char *hard = either(archive_entry_hardlink(e), archive_entry_hardlink_utf8(e));
	const char *soft = either(archive_entry_symlink(e), archive_entry_symlink_utf8(e));

	r->target[0] = '\0';
	if (hard)
		return plain_path(r, hard, r->target) < 0 ? -1 : AGENT_HARD_LINK;
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return AGENT_FILE;
	case AE_IFDIR:
		return AGENT_DIR;
	case AE_IFLNK:
		if (!soft || !*soft || strlen(soft) > AGENT_PATH_MAX)
			return bad(r, r->path, "is a link without a target");
		memcpy(r->target, soft, strlen(soft) + 1);
		return AGENT_LINK;
	default:
		return bad(r, r->path, "is neither a file nor a directory nor a link");
	}
}

static int read_data(struct tar_reader *r)
{
	for (;;) {
		la_ssize_t n = archive_read_data(r->archive, r->data, sizeof(r->data));

		if (n < 0)
			return fail(r->archive, &r->err, CAY_E_INVALID, "read the archive");
		if (n == 0)
			return 0;
		r->item.data = r->data;
		r->item.len = (size_t)n;
		come_back(r, TAR_DATA);
		if (r->leave)
			return -1;
	}
}

static int read_entry(struct tar_reader *r, struct archive_entry *e)
{
	int type;

	if (plain_path(r, either(archive_entry_pathname(e), archive_entry_pathname_utf8(e)),
		       r->path) < 0)
		return -1;
	type = read_type(r, e);
	if (type < 0)
		return -1;
	if (r->path[0] == '\0' && type == AGENT_DIR)
		return 0; /* "./": the top, which is there */
	if (r->path[0] == '\0')
		return bad(r, "", "has no name");
	r->item = (struct tar_item){.file = {.type = (enum agent_type)type,
					     .mode = (unsigned)archive_entry_perm(e) & 0777,
					     .path = r->path,
					     .target = r->target,
					     .mtime_ns = -1}};
	if (type == AGENT_FILE)
		r->item.file.size = !archive_entry_size_is_set(e) ? AGENT_SIZE_UNKNOWN
				    : archive_entry_size(e) < 0   ? 0
								  : (uint64_t)archive_entry_size(e);
	if (archive_entry_mtime_is_set(e) && archive_entry_mtime(e) >= 0 &&
	    archive_entry_mtime(e) < INT64_MAX / 1000000000 - 1)
		r->item.file.mtime_ns =
			archive_entry_mtime(e) * 1000000000ll + archive_entry_mtime_nsec(e);
	come_back(r, TAR_ENTRY);
	if (r->leave)
		return -1;
	return type == AGENT_FILE ? read_data(r) : 0;
}

static int read_all(struct tar_reader *r)
{
	struct archive_entry *e;
	int n;

	n = archive_read_open(r->archive, r, NULL, get_input, NULL);
	while (n == ARCHIVE_OK || n == ARCHIVE_WARN) {
		n = archive_read_next_header(r->archive, &e);
		if (n == ARCHIVE_EOF)
			return 0;
		if (n >= ARCHIVE_WARN && read_entry(r, e) < 0)
			return -1;
	}
	return r->leave ? -1 : fail(r->archive, &r->err, CAY_E_INVALID, "read the archive");
}

/* makecontext() passes ints alone. */
static void reader_main(unsigned high, unsigned low)
{
	struct tar_reader *r =
		(struct tar_reader *)(uintptr_t)((uint64_t)high << 32 | (uint64_t)low);
	int n = read_all(r);

	r->over = true;
	r->step = n < 0 ? -1 : TAR_END;
	/* uc_link: to the caller, for good. */
}

static int make_stack(struct tar_reader *r)
{
	uint64_t self = (uintptr_t)r;

	r->guard = (size_t)sysconf(_SC_PAGESIZE);
	r->stack = mmap(NULL, STACK_BYTES + r->guard, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r->stack == MAP_FAILED) {
		r->stack = NULL;
		return -errno;
	}
	if (mprotect(r->stack, r->guard, PROT_NONE) < 0 || getcontext(&r->own) < 0)
		return -errno;
	r->own.uc_stack.ss_sp = r->stack + r->guard;
	r->own.uc_stack.ss_size = STACK_BYTES;
	r->own.uc_link = &r->caller;
	makecontext(&r->own, (void (*)(void))reader_main, 2, (unsigned)(self >> 32),
		    (unsigned)self);
	return 0;
}

struct tar_reader *tar_reader_new(struct cay_error *err)
{
	_cleanup_(tar_reader_freep) struct tar_reader *r = calloc(1, sizeof(*r));
	struct archive *a;

	if (r)
		r->archive = archive_read_new();
	if (!r || !r->archive || make_stack(r) < 0) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read an archive");
		return NULL;
	}
	a = r->archive;
	/* Filters that are other programs answer ARCHIVE_WARN, and are not wanted. */
	if (archive_read_support_format_tar(a) != ARCHIVE_OK ||
	    archive_read_support_format_zip_streamable(a) != ARCHIVE_OK ||
	    archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
	    archive_read_support_filter_zstd(a) != ARCHIVE_OK) {
		(void)fail(a, err, CAY_E_INTERNAL, "read an archive");
		return NULL;
	}
	return take_ptr(&r);
}

void tar_reader_feed(struct tar_reader *r, const void *data, size_t len)
{
	r->input = data;
	r->input_len = len;
	r->input_there = true;
}

static void go(struct tar_reader *r)
{
	locale_t old = utf8_begin();

	if (!r->over)
		(void)swapcontext(&r->caller, &r->own);
	utf8_end(old);
}

int tar_reader_next(struct tar_reader *r, struct tar_item *ret, struct cay_error *err)
{
	r->begun = true;
	go(r);
	*ret = r->item;
	if (r->step < 0)
		*err = r->err;
	return r->step;
}

void tar_reader_free(struct tar_reader *r)
{
	if (!r)
		return;
	/* It unwinds itself: libarchive is not left in the middle of a call. */
	r->leave = true;
	if (r->begun)
		go(r);
	if (r->archive)
		(void)archive_read_free(r->archive);
	if (r->stack)
		(void)munmap(r->stack, STACK_BYTES + r->guard);
	free(r);
}

void tar_reader_freep(struct tar_reader **r)
{
	tar_reader_free(*r);
}
