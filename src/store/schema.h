/*
 * schema.h: the tables, and how older files become like new ones.
 */
#pragma once

#include "core/error.h"

struct store;

/*
 * Brings a file to the newest version, each step in a transaction of its own. A
 * file that is newer, or no store of ours, is an error and stays as it is.
 */
int schema_update(struct store *s, struct cay_error *err);
