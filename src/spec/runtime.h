/*
 * runtime.h: an interpreter that was chosen. image/runtime.h finds them.
 */
#pragma once

#include "spec/language.h"
#include "spec/version.h"

#include <limits.h>
#include <stdbool.h>

#define RUNTIME_HOST  "host"  /* found on this machine */
#define RUNTIME_STORE "store" /* in an image that no settings file names */

struct runtime {
	const struct language *language;
	char version[VERSION_SIZE]; /* "3.11.2"; "" where the language has none */
	/*
	 * Absolute: what to execute, and argv[0]. A link stays a link if an island
	 * sees all of its way, because some programs go by the name they are called
	 * by: sh, which may be bash or busybox; the python of a venv, which finds its
	 * packages beside it. Otherwise it is resolved (/etc/alternatives).
	 */
	char program[PATH_MAX];
	char tool[PATH_MAX]; /* language->tool's path; "" where it has none or works without */
	/* The tool that is not there and can't be done without; NULL in all that is chosen. */
	const char *lacks;
	char root[PATH_MAX];      /* directory to bind read-only at its own path; "" inside /usr */
	char image[NAME_MAX + 1]; /* whose program it is, by name; "": the host's */
	/* RUNTIME_HOST, RUNTIME_STORE, or the settings file that named it. */
	char source[PATH_MAX];
	/*
	 * Why a request without a version gets this one: "preferred", "newest", or
	 * "first found" where there are no versions; NULL for the others.
	 */
	const char *default_reason;
};
