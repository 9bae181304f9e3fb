#include "image/order.h"

#include "image/images.h"
#include "image/naming.h"

#include <stdio.h>
#include <string.h>

/* OS/ARCH or OS/ARCH/VARIANT, and never an option. */
static bool is_platform(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	int parts = 0;

	for (;;) {
		size_t n = strspn(text, letters);

		if (n == 0 || text[0] == '-' || text[0] == '.')
			return false;
		parts++;
		text += n;
		if (*text != '/')
			break;
		text++;
	}
	return !*text && (parts == 2 || parts == 3);
}

static int check_platform(const char *text, struct cay_error *err)
{
	if (strlen(text) < IMAGE_PLATFORM_SIZE && is_platform(text))
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no platform", text);
	return cay_hint(err, "OS/ARCH, as in linux/arm64, or OS/ARCH/VARIANT");
}

static int check_name(const struct settings *s, uint32_t kind, const char *name,
		      struct cay_error *err)
{
	char again[IMAGE_REF_SIZE];

	if (image_name_resolve(s, name, again, err) < 0)
		return -1;
	if (strcmp(name, again) != 0 || strcmp(name, IMAGE_HOST) == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "'%.64s' names no image", name);
	if (kind != IMAGE_ORDER_PULL)
		return 0;
	if (image_id_prefix(name))
		return cay_fail(err, CAY_E_INVALID, 0,
				"an image is pulled by its name, not its id");
	return image_may_use(s, name, NULL, err);
}

int image_order_make(const struct settings *s, enum image_order_kind kind, const char *text,
		     const char *platform, struct image_order *ret, struct cay_error *err)
{
	*ret = (struct image_order){.kind = (uint32_t)kind};
	if (image_name_resolve(s, text, ret->name, err) < 0 ||
	    (platform && check_platform(platform, err) < 0))
		return -1;
	(void)snprintf(ret->platform, sizeof(ret->platform), "%s", platform ? platform : "");
	return check_name(s, ret->kind, ret->name, err);
}

int image_order_check(const struct image_order *o, size_t len, const struct settings *s,
		      struct cay_error *err)
{
	if (len != sizeof(*o) || o->kind >= IMAGE_ORDER_KINDS ||
	    !memchr(o->name, '\0', sizeof(o->name)) ||
	    !memchr(o->platform, '\0', sizeof(o->platform)))
		return cay_fail(err, CAY_E_INVALID, 0, "no order for images");
	if (check_name(s, o->kind, o->name, err) < 0)
		return -1;
	return o->platform[0] ? check_platform(o->platform, err) : 0;
}
