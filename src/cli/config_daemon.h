/*
 * config_daemon.h: settings of a daemon, at run time.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Those in force there, and where each comes from. 1: nobody named a daemon, and there is none
 * whose operator this is: the files are all there is.
 */
int config_daemon_show(bool json, struct cay_error *err);

/* Each returns 0 or -1; words end with a NULL. */
int config_daemon_set(const char *const words[], bool json, struct cay_error *err);
int config_daemon_unset(const char *const words[], bool json, struct cay_error *err);
int config_daemon_history(const char *const words[], bool json, struct cay_error *err);
int config_daemon_rollback(const char *const words[], bool json, struct cay_error *err);

/* One setting in a line; first without print, to find the widths. */
struct config_table {
	bool print;
	size_t name_width, value_width;
};

void config_show_line(void *table, const char *section, const char *key, const char *value,
		      const char *origin);
