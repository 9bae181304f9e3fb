/* An order for images, as packets come: what passes names an image and no option. */
#include "fuzz.h"

#include "image/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(settings_done) struct settings s;
	struct image_order o = {0};
	struct cay_error err = {0};

	settings_init(&s);
	memcpy(&o, data, size_min(size, sizeof(o)));
	if (image_order_check(&o, size > sizeof(o) ? size : sizeof(o), &s, &err) < 0) {
		CHECK(err.code > CAY_OK && err.code < CAY_CODES && err.text[0]);
		return 0;
	}
	CHECK(size <= sizeof(o) && o.kind < IMAGE_ORDER_KINDS);
	CHECK(strlen(o.name) < sizeof(o.name) && strlen(o.platform) < sizeof(o.platform));
	CHECK(o.name[0] && o.name[0] != '-' && o.platform[0] != '-');
	CHECK(!strpbrk(o.name, " \t\n\\\"'") && !strpbrk(o.platform, " \t\n\\\"'"));
	return 0;
}
