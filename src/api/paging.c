#include "api/paging.h"

#include "api/exchange.h"
#include "base/json.h"
#include "base/parse.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int paging_read(const struct exchange *x, struct page *ret, struct cay_error *err)
{
	const struct request *q = exchange_request(x);
	const char *limit = request_query(q, "limit"), *cursor = request_query(q, "cursor");
	uint64_t n = 0;

	*ret = (struct page){0};
	if (limit && parse_u64(limit, 1, PAGE_LIMIT_MAX, &n) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "limit: expected a number from 1 to %d",
				PAGE_LIMIT_MAX);
	ret->limit = (unsigned)n;
	if (cursor && strlen(cursor) >= sizeof(ret->cursor))
		return cay_fail(err, CAY_E_INVALID, 0, "cursor: not one of ours");
	(void)snprintf(ret->cursor, sizeof(ret->cursor), "%s", cursor ? cursor : "");
	return 0;
}

void paging_answer(struct exchange *x, const char *name, struct json *list, const struct page *next)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set(j, name, list);
	json_set_str(j, "cursor", next->cursor[0] ? next->cursor : NULL);
	exchange_respond_json(x, 200, j);
}

int paging_time(const struct exchange *x, const char *name, int64_t *ret, struct cay_error *err)
{
	const char *text = request_query(exchange_request(x), name);
	uint64_t v = 0;

	if (text && parse_u64(text, 0, INT64_MAX, &v) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s: expected milliseconds since 1970",
				name);
	*ret = (int64_t)v;
	return 0;
}
