#include "image/layout.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "image/digest.h"
#include "image/manifest.h"
#include "image/record.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGES_MAX_IN_ONE 256
#define BLOBS             "blobs/sha256/"

static int missing(const char *path, int sys_errno, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, sys_errno, "'%.200s' of the archive can't be read",
		       path);
	text_flatten(err->text, strlen(err->text));
	return -1;
}

int layout_open(int dir_fd, const char *path, uint64_t *ret_size, struct cay_error *err)
{
	/* docker save has links from one image's layer to another's. */
	_cleanup_(fd_closep) int fd = fd_open_within(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
						     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd < 0)
		return missing(path, -fd, err);
	if (fstat(fd, &st) < 0)
		return missing(path, errno, err);
	if (!S_ISREG(st.st_mode))
		return missing(path, EINVAL, err);
	*ret_size = (uint64_t)st.st_size;
	return take_fd(&fd);
}

int layout_read(int dir_fd, const char *path, struct buf *ret, struct cay_error *err)
{
	uint64_t size;
	_cleanup_(fd_closep) int fd = layout_open(dir_fd, path, &size, err);
	int r;

	if (fd < 0)
		return -1;
	r = fd_read_all(fd, ret);
	return r < 0 ? missing(path, -r, err) : 0;
}

int layout_read_blob(int dir_fd, const char *digest, struct buf *ret, struct cay_error *err)
{
	char path[sizeof(BLOBS) + IMAGE_ID_SIZE], hex[IMAGE_ID_SIZE];

	(void)snprintf(path, sizeof(path), BLOBS "%.64s", digest);
	if (layout_read(dir_fd, path, ret, err) < 0)
		return -1;
	if (digest_of(ret->data, ret->len, hex) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the archive");
	if (strcmp(hex, digest) != 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"a file of the archive has the digest sha256:%s, and should have "
				"sha256:%s",
				hex, digest);
	return 0;
}

void layout_parts_done(struct image_parts *parts)
{
	for (size_t i = 0; i < parts->n_layers; i++)
		fd_closep(&parts->layers[i].fd);
	free(parts->layers);
	buf_done(&parts->config);
	buf_done(&parts->manifest_bytes);
	parts->layers = NULL;
	parts->n_layers = 0;
}

/* blobs/sha256/HEX says what it has to be. */
static void digest_by_path(const char *path, char ret[IMAGE_ID_SIZE])
{
	const char *hex = path + sizeof(BLOBS) - 1;

	ret[0] = '\0';
	if (strncmp(path, BLOBS, sizeof(BLOBS) - 1) == 0 && image_id_ok(hex))
		memcpy(ret, hex, IMAGE_ID_SIZE);
}

int layout_parts(int dir_fd, struct image_parts *parts, size_t n_layers,
		 const char *(*path_of)(void *ctx, size_t i), void *ctx, struct cay_error *err)
{
	struct image_config config;
	int r = 0;

	if (image_config_parse(buf_str(&parts->config), parts->config.len, &config, err) < 0)
		return -1;
	if (config.diff_ids.len != n_layers || n_layers > IMAGE_LAYERS_MAX)
		r = cay_fail(err, CAY_E_INVALID, 0,
			     "the configuration speaks of %zu layers, and the archive of %zu",
			     config.diff_ids.len, n_layers);
	if (r == 0)
		parts->layers = calloc(n_layers + 1, sizeof(*parts->layers));
	if (r == 0 && !parts->layers)
		r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the archive");
	for (size_t i = 0; r == 0 && i < n_layers; i++) {
		struct image_layer *l = &parts->layers[i];

		l->fd = layout_open(dir_fd, path_of(ctx, i), &l->size, err);
		r = l->fd < 0 ? -1 : 0;
		parts->n_layers += r == 0;
		digest_by_path(path_of(ctx, i), l->digest);
		memcpy(l->diff_id, config.diff_ids.items[i], IMAGE_ID_SIZE);
	}
	image_config_done(&config);
	return r;
}

/* docker save */

static int bad_manifest(struct cay_error *err)
{
	return cay_fail(err, CAY_E_INVALID, 0,
			"manifest.json of the archive is none of docker save");
}

static const char *docker_layer(void *ctx, size_t i)
{
	return json_str(json_at(ctx, i));
}

/* HEX.json, as older ones have it: the name is a promise, too. */
static int check_config(const char *path, const struct buf *config, struct cay_error *err)
{
	char hex[IMAGE_ID_SIZE], named[IMAGE_ID_SIZE];
	const char *slash = strrchr(path, '/');

	(void)snprintf(named, sizeof(named), "%s", slash ? slash + 1 : path);
	if (!image_id_ok(named))
		return 0;
	if (digest_of(config->data, config->len, hex) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the archive");
	return strcmp(hex, named) == 0
		       ? 0
		       : cay_fail(err, CAY_E_INVALID, 0,
				  "the image's configuration has the digest sha256:%s, and should "
				  "have sha256:%s",
				  hex, named);
}

static int take_names(const struct json *list, struct strv *ret, struct cay_error *err)
{
	for (size_t i = 0; i < json_len(list); i++) {
		const char *name = json_str(json_at(list, i));

		if (!name || strv_add(ret, name) < 0)
			return bad_manifest(err);
	}
	return 0;
}

static int each_docker(int dir_fd, const struct json *j, layout_fn *fn, void *ctx,
		       struct cay_error *err)
{
	_cleanup_(layout_parts_done) struct image_parts parts = {.config = BUF(IMAGE_CONFIG_MAX)};
	_cleanup_(strv_done) struct strv names = {0};
	const char *config = json_str(json_get(j, "Config"));
	const struct json *layers = json_get(j, "Layers");

	if (!config || json_kind(layers) != JSON_KIND_ARRAY)
		return bad_manifest(err);
	for (size_t i = 0; i < json_len(layers); i++)
		if (!json_str(json_at(layers, i)))
			return bad_manifest(err);
	if (take_names(json_get(j, "RepoTags"), &names, err) < 0 ||
	    layout_read(dir_fd, config, &parts.config, err) < 0 ||
	    check_config(config, &parts.config, err) < 0 ||
	    layout_parts(dir_fd, &parts, json_len(layers), docker_layer, (void *)layers, err) < 0)
		return -1;
	return fn(ctx, &parts, &names, err);
}

static int layout_docker(int dir_fd, layout_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(IMAGE_MANIFEST_MAX);
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;

	if (layout_read(dir_fd, "manifest.json", &text, err) < 0)
		return -1;
	if (json_parse(buf_str(&text), text.len, IMAGE_MANIFEST_MAX, &j, &fault) < 0 ||
	    json_kind(j) != JSON_KIND_ARRAY || json_len(j) == 0 || json_len(j) > IMAGES_MAX_IN_ONE)
		return bad_manifest(err);
	for (size_t i = 0; i < json_len(j); i++)
		if (each_docker(dir_fd, json_at(j, i), fn, ctx, err) < 0)
			return -1;
	return 0;
}

int layout_each(int dir_fd, const struct platform *platform, layout_fn *fn, void *ctx,
		struct cay_error *err)
{
	/* Docker writes both, and in its own the names are whole. */
	if (faccessat(dir_fd, "manifest.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return layout_docker(dir_fd, fn, ctx, err);
	if (faccessat(dir_fd, "index.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return layout_oci(dir_fd, platform, fn, ctx, err);
	(void)cay_fail(err, CAY_E_INVALID, 0,
		       "there is no image in it: neither manifest.json nor index.json");
	return cay_hint(err, "cay image import NAME PATH takes a tar of a root directory");
}
