/* Sandboxes, runs, audit log and idempotency. */
#include "store_support.h"

/* Sandboxes */

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

static void answers_are_bounded_together(void **state)
{
	enum { FIT = IDEMPOTENCY_OWNER_BYTES / IDEMPOTENCY_BODY_MAX };
	_cleanup_(store_closep) struct store *s = open_store();
	char *body = calloc(1, IDEMPOTENCY_BODY_MAX);
	struct idempotency_answer a;
	char key[16];

	(void)state;
	assert_non_null(body);
	for (int i = 0; i < FIT + 10; i++) {
		(void)snprintf(key, sizeof(key), "key %d", i);
		assert_int_equal(begin(s, &alice, key, "x", NOW, &a), IDEMPOTENCY_NEW);
		OK(store_idempotency_done(s, &alice, key, 200, body, IDEMPOTENCY_BODY_MAX, &err));
	}
	assert_int_equal(begin(s, &bob, "k", "x", NOW, &a), IDEMPOTENCY_NEW);
	OK(store_flush(s, &err));
	assert_int_equal(ask("SELECT sum(length(body)) FROM idempotency"), IDEMPOTENCY_OWNER_BYTES);
	assert_int_equal(begin(s, &alice, "key 0", "x", NOW, &a), IDEMPOTENCY_NEW);
	assert_int_equal(begin(s, &alice, key, "x", NOW, &a), IDEMPOTENCY_DONE);
	free(a.body);
	free(body);
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
	int64_t newest = ask("PRAGMA user_version");
	bool more;

	(void)state;
	put_results(s, runs, 3, "{\"o\":\"äöü\"}");
	store_close(s);
	for (const char *const *undo =
		     (const char *const[]){"DROP TABLE live_settings", "DROP TABLE workspaces",
					   "DROP TRIGGER results_added",
					   "DROP TRIGGER results_changed",
					   "DROP TRIGGER results_removed", "DROP TABLE results",
					   "DROP INDEX runs_results",
					   "ALTER TABLE runs DROP COLUMN "
					   "result_bytes",
					   "PRAGMA user_version = 2", NULL};
	     *undo; undo++)
		(void)ask(*undo);
	s = open_store();
	assert_int_equal(ask("PRAGMA user_version"), newest);
	assert_int_equal(ask("SELECT bytes FROM results"), 3 * 14);
	OK(store_results_trim(s, 14, &more, &err));
	check_kept(s, &runs[1], false);
	check_kept(s, &runs[2], true);
	store_close(s);
	assert_true(is_whole());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		TEST(answers_are_bounded_together),
		TEST(old_results_make_room),
		TEST(results_are_dropped_in_steps),
		TEST(results_of_before_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
