#include "engine/rlimit.h"

#include <sys/resource.h>

int rlimit_lower(int resource, uint64_t value)
{
	struct rlimit now, want = {.rlim_cur = value, .rlim_max = value};

	if (getrlimit(resource, &now) < 0)
		return -1;
	if (resource == RLIMIT_CPU && value != RLIM_INFINITY)
		want.rlim_max = value + 1;
	if (now.rlim_max < want.rlim_max)
		want.rlim_max = now.rlim_max;
	if (want.rlim_max < want.rlim_cur)
		want.rlim_cur = want.rlim_max;
	return setrlimit(resource, &want);
}
