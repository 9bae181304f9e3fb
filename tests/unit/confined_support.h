/*
 * confined_support.h: for tests of processes that confine themselves for good: each part in a
 * child of its own.
 */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In the child there is no cmocka: the line that failed is told by hand. */
#define MUST(condition)                                                              \
	do {                                                                         \
		if (!(condition)) {                                                  \
			(void)dprintf(2, "line %d: %s (%s)\n", __LINE__, #condition, \
				      strerror(errno));                              \
			_exit(1);                                                    \
		}                                                                    \
	} while (0)

#define DENIED(call, why) MUST((call) < 0 && errno == (why))

static inline void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}
