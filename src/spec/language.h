/*
 * language.h: the languages, one row each. What is on a machine is found by
 * image/runtime.c; how a program is started is said here. A new language is a
 * row in language.c.
 */
#pragma once

#include <stddef.h>

#define LANGUAGE_WORDS_MAX 6
#define LANGUAGE_DEFAULT   "python" /* where nothing says which */

/*
 * A program name; a '*' in it stands for each number from first to last:
 * {"python3.*", 6, 20}. The numbers are tried one by one, because reading
 * /usr/bin with its thousands of entries would cost more than the whole start.
 * From the first digit on, the name is the version's beginning.
 */
struct language_program {
	const char *name;
	unsigned first, last;
};

/* All lists end with a NULL. */
struct language {
	const char *name;
	const char *aliases[LANGUAGE_WORDS_MAX];
	const char *extensions[LANGUAGE_WORDS_MAX]; /* with the dot */
	const char *file_name; /* what a snippet too long for an argument is called */
	struct language_program programs[LANGUAGE_WORDS_MAX];
	const char *code_option; /* "-c": takes the code as an argument; NULL: always a file */
	const char *code_guard;  /* between option and code: what keeps code from being an option */
	const char *code_arg0;   /* goes between the code and its arguments: $0 of sh -c; or NULL */
	const char *prefer;      /* the version taken when none is asked for, if it is there */
	/*
	 * How the exact version is found without running anything: the text in
	 * front of it in the program's bytes. "": the version is a string of its
	 * own. NULL: the language has no versions.
	 */
	const char *version_mark;
	/*
	 * Where to look if the program is only a launcher, relative to its
	 * directory; '*' is the version in its name: "../lib/libpython*.so.1.0".
	 */
	const char *version_files[LANGUAGE_WORDS_MAX];
	const char *package; /* the Debian package that brings it */
};

extern const struct language languages[];
extern const size_t n_languages;

/* By name or alias; NULL if there is none. */
const struct language *language_find(const char *name);

/* By the extension of a file name; NULL if none fits. */
const struct language *language_by_extension(const char *file);
