/*
 * terminal.h: GET /v1/sandboxes/{id}/terminal: a program on a terminal of a sandbox's,
 * over a WebSocket.
 *
 * Query: cols, rows (1 to PTY_SIDE_MAX; 80 and 24), term (xterm-256color), command (a
 * line for sh; without it an interactive shell); or terminal: the id of one that is
 * there already, with cols and rows where they have changed.
 *
 * Binary messages are bytes, both ways. Text from us:
 *   {"terminal":"term_…","sandbox":"sbx_…","replay":N}   the first; N bytes of what was
 *                                   printed before come next, the last of it
 *   {"exit":{"exit_code":N,"signal":N}}   one of them null; then we close with 1000
 *   {"error":{…}}                   what was asked for can't be done
 * Text from the client:
 *   {"resize":[cols,rows]}
 *   {"signal":"INT"}                INT, QUIT, TSTP: to the programs in the foreground.
 *                                   HUP: hangs up; what is still there after a few seconds is
 *                                   killed. TERM and KILL: kills all of the command, at once:
 *                                   nobody outside the island can send them softly. USR1 and
 *                                   USR2: an error for the same reason.
 * Anything else is closed with 1008.
 *
 * A terminal outlives its client by TERMINAL_LINGER_MS, and prints on: a client that
 * comes back with its id sees the last TERMINAL_KEPT bytes. It has one client: another
 * one takes over, and the first is closed with 4001. When the sandbox ends, 1001.
 */
#pragma once

#include "api/router.h"

struct loop;
struct terminals;

#define TERMINAL_MAX       8 /* of one sandbox */
#define TERMINAL_KEPT      ((size_t)256 << 10)
#define TERMINAL_LINGER_MS (5ull * 60 * 1000)
#define TERMINAL_HANGUP_MS 5000ull

/* NULL: out of memory. */
struct terminals *terminals_new(struct loop *loop);
/* After the server's end and before the sandboxes'. */
void terminals_free(struct terminals *all);

/* The daemon is about to end: clients are told (1001). */
void terminals_leave(struct terminals *all);

extern const struct route route_terminal;
