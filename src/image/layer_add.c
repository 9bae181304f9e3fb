/*
 * layer_add.c: unpacks one layer.
 *
 *   blob ──> reader: digests, gzip/zstd ──pipe──> writer: tar ──> staging/NAME/tree
 *
 * Two processes (child.h), so that decompressing and writing have a core each. When both are done
 * and the digests are those promised, the tree is synced and becomes layers/DIFFID. Whoever wants
 * the same layer at the same time waits on the staging directory, which is named after it.
 */
#include "image/layer_add.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/child.h"
#include "image/layer.h"
#include "image/progress.h"
#include "image/record.h"
#include "image/staging.h"
#include "image/store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)

struct reading {
	const struct image_layer *layer;
	int out;
};

static int read_layer(void *ctx, int tell, struct buf *result, struct cay_error *err)
{
	const struct reading *r = ctx;
	struct inflated got;

	if (inflate_layer(r->layer, r->out, tell, &got, err) < 0)
		return -1;
	return buf_append(result, &got, sizeof(got)) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the layer")
		       : 0;
}

struct writing {
	struct layer_limits limits;
	int in, tree;
};

static int write_layer(void *ctx, int tell _unused_, struct buf *result _unused_,
		       struct cay_error *err)
{
	const struct writing *w = ctx;
	struct layer_count count;

	return layer_unpack(w->in, w->tree, &w->limits, &count, err);
}

struct telling {
	const struct progress *progress;
	const struct image_layer *layer;
};

static void tell_progress(void *ctx, uint64_t done)
{
	const struct telling *t = ctx;
	const char *what = t->layer->digest[0] ? t->layer->digest : t->layer->diff_id;
	bool known = t->layer->size != IMAGE_SIZE_UNKNOWN;

	if (t->progress)
		t->progress->report(t->progress->to, what, done, known ? t->layer->size : 0);
}

static int start_writer(const struct store *s, int in, int tree, struct child *ret,
			struct cay_error *err)
{
	struct writing w = {.in = in, .tree = tree};
	const struct child_job job = {.kind = CHILD_WRITER,
				      .one_id = s->one_id,
				      .fds = (int[]){in, tree},
				      .n_fds = 2,
				      .trees = &tree,
				      .n_trees = 1,
				      .run = write_layer,
				      .ctx = &w};

	if (store_room(s, &w.limits.bytes, &w.limits.entries, err) < 0)
		return -1;
	if (w.limits.entries > LAYER_ENTRIES_MAX)
		w.limits.entries = LAYER_ENTRIES_MAX;
	w.limits.one_id = s->one_id;
	return child_start(ret, &job, err);
}

static int start_reader(const struct store *s, const struct image_layer *layer, int out,
			struct child *ret, struct cay_error *err)
{
	struct reading r = {.layer = layer, .out = out};
	const struct child_job job = {.kind = CHILD_READER,
				      .one_id = s->one_id,
				      .fds = (int[]){layer->fd, out},
				      .n_fds = 2,
				      .run = read_layer,
				      .ctx = &r};

	return child_start(ret, &job, err);
}

/* What one of them says, where the other only noticed that it had gone. */
static int settle(struct child *reader, struct child *writer, struct telling *t,
		  struct inflated *ret, struct cay_error *err)
{
	struct buf result = BUF(sizeof(*ret));
	struct cay_error theirs;
	int r = child_wait(reader, tell_progress, t, &result, err);
	int w = child_wait(writer, NULL, NULL, NULL, &theirs);

	if (r == 0 && result.len != sizeof(*ret))
		r = cay_fail(err, CAY_E_INTERNAL, 0, "the layer's digests are not known");
	if (r == 0)
		memcpy(ret, result.data, sizeof(*ret));
	buf_done(&result);
	if (w < 0 && (r == 0 || err->sys_errno == EPIPE))
		*err = theirs;
	ret->digest[IMAGE_ID_SIZE - 1] = ret->diff_id[IMAGE_ID_SIZE - 1] = '\0';
	return r < 0 || w < 0 ? -1 : 0;
}

int layer_unpack_into(const struct store *s, const struct image_layer *layer, int tree,
		      const struct progress *progress, struct inflated *ret, struct cay_error *err)
{
	struct telling t = {.progress = progress, .layer = layer};
	struct child reader = CHILD_NONE, writer = CHILD_NONE;
	int pipe[2] = {-1, -1}, r;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "unpack a layer");
	(void)fcntl(pipe[1], F_SETPIPE_SZ, PIPE_BYTES); /* faster, where it is allowed */
	r = start_writer(s, pipe[0], tree, &writer, err);
	fd_closep(&pipe[0]);
	if (r == 0)
		r = start_reader(s, layer, pipe[1], &reader, err);
	fd_closep(&pipe[1]);
	if (r == 0)
		r = settle(&reader, &writer, &t, ret, err);
	child_stop(&reader);
	child_stop(&writer);
	if (r < 0 || !layer->diff_id[0] || strcmp(ret->diff_id, layer->diff_id) == 0)
		return r;
	return cay_fail(err, CAY_E_INVALID, 0,
			"the layer's tar has the digest sha256:%s, and should have sha256:%s",
			ret->diff_id, layer->diff_id);
}

/* Once more, under the lock: others were given the same room at the same time. */
static int check_budget(const struct store *s, int tree, struct cay_error *err)
{
	struct layer_count count;
	uint64_t left;
	int r = layer_count_read(tree, &count);

	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "see how large the layer is");
	if (store_left(s, &left, err) < 0)
		return -1;
	return count.bytes > left ? layer_too_large(err, "more in it than there is room for") : 0;
}

/* Synced before it has its name: a crash shows all of it or nothing. */
static int name_it(struct store *s, const struct staging *staging, int tree, const char *diff_id,
		   struct cay_error *err)
{
	char path[STORE_FILE_SIZE];
	int r;

	(void)snprintf(path, sizeof(path), "layers/%.64s", diff_id);
	if (syncfs(staging->fd) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "sync the image store");
	/* Somebody may have been faster with one whose digest was not known before. */
	if (store_has_layer(s, diff_id))
		return 0;
	if (store_lock(s, err) < 0)
		return -1;
	r = check_budget(s, tree, err);
	if (r == 0 && renameat(staging->fd, STAGING_TREE, s->dir, path) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		r = cay_fail(err, CAY_E_INTERNAL, errno, "keep the layer");
	store_unlock(s);
	if (r < 0)
		return -1;
	return store_has_layer(s, diff_id)
		       ? 0
		       : cay_fail(err, CAY_E_INTERNAL, 0, "the layer sha256:%s went away", diff_id);
}

int layer_add(struct store *s, const struct image_layer *layer, const struct progress *progress,
	      char ret_diff_id[IMAGE_ID_SIZE], struct cay_error *err)
{
	struct staging staging = STAGING_NONE;
	_cleanup_(fd_closep) int tree = -1;
	char name[STAGING_NAME_SIZE];
	struct inflated got;
	int r;

	memcpy(ret_diff_id, layer->diff_id, IMAGE_ID_SIZE);
	(void)snprintf(name, sizeof(name), "layer-%.64s", layer->diff_id);
	if (staging_take(s, layer->diff_id[0] ? name : NULL, &staging, err) < 0)
		return -1;
	/* While we waited, maybe. */
	r = layer->diff_id[0] && store_has_layer(s, layer->diff_id) ? 1 : 0;
	if (r == 0) {
		r = staging_tree(s, &staging, &tree, err);
		if (r == 0)
			r = layer_unpack_into(s, layer, tree, progress, &got, err);
		if (r == 0) {
			memcpy(ret_diff_id, got.diff_id, IMAGE_ID_SIZE);
			r = name_it(s, &staging, tree, got.diff_id, err);
		}
	}
	staging_drop(&staging);
	return r < 0 ? -1 : 0;
}

int store_add_layer(struct store *s, const struct image_layer *layer,
		    const struct progress *progress, struct cay_error *err)
{
	char diff_id[IMAGE_ID_SIZE];

	if (!image_id_ok(layer->diff_id))
		return cay_fail(err, CAY_E_INVALID, 0, "a layer without a digest of its tar");
	if (store_has_layer(s, layer->diff_id))
		return 0;
	return layer_add(s, layer, progress, diff_id, err);
}
