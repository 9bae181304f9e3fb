#include "image/naming.h"

#include "base/attr.h"
#include "image/images.h"
#include "policy/bounds.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define HUB         IMAGE_REF_HUB "/"
#define HUB_LIBRARY HUB "library/"

static const char *alias_of(const struct settings *s, const char *text)
{
	const char *meant = strv_get_env(&s->images_aliases, text);

	return meant ? meant : text;
}

int image_name_resolve(const struct settings *s, const char *text, char ret[IMAGE_REF_SIZE],
		       struct cay_error *err)
{
	struct image_ref ref;

	if (strcmp(text, IMAGE_HOST) != 0)
		text = alias_of(s, text);
	/* By its id: a name of such letters alone would be somebody's, and nobody's else. */
	if (strcmp(text, IMAGE_HOST) == 0 || image_id_prefix(text)) {
		(void)snprintf(ret, IMAGE_REF_SIZE, "%s", text);
		return 0;
	}
	if (image_ref_parse(text, &ref, err) < 0)
		return -1;
	image_ref_text(&ref, ret);
	return 0;
}

static bool means(const char *text, const char *reference)
{
	char full[IMAGE_REF_SIZE];
	struct cay_error err;
	struct image_ref ref;

	if (image_ref_parse(text, &ref, &err) < 0)
		return false;
	image_ref_text(&ref, full);
	return strcmp(full, reference) == 0;
}

void image_name_short(const char *reference, char ret[IMAGE_REF_SIZE])
{
	static const char *const prefixes[] = {HUB_LIBRARY, HUB};

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t n = strlen(prefixes[i]);

		/* Of docker.io/ghcr.io/x the rest would be another registry's. */
		if (strncmp(reference, prefixes[i], n) == 0 && means(reference + n, reference)) {
			(void)snprintf(ret, IMAGE_REF_SIZE, "%s", reference + n);
			return;
		}
	}
	(void)snprintf(ret, IMAGE_REF_SIZE, "%s", reference);
}

/* glob and name: what stands before the first slash of each. */
static bool registry_matches(const char *glob, size_t glob_len, const char *name, size_t len)
{
	char wanted[REGISTRY_SIZE], registry[REGISTRY_SIZE];

	if (glob_len >= sizeof(wanted) || len >= sizeof(registry))
		return false;
	(void)snprintf(registry, sizeof(registry), "%.*s", (int)len, name);
	if (registry_parse(glob, glob_len, wanted) == 0)
		return strcmp(wanted, registry) == 0;
	(void)snprintf(wanted, sizeof(wanted), "%.*s", (int)glob_len, glob);
	/* An address in brackets is no class of letters. */
	return !strchr(wanted, '[') && fnmatch(wanted, registry, FNM_NOESCAPE) == 0;
}

/*
 * The registry is compared apart from the rest: who owns a domain that begins as a name on Docker
 * Hub does is not who was meant.
 */
bool image_name_matches(const char *glob, const char *reference)
{
	const char *slash = strchr(glob, '/'), *rest = strchr(reference, '/');
	char brief[IMAGE_REF_SIZE];

	if (strcmp(glob, "*") == 0 || means(glob, reference))
		return true;
	if (!rest)
		return false;
	if (slash && image_ref_names_registry(glob, (size_t)(slash - glob)))
		return registry_matches(glob, (size_t)(slash - glob), reference,
					(size_t)(rest - reference)) &&
		       fnmatch(slash + 1, rest + 1, FNM_NOESCAPE) == 0;
	image_name_short(reference, brief);
	/* Only names on Docker Hub have a shorter form. */
	return strcmp(brief, reference) != 0 &&
	       fnmatch(glob, brief, FNM_NOESCAPE | FNM_PATHNAME) == 0;
}

static bool is_listed(const struct strv *globs, const char *name)
{
	for (size_t i = 0; i < globs->len; i++)
		/* This machine is no image, though one may be called so. */
		if (strcmp(globs->items[i], IMAGE_HOST) != 0 &&
		    image_name_matches(globs->items[i], name))
			return true;
	return false;
}

/* An id says nothing about where an image is from: its names do. */
static bool may(const struct strv *globs, const char *name, const struct image *image)
{
	if (!image_id_prefix(name))
		return is_listed(globs, name);
	for (size_t i = 0; image && i < image->names.len; i++)
		if (is_listed(globs, image->names.items[i]))
			return true;
	return false;
}

int image_may_use(const struct settings *s, const char *name, const struct image *image,
		  struct cay_error *err)
{
	bool host = strcmp(name, IMAGE_HOST) == 0;

	if (!host && s->images_allow.len > 0 && !may(&s->images_allow, name, image)) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the image %.200s is not allowed here", name);
		return cay_hint(err, "[images] allow in the settings says which are");
	}
	/* What a key may have it is given by name: no glob of images means this machine. */
	if (!s->key || !s->key->has_images ||
	    (host ? strv_has(&s->key->images, IMAGE_HOST) : may(&s->key->images, name, image)))
		return 0;
	(void)cay_fail(err, CAY_E_POLICY, 0, "the image %.200s: not for this key", name);
	return cay_hint(err, "the key's bound images says what it may have");
}
