#include "egress/rate.h"

#define SECOND_NS 1000000000ull

/* Less than this at once costs more than it is worth. */
#define LEAST_BYTES 4096

struct rate rate_of_bytes(uint64_t per_second)
{
	uint64_t most = per_second / 10;

	return (struct rate){.per_second = per_second,
			     .most = most > LEAST_BYTES ? most : LEAST_BYTES,
			     .least = LEAST_BYTES};
}

struct rate rate_of_things(uint64_t per_second)
{
	return (struct rate){.per_second = per_second, .most = per_second, .least = 1};
}

size_t rate_room(struct rate *r, uint64_t now_ns)
{
	uint64_t passed = now_ns - r->at_ns;
	uint64_t more;

	if (r->per_second == 0)
		return SIZE_MAX;
	/* Of a long time only the last second counts, which also keeps the product in bounds. */
	more = passed >= SECOND_NS ? r->most
				   : (uint64_t)((double)passed / SECOND_NS * (double)r->per_second);
	if (r->level + more >= r->most) {
		r->level = r->most;
		r->at_ns = now_ns;
	} else if (more > 0) {
		r->level += more;
		/* What is less than one now is part of the next. */
		r->at_ns += (uint64_t)((double)more / (double)r->per_second * SECOND_NS);
	}
	return r->level < r->least ? 0 : r->level;
}

void rate_use(struct rate *r, size_t n)
{
	r->level -= n < r->level ? n : r->level;
}
