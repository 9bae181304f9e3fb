/*
 * clock.h: monotonic time.
 */
#pragma once

#include <stdint.h>

uint64_t clock_now_ns(void);

static inline double clock_ms_since(uint64_t start_ns)
{
	return (double)(clock_now_ns() - start_ns) / 1e6;
}
