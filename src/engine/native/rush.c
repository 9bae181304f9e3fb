#include "engine/native/rush.h"

size_t rush_count(struct rush *r, int64_t now_ms)
{
	int64_t span = now_ms / RUSH_MS;

	if (span != r->span) {
		r->before = span == r->span + 1 ? r->now : 0;
		r->now = 0;
		r->span = span;
	}
	return r->now + r->before;
}

int64_t rush_begin(struct rush *r, int64_t now_ms)
{
	(void)rush_count(r, now_ms);
	r->now++;
	return r->span;
}

void rush_end(struct rush *r, int64_t began, int64_t now_ms)
{
	(void)rush_count(r, now_ms);
	if (began == r->span)
		r->now--;
	else if (began == r->span - 1)
		r->before--;
}
