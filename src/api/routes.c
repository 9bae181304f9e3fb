#include "api/api.h"

#include "api/exchange.h"
#include "api/health.h"
#include "api/runs.h"

const struct route *const api_routes[] = {
	&route_health,  &route_run_create, &route_run_list,
	&route_run_get, &route_run_cancel, &route_run_events,
	NULL,
};

struct api *api_of(const struct exchange *x)
{
	return exchange_server_ctx(x);
}
