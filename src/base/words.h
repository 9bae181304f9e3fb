/*
 * words.h: what was probably meant by a word that nobody knows.
 */
#pragma once

#include <stddef.h>

/* Edits (insert, delete, replace, swap neighbours) between two words; SIZE_MAX for long ones. */
size_t words_distance(const char *a, const char *b);

/* The nearest of the words that were offered. Words are borrowed. */
struct guess {
	const char *typed;
	const char *meant; /* NULL: none is near enough to be a misspelling */
	size_t distance;   /* of meant */
};

#define GUESS(word) ((struct guess){.typed = (word)})

void guess_offer(struct guess *g, const char *word);
