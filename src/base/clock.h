/*
 * clock.h: monotonic time, and the wall's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t clock_now_ns(void);

static inline int64_t clock_now_ms(void)
{
	return (int64_t)(clock_now_ns() / 1000000);
}

/* Milliseconds since 1970, of a clock that may be set: for people, not for spans. */
int64_t clock_wall_ms(void);

struct rusage;

/* The CPU time in it, in user and kernel together. */
uint64_t clock_cpu_us(const struct rusage *r);

static inline double clock_ms_since(uint64_t start_ns)
{
	return (double)(clock_now_ns() - start_ns) / 1e6;
}

/*
 * Times of files, in ns since 1970. Most go by ticks, some by the clock itself (Linux 6.13): none
 * that was changed by now is newer than this moment, and all that are changed when it is older than
 * the tick are.
 */
uint64_t clock_file_now_ns(void);
bool clock_file_is_over(uint64_t moment_ns);
