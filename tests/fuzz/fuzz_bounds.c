/* A key's bounds: what is taken is bounded itself, and only ever takes away. */
#include "fuzz.h"

#include "core/limit.h"
#include "policy/bounds.h"

static void check(const struct bounds *b)
{
	struct limits before = {.memory_bytes = 1 << 30, .pids = 7}, after = before;

	CHECK(b->images.len <= BOUNDS_IMAGES_MAX && b->mounts <= MOUNTS_WRITE);
	CHECK(!(b->engines & 1u << ENGINE_AUTO));
	CHECK(!b->has_networks || b->networks & 1u << NETWORK_NONE);
	CHECK(b->allow.len <= EGRESS_RULES_MAX && b->block.len <= EGRESS_RULES_MAX);
	CHECK(b->has_allow || b->allow.len == 0);
	CHECK(!b->has_tier);
	bounds_lower(b, &after);
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t old = limit_get(&before, &limit_rows[i]);
		uint64_t new = limit_get(&after, &limit_rows[i]);

		CHECK(old == 0 ? new == 0 || new >= limit_rows[i].min : new &&new <= old);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cay_error err = {0};
	struct bounds b;

	if (bounds_parse(&b, (const char *)data, size, &err) == 0)
		check(&b);
	else
		CHECK(err.code > CAY_OK && err.code < CAY_CODES && err.text[0]);
	bounds_done(&b);
	return 0;
}
