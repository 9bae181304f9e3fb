#include "image/manifest.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "image/digest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCKER_INDEX    "application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define OCI_INDEX       "application/vnd.oci.image.index.v1+json"
#define OCI_MANIFEST    "application/vnd.oci.image.manifest.v1+json"
#define SCHEMA_1        "application/vnd.docker.distribution.manifest.v1+"
#define PLATFORMS_TOLD  300 /* bytes of a list of platforms in an error */

static bool is_one_of(const char *type, const char *const *types)
{
	for (; *types; types++)
		if (strcmp(type, *types) == 0)
			return true;
	return false;
}

static bool is_config_type(const char *type)
{
	static const char *const types[] = {"application/vnd.docker.container.image.v1+json",
					    "application/vnd.oci.image.config.v1+json", NULL};

	return is_one_of(type, types);
}

/* How it is compressed is seen by its bytes. */
static bool is_layer_type(const char *type)
{
	static const char *const types[] = {
		"application/vnd.docker.image.rootfs.diff.tar",
		"application/vnd.docker.image.rootfs.diff.tar.gzip",
		"application/vnd.docker.image.rootfs.diff.tar.zstd",
		"application/vnd.oci.image.layer.v1.tar",
		"application/vnd.oci.image.layer.v1.tar+gzip",
		"application/vnd.oci.image.layer.v1.tar+zstd",
		NULL,
	};

	return is_one_of(type, types);
}

static bool is_foreign_type(const char *type)
{
	return strstr(type, ".foreign.") || strstr(type, ".nondistributable.");
}

static int invalid(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_INVALID, 0, "the manifest is wrong: %s", what);
}

static int parse_text(const char *text, size_t len, const char *what, struct json **ret,
		      struct cay_error *err)
{
	struct json_fault fault;
	int r = json_parse(text, len, IMAGE_MANIFEST_MAX, ret, &fault);

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the %s has more than %u bytes", what,
				IMAGE_MANIFEST_MAX);
	if (r == -EINVAL)
		return cay_fail(err, CAY_E_INVALID, 0, "the %s is wrong: line %d, column %d: %s",
				what, fault.line, fault.column, fault.what);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "read the %s", what) : 0;
}

static int descriptor_parse(const struct json *j, const char *what, struct descriptor *ret,
			    struct cay_error *err)
{
	const char *type = json_str(json_get(j, "mediaType")),
		   *digest = json_str(json_get(j, "digest"));
	const struct json *size = json_get(j, "size");

	*ret = (struct descriptor){0};
	if (!digest || digest_parse(digest, ret->digest) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"the manifest has no digest (SHA-256) of a %s", what);
	if (json_kind(size) != JSON_KIND_INT || json_int(size) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "the manifest has no size of a %s", what);
	if (type && strlen(type) >= sizeof(ret->type))
		return cay_fail(err, CAY_E_INVALID, 0, "the media type of a %s is too long", what);
	ret->size = (uint64_t)json_int(size);
	if (type)
		memcpy(ret->type, type, strlen(type));
	return 0;
}

/* A part that can't be is none: it fits nothing. */
static void take_part(char ret[PLATFORM_PART_SIZE], const struct json *j)
{
	const char *part = json_str(j);

	if (part && platform_part_ok(part))
		(void)snprintf(ret, PLATFORM_PART_SIZE, "%s", part);
}

static void take_platform(const struct json *j, struct platform *ret)
{
	take_part(ret->os, json_get(j, "os"));
	take_part(ret->architecture, json_get(j, "architecture"));
	take_part(ret->variant, json_get(j, "variant"));
}

static int parse_entry(const struct json *j, struct manifest_entry *ret, bool *ret_use,
		       struct cay_error *err)
{
	*ret_use = false;
	*ret = (struct manifest_entry){0};
	if (descriptor_parse(j, "manifest in it", &ret->manifest, err) < 0)
		return -1;
	if (ret->manifest.size > IMAGE_MANIFEST_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "a manifest has more than %u bytes",
				IMAGE_MANIFEST_MAX);
	take_platform(json_get(j, "platform"), &ret->platform);
	/* What goes with an image (signatures, attestations) is for "unknown", or for nothing. */
	*ret_use = ret->platform.os[0] && strcmp(ret->platform.os, "unknown") != 0;
	return 0;
}

static int parse_index(const struct json *list, struct manifest *m, struct cay_error *err)
{
	size_t n = json_len(list);

	m->is_index = true;
	if (json_kind(list) != JSON_KIND_ARRAY)
		return invalid(err, "an index without manifests");
	if (n > MANIFEST_ENTRIES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "an index of more than %u manifests",
				MANIFEST_ENTRIES_MAX);
	m->entries = calloc(n + 1, sizeof(*m->entries));
	if (!m->entries)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the index");
	for (size_t i = 0; i < n; i++) {
		bool use;

		if (parse_entry(json_at(list, i), &m->entries[m->n_entries], &use, err) < 0)
			return -1;
		m->n_entries += use;
	}
	return 0;
}

static int check_layer(const struct descriptor *d, struct cay_error *err)
{
	if (is_foreign_type(d->type))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"a layer may not be distributed and is elsewhere (%s)", d->type);
	if (!is_layer_type(d->type))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"a layer of a kind that is not known: %s",
				d->type[0] ? d->type : "it does not say");
	if (d->size > MANIFEST_LAYER_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "a layer of %llu bytes",
				(unsigned long long)d->size);
	return 0;
}

static int parse_layers(const struct json *list, struct manifest *m, struct cay_error *err)
{
	size_t n = json_len(list);

	if (json_kind(list) != JSON_KIND_ARRAY)
		return invalid(err, "no layers");
	if (n > IMAGE_LAYERS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "an image of more than %d layers",
				IMAGE_LAYERS_MAX);
	m->layers = calloc(n + 1, sizeof(*m->layers));
	if (!m->layers)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the manifest");
	for (; m->n_layers < n; m->n_layers++)
		if (descriptor_parse(json_at(list, m->n_layers), "layer", &m->layers[m->n_layers],
				     err) < 0 ||
		    check_layer(&m->layers[m->n_layers], err) < 0)
			return -1;
	return 0;
}

static int parse_image(const struct json *j, struct manifest *m, struct cay_error *err)
{
	if (descriptor_parse(json_get(j, "config"), "configuration", &m->config, err) < 0)
		return -1;
	if (!is_config_type(m->config.type))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "it is no image, but %s",
				m->config.type[0] ? m->config.type : "does not say what");
	if (m->config.size > IMAGE_CONFIG_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the configuration has more than %u bytes",
				IMAGE_CONFIG_MAX);
	return parse_layers(json_get(j, "layers"), m, err);
}

/* The type that decides: the text's own word, or else the registry's, or else its form. */
static const char *type_of(const struct json *j, const char *type)
{
	const char *own = json_str(json_get(j, "mediaType"));

	if (own)
		return own;
	if (type && (strcmp(type, DOCKER_INDEX) == 0 || strcmp(type, DOCKER_MANIFEST) == 0 ||
		     strcmp(type, OCI_INDEX) == 0 || strcmp(type, OCI_MANIFEST) == 0 ||
		     strncmp(type, SCHEMA_1, sizeof(SCHEMA_1) - 1) == 0))
		return type;
	return json_get(j, "manifests") ? OCI_INDEX : OCI_MANIFEST;
}

static int parse_kind(const struct json *j, const char *type, struct manifest *m,
		      struct cay_error *err)
{
	const char *kind = type_of(j, type);

	if (json_int(json_get(j, "schemaVersion")) == 1 ||
	    strncmp(kind, SCHEMA_1, sizeof(SCHEMA_1) - 1) == 0) {
		(void)cay_fail(
			err, CAY_E_UNSUPPORTED, 0,
			"the image has a manifest of schema 1, which nothing writes any more");
		return cay_hint(err, "push it again with a current Docker, Podman or skopeo");
	}
	if (json_int(json_get(j, "schemaVersion")) != 2)
		return invalid(err, "its schemaVersion is not 2");
	/* What two readers could take for two things is refused (CVE-2021-41190). */
	if (json_get(j, "manifests") && (json_get(j, "layers") || json_get(j, "config")))
		return invalid(err, "it is an image and an index at once");
	if (strcmp(kind, DOCKER_INDEX) == 0 || strcmp(kind, OCI_INDEX) == 0)
		return parse_index(json_get(j, "manifests"), m, err);
	if (strcmp(kind, DOCKER_MANIFEST) == 0 || strcmp(kind, OCI_MANIFEST) == 0)
		return parse_image(j, m, err);
	return cay_fail(err, CAY_E_UNSUPPORTED, 0, "a manifest of a kind that is not known: %.100s",
			kind);
}

int manifest_parse(const char *text, size_t len, const char *type, struct manifest *ret,
		   struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct manifest m = {0};

	if (parse_text(text, len, "manifest", &j, err) < 0)
		return -1;
	if (parse_kind(j, type, &m, err) < 0) {
		manifest_done(&m);
		return -1;
	}
	*ret = m;
	return 0;
}

void manifest_done(struct manifest *m)
{
	free(m->layers);
	free(m->entries);
	*m = (struct manifest){0};
}

static int none_fits(const struct manifest *index, const struct platform *wanted,
		     struct cay_error *err)
{
	_cleanup_(buf_done) struct buf list = BUF(PLATFORMS_TOLD);
	char text[PLATFORM_SIZE];

	for (size_t i = 0; i < index->n_entries; i++) {
		platform_text(&index->entries[i].platform, text);
		/* What does not fit any more is left out. */
		(void)buf_printf(&list, "%s%s", list.len ? ", " : "", text);
	}
	platform_text(wanted, text);
	(void)cay_fail(err, CAY_E_IMAGE, 0, "there is no image for the platform %s", text);
	if (!list.len)
		return cay_hint(err, "there is none for any platform");
	return cay_hint(err, "there are images for %s", buf_str(&list));
}

int manifest_choose(const struct manifest *index, const struct platform *wanted,
		    const struct manifest_entry **ret, struct cay_error *err)
{
	const struct manifest_entry *best = NULL;
	int fits = 0;

	for (size_t i = 0; i < index->n_entries; i++) {
		int f = platform_fits(wanted, &index->entries[i].platform);

		if (f > fits) {
			fits = f;
			best = &index->entries[i];
		}
	}
	if (!best)
		return none_fits(index, wanted, err);
	*ret = best;
	return 0;
}

static int parse_diff_ids(const struct json *list, struct image_config *c, struct cay_error *err)
{
	size_t n = json_len(list);
	int r = 0;

	if (json_kind(list) != JSON_KIND_ARRAY)
		return cay_fail(err, CAY_E_INVALID, 0, "the configuration lists no layers");
	if (n > IMAGE_LAYERS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "an image of more than %d layers",
				IMAGE_LAYERS_MAX);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const char *text = json_str(json_at(list, i));
		char hex[IMAGE_ID_SIZE];

		if (!text || digest_parse(text, hex) < 0)
			return cay_fail(err, CAY_E_INVALID, 0,
					"the configuration has no digest (SHA-256) of a layer");
		r = strv_add(&c->diff_ids, hex);
	}
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "read the configuration") : 0;
}

int image_config_parse(const char *text, size_t len, struct image_config *ret,
		       struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct image_config c = {0};

	if (parse_text(text, len, "configuration", &j, err) < 0)
		return -1;
	take_platform(j, &c.platform);
	if (parse_diff_ids(json_get(json_get(j, "rootfs"), "diff_ids"), &c, err) < 0) {
		image_config_done(&c);
		return -1;
	}
	*ret = c;
	return 0;
}

void image_config_done(struct image_config *c)
{
	strv_done(&c->diff_ids);
}
