#include "cli/cli.h"

#include "base/attr.h"
#include "base/words.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

const struct verb verbs[] = {
	{"run", "run code, a script or a command on an island", cli_run},
	{"doctor", "try each control of the sandbox and say what is missing", cli_doctor},
	{"runtimes", "list languages, their versions and which one is used", cli_runtimes},
	{"config", "show, check and locate the settings", cli_config},
	{"version", "print the version", cli_version},
	{"help", "this list, or the help of one verb", cli_help},
	{0},
};

const struct verb *verb_find(const char *name)
{
	struct guess guess = GUESS(name);

	for (const struct verb *v = verbs; v->name; v++) {
		if (strcmp(v->name, name) == 0)
			return v;
		guess_offer(&guess, v->name);
	}
	if (guess.meant)
		cli_say("no verb is called '%.64s' (did you mean %s?)", name, guess.meant);
	else
		cli_say("no verb is called '%.64s' (cay help lists them)", name);
	return NULL;
}

int cli_version(int argc _unused_, char **argv _unused_)
{
	(void)printf("cay %s\n", CAY_VERSION);
	return 0;
}

int cli_help(int argc, char **argv)
{
	char option[] = "--help";
	const struct verb *v = argc > 1 && argv[1][0] != '-' ? verb_find(argv[1]) : &verbs[0];

	if (!v)
		return EXIT_OURS;
	if (argc > 1 && v->run != cli_help && v->run != cli_version && argv[1][0] != '-')
		return v->run(2, (char *[]){argv[1], option, NULL});
	(void)printf("usage: cay VERB [options]\n\n"
		     "cay runs code that nobody has read yet on an island of its own.\n\n");
	for (v = verbs; v->name; v++)
		(void)printf("  %-10s %s\n", v->name, v->summary);
	(void)printf("\nfirst steps:\n"
		     "  cay run -c 'print(42)'\n"
		     "  cay doctor\n\n"
		     "`cay help VERB` says more; cay(1) says all.\n");
	return 0;
}
