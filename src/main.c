#include "base/title.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STACK_BYTES (256 * 1024) /* more than any way through here takes */

static const char *verb_name(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return "help";
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return "version";
	return argv[1];
}

/*
 * Where there is no room for the stack to grow, the kernel ends a process without a word: then now,
 * before there is anything that it could leave behind. Touching its end is enough.
 */
static void __attribute__((noinline)) reserve_stack(void)
{
	volatile char room[STACK_BYTES];

	room[0] = 0;
	(void)room[0];
}

int main(int argc, char **argv)
{
	const struct verb *v = verb_find(verb_name(argc, argv));
	int code;

	reserve_stack();
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
