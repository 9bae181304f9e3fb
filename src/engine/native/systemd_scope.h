/*
 * systemd_scope.h: a cgroup of our own from systemd, for an ordinary user who has none.
 *
 * The asking is done by a program of its own, cay-scope (cay-scope.c), so that cay
 * itself needs no D-Bus. It is looked for beside cay and in ../libexec/cay.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Asks the caller's systemd for a delegated scope, and waits until this process
 * has been moved into it: 0. Otherwise -1, with one line in why; it stays empty
 * where there is nobody to ask (no user session under systemd). Never as root,
 * who needs no scope and must run nothing that merely lies beside cay.
 */
int scope_ask(char *why, size_t size);

/*
 * Is this cgroup, an open directory and its name, a unit of systemd that was
 * not delegated? The user's own systemd runs under the user's id, so that all
 * of its units may be written to; but it may take controllers away again at
 * any time where it has not promised to leave them.
 */
bool scope_is_systemds(int dir, const char *name);
