/*
 * key_request.h: the JSON object that asks for a key: {"name":"ci", "tier":"standard",
 * "quotas":{"parallel_runs":4, "runs_per_minute":60, "live_sandboxes":10,
 * "cpu_seconds_per_day":3600}, "bounds":{…}}. All but the name may be left out: the
 * lowest tier, no quotas of its own, no bounds (policy/bounds.h).
 */
#pragma once

#include "core/error.h"
#include "store/keys.h"

#define KEY_REQUEST_MAX_BYTES (128u << 10)

/* The caller has *ret to key_record_done(), also after a failure. */
int key_request_parse(struct key_record *ret, const char *text, size_t len, struct cay_error *err);
