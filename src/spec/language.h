/*
 * language.h: the languages, one row each. What is on a machine is found by
 * image/runtime.c; how a program is started is said here. A new language is a
 * row in language.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LANGUAGE_WORDS_MAX 6
#define LANGUAGE_ARGV_MAX  14
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

/*
 * Where the exact version stands, as nothing is executed to ask for it: behind
 * mark, in the file. A file is relative to the program's directory; one that
 * ends with '*' is the library that the program names so: "../lib/libpython*".
 */
struct language_version {
	const char *file; /* NULL: the program itself */
	const char *mark;
	bool whole; /* mark and version are a string of their own, which a NUL ends */
};

/* An option that the program takes in some versions: from since on, below before. */
struct language_option {
	const char *option, *since, *before; /* before: NULL, no end */
};

/*
 * All lists end with a NULL. In the words of compile, run and env stand for:
 * {program}, {tool} their paths, {script} the source, {build} a directory of
 * the compiler's own, {entry} the class that begins a Java program, {memory} the
 * memory limit in bytes, {minor} the first two numbers of the version.
 */
struct language {
	const char *name;
	const char *aliases[LANGUAGE_WORDS_MAX];
	const char *extensions[LANGUAGE_WORDS_MAX]; /* with the dot */
	const char *file_name; /* what a snippet too long for an argument is called */
	struct language_program programs[LANGUAGE_WORDS_MAX];
	/* Where the host has further versions, below /usr; '*' as in a program's name. */
	struct language_program dirs[LANGUAGE_WORDS_MAX];
	const char *runs_on; /* the programs and versions are those of this language; NULL */
	struct language_option options[2]; /* right after the program */
	const char *code_option; /* "-c": takes the code as an argument; NULL: always a file */
	const char
		*code_joined;   /* "--eval=": for code that begins like an option; NULL: the same */
	const char *code_guard; /* between option and code: what keeps code from being an option */
	const char *code_args[3]; /* between the code and its arguments: $0 of sh -c, "--" */
	/*
	 * What a file must begin with: code that begins with its first two letters is
	 * never an argument, and other code gets it in front where it becomes a file.
	 */
	const char *code_open;
	const char *compile[LANGUAGE_ARGV_MAX]; /* none: there is nothing to compile */
	const char *run[LANGUAGE_ARGV_MAX];     /* none: {program} {script} */
	const char *env[LANGUAGE_WORDS_MAX];
	const char *tool; /* a second program, beside the first or on the host; NULL */
	bool tool_beside; /* it goes with the first: another on the host will not do */
	/* From this version on it works without the tool, by these words. */
	const char *toolless_since;
	const char *toolless_run[LANGUAGE_ARGV_MAX];
	/*
	 * Finds {entry} in the source, by which a snippet's file is named; in memory of its own,
	 * NULL: there is none, which entry_needs explains. NULL: the language has no such thing.
	 */
	char *(*entry)(const char *text, size_t len);
	const char *entry_needs;
	const char *prefer; /* the version taken when none is asked for, if it is there */
	/* The first that answers. None: the language has no versions. */
	struct language_version versions[LANGUAGE_WORDS_MAX];
	const char *package; /* the Debian packages that bring it */
	/*
	 * Its image, where the store has one: a reference with {version} in its tag, and the
	 * version to get where none is asked for. NULL: there is none that is usual.
	 */
	const char *image, *image_version;
	/*
	 * The versions that can be started ahead of time (policy/warm.h), since to before. A set:
	 * they can't be cloned, so each waits for its program, with nothing loaded, under that
	 * name.
	 */
	struct {
		const char *since, *before, *set;
	} warm;
};

extern const struct language languages[];
extern const size_t n_languages;

/* The row that has the programs and versions: itself, or the one it runs on. */
const struct language *language_base(const struct language *language);

/* Whether versions of it can be told apart. */
bool language_has_versions(const struct language *language);

/* Whether this version needs no tool. */
bool language_is_toolless(const struct language *language, const char *version);

/* By name or alias; NULL if there is none. */
const struct language *language_find(const char *name);

/* By the extension of a file name; NULL if none fits. */
const struct language *language_by_extension(const char *file);
