/*
 * leftover.h: things that outlive a killed process carry its number in their name
 * (PREFIX PID - rest), so that a later one can tell them from those in use.
 */
#pragma once

#include <stdbool.h>

/* Whether name is of that form, and no process has that number any more. */
bool leftover_is_orphan(const char *name, const char *prefix);
