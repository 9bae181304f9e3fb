/* A URL, split and decoded, and what Host and Origin say: two lines and the rest. */
#include "fuzz.h"

#include "api/origin.h"
#include "api/request.h"
#include "base/http.h"

static void check_id(const char *given)
{
	char id[REQUEST_ID_SIZE];

	request_make_id(given, id);
	CHECK(strlen(id) > 0 && strlen(id) < REQUEST_ID_SIZE);
	CHECK(!strpbrk(id, " \r\n\t\"<>&;:/\\"));
}

static void check_host(const char *host, const char *origin)
{
	/* What was accepted has no room for a second name. */
	if (origin_host_ok(host, NULL, 0))
		CHECK(host[0] && !strpbrk(host, " ,@/?#\\") && strlen(host) < 64);
	if (origin_is_own(origin, host))
		CHECK(strlen(origin) >= strlen(host) + 7);
}

static void check_request(const char *url)
{
	static const struct route route = {.method = "GET", .pattern = "/v1/{a}/{b}"};
	const struct route *routes[] = {&route};
	struct http_head head = {.method = "GET", .url = url};
	struct request r = {0};
	const char *why = NULL;

	if (request_split(&r, &head, &why) < 0) {
		CHECK(why);
	} else {
		CHECK(r.n_segments >= 1 && r.n_segments <= ROUTE_SEGMENTS_MAX);
		CHECK(strncmp(r.path, url, strlen(r.path)) == 0);
		for (size_t i = 0; i < r.n_query; i++)
			CHECK(request_query(&r, r.query[i].name) == r.query[i].value);
		if (route_find(routes, 1, "GET", r.segments, r.n_segments, &r.match))
			CHECK(r.n_segments == 3 && request_param(&r, "a") == r.segments[1] &&
			      request_param(&r, "b") == r.segments[2] && r.segments[2][0]);
	}
	request_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *host = input_line(&in);
	_cleanup_(freep) char *origin = input_line(&in);
	_cleanup_(freep) char *url = input_rest(&in);

	check_id(host);
	check_host(host, origin);
	check_request(url);
	return 0;
}
