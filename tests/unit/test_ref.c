#include "image/ref.h"

#include "base/attr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void in_full(void **state)
{
	static const struct {
		const char *text, *full;
	} rows[] = {
		{"python", "docker.io/library/python:latest"},
		{"python:3.12-slim", "docker.io/library/python:3.12-slim"},
		{"team/app", "docker.io/team/app:latest"},
		{"docker.io/python", "docker.io/library/python:latest"},
		{"index.docker.io/team/app:1", "docker.io/team/app:1"},
		{"docker.io/library/python", "docker.io/library/python:latest"},
		{"localhost/app", "localhost/app:latest"},
		{"localhost:5000/app:1.0", "localhost:5000/app:1.0"},
		{"host:5000/a/b/c", "host:5000/a/b/c:latest"},
		{"Example.ORG/app", "example.org/app:latest"},
		{"127.0.0.1:5000/app", "127.0.0.1:5000/app:latest"},
		{"[::1]:5000/app", "[::1]:5000/app:latest"},
		{"[0:0::1]/app", "[::1]/app:latest"},
		{"host:05000/app", "host:5000/app:latest"},
		{"f/a__b--c.d_e", "docker.io/f/a__b--c.d_e:latest"},
		{"app@sha256:" HEX, "docker.io/library/app@sha256:" HEX},
		{"app:1@sha256:" HEX, "docker.io/library/app:1@sha256:" HEX},
		{"app:_A.b-C", "docker.io/library/app:_A.b-C"},
		{"host/app", "docker.io/host/app:latest"},
	};
	char text[IMAGE_REF_SIZE], again[IMAGE_REF_SIZE];
	struct image_ref ref;
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (image_ref_parse(rows[i].text, &ref, &err) < 0)
			fail_msg("%s: %s", rows[i].text, err.text);
		image_ref_text(&ref, text);
		assert_string_equal(text, rows[i].full);
		assert_int_equal(image_ref_parse(text, &ref, &err), 0);
		image_ref_text(&ref, again);
		assert_string_equal(text, again);
	}
}

static void refused(void **state)
{
	static const char *const rows[] = {
		"",
		":1",
		"/app",
		"app/",
		"a//b",
		"app:",
		"app:.x",
		"app:-x",
		"app:a b",
		"app:1:2",
		"App",
		"team/App",
		"Host/app",
		"host./app",
		"LOCALHOST/app",
		"../app",
		"a/../b",
		"a/..",
		"a..b",
		"a___b",
		"a._b",
		"-a",
		"a-",
		"_a",
		"a_",
		"a b",
		"a\n",
		"app%2f",
		"http://host/app",
		"host:0/app",
		"host:65536/app",
		"host:/app",
		"host:x/app",
		"a_b.c/app",
		"-a.b/app",
		"127.1/app",
		"[::1/app",
		"[127.0.0.1]/app",
		"[::ffff:1.2.3.4]/app",
		"::1/app",
		"user@host.org/app",
		"app@",
		"app@sha256:",
		"app@md5:" HEX,
		"app@sha512:" HEX HEX,
		"app@sha256:" HEX "0",
		"app@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
		"app@sha256:" HEX "@sha256:" HEX,
		"@sha256:" HEX,
		HEX,
		HEX ":latest",
	};
	struct image_ref ref;
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (image_ref_parse(rows[i], &ref, &err) == 0)
			fail_msg("%s is taken", rows[i]);
		assert_int_equal(err.code, CAY_E_INVALID);
		assert_true(err.hint[0]);
	}
}

static void lengths(void **state)
{
	char text[1000];
	struct image_ref ref;
	struct cay_error err;

	(void)state;
	memset(text, 'a', sizeof(text));
	text[255 - strlen("library/")] = '\0';
	assert_int_equal(image_ref_parse(text, &ref, &err), 0);
	assert_int_equal(strlen(ref.repository), 255);
	(void)snprintf(text, sizeof(text), "%0248d", 0);
	assert_int_equal(image_ref_parse(text, &ref, &err), -1);
	(void)snprintf(text, sizeof(text), "a:%0128d", 0);
	assert_int_equal(image_ref_parse(text, &ref, &err), 0);
	(void)snprintf(text, sizeof(text), "a:%0129d", 0);
	assert_int_equal(image_ref_parse(text, &ref, &err), -1);
	(void)snprintf(text, sizeof(text), "%0999d", 0);
	assert_int_equal(image_ref_parse(text, &ref, &err), -1);
}

static void whom_to_ask(void **state)
{
	(void)state;
	assert_string_equal(image_ref_host("docker.io"), "registry-1.docker.io");
	assert_string_equal(image_ref_host("example.org:5000"), "example.org:5000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_full),
		cmocka_unit_test(refused),
		cmocka_unit_test(lengths),
		cmocka_unit_test(whom_to_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
