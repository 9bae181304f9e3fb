#include "base/title.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *verb_name(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return "help";
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return "version";
	return argv[1];
}

int main(int argc, char **argv)
{
	const struct verb *v = verb_find(verb_name(argc, argv));
	int code;

	title_init(argc, argv);
	if (!v)
		return EXIT_OURS;
	code = v->run(argc - 1, argv + 1);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		cli_say("standard output: %s", strerror(errno));
		return EXIT_OURS;
	}
	return code;
}
