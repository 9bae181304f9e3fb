#include "api/runtimes.h"

#include "api/api.h"
#include "api/exchange.h"
#include "base/json.h"
#include "image/runtime_list.h"

static void runtime_list(struct exchange *x)
{
	const char *name = request_query(exchange_request(x), "language");
	const struct language *only = name ? language_find(name) : NULL;
	_cleanup_(json_freep) struct json *j = NULL;
	struct cay_error err;
	int r = name && !only
			? cay_fail(&err, CAY_E_INVALID, 0, "there is no language '%.64s'", name)
			: runtime_list_json(&api_of(x)->settings, only, &j, &err);

	if (r < 0)
		exchange_fail(x, &err);
	else
		exchange_respond_json(x, 200, j);
}

const struct route route_runtime_list = {
	.method = "GET", .pattern = "/v1/runtimes", .handle = runtime_list, .name = "runtime.list"};
