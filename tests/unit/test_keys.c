/* Owners and keys. */
#include "store_support.h"

/* Owners */

static void owners_are_text(void **state)
{
	static const char *const bad[] = {"",
					  "uid:",
					  "uid:-1",
					  "uid:4294967296",
					  "key_",
					  "key_0123456789abcdeU",
					  "run_0123456789abcdef",
					  "key_0123456789abcdef0000000000",
					  "root"};
	char text[OWNER_SIZE];
	struct owner o;

	(void)state;
	assert_string_equal(owner_text(&alice, text), "uid:1000");
	assert_int_equal(owner_parse(text, &o), 0);
	assert_true(owner_is(&o, &alice) && !owner_is(&o, &bob) && !owner_is(&o, &keyed));
	assert_string_equal(owner_text(&keyed, text), keyed.key);
	assert_int_equal(owner_parse(text, &o), 0);
	assert_true(owner_is(&o, &keyed));
	assert_int_equal(owner_parse("uid:4294967295", &o), 0);
	assert_int_equal(o.uid, UINT32_MAX);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(owner_parse(bad[i], &o), -EINVAL);
}

/* Keys */

static void keys_are_random(void **state)
{
	char a[KEY_SIZE], b[KEY_SIZE], shown[KEY_SHOWN_SIZE];
	struct hash ha, hb;

	(void)state;
	OK(key_make(a, &err));
	OK(key_make(b, &err));
	assert_int_equal(strlen(a), 47);
	assert_true(key_ok(a) && key_ok(b) && strcmp(a, b) != 0);
	key_shown(a, shown);
	assert_int_equal(strlen(shown), 8);
	assert_int_equal(strncmp(a, shown, 8), 0);
	OK(key_hash(a, &ha, &err));
	OK(key_hash(b, &hb, &err));
	assert_true(hash_is(&ha, &ha) && !hash_is(&ha, &hb));
	a[46] = '\0';
	assert_false(key_ok(a));
	a[46] = '+';
	assert_false(key_ok(a));
	assert_false(key_ok(""));
	assert_false(key_ok("cay_"));
	key_wipe(b);
	assert_int_equal(b[0], 0);
	OK(hash_make("abc", 3, &ha, &err));
	assert_memory_equal(ha.bytes, "\xba\x78\x16\xbf\x8f\x01\xcf\xea", 8);
}

static void keys_open_doors(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct key_record made, found;
	char key[KEY_SIZE], other[KEY_SIZE];

	(void)state;
	make_key(s, "ci", &made, key);
	assert_true(id_ok("key", made.id));
	OK(store_key_find(s, key, &found, &err));
	assert_string_equal(found.id, made.id);
	assert_string_equal(found.name, "ci");
	assert_string_equal(found.tier, "standard");
	assert_string_equal(found.bounds, "{}");
	assert_string_equal(found.shown, made.shown);
	assert_int_equal(found.quotas.parallel_runs, 1);
	assert_int_equal(found.quotas.cpu_seconds_per_day, 4);
	assert_int_equal(found.created_ms, NOW);
	assert_int_equal(found.revoked_ms, 0);
	key_record_done(&found);
	OK(key_make(other, &err));
	FAILS(store_key_find(s, other, &found, &err), CAY_E_UNAUTHORIZED, "not known");
	FAILS(store_key_find(s, "cay_", &found, &err), CAY_E_UNAUTHORIZED, "not known");
	FAILS(store_key_find(s, "", &found, &err), CAY_E_UNAUTHORIZED, "not known");
	OK(store_key_revoke(s, made.id, NOW + 1, &err));
	FAILS(store_key_find(s, key, &found, &err), CAY_E_UNAUTHORIZED, "not known");
	FAILS(store_key_revoke(s, made.id, NOW + 1, &err), CAY_E_NOT_FOUND, made.id);
	assert_int_equal(ask("SELECT revoked FROM keys"), NOW + 1);
	FAILS(store_key_revoke(s, "key_no", NOW, &err), CAY_E_NOT_FOUND, "key_no");
}

static void key_names_are_unique_among_the_living(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct key_record a, b = {.name = "a"};
	char key[KEY_SIZE];

	(void)state;
	make_key(s, "a", &a, key);
	FAILS(store_key_create(s, &b, key, NOW, &err), CAY_E_CONFLICT, "called 'a'");
	assert_int_equal(key[0], 0);
	OK(store_key_revoke(s, a.id, NOW, &err));
	OK(store_key_create(s, &b, key, NOW, &err));
	b.name[0] = '\0';
	FAILS(store_key_create(s, &b, key, NOW, &err), CAY_E_INVALID, "name");
}

static void keys_are_touched_now_and_then(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct key_record k, found;
	char key[KEY_SIZE];

	(void)state;
	make_key(s, "a", &k, key);
	OK(store_key_touch(s, &k, NOW + 5, &err));
	assert_true(store_is_dirty(s));
	OK(store_flush(s, &err));
	OK(store_key_touch(s, &k, NOW + 10, &err));
	assert_false(store_is_dirty(s));
	OK(store_key_find(s, key, &found, &err));
	assert_int_equal(found.last_used_ms, NOW + 5);
	key_record_done(&found);
}

/* Neither the file nor what lies beside it has a key in it. */
static void keys_are_not_kept(void **state)
{
	struct store *s = open_store();
	struct key_record k;
	char key[KEY_SIZE];

	(void)state;
	make_key(s, "a", &k, key);
	for (int i = 0; i < 2; i++) {
		_cleanup_(buf_done) struct buf all = BUF(1 << 24);
		char wal[128];

		(void)snprintf(wal, sizeof(wal), "%s%s", file, i ? "-wal" : "");
		assert_int_equal(fd_read_file_at(AT_FDCWD, wal, &all), 0);
		assert_null(memmem(all.data, all.len, key + 8, KEY_CHARS - 4));
		if (i == 1) /* the control: its beginning is */
			assert_non_null(memmem(all.data, all.len, k.shown, 8));
	}
	store_close(s);
}

static void keys_are_listed(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct page page = {.limit = 2};
	struct key_record k;
	char key[KEY_SIZE], name[8];
	int n = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "k%d", i);
		make_key(s, name, &k, key);
	}
	OK(store_keys_list(s, false, &page, count_key, &n, &err));
	assert_int_equal(n, 2);
	OK(store_keys_list(s, false, &page, count_key, &n, &err));
	OK(store_keys_list(s, false, &page, count_key, &n, &err));
	assert_int_equal(n, 5);
	assert_string_equal(page.cursor, "");
	OK(store_key_revoke(s, k.id, NOW, &err));
	page = (struct page){0};
	n = 0;
	OK(store_keys_list(s, false, &page, count_key, &n, &err));
	assert_int_equal(n, 4);
	OK(store_keys_list(s, true, &page, count_key, &n, &err));
	assert_int_equal(n, 9);
}

static void keys_are_asked_for(void **state)
{
	static const char all[] = "{\"name\":\"ci\",\"tier\":\"standard\",\"quotas\":{"
				  "\"parallel_runs\":4,\"runs_per_minute\":60,"
				  "\"live_sandboxes\":0,\"cpu_seconds_per_day\":3600},"
				  "\"bounds\":{\"mounts\":\"none\"}}";
	_cleanup_(store_closep) struct store *s = open_store();
	struct key_record k, found;
	char key[KEY_SIZE];

	(void)state;
	OK(key_request_parse(&k, all, strlen(all), &err));
	OK(store_key_create(s, &k, key, NOW, &err));
	key_record_done(&k);
	OK(store_key_find(s, key, &found, &err));
	assert_string_equal(found.name, "ci");
	assert_string_equal(found.tier, "standard");
	assert_string_equal(found.bounds, "{\"mounts\":\"none\"}\n");
	assert_int_equal(found.quotas.parallel_runs, 4);
	assert_int_equal(found.quotas.runs_per_minute, 60);
	assert_int_equal(found.quotas.live_sandboxes, 0);
	assert_int_equal(found.quotas.cpu_seconds_per_day, 3600);
	key_record_done(&found);
	OK(key_request_parse(&k, "{\"name\":\"a\"}", 12, &err));
	assert_string_equal(k.tier, "sandbox");
	assert_null(k.bounds);
}

static void wrong_keys_are_not_asked_for(void **state)
{
	static const char *const bad[][2] = {
		{"", "the request: not JSON"},
		{"[]", "the request: expected an object"},
		{"{}", "name: is missing"},
		{"{\"name\":\"\"}", "name: can't be a name"},
		{"{\"name\":1}", "name: expected a string"},
		{"{\"name\":\"a\",\"admin\":true}", "admin: no field is called so"},
		{"{\"name\":\"a\",\"tier\":\"root\"}", "tier: no such tier"},
		{"{\"name\":\"a\",\"quotas\":{\"parallel_runs\":-1}}",
		 "quotas.parallel_runs: expected a number from 0"},
		{"{\"name\":\"a\",\"quotas\":{\"parallel_runs\":1.5}}",
		 "quotas.parallel_runs: expected a whole number"},
		{"{\"name\":\"a\",\"quotas\":{\"runs\":1}}", "quotas.runs: no field"},
		{"{\"name\":\"a\",\"bounds\":{\"mounts\":1}}", "bounds.mounts: expected a string"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cay_error err = {0};
		struct key_record k;

		assert_int_equal(key_request_parse(&k, bad[i][0], strlen(bad[i][0]), &err), -1);
		if (err.code != CAY_E_INVALID ||
		    strncmp(err.text, bad[i][1], strlen(bad[i][1])) != 0)
			fail_msg("%s: %s", bad[i][0], err.text);
		key_record_done(&k);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_are_text),
		cmocka_unit_test(keys_are_random),
		TEST(keys_open_doors),
		TEST(key_names_are_unique_among_the_living),
		TEST(keys_are_touched_now_and_then),
		TEST(keys_are_not_kept),
		TEST(keys_are_listed),
		TEST(keys_are_asked_for),
		cmocka_unit_test(wrong_keys_are_not_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
