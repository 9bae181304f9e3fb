/*
 * layout_oci.c: OCI layouts: index.json names manifests, and says what to call them.
 */
#include "base/attr.h"
#include "base/json.h"
#include "image/digest.h"
#include "image/layout.h"
#include "image/manifest.h"

#include <stdio.h>
#include <string.h>

#define PATH_SIZE (sizeof("blobs/sha256/") + IMAGE_ID_SIZE)

struct layer_paths {
	const struct manifest *manifest;
	char path[PATH_SIZE];
};

static const char *layer_path(void *ctx, size_t i)
{
	struct layer_paths *p = ctx;

	(void)snprintf(p->path, sizeof(p->path), "blobs/sha256/%s", p->manifest->layers[i].digest);
	return p->path;
}

/* An index leads to the manifest of the platform, and no further. */
static int read_manifest(int dir_fd, const char *digest, const struct platform *platform,
			 struct image_parts *parts, struct manifest *ret, struct cay_error *err)
{
	const struct manifest_entry *chosen;
	char next[IMAGE_ID_SIZE];

	memcpy(parts->manifest, digest, IMAGE_ID_SIZE);
	if (layout_read_blob(dir_fd, digest, &parts->manifest_bytes, err) < 0 ||
	    manifest_parse(buf_str(&parts->manifest_bytes), parts->manifest_bytes.len, NULL, ret,
			   err) < 0)
		return -1;
	if (!ret->is_index)
		return 0;
	if (manifest_choose(ret, platform, &chosen, err) < 0)
		return -1;
	memcpy(next, chosen->manifest.digest, sizeof(next));
	manifest_done(ret);
	buf_done(&parts->manifest_bytes);
	memcpy(parts->manifest, next, IMAGE_ID_SIZE);
	if (layout_read_blob(dir_fd, next, &parts->manifest_bytes, err) < 0 ||
	    manifest_parse(buf_str(&parts->manifest_bytes), parts->manifest_bytes.len, NULL, ret,
			   err) < 0)
		return -1;
	return ret->is_index ? cay_fail(err, CAY_E_UNSUPPORTED, 0, "an index of indexes") : 0;
}

/* What containerd calls it is whole; the other may be a tag alone, which is no name. */
static int find_names(const struct json *entry, struct strv *ret, struct cay_error *err)
{
	const struct json *notes = json_get(entry, "annotations");
	const char *name = json_str(json_get(notes, "io.containerd.image.name"));

	if (!name)
		name = json_str(json_get(notes, "org.opencontainers.image.ref.name"));
	if (!name || !strpbrk(name, ":/"))
		return 0;
	return strv_add(ret, name) < 0 ? cay_fail(err, CAY_E_INTERNAL, 0, "read the archive") : 0;
}

static int each_entry(int dir_fd, const struct json *entry, const struct platform *platform,
		      layout_fn *fn, void *ctx, struct cay_error *err)
{
	_cleanup_(layout_parts_done) struct image_parts parts = {
		.config = BUF(IMAGE_CONFIG_MAX), .manifest_bytes = BUF(IMAGE_MANIFEST_MAX)};
	_cleanup_(manifest_done) struct manifest manifest = {0};
	_cleanup_(strv_done) struct strv names = {0};
	struct layer_paths paths = {.manifest = &manifest};
	const char *text = json_str(json_get(entry, "digest"));
	char digest[IMAGE_ID_SIZE];

	if (!text || digest_parse(text, digest) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"index.json names a manifest without a SHA-256");
	if (find_names(entry, &names, err) < 0 ||
	    read_manifest(dir_fd, digest, platform, &parts, &manifest, err) < 0 ||
	    layout_read_blob(dir_fd, manifest.config.digest, &parts.config, err) < 0 ||
	    layout_parts(dir_fd, &parts, manifest.n_layers, layer_path, &paths, err) < 0)
		return -1;
	return fn(ctx, &parts, &names, err);
}

int layout_oci(int dir_fd, const struct platform *platform, layout_fn *fn, void *ctx,
	       struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(IMAGE_MANIFEST_MAX);
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *list;
	struct json_fault fault;

	if (layout_read(dir_fd, "index.json", &text, err) < 0)
		return -1;
	if (json_parse(buf_str(&text), text.len, IMAGE_MANIFEST_MAX, &j, &fault) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "index.json of the archive is wrong: %s",
				fault.what);
	list = json_get(j, "manifests");
	if (json_len(list) == 0 || json_len(list) > MANIFEST_ENTRIES_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "index.json names no image");
	for (size_t i = 0; i < json_len(list); i++)
		if (each_entry(dir_fd, json_at(list, i), platform, fn, ctx, err) < 0)
			return -1;
	return 0;
}
