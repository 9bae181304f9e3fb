/*
 * spawn_bench ROUNDS NAME CMD [ARG...] [:: NAME CMD [ARG...]]...
 *
 * What a user sees of a command: from its start to its end, in turns with the
 * others. Prints {NAME: {n, min, p25, median, p75}} in microseconds. A command
 * that does not exit with 0 ends the benchmark: its time would mean nothing.
 */
#include "series.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMANDS_MAX 16
#define PAUSE_US     2000 /* lets the kernel take down what the last one left */
#define WARM_UP      2    /* rounds that do not count */

extern char **environ;

static double run_once(char **argv, const posix_spawn_file_actions_t *stdio)
{
	double start = now_us();
	pid_t pid;
	int status, r = posix_spawnp(&pid, argv[0], stdio, NULL, argv, environ);

	if (r != 0) {
		(void)fprintf(stderr, "spawn_bench: %s: %s\n", argv[0], strerror(r));
		exit(1);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		(void)fprintf(stderr, "spawn_bench: %s ended with status %#x\n", argv[0], status);
		exit(1);
	}
	return now_us() - start;
}

/* Splits at "::", in place. */
static size_t take_commands(char **words, struct series *series, char ***commands, size_t rounds)
{
	size_t n = 0;

	while (*words) {
		if (n == COMMANDS_MAX || !words[1]) {
			(void)fprintf(stderr, "spawn_bench: a NAME without a CMD, or too many\n");
			exit(2);
		}
		series_init(&series[n], words[0], rounds);
		commands[n++] = ++words;
		while (*words && strcmp(*words, "::") != 0)
			words++;
		if (*words)
			*words++ = NULL;
	}
	return n;
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 3 ? strtoul(argv[1], NULL, 10) : 0, order[COMMANDS_MAX], n;
	struct series series[COMMANDS_MAX];
	char **commands[COMMANDS_MAX];
	posix_spawn_file_actions_t stdio;
	json_t *all = json_object();

	if (rounds == 0 || rounds > 100000) {
		(void)fprintf(stderr, "usage: spawn_bench ROUNDS NAME CMD [ARG...] [:: ...]\n");
		return 2;
	}
	n = take_commands(argv + 2, series, commands, rounds);
	if (posix_spawn_file_actions_init(&stdio) != 0 ||
	    posix_spawn_file_actions_addopen(&stdio, 0, "/dev/null", O_RDONLY, 0) != 0 ||
	    posix_spawn_file_actions_addopen(&stdio, 1, "/dev/null", O_WRONLY, 0) != 0)
		return 1;
	for (size_t round = 0; round < rounds + WARM_UP; round++) {
		shuffle(order, n);
		for (size_t k = 0; k < n; k++) {
			double us = run_once(commands[order[k]], &stdio);

			if (round >= WARM_UP)
				series_add(&series[order[k]], us);
			pause_us(PAUSE_US);
		}
	}
	for (size_t k = 0; k < n; k++) {
		(void)json_object_set_new(all, series[k].name, series_json(&series[k]));
		series_done(&series[k]);
	}
	(void)posix_spawn_file_actions_destroy(&stdio);
	return print_json(all);
}
