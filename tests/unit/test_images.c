/* Records and names of images: written, read, found. */
#include "image_support.h"

#include "base/json.h"

#include <errno.h>

static char store[PATH_MAX];

static int make_store(void **state)
{
	(void)state;
	image_store_make(store);
	return 0;
}

static int remove_store(void **state)
{
	(void)state;
	image_store_remove(store);
	return 0;
}

static const char whole[] =
	"{\"id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\","
	"\"manifest\":\"\",\"names\":[\"a\"],"
	"\"layers\":[\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"],"
	"\"env\":[\"A=1\"],\"entrypoint\":[\"/bin/x\",\"-y\"],\"cmd\":[],\"workdir\":\"/app\","
	"\"user\":\"web\",\"home\":\"/home/web\",\"uid\":33,\"gid\":65535,\"os\":\"linux\","
	"\"architecture\":\"amd64\",\"created\":\"2024-01-02T03:04:05Z\",\"one_id\":true,"
	"\"size_bytes\":5000000000,\"root_bytes\":4096,"
	"\"runtimes\":[{\"language\":\"python\",\"version\":\"3.12.1\","
	"\"program\":\"/usr/local/bin/python3\"},{\"language\":\"typescript\",\"version\":\"20.1.0\","
	"\"program\":\"/usr/bin/node\",\"tool\":\"/usr/bin/esbuild\"}]}\n";

static void a_record_is_the_same_after_a_round(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF(RECORD_MAX_BYTES);
	_cleanup_(image_done) struct image image;
	_cleanup_(json_freep) struct json *j = NULL;
	struct cay_error err = {0};

	(void)state;
	if (record_parse(whole, strlen(whole), &image, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(image.id, image_id('a'));
	assert_string_equal(image.layers.items[0], image_id('b'));
	assert_int_equal(image.entrypoint.len, 2);
	assert_string_equal(image.workdir, "/app");
	assert_int_equal(image.gid, 65535);
	assert_true(image.one_id);
	assert_true(image.size_bytes == 5000000000);
	assert_int_equal(image.root_bytes, 4096);
	assert_int_equal(image.n_runtimes, 2);
	assert_null(image.runtimes[0].tool);
	assert_string_equal(image.runtimes[1].tool, "/usr/bin/esbuild");
	assert_int_equal(record_json(&image, &j), 0);
	assert_int_equal(json_text(j, &text), 0);
	assert_string_equal(buf_str(&text), whole);
}

static void wrong_records_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{"", "not JSON"},
		{"{}", "lacks its id"},
		{"{\"id\":\"abc\"}", "id: no SHA-256"},
		{"{\"id\":\"\"}", "id: no SHA-256"},
		{"{\"manifest\":\"AB\"}", "manifest: no SHA-256"},
		{"{\"layers\":[\"../x\"]}", "layers: no list of SHA-256"},
		{"{\"workdir\":\"app\"}", "workdir: no absolute path"},
		{"{\"home\":\"/a/../b\"}", "home: no absolute path"},
		{"{\"uid\":65536}", "uid: no id that an image can have"},
		{"{\"gid\":-1}", "gid: no id that an image can have"},
		{"{\"size_bytes\":-1}", "size_bytes: below 0"},
		{"{\"size_bytes\":1.5}", "size_bytes: expected a whole number"},
		{"{\"user\":null}", "user: expected a string"},
		{"{\"env\":[1]}", "env[0]: expected a string"},
		{"{\"runtimes\":{}}", "runtimes: expected an array"},
		{"{\"runtimes\":[{\"language\":\"python\"}]}",
		 "runtimes[0]: lacks a language or program"},
		{"{\"runtimes\":[{\"program\":\"python\"}]}",
		 "runtimes[0].program: no absolute path"},
		{"{\"runtimes\":[{\"version\":\"x\"}]}", "runtimes[0].version: no version"},
		{"{\"runtimes\":[{\"language\":\"a-language-of-16\"}]}",
		 "runtimes[0].language: too long"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(image_done) struct image image;
		struct cay_error err = {0};

		assert_int_equal(record_parse(bad[i][0], strlen(bad[i][0]), &image, &err), -1);
		assert_int_equal(err.code, CAY_E_INTERNAL);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], err.text);
	}
}

/* Another cay of the same store may know more. */
static void what_is_unknown_is_passed_over(void **state)
{
	_cleanup_(image_done) struct image image;
	struct cay_error err = {0};
	char text[512];

	(void)state;
	(void)snprintf(text, sizeof(text),
		       "{\"id\":\"%s\",\"colour\":1,\"runtimes\":[{\"language\":\"python\","
		       "\"program\":\"/bin/python\",\"size\":[]}]}",
		       image_id('a'));
	if (record_parse(text, strlen(text), &image, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(image.runtimes[0].program, "/bin/python");
}

static void names_are_file_names(void **state)
{
	static const char *const pairs[][2] = {
		{PYTHON_312, "docker.io%2Flibrary%2Fpython:3.12-slim"},
		{"[::1]:5000/a_b@sha256:00", "%5B::1%5D:5000%2Fa_b@sha256:00"},
	};
	static const char *const bad[] = {"",     ".",     "..",  ".x",  "a%2f",
					  "a%41", "a%00b", "a%2", "a/b", "a%GG"};
	char name[NAME_MAX + 1], reference[NAME_MAX + 1], longest[NAME_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		assert_int_equal(images_encode(pairs[i][0], name), 0);
		assert_string_equal(name, pairs[i][1]);
		assert_int_equal(images_decode(name, reference), 0);
		assert_string_equal(reference, pairs[i][0]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(images_decode(bad[i], reference), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[NAME_MAX + 1] = '\0';
	assert_int_equal(images_encode(longest, name), -ENAMETOOLONG);
	assert_int_equal(images_decode(longest, reference), -ENAMETOOLONG);
}

static void is_found(const char *name, const char *id)
{
	_cleanup_(image_freep) struct image *image = NULL;
	struct cay_error err = {0};

	if (images_find(store, name, &image, &err) < 0)
		fail_msg("%s: %s", name, err.text);
	assert_string_equal(image->id, id);
}

static void is_not_found(const char *name, enum cay_code code, const char *text, const char *hint)
{
	struct image *image = NULL;
	struct cay_error err = {0};

	assert_int_equal(images_find(store, name, &image, &err), -1);
	assert_null(image);
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.text, text));
	assert_string_equal(err.hint, hint);
}

static void images_are_found_by_what_leads_to_them(void **state)
{
	static const char manifest[] =
		"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd";
	char members[160], by_digest[160];

	(void)state;
	(void)snprintf(members, sizeof(members), ",\"manifest\":\"%s\"", manifest);
	image_put_record(store, image_id('a'), members);
	image_put_record(store, image_id('b'), "");
	image_put_name(store, PYTHON_312, image_id('a'));
	image_put_name(store, "docker.io/library/mine:latest", image_id('b'));
	is_found("python:3.12-slim", image_id('a'));
	is_found(PYTHON_312, image_id('a'));
	is_found("mine", image_id('b'));
	is_found("aaaaaaaaaaaa", image_id('a'));
	is_found("sha256:bbbbbbbbbbbbb", image_id('b'));
	(void)snprintf(by_digest, sizeof(by_digest), "python@sha256:%s", manifest);
	is_found(by_digest, image_id('a'));
	is_not_found("python:3.11-slim", CAY_E_IMAGE, "the image python:3.11-slim is not here",
		     "cay image pull python:3.11-slim");
	/* Too short for an id; of a name that nobody has given. */
	is_not_found("aaaaaaaaaaa", CAY_E_IMAGE, "is not here",
		     "cay image pull aaaaaaaaaaa:latest");
	is_not_found("sha256:cccccccccccc", CAY_E_IMAGE, "is not here",
		     "`cay image list` shows those that are");
}

static void an_ambiguous_id_is_none(void **state)
{
	char other[IMAGE_ID_SIZE];

	(void)state;
	(void)snprintf(other, sizeof(other), "%s", image_id('a'));
	other[20] = 'b';
	image_put_record(store, image_id('a'), "");
	image_put_record(store, other, "");
	is_found("aaaaaaaaaaaaaaaaaaaab", other);
	is_not_found("aaaaaaaaaaaa", CAY_E_INVALID, "is the beginning of 2 images' ids", "");
}

static void what_is_damaged_is_said(void **state)
{
	(void)state;
	image_put_name(store, "docker.io/library/none:latest", image_id('c'));
	is_not_found("none", CAY_E_IMAGE, "is not here", "cay image pull none:latest");
	image_put_text(store, "names/docker.io%2Flibrary%2Fbad:latest", "../../etc/passwd\n");
	is_not_found("bad", CAY_E_INTERNAL, "read the image store", "pull or load the image again");
	image_put_record(store, image_id('d'), ",\"uid\":-5");
	image_put_name(store, "docker.io/library/odd:latest", image_id('d'));
	is_not_found("odd", CAY_E_INTERNAL, "uid", "");
	is_not_found("dddddddddddd", CAY_E_INTERNAL, "uid", "");
	/* It is not in the way of others. */
	image_put_record(store, image_id('a'), "");
	is_found("aaaaaaaaaaaa", image_id('a'));
}

static void all_are_listed_newest_first(void **state)
{
	_cleanup_(strv_done) struct strv damaged = {0};
	struct cay_error err = {0};
	struct image **list;
	size_t n;

	(void)state;
	assert_int_equal(images_list("/nowhere", &list, &n, NULL, &err), 0);
	assert_int_equal(n, 0);
	image_list_free(list, n);
	image_put_record(store, image_id('a'), ",\"created\":\"2023-01-01T00:00:00Z\"");
	image_put_record(store, image_id('b'), ",\"created\":\"2024-01-01T00:00:00Z\"");
	image_put_name(store, "docker.io/library/z:1", image_id('a'));
	image_put_name(store, "docker.io/library/a:1", image_id('a'));
	image_put_text(store, "records/staging", "{}");
	image_put_record(store, image_id('c'), ",\"uid\":-5");
	if (images_list(store, &list, &n, &damaged, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(damaged.len, 1);
	assert_non_null(strstr(damaged.items[0], "uid"));
	assert_int_equal(n, 2);
	assert_string_equal(list[0]->id, image_id('b'));
	assert_int_equal(list[0]->names.len, 0);
	assert_int_equal(list[1]->names.len, 2);
	assert_string_equal(list[1]->names.items[0], "docker.io/library/a:1");
	image_list_free(list, n);
}

static void the_store_is_where_settings_say(void **state)
{
	_cleanup_(settings_done) struct settings s;
	struct cay_error err;
	char path[PATH_MAX];

	(void)state;
	settings_init(&s);
	assert_int_equal(setenv("XDG_DATA_HOME", "/data", 1), 0);
	assert_int_equal(images_dir(&s, path), 0);
	assert_string_equal(path, geteuid() == 0 ? "/var/lib/cay-images" : "/data/cay/images");
	assert_int_equal(settings_parse(&s, "F", "[images]\nstore = /srv/images\n", &err), 0);
	assert_int_equal(images_dir(&s, path), 0);
	assert_string_equal(path, "/srv/images");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_the_same_after_a_round),
		cmocka_unit_test(wrong_records_are_refused),
		cmocka_unit_test(what_is_unknown_is_passed_over),
		cmocka_unit_test(names_are_file_names),
		cmocka_unit_test_setup_teardown(images_are_found_by_what_leads_to_them, make_store,
						remove_store),
		cmocka_unit_test_setup_teardown(an_ambiguous_id_is_none, make_store, remove_store),
		cmocka_unit_test_setup_teardown(what_is_damaged_is_said, make_store, remove_store),
		cmocka_unit_test_setup_teardown(all_are_listed_newest_first, make_store,
						remove_store),
		cmocka_unit_test(the_store_is_where_settings_say),
	};

	return cmocka_run_group_tests_name("images", tests, NULL, NULL);
}
