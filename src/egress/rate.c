#include "egress/rate.h"

#define SECOND_NS 1000000000ull

/* Less than this at once costs more than it is worth. */
#define LEAST 4096

size_t rate_room(struct rate *r, uint64_t now_ns)
{
	uint64_t most = r->per_second / 10 > LEAST ? r->per_second / 10 : LEAST;
	uint64_t passed = now_ns - r->at_ns;
	uint64_t more;

	if (r->per_second == 0)
		return SIZE_MAX;
	/* Of a long time only the last second counts, which also keeps the product in bounds. */
	more = passed >= SECOND_NS ? most
				   : (uint64_t)((double)passed / SECOND_NS * (double)r->per_second);
	if (more > 0) {
		r->level = r->level + more < most ? r->level + more : most;
		r->at_ns = now_ns;
	}
	return r->level < LEAST && r->level < most ? 0 : r->level;
}

void rate_use(struct rate *r, size_t bytes)
{
	r->level -= bytes < r->level ? bytes : r->level;
}
