#include "image/inflate.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/text.h"
#include "image/child.h"
#include "image/digest.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_BYTES    ((size_t)256 << 10)
#define PROGRESS_BYTES (1u << 20)

struct inflating {
	const struct image_layer *layer;
	struct digest *in, *out;
	uint64_t read, told;
	int tell, read_error;
	char *input;
};

/* n, 0 at the end, or -errno. */
static ssize_t read_some(struct inflating *f)
{
	const struct image_layer *l = f->layer;
	size_t want = INPUT_BYTES;
	ssize_t n;

	if (l->size != IMAGE_SIZE_UNKNOWN && l->size - f->read < want)
		want = (size_t)(l->size - f->read);
	do
		n = l->size == IMAGE_SIZE_UNKNOWN
			    ? read(l->fd, f->input, want)
			    : pread(l->fd, f->input, want, (off_t)(l->offset + f->read));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	digest_add(f->in, f->input, (size_t)n);
	f->read += (uint64_t)n;
	if (f->read - f->told >= PROGRESS_BYTES) {
		child_progress(f->tell, f->read);
		f->told = f->read;
	}
	return n;
}

static la_ssize_t get_input(struct archive *a, void *ctx, const void **ret)
{
	struct inflating *f = ctx;
	ssize_t n = read_some(f);

	*ret = f->input;
	if (n >= 0)
		return n;
	f->read_error = (int)-n;
	archive_set_error(a, f->read_error, "can't be read");
	return ARCHIVE_FATAL;
}

static int fail(struct inflating *f, struct archive *a, struct cay_error *err)
{
	const char *why = archive_error_string(a);

	if (f->read_error)
		return cay_fail(err, CAY_E_INTERNAL, f->read_error, "read the layer");
	(void)cay_fail(err, CAY_E_INVALID, 0, "the layer can't be decompressed: %s",
		       why ? why : "out of memory");
	text_flatten(err->text, strlen(err->text));
	return -1;
}

/* "Raw" is one file without a name: what the filters made of it. */
static int pass_on(struct inflating *f, struct archive *a, int out, struct cay_error *err)
{
	struct archive_entry *e;
	const void *data;
	la_int64_t at;
	size_t n;
	int r = archive_read_open(a, f, NULL, get_input, NULL);

	if (r == ARCHIVE_OK)
		r = archive_read_next_header(a, &e);
	if (r == ARCHIVE_EOF)
		return 0;
	while (r == ARCHIVE_OK || r == ARCHIVE_WARN) {
		r = archive_read_data_block(a, &data, &n, &at);
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			break;
		digest_add(f->out, data, n);
		r = fd_write_all(out, data, n);
		if (r < 0)
			return cay_fail(err, CAY_E_INTERNAL, -r, "pass the layer on");
	}
	return r == ARCHIVE_EOF ? 0 : fail(f, a, err);
}

static struct archive *new_archive(void)
{
	struct archive *a = archive_read_new();

	/* Filters that are other programs answer ARCHIVE_WARN, and are not wanted. */
	if (a && archive_read_support_format_raw(a) == ARCHIVE_OK &&
	    archive_read_support_format_empty(a) == ARCHIVE_OK &&
	    archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
	    archive_read_support_filter_zstd(a) == ARCHIVE_OK)
		return a;
	if (a)
		(void)archive_read_free(a);
	return NULL;
}

/*
 * A download that is not what was promised is said to be that, and not whatever its bytes look
 * like: so also what can't be decompressed is read to its end.
 */
static int inflate(struct inflating *f, struct archive *a, int out, struct inflated *ret,
		   struct cay_error *err)
{
	int r = pass_on(f, a, out, err);
	ssize_t n;

	if (r < 0 && err->code != CAY_E_INVALID)
		return -1;
	do
		n = read_some(f);
	while (n > 0);
	if (n < 0)
		return cay_fail(err, CAY_E_INTERNAL, (int)-n, "read the layer");
	if (f->layer->size != IMAGE_SIZE_UNKNOWN && f->read < f->layer->size)
		return cay_fail(err, CAY_E_INVALID, 0, "the layer is cut short: %llu of %llu bytes",
				(unsigned long long)f->read, (unsigned long long)f->layer->size);
	digest_end(f->in, ret->digest);
	digest_end(f->out, ret->diff_id);
	if (f->layer->digest[0] && strcmp(ret->digest, f->layer->digest) != 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"the layer's digest is sha256:%s, and should be sha256:%s",
				ret->digest, f->layer->digest);
	return r;
}

int inflate_layer(const struct image_layer *layer, int out, int tell, struct inflated *ret,
		  struct cay_error *err)
{
	struct inflating f = {.layer = layer, .tell = tell, .input = malloc(INPUT_BYTES)};
	struct archive *a = new_archive();
	int r = -1;

	f.in = digest_new();
	f.out = digest_new();
	if (f.input && f.in && f.out && a)
		r = inflate(&f, a, out, ret, err);
	else
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read a layer");
	if (a)
		(void)archive_read_free(a);
	digest_freep(&f.in);
	digest_freep(&f.out);
	free(f.input);
	return r;
}
