/*
 * limit.h: the limits by name, one row each: everyone who reads, checks or
 * prints a limit goes through this table.
 */
#pragma once

#include "core/error.h"
#include "core/limits.h"

#include <stddef.h>
#include <stdint.h>

enum limit_unit { LIMIT_BYTES, LIMIT_MILLI, LIMIT_COUNT, LIMIT_TIME };

struct limit_row {
	const char *name; /* as in the API: "memory", "cpu_time" */
	enum limit_unit unit;
	size_t offset; /* in struct limits, of a uint64_t */
	uint64_t initial, min, max;
};

struct json;

extern const struct limit_row limit_rows[];
extern const size_t n_limit_rows;

const struct limit_row *limit_find(const char *name);

/* Its bit in a set of limits. */
unsigned limit_bit(const struct limit_row *row);

uint64_t limit_get(const struct limits *l, const struct limit_row *row);
void limit_set(struct limits *l, const struct limit_row *row, uint64_t value);

/* Parses text as the value of the limit called name. CAY_E_INVALID says what is expected. */
int limit_parse(struct limits *l, const char *name, const char *text, struct cay_error *err);

/*
 * Whether none of l is above maximum, where 0 is no maximum, and none is unlimited where
 * there is one. CAY_E_POLICY names the first.
 */
int limits_check(const struct limits *l, const struct limits *maximum, struct cay_error *err);

/* By name, as the API has them; null: not limited. */
struct json *limits_json(const struct limits *l);

/* How many files and directories a writable file system of that size may have. */
uint64_t limit_inodes(uint64_t disk_bytes);

/* "512 MiB", "1.5", "60 s", "50" into text. */
const char *limit_format(const struct limit_row *row, uint64_t value, char *text, size_t size);
