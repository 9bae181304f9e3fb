/*
 * rows.h: which sections and keys a settings file has: all there is to know about a key stands
 * here and in limit_rows[].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum row_kind {
	ROW_BOOL,
	ROW_COUNT,      /* a uint64_t */
	ROW_SIZE,       /* the same, in bytes */
	ROW_VERSION,    /* a char * */
	ROW_WORD,       /* a char *: a name without white space */
	ROW_PATH,       /* a char *: an absolute path */
	ROW_PATHS,      /* a struct strv of absolute paths */
	ROW_HOME_PATHS, /* the same, or from "~/" on */
	ROW_HOSTS,      /* a struct strv of host names */
	ROW_MODE,       /* an enum mode */
	ROW_USER,       /* a char *: a user's name or number */
	ROW_NETWORK,    /* an enum network_mode; NETWORK_MODES: none is said */
	ROW_RULES,      /* a struct strv of rules for domains, as core/domain.h writes them */
	ROW_WORDS,      /* a struct strv of words without white space: references, globs of them */
	ROW_ALIASES,    /* a struct strv of NAME=REFERENCE */
	ROW_SETS,       /* a struct strv of NAME=MODULE,MODULE */
	ROW_PULL,       /* an enum pull */
	ROW_REGISTRIES, /* a struct strv of registries' names, as core/registry.h writes them */
	ROW_MIRRORS,    /* a struct strv of REGISTRY=URL, the same */
	ROW_LIVE,       /* an enum live_mode */
	ROW_ADDRESSES,  /* a struct strv of rules for addresses (core/address.h) */
	ROW_TIME,       /* a uint64_t of ms */
	ROW_ENGINES,    /* an unsigned: bits of enum spec_engine */
	ROW_MOUNTS,     /* an enum tier_mounts */
	ROW_TIER,       /* an enum tier; TIERS: none is said */
	ROW_IMAGE,      /* a char *: as one of ROW_WORDS */
	ROW_DIRECTORY, /* a char *: a path of ROW_PATH, with ":ro" or ":rw" behind it, or nothing */
	ROW_RISKS,     /* a struct strv of rules as spec/risk.h reads them */
};

struct row {
	const char *key;
	enum row_kind kind;
	size_t offset;         /* in what the section describes */
	uint64_t initial, max; /* ROW_COUNT, ROW_SIZE, ROW_TIME; initial also of words, ROW_BOOL */
	uint64_t min;
};

enum section_names {
	SECTION_ALONE,    /* [section] */
	SECTION_LANGUAGE, /* [section NAME], one struct language_settings for each */
	SECTION_TIER,     /* the same with struct tier_settings, by enum tier */
};

/* In the order of the example file. What it has: rows, then the limits. */
struct section {
	const char *name;
	size_t offset; /* in struct settings, of what the keys describe */
	const struct row *rows;
	size_t n_rows;
	bool has_limits;
	size_t limits_offset; /* in what the keys describe, of a struct limits */
	bool unlimited;       /* limits are 0 until set, and each may be 0 */
	enum section_names names;
};

extern const struct section sections[];
extern const size_t n_sections;

size_t section_keys(const struct section *sec);
const char *section_key(const struct section *sec, size_t i);
