#include "image/remove.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/images.h"
#include "image/store_impl.h"
#include "image/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PARTIAL_OLD_SECONDS (24 * 3600)

int removal_begin(struct removal *r, struct store *s, struct cay_error *err)
{
	*r = (struct removal){.trash = STAGING_NONE};
	if (staging_take(s, NULL, &r->trash, err) < 0 || store_lock(s, err) < 0)
		return -1;
	r->store = s;
	return images_list(s->path, &r->images, &r->n_images, NULL, err);
}

void removal_end(struct removal *r)
{
	if (r->store)
		store_unlock(r->store);
	if (r->trash.fd >= 0)
		(void)wipe_inside(r->trash.fd, &r->freed_bytes);
	staging_drop(&r->trash);
	image_list_free(r->images, r->n_images);
	*r = (struct removal){.trash = STAGING_NONE, .freed_bytes = r->freed_bytes};
}

static void file_of(char path[STORE_FILE_SIZE], const char *subdir, const char *id,
		    const char *suffix)
{
	(void)snprintf(path, STORE_FILE_SIZE, "%s/%.64s%s", subdir, id, suffix);
}

int removal_name(struct removal *r, const char *name)
{
	char file[NAME_MAX + 1], path[NAME_MAX + 16];
	int n = images_encode(name, file);

	if (n < 0)
		return n;
	(void)snprintf(path, sizeof(path), "names/%s", file);
	return unlinkat(r->store->dir, path, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* A tree that nobody uses, from now on: an fd. -EWOULDBLOCK: somebody does; or -errno. */
static int claim_tree(const struct removal *r, const char *subdir, const char *id)
{
	char path[STORE_FILE_SIZE];
	_cleanup_(fd_closep) int fd = -1;
	int n;

	file_of(path, subdir, id, "");
	fd = openat(r->store->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = store_flock(fd, LOCK_EX | LOCK_NB);
	return n < 0 ? n : take_fd(&fd);
}

static int discard_tree(struct removal *r, const char *subdir, const char *id)
{
	char path[STORE_FILE_SIZE], as[STORE_FILE_SIZE];

	file_of(path, subdir, id, "");
	(void)snprintf(as, sizeof(as), "%s-%.64s", subdir, id);
	return renameat(r->store->dir, path, r->trash.fd, as) < 0 ? -errno : 0;
}

static void discard_file(struct removal *r, const char *subdir, const char *id)
{
	char path[STORE_FILE_SIZE];

	file_of(path, subdir, id, ".json");
	(void)unlinkat(r->store->dir, path, 0);
}

/*
 * Names first, then the record: at no moment does a name lead to what is not there. The lock on the
 * root is taken before, so that an image in use keeps its names.
 */
int removal_image(struct removal *r, struct image *image, struct cay_error *err)
{
	_cleanup_(fd_closep) int root = claim_tree(r, "roots", image->id);
	int n = 0;

	if (root == -EWOULDBLOCK)
		return cay_fail(err, CAY_E_CONFLICT, 0, "sandboxes are made of image %.12s",
				image->id);
	for (size_t i = 0; n == 0 && i < image->names.len; i++)
		n = removal_name(r, image->names.items[i]);
	if (n == 0) {
		discard_file(r, "records", image->id);
		n = root < 0 ? 0 : discard_tree(r, "roots", image->id);
	}
	if (n < 0)
		return cay_fail(err, CAY_E_INTERNAL, -n, "remove image %.12s", image->id);
	/* To those that are asked from now on whether they need a layer. */
	image->id[0] = image->manifest[0] = '\0';
	strv_done(&image->layers);
	return 0;
}

enum what { ROOTS, LAYERS, CONFIGS, MANIFESTS };

static const char *const subdir_of[] = {
	[ROOTS] = "roots", [LAYERS] = "layers", [CONFIGS] = "configs", [MANIFESTS] = "manifests"};

struct unused {
	struct removal *removal;
	enum what what;
};

static bool is_of(const struct image *image, enum what what, const char *id)
{
	switch (what) {
	case ROOTS:
	case CONFIGS:
		return strcmp(image->id, id) == 0;
	case MANIFESTS:
		return strcmp(image->manifest, id) == 0;
	case LAYERS:
		for (size_t i = 0; i < image->layers.len; i++)
			if (strcmp(image->layers.items[i], id) == 0)
				return true;
		return false;
	}
	return true;
}

static void discard_unused(void *ctx, int dir_fd _unused_, const char *name)
{
	const struct unused *u = ctx;
	char id[IMAGE_ID_SIZE];

	(void)snprintf(id, sizeof(id), "%s", name);
	if (!image_id_ok(id))
		return;
	for (size_t i = 0; i < u->removal->n_images; i++)
		if (is_of(u->removal->images[i], u->what, id))
			return;
	/* One that is in use stays for another time. */
	if (u->what == ROOTS || u->what == LAYERS) {
		_cleanup_(fd_closep) int fd = claim_tree(u->removal, subdir_of[u->what], id);

		if (fd >= 0)
			(void)discard_tree(u->removal, subdir_of[u->what], id);
	} else {
		discard_file(u->removal, subdir_of[u->what], id);
	}
}

void removal_unused(struct removal *r)
{
	for (enum what what = ROOTS; what <= MANIFESTS; what++) {
		struct unused u = {.removal = r, .what = what};

		(void)store_each(r->store, subdir_of[what], discard_unused, &u);
	}
}

struct partials {
	struct removal *removal;
	bool all;
};

static void discard_partial(void *ctx, int dir_fd, const char *name)
{
	const struct partials *p = ctx;
	_cleanup_(fd_closep) int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || store_flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	if (!p->all && time(NULL) - st.st_mtime < PARTIAL_OLD_SECONDS)
		return;
	if (unlinkat(dir_fd, name, 0) == 0)
		p->removal->freed_bytes += (uint64_t)st.st_blocks * 512;
}

void removal_partials(struct removal *r, bool all)
{
	struct partials p = {.removal = r, .all = all};

	(void)store_each(r->store, "partial", discard_partial, &p);
}
