/*
 * id.h: names of runs and islands: a prefix and 16 random characters.
 */
#pragma once

#include <stdbool.h>

#define ID_SIZE 24

/* "run_k3v0…" into id. 0, or -1 and errno if the kernel has no randomness. */
int id_make(const char *prefix, char id[ID_SIZE]);

/* Whether it is one of ours, with that prefix. */
bool id_ok(const char *prefix, const char id[ID_SIZE]);

/* Of what has a workspace that is kept: a persistent sandbox, or a workspace with a name. */
bool id_is_kept(const char id[ID_SIZE]);
