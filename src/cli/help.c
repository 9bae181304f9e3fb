#include "cli/cli.h"

#include "base/attr.h"
#include "base/words.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

const struct verb *const verbs[] = {
	&verb_run,      &verb_create, &verb_ps,     &verb_show,  &verb_exec,      &verb_shell,
	&verb_context,  &verb_cp,     &verb_diff,   &verb_apply, &verb_workspace, &verb_logs,
	&verb_pause,    &verb_resume, &verb_rm,     &verb_image, &verb_serve,     &verb_key,
	&verb_runtimes, &verb_doctor, &verb_config, &verb_bench, &verb_version,   &verb_help,
	&verb_complete, NULL,
};

const struct verb *verb_find(const char *name)
{
	struct guess guess = GUESS(name);

	for (const struct verb *const *v = verbs; *v; v++) {
		if (strcmp((*v)->name, name) == 0)
			return *v;
		if ((*v)->summary)
			guess_offer(&guess, (*v)->name);
	}
	if (guess.meant)
		cli_say("no verb is called '%.64s' (did you mean %s?)", name, guess.meant);
	else
		cli_say("no verb is called '%.64s' (cay help lists them)", name);
	return NULL;
}

void verb_print_help(const struct verb *v)
{
	(void)printf("usage: cay %s%s%s\n\n%s\n", v->name, v->usage ? " " : "",
		     v->usage ? v->usage : "", v->about);
	if (v->n_rows > 0) {
		options_print(v->rows, v->n_rows);
		(void)printf("\n");
	}
	(void)printf("examples:\n%s", v->examples);
	if (v->notes)
		(void)printf("\n%s", v->notes);
}

int verb_parse(const struct verb *v, int argc, char **argv, void *ctx, const char **ret_words,
	       size_t max, struct cay_error *err)
{
	int r = options_parse_words(v->rows, v->n_rows, argc, argv, ctx, ret_words, max, err);

	if (r == 1)
		verb_print_help(v);
	return r;
}

static int run_version(int argc, char **argv)
{
	struct cay_error err;
	int r = verb_parse(&verb_version, argc, argv, NULL, NULL, 0, &err);

	if (r < 0)
		return cli_error(&err, false);
	if (r == 0)
		(void)printf("cay %s\n", CAY_VERSION);
	return 0;
}

static void print_verbs(void)
{
	(void)printf("usage: cay VERB [options]\n\n"
		     "cay runs code that nobody has read yet on an island of its own.\n\n");
	for (const struct verb *const *v = verbs; *v; v++)
		if ((*v)->summary)
			(void)printf("  %-10s %s\n", (*v)->name, (*v)->summary);
	(void)printf("\nfirst steps:\n"
		     "  cay run -c 'print(42)'\n"
		     "  cay doctor\n\n"
		     "`cay help VERB` says more; cay(1) says all.\n");
}

static int run_help(int argc, char **argv)
{
	const char *name = NULL;
	const struct verb *v;
	struct cay_error err;
	int r = 0;

	/* Not of `cay` alone and `cay --help`, where there is no verb. */
	if (argc > 0 && argv[0][0] != '-')
		r = verb_parse(&verb_help, argc, argv, NULL, &name, 1, &err);
	if (r != 0)
		return r < 0 ? cli_error(&err, false) : 0;
	if (!name) {
		print_verbs();
		return 0;
	}
	v = verb_find(name);
	if (!v)
		return EXIT_OURS;
	verb_print_help(v);
	return 0;
}

const struct verb verb_version = {
	.name = "version",
	.summary = "print the version",
	.about = "Prints the version; --version and -V do the same.\n",
	.examples = "  cay version\n",
	.run = run_version,
};

const struct verb verb_help = {
	.name = "help",
	.summary = "this list, or the help of one verb",
	.usage = "[VERB]",
	.about = "Lists the verbs, or says what one does. `cay VERB --help` is the same.\n",
	.examples = "  cay help\n"
		    "  cay help run\n",
	.argument = "VERB",
	.run = run_help,
};
