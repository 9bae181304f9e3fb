/*
 * code_open.h: whether code that is being typed goes on in the next line. A guess, as no
 * interpreter is asked: an empty line ends whatever is no text that has begun.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* How a language is typed. */
struct code_manner {
	const char *language;
	const char *prompt, *more;  /* of the first line, and of those after it */
	const char *quotes;         /* what texts stand between */
	const char *long_quotes;    /* of these, those that go over lines */
	bool triple;                /* """ too */
	const char *comment;        /* up to the end of the line */
	bool slash_star;            /* comments between slashes and stars */
	const char *opens, *closes; /* brackets */
	bool colons;                /* a line that ends in one begins a block */
	bool words; /* if and fi, do and done; here-documents; | and && at the end */
};

/* NULL: none that we know. */
const struct code_manner *code_manner_find(const char *language);

/* The code with all its lines, each with its end. */
bool code_open(const struct code_manner *m, const char *code, size_t len);
