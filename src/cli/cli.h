/*
 * cli.h: the verbs, one file each, and the little they share.
 */
#pragma once

#include "core/error.h"
#include "policy/mounts.h"
#include "settings/settings.h"

#include <stdbool.h>

#define EXIT_OURS 125 /* cay itself failed */

/* Each takes its own argv (argv[0] is the verb) and returns the exit code. */
int cli_config(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_help(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_runtimes(int argc, char **argv);
int cli_version(int argc, char **argv);

struct verb {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

extern const struct verb verbs[]; /* ends with a NULL name */

/* By name; NULL, said on stderr with the nearest one, if there is none. */
const struct verb *verb_find(const char *name);

/* Says the error in one line on stderr, and as an object on stdout where json; returns the exit
 * code. */
int cli_error(const struct cay_error *err, bool json);

/* One line on stderr: "cay: …". */
void cli_say(const char *fmt, ...) _printf_(1, 2);

struct json;

/* Prints the value on stdout and frees it; returns 0 or EXIT_OURS. */
int cli_print_json(struct json *j);

/*
 * The mount rules of a one-shot run: the settings', and the current directory
 * for reading.
 */
int cli_mount_rules(const struct settings *s, struct mount_rules *ret, struct cay_error *err);
