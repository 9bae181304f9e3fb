/*
 * id.h: names of runs and islands: a prefix and 16 random characters.
 */
#pragma once

#define ID_SIZE 24

/* "run_k3v0…" into id. Aborts if the kernel has no randomness: there is nothing sane to do. */
void id_make(const char *prefix, char id[ID_SIZE]);
