/*
 * add.c: an image whose layers are there gets a root, a record and a name.
 *
 * Root, record and name come in this order and under the store's lock, so that at any moment a name
 * leads to a record, and a record to a root; a root without a record is of somebody who was killed.
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "image/child.h"
#include "image/describe.h"
#include "image/finish.h"
#include "image/images.h"
#include "image/layer.h"
#include "image/look.h"
#include "image/merge.h"
#include "image/staging.h"
#include "image/store_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define TRIES_MAX 10

struct making {
	struct image *image;
	struct layer_limits limits;
	int fds[IMAGE_LAYERS_MAX + 1]; /* the layers, and behind them the root */
	size_t n_layers;
};

static void making_done(struct making *m)
{
	for (size_t i = 0; i <= m->n_layers; i++)
		fd_closep(&m->fds[i]);
}

/* Layers are held, so that nobody removes them meanwhile. */
static int open_layers(struct store *s, struct making *m, struct cay_error *err)
{
	_cleanup_(fd_closep) int layers = store_subdir(s, "layers");
	const struct strv *ids = &m->image->layers;

	m->fds[0] = -1;
	if (ids->len > IMAGE_LAYERS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the image has more than %d layers",
				IMAGE_LAYERS_MAX);
	for (size_t i = 0; i < ids->len; i++) {
		struct layer_count count = {0};
		int fd, r;

		if (!store_has_layer(s, ids->items[i]))
			return cay_fail(err, CAY_E_INTERNAL, 0, "layer sha256:%s is not there",
					ids->items[i]);
		fd = openat(layers, ids->items[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : layer_count_read(fd, &count);
		m->fds[m->n_layers++] = fd;
		m->fds[m->n_layers] = -1;
		if (r < 0)
			return cay_fail(err, CAY_E_INTERNAL, -r, "open layer sha256:%s",
					ids->items[i]);
		m->image->size_bytes += count.bytes;
	}
	return 0;
}

static int write_record(const struct image *image, struct buf *text, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	int r = record_json(image, &j);

	if (r == 0)
		r = json_text(j, text);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "write the image's record") : 0;
}

static int too_large(struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_TOO_LARGE, 0,
		       "the image's directories and what else is its own take more than there is "
		       "room for");
	return cay_hint(err, LAYER_ROOM_HINT);
}

/* In the child. */
static int make_root(void *ctx, int tell _unused_, struct buf *result, struct cay_error *err)
{
	struct making *m = ctx;
	struct image *image = m->image;
	uint64_t *bytes = &image->root_bytes;
	int root = m->fds[m->n_layers];

	if (merge_layers(m->fds, m->n_layers, root, &m->limits, bytes, err) < 0 ||
	    finish_root(root, bytes, err) < 0)
		return -1;
	/* Of which some may have to be made. */
	for (const char *p = image->workdir; p && (p = strchr(p, '/')); p++)
		*bytes += LAYER_BLOCK;
	if (*bytes > m->limits.bytes)
		return too_large(err);
	return look_into(root, image, err) < 0 ? -1 : write_record(image, result, err);
}

/* The record as the child has it; of what is the store's own to say, nothing is its. */
static int check_record(const struct making *m, const struct buf *told, struct image *ret,
			struct cay_error *err)
{
	const struct image *own = m->image;

	if (record_parse(buf_str(told), told->len, ret, err) < 0)
		return -1;
	if (strcmp(ret->id, own->id) != 0 || strcmp(ret->manifest, own->manifest) != 0 ||
	    ret->layers.len != own->layers.len || ret->one_id != own->one_id ||
	    ret->size_bytes != own->size_bytes || ret->names.len != 0)
		return cay_fail(err, CAY_E_INTERNAL, 0, "the image's record is not what it was");
	for (size_t i = 0; i < own->layers.len; i++)
		if (strcmp(ret->layers.items[i], own->layers.items[i]) != 0)
			return cay_fail(err, CAY_E_INTERNAL, 0, "the image's layers are others");
	return 0;
}

static int run_child(const struct store *s, struct making *m, struct image *ret,
		     struct cay_error *err)
{
	_cleanup_(buf_done) struct buf told = BUF(CHILD_RESULT_MAX);
	struct child child;
	const struct child_job job = {.kind = CHILD_MERGER,
				      .one_id = s->one_id,
				      .fds = m->fds,
				      .n_fds = m->n_layers + 1,
				      .trees = m->fds,
				      .n_trees = m->n_layers + 1,
				      .run = make_root,
				      .ctx = m};

	m->limits.one_id = s->one_id;
	if (store_room(s, &m->limits.bytes, &m->limits.entries, err) < 0)
		return -1;
	if (child_start(&child, &job, err) < 0 || child_wait(&child, NULL, NULL, &told, err) < 0)
		return -1;
	return check_record(m, &told, ret, err);
}

/* With a record that can be read: one that can't is replaced. */
static bool is_there(const struct store *s, const char *id)
{
	_cleanup_(image_freep) struct image *image = NULL;
	struct cay_error none;
	char root[STORE_FILE_SIZE];

	(void)snprintf(root, sizeof(root), "roots/%.64s", id);
	return faccessat(s->dir, root, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	       images_get(s->path, id, &image, &none) == 0;
}

static void count_record(void *ctx, int dir_fd _unused_, const char *name _unused_)
{
	++*(size_t *)ctx;
}

/* More could not be listed. */
static int check_number(const struct store *s, struct cay_error *err)
{
	size_t n = 0;
	int r = store_each(s, "records", count_record, &n);

	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "count the images");
	if (n < IMAGES_MAX)
		return 0;
	(void)cay_fail(err, CAY_E_TOO_LARGE, 0, "the image store has %d images, and no more fit",
		       IMAGES_MAX);
	return cay_hint(err, "cay image rm, or cay image prune --all");
}

/* Under the lock: others were given the same room at the same time. */
static int check_budget(const struct store *s, const struct image *image, struct cay_error *err)
{
	uint64_t left;

	if (store_left(s, &left, err) < 0)
		return -1;
	return image->root_bytes > left ? too_large(err) : 0;
}

/*
 * Under the lock. A root that is there already has no record, or one that can't be read; in that
 * case islands may still be of it.
 */
static int place_root(const struct store *s, const struct staging *staging, const char *id,
		      struct cay_error *err)
{
	_cleanup_(fd_closep) int old = -1;
	char path[STORE_FILE_SIZE];

	(void)snprintf(path, sizeof(path), "roots/%.64s", id);
	old = openat(s->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (old >= 0 && store_flock(old, LOCK_EX | LOCK_NB) < 0)
		return cay_fail(err, CAY_E_CONFLICT, 0, "sandboxes are made of image %.12s", id);
	if ((renameat(s->dir, path, staging->fd, "old") < 0 && errno != ENOENT) ||
	    renameat(staging->fd, STAGING_TREE, s->dir, path) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "keep the image's root");
	return 0;
}

static int put_texts(const struct store *s, const struct image_parts *parts,
		     const struct image *image, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf record = BUF(RECORD_MAX_BYTES);
	char path[STORE_FILE_SIZE];

	(void)snprintf(path, sizeof(path), "configs/%.64s.json", image->id);
	if (store_put(s, path, parts->config.data, parts->config.len, err) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "manifests/%.64s.json", image->manifest);
	if (image->manifest[0] &&
	    store_put(s, path, parts->manifest_bytes.data, parts->manifest_bytes.len, err) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "records/%.64s.json", image->id);
	return write_record(image, &record, err) < 0
		       ? -1
		       : store_put(s, path, record.data, record.len, err);
}

/* Under the lock, and the image is there. */
static int put_name(const struct store *s, const char *id, const char *name, struct cay_error *err)
{
	char file[NAME_MAX + 1], path[NAME_MAX + 16], text[IMAGE_ID_SIZE + 1];
	int r = images_encode(name, file);

	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, -r, "call an image '%.200s'", name);
	(void)snprintf(path, sizeof(path), "names/%s", file);
	(void)snprintf(text, sizeof(text), "%s\n", id);
	return store_put(s, path, text, strlen(text), err);
}

/* With its name at once: one without could be pruned before it has it. */
static int keep(const struct store *s, const struct image_parts *parts, const char *name,
		const struct staging *staging, const struct image *image, struct cay_error *err)
{
	int r;

	if (syncfs(staging->fd) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "sync the image store");
	if (store_lock(s, err) < 0)
		return -1;
	r = check_number(s, err);
	if (r == 0)
		r = check_budget(s, image, err);
	if (r == 0)
		r = place_root(s, staging, image->id, err);
	if (r == 0)
		r = put_texts(s, parts, image, err);
	if (r == 0 && name)
		r = put_name(s, image->id, name, err);
	store_unlock(s);
	return r;
}

/*
 * Whoever wants the same image at the same time waits on the staging directory. 1: it is there, by
 * somebody else.
 */
static int make_image(struct store *s, const struct image_parts *parts, const char *name,
		      struct image *image, struct cay_error *err)
{
	_cleanup_(making_done) struct making m = {.image = image, .fds = {-1}};
	_cleanup_(image_done) struct image record = {0};
	struct staging staging = STAGING_NONE;
	char as[STAGING_NAME_SIZE];
	int r;

	(void)snprintf(as, sizeof(as), "root-%.64s", image->id);
	image->size_bytes = 0;
	if (open_layers(s, &m, err) < 0 || staging_take(s, as, &staging, err) < 0)
		return -1;
	r = is_there(s, image->id) ? 1 : staging_tree(s, &staging, &m.fds[m.n_layers], err);
	if (r == 0) {
		r = run_child(s, &m, &record, err);
		if (r == 0)
			r = keep(s, parts, name, &staging, &record, err);
	}
	staging_drop(&staging);
	return r;
}

/* 1: somebody has removed it, since it was there. */
static int name_image(const struct store *s, const char *id, const char *name,
		      struct cay_error *err)
{
	int r;

	if (store_lock(s, err) < 0)
		return -1;
	r = is_there(s, id) ? 0 : 1;
	if (r == 0 && name)
		r = put_name(s, id, name, err);
	store_unlock(s);
	return r;
}

int store_add_image(struct store *s, const struct image_parts *parts, const char *name,
		    char ret_id[IMAGE_ID_SIZE], struct cay_error *err)
{
	_cleanup_(image_done) struct image image = {0};
	int r = 1;

	if (parts->config.len > IMAGE_CONFIG_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the image's configuration is too large");
	if (describe_config(&parts->config, &image, err) < 0)
		return -1;
	memcpy(image.manifest, parts->manifest, sizeof(image.manifest));
	image.one_id = s->one_id;
	memcpy(ret_id, image.id, IMAGE_ID_SIZE);
	for (int i = 0; r > 0 && i < TRIES_MAX; i++)
		r = is_there(s, image.id) ? name_image(s, image.id, name, err)
					  : make_image(s, parts, name, &image, err);
	return r > 0 ? cay_fail(err, CAY_E_CONFLICT, 0, "others remove image %.12s again and again",
				image.id)
		     : r;
}

uint64_t store_image_size(const struct store *s, const char *id)
{
	_cleanup_(image_freep) struct image *image = NULL;
	struct cay_error none;

	return images_find(s->path, id, &image, &none) < 0 ? 0 : image->size_bytes;
}
