#include "cli/remote.h"
#include "cli/remote_request.h"
#include "cli/remote_sse.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Where a daemon is */

static void expect_place(const char *text, const char *expected)
{
	struct remote_place p;
	struct cay_error err;
	char shown[300];

	if (remote_place_parse(text, &p, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_string_equal(remote_place_text(&p, shown), expected);
	assert_true(p.named);
}

static void takes_places(void **state)
{
	(void)state;
	expect_place("unix:/run/x.sock", "/run/x.sock");
	expect_place("unix:///run/x.sock", "/run/x.sock");
	expect_place("http://localhost:8600", "http://localhost:8600");
	expect_place("http://127.0.0.1:1/", "http://127.0.0.1:1");
	expect_place("http://[::1]:65535", "http://[::1]:65535");
	expect_place("http://a-b.example.com:80", "http://a-b.example.com:80");
}

static void refuses_other_places(void **state)
{
	static const char *const bad[] = {
		"/run/x.sock",
		"unix:",
		"unix:x.sock",
		"unix:/",
		"tcp://localhost:1",
		"http://",
		"http://localhost",
		"http://localhost:",
		"http://localhost:0",
		"http://localhost:65536",
		"http://localhost:99999999999",
		"http://localhost:80/v1",
		"http://localhost:80x",
		"http://:80",
		"http://::1:80",
		"http://[::1:80",
		"http://[::1]80",
		"http://[]:80",
		"http://a b:80",
		"http://a\r\nX: y:80",
		"http://user@host:80",
		"http://host:80?x",
	};
	struct remote_place p;
	struct cay_error err;
	char text[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (remote_place_parse(bad[i], &p, &err) == 0)
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
	assert_int_equal(remote_place_parse("https://x:1", &p, &err), -1);
	assert_int_equal(err.code, CAY_E_UNSUPPORTED);
	(void)snprintf(text, sizeof(text), "unix:/%0200d", 0);
	assert_int_equal(remote_place_parse(text, &p, &err), -1);
	(void)snprintf(text, sizeof(text), "http://%0300d:1", 0);
	assert_int_equal(remote_place_parse(text, &p, &err), -1);
}

static void finds_the_named_one(void **state)
{
	struct remote_place p;
	struct cay_error err;

	(void)state;
	assert_int_equal(setenv("CAY_HOST", "unix:/x/y", 1), 0);
	assert_int_equal(remote_place_find(&p, &err), 0);
	assert_string_equal(p.path, "/x/y");
	assert_true(p.named);
	assert_int_equal(setenv("CAY_HOST", "nonsense", 1), 0);
	assert_int_equal(remote_place_find(&p, &err), -1);
	assert_int_equal(unsetenv("CAY_HOST"), 0);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/nowhere", 1), 0);
	assert_int_equal(remote_place_find(&p, &err), 0);
	assert_false(p.named);
}

/* Paths and errors */

static void encodes(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(1000), small = BUF(4);
	struct cay_error err;

	(void)state;
	assert_int_equal(text_append_encoded(&b, "a/b c?d&e=%\xc3\xa4~.-_"), 0);
	assert_string_equal(buf_str(&b), "a%2Fb%20c%3Fd%26e%3D%25%C3%A4~.-_");
	assert_int_equal(text_append_encoded(&small, "////"), -EFBIG);
	buf_done(&b);
	assert_int_equal(remote_sandbox_path(&b, "../x", "/runs", &err), 0);
	assert_string_equal(buf_str(&b), "/v1/sandboxes/..%2Fx/runs");
	buf_done(&b);
	assert_int_equal(remote_sandbox_path(&b, "..", "", &err), -1);
	assert_int_equal(remote_sandbox_path(&b, ".", "", &err), -1);
	assert_int_equal(remote_sandbox_path(&b, "", "", &err), -1);
}

static void expect_refusal(int status, const char *body, enum cay_code code, const char *text,
			   const char *hint, int exit_code)
{
	struct cay_error err;

	assert_int_equal(remote_refusal(status, body, strlen(body), &err), -1);
	assert_int_equal(err.code, code);
	assert_string_equal(err.text, text);
	assert_string_equal(err.hint, hint);
	assert_int_equal(err.exit_code, exit_code);
}

static void reads_refusals(void **state)
{
	(void)state;
	expect_refusal(
		403, "{\"error\":{\"code\":\"policy_denied\",\"message\":\"no\",\"hint\":\"ask\"}}",
		CAY_E_POLICY, "no", "ask", 125);
	expect_refusal(404,
		       "{\"error\":{\"code\":\"not_found\",\"message\":\"x\",\"hint\":\"\","
		       "\"details\":{\"exit_code\":127}}}",
		       CAY_E_NOT_FOUND, "x", "", 127);
	/* Not even a daemon decides what we exit with. */
	expect_refusal(404, "{\"error\":{\"message\":\"x\",\"details\":{\"exit_code\":0}}}",
		       CAY_E_NOT_FOUND, "x", "", 125);
	expect_refusal(429, "{\"error\":{\"code\":\"new_code\",\"message\":\"x\"}}",
		       CAY_E_RATE_LIMITED, "x", "", 125);
	expect_refusal(413, "<html>", CAY_E_TOO_LARGE, "the daemon answered 413 Content Too Large",
		       "", 125);
	expect_refusal(500, "", CAY_E_INTERNAL, "the daemon answered 500 Internal Server Error", "",
		       125);
	expect_refusal(400, "{\"error\":[]}", CAY_E_INVALID,
		       "the daemon refused, and did not say why", "", 125);
	expect_refusal(400, "{\"error\":{\"code\":7,\"message\":{},\"hint\":[]}}", CAY_E_INVALID,
		       "the daemon refused, and did not say why", "", 125);
}

/* Events */

static int note(void *ctx, const char *name, const char *data, size_t len)
{
	struct buf *seen = ctx;

	assert_int_equal(strlen(data), len); /* of these tests */
	assert_int_equal(buf_printf(seen, "%s=%s;", name, data), 0);
	return strcmp(name, "stop") == 0;
}

static int feed(struct sse *s, const char *bytes, size_t step, struct buf *seen)
{
	size_t len = strlen(bytes);
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += step)
		r = sse_feed(s, bytes + at, size_min(step, len - at), note, seen);
	return r;
}

/* However the bytes are cut. */
static void expect_events(const char *bytes, const char *expected, int end)
{
	for (size_t step = 1; step <= strlen(bytes); step++) {
		_cleanup_(buf_done) struct buf seen = BUF(1000);
		_cleanup_(sse_done) struct sse s;

		sse_init(&s, 64);
		assert_int_equal(feed(&s, bytes, step, &seen), end);
		assert_string_equal(buf_str(&seen), expected);
	}
}

static void reads_events(void **state)
{
	(void)state;
	expect_events("event: a\ndata: 1\n\n", "a=1;", 0);
	expect_events("event:a\r\ndata:1\r\n\r\n", "a=1;", 0);
	expect_events("event:a\rdata:1\r\rdata: 2\r\n\r\n", "a=1;message=2;", 0);
	expect_events("data: 1\ndata\ndata:  2\n\n", "message=1\n\n 2;", 0);
	expect_events(": a heartbeat\n\n\n\nid: 7\nretry: 9\nevent: b\n\n", "", 0);
	expect_events("event: a\ndata: 1\n", "", 0);
	expect_events("event: a\n\ndata: 1\n\n", "message=1;", 0);
	expect_events("eventx: a\ndatax: 1\n\n", "", 0);
	expect_events("event: stop\ndata: 1\n\nevent: b\ndata: 2\n\n", "stop=1;", 1);
	expect_events("event: 0123456789012345678901234567890123456789\ndata:\n\n",
		      "0123456789012345678901234567890=;", 0);
}

static void bounds_events(void **state)
{
	(void)state;
	/* One line, and many. */
	expect_events(
		"data: 0123456789012345678901234567890123456789012345678901234567890123456789", "",
		-EFBIG);
	expect_events("data: 0123456789012345678901234567890123456789\n"
		      "data: 0123456789012345678901234567890123456789\n",
		      "", -EFBIG);
}

/* Requests */

static void writes_requests(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF(10000);
	_cleanup_(spec_done) struct spec s = {.kind = SPEC_ARGV};
	struct request_body back;
	struct json *j;
	struct cay_error err;

	(void)state;
	assert_int_equal(strv_add(&s.args, "echo"), 0);
	assert_int_equal(spec_set_env(&s, "A", "b=c", &err), 0);
	assert_int_equal(spec_set_limit(&s, "memory", "64m", &err), 0);
	assert_int_equal(spec_set_limit(&s, "cpus", "1.5", &err), 0);
	assert_int_equal(spec_set_limit(&s, "timeout", "1.5", &err), 0);
	assert_int_equal(spec_set_workdir(&s, "/tmp", &err), 0);
	assert_int_equal(spec_add_mount(&s, "rel:/mnt:rw", &err), 0);
	assert_int_equal(remote_request(&s, REQUEST_RUN, &j, &err), 0);
	assert_int_equal(remote_request_stdin(j, "\xff", 1, &err), 0);
	assert_int_equal(json_text(j, &text), 0);
	json_free(j);
	/* What the daemon makes of it is what was meant. */
	if (request_parse(&back, REQUEST_RUN, text.data, text.len, &err) < 0)
		fail_msg("%s: %s", text.data, err.text);
	assert_string_equal(back.spec.args.items[0], "echo");
	assert_string_equal(strv_get_env(&back.spec.env, "A"), "b=c");
	assert_int_equal(back.spec.limits.memory_bytes, 64 << 20);
	assert_int_equal(back.spec.limits.cpus_milli, 1500);
	assert_int_equal(back.spec.limits.timeout_ms, 1500);
	assert_string_equal(back.spec.workdir, "/tmp");
	assert_int_equal(back.spec.mounts[0].source[0], '/');
	assert_int_equal(back.spec.mounts[0].access, ACCESS_WRITE);
	assert_int_equal(back.stdin_len, 1);
	request_body_done(&back);
}

static void refuses_what_is_no_text(void **state)
{
	_cleanup_(spec_done) struct spec s = {.kind = SPEC_ARGV};
	struct json *j = NULL;
	struct cay_error err;

	(void)state;
	assert_int_equal(strv_add(&s.args, "\xff"), 0);
	assert_int_equal(remote_request(&s, REQUEST_RUN, &j, &err), -1);
	assert_int_equal(err.code, CAY_E_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_places),
		cmocka_unit_test(refuses_other_places),
		cmocka_unit_test(finds_the_named_one),
		cmocka_unit_test(encodes),
		cmocka_unit_test(reads_refusals),
		cmocka_unit_test(reads_events),
		cmocka_unit_test(bounds_events),
		cmocka_unit_test(writes_requests),
		cmocka_unit_test(refuses_what_is_no_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
