/* The file itself: opening, crashes, others beside us, full disks. */
#include "store_support.h"

/* Opening */

static void opens_and_opens_again(void **state)
{
	struct store *s = open_store();
	struct stat st;
	char key[KEY_SIZE];
	struct key_record k;

	(void)state;
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_false(store_is_dirty(s));
	make_key(s, "a", &k, key);
	store_close(s);
	s = open_store();
	OK(store_key_find(s, key, &k, &err));
	assert_string_equal(k.name, "a");
	key_record_done(&k);
	store_close(s);
	store_close(NULL);
	assert_int_equal(ask("PRAGMA user_version"), 5);
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
		TEST(opens_and_opens_again),       TEST(a_newer_file_is_left_alone),
		TEST(what_is_no_store_is_refused), TEST(a_damaged_file_is_found_out),
		TEST(a_place_without_rights),      TEST(what_was_under_way_is_no_more),
		TEST(old_things_are_forgotten),    TEST(promises_outlive_a_kill),
		TEST(a_reader_beside_it),          TEST(a_long_look),
		TEST(a_writer_beside_it),          TEST(a_full_disk),
		TEST(a_full_file_system),          TEST(a_full_disk_while_gathering),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
