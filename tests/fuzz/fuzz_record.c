/* An image's record: what is read can be relied on, and is the same when written and read again. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/json.h"
#include "image/record.h"
#include "spec/spec.h"

static void write_text(const struct image *image, struct buf *ret)
{
	_cleanup_(json_freep) struct json *j = NULL;

	CHECK(record_json(image, &j) == 0);
	CHECK(json_text(j, ret) == 0);
}

static void check(const struct image *image)
{
	CHECK(image_id_ok(image->id));
	CHECK(!image->manifest[0] || image_id_ok(image->manifest));
	CHECK(image->uid <= IMAGE_ID_MAX && image->gid <= IMAGE_ID_MAX);
	CHECK(!image->workdir || island_path_ok(image->workdir));
	CHECK(!image->home || island_path_ok(image->home));
	CHECK(image->n_runtimes <= IMAGE_RUNTIMES_MAX);
	for (size_t i = 0; i < image->layers.len; i++)
		CHECK(image_id_ok(image->layers.items[i]));
	for (size_t i = 0; i < image->n_runtimes; i++) {
		const struct image_runtime *rt = &image->runtimes[i];

		CHECK(rt->language[0] && island_path_ok(rt->program));
		CHECK(!rt->tool || island_path_ok(rt->tool));
		CHECK(!rt->version[0] || version_valid(rt->version));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf first = BUF(8 * RECORD_MAX_BYTES),
				       second = BUF(8 * RECORD_MAX_BYTES);
	_cleanup_(image_done) struct image image, again = {0};
	struct cay_error err = {0};

	if (record_parse((const char *)data, size, &image, &err) < 0) {
		CHECK(err.code == CAY_E_INTERNAL && err.text[0]);
		return 0;
	}
	check(&image);
	write_text(&image, &first);
	CHECK(record_parse(first.data, first.len, &again, &err) == 0);
	write_text(&again, &second);
	CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
	return 0;
}
