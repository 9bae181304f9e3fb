/*
 * script.h: a snippet that can't be an argument becomes a file: where on the island,
 * and what is in it. Pure.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "core/limits.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdbool.h>

struct script {
	char path[PATH_MAX]; /* on the island; "": the code goes as an argument */
	const char *data;    /* what is to be written there: the spec's code, or text */
	size_t len;
	bool passing; /* its name is nobody's: it goes when the program has ended */
	struct buf text;
};

#define SCRIPT_NONE ((struct script){.text = BUF(CODE_MAX_BYTES)})

void script_done(struct script *s);

/*
 * Of a spec with code; data borrows from it. What its language has a program begin
 * with is looked for, and noted in the spec.
 */
int script_of_code(struct spec *spec, struct script *ret, struct cay_error *err);

/* Beside the program's other files where that is writable, so that imports work; else in /tmp. */
void script_path(const struct spec *spec, const char *name, char path[PATH_MAX]);

/* What the program begins with, and the name its file must have then. */
int script_entry(struct spec *spec, const char *code, size_t len, char name[NAME_MAX + 1],
		 struct cay_error *err);
