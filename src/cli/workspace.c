#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/remote_request.h"
#include "cli/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX      3
#define PATH_BYTES_MAX 4096

struct workspace_ask {
	const char *size;
	bool json;
};

static const struct option_row rows[] = {
	{0, "size", "SIZE", "of create: what it can hold ([workspaces] size)",
	 OPTION_STORE(struct workspace_ask, size)},
	{0, "json", NULL, "of list: as one JSON object", OPTION_STORE(struct workspace_ask, json)},
};

/* "/v1/workspaces/NAME" and rest. */
static int make_path(struct buf *path, const char *name, const char *rest, struct cay_error *err)
{
	int r = buf_append_str(path, "/v1/workspaces/");

	if (r == 0)
		r = text_append_encoded(path, name);
	if (r == 0)
		r = buf_append_str(path, rest);
	return r < 0 ? cay_fail(err, CAY_E_TOO_LARGE, -r, "the name of the workspace") : 0;
}

static int ask(struct remote *r, const char *method, const char *name, const char *rest,
	       const struct json *body, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_BYTES_MAX);
	struct remote_ask q = {.method = method, .json = body, .patient = true};

	if (make_path(&path, name, rest, err) < 0)
		return -1;
	q.path = buf_str(&path);
	return remote_json(r, &q, ret, err);
}

static int add_row(struct table *t, const struct json *w, struct cay_error *err)
{
	const struct json *snapshots = json_get(w, "snapshots");
	_cleanup_(buf_done) struct buf names = BUF(64u << 10);
	char size[32], used[24];
	const char *cells[5];
	int r = 0;

	for (size_t i = 0; i < json_len(snapshots) && r == 0; i++)
		r = buf_printf(&names, "%s%s", i ? "," : "",
			       json_str(json_get(json_at(snapshots, i), "name")));
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, -r, "list the snapshots");
	cells[0] = json_str(json_get(w, "name"));
	cells[1] = format_size((uint64_t)json_int(json_get(w, "size")), size, sizeof(size));
	cells[2] = table_age(clock_wall_ms() - json_int(json_get(w, "last_used")), used);
	cells[3] = json_str(json_get(w, "sandbox"));
	cells[4] = buf_str(&names);
	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		if (table_add(t, cells[i], err) < 0)
			return -1;
	return 0;
}

static int list(struct remote *r, const struct workspace_ask *a, struct cay_error *err)
{
	static const char *const title[] = {"NAME", "SIZE", "USED", "BY", "SNAPSHOTS"};
	const struct remote_ask q = {.method = "GET", .path = "/v1/workspaces"};
	_cleanup_(table_done) struct table t = {.columns = ARRAY_LEN(title)};
	_cleanup_(json_freep) struct json *all = NULL;
	const struct json *found;

	if (remote_json(r, &q, &all, err) < 0)
		return -1;
	if (a->json)
		return cli_print_json(take_ptr(&all));
	found = json_get(all, "workspaces");
	for (size_t i = 0; i < ARRAY_LEN(title); i++)
		if (table_add(&t, title[i], err) < 0)
			return -1;
	for (size_t i = 0; i < json_len(found); i++)
		if (add_row(&t, json_at(found, i), err) < 0)
			return -1;
	return table_print(&t, err);
}

static int create(struct remote *r, const struct workspace_ask *a, const char *name,
		  struct cay_error *err)
{
	_cleanup_(json_freep) struct json *body = json_new_object(), *made = NULL;
	const struct remote_ask q = {.method = "POST", .path = "/v1/workspaces", .json = body};

	if (remote_request_str(body, "name", name, "the name", err) < 0 ||
	    (a->size && remote_request_str(body, "size", a->size, "--size", err) < 0))
		return -1;
	return remote_json(r, &q, &made, err);
}

static int put_bytes(void *ctx, const char *data, size_t len, struct cay_error *err)
{
	int n = fd_write_all(*(const int *)ctx, data, len);

	return n < 0 ? cay_fail(err, CAY_E_INVALID, -n, "write the archive") : 0;
}

/* Under another name until it is whole. */
static int download(struct remote *r, const char *name, const char *file, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_BYTES_MAX), draft = BUF(PATH_BYTES_MAX);
	bool out = file && strcmp(file, "-") != 0;
	_cleanup_(fd_closep) int fd = -1;
	struct remote_ask q = {.method = "GET", .patient = true};
	int to = STDOUT_FILENO, n;

	if (!file && isatty(STDOUT_FILENO) == 1)
		return cay_fail(err, CAY_E_INVALID, 0,
				"an archive is nothing for a terminal: name a FILE");
	if (make_path(&path, name, "/archive", err) < 0)
		return -1;
	if (out && buf_printf(&draft, "%s.part", file) < 0)
		return cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "%.256s", file);
	if (out) {
		fd = open(buf_str(&draft), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			  0666);
		if (fd < 0)
			return cay_fail(err, CAY_E_INVALID, errno, "make %.256s", buf_str(&draft));
		to = fd;
	}
	q.path = buf_str(&path);
	n = remote_body(r, &q, put_bytes, &to, err);
	if (n == 0 && out && rename(buf_str(&draft), file) < 0)
		n = cay_fail(err, CAY_E_INVALID, errno, "make %.256s", file);
	if (n < 0 && out)
		(void)unlink(buf_str(&draft));
	return n;
}

/* What is done to one; a second word is the name of a snapshot. */
static const struct {
	const char *name, *method, *rest, *key;
} kinds[] = {
	{"rm", "DELETE", "", NULL},
	{"reset", "POST", "/reset", NULL},
	{"snapshot", "POST", "/snapshots", "name"},
	{"restore", "POST", "/restore", "snapshot"},
};

static int change(struct remote *r, size_t kind, const char *name, const char *snapshot,
		  struct cay_error *err)
{
	_cleanup_(json_freep) struct json *body = NULL, *answer = NULL;
	_cleanup_(buf_done) struct buf rest = BUF(PATH_BYTES_MAX);
	int n = buf_append_str(&rest, kinds[kind].rest);

	if (kinds[kind].key && !snapshot)
		return cay_fail(err, CAY_E_INVALID, 0, "which snapshot?");
	/* Of what is removed it is a part of the path. */
	if (n == 0 && snapshot && !kinds[kind].key) {
		if (strcmp(kinds[kind].name, "rm") != 0)
			return cay_fail(err, CAY_E_INVALID, 0, "%s takes a workspace alone",
					kinds[kind].name);
		n = buf_append_str(&rest, "/snapshots/");
		if (n == 0)
			n = text_append_encoded(&rest, snapshot);
	}
	if (n < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, -n, "the name of the snapshot");
	if (kinds[kind].key) {
		body = json_new_object();
		if (remote_request_str(body, kinds[kind].key, snapshot, "the snapshot", err) < 0)
			return -1;
	}
	return ask(r, kinds[kind].method, name, buf_str(&rest), body, &answer, err);
}

static int carry_out(const struct workspace_ask *a, const char *const words[WORDS_MAX],
		     struct cay_error *err)
{
	const char *what = words[0] ? words[0] : "";
	bool lists = strcmp(what, "list") == 0, creates = strcmp(what, "create") == 0;
	bool downloads = strcmp(what, "download") == 0;
	_cleanup_(remote_freep) struct remote *r = NULL;
	size_t kind = 0;

	while (kind < ARRAY_LEN(kinds) && strcmp(what, kinds[kind].name) != 0)
		kind++;
	if (!lists && !creates && !downloads && kind == ARRAY_LEN(kinds)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "cay workspace: what about them?");
		return cay_hint(err,
				"cay workspace list|create|rm|reset|snapshot|restore|download");
	}
	if (!lists && !words[1])
		return cay_fail(err, CAY_E_INVALID, 0, "which workspace?");
	if ((lists && words[1]) || (creates && words[2]))
		return cay_fail(err, CAY_E_INVALID, 0, "%s takes no more words", what);
	if (remote_open(&r, err) < 0)
		return -1;
	if (lists)
		return list(r, a, err);
	if (creates)
		return create(r, a, words[1], err);
	return downloads ? download(r, words[1], words[2], err)
			 : change(r, kind, words[1], words[2], err);
}

static int run(int argc, char **argv)
{
	const char *words[WORDS_MAX];
	struct workspace_ask a = {0};
	struct cay_error err;
	int r = verb_parse(&verb_workspace, argc, argv, &a, words, WORDS_MAX, &err);

	if (r == 0)
		r = carry_out(&a, words, &err);
	else if (r == 1)
		r = 0;
	return r < 0 ? cli_error(&err, a.json) : r;
}

const struct verb verb_workspace = {
	.name = "workspace",
	.summary = "workspaces that outlive their sandboxes",
	.usage = "list | create NAME | rm|snapshot|restore NAME [SNAPSHOT]",
	.about = "A workspace with a name is kept by the daemon, and is one sandbox's at a time:\n"
		 "cay create --workspace-name NAME. rm removes it, or one of its snapshots; reset\n"
		 "empties it; snapshot keeps it as it is, and restore brings that back; download\n"
		 "NAME [FILE] is a tar archive of it.\n",
	.examples = "  cay workspace create --size 2g project\n"
		    "  cay workspace snapshot project before\n"
		    "  cay workspace restore project before\n",
	.argument = "list|create|rm|reset|snapshot|restore|download",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
