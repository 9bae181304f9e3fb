/*
 * store_support.h: a store in a directory of its own, a look at its file by others' eyes,
 * and things to keep in it.
 */
#pragma once

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

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline int make_dir(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/cay-test-store-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(file, sizeof(file), "%s/%s", dir, STORE_FILE);
	return 0;
}

static inline int remove_dir(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline struct store *open_store(void)
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
static inline int64_t ask(const char *sql)
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

static inline bool is_whole(void)
{
	return ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1;
}

static inline void write_raw(const char *text, size_t len)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, len), 0);
	(void)close(fd);
}

/* In a child; 0 is well. */
static inline int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static inline void make_key(struct store *s, const char *name, struct key_record *ret,
			    char key[KEY_SIZE])
{
	*ret = (struct key_record){.tier = "standard", .quotas = {1, 2, 3, 4}, .bounds = NULL};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	OK(store_key_create(s, ret, key, NOW, &err));
}

static inline void count_key(void *ctx, const struct key_record *k)
{
	int *n = ctx;

	assert_string_equal(k->bounds, "{}");
	(*n)++;
}

static inline struct sandbox_record make_sandbox(struct store *s, const struct owner *o,
						 const char *name)
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

static inline void got_sandbox(void *ctx, const struct sandbox_record *r)
{
	struct got *g = ctx;

	g->n++;
	g->last = *r;
	(void)snprintf(g->name, sizeof(g->name), "%s", r->name ? r->name : "");
	(void)snprintf(g->reason, sizeof(g->reason), "%s", r->reason ? r->reason : "");
	assert_string_equal(r->spec, "{\"image\":\"host\"}");
	assert_string_equal(r->labels, "{}");
}

static inline struct run_record make_run(struct store *s, const struct owner *o, int64_t started_ms)
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

static inline void got_run(void *ctx, const struct run_record *r)
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

static inline void end_run(struct store *s, struct run_record *r)
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

static inline void got_audit(void *ctx, const struct audit_record *r)
{
	int *n = ctx;

	(*n)++;
	assert_string_equal(r->method, "POST");
	assert_int_equal(r->status, 403);
	assert_string_equal(r->code, "policy_denied");
	assert_null(r->target);
	assert_true(strlen(r->path) <= AUDIT_TEXT_MAX);
}

static inline enum idempotency begin(struct store *s, const struct owner *o, const char *key,
				     const char *request, int64_t now_ms,
				     struct idempotency_answer *a)
{
	enum idempotency found = IDEMPOTENCY_NEW;
	struct hash hash;

	OK(hash_make(request, strlen(request), &hash, &err));
	OK(store_idempotency_begin(s, o, key, &hash, now_ms, &found, a, &err));
	return found;
}

static inline void prune_all(struct store *s, const struct retention *keep, int64_t now_ms)
{
	bool more = true;
	int calls = 0;

	for (; more; calls++)
		OK(store_prune(s, keep, now_ms, &more, &err));
	OK(store_flush(s, &err));
	assert_true(calls < 20);
}
