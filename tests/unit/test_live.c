#include "settings/live.h"

#include "core/limit.h"
#include "settings/rows.h"
#include "settings_support.h"

#include <stdio.h>
#include <string.h>

static const char files[] =
	"[limits]\nmemory = 128m\n[maximum]\nmemory = 1g\n[network]\n"
	"mode = allowlist\nblock = a.example\n[language python]\nprefer = 3.11\n"
	"[tier standard]\nnetwork = allowlist\n[serve]\nmode = selective\n";

struct fixture {
	struct buf parts;
	struct settings base, now;
	struct cay_error err;
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){.parts = BUF(10000)};
	settings_init(&f.base);
	settings_init(&f.now);
	assert_int_equal(settings_add_part(&f.parts, "/etc/f", files), 0);
	assert_int_equal(settings_parse_parts(&f.base, &f.parts, &f.err), 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	settings_done(&f->base);
	settings_done(&f->now);
	buf_done(&f->parts);
	return 0;
}

static int lay(struct fixture *f, const char *text)
{
	settings_done(&f->now);
	return live_lay(&f->parts, &f->base, text, 7, &f->now, &f->err);
}

static void they_are_laid_over_the_files(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lay(f, ""), 0);
	assert_string_equal(settings_origin(&f->now, "limits.memory"), "/etc/f:2");
	assert_int_equal(lay(f, "[limits]\nmemory = 2g\n[network]\nblock = b.example\n"), 0);
	assert_int_equal(f->now.limits.memory_bytes, 2ull << 30);
	assert_int_equal(f->now.network_block.len, 2);
	assert_string_equal(settings_origin(&f->now, "limits.memory"), "run time, version 7");
	assert_string_equal(settings_origin(&f->now, "network.block[0]"), "/etc/f:7");
	assert_string_equal(settings_origin(&f->now, "network.block[1]"), "run time, version 7");
	assert_string_equal(settings_origin(&f->now, "maximum.memory"), "/etc/f:4");
}

static void less_is_no_more(void **state)
{
	static const char *const may[] = {
		"[maximum]\nmemory = 1g\n",    "[maximum]\nmemory = 8m\n",
		"[maximum]\npids = 3\n",       "[network]\nmode = none\n",
		"[serve]\nmode = all\n",       "[isolation]\nmay_degrade = no\n",
		"[engine]\ndirect = no\n",     "[tier standard]\nnetwork = none\n",
		"[serve]\nmode = selective\n", "[language python]\nprefer = 3.12\n",
	};
	static const char *const may_not[] = {
		"[maximum]\nmemory = 1025m\n",
		"[maximum]\nmemory = 0\n",
		"[network]\nmode = full\n",
		"[serve]\nmode = off\n",
		"[isolation]\nallow_degraded = yes\n",
		"[tier standard]\nnetwork = full\n",
		"[tier sandbox]\nnetwork = allowlist\n",
		"[network]\nallow = b.example\n",
		"[mounts]\nforbid = /a\n",
		"[mounts]\nread = /a\n",
		"[serve]\nhost = a\n",
		"[serve]\nsettings = narrow\n",
		"[warm]\nenabled = no\n",
		"[images]\nstore = /a\n",
		"[language python]\npath = /a\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(may); i++)
		if (lay(f, may[i]) < 0)
			fail_msg("%s: %s", may[i], f->err.text);
	for (size_t i = 0; i < ARRAY_LEN(may_not); i++) {
		if (lay(f, may_not[i]) == 0)
			fail_msg("taken: %s", may_not[i]);
		assert_int_equal(f->err.code, CAY_E_POLICY);
		assert_non_null(strstr(f->err.text, LIVE_NAME ":2: "));
	}
}

static void more_where_the_files_let_it(void **state)
{
	static const char *const may[] = {
		"[maximum]\nmemory = 2g\n", "[network]\nmode = full\n",
		"[serve]\nmode = off\n",    "[network]\nallow = b.example\n",
		"[mounts]\nread = /a\n",    "[tier sandbox]\nnetwork = full\n"};
	static const char *const may_not[] = {"[serve]\nhost = a\n", "[serve]\nsettings = off\n",
					      "[network]\ntotal_connections = 3\n",
					      "[serve]\ndirect_user = a\n"};
	struct fixture *f = *state;

	f->base.serve_settings = LIVE_FULL;
	for (size_t i = 0; i < ARRAY_LEN(may); i++)
		if (lay(f, may[i]) < 0)
			fail_msg("%s: %s", may[i], f->err.text);
	for (size_t i = 0; i < ARRAY_LEN(may_not); i++)
		if (lay(f, may_not[i]) == 0)
			fail_msg("taken: %s", may_not[i]);
}

/* A key that was forgotten takes a file; one of the table is one that there is. */
static void the_rules_are_of_keys_that_there_are(void **state)
{
	size_t n[3] = {0};

	(void)state;
	for (const struct section *sec = sections; sec < sections + n_sections; sec++)
		for (size_t i = 0; i < section_keys(sec); i++)
			n[live_rule_of(LIVE_NARROW, sec->name, section_key(sec, i))]++;
	assert_true(n[LIVE_FILE] > 20 && n[LIVE_LESS] >= n_limit_rows + 4);
	assert_int_equal(live_rule_of(LIVE_FULL, "serve", "nosuch"), LIVE_FILE);
	assert_int_equal(live_rule_of(LIVE_FULL, "nosuch", "mode"), LIVE_FILE);
}

static void mistakes_are_those_of_files(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lay(f, "[limits]\nmemroy = 1g\n"), -1);
	assert_string_equal(f->err.text, LIVE_NAME ":2: unknown key 'memroy' in [limits]");
	assert_int_equal(lay(f, "[limits\n"), -1);
	assert_non_null(strstr(f->err.text, LIVE_NAME ":1: "));
}

static void edit(const char *was, const char *name, const char *a, const char *b, const char *is)
{
	_cleanup_(strv_done) struct strv values = {0};
	_cleanup_(buf_done) struct buf text = BUF(1000);
	struct cay_error err;

	if (a)
		assert_int_equal(strv_add(&values, a), 0);
	if (b)
		assert_int_equal(strv_add(&values, b), 0);
	if (live_edit(was, name, &values, &text, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(buf_str(&text), is);
}

static void keys_are_edited(void **state)
{
	(void)state;
	edit("", "limits.memory", "1g", NULL, "[limits]\nmemory = 1g\n");
	edit("[limits]\nmemory = 1g\npids = 2\n", "limits.memory", "2g", NULL,
	     "[limits]\npids = 2\nmemory = 2g\n");
	edit("[limits]\nmemory = 1g\n[network]\nblock=a\nblock=b\n", "limits.pids", "2", NULL,
	     "[limits]\nmemory = 1g\npids = 2\n[network]\nblock = a\nblock = b\n");
	edit("[network]\nblock=a\nblock=b\n", "network.block", "c", "d",
	     "[network]\nblock = c\nblock = d\n");
	edit("[network]\nblock=a\nmode=none\n", "network.block", NULL, NULL,
	     "[network]\nmode = none\n");
	edit("[limits]\nmemory=1g\n", "language python.prefer", "3.12", NULL,
	     "[limits]\nmemory = 1g\n[language python]\nprefer = 3.12\n");
	edit("[limits]\nmemory=1g\n", "limits.memory", NULL, NULL, "");
}

static void what_is_no_key_or_value_is_not_edited(void **state)
{
	static const char *const names[] = {"",      "memory",   ".memory", "limits.", "a]\n[b.c",
					    "a.b=c", "a.b\nc.d", "#a.b",    "a.[b]"};
	_cleanup_(strv_done) struct strv values = {0}, lines = {0};
	_cleanup_(buf_done) struct buf text = BUF(1000);
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(live_edit("", names[i], &values, &text, &err), -1);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
	assert_int_equal(strv_add(&lines, "1g\n[serve]\nmode = off"), 0);
	assert_int_equal(live_edit("", "limits.memory", &lines, &text, &err), -1);
	assert_int_equal(text.len, 0);
}

static void note(void *ctx, const char *name, const struct strv *was, const struct strv *is)
{
	char *text = ctx;
	size_t n = strlen(text);

	(void)snprintf(text + n, 200 - n, "%s %zu %zu;", name, was->len, is->len);
}

static void differences_are_told_by_key(void **state)
{
	char text[200] = "";

	(void)state;
	assert_int_equal(
		live_diff("[a]\nx=1\ny=1\ny=2\nz=3\n", "[b]\nx=1\n[a]\nz=3\ny=1\n", note, text), 0);
	assert_string_equal(text, "b.x 0 1;a.y 2 1;a.x 1 0;");
	text[0] = '\0';
	assert_int_equal(live_diff("[a]\nx=1\n", "# other\n[a]\nx = 1\n", note, text), 0);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(they_are_laid_over_the_files, setup, teardown),
		cmocka_unit_test_setup_teardown(less_is_no_more, setup, teardown),
		cmocka_unit_test_setup_teardown(more_where_the_files_let_it, setup, teardown),
		cmocka_unit_test(the_rules_are_of_keys_that_there_are),
		cmocka_unit_test_setup_teardown(mistakes_are_those_of_files, setup, teardown),
		cmocka_unit_test(keys_are_edited),
		cmocka_unit_test(what_is_no_key_or_value_is_not_edited),
		cmocka_unit_test(differences_are_told_by_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
