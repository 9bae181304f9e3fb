/*
 * homes.h: what `~` means in a rule: every home directory of the machine.
 */
#pragma once

#include "base/strv.h"
#include "core/error.h"

#include <stdio.h>

/* Adds the homes that a passwd file names, each once. 0 or -errno. */
int homes_add(struct strv *ret, FILE *passwd);

/* The homes of /etc/passwd and $HOME, each once. */
int homes_read(struct strv *ret, struct cay_error *err);
