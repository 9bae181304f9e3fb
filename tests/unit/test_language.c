#include "spec/language.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void finds_by_name_and_alias(void **state)
{
	const struct language *python = language_find("python");

	(void)state;
	assert_non_null(python);
	assert_string_equal(python->name, "python");
	assert_ptr_equal(language_find("py"), python);
	assert_ptr_equal(language_find("python3"), python);
	assert_non_null(language_find("sh"));
	assert_string_equal(language_find("sh")->name, "sh");
	assert_null(language_find("shell"));
	assert_null(language_find("pytho"));
	assert_null(language_find("pythons"));
	assert_null(language_find("Python"));
	assert_null(language_find(""));
}

static void finds_by_extension(void **state)
{
	(void)state;
	assert_ptr_equal(language_by_extension("a.py"), language_find("python"));
	assert_ptr_equal(language_by_extension("/x/y.z/a.b.py"), language_find("python"));
	assert_ptr_equal(language_by_extension("./run.sh"), language_find("sh"));
	assert_null(language_by_extension("py"));
	assert_null(language_by_extension(".py"));
	assert_null(language_by_extension("/x/.sh"));
	assert_null(language_by_extension("dir.py/file"));
	assert_null(language_by_extension("a.py~"));
	assert_null(language_by_extension("a."));
	assert_null(language_by_extension(""));
}

static void patterns_are_sound(const struct language_program *list)
{
	for (; list->name; list++)
		assert_int_equal(strchr(list->name, '*') != NULL, list->last > 0);
}

/* Whatever row is added: it can be found, no other row takes its words, and it is complete. */
static void rows_are_sound(void **state)
{
	(void)state;
	assert_int_equal(n_languages, 16);
	for (size_t i = 0; i < n_languages; i++) {
		const struct language *l = &languages[i];
		char file[64];

		assert_ptr_equal(language_find(l->name), l);
		for (size_t k = 0; l->aliases[k]; k++)
			assert_ptr_equal(language_find(l->aliases[k]), l);
		assert_non_null(l->extensions[0]);
		for (size_t k = 0; l->extensions[k]; k++) {
			(void)snprintf(file, sizeof(file), "x%s", l->extensions[k]);
			assert_ptr_equal(language_by_extension(file), l);
		}
		assert_ptr_equal(language_by_extension(l->file_name), l);
		assert_non_null(language_base(l));
		assert_null(language_base(l)->runs_on);
		assert_non_null(language_base(l)->programs[0].name);
		assert_true(!l->runs_on || !l->programs[0].name);
		patterns_are_sound(l->programs);
		patterns_are_sound(l->dirs);
		assert_non_null(l->package);
		assert_true(!l->compile[0] || l->run[0]);
		assert_true(!l->tool || l->compile[0]);
		/* The lists end within their bounds. */
		assert_null(l->compile[LANGUAGE_ARGV_MAX - 1]);
		assert_null(l->run[LANGUAGE_ARGV_MAX - 1]);
		assert_null(l->toolless_run[LANGUAGE_ARGV_MAX - 1]);
		assert_null(l->env[LANGUAGE_WORDS_MAX - 1]);
		assert_null(l->code_args[ARRAY_LEN(l->code_args) - 1]);
		assert_true(language_has_versions(l) || !l->prefer);
		assert_true(l->tool || (!l->tool_beside && !l->toolless_since));
	}
}

static void rows_say_what_was_promised(void **state)
{
	const struct language *python = language_find("python"), *sh = language_find("sh");

	(void)state;
	assert_string_equal(python->code_option, "-c");
	assert_string_equal(python->prefer, "3.12");
	assert_string_equal(python->package, "python3");
	assert_null(python->code_args[0]);
	assert_string_equal(sh->code_option, "-c");
	assert_string_equal(sh->code_args[0], "sh");
	assert_false(language_has_versions(sh));
	assert_string_equal(sh->package, "dash");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_by_name_and_alias),
		cmocka_unit_test(finds_by_extension),
		cmocka_unit_test(rows_are_sound),
		cmocka_unit_test(rows_say_what_was_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
