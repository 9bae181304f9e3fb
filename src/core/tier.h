/*
 * tier.h: how much a caller is trusted with, from little to all. What a tier brings is the
 * operator's to say (settings.h).
 */
#pragma once

enum tier { TIER_SANDBOX, TIER_RESTRICTED, TIER_STANDARD, TIER_ELEVATED, TIER_UNRESTRICTED, TIERS };

const char *tier_name(enum tier t);

/* TIERS: none is called so. */
enum tier tier_find(const char *name);
