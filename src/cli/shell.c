#include "cli/shell.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/helper.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/repl.h"
#include "cli/remote_sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_MAX (8u << 10) /* it goes by the URL */

void shell_ask_done(struct shell_ask *a)
{
	buf_done(&a->command);
}

static const struct option_row rows[] = {
	{0, "terminal", "ID", "one that is there, as it was left",
	 OPTION_STORE(struct shell_ask, terminal)},
	{0, "python", NULL, "cells for an interpreter that remembers",
	 OPTION_STORE(struct shell_ask, python)},
	{0, "node", NULL, "the same of node", OPTION_STORE(struct shell_ask, node)},
	{0, "bash", NULL, "the same of bash", OPTION_STORE(struct shell_ask, bash)},
	{0, "context", "NAME", "of the interpreter (main)",
	 OPTION_STORE(struct shell_ask, context)},
	{0, "pictures", "DIR", "where those of the interpreter are saved",
	 OPTION_STORE(struct shell_ask, pictures)},
};

/* A word as sh reads it back. */
static int append_quoted(struct buf *out, const char *word)
{
	int r = buf_append_str(out, out->len ? " '" : "'");

	for (; *word && r == 0; word++)
		r = *word == '\'' ? buf_append_str(out, "'\\''") : buf_append(out, word, 1);
	return r < 0 ? r : buf_append_str(out, "'");
}

static int take_command(struct shell_ask *a, int argc, char **argv, int at, struct cay_error *err)
{
	int r = 0;

	for (; at < argc && r == 0; at++)
		r = append_quoted(&a->command, argv[at]);
	if (r < 0)
		return cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_INTERNAL, -r,
				"the command");
	if (a->terminal && a->command.len > 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"a terminal that is there has its command already");
	if (a->python + a->node + a->bash > 1)
		return cay_fail(err, CAY_E_INVALID, 0, "an interpreter has one language");
	if ((a->python || a->node || a->bash) && (a->terminal || a->command.len > 0))
		return cay_fail(err, CAY_E_INVALID, 0,
				"an interpreter has neither a terminal nor a command");
	if ((a->context || a->pictures) && !(a->python || a->node || a->bash))
		return cay_fail(err, CAY_E_INVALID, 0, "%s goes with --python, --node or --bash",
				a->context ? "--context" : "--pictures");
	return 0;
}

int shell_parse(int argc, char **argv, struct shell_ask *ret, struct cay_error *err)
{
	bool dashes;
	int at, rest, r;

	*ret = (struct shell_ask){.command = BUF(COMMAND_MAX)};
	r = options_parse(rows, ARRAY_LEN(rows), argc, argv, ret, &at, &dashes, err);
	if (r == 0 && (at >= argc || dashes))
		return remote_sandbox_which(err);
	if (r == 0) {
		ret->sandbox = argv[at];
		r = options_parse(rows, ARRAY_LEN(rows), argc - at, argv + at, ret, &rest, &dashes,
				  err);
	}
	if (r == 1)
		verb_print_help(&verb_shell);
	return r != 0 ? r : take_command(ret, argc, argv, at + rest, err);
}

static int start(char **argv, struct cay_error *err)
{
	_cleanup_(fd_closep) int program = helper_open("cay-shell");

	if (program < 0) {
		(void)cay_fail(err, CAY_E_ENGINE, -program,
			       "find cay-shell, which is the terminal");
		return cay_hint(err, "it is beside cay where that was built, and in libexec/cay "
				     "where it was installed");
	}
	(void)fexecve(program, argv, environ);
	return cay_fail(err, CAY_E_ENGINE, errno, "start cay-shell");
}

static int run(int argc, char **argv)
{
	_cleanup_(shell_ask_done) struct shell_ask ask;
	struct cay_error err;
	int r = shell_parse(argc, argv, &ask, &err);

	if (r == 0 && (ask.python || ask.node || ask.bash)) {
		r = repl(&ask, &err);
		return r < 0 ? cli_error(&err, false) : r;
	}
	if (r == 0 && (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)) {
		r = cay_fail(&err, CAY_E_INVALID, 0, "cay shell needs a terminal");
		(void)cay_hint(&err, "cay exec runs a command without one");
	}
	if (r == 0)
		r = start(argv, &err);
	return r < 0 ? cli_error(&err, false) : 0;
}

const struct verb verb_shell = {
	.name = "shell",
	.summary = "a terminal in a sandbox, or an interpreter to talk to",
	.usage = "[--terminal ID] SANDBOX [-- CMD [ARG...]]\n"
		 "       cay shell --python|--node|--bash [options] SANDBOX",
	.about = "Opens a shell, or runs CMD, on a terminal in a live sandbox. Ctrl-P Ctrl-Q\n"
		 "leaves it running; --terminal comes back to it.\n"
		 "\n"
		 "With --python and the like: what is typed are cells of an interpreter that\n"
		 "remembers, as those of cay exec --context. Ctrl-C interrupts a cell, Ctrl-D\n"
		 "leaves; the interpreter stays.\n",
	.examples = "  cay shell work\n"
		    "  cay shell work -- python3\n"
		    "  cay shell work --python\n",
	.notes = "What programs send goes to your terminal as it is. Exit code: the program's.\n"
		 "For an interpreter lines have no history of their own; rlwrap adds one.\n",
	.argument = "SANDBOX",
	.words_end_options = true,
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
