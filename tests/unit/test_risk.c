#include "spec/risk.h"

#include "base/attr.h"
#include "spec/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static void what_can_be_a_rule(void **state _unused_)
{
	static const char *const rows[][2] = {
		{"shell", "shell"},
		{"argv", "argv"},
		{"language:js", "language:javascript"},
		{"network", "network"},
		{"network:full", "network:full"},
		{"mounts", "mounts"},
		{"mounts:rw", "mounts:rw"},
		{"image", "image"},
		{"tier:standard", "tier:standard"},
		{"key", "key"},
		{"key:ci", "key:ci"},
		{"label:a", "label:a"},
		{"label:a=b:c", "label:a=b:c"},
		{"", NULL},
		{"shel", NULL},
		{"shell:", NULL},
		{"shell:sh", NULL},
		{"language", NULL},
		{"language:", NULL},
		{"language:cobol", NULL},
		{"network:some", NULL},
		{"network:", NULL},
		{"mounts:ro", NULL},
		{"image:x", NULL},
		{"tier", NULL},
		{"tier:god", NULL},
		{"key:", NULL},
		{"key:a b", NULL},
		{"label", NULL},
		{"label:=x", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[RISK_SIZE] = "";
		struct cay_error err = {0};
		int r = risk_parse(rows[i][0], text, &err);

		if ((r == 0) != (rows[i][1] != NULL) || (r == 0 && strcmp(text, rows[i][1]) != 0))
			fail_msg("%s: %d, %s, %s", rows[i][0], r, text, err.text);
		if (r < 0)
			assert_int_equal(err.code, CAY_E_INVALID);
	}
}

static void what_they_name(void **state _unused_)
{
	static const struct {
		const char *rule, *request;
		bool is;
	} rows[] = {
		{"shell", "{\"command\":\"true\"}", true},
		{"shell", "{\"language\":\"zsh\",\"code\":\"true\"}", true},
		{"shell", "{\"argv\":[\"/usr/bin/bash\",\"-c\",\"id\"]}", true},
		{"shell", "{\"argv\":[\"bashful\"]}", false},
		{"shell", "{\"code\":\"import os; os.system('sh')\"}", false},
		{"argv", "{\"argv\":[\"true\"]}", true},
		{"argv", "{\"command\":\"true\"}", false},
		{"language:python", "{\"code\":\"1\"}", true},
		{"language:javascript", "{\"language\":\"node\",\"code\":\"1\"}", true},
		{"language:javascript", "{\"code\":\"1\"}", false},
		{"mounts", "{\"code\":\"1\",\"workspace\":{\"source\":\"/srv\"}}", true},
		{"mounts:rw", "{\"code\":\"1\",\"workspace\":{\"source\":\"/srv\"}}", false},
		{"mounts:rw",
		 "{\"code\":\"1\",\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"access\":\"rw\"}]}",
		 true},
		{"mounts", "{\"code\":\"1\"}", false},
		{"image", "{\"code\":\"1\",\"image\":\"python:3\"}", true},
		{"image", "{\"code\":\"1\",\"image\":\"host\"}", false},
		{"label:a", "{\"code\":\"1\",\"labels\":{\"a\":\"\"}}", true},
		{"label:a", "{\"code\":\"1\",\"labels\":{\"ab\":\"a\"}}", false},
		{"label:a=b", "{\"code\":\"1\",\"labels\":{\"a\":\"b\"}}", true},
		{"label:a=b", "{\"code\":\"1\",\"labels\":{\"a\":\"bc\"}}", false},
		/* As the facts below have them. */
		{"network", "{\"code\":\"1\"}", true},
		{"network:allowlist", "{\"code\":\"1\"}", true},
		{"network:full", "{\"code\":\"1\"}", false},
		{"tier:standard", "{\"code\":\"1\"}", true},
		{"tier:sandbox", "{\"code\":\"1\"}", false},
		{"key", "{\"code\":\"1\"}", true},
		{"key:ci", "{\"code\":\"1\"}", true},
		{"key:key_1", "{\"code\":\"1\"}", true},
		{"key:other", "{\"code\":\"1\"}", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct request_body q;
		struct cay_error err;
		struct risk_facts f = {.spec = &q.spec,
				       .network = NETWORK_ALLOWLIST,
				       .tier = "standard",
				       .key = "ci",
				       .key_id = "key_1",
				       .labels = &q.labels};

		if (request_parse(&q, REQUEST_RUN, rows[i].request, strlen(rows[i].request), &err) <
		    0)
			fail_msg("%s: %s", rows[i].request, err.text);
		if (risk_matches(rows[i].rule, &f) != rows[i].is)
			fail_msg("%s: %s", rows[i].rule, rows[i].request);
		request_body_done(&q);
	}
}

static void nobody_in_particular(void **state _unused_)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct risk_facts f = {.spec = &spec};

	assert_false(risk_matches("key", &f));
	assert_false(risk_matches("key:ci", &f));
	assert_false(risk_matches("tier:sandbox", &f));
	assert_false(risk_matches("label:a", &f));
	assert_false(risk_matches("shell", &f));
	assert_false(risk_matches("network", &f));
	assert_true(risk_matches("network:none", &f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_can_be_a_rule),
		cmocka_unit_test(what_they_name),
		cmocka_unit_test(nobody_in_particular),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
