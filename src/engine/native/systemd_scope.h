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
 * Asks the caller's systemd for a delegated cgroup: 0 when this process is in one, which
 * is a scope that it has been moved to, or the service whose main process it is. Otherwise
 * -1, with one line in why; it stays empty where there is nobody to ask (no user session
 * under systemd). Never as root, who needs no scope and must run nothing that merely lies
 * beside cay.
 */
int scope_ask(char *why, size_t size);

/*
 * Of a cgroup, by its open directory and its name: it is no unit of systemd, or one that
 * was delegated. The user's own systemd runs under the user's id, so that all of its units
 * may be written to; but it may take controllers away again at any time where it has not
 * promised to leave them.
 */
bool scope_is_free(int dir, const char *name);

/*
 * For root, who may write everywhere: it is a unit that the system's own manager delegated.
 * Not by a user's word: root's sandboxes don't belong in what a user can freeze.
 */
bool scope_is_given(int dir, const char *name);

/* Says of a unit that it was delegated to us, which a user's systemd does from 253 on. */
void scope_mark(int dir);
