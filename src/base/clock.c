#include "base/clock.h"

#include <sys/resource.h>
#include <time.h>

uint64_t clock_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int64_t clock_wall_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

uint64_t clock_cpu_us(const struct rusage *r)
{
	return (uint64_t)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(r->ru_utime.tv_usec + r->ru_stime.tv_usec);
}

static uint64_t read_ns(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_file_now_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

bool clock_file_is_over(uint64_t moment_ns)
{
	return read_ns(CLOCK_REALTIME_COARSE) > moment_ns;
}
