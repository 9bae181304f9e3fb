#include "cli/apply.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"
#include "cli/sparse.h"
#include "core/limits.h"
#include "settings/settings.h"

#include <errno.h>
#include <string.h>

#define PATHS_MAX 256

struct applying {
	bool force;
	const char *to; /* NULL: the directory that is below the overlay */
	struct remote *remote;
	const char *sandbox;
	uint64_t taken; /* bytes, of all files */
	int fd;         /* the file that comes */
	uint64_t at;
};

static const struct option_row rows[] = {
	{'f', "force", NULL, "also over what was changed here meanwhile",
	 OPTION_STORE(struct applying, force)},
	{0, "to", "DIR", "to another directory than the sandbox's own",
	 OPTION_STORE(struct applying, to)},
};

static int on_body(void *ctx, const char *data, size_t len, struct cay_error *err)
{
	struct applying *a = ctx;
	int r = sparse_write(a->fd, &a->at, data, len);

	a->taken += len;
	if (a->taken > FILES_OUT_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %llu bytes", FILES_OUT_BYTES);
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "write") : 0;
}

/* What is no file any more, or lies behind a link by now, is not given out. */
static int fetch(void *ctx, const char *path, int to_fd, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf at = {0};
	struct remote_ask ask = {.method = "GET"};
	struct applying *a = ctx;
	int r;

	if (remote_sandbox_path(&at, a->sandbox, "/workspace/files?path=", err) < 0)
		return -1;
	r = text_append_encoded(&at, path);
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, -r, "the path");
	ask.path = buf_str(&at);
	a->fd = to_fd;
	a->at = 0;
	if (remote_body(a->remote, &ask, on_body, a, err) < 0)
		return -1;
	r = sparse_end(to_fd, a->at);
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "write") : 0;
}

static bool stop(void *ctx)
{
	return remote_signal(((struct applying *)ctx)->remote) != 0;
}

/* Where to; a directory of another machine's is none of ours. */
static const char *find_directory(const struct applying *a, const struct json *answer,
				  struct cay_error *err)
{
	const char *source = json_str(json_get(answer, "source"));

	if (a->to)
		return a->to;
	if (remote_place(a->remote)->tcp) {
		(void)cay_fail(err, CAY_E_INVALID, 0,
			       "the sandbox's directory may be another machine's");
		(void)cay_hint(err, "say where to: --to DIR");
		return NULL;
	}
	if (!source || source[0] != '/') {
		(void)cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer has no directory");
		return NULL;
	}
	return source;
}

static int apply_all(struct applying *a, const struct settings *settings, const char *const *paths,
		     struct cay_error *err)
{
	_cleanup_(json_freep) struct json *answer = NULL;
	_cleanup_(changes_done) struct changes changes = {0};
	_cleanup_(fd_closep) int top = -1;
	struct apply apply = {.force = a->force, .fetch = fetch, .ctx = a, .stop = stop};
	const char *dir;

	if (remote_sandbox_ask(a->remote, "GET", a->sandbox, "/workspace/diff", NULL, &answer,
			       err) < 0)
		return -1;
	dir = find_directory(a, answer, err);
	if (!dir || changes_read(&changes, answer, err) < 0 ||
	    changes_choose(&changes, paths, PATHS_MAX - 1, err) < 0 ||
	    apply_open(dir, settings, &top, err) < 0)
		return -1;
	apply.top = top;
	apply.since_ms = json_int(json_get(answer, "since"));
	apply_changes(&apply, &changes);
	if (remote_signal(a->remote))
		return remote_interrupted(a->remote, err);
	changes_say_left_out(&changes);
	if (json_bool(json_get(answer, "truncated")))
		cli_say("there are more changes than can be listed: those are not brought back");
	return apply_conclude(&apply, err);
}

static int run(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	_cleanup_(remote_freep) struct remote *r = NULL;
	const char *words[PATHS_MAX];
	struct applying a = {0};
	struct cay_error err;
	int s = verb_parse(&verb_apply, argc, argv, &a, words, PATHS_MAX, &err);

	if (s == 1)
		return 0;
	settings_init(&settings);
	if (s == 0 && !words[0])
		s = remote_sandbox_which(&err);
	if (s == 0)
		s = settings_load(&settings, &err);
	if (s == 0)
		s = remote_open(&r, &err);
	if (s == 0) {
		a.remote = r;
		a.sandbox = words[0];
		s = apply_all(&a, &settings, words + 1, &err);
	}
	return s < 0 ? cli_error(&err, false) : 0;
}

const struct verb verb_apply = {
	.name = "apply",
	.summary = "bring a sandbox's changes back to the host",
	.usage = "[-f] [--to DIR] SANDBOX [PATH...]",
	.about = "Brings what was changed in an overlay back to the directory below it: all, or\n"
		 "what is at the PATHs and below them. What was changed here since the sandbox\n"
		 "began is a conflict: it is told, and stays as it is.\n",
	.examples = "  cay apply work\n"
		    "  cay apply work src/main.py tests\n",
	.notes =
		"It is done with your own rights, and where the setting [mounts] write allows it.\n"
		"Without set-id bits; links that lead out of the directory, and special files,\n"
		"are left out, which is said.\n",
	.argument = "SANDBOX",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
