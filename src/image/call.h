/*
 * call.h: one call of cay-image: a verb, its arguments, and what all verbs share.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"

#include <stdbool.h>

struct json;
struct store;

struct image_call {
	struct settings settings;
	struct store *store;
	const char *platform; /* --platform OS/ARCH[/VARIANT]; NULL: this machine's */
	bool json;            /* --progress json: lines of JSON on stdout */
	bool all;             /* --all */
	char **args;          /* behind the verb; a NULL follows */
	int n_args;
};

/* One of main.c's table. 0, or -1 and err. */
typedef int image_verb(struct image_call *call, struct cay_error *err);

image_verb import_main, load_main, prune_main, pull_main, rm_main;

/* What a verb tells on stdout: a line for people, or with --progress json an event. */
void call_say(const struct image_call *call, const char *event, const char *id, const char *name,
	      uint64_t bytes);

/* Something that nothing fails by, for whoever waits: on stderr, or as an event. */
void call_warn(const struct image_call *call, struct cay_error *err);

/* One line of JSON on stdout. */
void call_event(const struct json *j);
