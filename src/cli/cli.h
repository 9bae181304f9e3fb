/*
 * cli.h: the verbs, one file each, and the little they share.
 */
#pragma once

#include "core/error.h"
#include "policy/mounts.h"
#include "settings/settings.h"

#include <signal.h>
#include <stdbool.h>

#define EXIT_OURS 125 /* cay itself failed */

struct option_row;

/* One a file. All that help, completion and the manual's test know of a verb stands here. */
struct verb {
	const char *name;
	const char *summary;    /* its line in `cay help`; NULL: not listed */
	const char *usage;      /* what follows its name */
	const char *about;      /* whole lines, as the next two */
	const char *examples;   /* at least one */
	const char *notes;      /* NULL: none */
	const char *argument;   /* what its first word is, in the words of option_row; NULL: none */
	bool words_end_options; /* what follows the first word is not ours */
	bool words_repeat;      /* all words are of that kind */
	const struct option_row *rows;
	size_t n_rows;
	/* Takes its own argv (argv[0] is the verb) and returns the exit code. */
	int (*run)(int argc, char **argv);
};

extern const struct verb verb_apply, verb_bench, verb_complete, verb_config, verb_context, verb_cp,
	verb_create, verb_diff, verb_doctor, verb_exec, verb_help, verb_image, verb_key, verb_logs,
	verb_pause, verb_ps, verb_resume, verb_rm, verb_run, verb_runtimes, verb_serve, verb_shell,
	verb_show, verb_version, verb_workspace;

extern const struct verb *const verbs[]; /* ends with a NULL */

/* By name; NULL, said on stderr with the nearest one, if there is none. */
const struct verb *verb_find(const char *name);

/* The help of one verb, on stdout. */
void verb_print_help(const struct verb *v);

/*
 * Reads the options of a verb with at most max words, wherever they stand; words
 * that are not there are NULL. Returns 1 when help was asked for and printed,
 * else 0 or -1.
 */
int verb_parse(const struct verb *v, int argc, char **argv, void *ctx, const char **ret_words,
	       size_t max, struct cay_error *err);

/* Says the error in one line on stderr, and as an object on stdout where json; returns the exit
 * code. */
int cli_error(const struct cay_error *err, bool json);

/* One line on stderr: "cay: …". A note is progress, and on a terminal quieter. */
void cli_say(const char *fmt, ...) _printf_(1, 2);
void cli_note(const char *fmt, ...) _printf_(1, 2);

struct isolation;

/* A line for each limit that was not enforced. */
void cli_say_degraded(const struct isolation *i);

enum style { STYLE_PLAIN, STYLE_STRONG, STYLE_QUIET, STYLE_GOOD, STYLE_BAD, STYLE_DOUBT };

/*
 * What switches a style on, and all off for STYLE_PLAIN. "" where there are no
 * colours: no terminal, TERM unset or dumb, NO_COLOR set and not empty.
 */
const char *cli_style(int fd, enum style style);

/*
 * From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT are read from this signalfd;
 * -1 and errno. *ret_before is the signal mask as it was; NULL where nobody asks.
 */
int cli_catch_signals(sigset_t *ret_before);

struct json;

/* Prints the value on stdout and frees it; returns 0 or EXIT_OURS. */
int cli_print_json(struct json *j);

/*
 * The mount rules of a one-shot run: the settings', and the current directory
 * for reading.
 */
int cli_mount_rules(const struct settings *s, struct mount_rules *ret, struct cay_error *err);
