/*
 * runtime_version.h: the version of a program, from its name, its bytes and the
 * files beside it. Nothing is executed. Slow: see runtime_cache.h.
 */
#pragma once

#include "spec/language.h"
#include "spec/version.h"

#include <stdbool.h>

/*
 * What the name of a program says, "3.11" of python3.11, if it is one of the
 * row's names; it may be "". False for others: python3.11-config, python3.11m.
 */
bool runtime_version_of_name(const struct language *row, const char *name, const char **ret_base);

/*
 * program is a path without links, base what its name says. 1: here it is. 0: it
 * is not known exactly, and ret_version is base. -1: the same, because the
 * program can't be read.
 */
int runtime_version_read(const struct language *row, const char *program, const char *base,
			 char ret_version[VERSION_SIZE]);
