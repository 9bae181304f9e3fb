/*
 * serve_sockets.h: what `cay serve` listens on, and that there is one of it.
 */
#pragma once

#include "core/error.h"

/* Makes the directories on the way to path, as wide open as mode says. */
int serve_make_dirs(const char *path, unsigned mode, struct cay_error *err);

/*
 * The state directory, locked: a second daemon with the same is CAY_E_CONFLICT. The
 * lock ends with the fd.
 */
int serve_open_state(const char *path, int *ret_dir, int *ret_lock, struct cay_error *err);

/* Whether both can be addresses at all, before anything is touched; tcp may be NULL. */
int serve_check_addresses(const char *path, const char *tcp, struct cay_error *err);

/* A unix socket of mode 0600; one that nobody listens on any more is replaced. */
int serve_listen_unix(const char *path, int *ret, struct cay_error *err);

/* "127.0.0.1:8600", "[::1]:8600", "localhost:8600". */
int serve_listen_tcp(const char *address, int *ret, struct cay_error *err);
