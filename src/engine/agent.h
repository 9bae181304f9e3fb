/*
 * agent.h: the files agent. It serves one operation on files from inside an
 * island, as the island's user with the whole confinement on: whatever a path, a
 * symlink or a race may lead to is what user code can reach as well.
 *
 * PID 1 forks it. It execs nothing, makes no process and no thread, and uses only
 * system calls that the island's filter allows.
 */
#pragma once

/*
 * Reads a request from in_fd, answers on out_fd (two pipes; agent_wire.h). Relative
 * paths are below base. layers: where the workspace is an overlay, its directory of the
 * scratch (overlay.h); else -1. 0 when the operation succeeded, -1 when it did not, which
 * the other side has been told if it was there. Signals are changed: call it in a
 * process of its own.
 */
int agent_serve(const char *base, int in_fd, int out_fd, int layers);
