#include "store/store.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "store/audit.h"
#include "store/idempotency.h"
#include "store/key_request.h"
#include "store/keys.h"
#include "store/runs.h"
#include "store/sandboxes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "must_work.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOW 1700000000000ll
#define DAY (24ll * 3600 * 1000)

static char dir[64];
static char file[96];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int make_dir(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/cay-test-store-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(file, sizeof(file), "%s/%s", dir, STORE_FILE);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct store *open_store(void)
{
	struct cay_error err;
	struct store *s = NULL;

	if (store_open(dir, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

#define OK(call)                                             \
	do {                                                 \
		struct cay_error err = {0};                  \
		if ((call) < 0)                              \
			fail_msg("%s: %s", #call, err.text); \
	} while (0)

#define FAILS(call, wanted, part)                                                         \
	do {                                                                              \
		struct cay_error err = {0};                                               \
		assert_int_equal((call), -1);                                             \
		if (err.code != (wanted) || !strstr(err.text, part))                      \
			fail_msg("%s: %s: %s", #call, cay_code_name(err.code), err.text); \
	} while (0)

static const struct owner alice = {.kind = OWNER_UID, .uid = 1000};
static const struct owner bob = {.kind = OWNER_UID, .uid = 1001};
static const struct owner keyed = {.kind = OWNER_KEY, .key = "key_0123456789abcdef"};
static const struct viewer as_alice = {.owner = {.kind = OWNER_UID, .uid = 1000}};
static const struct viewer as_bob = {.owner = {.kind = OWNER_UID, .uid = 1001}};
static const struct viewer as_operator = {.owner = {.kind = OWNER_UID, .uid = 0}, .all = true};

/* Another look at the file, as other programs have it. */
static int64_t ask(const char *sql)
{
	sqlite3_stmt *st;
	sqlite3 *db;
	int64_t v;

	assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
	v = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return v;
}

static bool is_whole(void)
{
	return ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1;
}

static void write_raw(const char *text, size_t len)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, len), 0);
	(void)close(fd);
}

/* Opening */

static void opens_and_opens_again(void **state)
{
	struct store *s = open_store();
	struct stat st;
	char *value;

	(void)state;
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_false(store_is_dirty(s));
	OK(store_setting_get(s, "a", &value, &err));
	assert_null(value);
	OK(store_setting_put(s, "a", "1", &err));
	OK(store_setting_put(s, "a", "2", &err));
	store_close(s);
	s = open_store();
	OK(store_setting_get(s, "a", &value, &err));
	assert_string_equal(value, "2");
	free(value);
	store_close(s);
	store_close(NULL);
	assert_int_equal(ask("PRAGMA user_version"), 3);
	assert_true(is_whole());
}

static void a_newer_file_is_left_alone(void **state)
{
	struct store *s = open_store();

	(void)state;
	store_close(s);
	(void)ask("PRAGMA user_version = 1000");
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, "is of version 1000");
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, file);
	assert_int_equal(ask("PRAGMA user_version"), 1000);
}

static void what_is_no_store_is_refused(void **state)
{
	static char noise[8192];
	struct store *s = NULL;
	char nowhere[96];

	(void)state;
	(void)snprintf(nowhere, sizeof(nowhere), "%s/nowhere", dir);
	memset(noise, 'x', sizeof(noise));
	write_raw(noise, sizeof(noise));
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, "is damaged");
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, file);
	write_raw("", 0);
	(void)ask("CREATE TABLE theirs (a)");
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, "none of cay's");
	assert_int_equal(ask("SELECT count(*) FROM sqlite_schema"), 1);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(symlink(nowhere, file), 0);
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, file);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkdir(file, 0700), 0);
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, file);
	assert_int_equal(rmdir(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0);
	FAILS(store_open(dir, &s, &err), CAY_E_INTERNAL, "is no file");
	assert_int_equal(access(nowhere, F_OK), -1);
	FAILS(store_open(nowhere, &s, &err), CAY_E_INTERNAL, "No such file");
	assert_null(s);
}

/* Pages in the middle are overwritten: an error that names the file, and no crash. */
static void a_damaged_file_is_found_out(void **state)
{
	struct store *s = open_store();
	struct run_record r = {.owner = alice, .under_way = true, .started_ms = NOW};
	char noise[4096];
	struct cay_error damage = {0};
	int fd, result = 0;
	off_t size;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(r.id, sizeof(r.id), "run_%016d", i);
		OK(store_run_put(s, &r, &err));
	}
	store_close(s);
	memset(noise, 0xa5, sizeof(noise));
	fd = open(file, O_RDWR | O_CLOEXEC);
	size = lseek(fd, 0, SEEK_END);
	for (off_t at = 4096; at < size; at += 4096)
		assert_int_equal(pwrite(fd, noise, sizeof(noise), at), sizeof(noise));
	(void)close(fd);
	result = store_open(dir, &s, &damage);
	if (result == 0) {
		result = store_run_put(s, &r, &damage);
		store_close(s);
	}
	assert_int_equal(result, -1);
	assert_non_null(strstr(damage.text, "is damaged"));
	assert_non_null(strstr(damage.text, file));
}

/* In a child; 0 is well. */
static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int open_as_nobody(void)
{
	struct cay_error err = {0};
	struct store *s;

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
		return 1;
	if (store_open(dir, &s, &err) == 0)
		return 2;
	(void)fprintf(stderr, "%s\n", err.text);
	return err.code == CAY_E_INTERNAL && strstr(err.text, file) ? 0 : 3;
}

static void a_place_without_rights(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		assert_int_equal(chmod(dir, 0500), 0);
		FAILS(store_open(dir, &(struct store *){NULL}, &err), CAY_E_INTERNAL, file);
		assert_int_equal(chmod(dir, 0700), 0);
		return;
	}
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(in_child(open_as_nobody), 0); /* can't make it */
	store_close(open_store());
	assert_int_equal(in_child(open_as_nobody), 0); /* can't open it */
	assert_int_equal(chmod(file, 0666), 0);
	assert_int_equal(in_child(open_as_nobody), 0); /* no room for what goes beside it */
}

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

static void make_key(struct store *s, const char *name, struct key_record *ret, char key[KEY_SIZE])
{
	*ret = (struct key_record){.tier = "standard", .quotas = {1, 2, 3, 4}, .bounds = NULL};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	OK(store_key_create(s, ret, key, NOW, &err));
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
	OK(store_key_get(s, made.id, &found, &err));
	assert_int_equal(found.revoked_ms, NOW + 1);
	key_record_done(&found);
	FAILS(store_key_get(s, "key_no", &found, &err), CAY_E_NOT_FOUND, "key_no");
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
	OK(store_key_get(s, k.id, &found, &err));
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

static void count_key(void *ctx, const struct key_record *k)
{
	int *n = ctx;

	assert_string_equal(k->bounds, "{}");
	(*n)++;
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

/* Sandboxes */

static struct sandbox_record make_sandbox(struct store *s, const struct owner *o, const char *name)
{
	struct sandbox_record r = {
		.owner = *o,
		.name = name,
		.spec = "{\"image\":\"host\"}",
		.created_ms = NOW,
		.last_used_ms = NOW,
		.idle_timeout_ms = 3600000,
	};

	assert_int_equal(id_make("sbx", r.id), 0);
	OK(store_sandbox_put(s, &r, &err));
	return r;
}

struct got {
	int n;
	struct sandbox_record last;
	char name[64], reason[64];
};

static void got_sandbox(void *ctx, const struct sandbox_record *r)
{
	struct got *g = ctx;

	g->n++;
	g->last = *r;
	(void)snprintf(g->name, sizeof(g->name), "%s", r->name ? r->name : "");
	(void)snprintf(g->reason, sizeof(g->reason), "%s", r->reason ? r->reason : "");
	assert_string_equal(r->spec, "{\"image\":\"host\"}");
	assert_string_equal(r->labels, "{}");
}

static void sandboxes_are_kept(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct sandbox_record r = make_sandbox(s, &alice, "box");
	struct got g = {0};

	(void)state;
	assert_false(store_is_dirty(s));
	OK(store_sandbox_get(s, &as_alice, r.id, got_sandbox, &g, &err));
	OK(store_sandbox_get(s, &as_alice, "box", got_sandbox, &g, &err));
	assert_int_equal(g.n, 2);
	assert_string_equal(g.last.id, r.id);
	assert_string_equal(g.name, "box");
	assert_int_equal(g.last.state, SANDBOX_LIVE);
	assert_true(owner_is(&g.last.owner, &alice));
	assert_int_equal(g.last.expires_ms, 0);
	OK(store_sandbox_touch(s, r.id, NOW + 7, &err));
	r.name = "other";
	r.expires_ms = NOW + DAY;
	r.last_used_ms = NOW + 9;
	OK(store_sandbox_put(s, &r, &err));
	OK(store_sandbox_get(s, &as_alice, "other", got_sandbox, &g, &err));
	assert_int_equal(g.last.expires_ms, NOW + DAY);
	assert_int_equal(g.last.last_used_ms, NOW + 9);
	FAILS(store_sandbox_get(s, &as_alice, "box", got_sandbox, &g, &err), CAY_E_NOT_FOUND,
	      "box");
	OK(store_sandbox_set_state(s, r.id, SANDBOX_GONE, "deleted", NOW + 10, &err));
	FAILS(store_sandbox_get(s, &as_alice, "other", got_sandbox, &g, &err), CAY_E_NOT_FOUND, "");
	OK(store_sandbox_get(s, &as_alice, r.id, got_sandbox, &g, &err));
	assert_int_equal(g.last.state, SANDBOX_GONE);
	assert_int_equal(g.last.ended_ms, NOW + 10);
	assert_string_equal(g.reason, "deleted");
	/* What has ended stays so. */
	OK(store_sandbox_set_state(s, r.id, SANDBOX_LIVE, NULL, NOW + 11, &err));
	OK(store_sandbox_get(s, &as_alice, r.id, got_sandbox, &g, &err));
	assert_int_equal(g.last.state, SANDBOX_GONE);
}

static void sandbox_names_are_the_owners(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct sandbox_record a = make_sandbox(s, &alice, "box"), b = make_sandbox(s, &bob, "box");
	struct sandbox_record second = a;
	struct got g = {0};

	(void)state;
	(void)make_sandbox(s, &alice, NULL);
	(void)make_sandbox(s, &alice, NULL);
	assert_int_equal(id_make("sbx", second.id), 0);
	FAILS(store_sandbox_put(s, &second, &err), CAY_E_CONFLICT, "called 'box'");
	OK(store_sandbox_set_state(s, a.id, SANDBOX_STOPPED, NULL, NOW, &err));
	FAILS(store_sandbox_put(s, &second, &err), CAY_E_CONFLICT, "called 'box'");
	OK(store_sandbox_set_state(s, a.id, SANDBOX_GONE, "idle", NOW, &err));
	OK(store_sandbox_put(s, &second, &err));
	OK(store_sandbox_get(s, &as_bob, "box", got_sandbox, &g, &err));
	assert_string_equal(g.last.id, b.id);
}

/* ATTACKS 33 */
static void one_never_sees_anothers_sandboxes(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct sandbox_record a = make_sandbox(s, &alice, "hers"),
			      k = make_sandbox(s, &keyed, "its");
	struct viewer as_key = {.owner = keyed}, as_other = {.owner = keyed};
	struct page page = {0};
	struct got g = {0};

	(void)state;
	as_other.owner.key[5] = 'z';
	FAILS(store_sandbox_get(s, &as_bob, a.id, got_sandbox, &g, &err), CAY_E_NOT_FOUND, a.id);
	FAILS(store_sandbox_get(s, &as_bob, "hers", got_sandbox, &g, &err), CAY_E_NOT_FOUND, "");
	FAILS(store_sandbox_get(s, &as_other, k.id, got_sandbox, &g, &err), CAY_E_NOT_FOUND, k.id);
	OK(store_sandboxes_list(s, &as_bob, true, &page, got_sandbox, &g, &err));
	OK(store_sandboxes_list(s, &as_other, true, &page, got_sandbox, &g, &err));
	assert_int_equal(g.n, 0);
	OK(store_sandboxes_list(s, &as_key, true, &page, got_sandbox, &g, &err));
	assert_int_equal(g.n, 1);
	OK(store_sandboxes_list(s, &as_operator, true, &page, got_sandbox, &g, &err));
	assert_int_equal(g.n, 3);
	OK(store_sandbox_get(s, &as_operator, a.id, got_sandbox, &g, &err));
}

static void sandboxes_are_listed(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct sandbox_record r;
	struct page page = {.limit = 3};
	struct got g = {0};
	int pages = 0;

	(void)state;
	for (int i = 0; i < 10; i++)
		r = make_sandbox(s, &alice, NULL);
	OK(store_sandbox_set_state(s, r.id, SANDBOX_GONE, "deleted", NOW, &err));
	do {
		OK(store_sandboxes_list(s, &as_alice, false, &page, got_sandbox, &g, &err));
		pages++;
	} while (page.cursor[0]);
	assert_int_equal(g.n, 9);
	assert_int_equal(pages, 3);
	page.limit = 0;
	OK(store_sandboxes_list(s, &as_alice, true, &page, got_sandbox, &g, &err));
	assert_int_equal(g.n, 19);
}

static void cursors_are_checked(void **state)
{
	static const char *const bad[] = {"x", "1", ".", "-1.a", "99999999999999999999.a", "1e3.a"};
	_cleanup_(store_closep) struct store *s = open_store();
	struct got g = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct page page = {0};

		(void)snprintf(page.cursor, sizeof(page.cursor), "%s", bad[i]);
		FAILS(store_sandboxes_list(s, &as_alice, true, &page, got_sandbox, &g, &err),
		      CAY_E_INVALID, "cursor");
	}
	for (size_t i = 0; i < 2; i++) { /* nothing to find, and no harm */
		struct page page = {.cursor = "1.' OR 1=1 --"};

		OK(store_sandboxes_list(s, &as_alice, true, &page, got_sandbox, &g, &err));
	}
	assert_int_equal(g.n, 0);
}

/* Runs */

static struct run_record make_run(struct store *s, const struct owner *o, int64_t started_ms)
{
	struct run_record r = {
		.owner = *o, .under_way = true, .started_ms = started_ms, .language = "python"};

	assert_int_equal(id_make("run", r.id), 0);
	OK(store_run_put(s, &r, &err));
	return r;
}

struct got_run {
	int n;
	struct run_record last;
	char message[64], result[64], language[16], sandbox[ID_SIZE];
	int64_t previous_ms;
};

#define KEEP(to, from) (void)snprintf(to, sizeof(to), "%s", (from) ? (from) : "")

static void got_run(void *ctx, const struct run_record *r)
{
	struct got_run *g = ctx;

	g->n++;
	g->last = *r;
	KEEP(g->message, r->message);
	KEEP(g->result, r->result);
	KEEP(g->language, r->language);
	KEEP(g->sandbox, r->sandbox);
	if (g->previous_ms)
		assert_true(r->started_ms <= g->previous_ms);
	g->previous_ms = r->started_ms;
}

static void end_run(struct store *s, struct run_record *r)
{
	r->under_way = false;
	r->status = STATUS_FAILED;
	r->exited = true;
	r->exit_code = 3;
	r->message = "exited with 3";
	r->ended_ms = r->started_ms + 20;
	r->wall_ms = 20.5;
	r->cpu_ms = 10.25;
	r->memory_peak_bytes = 1 << 20;
	r->result = "{\"id\":1}";
	OK(store_run_put(s, r, &err));
}

static void runs_are_kept(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r = make_run(s, &alice, NOW);
	struct got_run g = {0};

	(void)state;
	assert_true(store_is_dirty(s));
	OK(store_run_get(s, &as_alice, r.id, got_run, &g, &err));
	assert_true(g.last.under_way && g.last.ended_ms == 0 && !g.last.exited);
	end_run(s, &r);
	OK(store_flush(s, &err));
	assert_false(store_is_dirty(s));
	OK(store_run_get(s, &as_alice, r.id, got_run, &g, &err));
	assert_false(g.last.under_way);
	assert_int_equal(g.last.status, STATUS_FAILED);
	assert_true(g.last.exited);
	assert_int_equal(g.last.exit_code, 3);
	assert_int_equal(g.last.signal, 0);
	assert_string_equal(g.message, "exited with 3");
	assert_string_equal(g.language, "python");
	assert_string_equal(g.result, "{\"id\":1}");
	assert_true(g.last.wall_ms == 20.5 && g.last.cpu_ms == 10.25);
	assert_int_equal(g.last.memory_peak_bytes, 1 << 20);
	assert_int_equal(g.last.ended_ms, NOW + 20);
	FAILS(store_run_get(s, &as_alice, "run_no", got_run, &g, &err), CAY_E_NOT_FOUND, "run_no");
}

static void every_status_comes_back(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r = make_run(s, &alice, NOW);
	struct got_run g = {0};

	(void)state;
	r.under_way = false;
	r.signal = 9;
	for (int i = 0; i < STATUSES; i++) {
		r.status = (enum status)i;
		OK(store_run_put(s, &r, &err));
		OK(store_run_get(s, &as_alice, r.id, got_run, &g, &err));
		assert_int_equal(g.last.status, i);
		assert_int_equal(g.last.signal, 9);
		assert_false(g.last.exited);
	}
}

static void long_results_are_not_kept(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r = make_run(s, &alice, NOW);
	char *text = calloc(1, RUN_RESULT_MAX + 2);
	struct got_run g = {0};

	(void)state;
	assert_non_null(text);
	memset(text, 'x', RUN_RESULT_MAX + 1);
	r.under_way = false;
	r.result = text;
	OK(store_run_put(s, &r, &err));
	OK(store_run_get(s, &as_alice, r.id, got_run, &g, &err));
	assert_string_equal(g.result, "");
	free(text);
}

/* Their ids are promised. */
static void background_runs_are_committed(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r = make_run(s, &alice, NOW);

	(void)state;
	assert_int_equal(ask("SELECT count(*) FROM runs"), 0);
	r.background = true;
	assert_int_equal(id_make("run", r.id), 0);
	OK(store_run_put(s, &r, &err));
	assert_false(store_is_dirty(s));
	assert_int_equal(ask("SELECT count(*) FROM runs"), 2);
}

static void one_never_sees_anothers_runs(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r = make_run(s, &alice, NOW), theirs;
	struct page page = {0};
	struct got_run g = {0};

	(void)state;
	FAILS(store_run_get(s, &as_bob, r.id, got_run, &g, &err), CAY_E_NOT_FOUND, r.id);
	OK(store_runs_list(s, &as_bob, NULL, &page, got_run, &g, &err));
	assert_int_equal(g.n, 0);
	/* Nor can one take it over. */
	theirs = r;
	theirs.owner = bob;
	theirs.under_way = false;
	OK(store_run_put(s, &theirs, &err));
	OK(store_run_get(s, &as_alice, r.id, got_run, &g, &err));
	assert_true(g.last.under_way);
	OK(store_runs_list(s, &as_operator, NULL, &page, got_run, &g, &err));
	assert_int_equal(g.n, 2);
}

static void runs_are_listed(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r;
	struct page page = {.limit = 7};
	struct got_run g = {0};
	double cpu_ms;

	(void)state;
	for (int i = 0; i < 20; i++) {
		r = make_run(s, &alice, NOW + i / 5);
		r.sandbox = i % 2 ? "sbx_0123456789abcdef" : NULL;
		assert_int_equal(id_make("run", r.id), 0);
		end_run(s, &r);
	}
	do
		OK(store_runs_list(s, &as_alice, NULL, &page, got_run, &g, &err));
	while (page.cursor[0]);
	assert_int_equal(g.n, 40);
	assert_string_equal(g.result, ""); /* a list is light */
	g = (struct got_run){0};
	page.limit = PAGE_LIMIT_MAX + 5;
	OK(store_runs_list(s, &as_alice, "sbx_0123456789abcdef", &page, got_run, &g, &err));
	assert_int_equal(g.n, 10);
	assert_string_equal(g.sandbox, "sbx_0123456789abcdef");
	OK(store_runs_cpu_ms(s, &alice, NOW, &cpu_ms, &err));
	assert_true(cpu_ms == 205.0);
	OK(store_runs_cpu_ms(s, &alice, NOW + 3, &cpu_ms, &err));
	assert_true(cpu_ms == 51.25);
	OK(store_runs_cpu_ms(s, &bob, NOW, &cpu_ms, &err));
	assert_true(cpu_ms == 0.0);
}

/* Audit */

static void got_audit(void *ctx, const struct audit_record *r)
{
	int *n = ctx;

	(*n)++;
	assert_string_equal(r->method, "POST");
	assert_int_equal(r->status, 403);
	assert_string_equal(r->code, "policy_denied");
	assert_null(r->target);
	assert_true(strlen(r->path) <= AUDIT_TEXT_MAX);
}

static void calls_are_logged(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	char path[2 * AUDIT_TEXT_MAX];
	struct audit_record r = {.time_ms = NOW,
				 .request_id = "req_1",
				 .actor = alice,
				 .peer = "pid 1",
				 .method = "POST",
				 .path = path,
				 .status = 403,
				 .code = "policy_denied"};
	struct page page = {.limit = 2};
	int n = 0, pages = 0;

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (int i = 0; i < 5; i++)
		OK(store_audit_add(s, &r, &err));
	r.actor = keyed;
	r.peer = NULL;
	OK(store_audit_add(s, &r, &err));
	assert_true(store_is_dirty(s));
	do {
		OK(store_audit_list(s, &as_alice, &(struct audit_filter){0}, &page, got_audit, &n,
				    &err));
		pages++;
	} while (page.cursor[0]);
	assert_int_equal(n, 5);
	assert_int_equal(pages, 3);
	OK(store_audit_list(s, &as_bob, &(struct audit_filter){0}, &page, got_audit, &n, &err));
	assert_int_equal(n, 5);
	page.limit = 0;
	OK(store_audit_list(s, &as_operator, &(struct audit_filter){0}, &page, got_audit, &n,
			    &err));
	assert_int_equal(n, 11);
}

static int count_audit(struct store *s, const struct viewer *v, struct audit_filter f)
{
	struct page page = {0};
	int n = 0;

	OK(store_audit_list(s, v, &f, &page, got_audit, &n, &err));
	return n;
}

static void the_log_can_be_searched(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	static const char *const operations[] = {"run.create", "run.cancel", NULL};
	char actor[OWNER_SIZE];

	(void)state;
	for (int i = 0; i < 6; i++)
		OK(store_audit_add(s,
				   &(struct audit_record){.time_ms = NOW + i,
							  .request_id = "req_1",
							  .actor = i < 4 ? alice : keyed,
							  .peer = "pid 1",
							  .method = "POST",
							  .path = "/",
							  .operation = operations[i % 3],
							  .status = 403,
							  .code = "policy_denied"},
				   &err));
	assert_int_equal(count_audit(s, &as_operator, (struct audit_filter){0}), 6);
	assert_int_equal(
		count_audit(s, &as_operator, (struct audit_filter){.operation = "run.create"}), 2);
	assert_int_equal(count_audit(s, &as_operator, (struct audit_filter){.since_ms = NOW + 4}),
			 2);
	assert_int_equal(count_audit(s, &as_operator, (struct audit_filter){.until_ms = NOW + 4}),
			 4);
	assert_int_equal(count_audit(s, &as_operator,
				     (struct audit_filter){.actor = owner_text(&keyed, actor)}),
			 2);
	/* Whose log it is decides the viewer, not the question. */
	assert_int_equal(count_audit(s, &as_alice,
				     (struct audit_filter){.actor = owner_text(&keyed, actor)}),
			 4);
	assert_int_equal(count_audit(s, &as_bob, (struct audit_filter){.actor = "uid:0"}), 0);
}

/* Idempotency */

static enum idempotency begin(struct store *s, const struct owner *o, const char *key,
			      const char *request, int64_t now_ms, struct idempotency_answer *a)
{
	enum idempotency found = IDEMPOTENCY_NEW;
	struct hash hash;

	OK(hash_make(request, strlen(request), &hash, &err));
	OK(store_idempotency_begin(s, o, key, &hash, now_ms, &found, a, &err));
	return found;
}

static void the_same_call_has_the_same_answer(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct idempotency_answer a;

	(void)state;
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_NEW);
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_PENDING);
	assert_int_equal(begin(s, &alice, "k", "y", NOW, &a), IDEMPOTENCY_OTHER);
	assert_int_equal(begin(s, &bob, "k", "y", NOW, &a), IDEMPOTENCY_NEW);
	OK(store_idempotency_done(s, &alice, "k", 200, "a\0b", 3, &err));
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_DONE);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.len, 3);
	assert_memory_equal(a.body, "a\0b", 4);
	free(a.body);
	assert_int_equal(begin(s, &alice, "k", "y", NOW, &a), IDEMPOTENCY_OTHER);
	/* A day later it is forgotten. */
	assert_int_equal(begin(s, &alice, "k", "y", NOW + DAY + 1, &a), IDEMPOTENCY_NEW);
	OK(store_idempotency_forget(s, &alice, "k", &err));
	assert_int_equal(begin(s, &alice, "k", "z", NOW, &a), IDEMPOTENCY_NEW);
	OK(store_idempotency_done(s, &alice, "k", 204, NULL, 0, &err));
	assert_int_equal(begin(s, &alice, "k", "z", NOW, &a), IDEMPOTENCY_DONE);
	assert_non_null(a.body);
	assert_int_equal(a.len, 0);
	free(a.body);
}

static void answers_are_bounded(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	char *body = calloc(1, IDEMPOTENCY_BODY_MAX + 1), key[IDEMPOTENCY_KEY_MAX + 2];
	struct idempotency_answer a;
	enum idempotency found;
	struct hash hash = {0};

	(void)state;
	assert_non_null(body);
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_NEW);
	OK(store_idempotency_done(s, &alice, "k", 200, body, IDEMPOTENCY_BODY_MAX + 1, &err));
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_DONE);
	assert_null(a.body);
	free(body);
	memset(key, 'k', sizeof(key));
	key[IDEMPOTENCY_KEY_MAX + 1] = '\0';
	FAILS(store_idempotency_begin(s, &alice, key, &hash, NOW, &found, &a, &err), CAY_E_INVALID,
	      "Idempotency-Key");
	FAILS(store_idempotency_begin(s, &alice, "", &hash, NOW, &found, &a, &err), CAY_E_INVALID,
	      "Idempotency-Key");
	for (int i = 0; i < IDEMPOTENCY_OWNER_MAX + 10; i++) {
		(void)snprintf(key, sizeof(key), "key %d", i);
		assert_int_equal(begin(s, &alice, key, "x", NOW, &a), IDEMPOTENCY_NEW);
		OK(store_idempotency_done(s, &alice, key, 200, "", 0, &err));
	}
	OK(store_flush(s, &err));
	assert_int_equal(ask("SELECT count(*) FROM idempotency"), IDEMPOTENCY_OWNER_MAX);
	assert_int_equal(begin(s, &alice, "key 0", "x", NOW, &a), IDEMPOTENCY_NEW);
}

/* After a crash, and in time */

static void what_was_under_way_is_no_more(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record on = make_run(s, &alice, NOW), ended = make_run(s, &alice, NOW);
	struct sandbox_record live = make_sandbox(s, &alice, "live"),
			      kept = make_sandbox(s, &alice, "kept"),
			      gone = make_sandbox(s, &alice, "gone");
	struct store_recovered found;
	struct idempotency_answer a;
	struct got_run g = {0};
	struct got b = {0};

	(void)state;
	end_run(s, &ended);
	kept.persistent = true;
	kept.state = SANDBOX_PAUSED;
	OK(store_sandbox_put(s, &kept, &err));
	OK(store_sandbox_set_state(s, gone.id, SANDBOX_GONE, "deleted", NOW, &err));
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_NEW);
	OK(store_recover(s, NOW + 50, &found, &err));
	assert_int_equal(found.runs, 1);
	assert_int_equal(found.stopped, 1);
	assert_int_equal(found.lost, 1);
	assert_false(store_is_dirty(s));
	OK(store_run_get(s, &as_alice, on.id, got_run, &g, &err));
	assert_int_equal(g.last.status, STATUS_INTERRUPTED);
	assert_int_equal(g.last.ended_ms, NOW + 50);
	assert_string_equal(g.message, "the daemon went away");
	OK(store_run_get(s, &as_alice, ended.id, got_run, &g, &err));
	assert_int_equal(g.last.status, STATUS_FAILED);
	OK(store_sandbox_get(s, &as_alice, live.id, got_sandbox, &b, &err));
	assert_int_equal(b.last.state, SANDBOX_LOST);
	assert_string_equal(b.reason, "the daemon went away");
	OK(store_sandbox_get(s, &as_alice, "kept", got_sandbox, &b, &err));
	assert_int_equal(b.last.state, SANDBOX_STOPPED);
	OK(store_sandbox_get(s, &as_alice, gone.id, got_sandbox, &b, &err));
	assert_int_equal(b.last.state, SANDBOX_GONE);
	assert_int_equal(begin(s, &alice, "k", "x", NOW, &a), IDEMPOTENCY_NEW);
	OK(store_recover(s, NOW + 60, &found, &err));
	assert_int_equal(found.runs + found.stopped + found.lost, 0);
}

static void prune_all(struct store *s, const struct retention *keep, int64_t now_ms)
{
	bool more = true;
	int calls = 0;

	for (; more; calls++)
		OK(store_prune(s, keep, now_ms, &more, &err));
	OK(store_flush(s, &err));
	assert_true(calls < 20);
}

static void old_things_are_forgotten(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct audit_record call = {.actor = alice, .method = "POST", .path = "/"};
	struct sandbox_record box = make_sandbox(s, &alice, NULL);
	struct run_record r;
	struct idempotency_answer a;

	(void)state;
	(void)make_run(s, &alice, NOW - 9 * DAY); /* still under way */
	for (int i = 0; i < 1200; i++) {
		r = make_run(s, &alice, NOW - 1200 + i);
		end_run(s, &r);
		call.time_ms = NOW - 1200 + i;
		OK(store_audit_add(s, &call, &err));
	}
	OK(store_sandbox_set_state(s, box.id, SANDBOX_GONE, "idle", NOW - DAY, &err));
	assert_int_equal(begin(s, &alice, "k", "x", NOW - 2 * DAY, &a), IDEMPOTENCY_NEW);
	prune_all(s, &(struct retention){0}, NOW);
	assert_int_equal(ask("SELECT count(*) FROM runs"), 1201);
	assert_int_equal(ask("SELECT count(*) FROM audit"), 1200);
	assert_int_equal(ask("SELECT count(*) FROM sandboxes"), 1);
	assert_int_equal(ask("SELECT count(*) FROM idempotency"), 0);
	prune_all(s, &(struct retention){.runs_age_ms = 1100, .audit_age_ms = 1100}, NOW);
	assert_int_equal(ask("SELECT count(*) FROM runs"), 1101);
	assert_int_equal(ask("SELECT count(*) FROM audit"), 1100);
	prune_all(s, &(struct retention){.runs_max = 50, .audit_max = 60, .gone_age_ms = 1}, NOW);
	assert_int_equal(ask("SELECT count(*) FROM runs"), 51);
	assert_int_equal(ask("SELECT min(started) FROM runs WHERE status IS NOT NULL"), NOW - 50);
	assert_int_equal(ask("SELECT count(*) FROM audit"), 60);
	assert_int_equal(ask("SELECT count(*) FROM sandboxes"), 0);
}

/* Runs in the background that ended one after the other, each with a result of that size. */
static void put_results(struct store *s, struct run_record *runs, int n, const char *result)
{
	for (int i = 0; i < n; i++) {
		runs[i] = make_run(s, &alice, NOW + i);
		end_run(s, &runs[i]);
		runs[i].background = true;
		runs[i].result = result;
		OK(store_run_put(s, &runs[i], &err));
		OK(store_run_put(s, &runs[i], &err)); /* counted once */
	}
}

static void check_kept(struct store *s, const struct run_record *run, bool kept)
{
	struct got_run g = {0};

	OK(store_run_get(s, &as_alice, run->id, got_run, &g, &err));
	assert_int_equal(g.last.result_kept, kept);
	assert_int_equal(g.last.result != NULL, kept);
	assert_int_equal(g.last.status, STATUS_FAILED); /* the run itself is known */
	assert_string_equal(g.message, "exited with 3");
}

static void old_results_make_room(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record runs[5];
	bool more;

	(void)state;
	put_results(s, runs, 5, "{\"o\":\"äöü\"}"); /* 14 bytes, 11 characters */
	(void)make_run(s, &alice, NOW - 1);         /* has none */
	assert_int_equal(ask("SELECT bytes FROM results"), 5 * 14);
	OK(store_results_trim(s, 5 * 14, &more, &err));
	assert_false(more);
	check_kept(s, &runs[0], true);
	OK(store_results_trim(s, 3 * 14 + 13, &more, &err));
	assert_false(more);
	OK(store_flush(s, &err));
	assert_int_equal(ask("SELECT bytes FROM results"), 3 * 14);
	check_kept(s, &runs[0], false);
	check_kept(s, &runs[1], false);
	check_kept(s, &runs[2], true);
	/* Forgetting a run gives its bytes back as well. */
	prune_all(s, &(struct retention){.runs_max = 1}, NOW);
	assert_int_equal(ask("SELECT bytes FROM results"), 14);
	check_kept(s, &runs[4], true);
	OK(store_results_trim(s, 0, &more, &err));
	OK(store_flush(s, &err));
	assert_int_equal(ask("SELECT bytes FROM results"), 0);
	assert_int_equal(ask("SELECT count(*) FROM runs WHERE status IS NOT NULL"), 1);
}

/* A budget that was lowered: much at once would hold up everybody. */
static void results_are_dropped_in_steps(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r;
	bool more;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		r = make_run(s, &alice, NOW + i);
		end_run(s, &r);
	}
	OK(store_results_trim(s, 1, &more, &err));
	assert_true(more);
	OK(store_results_trim(s, 1, &more, &err));
	assert_false(more);
	OK(store_flush(s, &err));
	assert_int_equal(ask("SELECT bytes FROM results"), 0);
}

/* What version 2 had is counted when it is brought up to date. */
static void results_of_before_are_counted(void **state)
{
	struct store *s = open_store();
	struct run_record runs[3];
	bool more;

	(void)state;
	put_results(s, runs, 3, "{\"o\":\"äöü\"}");
	store_close(s);
	for (const char *const *undo =
		     (const char *const[]){"DROP TRIGGER results_added",
					   "DROP TRIGGER results_changed",
					   "DROP TRIGGER results_removed", "DROP TABLE results",
					   "DROP INDEX runs_results",
					   "ALTER TABLE runs DROP COLUMN "
					   "result_bytes",
					   "PRAGMA user_version = 2", NULL};
	     *undo; undo++)
		(void)ask(*undo);
	s = open_store();
	assert_int_equal(ask("PRAGMA user_version"), 3);
	assert_int_equal(ask("SELECT bytes FROM results"), 3 * 14);
	OK(store_results_trim(s, 14, &more, &err));
	check_kept(s, &runs[1], false);
	check_kept(s, &runs[2], true);
	store_close(s);
	assert_true(is_whole());
}

/* Promises what it writes to fd, until it is killed. */
_noreturn_ static void promise_until_killed(int fd)
{
	struct cay_error err;
	struct store *s;

	if (store_open(dir, &s, &err) < 0)
		_exit(1);
	for (int i = 0;; i++) {
		struct sandbox_record box = {.owner = alice, .created_ms = NOW};
		struct run_record run = {.owner = alice, .under_way = true, .started_ms = NOW};

		if (id_make("run", run.id) < 0 || store_run_put(s, &run, &err) < 0 ||
		    id_make("sbx", box.id) < 0)
			_exit(2);
		box.persistent = i % 2 == 0;
		if (i % 3 == 0 &&
		    (store_sandbox_put(s, &box, &err) < 0 || fd_write_all(fd, box.id, ID_SIZE) < 0))
			_exit(3);
		if (i % 7 == 0 && store_flush(s, &err) < 0)
			_exit(4);
	}
}

static void check_promises(int fd)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct store_recovered found;
	char id[ID_SIZE];

	OK(store_recover(s, NOW, &found, &err));
	while (fd_read_exact(fd, id, sizeof(id)) == 0) {
		sqlite3_stmt *st;
		sqlite3 *db;

		assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_prepare_v2(db, "SELECT 1 FROM sandboxes WHERE id = ?1", -1,
						    &st, NULL),
				 SQLITE_OK);
		(void)sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
		if (sqlite3_step(st) != SQLITE_ROW)
			fail_msg("%s was promised", id);
		(void)sqlite3_finalize(st);
		(void)sqlite3_close(db);
	}
	assert_int_equal(ask("SELECT count(*) FROM runs WHERE status IS NULL"), 0);
	assert_int_equal(ask("SELECT count(*) FROM sandboxes WHERE state = 'live'"), 0);
}

static void promises_outlive_a_kill(void **state)
{
	int64_t kept = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		int ends[2], status;
		pid_t pid;

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		(void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
		pid = fork();
		if (pid == 0)
			promise_until_killed(ends[1]);
		assert_true(pid > 0);
		(void)close(ends[1]);
		(void)usleep((useconds_t)(1000 + i * 700));
		(void)kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		check_promises(ends[0]);
		(void)close(ends[0]);
		assert_true(is_whole());
		assert_true(ask("SELECT count(*) FROM sandboxes") >= kept);
		kept = ask("SELECT count(*) FROM sandboxes");
	}
	assert_true(kept > 100);
}

/* Others */

static void a_reader_beside_it(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store(), *reader = open_store();
	struct run_record r = make_run(s, &alice, NOW);
	struct page page = {0};
	struct got_run g = {0};

	(void)state;
	OK(store_runs_list(reader, &as_alice, NULL, &page, got_run, &g, &err));
	assert_int_equal(g.n, 0); /* gathered: not there yet */
	OK(store_flush(s, &err));
	OK(store_run_get(reader, &as_alice, r.id, got_run, &g, &err));
	assert_int_equal(g.n, 1);
}

/* A look that takes its time sees what was there when it began, and stops nobody. */
static void a_long_look(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	sqlite3_stmt *st;
	sqlite3 *db;

	(void)state;
	(void)make_run(s, &alice, NOW);
	(void)make_run(s, &alice, NOW);
	OK(store_flush(s, &err));
	assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT id FROM runs", -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	for (int i = 0; i < 2000; i++)
		(void)make_run(s, &alice, NOW + i);
	OK(store_flush(s, &err));
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_int_equal(ask("SELECT count(*) FROM runs"), 2002);
}

static void a_writer_beside_it(void **state)
{
	_cleanup_(store_closep) struct store *s = open_store();
	struct run_record r = {.owner = alice, .under_way = true, .started_ms = NOW};
	sqlite3 *db;

	(void)state;
	assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(id_make("run", r.id), 0);
	FAILS(store_run_put(s, &r, &err), CAY_E_INTERNAL, "another process is writing");
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	OK(store_run_put(s, &r, &err));
	OK(store_flush(s, &err));
}

/* Writes until it fails; then with room again. Exit code says which line was wrong. */
static int fill(struct store *s, int (*make_room)(void))
{
	struct sandbox_record box = {.owner = alice, .created_ms = NOW};
	struct cay_error err = {0};
	char last[ID_SIZE] = "";
	char spec[2048];
	int n = 0;

	memset(spec, 'x', sizeof(spec) - 1);
	spec[sizeof(spec) - 1] = '\0';
	box.spec = spec;
	for (; n < 5000; n++) {
		if (id_make("sbx", box.id) < 0)
			return 11;
		if (store_sandbox_put(s, &box, &err) < 0)
			break;
		memcpy(last, box.id, sizeof(last));
	}
	if (n == 5000 || n < 3 || err.code != CAY_E_INTERNAL || !strstr(err.text, file))
		return 12;
	(void)fprintf(stderr, "after %d: %s\n", n, err.text);
	if (make_room() < 0)
		return 13;
	if (store_sandbox_put(s, &box, &err) < 0)
		return 14;
	if (ask("SELECT count(*) FROM sandboxes") != n + 1)
		return 15;
	return is_whole() ? 0 : 16;
}

static int delete_filler(void)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/filler", dir);
	return unlink(path);
}

static int on_full_disk(void)
{
	static char block[256 << 10];
	struct cay_error err;
	struct store *s;
	char path[128];

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", dir, "tmpfs", 0, "size=1m") < 0)
		return 1;
	(void)snprintf(path, sizeof(path), "%s/filler", dir);
	if (fd_create_file_at(AT_FDCWD, path, block, sizeof(block), 0600) < 0)
		return 2;
	return store_open(dir, &s, &err) < 0 ? 3 : fill(s, delete_filler);
}

static int raise_file_size(void)
{
	struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};

	return setrlimit(RLIMIT_FSIZE, &l);
}

static int on_short_files(void)
{
	struct rlimit l = {300 << 10, RLIM_INFINITY};
	struct cay_error err;
	struct store *s;

	(void)signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &l) < 0)
		return 1;
	return store_open(dir, &s, &err) < 0 ? 3 : fill(s, raise_file_size);
}

static void a_full_disk(void **state)
{
	(void)state;
	assert_int_equal(in_child(on_short_files), 0);
}

static void a_full_file_system(void **state)
{
	(void)state;
	if (geteuid() != 0)
		CANT_RUN("not root");
	assert_int_equal(in_child(on_full_disk), 0);
}

/* What was gathered is lost with a full disk, which is said once; then it goes on. */
static int gather_on_short_files(void)
{
	struct run_record r = {.owner = alice, .started_ms = NOW, .result = ""};
	struct rlimit l = {600 << 10, RLIM_INFINITY};
	static char result[100 << 10];
	struct cay_error err = {0};
	struct store *s;
	int i;

	(void)signal(SIGXFSZ, SIG_IGN);
	if (store_open(dir, &s, &err) < 0 || setrlimit(RLIMIT_FSIZE, &l) < 0)
		return 1;
	memset(result, 'x', sizeof(result) - 1);
	r.result = result;
	for (i = 0; i < 100; i++)
		if (id_make("run", r.id) < 0 || store_run_put(s, &r, &err) < 0 ||
		    store_flush(s, &err) < 0)
			break;
	if (i == 0 || i == 100 || !strstr(err.text, file) || store_is_dirty(s))
		return 2;
	(void)fprintf(stderr, "after %d: %s\n", i, err.text);
	if (raise_file_size() < 0 || store_run_put(s, &r, &err) < 0 || store_flush(s, &err) < 0)
		return 3;
	return is_whole() && ask("SELECT count(*) FROM runs") == i + 1 ? 0 : 4;
}

static void a_full_disk_while_gathering(void **state)
{
	(void)state;
	assert_int_equal(in_child(gather_on_short_files), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(opens_and_opens_again),
		TEST(a_newer_file_is_left_alone),
		TEST(what_is_no_store_is_refused),
		TEST(a_damaged_file_is_found_out),
		TEST(a_place_without_rights),
		cmocka_unit_test(owners_are_text),
		cmocka_unit_test(keys_are_random),
		TEST(keys_open_doors),
		TEST(key_names_are_unique_among_the_living),
		TEST(keys_are_touched_now_and_then),
		TEST(keys_are_not_kept),
		TEST(keys_are_listed),
		TEST(keys_are_asked_for),
		cmocka_unit_test(wrong_keys_are_not_asked_for),
		TEST(sandboxes_are_kept),
		TEST(sandbox_names_are_the_owners),
		TEST(one_never_sees_anothers_sandboxes),
		TEST(sandboxes_are_listed),
		TEST(cursors_are_checked),
		TEST(runs_are_kept),
		TEST(every_status_comes_back),
		TEST(long_results_are_not_kept),
		TEST(background_runs_are_committed),
		TEST(one_never_sees_anothers_runs),
		TEST(runs_are_listed),
		TEST(calls_are_logged),
		TEST(the_log_can_be_searched),
		TEST(the_same_call_has_the_same_answer),
		TEST(answers_are_bounded),
		TEST(what_was_under_way_is_no_more),
		TEST(old_things_are_forgotten),
		TEST(old_results_make_room),
		TEST(results_are_dropped_in_steps),
		TEST(results_of_before_are_counted),
		TEST(promises_outlive_a_kill),
		TEST(a_reader_beside_it),
		TEST(a_long_look),
		TEST(a_writer_beside_it),
		TEST(a_full_disk),
		TEST(a_full_file_system),
		TEST(a_full_disk_while_gathering),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
