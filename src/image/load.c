/*
 * load.c: `cay image load FILE|-|DIR [NAME]`: images of docker save, of OCI archives and layouts.
 *
 * An archive is unpacked as a layer would be, by the same confined processes, and then is a
 * directory like any other.
 */
#include "base/attr.h"
#include "base/fd.h"
#include "image/bars.h"
#include "image/call.h"
#include "image/layer_add.h"
#include "image/layout.h"
#include "image/ref.h"
#include "image/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct loading {
	struct image_call *call;
	const char *name; /* in full; NULL: as the archive says */
	size_t n_images;
};

/* Also one that nothing calls by a name. */
static int name_and_tell(struct loading *l, const struct image_parts *parts, const char *name,
			 struct cay_error *err)
{
	char id[IMAGE_ID_SIZE];

	if (store_add_image(l->call->store, parts, name, id, err) < 0)
		return -1;
	call_say(l->call, "loaded", id, name ? name : "", store_image_size(l->call->store, id));
	return 0;
}

static int add_layers(struct loading *l, const struct image_parts *parts, struct cay_error *err)
{
	struct bar *list = calloc(parts->n_layers + 1, sizeof(*list));
	struct progress progress;
	struct bars bars;
	int r = list ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the layers");

	for (size_t i = 0; r == 0 && i < parts->n_layers; i++)
		list[i].total = parts->layers[i].size;
	bars_begin_local(&bars, "layers", list, parts->n_layers, l->call->json);
	progress = bars_progress(&bars);
	for (size_t i = 0; r == 0 && i < parts->n_layers; i++) {
		bars.at = i;
		r = store_add_layer(l->call->store, &parts->layers[i], &progress, err);
		bars_set(&bars, i, BARS_DONE, list[i].total);
	}
	bars_end(&bars);
	free(list);
	return r;
}

static int load_one(void *ctx, const struct image_parts *parts, const struct strv *names,
		    struct cay_error *err)
{
	struct loading *l = ctx;
	char full[IMAGE_REF_SIZE];
	struct image_ref ref;

	if (l->n_images++ > 0 && l->name)
		return cay_fail(err, CAY_E_INVALID, 0,
				"there are several images in it: they can't all be called %s",
				l->name);
	if (add_layers(l, parts, err) < 0)
		return -1;
	if (l->name || names->len == 0)
		return name_and_tell(l, parts, l->name, err);
	for (size_t i = 0; i < names->len; i++) {
		if (image_ref_parse(names->items[i], &ref, err) < 0)
			return cay_wrap(err, "the name in the archive");
		image_ref_text(&ref, full);
		if (name_and_tell(l, parts, full, err) < 0)
			return -1;
	}
	return 0;
}

static int load_dir(struct loading *l, int dir_fd, struct cay_error *err)
{
	struct platform platform;

	if ((l->call->platform ? platform_parse(l->call->platform, &platform, err)
			       : platform_here(&platform, err)) < 0)
		return -1;
	return layout_each(dir_fd, &platform, load_one, l, err);
}

/* bytes: of the file; 0: not known. */
static int load_archive(struct loading *l, int fd, uint64_t bytes, struct cay_error *err)
{
	const struct image_layer archive = {.fd = fd, .size = IMAGE_SIZE_UNKNOWN};
	struct bar bar = {.total = bytes};
	struct progress progress;
	struct bars bars;
	struct staging staging = STAGING_NONE;
	_cleanup_(fd_closep) int tree = -1;
	struct inflated digests;
	int r;

	if (staging_take(l->call->store, NULL, &staging, err) < 0)
		return -1;
	bars_begin_local(&bars, "archive", &bar, 1, l->call->json);
	progress = bars_progress(&bars);
	r = staging_tree(l->call->store, &staging, &tree, err);
	if (r == 0 &&
	    layer_unpack_into(l->call->store, &archive, tree, &progress, &digests, err) < 0)
		r = cay_wrap(err, "unpack the archive");
	bars_end(&bars);
	if (r == 0)
		r = load_dir(l, tree, err);
	staging_drop(&staging);
	return r;
}

int load_main(struct image_call *call, struct cay_error *err)
{
	struct loading l = {.call = call};
	const char *path = call->args[0];
	_cleanup_(fd_closep) int fd = strcmp(path, "-") == 0
					      ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					      : open(path, O_RDONLY | O_CLOEXEC);
	char full[IMAGE_REF_SIZE];
	struct image_ref ref;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "open %s", path);
	if (call->n_args > 1) {
		if (image_ref_parse(call->args[1], &ref, err) < 0)
			return -1;
		image_ref_text(&ref, full);
		l.name = full;
	}
	return S_ISDIR(st.st_mode) ? load_dir(&l, fd, err)
				   : load_archive(&l, fd, (uint64_t)st.st_size, err);
}
