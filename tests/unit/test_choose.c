/* Which image and interpreter a program gets, and which it may have. */
#include "image_support.h"

#include "image/choose.h"
#include "image/naming.h"
#include "image/runtime_images.h"
#include "policy/bounds.h"

#define PYTHON_310 "docker.io/library/python:3.10-slim"
#define NODE_22    "docker.io/library/node:22-slim"

static char store[PATH_MAX];
static struct settings settings;
static struct spec spec;
static struct image_choice chosen;
static struct runtime runtime;
static struct cay_error err;

static void configure(const char *text)
{
	if (settings_parse(&settings, "F", text, &err) < 0)
		fail_msg("%s", err.text);
}

static int begin(void **state)
{
	char text[PATH_MAX + 32];

	(void)state;
	image_store_make(store);
	settings_init(&settings);
	(void)snprintf(text, sizeof(text), "[images]\nstore = %s\n", store);
	configure(text);
	spec = (struct spec){.kind = SPEC_CODE};
	chosen = (struct image_choice){0};
	return 0;
}

static int end(void **state)
{
	(void)state;
	image_choice_done(&chosen);
	spec_done(&spec);
	settings_done(&settings);
	image_store_remove(store);
	return 0;
}

static int choose(const char *language, const char *image)
{
	image_choice_done(&chosen);
	spec.kind = language ? SPEC_CODE : SPEC_ARGV;
	if (language)
		assert_int_equal(spec_set_language(&spec, language, &err), 0);
	free(spec.image);
	spec.image = image ? strdup(image) : NULL;
	return image_choose(&settings, &spec, &chosen, &runtime, &err);
}

static void is_chosen(const char *language, const char *image, const char *name,
		      const char *version)
{
	if (choose(language, image) < 0)
		fail_msg("%s (%s)", err.text, err.hint);
	assert_string_equal(chosen.name, name);
	assert_int_equal(chosen.image == NULL, strcmp(name, IMAGE_HOST) == 0);
	if (language)
		assert_string_equal(runtime.version, version);
}

static void is_refused(const char *language, const char *image, enum cay_code code,
		       const char *text, const char *hint)
{
	assert_int_equal(choose(language, image), -1);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, text) || !strstr(err.hint, hint))
		fail_msg("%s (%s)", err.text, err.hint);
}

static void put_pythons(void)
{
	image_put(store, PYTHON_312, image_id('a'), "python", "3.12.1",
		  "/usr/local/bin/python3.12");
	image_put(store, PYTHON_310, image_id('b'), "python", "3.10.9",
		  "/usr/local/bin/python3.10");
}

static void an_explicit_image_is_what_there_is(void **state)
{
	(void)state;
	put_pythons();
	is_chosen("python", "python:3.10-slim", PYTHON_310, "3.10.9");
	assert_string_equal(runtime.program, "/usr/local/bin/python3.10");
	assert_string_equal(runtime.image, PYTHON_310);
	is_chosen(NULL, "python:3.10-slim", PYTHON_310, "");
	is_chosen("python@3.12", "aaaaaaaaaaaa", "aaaaaaaaaaaa", "3.12.1");
	is_chosen(NULL, NULL, IMAGE_HOST, "");
	is_chosen(NULL, "host", IMAGE_HOST, "");
	is_refused("python@3.12", "python:3.10-slim", CAY_E_RUNTIME,
		   "python 3.12 is not in the image " PYTHON_310 "; there is 3.10.9",
		   "name an image that has it");
	is_refused("ruby", "python:3.10-slim", CAY_E_RUNTIME,
		   "the image " PYTHON_310 " has no ruby; it has python 3.10.9", "cay run --image");
	is_refused("python", "python:3.9-slim", CAY_E_IMAGE,
		   "the image python:3.9-slim is not here", "cay image pull python:3.9-slim");
	is_refused("python", "UPPER/case", CAY_E_INVALID, "", "");
}

static void default_images_come_before_the_host(void **state)
{
	(void)state;
	is_refused("python@3.10", NULL, CAY_E_RUNTIME, "python 3.10 is not here",
		   "cay image pull python:3.10-slim, ");
	put_pythons();
	is_chosen("python@3.10", NULL, PYTHON_310, "3.10.9");
	/* 3.12 is preferred. */
	is_chosen("python", NULL, PYTHON_312, "3.12.1");
	assert_string_equal(runtime.default_reason, "preferred");
	assert_string_equal(runtime.source, RUNTIME_STORE);
	is_refused("python@3.6.3", NULL, CAY_E_RUNTIME, "python 3.6.3 is not here",
		   "cay image pull python:3.6.3-slim");
	/* Who says host gets no image. */
	is_refused("python@3.10", "host", CAY_E_RUNTIME, "python 3.10 is not here", "");
	spec.engine = ENGINE_DIRECT;
	is_refused("python@3.10", NULL, CAY_E_RUNTIME, "python 3.10 is not here", "");
}

static void other_images_are_none_of_a_language(void **state)
{
	(void)state;
	image_put(store, "docker.io/library/python:3.10-slim-x", image_id('a'), "python", "3.10.1",
		  "/bin/python");
	image_put(store, "docker.io/other/python:3.10-slim", image_id('b'), "python", "3.10.1",
		  "/bin/python");
	image_put(store, "ghcr.io/library/python:3.10-slim", image_id('c'), "python", "3.10.1",
		  "/bin/python");
	/* The distribution's own, beside what the image is named after. */
	image_put(store, PYTHON_310, image_id('d'), "python", "3.9.2", "/usr/bin/python3");
	is_refused("python@3.10", NULL, CAY_E_RUNTIME, "python 3.10 is not here", "");
	is_refused("python@3.9", NULL, CAY_E_RUNTIME, "python 3.9 is not here", "");
}

static void settings_come_first(void **state)
{
	(void)state;
	put_pythons();
	image_put(store, "docker.io/library/mine:latest", image_id('c'), "python", "3.12.0",
		  "/opt/python");
	configure("[language python]\nimage = mine\n");
	is_chosen("python@3.12", NULL, "docker.io/library/mine:latest", "3.12.0");
	assert_string_equal(runtime.source, "F:2");
	is_chosen("python", NULL, "docker.io/library/mine:latest", "3.12.0");
	configure("[language python]\nprefer = 3.10\n");
	is_chosen("python", NULL, PYTHON_310, "3.10.9");
	configure("[language python]\nimage = gone\n");
	is_refused("python", NULL, CAY_E_IMAGE, "F:2: the image gone:latest is not here",
		   "cay image pull gone:latest");
}

static void typescript_runs_in_an_image_of_node(void **state)
{
	(void)state;
	image_put(store, "docker.io/library/node:20-slim", image_id('a'), "typescript", "20.1.0",
		  "/usr/local/bin/node");
	image_put(store, NODE_22, image_id('b'), "typescript", "22.9.0", "/usr/local/bin/node");
	is_chosen("typescript@22", NULL, NODE_22, "22.9.0");
	is_refused("typescript@20", "node:20-slim", CAY_E_RUNTIME,
		   "the image docker.io/library/node:20-slim has no esbuild", "");
}

static void aliases_stand_for_images(void **state)
{
	(void)state;
	put_pythons();
	configure("[images]\nalias = data=python:3.12-slim\n");
	is_chosen("python", "data", PYTHON_312, "3.12.1");
}

static void only_what_is_allowed_is_used(void **state)
{
	(void)state;
	put_pythons();
	configure("[images]\nallow = python:3.12*\n");
	is_chosen("python", "python:3.12-slim", PYTHON_312, "3.12.1");
	is_chosen(NULL, "host", IMAGE_HOST, "");
	is_chosen("python", "aaaaaaaaaaaa", "aaaaaaaaaaaa", "3.12.1");
	is_refused("python", "python:3.10-slim", CAY_E_POLICY,
		   "the image " PYTHON_310 " is not allowed here", "[images] allow");
	is_refused("python", "bbbbbbbbbbbb", CAY_E_POLICY, "not allowed here", "[images] allow");
	/* Nor is it told whether there is such a one. */
	is_refused("python", "secret:1", CAY_E_POLICY, "not allowed here", "[images] allow");
	/* And it is no default. */
	is_refused("python@3.10", NULL, CAY_E_RUNTIME, "python 3.10 is not here", "");
}

static void a_key_has_what_its_bounds_say(void **state)
{
	static const char text[] = "{\"images\":[\"python:3.12-slim\"]}";
	_cleanup_(bounds_done) struct bounds bounds = {0}, host = {0};

	(void)state;
	put_pythons();
	assert_int_equal(bounds_parse(&bounds, text, strlen(text), &err), 0);
	assert_int_equal(bounds_parse(&host, "{\"images\":[\"host\"]}", 19, &err), 0);
	settings.key = &bounds;
	is_chosen("python", NULL, PYTHON_312, "3.12.1");
	is_refused("python", PYTHON_310, CAY_E_POLICY, "the image " PYTHON_310 ": not for this key",
		   "bound images");
	is_refused("sh", NULL, CAY_E_POLICY, "the image host: not for this key", "bound images");
	is_refused(NULL, NULL, CAY_E_POLICY, "the image host: not for this key", "bound images");
	settings.key = &host;
	is_chosen("sh", NULL, IMAGE_HOST, "");
	is_refused("python@3.10", NULL, CAY_E_RUNTIME, "python 3.10 is not here", "");
	/* By an id: as if there were none. */
	is_refused(NULL, "bbbbbbbbbbbb", CAY_E_IMAGE, "the image bbbbbbbbbbbb:latest is not here",
		   "`cay image list`");
	is_refused(NULL, "cccccccccccc", CAY_E_IMAGE, "the image cccccccccccc:latest is not here",
		   "`cay image list`");
	is_refused(NULL, "docker.io/library/host", CAY_E_POLICY, "not for this key", "");
}

static void names_are_matched_however_they_are_written(void **state)
{
	static const struct {
		const char *glob, *reference;
		bool matches;
	} rows[] = {
		{"python:3.12-slim", PYTHON_312, true},
		{PYTHON_312, PYTHON_312, true},
		{"docker.io/library/*", PYTHON_312, true},
		{"python*", PYTHON_312, true},
		{"*", PYTHON_312, true},
		{"python", PYTHON_312, false},
		{"python:3.1?-slim", PYTHON_312, true},
		{"mine", "docker.io/library/mine:latest", true},
		{"me/x:*", "docker.io/me/x:1", true},
		{"ghcr.io/*", "ghcr.io/me/x:1", true},
		/* Docker Hub's, whatever it is called there. */
		{"ghcr.io/*", "docker.io/ghcr.io/x:1", false},
		{"[::1]:5000/x:1", "[::1]:5000/x:1", true},
		{"[::1]:5000/*", "[::1]:5000/me/x:1", true},
		{"[::1]:5000/*", "1:5000/x:1", false},
		{"*", "ghcr.io/me/x:1", true},
		{"ghcr.io/me/*", "ghcr.io/me/x/y:1", true},
		{"GHCR.io/*", "ghcr.io/me/x:1", true},
		{"*.example.org/*", "a.example.org/me/x:1", true},
		{"*.example.org/*", "evil.example/a.example.org/x:1", false},
		{"localhost/*", "localhost/x:1", true},
		/* Who has a host of such a name is not who was meant. */
		{"python:*", "python:443/evil/x:1", false},
		{"ruby*", "ruby.evil.example/x:1", false},
		{"me*", "me.evil.example/x:1", false},
		{"me/*", "me.evil.example/me/x:1", false},
		{"ghcr.io/*", "ghcr.io.evil.example/x:1", false},
		{"ghcr.io/*", "ghcr.io:444/x:1", false},
		{"ghcr.io*", "ghcr.io.evil.example/x:1", false},
		{"*/*", "ghcr.io/x:1", false},
		{"*/*", "docker.io/me/x:1", true},
		{"py*", "docker.io/pyrate/x:1", false},
		{"me/*", "docker.io/me/x/y:1", false},
		{"host", "docker.io/library/host:latest", true},
		{"\\*", PYTHON_312, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (image_name_matches(rows[i].glob, rows[i].reference) != rows[i].matches)
			fail_msg("%s, %s", rows[i].glob, rows[i].reference);
}

static void languages_have_images(void **state)
{
	char name[RUNTIME_IMAGE_SIZE];
	struct image_ref ref;

	(void)state;
	for (size_t i = 0; i < n_languages; i++) {
		runtime_image_name(&languages[i], NULL, name);
		if (languages[i].image) {
			assert_non_null(strstr(languages[i].image, "{version}"));
			assert_true(version_is_request(languages[i].image_version));
			assert_int_equal(image_ref_parse(name, &ref, &err), 0);
		}
	}
	runtime_image_name(language_find("javascript"), "22", name);
	assert_string_equal(name, "node:22-slim");
	/* Its compiler comes with it; that of TypeScript does not. */
	runtime_image_name(language_find("java"), NULL, name);
	assert_string_equal(name, "eclipse-temurin:21-jdk");
	runtime_image_name(language_find("typescript"), "22", name);
	assert_string_equal(name, "");
	runtime_image_name(language_find("sh"), "22", name);
	assert_string_equal(name, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_explicit_image_is_what_there_is),
		TEST(default_images_come_before_the_host),
		TEST(other_images_are_none_of_a_language),
		TEST(settings_come_first),
		TEST(typescript_runs_in_an_image_of_node),
		TEST(aliases_stand_for_images),
		TEST(only_what_is_allowed_is_used),
		TEST(a_key_has_what_its_bounds_say),
		cmocka_unit_test(names_are_matched_however_they_are_written),
		cmocka_unit_test(languages_have_images),
	};

	return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
