/*
 * rm.c: `cay image rm` and `cay image prune`.
 */
#include "base/attr.h"
#include "image/call.h"
#include "image/images.h"
#include "image/ref.h"
#include "image/remove.h"
#include "image/store_impl.h"

#include <string.h>

/* Whether arg is one of its names, rather than its id. */
static bool names_it(const struct image *image, const char *arg, char full[IMAGE_REF_SIZE])
{
	struct image_ref ref;
	struct cay_error none;

	if (image_ref_parse(arg, &ref, &none) < 0)
		return false;
	image_ref_text(&ref, full);
	for (size_t i = 0; i < image->names.len; i++)
		if (strcmp(image->names.items[i], full) == 0)
			return true;
	return false;
}

/* Of no use by any name, so all of them go. */
static int remove_damaged(struct removal *r, struct image *image, struct cay_error *err)
{
	int n = 0;

	if (image->id[0])
		return removal_image(r, image, err);
	for (size_t i = 0; n == 0 && i < image->names.len; i++)
		n = removal_name(r, image->names.items[i]);
	return n < 0 ? cay_fail(err, CAY_E_INTERNAL, -n, "remove the name") : 0;
}

/* One of several names goes alone; the last one with the image, and an id with all names. */
static int remove_one(const struct image_call *call, struct removal *r, const char *arg,
		      char id[IMAGE_ID_SIZE], struct cay_error *err)
{
	_cleanup_(image_freep) struct image *found = NULL, *damaged = NULL;
	char full[IMAGE_REF_SIZE];
	int n;

	if (images_find(r->store->path, arg, &found, err) < 0) {
		if (images_find_damaged(r->store->path, arg, &damaged, err) < 0)
			return -1;
		memcpy(id, damaged->id, IMAGE_ID_SIZE);
		err->hint[0] = '\0';
		(void)cay_wrap(err, "%s was damaged", arg);
		call_warn(call, err);
		return remove_damaged(r, damaged, err);
	}
	memcpy(id, found->id, IMAGE_ID_SIZE);
	if (names_it(found, arg, full) && found->names.len > 1) {
		n = removal_name(r, full);
		return n < 0 ? cay_fail(err, CAY_E_INTERNAL, -n, "remove %s", full) : 0;
	}
	for (size_t i = 0; i < r->n_images; i++)
		if (strcmp(r->images[i]->id, found->id) == 0)
			return removal_image(r, r->images[i], err);
	return 0;
}

int rm_main(struct image_call *call, struct cay_error *err)
{
	for (int i = 0; i < call->n_args; i++) {
		struct removal r;
		char id[IMAGE_ID_SIZE] = "";
		int n = removal_begin(&r, call->store, err);

		if (n == 0)
			n = remove_one(call, &r, call->args[i], id, err);
		if (n == 0)
			removal_unused(&r);
		removal_end(&r);
		if (n < 0)
			return -1;
		call_say(call, "removed", id, call->args[i], r.freed_bytes);
	}
	return 0;
}

static int remove_nameless(struct removal *r, const struct image_call *call, struct cay_error *err)
{
	for (size_t i = 0; i < r->n_images; i++) {
		char id[IMAGE_ID_SIZE];

		memcpy(id, r->images[i]->id, sizeof(id));
		if (r->images[i]->names.len > 0)
			continue;
		if (removal_image(r, r->images[i], err) == 0)
			call_say(call, "removed", id, "", r->images[i]->size_bytes);
		else if (err->code != CAY_E_CONFLICT)
			return -1;
	}
	return 0;
}

int prune_main(struct image_call *call, struct cay_error *err)
{
	struct removal r;
	int n = removal_begin(&r, call->store, err);

	if (n == 0 && call->all)
		n = remove_nameless(&r, call, err);
	if (n == 0) {
		removal_unused(&r);
		removal_partials(&r, call->all);
	}
	removal_end(&r);
	if (n == 0)
		call_say(call, "freed", "", "", r.freed_bytes);
	return n;
}
