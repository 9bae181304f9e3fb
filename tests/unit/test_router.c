/* Also of request.c and origin.c: what a request is taken for before it has a handler. */
#include "api/router.h"

#include "api/origin.h"
#include "api/request.h"
#include "base/attr.h"
#include "base/http.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct route list = {.method = "GET", .pattern = "/v1/sandboxes"};
static const struct route create = {.method = "POST", .pattern = "/v1/sandboxes"};
static const struct route show = {.method = "GET", .pattern = "/v1/sandboxes/{id}"};
static const struct route drop = {.method = "DELETE", .pattern = "/v1/sandboxes/{id}"};
static const struct route file = {.method = "PUT", .pattern = "/v1/{what}/{id}/files"};
static const struct route own = {.method = "GET", .pattern = "/v1/sandboxes/self"};
static const struct route root = {.method = "GET", .pattern = "/"};
static const struct route *const routes[] = {&list, &create, &show, &drop, &file, &own, &root};

static struct route_match match;
static struct request request;
static struct http_head head;

/* The whole way: a URL, split, and looked up. */
static const struct route *find(const char *method, const char *url)
{
	const char *why = NULL;

	request_release(&request);
	memset(&request, 0, sizeof(request));
	head = (struct http_head){.method = method, .url = url};
	if (request_split(&request, &head, &why) < 0) {
		assert_non_null(why);
		return NULL;
	}
	(void)route_find(routes, ARRAY_LEN(routes), method, request.segments, request.n_segments,
			 &match);
	return match.route;
}

static void finds(void **state)
{
	(void)state;
	assert_ptr_equal(find("GET", "/v1/sandboxes"), &list);
	assert_ptr_equal(find("POST", "/v1/sandboxes"), &create);
	assert_ptr_equal(find("HEAD", "/v1/sandboxes"), &list);
	assert_ptr_equal(find("GET", "/v1/sandboxes?x=y"), &list);
	assert_ptr_equal(find("GET", "/"), &root);
	assert_ptr_equal(find("GET", "/%76%31/sandboxes"), &list);
	assert_ptr_equal(find("DELETE", "/v1/sandboxes/sbx_1"), &drop);
	assert_string_equal(route_param(&match, "id"), "sbx_1");
	assert_null(route_param(&match, "i"));
	assert_ptr_equal(find("PUT", "/v1/a/b%20%2Fc/files"), &file);
	assert_string_equal(route_param(&match, "what"), "a");
	assert_string_equal(route_param(&match, "id"), "b /c");
	/* The first row that fits. */
	assert_ptr_equal(find("GET", "/v1/sandboxes/self"), &show);
}

static void finds_not(void **state)
{
	static const char *const none[] = {"/v1",
					   "/v1/",
					   "/v1/sandboxes/",
					   "/v1//sandboxes",
					   "//v1/sandboxes",
					   "/v1/sandboxes/a/b",
					   "/V1/sandboxes",
					   "/v1/sandboxesx",
					   "/v1%2Fsandboxes",
					   "/v1/./sandboxes",
					   "/v1/x/../sandboxes",
					   "/v1/sandboxes%3F"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		assert_null(find("GET", none[i]));
		assert_string_equal(match.allow, "");
	}
}

static void says_what_is_allowed(void **state)
{
	(void)state;
	assert_null(find("PATCH", "/v1/sandboxes"));
	assert_string_equal(match.allow, "GET, HEAD, POST");
	assert_null(find("POST", "/v1/sandboxes/x"));
	assert_string_equal(match.allow, "GET, HEAD, DELETE");
	assert_null(find("HEAD", "/v1/x/y/files"));
	assert_string_equal(match.allow, "PUT");
	assert_int_equal(match.n_params, 0);
}

static void decodes_the_query(void **state)
{
	(void)state;
	(void)find("GET", "/?path=/a%2Bb+c&empty=&bare&x=%e4=&&y");
	assert_string_equal(request_query(&request, "path"), "/a+b c");
	assert_string_equal(request_query(&request, "empty"), "");
	assert_string_equal(request_query(&request, "bare"), "");
	assert_string_equal(request_query(&request, "x"), "\xe4=");
	assert_string_equal(request_query(&request, "y"), "");
	assert_null(request_query(&request, "none"));
	assert_string_equal(request.path, "/");
	/* A plus in a path is a plus. */
	(void)find("GET", "/v1/sandboxes/a+b");
	assert_string_equal(route_param(&match, "id"), "a+b");
}

static void refuses_bad_targets(void **state)
{
	static const char *const bad[] = {"*",     "",          "http://x/v1/sandboxes",
					  "v1",    "/%",        "/%4",
					  "/%zz",  "/a%00b",    "/?a=%00",
					  "/?a=%", "/?a=1&a=2", "/?a&%61",
					  "/#x",   "/a#b?c"};
	char url[256] = "/";
	const char *why;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct request r = {0};

		head = (struct http_head){.method = "GET", .url = bad[i]};
		assert_int_equal(request_split(&r, &head, &why), -1);
		request_release(&r);
	}
	for (size_t i = 0; i < 40; i++)
		(void)snprintf(url + strlen(url), sizeof(url) - strlen(url), "a/");
	assert_null(find("GET", url));
	(void)snprintf(url, sizeof(url), "/?");
	for (size_t i = 0; i < 40; i++)
		(void)snprintf(url + strlen(url), sizeof(url) - strlen(url), "%zu&", i);
	assert_null(find("GET", url));
}

static void makes_ids(void **state)
{
	static const char *const bad[] = {
		"",    "a b",
		"a\"", "\xc3\xa4",
		"a/b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	char id[REQUEST_ID_SIZE], other[REQUEST_ID_SIZE];

	(void)state;
	request_make_id("My-own_1", id);
	assert_string_equal(id, "My-own_1");
	request_make_id(bad[5] + 1, id);
	assert_string_equal(id, bad[5] + 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		request_make_id(bad[i], id);
		assert_int_equal(strncmp(id, "req_", 4), 0);
	}
	request_make_id(NULL, other);
	assert_string_not_equal(id, other);
}

static void knows_its_hosts(void **state)
{
	static const char *const names[] = {"cay.example"};
	static const char *const good[] = {"localhost",      "LOCALHOST:80", "127.0.0.1",
					   "127.0.0.1:8080", "192.168.1.2",  "[::1]",
					   "[::1]:8080",     "cay.example",  "Cay.Example:443"};
	static const char *const bad[] = {"",
					  "evil.example",
					  "localhost.evil.example",
					  "127.0.0.1.evil.example",
					  "localhost:",
					  "localhost:x",
					  "localhost:0",
					  "localhost:99999",
					  "[::1",
					  "[::1]x",
					  "[localhost]",
					  "::1",
					  "127.1",
					  "2130706433",
					  "0x7f.1",
					  "localhost.",
					  "cay.example.",
					  "xcay.example",
					  "cay.example@evil",
					  "localhost, evil"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!origin_host_ok(good[i], names, 1))
			fail_msg("%s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (origin_host_ok(bad[i], names, 1))
			fail_msg("%s", bad[i]);
	assert_false(origin_host_ok("cay.example", NULL, 0));
}

static void knows_its_origin(void **state)
{
	(void)state;
	assert_true(origin_is_own("http://localhost:80", "localhost:80"));
	assert_true(origin_is_own("https://cay.example", "Cay.example"));
	assert_false(origin_is_own("http://localhost:81", "localhost:80"));
	assert_false(origin_is_own("http://localhost", "localhost:80"));
	assert_false(origin_is_own("null", "localhost"));
	assert_false(origin_is_own("", "localhost"));
	assert_false(origin_is_own("http://", "localhost"));
	assert_false(origin_is_own("http://evil.example", "localhost"));
	assert_false(origin_is_own("file://localhost", "localhost"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds),
		cmocka_unit_test(finds_not),
		cmocka_unit_test(says_what_is_allowed),
		cmocka_unit_test(decodes_the_query),
		cmocka_unit_test(refuses_bad_targets),
		cmocka_unit_test(makes_ids),
		cmocka_unit_test(knows_its_hosts),
		cmocka_unit_test(knows_its_origin),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	request_release(&request);
	return failed;
}
