#include "cli/cp.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_EVERY_NS  100000000ull
#define REQUEST_NAME_BYTES 80

static const struct option_row rows[] = {
	{'q', "quiet", NULL, "no progress on a terminal", OPTION_STORE(struct cp, quiet)},
};

static void clear_line(const struct cp *c)
{
	if (c->shown)
		(void)dprintf(STDERR_FILENO, "\r\033[K");
}

void cp_progress(void *ctx, size_t bytes)
{
	struct cp *c = ctx;
	uint64_t now = clock_now_ns();
	_cleanup_(buf_done) struct buf line = BUF(1024);
	char size[32], name[48];

	c->bytes += bytes;
	if (c->quiet || now - c->shown_ns < PROGRESS_EVERY_NS)
		return;
	c->shown_ns = now;
	c->shown = true;
	(void)snprintf(name, sizeof(name), "%s", c->name ? c->name : "");
	if (buf_printf(&line, "\r\033[K%10s  ", format_size(c->bytes, size, sizeof(size))) == 0 &&
	    text_append_harmless(&line, name, text_utf8_whole(name, strlen(name))) == 0)
		(void)fd_write_all(STDERR_FILENO, line.data, line.len);
}

void cp_name(const char *path, char *text, size_t size)
{
	size_t end = strlen(path), at;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (at = end; at > 0 && path[at - 1] != '/';)
		at--;
	(void)snprintf(text, size, "%.*s", (int)(end - at), path + at);
	if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		text[0] = '\0';
}

int cp_path(const struct cp *c, const char *what, const char *path, struct buf *ret,
	    struct cay_error *err)
{
	char rest[64];
	int r;

	(void)snprintf(rest, sizeof(rest), "/files%s?path=", what);
	if (remote_sandbox_path(ret, c->sandbox, rest, err) < 0)
		return -1;
	r = text_append_encoded(ret, path);
	return r < 0 ? cay_fail(err, CAY_E_TOO_LARGE, -r, "the path of %.256s", path) : 0;
}

int cp_stat(struct cp *c, const char *path, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf at = {0};
	struct remote_ask ask = {.method = "GET"};

	*ret = NULL;
	if (cp_path(c, "/stat", path, &at, err) < 0 || buf_append_str(&at, "&follow=1") < 0)
		return -1;
	ask.path = buf_str(&at);
	if (remote_json(c->remote, &ask, ret, err) == 0)
		return 0;
	/* That there is no such sandbox is said otherwise than that there is no such file. */
	return err->code == CAY_E_NOT_FOUND ? 1 : -1;
}

bool cp_is_dir(const struct json *entry)
{
	const char *type = json_str(json_get(entry, "type"));

	return type && strcmp(type, "directory") == 0;
}

/* "SANDBOX:PATH"; what has a slash before the colon, or begins with a dot, is a path of ours. */
static bool split(const char *word, char sandbox[REQUEST_NAME_BYTES], char path[PATH_MAX])
{
	const char *colon = strchr(word, ':'), *slash = strchr(word, '/'), *rest;

	if (!colon || colon == word || (slash && slash < colon) || word[0] == '.' ||
	    colon - word >= REQUEST_NAME_BYTES)
		return false;
	rest = colon + 1;
	(void)snprintf(sandbox, REQUEST_NAME_BYTES, "%.*s", (int)(colon - word), word);
	if (rest[0] == '/')
		(void)snprintf(path, PATH_MAX, "%s", rest);
	else
		(void)snprintf(path, PATH_MAX, "%s/%s", ISLAND_WORKSPACE, rest);
	return true;
}

static void conclude(const struct cp *c)
{
	char size[32];

	clear_line(c);
	if (c->left_out > 0)
		cli_say("%zu left out: only files and directories with plain names are copied",
			c->left_out);
	if (!c->quiet)
		cli_note("%zu file%s, %s", c->files, c->files == 1 ? "" : "s",
			 format_size(c->bytes, size, sizeof(size)));
}

static int copy(struct cp *c, const char *from, const char *to, struct cay_error *err)
{
	char sandbox[REQUEST_NAME_BYTES], other[REQUEST_NAME_BYTES], path[PATH_MAX],
		unused[PATH_MAX];
	bool out = split(from, sandbox, path), in = !out && split(to, sandbox, path);
	_cleanup_(remote_freep) struct remote *r = NULL;
	int s;

	if (out && split(to, other, unused))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"from one sandbox to another: copy it here first");
	if (!out && !in) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "neither %.64s nor %.64s is in a sandbox",
			       from, to);
		return cay_hint(err, "cay cp FILE SANDBOX:PATH, or cay cp SANDBOX:PATH FILE");
	}
	if (remote_open(&r, err) < 0)
		return -1;
	c->remote = r;
	c->sandbox = sandbox;
	s = out ? cp_down(c, path, to, err) : cp_up(c, from, path, err);
	if (s < 0)
		clear_line(c);
	else
		conclude(c);
	return s;
}

static int run(int argc, char **argv)
{
	const char *words[2];
	struct cp c = {0};
	struct cay_error err;
	int r = verb_parse(&verb_cp, argc, argv, &c, words, 2, &err);

	if (r == 1)
		return 0;
	c.quiet |= isatty(STDERR_FILENO) != 1;
	if (r == 0 && !words[1]) {
		r = cay_fail(&err, CAY_E_INVALID, 0, "cay cp: from where to where?");
		(void)cay_hint(&err, "cay cp FILE SANDBOX:PATH, or cay cp SANDBOX:PATH FILE");
	}
	if (r == 0)
		r = copy(&c, words[0], words[1], &err);
	return r < 0 ? cli_error(&err, false) : 0;
}

const struct verb verb_cp = {
	.name = "cp",
	.summary = "copy files into a sandbox, or out of it",
	.usage = "[-q] SRC SANDBOX:PATH | SANDBOX:PATH DEST",
	.about = "Copies a file, or a directory with all that is in it. A relative PATH counts\n"
		 "from /workspace. Where the destination is a directory, what is copied goes into\n"
		 "it under its own name; else the last part is its new name.\n",
	.examples = "  cay cp data.csv work:\n"
		    "  cay cp work:out/plot.png .\n"
		    "  cay cp src work:/workspace/project\n",
	.notes =
		"Executable files stay executable. Symlinks and special files are left out, which\n"
		"is said.\n",
	.argument = "SRC",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
