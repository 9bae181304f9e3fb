#include "image/runtime_list.h"

#include "base/attr.h"
#include "base/json.h"
#include "image/images.h"
#include "image/runtime.h"
#include "image/runtime_images.h"

static struct json *found_json(const struct runtime *rt)
{
	struct json *j = json_new_object();

	json_set_str(j, "language", rt->language->name);
	json_set_str(j, "version", rt->version[0] ? rt->version : NULL);
	json_set_str(j, "program", rt->program);
	json_set_str(j, "tool", rt->tool[0] ? rt->tool : NULL);
	json_set_str(j, "lacks", rt->lacks);
	json_set_str(j, "root", rt->root[0] ? rt->root : NULL);
	json_set_str(j, "source", rt->source);
	json_set_str(j, "image", rt->image[0] ? rt->image : NULL);
	json_set_bool(j, "default", rt->default_reason != NULL);
	json_set_str(j, "reason", rt->default_reason);
	return j;
}

static struct json *missing_json(const struct language *language)
{
	struct json *j = json_new_object();
	char image[RUNTIME_IMAGE_SIZE];

	runtime_image_name(language, NULL, image);
	json_set_str(j, "language", language->name);
	json_set_str(j, "package", language->package);
	json_set_str(j, "image", image[0] ? image : NULL);
	return j;
}

static int add(const struct settings *s, const struct language *language, struct json *found,
	       struct json *missing, struct cay_error *err)
{
	struct runtimes all = {0};
	char images[PATH_MAX];
	int r = runtimes_find(s, language, images_dir(s, images) < 0 ? NULL : images, &all, err);

	for (size_t i = 0; r == 0 && i < all.len; i++)
		json_add(found, found_json(&all.items[i]));
	if (r == 0 && all.len == 0)
		json_add(missing, missing_json(language));
	runtimes_done(&all);
	return r;
}

int runtime_list_json(const struct settings *s, const struct language *only, struct json **ret,
		      struct cay_error *err)
{
	_cleanup_(json_freep) struct json *all = json_new_object();
	struct json *found = json_new_array(), *missing = json_new_array();
	const struct language *first = only ? only : languages;
	size_t n = only ? 1 : n_languages;
	int r = 0;

	json_set(all, "runtimes", found);
	json_set(all, "missing", missing);
	for (size_t i = 0; i < n && r == 0; i++)
		r = add(s, &first[i], found, missing, err);
	if (r == 0)
		*ret = take_ptr(&all);
	return r;
}
