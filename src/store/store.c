#include "store/store.h"

#include "base/attr.h"
#include "base/fd.h"
#include "store/db.h"
#include "store/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS 2000 /* a reader from outside never blocks; a writer may, for a moment */

/* How much one call of store_prune() forgets of each. */
#define PRUNE_STEP 500

/*
 * A commit is in the file when it returns, which outlives the process; WAL with
 * NORMAL leaves it to the kernel when that is on the disk, which is too late for a key.
 */
static const char settings_sql[] =
	"PRAGMA journal_mode = WAL;"
	"PRAGMA synchronous = NORMAL;"
	"PRAGMA foreign_keys = ON;"
	"PRAGMA trusted_schema = OFF;"
	"PRAGMA temp_store = MEMORY;" /* the api may write nowhere else */
	"PRAGMA journal_size_limit = 67108864;";

static void finalize(struct store *s)
{
	for (size_t i = 0; i < s->n_statements; i++)
		(void)sqlite3_finalize(s->statements[i].handle);
	s->n_statements = 0;
}

void store_close(struct store *s)
{
	struct cay_error ignored;

	if (!s)
		return;
	if (s->db)
		(void)store_flush(s, &ignored);
	finalize(s);
	(void)sqlite3_close(s->db);
	free(s->file);
	free(s);
}

void store_closep(struct store **s)
{
	store_close(*s);
}

/* SQLite would make the file readable to all. Its other files follow this one's mode. */
static int make_file(struct store *s, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd =
		open(s->file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "open the database %s", s->file);
	return S_ISREG(st.st_mode)
		       ? 0
		       : cay_fail(err, CAY_E_INTERNAL, 0, "the database %s is no file", s->file);
}

/* The name as it is. */
static int full_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
	(void)vfs;
	return snprintf(ret, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/*
 * SQLite makes every name absolute and looks at each directory on the way, some of which
 * may be none of the api's business: it was put into its directory, and stays there.
 */
static const char *plain_vfs(void)
{
	static sqlite3_vfs plain;

	if (!plain.zName) {
		plain = *sqlite3_vfs_find(NULL);
		plain.zName = "cay";
		plain.pNext = NULL;
		plain.xFullPathname = full_path;
		(void)sqlite3_vfs_register(&plain, 0);
	}
	return plain.zName;
}

static int open_file(struct store *s, struct cay_error *err)
{
	int rc = sqlite3_open_v2(s->file, &s->db,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
					 SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
				 plain_vfs());

	if (rc != SQLITE_OK)
		return db_fail(s, rc, err);
	(void)sqlite3_busy_timeout(s->db, BUSY_MS);
	(void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	(void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	return db_exec(s, settings_sql, err);
}

int store_open(const char *dir, struct store **ret, struct cay_error *err)
{
	_cleanup_(store_closep) struct store *s = calloc(1, sizeof(*s));

	if (!s || asprintf(&s->file, "%s/%s", dir, STORE_FILE) < 0) {
		if (s)
			s->file = NULL;
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "open the database");
	}
	if (make_file(s, err) < 0 || open_file(s, err) < 0 || schema_update(s, err) < 0)
		return -1;
	*ret = take_ptr(&s);
	return 0;
}

static int change(struct store *s, const char *sql, int64_t now_ms, int64_t *ret_changed,
		  struct cay_error *err)
{
	_cleanup_(query_end) struct query q;

	if (query_begin(&q, s, sql, err) < 0)
		return -1;
	query_int(&q, now_ms);
	return query_run(&q, ret_changed, err);
}

int store_recover(struct store *s, int64_t now_ms, struct store_recovered *ret,
		  struct cay_error *err)
{
	int64_t forgotten;
	int r = db_begin(s, err);

	*ret = (struct store_recovered){0};
	if (r < 0)
		return -1;
	r = change(s,
		   "UPDATE runs SET status = 'interrupted', ended = ?1,"
		   " message = 'the daemon went away' WHERE status IS NULL",
		   now_ms, &ret->runs, err);
	if (r == 0)
		r = change(s,
			   "UPDATE sandboxes SET state = 'stopped', last_used = max(last_used, ?1)"
			   " WHERE state IN ('live', 'paused') AND persistent = 1",
			   now_ms, &ret->stopped, err);
	if (r == 0)
		r = change(s,
			   "UPDATE sandboxes SET state = 'lost', alive = 0, ended = ?1,"
			   " reason = 'the daemon went away' WHERE state IN ('live', 'paused')",
			   now_ms, &ret->lost, err);
	/* Nobody will answer these any more: the same request may be tried again. */
	if (r == 0)
		r = change(s, "DELETE FROM idempotency WHERE status IS NULL OR expires < ?1",
			   now_ms, &forgotten, err);
	return db_end(s, r, err);
}

/* Rows up to a value, at most PRUNE_STEP of them. */
static int forget(struct store *s, const char *sql, int64_t value, bool *more,
		  struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	int64_t changed;

	if (query_begin(&q, s, sql, err) < 0)
		return -1;
	query_int(&q, value);
	query_int(&q, PRUNE_STEP);
	if (query_run(&q, &changed, err) < 0)
		return -1;
	*more = *more || changed == PRUNE_STEP;
	return 0;
}

int store_prune(struct store *s, const struct retention *keep, int64_t now_ms, bool *ret_more,
		struct cay_error *err)
{
	const struct {
		bool wanted;
		int64_t value;
		const char *sql;
	} all[] = {
		{keep->runs_age_ms > 0, now_ms - keep->runs_age_ms,
		 "DELETE FROM runs WHERE id IN (SELECT id FROM runs"
		 " WHERE started < ?1 AND status IS NOT NULL ORDER BY started LIMIT ?2)"},
		{keep->runs_max > 0, keep->runs_max,
		 "DELETE FROM runs WHERE status IS NOT NULL AND id IN (SELECT id FROM runs"
		 " ORDER BY started DESC, id DESC LIMIT ?2 OFFSET ?1)"},
		{keep->audit_age_ms > 0, now_ms - keep->audit_age_ms,
		 "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE time < ?1"
		 " ORDER BY time LIMIT ?2)"},
		{keep->audit_max > 0, keep->audit_max,
		 "DELETE FROM audit WHERE id IN (SELECT id FROM audit"
		 " ORDER BY id DESC LIMIT ?2 OFFSET ?1)"},
		{keep->gone_age_ms > 0, now_ms - keep->gone_age_ms,
		 "DELETE FROM sandboxes WHERE id IN (SELECT id FROM sandboxes"
		 " WHERE ended < ?1 LIMIT ?2)"},
		{true, now_ms,
		 "DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency"
		 " WHERE expires < ?1 LIMIT ?2)"},
	};

	*ret_more = false;
	if (db_gather(s, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].wanted && forget(s, all[i].sql, all[i].value, ret_more, err) < 0)
			return -1;
	return 0;
}
