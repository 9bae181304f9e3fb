/*
 * places.h: where the daemon is found when nobody says: root's in /run and /var/lib,
 * others' in their own directories.
 */
#pragma once

#include "core/error.h"

#include <limits.h>

/* /run/cay/cay.sock, or $XDG_RUNTIME_DIR/cay.sock. */
int place_socket(char path[PATH_MAX], struct cay_error *err);

/* /var/lib/cay, or $XDG_STATE_HOME/cay, or ~/.local/state/cay. */
int place_state(char path[PATH_MAX], struct cay_error *err);
