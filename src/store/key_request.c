#include "store/key_request.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/tier.h"
#include "policy/bounds.h"
#include "spec/fields.h"
#include "spec/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define QUOTA_MAX 1000000000ll

#define SETTER(name) static int name(struct reader *r, const struct json *v, struct cay_error *err)

static struct key_record *record(const struct reader *r)
{
	return r->into;
}

_Static_assert(KEY_NAME_MAX >= REQUEST_NAME_MAX, "a name fits");

SETTER(set_name)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	if (!request_name_ok(s)) {
		(void)field_invalid(err, "can't be a name");
		return cay_hint(err, "up to %d letters, digits, '-', '_' and '.'",
				REQUEST_NAME_MAX);
	}
	(void)snprintf(record(r)->name, sizeof(record(r)->name), "%s", s);
	return 0;
}

SETTER(set_tier)
{
	const char *s = field_str(v, err);

	if (!s)
		return -1;
	if (tier_find(s) < TIERS) {
		(void)snprintf(record(r)->tier, sizeof(record(r)->tier), "%s", s);
		return 0;
	}
	(void)field_invalid(err, "no such tier");
	return cay_hint(err, "tiers are sandbox, restricted, standard, elevated, unrestricted");
}

static int set_quota(const struct json *v, int64_t *ret, struct cay_error *err)
{
	if (json_int(v) < 0 || json_int(v) > QUOTA_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "expected a number from 0 to %lld",
				QUOTA_MAX);
	*ret = json_int(v);
	return 0;
}

SETTER(set_parallel_runs)
{
	return set_quota(v, &record(r)->quotas.parallel_runs, err);
}

SETTER(set_runs_per_minute)
{
	return set_quota(v, &record(r)->quotas.runs_per_minute, err);
}

SETTER(set_live_sandboxes)
{
	return set_quota(v, &record(r)->quotas.live_sandboxes, err);
}

SETTER(set_cpu_seconds_per_day)
{
	return set_quota(v, &record(r)->quotas.cpu_seconds_per_day, err);
}

static const struct field quota_fields[] = {
	{"parallel_runs", TAKES_INT, set_parallel_runs, 0},
	{"runs_per_minute", TAKES_INT, set_runs_per_minute, 0},
	{"live_sandboxes", TAKES_INT, set_live_sandboxes, 0},
	{"cpu_seconds_per_day", TAKES_INT, set_cpu_seconds_per_day, 0},
};

SETTER(set_quotas)
{
	return fields_read(r, quota_fields, ARRAY_LEN(quota_fields), v, err);
}

/* Kept as it was written, once it is known to be right. */
SETTER(set_bounds)
{
	_cleanup_(buf_done) struct buf text = BUF(BOUNDS_MAX_BYTES);
	_cleanup_(bounds_done) struct bounds b = {0};
	int n;

	if (bounds_read(&b, v, err) < 0) {
		r->path[0] = '\0'; /* the error has its own */
		return -1;
	}
	n = json_text(v, &text);
	if (n == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %u bytes", BOUNDS_MAX_BYTES);
	record(r)->bounds = n < 0 ? NULL : buf_take(&text);
	return record(r)->bounds ? 0 : field_no_memory(err);
}

static const struct field fields[] = {
	{"name", TAKES_STR, set_name, 0},
	{"tier", TAKES_STR, set_tier, 0},
	{"quotas", TAKES_OBJECT, set_quotas, 0},
	{"bounds", TAKES_OBJECT, set_bounds, 0},
};

int key_request_parse(struct key_record *ret, const char *text, size_t len, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct reader r = {.into = ret};

	*ret = (struct key_record){0};
	(void)snprintf(ret->tier, sizeof(ret->tier), "%s", tier_name(TIER_SANDBOX));
	if (fields_parse(text, len, KEY_REQUEST_MAX_BYTES, &j, err) < 0)
		return cay_wrap(err, "the request");
	if (fields_read(&r, fields, ARRAY_LEN(fields), j, err) < 0)
		return reader_fail(&r, err);
	return ret->name[0] ? 0 : cay_fail(err, CAY_E_INVALID, 0, "name: is missing");
}
