/* What asks for a key. */
#include "fuzz.h"

#include "policy/bounds.h"
#include "store/key_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cay_error err = {0};
	struct key_record k;
	struct bounds b;

	if (key_request_parse(&k, (const char *)data, size, &err) == 0) {
		CHECK(k.name[0] && k.tier[0]);
		CHECK(k.quotas.parallel_runs >= 0 && k.quotas.runs_per_minute >= 0 &&
		      k.quotas.live_sandboxes >= 0 && k.quotas.cpu_seconds_per_day >= 0);
		/* What will be read back for each of its calls can be. */
		if (k.bounds) {
			CHECK(bounds_parse(&b, k.bounds, strlen(k.bounds), &err) == 0);
			bounds_done(&b);
		}
	} else {
		CHECK(err.code > CAY_OK && err.code < CAY_CODES && err.text[0]);
	}
	key_record_done(&k);
	return 0;
}
