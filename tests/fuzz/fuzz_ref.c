/* A reference: what is read can be written, in one way, and is safe to put into a URL. */
#include "fuzz.h"

#include "image/ref.h"

static void check_parts(const struct image_ref *r)
{
	CHECK(r->registry[0] && r->repository[0]);
	CHECK(!strpbrk(r->registry, "/@?#% \\") && !strpbrk(r->repository, ":@?#% \\"));
	CHECK(!strstr(r->repository, "..") && !strstr(r->repository, "//"));
	CHECK(r->repository[0] != '/' && !strpbrk(r->tag, "/:@?#% \\"));
	CHECK(r->tag[0] || r->digest[0]);
	CHECK(!r->digest[0] || strspn(r->digest, "0123456789abcdef") == 64);
	for (const char *c = r->registry; *c; c++)
		CHECK((unsigned char)*c > ' ' && (unsigned char)*c < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *text = input_rest(&in);
	char full[IMAGE_REF_SIZE], again[IMAGE_REF_SIZE];
	struct image_ref ref;
	struct cay_error err;

	if (image_ref_parse(text, &ref, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID);
		return 0;
	}
	check_parts(&ref);
	image_ref_text(&ref, full);
	CHECK(image_ref_parse(full, &ref, &err) == 0);
	image_ref_text(&ref, again);
	CHECK(strcmp(full, again) == 0);
	return 0;
}
