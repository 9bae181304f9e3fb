#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	for (const struct verb *v = verbs; v->name; v++)
		if (strcmp(v->name, name) == 0)
			return argc > 1 ? v->run(argc - 1, argv + 1) : v->run(argc, argv);
	cli_say("no verb is called '%s' (cay help lists them)", name);
	return EXIT_OURS;
}
