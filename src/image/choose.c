#include "image/choose.h"

#include "image/images.h"
#include "image/naming.h"
#include "image/runtime_choose.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void image_choice_done(struct image_choice *c)
{
	image_free(c->image);
	c->image = NULL;
}

static int find_dir(const struct settings *s, char dir[PATH_MAX], struct cay_error *err)
{
	int r = images_dir(s, dir);

	if (r == 0)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, -r, "find the image store");
	return cay_hint(err, "say where it is: HOME, or [images] store in the settings");
}

/* c->name is resolved. Who may not use an image is not told whether it is there. */
static int find_image(const struct settings *s, struct image_choice *c, struct cay_error *err)
{
	bool by_id = image_id_prefix(c->name) != NULL;
	char dir[PATH_MAX];

	if (!by_id && image_may_use(s, c->name, NULL, err) < 0)
		return -1;
	if (strcmp(c->name, IMAGE_HOST) == 0)
		return 0;
	if (find_dir(s, dir, err) < 0 || images_find(dir, c->name, &c->image, err) < 0)
		return -1;
	if (!by_id || image_may_use(s, c->name, c->image, err) == 0)
		return 0;
	return s->key ? images_fail_missing(c->name, err) : -1;
}

int image_choose_named(const struct settings *s, const struct spec *spec, struct image_choice *ret,
		       struct cay_error *err)
{
	ret->image = NULL;
	if (image_name_resolve(s, spec->image ? spec->image : IMAGE_HOST, ret->name, err) < 0)
		return -1;
	return find_image(s, ret, err);
}

int image_choose_runtime(const struct settings *s, const struct spec *spec,
			 const struct image *image, const char *name, struct runtime *ret,
			 struct cay_error *err)
{
	return image ? runtime_choose_of(image, name, s, spec->language, spec->version, ret, err)
		     : runtime_choose(s, spec->language, spec->version, NULL, ret, err);
}

/* By the language: its runtime says which image. */
static int choose_by_language(const struct settings *s, const struct spec *spec,
			      struct image_choice *ret, struct runtime *rt, struct cay_error *err)
{
	char dir[PATH_MAX];

	/* Without a home there is no store, and no image to be found. */
	if (runtime_choose(s, spec->language, spec->version, images_dir(s, dir) < 0 ? NULL : dir,
			   rt, err) < 0)
		return -1;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", rt->image[0] ? rt->image : IMAGE_HOST);
	return find_image(s, ret, err);
}

int image_choose(const struct settings *s, const struct spec *spec, struct image_choice *ret,
		 struct runtime *ret_runtime, struct cay_error *err)
{
	ret->image = NULL;
	/* Without a sandbox there is nothing but the host; for an argv, nothing says otherwise. */
	if (!spec->image && spec->kind != SPEC_ARGV && spec->engine != ENGINE_DIRECT)
		return choose_by_language(s, spec, ret, ret_runtime, err);
	if (image_choose_named(s, spec, ret, err) < 0)
		return -1;
	return spec->kind == SPEC_ARGV
		       ? 0
		       : image_choose_runtime(s, spec, ret->image, ret->name, ret_runtime, err);
}
