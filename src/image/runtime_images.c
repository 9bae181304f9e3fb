#include "image/runtime_images.h"

#include "base/attr.h"
#include "image/images.h"
#include "image/naming.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MARK "{version}"

static int add(const struct image_runtime *found, const char *name, const char *source,
	       const struct language *language, struct runtimes *ret, struct cay_error *err)
{
	struct runtime *rt = runtimes_add(ret, language, err);

	if (!rt)
		return -1;
	(void)snprintf(rt->version, sizeof(rt->version), "%s", found->version);
	(void)snprintf(rt->program, sizeof(rt->program), "%s", found->program);
	(void)snprintf(rt->tool, sizeof(rt->tool), "%s", found->tool ? found->tool : "");
	(void)snprintf(rt->image, sizeof(rt->image), "%s", name);
	(void)snprintf(rt->source, sizeof(rt->source), "%s", source);
	if (language->tool && !found->tool && !language_is_toolless(language, rt->version))
		rt->lacks = language->tool;
	return 0;
}

int runtime_images_in(const struct image *image, const char *name, const char *source,
		      const struct language *language, struct runtimes *ret, struct cay_error *err)
{
	for (size_t i = 0; i < image->n_runtimes; i++)
		if (strcmp(image->runtimes[i].language, language->name) == 0 &&
		    add(&image->runtimes[i], name, source, language, ret, err) < 0)
			return -1;
	return 0;
}

/* One that the settings name. */
static int add_named(const char *dir, const struct settings *s, const char *text,
		     const char *source, const struct language *language, struct runtimes *ret,
		     struct cay_error *err)
{
	_cleanup_(image_freep) struct image *image = NULL;
	struct cay_error denied;
	char name[IMAGE_REF_SIZE];

	if (image_name_resolve(s, text, name, err) < 0 || images_find(dir, name, &image, err) < 0)
		return cay_wrap(err, "%s", source);
	if (image_may_use(s, name, image, &denied) < 0)
		return 0;
	return runtime_images_in(image, name, source, language, ret, err);
}

static int add_settings(const char *dir, const struct settings *s, const char *section,
			const struct language *language, struct runtimes *ret,
			struct cay_error *err)
{
	const struct language_settings *ls = settings_language(s, section);
	char origin[128];

	for (size_t i = 0; ls && i < ls->images.len; i++) {
		(void)snprintf(origin, sizeof(origin), "language %s.image[%zu]", section, i);
		if (add_named(dir, s, ls->images.items[i], settings_origin(s, origin), language,
			      ret, err) < 0)
			return -1;
	}
	return 0;
}

int runtime_images_named(const char *dir, const struct settings *s, const struct language *language,
			 struct runtimes *ret, struct cay_error *err)
{
	const struct language *base = language_base(language);

	if (add_settings(dir, s, language->name, language, ret, err) < 0)
		return -1;
	return base == language ? 0 : add_settings(dir, s, base->name, language, ret, err);
}

/* The version in the name of an image, if it is one of the template's. */
static bool read_version(const char *template, const char *name, char version[VERSION_SIZE])
{
	const char *mark = strstr(template, VERSION_MARK), *rest = mark + strlen(VERSION_MARK);
	size_t before = (size_t)(mark - template), after = strlen(rest), len = strlen(name);

	if (len <= before + after || len - before - after >= VERSION_SIZE ||
	    strncmp(name, template, before) != 0 || strcmp(name + len - after, rest) != 0)
		return false;
	(void)snprintf(version, VERSION_SIZE, "%.*s", (int)(len - before - after), name + before);
	return version_is_request(version);
}

/* What else may be in the image: another version of the distribution's own. */
static void drop_others(struct runtimes *r, size_t from, const char *version)
{
	size_t kept = from;

	for (size_t i = from; i < r->len; i++)
		if (version_matches(r->items[i].version, version))
			r->items[kept++] = r->items[i];
	r->len = kept;
}

static int add_default(const char *dir, const struct settings *s, const char *name,
		       const struct language *language, struct runtimes *ret, struct cay_error *err)
{
	const char *template = language_base(language)->image;
	_cleanup_(image_freep) struct image *image = NULL;
	char brief[IMAGE_REF_SIZE], version[VERSION_SIZE];
	struct cay_error denied;
	size_t before = ret->len;

	image_name_short(name, brief);
	if (!read_version(template, brief, version) || image_may_use(s, name, NULL, &denied) < 0)
		return 0;
	if (images_find(dir, name, &image, err) < 0)
		return err->code == CAY_E_IMAGE ? 0 : -1; /* removed meanwhile */
	if (runtime_images_in(image, name, RUNTIME_STORE, language, ret, err) < 0)
		return -1;
	drop_others(ret, before, version);
	return 0;
}

int runtime_images_default(const char *dir, const struct settings *s,
			   const struct language *language, struct runtimes *ret,
			   struct cay_error *err)
{
	_cleanup_(strv_done) struct strv names = {0};
	int r;

	if (!language_base(language)->image)
		return 0;
	r = images_names(dir, &names);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "read the names of images");
	for (size_t i = 0; i < names.len; i++)
		if (add_default(dir, s, names.items[i], language, ret, err) < 0)
			return -1;
	return 0;
}

void runtime_image_name(const struct language *language, const char *version,
			char ret[RUNTIME_IMAGE_SIZE])
{
	const struct language *base = language_base(language);
	const char *mark = base->image ? strstr(base->image, VERSION_MARK) : NULL;

	ret[0] = '\0';
	/* An image of the language alone would lack a tool that is another project's. */
	if (mark && (!language->tool || language->tool_beside))
		(void)snprintf(ret, RUNTIME_IMAGE_SIZE, "%.*s%s%s", (int)(mark - base->image),
			       base->image, version ? version : base->image_version,
			       mark + strlen(VERSION_MARK));
}
