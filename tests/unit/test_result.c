#include "core/result.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/limit.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The result object of INTERFACE.md, in its order. */
static const char *const keys[] = {
	"id",
	"success",
	"status",
	"message",
	"exit_code",
	"signal",
	"timed_out",
	"compile",
	"stdout",
	"stderr",
	"stdout_truncated",
	"stderr_truncated",
	"results",
	"notes",
	"exception",
	"context",
	"state_lost",
	"files",
	"usage",
	"engine",
	"engine_reason",
	"policy",
	"start",
	"image",
	"language",
	"version",
	"network",
	"network_rules",
	"egress",
	"egress_unlisted",
	"sandboxed",
	"sandbox",
	"isolation",
};

static const char *const usage_keys[] = {"wall_ms", "cpu_ms", "memory_peak_bytes", "processes_peak",
					 "queued_ms"};

static const char *const isolation_keys[] = {"user",    "memory",   "pids",    "cpu",     "disk",
					     "seccomp", "landlock", "network", "degraded"};

static void fill(struct result *r)
{
	*r = (struct result){
		.id = "run_0",
		.status = STATUS_OK,
		.exited = true,
		.engine = strdup("native"),
		.image = strdup("host"),
		.language = strdup("python"),
		.version = strdup("3.11.2"),
		.sandboxed = true,
		.usage = {.wall_ms = 3.1, .cpu_ms = 2.2, .memory_peak_bytes = 9437184},
		.isolation = {.user = HOLD_USERNS,
			      .memory = HOLD_CGROUP2,
			      .pids = HOLD_CGROUP2,
			      .cpu = HOLD_CGROUP2,
			      .disk = HOLD_TMPFS,
			      .seccomp = HOLD_ALLOWLIST,
			      .landlock = 7,
			      .network = HOLD_NONE,
			      .capabilities = HOLD_NONE},
	};
	for (int i = 0; i < STREAMS; i++)
		capture_init(&r->output[i], 10);
}

/* Through the text, as a caller sees it. */
static json_t *read_back(const struct result *r)
{
	_cleanup_(json_freep) struct json *j = result_json(r);
	_cleanup_(buf_done) struct buf text = BUF(100000);
	json_t *root;

	assert_int_equal(json_text(j, &text), 0);
	root = json_loads(buf_str(&text), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	return root;
}

static const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	assert_non_null(s);
	return s;
}

static void exit_codes(void **state)
{
	static const struct {
		enum status status;
		int exit_code, signal, expected;
	} rows[] = {
		{STATUS_OK, 0, 0, 0},
		{STATUS_FAILED, 3, 0, 3},
		{STATUS_FAILED, 127, 0, 127},
		{STATUS_SIGNAL, 0, SIGSEGV, 128 + SIGSEGV},
		{STATUS_TIMEOUT, 0, SIGKILL, 124},
		{STATUS_OUT_OF_MEMORY, 0, SIGKILL, 137},
		{STATUS_OUT_OF_MEMORY, 1, 0, 137},
		{STATUS_OUTPUT_LIMIT, 0, SIGKILL, 128 + SIGXFSZ},
		{STATUS_CANCELLED, 0, SIGINT, 128 + SIGINT},
		{STATUS_INTERRUPTED, 0, 0, 125},
		{STATUS_SANDBOX_ERROR, 0, 0, 125},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct result r = {.status = rows[i].status,
				   .exit_code = rows[i].exit_code,
				   .signal = rows[i].signal};

		assert_int_equal(result_exit_code(&r), rows[i].expected);
	}
}

static void status_names(void **state)
{
	static const char *const names[] = {"ok",        "failed",        "signal",
					    "timeout",   "out_of_memory", "output_limit",
					    "cancelled", "interrupted",   "sandbox_error"};

	(void)state;
	assert_int_equal(ARRAY_LEN(names), STATUSES);
	for (unsigned i = 0; i < STATUSES; i++)
		assert_string_equal(status_name((enum status)i), names[i]);
}

static void says_what_became_of_its_ways_out(void **state)
{
	struct result r;
	json_t *root, *list, *rules;

	(void)state;
	fill(&r);
	r.egress.entries = calloc(2, sizeof(*r.egress.entries));
	assert_non_null(r.egress.entries);
	r.egress.n = 2;
	r.egress.unlisted = 3;
	r.egress.entries[0] = (struct egress_entry){.name = "a.b",
						    .port = 443,
						    .verdict = VERDICT_ALLOWED,
						    .times = 2,
						    .bytes_in = 5,
						    .bytes_out = 7};
	r.egress.entries[1] = (struct egress_entry){
		.name = "evil.test", .verdict = VERDICT_DENIED, .why = WHY_NOT_LISTED, .times = 1};
	assert_int_equal(strv_add(&r.allow, "a.b"), 0);
	assert_int_equal(strv_add(&r.block, "x.b:22"), 0);
	root = read_back(&r);
	list = json_object_get(root, "egress");
	rules = json_object_get(root, "network_rules");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(str(json_array_get(list, 0), "name"), "a.b");
	assert_string_equal(str(json_array_get(list, 0), "verdict"), "allowed");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "bytes_out")),
			 7);
	assert_string_equal(str(json_array_get(list, 1), "why"), "not in allow list");
	assert_null(json_object_get(json_array_get(list, 1), "port"));
	assert_int_equal(json_integer_value(json_object_get(root, "egress_unlisted")), 3);
	assert_string_equal(json_string_value(json_array_get(json_object_get(rules, "allow"), 0)),
			    "a.b");
	assert_string_equal(json_string_value(json_array_get(json_object_get(rules, "block"), 0)),
			    "x.b:22");
	json_decref(root);
	result_done(&r);
	assert_null(r.egress.entries);
}

static void has_the_keys_of_the_interface(void **state)
{
	struct result r;
	const char *key;
	size_t n = 0;
	json_t *root, *value;

	(void)state;
	fill(&r);
	root = read_back(&r);
	assert_int_equal(json_object_size(root), ARRAY_LEN(keys));
	json_object_foreach(root, key, value) assert_string_equal(key, keys[n++]);
	for (size_t i = 0; i < ARRAY_LEN(usage_keys); i++)
		assert_non_null(json_object_get(json_object_get(root, "usage"), usage_keys[i]));
	for (size_t i = 0; i < ARRAY_LEN(isolation_keys); i++)
		assert_non_null(
			json_object_get(json_object_get(root, "isolation"), isolation_keys[i]));
	json_decref(root);
	result_done(&r);
}

static void says_how_it_ended(void **state)
{
	struct result r;
	json_t *root;

	(void)state;
	fill(&r);
	root = read_back(&r);
	assert_true(json_is_true(json_object_get(root, "success")));
	assert_string_equal(str(root, "status"), "ok");
	assert_true(json_is_integer(json_object_get(root, "exit_code")));
	assert_true(json_is_null(json_object_get(root, "signal")));
	assert_true(json_is_false(json_object_get(root, "timed_out")));
	assert_string_equal(str(root, "engine_reason"), "");
	assert_true(
		json_is_null(json_object_get(json_object_get(root, "usage"), "processes_peak")));
	json_decref(root);

	r.status = STATUS_TIMEOUT;
	r.exited = false;
	r.signal = SIGKILL;
	r.timed_out = true;
	r.usage.processes_peak = 3;
	root = read_back(&r);
	assert_true(json_is_false(json_object_get(root, "success")));
	assert_string_equal(str(root, "status"), "timeout");
	assert_true(json_is_null(json_object_get(root, "exit_code")));
	assert_int_equal(json_integer_value(json_object_get(root, "signal")), SIGKILL);
	assert_true(json_is_true(json_object_get(root, "timed_out")));
	assert_int_equal(json_integer_value(
				 json_object_get(json_object_get(root, "usage"), "processes_peak")),
			 3);
	json_decref(root);
	result_done(&r);
}

static void carries_output(void **state)
{
	struct result r;
	json_t *root;

	(void)state;
	fill(&r);
	assert_int_equal(capture_add(&r.output[STREAM_STDOUT], "a\xff", 2), 0);
	assert_int_equal(capture_add(&r.output[STREAM_STDERR], "0123456789ab", 12), 0);
	root = read_back(&r);
	assert_string_equal(str(root, "stdout"), "a\xef\xbf\xbd");
	assert_string_equal(str(root, "stdout_base64"), "Yf8=");
	assert_true(json_is_false(json_object_get(root, "stdout_truncated")));
	assert_string_equal(str(root, "stderr"), "01234789ab");
	assert_null(json_object_get(root, "stderr_base64"));
	assert_true(json_is_true(json_object_get(root, "stderr_truncated")));
	json_decref(root);
	result_done(&r);
}

static void carries_files(void **state)
{
	struct result r;
	json_t *root, *file;

	(void)state;
	fill(&r);
	r.files = calloc(2, sizeof(*r.files));
	assert_non_null(r.files);
	r.n_files = 2;
	r.files[0] =
		(struct file_out){.path = strdup("out.bin"), .data = strdup("\xff"), .size = 1};
	r.files[1] = (struct file_out){.path = strdup("empty")};
	root = read_back(&r);
	assert_int_equal(json_array_size(json_object_get(root, "files")), 2);
	file = json_array_get(json_object_get(root, "files"), 0);
	assert_string_equal(str(file, "path"), "out.bin");
	assert_string_equal(str(file, "data"), "/w==");
	assert_int_equal(json_integer_value(json_object_get(file, "size")), 1);
	file = json_array_get(json_object_get(root, "files"), 1);
	assert_string_equal(str(file, "data"), "");
	json_decref(root);
	result_done(&r);
	assert_null(r.files);
}

static void says_what_held(void **state)
{
	struct result r;
	json_t *root, *isolation, *names, *lost;

	(void)state;
	fill(&r);
	r.isolation.namespaces = 1u << 0 | 1u << 3 | 1u << 7;
	r.isolation.degraded = limit_bit(limit_find("pids")) | 1u << 31; /* and none of ours */
	r.isolation.memory = HOLDS;
	root = read_back(&r);
	isolation = json_object_get(root, "isolation");
	assert_string_equal(str(isolation, "seccomp"), "allowlist");
	assert_int_equal(json_integer_value(json_object_get(isolation, "landlock")), 7);
	names = json_object_get(isolation, "namespaces");
	assert_int_equal(json_array_size(names), 3);
	assert_string_equal(json_string_value(json_array_get(names, 0)), "user");
	assert_string_equal(json_string_value(json_array_get(names, 1)), "net");
	assert_string_equal(json_string_value(json_array_get(names, 2)), "time");
	lost = json_object_get(isolation, "degraded");
	assert_int_equal(json_array_size(lost), 1);
	assert_string_equal(json_string_value(json_array_get(lost, 0)), "pids");
	assert_true(json_is_null(json_object_get(isolation, "memory")));
	assert_string_equal(str(root, "network"), "none");
	json_decref(root);
	result_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_codes),
		cmocka_unit_test(status_names),
		cmocka_unit_test(says_what_became_of_its_ways_out),
		cmocka_unit_test(has_the_keys_of_the_interface),
		cmocka_unit_test(says_how_it_ended),
		cmocka_unit_test(carries_output),
		cmocka_unit_test(carries_files),
		cmocka_unit_test(says_what_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
