/*
 * version.h: versions as programs have them ("3.11.2", "3.13.0rc1+") and as
 * requests name them ("3", "3.12"). Pure. "" is a version that is not known.
 */
#pragma once

#include <stdbool.h>

#define VERSION_SIZE 32

/* Numbers with dots between, then perhaps a suffix as in "3.13.0rc1+"; shorter than VERSION_SIZE.
 */
bool version_valid(const char *version);

/* Digits and dots as a request may say them: "3", "3.12", "3.12.1". */
bool version_is_request(const char *version);

/* Whether a version is one of those asked for: "3.1" means 3.1.4 but neither 3.11 nor 3.1rc1. */
bool version_matches(const char *version, const char *request);

/*
 * Below, at or above 0, as strcmp(): 3.9 < 3.10 < 3.10.0rc1 < 3.10.0 < 3.10.0+.
 * So a version v is one "since 22.7" if version_compare(v, "22.7") >= 0, which
 * 22.7.0 is, and one "before 22.7" if it is not. An unknown one is before all.
 */
int version_compare(const char *a, const char *b);
