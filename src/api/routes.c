#include "api/api.h"

#include "api/audit.h"
#include "api/batches.h"
#include "api/events.h"
#include "api/exchange.h"
#include "api/health.h"
#include "api/keys.h"
#include "api/metrics.h"
#include "api/run_history.h"
#include "api/runs.h"
#include "api/runtimes.h"
#include "base/clock.h"

#include <time.h>

const struct route *const api_routes[] = {
	&route_audit_list, &route_batch_create, &route_events,
	&route_health,     &route_key_create,   &route_key_list,
	&route_key_revoke, &route_metrics,      &route_run_cancel,
	&route_run_create, &route_run_events,   &route_run_get,
	&route_run_list,   &route_runtime_list, NULL,
};

struct api *api_of(const struct exchange *x)
{
	return exchange_server_ctx(x);
}

int64_t api_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t api_monotonic_ms(void)
{
	return (int64_t)(clock_now_ns() / 1000000);
}
