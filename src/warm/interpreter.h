/*
 * interpreter.h: what a zygote's engine half (which makes islands) and its interpreter half (which
 * runs programs) know of each other. Both are in one shared object that the interpreter loads.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct interpreter {
	/* fork(), with the interpreter's own hooks before and after. */
	pid_t (*fork)(void);
	/* In the program's process, before it waits for its order: what can be done ahead. */
	void (*ready)(void);
	/*
	 * In the program's process: runs it to its end, and never returns. argv is exactly what a
	 * cold start would have executed (argv[0] the interpreter's path), env all of its
	 * environment
	 * ("NAME=VALUE"); both stay the caller's memory and live as long as the process. The
	 * directory is the program's, fds are those that an executed program would have, signals
	 * are at their defaults and not blocked; user, limits and filter are in force. What can't
	 * be done exactly as cold is executed: the filter must allow execve.
	 */
	__attribute__((noreturn)) void (*run)(char **argv, char **env);
	/* Files that were loaded have changed: this zygote shall serve no more. Cheap to ask often.
	 */
	bool (*stale)(void);
};

/* The engine's half: serves until the socket's other end is closed. Signals are as Python left
 * them. */
__attribute__((noreturn)) void zygote_serve(int sock, const struct interpreter *in);
