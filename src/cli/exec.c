#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/cell.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/remote_request.h"
#include "cli/remote_run.h"
#include "cli/remote_sandbox.h"
#include "cli/spec_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct exec {
	struct spec spec; /* first: see spec_options.h */
	const char *sandbox, *code, *context, *pictures, *wait;
	bool detach, json, output_limited;
};

static OPTION_SETTER(set_output)
{
	((struct exec *)ctx)->output_limited = true;
	return spec_option_limit(ctx, row, value, err);
}

static OPTION_SETTER(set_wait)
{
	((struct exec *)ctx)->wait = value;
	return spec_option_wait(ctx, row, value, err);
}

static const struct option_row rows[] = {
	{'d', "detach", NULL, "in the background; prints the run's id",
	 OPTION_STORE(struct exec, detach)},
	{'c', "code", "CODE", "code instead of a command", OPTION_STORE(struct exec, code)},
	{'l', "language", "NAME[@VERSION]", "of the code: python (default), node@22 ...",
	 .set = spec_option_language},
	{0, "context", "NAME", "an interpreter that remembers has the code",
	 OPTION_STORE(struct exec, context)},
	{0, "pictures", "DIR", "where those of a context are saved",
	 OPTION_STORE(struct exec, pictures)},
	{'e', "env", "K=V", "a variable; K alone passes the caller's own", .set = spec_option_env},
	{0, "env-file", "FILE", "variables, one K=V a line", .set = spec_option_env_file},
	{'w', "workdir", "PATH", "working directory (/workspace)", .set = spec_option_workdir},
	{0, "stdin", "FILE", "the program's standard input", .set = spec_option_stdin},
	{0, "timeout", "TIME", "wall time of this command (300)", .set = spec_option_limit},
	{0, "output-limit", "SIZE", "of each stream (1m with --json, else none)",
	 .set = set_output},
	{0, "wait", "TIME", "for room in a busy daemon (30)", .set = set_wait},
	{0, "json", NULL, "the result as JSON on standard output", OPTION_STORE(struct exec, json)},
};

static int nothing_to_run(struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "nothing to run");
	return cay_hint(err, "cay exec SANDBOX -- CMD [ARG...], or cay exec SANDBOX -c CODE");
}

/* The sandbox stands between options, or behind them; what follows all that is the program's. */
static int parse(struct exec *x, int argc, char **argv, int *ret_rest, struct cay_error *err)
{
	bool dashes;
	int at, r = options_parse(rows, ARRAY_LEN(rows), argc, argv, x, &at, &dashes, err);

	if (r != 0)
		return r;
	if (at >= argc || dashes)
		return remote_sandbox_which(err);
	x->sandbox = argv[at];
	r = options_parse(rows, ARRAY_LEN(rows), argc - at, argv + at, x, ret_rest, &dashes, err);
	*ret_rest += at;
	return r;
}

static int take_program(struct exec *x, int argc, char **argv, int at, struct cay_error *err)
{
	struct spec *s = &x->spec;
	int r = 0;

	s->kind = x->code ? SPEC_CODE : SPEC_ARGV;
	if (!x->code && at >= argc)
		return nothing_to_run(err);
	if (!x->code && s->language)
		return cay_fail(err, CAY_E_INVALID, 0, "--language goes with --code");
	if (x->context && (!x->code || at < argc))
		return cay_fail(err, CAY_E_INVALID, 0,
				"--context goes with --code, and without arguments");
	if (x->pictures && (!x->context || x->json || x->detach))
		return cay_fail(err, CAY_E_INVALID, 0,
				"--pictures goes with --context, and without --json and --detach");
	if (x->code) {
		s->code_len = strlen(x->code);
		s->code = strdup(x->code);
		r = s->code ? 0 : -ENOMEM;
	}
	for (; at < argc && r == 0; at++)
		r = strv_add(&s->args, argv[at]);
	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "read the arguments") : 0;
}

/* All of it, because a request has it whole; a terminal's would have no end. */
static int add_stdin(const struct exec *x, struct json *body, struct cay_error *err)
{
	_cleanup_(fd_closep) int opened = -1;
	int fd = STDIN_FILENO, r;
	char *data = NULL;
	size_t len;

	if (x->spec.stdin_file) {
		opened = fd = open(x->spec.stdin_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0)
			return cay_fail(err, CAY_E_NOT_FOUND, errno, "--stdin %s",
					x->spec.stdin_file);
	} else if (x->detach || isatty(fd) == 1 || fcntl(fd, F_GETFD) < 0) {
		return 0;
	}
	if (spec_read_all(fd, REMOTE_STDIN_MAX, "standard input", &data, &len, err) < 0)
		return cay_hint(err, "larger things go in by cay cp");
	r = remote_request_stdin(body, data, len, err);
	/* Of a cell none is something else than one that may come. */
	if (x->context && len == 0)
		json_set_str(body, "stdin", "");
	free(data);
	return r;
}

static int start(const struct exec *x, const struct remote_run *run, struct cay_error *err)
{
	const struct remote_ask ask = {.method = "POST", .path = run->path, .json = run->body};
	_cleanup_(json_freep) struct json *j = NULL;
	const char *id;

	if (remote_json(run->remote, &ask, &j, err) < 0)
		return -1;
	if (x->json)
		return cli_print_json(take_ptr(&j));
	id = json_str(json_get(j, "id"));
	if (!id || strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz_") != strlen(id))
		return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer is no run");
	(void)printf("%s\n", id);
	return 0;
}

static int carry_out(struct exec *x, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *remote = NULL;
	_cleanup_(buf_done) struct buf path = {0};
	_cleanup_(json_freep) struct json *body = NULL;
	_cleanup_(cell_desk_done) struct cell_desk desk;
	struct remote_run run = {.json = x->json};

	cell_desk_init(&desk, x->sandbox, x->context);
	if (remote_sandbox_path(&path, x->sandbox, "/runs", err) < 0 ||
	    remote_request(&x->spec, REQUEST_COMMAND, &body, err) < 0 ||
	    (x->context && remote_request_str(body, "context", x->context, "--context", err) < 0) ||
	    remote_open(&remote, err) < 0 || add_stdin(x, body, err) < 0)
		return -1;
	if (x->wait)
		json_set_str(body, "wait", x->wait);
	desk.remote = run.remote = remote;
	run.input = cell_answer;
	run.ctx = &desk;
	run.path = buf_str(&path);
	run.body = body;
	run.pictures = x->pictures;
	run.screen = &desk.screen;
	run.output_limit = x->output_limited ? x->spec.limits.output_bytes : 0;
	if (!x->detach)
		return remote_run(&run, err);
	json_set_bool(body, "background", true);
	return start(x, &run, err);
}

static int run(int argc, char **argv)
{
	struct exec *x = calloc(1, sizeof(*x));
	struct cay_error err;
	int rest = 0, r;
	bool json;

	if (!x) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
		return cli_error(&err, false);
	}
	r = parse(x, argc, argv, &rest, &err);
	if (r == 1) {
		verb_print_help(&verb_exec);
		r = 0;
	} else if (r == 0) {
		r = take_program(x, argc, argv, rest, &err);
		if (r == 0)
			r = carry_out(x, &err);
	}
	json = x->json;
	spec_done(&x->spec);
	free(x);
	return r < 0 ? cli_error(&err, json) : r;
}

const struct verb verb_exec = {
	.name = "exec",
	.summary = "run a command or code in a sandbox",
	.usage = "[options] SANDBOX -- CMD [ARG...] | SANDBOX -c CODE [ARG...]\n"
		 "       cay exec [options] SANDBOX --context NAME -c CODE",
	.about =
		"Runs a command, or code, in a live sandbox: with its files, beside whatever else\n"
		"runs there. Output and exit code are as those of cay run. With --context the\n"
		"code is given to an interpreter of that name, started if it is not there, which\n"
		"keeps its variables; the value of the last expression is printed, and pictures\n"
		"appear in terminals that show kitty's, iTerm2's or sixel ones; in others they\n"
		"are saved as cay-N.png, and without a terminal only by --pictures.\n",
	.examples = "  cay exec work -- pip install ./x.whl\n"
		    "  cay exec work -c 'import x; print(x)'\n"
		    "  cay exec work --context main -c 'x = 42'\n"
		    "  cay exec work --context main -c x\n"
		    "  cay exec -d work -- python3 -m http.server\n",
	.notes = "Standard input that is no terminal is read to its end first, up to 16 MiB, and\n"
		 "given to the program; --stdin /dev/null gives it none. Of a cell they are the\n"
		 "lines that input() reads; at a terminal it asks.\n",
	.argument = "SANDBOX",
	.words_end_options = true,
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
