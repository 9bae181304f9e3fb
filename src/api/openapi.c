#include "api/openapi.h"

#include "api/exchange.h"

/* Made from api/openapi.json at build time. */
static const unsigned char description[] = {
#include "openapi-json.h"
};

static void openapi(struct exchange *x)
{
	exchange_respond(x, 200, "application/json", description, sizeof(description));
}

const struct route route_openapi = {
	.method = "GET",
	.pattern = "/openapi.json",
	.handle = openapi,
	.flags = ROUTE_PUBLIC,
	.name = "openapi",
};
