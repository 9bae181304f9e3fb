/* JSON from others: what is taken is written back the same, and never too deep. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>

#define TEXT_MAX (1u << 16)

static void walk(const struct json *j, int depth)
{
	const struct json *value;
	const char *name, *s;
	void *at = NULL;
	size_t len;

	if (json_kind(j) == JSON_KIND_OBJECT || json_kind(j) == JSON_KIND_ARRAY)
		CHECK(++depth <= JSON_DEPTH_MAX);
	for (size_t i = 0; json_kind(j) == JSON_KIND_ARRAY && i < json_len(j); i++)
		walk(json_at(j, i), depth);
	while (json_next(j, &at, &name, &value)) {
		CHECK(json_get(j, name) == value && text_is_utf8(name, strlen(name)));
		walk(value, depth);
	}
	s = json_bytes(j, &len);
	CHECK(!s == (json_kind(j) != JSON_KIND_STR));
	CHECK(!s || text_is_utf8(s, len));
	CHECK(!json_str(j) || strlen(json_str(j)) == len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf first = BUF(16 * TEXT_MAX), second = BUF(16 * TEXT_MAX);
	_cleanup_(json_freep) struct json *j = NULL, *again = NULL;
	struct json_fault fault = {0};
	int r = json_parse((const char *)data, size, TEXT_MAX, &j, &fault);

	if (r < 0) {
		CHECK(!j && (r == -EFBIG || (fault.what[0] && fault.line >= 0)));
		return 0;
	}
	walk(j, 0);
	CHECK(json_text(j, &first) == 0);
	r = json_parse(first.data, first.len, first.max, &again, &fault);
	/* Written with ten digits, the largest double is rounded to more than there is. */
	if (r == -EINVAL && strstr(fault.what, "overflow"))
		return 0;
	CHECK(r == 0);
	CHECK(json_text(again, &second) == 0);
	CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
	return 0;
}
