#include "spec/request.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void freep(struct request_body **q)
{
	request_body_done(*q);
	free(*q);
}

static struct request_body *parse_at(enum request_place place, const char *text)
{
	struct request_body *q = calloc(1, sizeof(*q));
	struct cay_error err = {0};

	assert_non_null(q);
	if (request_parse(q, place, text, strlen(text), &err) < 0)
		fail_msg("%s: %s (%s)", text, err.text, err.hint);
	return q;
}

static struct request_body *parse(const char *text)
{
	return parse_at(REQUEST_RUN, text);
}

static void code_is_read(void **state)
{
	_cleanup_(freep) struct request_body *q =
		parse("{\"code\":\"print(1)\\u0000\",\"args\":[\"a\",\"\"]}");

	(void)state;
	assert_int_equal(q->spec.kind, SPEC_CODE);
	assert_string_equal(q->spec.language->name, "python");
	assert_null(q->spec.version);
	assert_int_equal(q->spec.code_len, 9);
	assert_memory_equal(q->spec.code, "print(1)\0", 10);
	assert_int_equal(q->spec.args.len, 2);
	assert_string_equal(q->spec.args.items[0], "a");
	assert_false(q->has_stdin || q->background || q->dry_run || q->spec.cold || q->persistent);
}

static void scripts_keep_their_names(void **state)
{
	static const char *const bad[] = {
		"{\"code\":\"\",\"filename\":\"a/b\"}",
		"{\"code\":\"\",\"filename\":\"..\"}",
		"{\"code\":\"\",\"filename\":\"\"}",
		"{\"code\":\"\",\"filename\":\"a\\u0000\"}",
		"{\"argv\":[\"x\"],\"filename\":\"a\"}",
		"{\"code\":\"\",\"filename\":7}",
	};
	_cleanup_(freep) struct request_body *q = parse("{\"code\":\"1\",\"filename\":\"x.py\"}");

	(void)state;
	assert_string_equal(q->spec.file_name, "x.py");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(freep) struct request_body *b = calloc(1, sizeof(*b));
		struct cay_error err;

		assert_non_null(b);
		if (request_parse(b, REQUEST_RUN, bad[i], strlen(bad[i]), &err) == 0)
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
}

static void languages_have_versions(void **state)
{
	_cleanup_(freep) struct request_body *a = parse("{\"code\":\"\",\"language\":\"node@22\"}");
	_cleanup_(freep) struct request_body *b =
		parse("{\"version\":\"22\",\"code\":\"\",\"language\":\"js\"}");

	(void)state;
	assert_string_equal(a->spec.language->name, "javascript");
	assert_string_equal(a->spec.version, "22");
	assert_string_equal(b->spec.language->name, "javascript");
	assert_string_equal(b->spec.version, "22");
}

/* As `sh -c LINE sh ARG…`, however long the line is. */
static void commands_are_code_of_sh(void **state)
{
	_cleanup_(freep) struct request_body *q =
		parse("{\"command\":\"-x; echo $1\",\"args\":[\"a\"]}");

	(void)state;
	assert_int_equal(q->spec.kind, SPEC_CODE);
	assert_string_equal(q->spec.language->name, "sh");
	assert_string_equal(q->spec.code, "-x; echo $1");
	assert_int_equal(q->spec.args.len, 1);
}

static void argv_is_read(void **state)
{
	_cleanup_(freep) struct request_body *q = parse("{\"argv\":[\"ls\",\"-l\",\"\"]}");

	(void)state;
	assert_int_equal(q->spec.kind, SPEC_ARGV);
	assert_null(q->spec.language);
	assert_int_equal(q->spec.args.len, 3);
	assert_string_equal(q->spec.args.items[0], "ls");
}

static void input_is_read(void **state)
{
	_cleanup_(freep) struct request_body *a = parse("{\"code\":\"\",\"stdin\":\"a\\u0000b\"}");
	_cleanup_(freep) struct request_body *b =
		parse("{\"code\":\"\",\"stdin_base64\":\"AP8=\"}");
	_cleanup_(freep) struct request_body *c = parse("{\"code\":\"\",\"stdin\":\"\"}");

	(void)state;
	assert_true(a->has_stdin && b->has_stdin && c->has_stdin);
	assert_int_equal(a->stdin_len, 3);
	assert_memory_equal(a->stdin_data, "a\0b", 3);
	assert_int_equal(b->stdin_len, 2);
	assert_memory_equal(b->stdin_data, "\0\xff", 2);
	assert_int_equal(c->stdin_len, 0);
}

static void files_are_read(void **state)
{
	_cleanup_(freep) struct request_body *q = parse(
		"{\"code\":\"\",\"files\":[{\"path\":\"a/b.txt\",\"text\":\"h\\u00e9\"},"
		"{\"data\":\"AAEC\",\"path\":\"/tmp/x\",\"executable\":true},{\"path\":\"empty\",\"data\":\"\"}],"
		"\"get\":[\"out/*.png\",\"a:b\",\"**\"]}");

	(void)state;
	assert_int_equal(q->n_files, 3);
	assert_string_equal(q->files[0].path, "/workspace/a/b.txt");
	assert_string_equal(q->files[0].data, "h\xc3\xa9");
	assert_int_equal(q->files[0].size, 3);
	assert_string_equal(q->files[1].path, "/tmp/x");
	assert_memory_equal(q->files[1].data, "\0\1\2", 3);
	assert_int_equal(q->files[2].size, 0);
	assert_true(q->files[1].executable && !q->files[2].executable);
	assert_int_equal(q->spec.get.len, 3);
	assert_string_equal(q->spec.get.items[1].from, "a:b");
	assert_null(q->spec.get.items[1].to);
	assert_int_equal(q->spec.put.len, 0);
}

static void directories_are_read(void **state)
{
	_cleanup_(freep) struct request_body *q = parse(
		"{\"code\":\"\",\"mounts\":[{\"source\":\"/a:b\",\"target\":\"/data\"},"
		"{\"source\":\"/c\",\"target\":\"/d\",\"access\":\"rw\"}],"
		"\"workspace\":{\"source\":\"/w\",\"access\":\"rw\",\"target\":\"/workspace\"},"
		"\"workdir\":\"sub\"}");

	(void)state;
	assert_int_equal(q->spec.n_mounts, 2);
	assert_string_equal(q->spec.mounts[0].source, "/a:b");
	assert_string_equal(q->spec.mounts[0].target, "/data");
	assert_int_equal(q->spec.mounts[0].access, ACCESS_READ);
	assert_int_equal(q->spec.mounts[1].access, ACCESS_WRITE);
	assert_string_equal(q->spec.workspace.source, "/w");
	assert_string_equal(q->spec.workspace.target, "/workspace");
	assert_int_equal(q->spec.workspace.access, ACCESS_WRITE);
	assert_string_equal(q->spec.workdir, "/workspace/sub");
}

static void limits_are_numbers_or_text(void **state)
{
	_cleanup_(freep) struct request_body *a =
		parse("{\"code\":\"\",\"limits\":{\"memory\":\"512m\",\"cpus\":\"1.5\",\"pids\":50,"
		      "\"disk\":1e8,\"timeout\":\"60s\",\"cpu_time\":1.5,\"output\":1024,"
		      "\"open_files\":64,\"file_size\":\"1g\"}}");
	_cleanup_(freep) struct request_body *b = parse(
		"{\"code\":\"\",\"limits\":{\"memory\":536870912,\"cpus\":0.3,\"timeout\":5}}");

	(void)state;
	assert_int_equal(a->spec.limits.memory_bytes, 512 << 20);
	assert_int_equal(a->spec.limits.cpus_milli, 1500);
	assert_int_equal(a->spec.limits.pids, 50);
	assert_int_equal(a->spec.limits.disk_bytes, 100000000);
	assert_int_equal(a->spec.limits.timeout_ms, 60000);
	assert_int_equal(a->spec.limits.cpu_time_ms, 1500);
	assert_int_equal(a->spec.limits.output_bytes, 1024);
	assert_int_equal(a->spec.limits.open_files, 64);
	assert_int_equal(a->spec.limits.file_size_bytes, 1 << 30);
	assert_int_equal(b->spec.limits.memory_bytes, 512 << 20);
	assert_int_equal(b->spec.limits.cpus_milli, 300);
	assert_int_equal(b->spec.limits.timeout_ms, 5000);
}

static void the_rest_is_read(void **state)
{
	_cleanup_(freep) struct request_body *q =
		parse("{\"code\":\"\",\"env\":{\"A\":\"1=2\",\"B\":\"\"},\"background\":true,"
		      "\"cold\":true,\"allow_degraded\":true,\"engine\":\"direct\","
		      "\"labels\":{\"team\":\"a=b\",\"x.y-z\":\"\"}}");
	_cleanup_(freep) struct request_body *dry = parse("{\"code\":\"\",\"dry_run\":true}");
	_cleanup_(json_freep) struct json *labels = request_labels_json(q);
	_cleanup_(buf_done) struct buf text = BUF(100);

	(void)state;
	assert_int_equal(q->spec.env.len, 2);
	assert_string_equal(q->spec.env.items[0], "A=1=2");
	assert_string_equal(q->spec.env.items[1], "B=");
	assert_true(q->background && q->spec.cold && q->spec.allow_degraded);
	assert_int_equal(q->spec.engine, ENGINE_DIRECT);
	assert_int_equal(json_text(labels, &text), 0);
	assert_string_equal(buf_str(&text), "{\"team\":\"a=b\",\"x.y-z\":\"\"}\n");
	assert_true(dry->dry_run && !dry->background);
}

/* What says only what is so anyway. */
static void what_holds_anyway_may_be_said(void **state)
{
	_cleanup_(freep) struct request_body *q =
		parse("{\"code\":\"\",\"image\":\"host\",\"user\":\"cay\",\"writable\":false,"
		      "\"network\":{\"mode\":\"none\",\"allow\":[],\"block\":[]},\"mode\":\"all\","
		      "\"tier\":\"restricted\",\"trusted\":false,\"rich\":false,"
		      "\"engine\":\"native\"}");

	(void)state;
	assert_int_equal(q->spec.engine, ENGINE_NATIVE);
	assert_false(q->spec.writable || q->spec.as_root);
	assert_string_equal(q->spec.needs_sandbox, "writable"); /* image host does not */
}

static void images_are_read(void **state)
{
	_cleanup_(freep) struct request_body *q =
		parse("{\"argv\":[\"id\"],\"image\":\"debian:12\",\"user\":\"root\","
		      "\"writable\":true}");
	_cleanup_(freep) struct request_body *none = parse("{\"code\":\"\"}");

	(void)state;
	assert_string_equal(q->spec.image, "debian:12");
	assert_true(q->spec.writable && q->spec.as_root);
	assert_string_equal(q->spec.needs_sandbox, "image");
	assert_null(none->spec.image);
}

static void networks_are_read(void **state)
{
	_cleanup_(freep) struct request_body *q = parse(
		"{\"code\":\"\",\"network\":{\"mode\":\"allowlist\",\"allow\":[\"A.b.\",\"*:22\"],"
		"\"block\":[\"c.d\"]},\"tier\":\"standard\"}");
	_cleanup_(freep) struct request_body *listed =
		parse("{\"code\":\"\",\"network\":{\"allow\":[\"a.b\"]}}");
	_cleanup_(freep) struct request_body *none = parse("{\"code\":\"\"}");

	(void)state;
	assert_true(q->spec.network.said && q->spec.has_tier);
	assert_int_equal(q->spec.network.mode, NETWORK_ALLOWLIST);
	assert_int_equal(q->spec.network.allow.len, 2);
	assert_string_equal(q->spec.network.allow.items[0], "a.b");
	assert_string_equal(q->spec.network.allow.items[1], "*:22");
	assert_string_equal(q->spec.network.block.items[0], "c.d");
	assert_int_equal(q->spec.tier, TIER_STANDARD);
	assert_string_equal(q->spec.needs_sandbox, "network");
	assert_false(listed->spec.network.said || listed->spec.has_tier);
	assert_int_equal(listed->spec.network.allow.len, 1);
	assert_false(none->spec.network.said);
	assert_null(none->spec.needs_sandbox);
}

static void rules_are_bounded(void **state)
{
	struct buf text = BUF(1 << 20);
	struct request_body *q = calloc(1, sizeof(*q));
	struct cay_error err = {0};

	(void)state;
	assert_non_null(q);
	assert_int_equal(
		buf_append_str(&text, "{\"network\":{\"block\":[\"a.b\"],\"allow\":[\"a\""), 0);
	for (int i = 0; i < EGRESS_RULES_MAX - 1; i++)
		assert_int_equal(buf_printf(&text, ",\"r%d.b\"", i), 0);
	assert_int_equal(buf_append_str(&text, "]}}"), 0);
	assert_int_equal(request_parse(q, REQUEST_SANDBOX, buf_str(&text), text.len, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	assert_string_equal(err.text, "network.block[0]: more than 1000 rules for domains");
	buf_done(&text);
	freep(&q);
}

static void sandboxes_are_read(void **state)
{
	_cleanup_(freep) struct request_body *q = parse_at(
		REQUEST_SANDBOX,
		"{\"name\":\"my-box_1.a\",\"ttl\":\"12h\",\"idle_timeout\":90,\"persistent\":true,"
		"\"limits\":{\"memory\":\"1g\"},\"env\":{\"A\":\"b\"},\"labels\":{\"k\":\"v\"},"
		"\"files\":[{\"path\":\"f\",\"text\":\"\"}]}");
	_cleanup_(freep) struct request_body *empty = parse_at(REQUEST_SANDBOX, "{}");

	(void)state;
	assert_string_equal(q->name, "my-box_1.a");
	assert_int_equal(q->ttl_ms, 12 * 3600 * 1000);
	assert_int_equal(q->idle_timeout_ms, 90000);
	assert_true(q->persistent);
	assert_int_equal(q->n_files, 1);
	assert_null(empty->name);
	assert_int_equal(empty->ttl_ms, 0);
}

static void commands_in_sandboxes_are_read(void **state)
{
	_cleanup_(freep) struct request_body *q = parse_at(
		REQUEST_COMMAND, "{\"argv\":[\"ls\"],\"limits\":{\"timeout\":5,\"output\":\"1k\"},"
				 "\"background\":true,\"workdir\":\"/tmp\",\"get\":[\"a\"]}");

	(void)state;
	assert_int_equal(q->spec.limits.timeout_ms, 5000);
	assert_int_equal(q->spec.limits.output_bytes, 1024);
	assert_true(q->background);
}

#define I CAY_E_INVALID
#define U CAY_E_UNSUPPORTED

static const struct {
	enum request_place place;
	const char *text;
	enum cay_code code;
	const char *begins; /* the error */
	const char *hint;   /* is in it */
} wrong[] = {
	/* The form */
	{REQUEST_RUN, "", I, "the request: not JSON, line 1", ""},
	{REQUEST_RUN, "[]", I, "the request: expected an object, not an array", ""},
	{REQUEST_RUN, "{\"code\":\"\"} x", I, "the request: not JSON", ""},
	{REQUEST_RUN, "{\"code\":\"a\",\"code\":\"b\"}", I, "the request: not JSON", ""},
	{REQUEST_RUN, "{\"code\":NaN}", I, "the request: not JSON", ""},
	/* Names */
	{REQUEST_RUN, "{\"cod\":\"\"}", I, "cod: no field is called so", "did you mean code?"},
	{REQUEST_RUN, "{\"code\":\"\",\"Language\":\"\"}", I, "Language: no field", "language"},
	{REQUEST_RUN, "{\"code\":\"\",\"zzz\\n\":1}", I, "zzz : no field is called so", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"name\":\"x\"}", I, "name: can't be said of a run", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"ttl\":1}", I, "ttl: can't be said of a run", ""},
	{REQUEST_SANDBOX, "{\"code\":\"\"}", I, "code: can't be said of a sandbox", ""},
	{REQUEST_SANDBOX, "{\"background\":true}", I, "background: can't be said of", ""},
	{REQUEST_COMMAND, "{\"argv\":[\"a\"],\"mounts\":[]}", I,
	 "mounts: can't be said of a command in a sandbox", ""},
	/* One thing to run */
	{REQUEST_RUN, "{}", I, "nothing to run", "one of them"},
	{REQUEST_COMMAND, "{\"stdin\":\"\"}", I, "nothing to run", "one of them"},
	{REQUEST_RUN, "{\"code\":\"\",\"argv\":[\"a\"]}", I, "more than one of code", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"command\":\"\"}", I, "more than one of code", ""},
	{REQUEST_RUN, "{\"argv\":[]}", I, "argv: names no program", ""},
	{REQUEST_RUN, "{\"argv\":[\"\"]}", I, "argv: names no program", ""},
	{REQUEST_RUN, "{\"argv\":[\"a\",1]}", I, "argv[1]: expected a string, not a number", ""},
	{REQUEST_RUN, "{\"argv\":[\"a\\u0000\"]}", I, "argv[0]: there is a NUL in it", ""},
	{REQUEST_RUN, "{\"argv\":[\"a\"],\"args\":[]}", I, "args: goes with code, command or file",
	 ""},
	{REQUEST_RUN, "{\"argv\":[\"a\"],\"language\":\"sh\"}", I, "argv: a program of", ""},
	{REQUEST_RUN, "{\"command\":\"a\",\"language\":\"bash\"}", I, "command: a line", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"version\":\"3\"}", I, "version: says nothing", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"language\":\"python@3\",\"version\":\"3\"}", I,
	 "version: the language has one already", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"language\":\"python\",\"version\":\"\"}", I,
	 "version: is empty", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"language\":\"pyton\"}", CAY_E_RUNTIME,
	 "language: no language is called 'pyton'", "python"},
	/* Kinds */
	{REQUEST_RUN, "{\"code\":1}", I, "code: expected a string, not a number", ""},
	{REQUEST_RUN, "{\"code\":null}", I, "code: expected a string, not null", "left out"},
	{REQUEST_RUN, "{\"code\":\"\",\"background\":1}", I, "background: expected true or false",
	 ""},
	{REQUEST_RUN, "{\"code\":\"\",\"args\":\"a\"}", I, "args: expected an array", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"stdin\":\"\",\"stdin_base64\":\"\"}", I,
	 "stdin_base64: stdin is there already", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"stdin_base64\":\"x\"}", I, "stdin_base64: not base64",
	 "padded"},
	{REQUEST_RUN, "{\"code\":\"\",\"env\":[]}", I, "env: expected an object", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"env\":{\"A\":1}}", I, "env.A: expected a string", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"env\":{\"A=B\":\"\"}}", I, "env.A=B: 'A=B' is no name", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"env\":{\"\":\"\"}}", I, "env.: '' is no name", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"env\":{\"A\":\"\\u0000\"}}", I, "env.A: there is a NUL",
	 ""},
	{REQUEST_RUN, "{\"code\":\"\",\"workdir\":\"../x\"}", I, "workdir: '../x' can't be", ""},
	/* Files */
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[1]}", I, "files[0]: expected an object", ""},
	{REQUEST_RUN,
	 "{\"code\":\"\",\"files\":[{\"path\":\"a\",\"text\":\"\"},{\"path\":\"..\"}]}", I,
	 "files[1].path: names no file", "without '.'"},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"text\":\"\"}]}", I, "files[0]: path is missing",
	 ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"a\"}]}", I,
	 "files[0]: data or text is missing", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"a\",\"data\":\"\",\"text\":\"\"}]}", I,
	 "files[0].text: data is there already", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"a\",\"data\":\"!\"}]}", I,
	 "files[0].data: not base64", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"a\",\"dat\":\"\"}]}", I,
	 "files[0].dat: no field is called so", "did you mean data?"},
	{REQUEST_RUN,
	 "{\"code\":\"\",\"files\":[{\"path\":\"a\",\"text\":\"\"},"
	 "{\"path\":\"/workspace/a\",\"text\":\"\"}]}",
	 I, "files[1]: has the path of files[0]", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"\",\"text\":\"\"}]}", I,
	 "files[0].path: names no file", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"/workspace\",\"text\":\"\"}]}", I,
	 "files[0].path: names no file", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"/proc/self/mem\",\"text\":\"\"}]}", I,
	 "files[0].path: names no file", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"files\":[{\"path\":\"a/\",\"text\":\"\"}]}", I,
	 "files[0].path: names no file", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"get\":[\"/etc/*\"]}", I, "get[0]: names no files", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"get\":[\"a\",\"../*\"]}", I, "get[1]: names no files", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"get\":[\"\"]}", I, "get[0]: names no files", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"get\":[{}]}", I, "get[0]: expected a string", ""},
	/* Directories */
	{REQUEST_RUN, "{\"code\":\"\",\"mounts\":[{\"source\":\"a\",\"target\":\"/b\"}]}", I,
	 "mounts[0].source: expected an absolute path", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"mounts\":[{\"source\":\"/a\",\"target\":\"b\"}]}", I,
	 "mounts[0].target: expected an absolute path", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"mounts\":[{\"source\":\"/a\"}]}", I,
	 "mounts[0]: target is missing", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"mounts\":[{\"target\":\"/a\"}]}", I,
	 "mounts[0]: source is missing", ""},
	{REQUEST_RUN,
	 "{\"code\":\"\",\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"access\":\"w\"}]}", I,
	 "mounts[0].access: expected ro or rw", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"workspace\":{}}", I, "workspace: source is missing", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"workspace\":{\"source\":\"/a\",\"target\":\"/b\"}}", U,
	 "workspace.target: not supported yet", "/workspace"},
	/* Limits */
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"memory\":-1}}", I,
	 "limits.memory: the limit memory can't be '-1'", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"memory\":\"lots\"}}", I, "limits.memory: ", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"memory\":5242880.5}}", I,
	 "limits.memory: expected whole bytes", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"memory\":1e300}}", I, "limits.memory: ", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"pids\":2.5}}", I, "limits.pids: ", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"timeout\":true}}", I,
	 "limits.timeout: expected a number or a string, not true or false", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"timeout\":0}}", I, "limits.timeout: ", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"limits\":{\"memroy\":1}}", I,
	 "limits.memroy: no limit is called so", "did you mean memory?"},
	{REQUEST_COMMAND, "{\"argv\":[\"a\"],\"limits\":{\"memory\":\"1g\"}}", I,
	 "limits.memory: can't be said of a command in a sandbox", "created"},
	/* Sandboxes */
	{REQUEST_SANDBOX, "{\"name\":\"\"}", I, "name: can't be a name", "letters"},
	{REQUEST_SANDBOX, "{\"name\":\"a b\"}", I, "name: can't be a name", ""},
	{REQUEST_SANDBOX, "{\"name\":\"-a\"}", I, "name: can't be a name", ""},
	{REQUEST_SANDBOX, "{\"name\":\"..\"}", I, "name: can't be a name", ""},
	{REQUEST_SANDBOX, "{\"name\":\"sbx_1\"}", I, "name: can't be a name", "no id"},
	{REQUEST_SANDBOX, "{\"ttl\":0}", I, "ttl: expected seconds", ""},
	{REQUEST_SANDBOX, "{\"idle_timeout\":\"soon\"}", I, "idle_timeout: expected seconds", ""},
	{REQUEST_SANDBOX, "{\"labels\":{\"a b\":\"\"}}", I, "labels.a b: can't be a label's", ""},
	{REQUEST_SANDBOX, "{\"labels\":{\"a\":1}}", I, "labels.a: expected a string", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"background\":true,\"dry_run\":true}", I, "dry_run: ", ""},
	/* Later */
	{REQUEST_RUN, "{\"code\":\"\",\"image\":\"\"}", I, "image: '' names no image", "python:"},
	{REQUEST_RUN, "{\"code\":\"\",\"image\":1}", I, "image: expected a string", ""},
	{REQUEST_COMMAND, "{\"code\":\"\",\"image\":\"a\"}", I, "image: can't be said of a command",
	 ""},
	{REQUEST_COMMAND, "{\"code\":\"\",\"user\":\"root\"}", I,
	 "user: can't be said of a command", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"engine\":\"qemu\"}", I, "engine: no engine is called", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":{\"mode\":\"ful\"}}", I,
	 "network.mode: 'ful' is no network mode", "did you mean full?"},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":{\"mode\":\"on\"}}", I,
	 "network.mode: 'on' is no network mode", "none, allowlist, full"},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":{\"allow\":[\"a.b\",\"1.2.3.4\"]}}", I,
	 "network.allow[1]: 1.2.3.4 is no rule for domains", "*.example.org"},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":{\"block\":[\"http://a\"]}}", I,
	 "network.block[0]: http://a is no rule for domains", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":{\"block\":[1]}}", I,
	 "network.block[0]: expected a string", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":{\"allow\":\"a.b\"}}", I,
	 "network.allow: expected an array", ""},
	{REQUEST_COMMAND, "{\"code\":\"\",\"network\":{\"allow\":[]}}", I,
	 "network: can't be said of a command", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"network\":\"none\"}", I, "network: expected an object", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"writable\":1}", I, "writable: expected true or false", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"user\":\"web\"}", I, "user: the user can't be 'web'",
	 "root"},
	{REQUEST_SANDBOX, "{\"mode\":\"off\"}", U, "mode: not supported yet", "lives on"},
	{REQUEST_RUN, "{\"code\":\"\",\"mode\":\"offf\"}", I, "mode: no such value", "off"},
	{REQUEST_RUN, "{\"code\":\"\",\"tier\":\"top\"}", I, "tier: 'top' is no tier",
	 "restricted"},
	{REQUEST_RUN, "{\"code\":\"\",\"tier\":\"elevatd\"}", I, "tier: 'elevatd' is no tier",
	 "did you mean elevated?"},
	{REQUEST_SANDBOX, "{\"trusted\":true}", U, "trusted: not supported yet", "lives on"},
	{REQUEST_RUN, "{\"code\":\"\",\"scope\":\"all\"}", I,
	 "scope: 'all' is no scope: there is no such kind", "session:ID"},
	{REQUEST_RUN, "{\"code\":\"\",\"scope\":\"session:\"}", I,
	 "scope: 'session:' is no scope: there is no ID", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"scope\":\"shared:a\"}", I,
	 "scope: 'shared:a' is no scope: shared has no ID", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"scope\":\"agent:a/b\"}", I,
	 "scope: 'agent:a/b' is no scope: its ID has characters that it can't have", ""},
	{REQUEST_COMMAND, "{\"code\":\"\",\"scope\":\"shared\"}", I, "scope: ", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"context\":\"a\"}", I,
	 "context: only a sandbox that lives on has interpreters that remember",
	 "create a sandbox"},
	{REQUEST_COMMAND, "{\"code\":\"\",\"context\":\"-a\"}", I, "context: can't be a name",
	 "up to"},
	{REQUEST_COMMAND, "{\"code\":\"\",\"context\":\"a\",\"args\":[\"b\"]}", I,
	 "context: an interpreter that remembers has no arguments", ""},
	{REQUEST_COMMAND, "{\"argv\":[\"a\"],\"context\":\"a\"}", I,
	 "context: goes with code alone", ""},
	{REQUEST_COMMAND, "{\"language\":\"ruby\",\"code\":\"\",\"context\":\"a\"}", U,
	 "context: there is none for ruby", "python"},
	{REQUEST_COMMAND, "{\"language\":\"bash\",\"code\":\"\\u0000\",\"context\":\"a\"}", I,
	 "context: the code has a NUL in it", ""},
	{REQUEST_RUN, "{\"command\":\"\",\"rich\":true}", U, "rich: there is none for sh", ""},
	{REQUEST_RUN, "{\"code\":\"\",\"filename\":\"a\",\"rich\":true}", I,
	 "rich: goes without a filename", ""},
};

static void wrong_requests_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct request_body *q = calloc(1, sizeof(*q));
		struct cay_error err = {0};

		assert_non_null(q);
		if (request_parse(q, wrong[i].place, wrong[i].text, strlen(wrong[i].text), &err) ==
		    0)
			fail_msg("%s: taken", wrong[i].text);
		if (err.code != wrong[i].code ||
		    strncmp(err.text, wrong[i].begins, strlen(wrong[i].begins)) != 0 ||
		    !strstr(err.hint, wrong[i].hint))
			fail_msg("%s: %s: %s (%s)", wrong[i].text, cay_code_name(err.code),
				 err.text, err.hint);
		freep(&q);
	}
}

/* {"code":"","NAME":OPEN ITEM,ITEM,… CLOSE}, with the item's number in it. */
static void check_too_many(const char *name, char open, const char *item, int n, char close)
{
	_cleanup_(buf_done) struct buf text = BUF(1 << 20);
	struct request_body *q = calloc(1, sizeof(*q));
	struct cay_error err = {0};

	assert_non_null(q);
	assert_int_equal(buf_printf(&text, "{\"code\":\"\",\"%s\":%c", name, open), 0);
	for (int i = 0; i <= n; i++) {
		char number[16];
		const char *at = strchr(item, '#');

		(void)snprintf(number, sizeof(number), "%d", i);
		assert_int_equal(buf_printf(&text, "%s%.*s%s%s", i ? "," : "", (int)(at - item),
					    item, number, at + 1),
				 0);
	}
	assert_int_equal(buf_printf(&text, "%c}", close), 0);
	assert_int_equal(request_parse(q, REQUEST_RUN, text.data, text.len, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	assert_int_equal(strncmp(err.text, name, strlen(name)), 0);
	freep(&q);
}

static void all_is_bounded(void **state)
{
	(void)state;
	check_too_many("env", '{', "\"A#\":\"\"", REQUEST_ENV_MAX, '}');
	check_too_many("labels", '{', "\"A#\":\"\"", REQUEST_LABELS_MAX, '}');
	check_too_many("files", '[', "{\"path\":\"#\",\"text\":\"\"}", REQUEST_FILES_MAX, ']');
	check_too_many("get", '[', "\"#\"", SPEC_TRANSFERS_MAX, ']');
	check_too_many("mounts", '[', "{\"source\":\"/a\",\"target\":\"/#\"}", SPEC_MOUNTS_MAX,
		       ']');
	check_too_many("args", '[', "\"#\"", STRV_MAX, ']');
}

static void code_is_bounded(void **state)
{
	size_t len = CODE_MAX_BYTES + 1, size = len + 16;
	struct request_body *q = calloc(1, sizeof(*q));
	char *text = malloc(size);
	struct cay_error err = {0};
	int n;

	(void)state;
	assert_non_null(text);
	assert_non_null(q);
	n = snprintf(text, size, "{\"code\":\"");
	memset(text + n, ' ', len);
	memcpy(text + (size_t)n + len, "\"}", 2);
	assert_int_equal(request_parse(q, REQUEST_RUN, text, (size_t)n + len + 2, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	freep(&q);
	free(text);
}

static void names(void **state)
{
	char longest[REQUEST_NAME_MAX + 2];

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[REQUEST_NAME_MAX + 1] = '\0';
	assert_false(request_name_ok(longest));
	longest[REQUEST_NAME_MAX] = '\0';
	assert_true(request_name_ok(longest));
	assert_true(request_name_ok("a"));
	assert_false(request_name_ok("a/b"));
	assert_false(request_name_ok("a\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_is_read),
		cmocka_unit_test(scripts_keep_their_names),
		cmocka_unit_test(languages_have_versions),
		cmocka_unit_test(commands_are_code_of_sh),
		cmocka_unit_test(argv_is_read),
		cmocka_unit_test(input_is_read),
		cmocka_unit_test(files_are_read),
		cmocka_unit_test(directories_are_read),
		cmocka_unit_test(limits_are_numbers_or_text),
		cmocka_unit_test(the_rest_is_read),
		cmocka_unit_test(what_holds_anyway_may_be_said),
		cmocka_unit_test(images_are_read),
		cmocka_unit_test(networks_are_read),
		cmocka_unit_test(rules_are_bounded),
		cmocka_unit_test(sandboxes_are_read),
		cmocka_unit_test(commands_in_sandboxes_are_read),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(all_is_bounded),
		cmocka_unit_test(code_is_bounded),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
