/*
 * clock.h: monotonic time, and the wall's.
 */
#pragma once

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
