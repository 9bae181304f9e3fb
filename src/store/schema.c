#include "store/schema.h"

#include "base/attr.h"
#include "store/db.h"

#include <stdio.h>

#define APPLICATION_ID 0x63617931 /* "cay1" */

/*
 * migrations[n] makes version n + 1 of version n. What was released stays as it
 * is: a change is a new row.
 *
 * A run is under way while its status is null. "alive" of a sandbox is a column
 * of its own so that its name can be the only one among its owner's.
 */
static const char *const migrations[] = {
	"CREATE TABLE keys ("
	"  id TEXT PRIMARY KEY, name TEXT NOT NULL, shown TEXT NOT NULL,"
	"  hash BLOB NOT NULL UNIQUE, tier TEXT NOT NULL,"
	"  parallel_runs INTEGER NOT NULL, runs_per_minute INTEGER NOT NULL,"
	"  live_sandboxes INTEGER NOT NULL, cpu_seconds_per_day INTEGER NOT NULL,"
	"  bounds TEXT NOT NULL,"
	"  created INTEGER NOT NULL, revoked INTEGER, last_used INTEGER"
	") STRICT, WITHOUT ROWID;"
	"CREATE UNIQUE INDEX keys_name ON keys (name) WHERE revoked IS NULL;"
	"CREATE INDEX keys_created ON keys (created, id);"

	"CREATE TABLE sandboxes ("
	"  id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT,"
	"  spec TEXT NOT NULL, labels TEXT NOT NULL, state TEXT NOT NULL,"
	"  alive INTEGER NOT NULL, reason TEXT, persistent INTEGER NOT NULL,"
	"  created INTEGER NOT NULL, last_used INTEGER NOT NULL, expires INTEGER,"
	"  idle_timeout INTEGER NOT NULL, ended INTEGER, workspace TEXT"
	") STRICT;"
	"CREATE UNIQUE INDEX sandboxes_name ON sandboxes (owner, name) WHERE alive = 1;"
	"CREATE INDEX sandboxes_owner ON sandboxes (owner, created, id);"
	"CREATE INDEX sandboxes_created ON sandboxes (created, id);"
	"CREATE INDEX sandboxes_ended ON sandboxes (ended) WHERE ended IS NOT NULL;"

	"CREATE TABLE runs ("
	"  id TEXT PRIMARY KEY, owner TEXT NOT NULL, sandbox TEXT, language TEXT,"
	"  status TEXT, exit_code INTEGER, signal INTEGER, message TEXT,"
	"  started INTEGER NOT NULL, ended INTEGER,"
	"  wall_ms REAL NOT NULL, cpu_ms REAL NOT NULL, memory_peak INTEGER NOT NULL,"
	"  background INTEGER NOT NULL, result TEXT"
	") STRICT;"
	"CREATE INDEX runs_owner ON runs (owner, started, id);"
	"CREATE INDEX runs_started ON runs (started, id);"
	"CREATE INDEX runs_under_way ON runs (id) WHERE status IS NULL;"

	"CREATE TABLE audit ("
	"  id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL,"
	"  request_id TEXT NOT NULL, actor TEXT NOT NULL, peer TEXT NOT NULL,"
	"  method TEXT NOT NULL, path TEXT NOT NULL, target TEXT,"
	"  status INTEGER NOT NULL, code TEXT"
	") STRICT;"
	"CREATE INDEX audit_actor ON audit (actor, id);"
	"CREATE INDEX audit_time ON audit (time);"

	"CREATE TABLE settings ("
	"  name TEXT PRIMARY KEY, value TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE idempotency ("
	"  owner TEXT NOT NULL, key TEXT NOT NULL, request BLOB NOT NULL,"
	"  status INTEGER, body BLOB, expires INTEGER NOT NULL,"
	"  PRIMARY KEY (owner, key)"
	") STRICT;"
	"CREATE INDEX idempotency_expires ON idempotency (expires);",

	"ALTER TABLE audit ADD COLUMN operation TEXT NOT NULL DEFAULT '';",

	/* The sum is kept, by the database itself, because counting would read every row. */
	"ALTER TABLE runs ADD COLUMN result_bytes INTEGER NOT NULL DEFAULT 0;"
	"UPDATE runs SET result_bytes = length(CAST(result AS BLOB)) WHERE result IS NOT NULL;"
	"CREATE INDEX runs_results ON runs (started, id) WHERE result_bytes > 0;"
	"CREATE TABLE results (bytes INTEGER NOT NULL) STRICT;"
	"INSERT INTO results SELECT ifnull(sum(result_bytes), 0) FROM runs;"
	"CREATE TRIGGER results_added AFTER INSERT ON runs WHEN new.result_bytes > 0"
	" BEGIN UPDATE results SET bytes = bytes + new.result_bytes; END;"
	"CREATE TRIGGER results_changed AFTER UPDATE ON runs"
	" WHEN new.result_bytes <> old.result_bytes"
	" BEGIN UPDATE results SET bytes = bytes + new.result_bytes - old.result_bytes; END;"
	"CREATE TRIGGER results_removed AFTER DELETE ON runs WHEN old.result_bytes > 0"
	" BEGIN UPDATE results SET bytes = bytes - old.result_bytes; END;",

	"CREATE TABLE live_settings ("
	"  version INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL,"
	"  actor TEXT NOT NULL, restored INTEGER NOT NULL, text TEXT NOT NULL"
	") STRICT;",

	/* A snapshot is a row of its own, with the workspace that it is of. */
	"CREATE TABLE workspaces ("
	"  id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL,"
	"  snapshot_of TEXT NOT NULL, size INTEGER NOT NULL,"
	"  created INTEGER NOT NULL, last_used INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX workspaces_name ON workspaces (owner, snapshot_of, name);"
	"CREATE INDEX workspaces_of ON workspaces (snapshot_of, created, id);",
};

static int read_pragma(struct store *s, const char *sql, int64_t *ret, struct cay_error *err)
{
	_cleanup_(query_end) struct query q;
	int r = query_begin(&q, s, sql, err);

	if (r == 0)
		r = query_step(&q, err);
	*ret = r > 0 ? query_get_int(&q, 0) : 0;
	return r < 0 ? -1 : 0;
}

static int check_ours(struct store *s, int64_t version, struct cay_error *err)
{
	int64_t id, tables;

	if (read_pragma(s, "PRAGMA application_id", &id, err) < 0 ||
	    read_pragma(s, "SELECT count(*) FROM sqlite_schema", &tables, err) < 0)
		return -1;
	if (id != APPLICATION_ID && (tables > 0 || id != 0 || version != 0))
		return cay_fail(err, CAY_E_INTERNAL, 0, "%s is a database, but none of cay's",
				s->file);
	if (version <= (int64_t)ARRAY_LEN(migrations))
		return 0;
	(void)cay_fail(err, CAY_E_INTERNAL, 0,
		       "the database %s is of version %lld, and this cay knows versions up to %zu",
		       s->file, (long long)version, ARRAY_LEN(migrations));
	return cay_hint(err, "a newer cay wrote it: use that one, or another state directory");
}

static int migrate(struct store *s, size_t from, struct cay_error *err)
{
	char mark[96];
	int r = db_begin(s, err);

	if (r < 0)
		return -1;
	(void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %zu",
		       APPLICATION_ID, from + 1);
	r = db_exec(s, migrations[from], err);
	if (r == 0)
		r = db_exec(s, mark, err);
	return db_end(s, r, err);
}

int schema_update(struct store *s, struct cay_error *err)
{
	int64_t version;

	if (read_pragma(s, "PRAGMA user_version", &version, err) < 0 ||
	    check_ours(s, version, err) < 0)
		return -1;
	for (size_t v = (size_t)version; v < ARRAY_LEN(migrations); v++)
		if (migrate(s, v, err) < 0)
			return cay_wrap(err, "bring the database to version %zu", v + 1);
	return 0;
}
