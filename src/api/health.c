#include "api/health.h"

#include "api/api.h"
#include "api/exchange.h"
#include "api/runs.h"
#include "base/json.h"

static void health(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "status", "ok");
	json_set_str(j, "version", CAY_VERSION);
	json_set_int(j, "runs_queued", (int64_t)runs_waiting(api_of(x)->runs));
	exchange_respond_json(x, 200, j);
}

const struct route route_health = {
	.method = "GET",
	.pattern = "/v1/health",
	.handle = health,
	.flags = ROUTE_PUBLIC,
	.name = "health",
};
