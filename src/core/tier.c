#include "core/tier.h"

#include <string.h>

static const char *const names[TIERS] = {
	[TIER_SANDBOX] = "sandbox",           [TIER_RESTRICTED] = "restricted",
	[TIER_STANDARD] = "standard",         [TIER_ELEVATED] = "elevated",
	[TIER_UNRESTRICTED] = "unrestricted",
};

const char *tier_name(enum tier t)
{
	return names[t];
}

enum tier tier_find(const char *name)
{
	enum tier t = TIER_SANDBOX;

	while (t < TIERS && strcmp(names[t], name) != 0)
		t++;
	return t;
}
