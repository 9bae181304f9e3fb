#include "cli/repl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cell.h"
#include "cli/cli.h"
#include "cli/code_open.h"
#include "cli/remote_request.h"
#include "cli/remote_run.h"
#include "cli/remote_sandbox.h"

#include <string.h>
#include <unistd.h>

#define CELL_BYTES_MAX (16u << 20)

struct talk {
	struct cell_desk desk;
	const struct code_manner *manner;
	const char *pictures;
	bool prompts; /* a person types */
	bool busy;    /* a cell is under way */
};

static int on_interrupt(void *ctx, struct cay_error *err)
{
	const struct talk *t = ctx;

	return t->busy ? cell_interrupt(&t->desk, err) : 0;
}

static void print(const struct talk *t, const char *text)
{
	if (t->prompts)
		(void)fd_write_all(STDOUT_FILENO, text, strlen(text));
}

static bool is_empty(const struct buf *code)
{
	return strspn(buf_str(code), " \t\r\n") == code->len;
}

/* A whole cell. 1; 0: there are no more; -1. */
static int read_cell(struct talk *t, struct buf *code, struct cay_error *err)
{
	int came;

	code->len = 0;
	do {
		print(t, code->len ? t->manner->more : t->manner->prompt);
		came = lines_next(&t->desk.lines, t->desk.remote, false, code, err);
		if (came < 0)
			return -1;
		if (came == LINE_NONE)
			break;
		if (came == LINE_INTERRUPTED)
			print(t, "\n");
		if (came == LINE_INTERRUPTED || is_empty(code))
			code->len = 0;
	} while (code->len == 0 || code_open(t->manner, code->data, code->len));
	/* At the end of a file what there is of it is a cell, too. */
	return code->len > 0;
}

/* What is wrong with one cell, or is better after a while. */
static bool passes(enum cay_code code)
{
	return code == CAY_E_TOO_LARGE || code == CAY_E_RATE_LIMITED || code == CAY_E_AT_CAPACITY;
}

/* 0: whatever came of it, the next one may follow; -1. */
static int run_cell(struct talk *t, const char *path, const struct buf *code, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *body = json_new_object();
	struct remote_run run = {.remote = t->desk.remote,
				 .path = path,
				 .body = body,
				 .quiet = true,
				 .pictures = t->pictures,
				 .screen = &t->desk.screen,
				 .input = cell_answer,
				 .ctx = &t->desk};
	int r;

	if (remote_request_str(body, "code", buf_str(code), "the code", err) < 0 ||
	    remote_request_str(body, "context", t->desk.context, "--context", err) < 0 ||
	    remote_request_str(body, "language", t->manner->language, "the language", err) < 0)
		return -1;
	t->busy = true;
	r = remote_run(&run, err);
	t->busy = false;
	if (r < 0 && passes(err->code)) {
		(void)cli_error(err, false);
		return 0;
	}
	return r < 0 ? -1 : 0;
}

/* Whether there is such a sandbox is told before anything is typed. */
static int check(const struct talk *t, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *sandbox = NULL;

	return remote_sandbox_ask(t->desk.remote, "GET", t->desk.sandbox, "", NULL, &sandbox, err);
}

static int talk(struct talk *t, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = {0}, code = BUF(CELL_BYTES_MAX);
	int r;

	if (remote_sandbox_path(&path, t->desk.sandbox, "/runs", err) < 0 || check(t, err) < 0)
		return -1;
	while ((r = read_cell(t, &code, err)) == 1)
		if (run_cell(t, buf_str(&path), &code, err) < 0)
			return -1;
	print(t, "\n");
	return r;
}

int repl(const struct shell_ask *ask, struct cay_error *err)
{
	const char *language = ask->python ? "python" : ask->node ? "node" : "bash";
	_cleanup_(remote_freep) struct remote *remote = NULL;
	struct talk t = {.manner = code_manner_find(language),
			 .pictures = ask->pictures,
			 .prompts = isatty(STDIN_FILENO) == 1};
	int r;

	if (!t.manner)
		return cay_fail(err, CAY_E_INTERNAL, 0, "no manner of %s", language);
	if (remote_open(&remote, err) < 0)
		return -1;
	cell_desk_init(&t.desk, ask->sandbox, ask->context ? ask->context : "main");
	t.desk.remote = remote;
	remote_on_interrupt(remote, on_interrupt, &t);
	r = talk(&t, err);
	cell_desk_done(&t.desk);
	return r;
}
