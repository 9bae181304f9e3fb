#include "core/limit.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/parse.h"

#include <stdio.h>
#include <string.h>

#define ROW(n, u, field, d, lo, hi)                                                 \
	{                                                                           \
		.name = (n), .unit = (u), .offset = offsetof(struct limits, field), \
		.initial = (d), .min = (lo), .max = (hi)                            \
	}

const struct limit_row limit_rows[] = {
	ROW("memory", LIMIT_BYTES, memory_bytes, LIMIT_DEFAULT_MEMORY, LIMIT_MIN_MEMORY,
	    LIMIT_MAX_MEMORY),
	ROW("cpus", LIMIT_MILLI, cpus_milli, LIMIT_DEFAULT_CPUS_MILLI, LIMIT_MIN_CPUS_MILLI,
	    LIMIT_MAX_CPUS_MILLI),
	ROW("pids", LIMIT_COUNT, pids, LIMIT_DEFAULT_PIDS, LIMIT_MIN_PIDS, LIMIT_MAX_PIDS),
	ROW("disk", LIMIT_BYTES, disk_bytes, LIMIT_DEFAULT_DISK, LIMIT_MIN_DISK, LIMIT_MAX_DISK),
	ROW("timeout", LIMIT_TIME, timeout_ms, LIMIT_DEFAULT_TIMEOUT_MS, LIMIT_MIN_TIME_MS,
	    LIMIT_MAX_TIME_MS),
	ROW("cpu_time", LIMIT_TIME, cpu_time_ms, 0, LIMIT_MIN_TIME_MS, LIMIT_MAX_TIME_MS),
	ROW("output", LIMIT_BYTES, output_bytes, LIMIT_DEFAULT_OUTPUT, LIMIT_MIN_OUTPUT,
	    LIMIT_MAX_OUTPUT),
	ROW("open_files", LIMIT_COUNT, open_files, LIMIT_DEFAULT_OPEN_FILES, LIMIT_MIN_OPEN_FILES,
	    LIMIT_MAX_OPEN_FILES),
	ROW("file_size", LIMIT_BYTES, file_size_bytes, 0, LIMIT_MIN_FILE_SIZE, LIMIT_MAX_FILE_SIZE),
};
const size_t n_limit_rows = ARRAY_LEN(limit_rows);

const struct limit_row *limit_find(const char *name)
{
	for (size_t i = 0; i < n_limit_rows; i++)
		if (strcmp(limit_rows[i].name, name) == 0)
			return &limit_rows[i];
	return NULL;
}

unsigned limit_bit(const struct limit_row *row)
{
	return 1u << (row - limit_rows);
}

uint64_t limit_get(const struct limits *l, const struct limit_row *row)
{
	uint64_t v;

	memcpy(&v, (const char *)l + row->offset, sizeof(v));
	return v;
}

void limit_set(struct limits *l, const struct limit_row *row, uint64_t value)
{
	memcpy((char *)l + row->offset, &value, sizeof(value));
}

int limits_check(const struct limits *l, const struct limits *maximum, struct cay_error *err)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t v = limit_get(l, &limit_rows[i]), max = limit_get(maximum, &limit_rows[i]);

		if (max && (v == 0 || v > max))
			return cay_fail(err, CAY_E_POLICY, 0,
					"the limit %s is above the operator's maximum",
					limit_rows[i].name);
	}
	return 0;
}

struct json *limits_json(const struct limits *l)
{
	struct json *o = json_new_object();

	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t v = limit_get(l, row);

		if (v == 0)
			json_set_null(o, row->name);
		else if (row->unit == LIMIT_MILLI || row->unit == LIMIT_TIME)
			json_set_real(o, row->name, (double)v / 1000);
		else
			json_set_int(o, row->name, (int64_t)v);
	}
	return o;
}

static int parse_value(const struct limit_row *row, const char *text, uint64_t *ret)
{
	switch (row->unit) {
	case LIMIT_BYTES:
		return parse_size(text, row->min, row->max, ret);
	case LIMIT_MILLI:
		return parse_milli(text, row->min, row->max, ret);
	case LIMIT_TIME:
		return parse_duration(text, row->min, row->max, ret);
	case LIMIT_COUNT:
		break;
	}
	return parse_u64(text, row->min, row->max, ret);
}

static const char *example(enum limit_unit unit)
{
	switch (unit) {
	case LIMIT_BYTES:
		return "a size such as 512m or 1g";
	case LIMIT_MILLI:
		return "a number such as 0.5 or 2";
	case LIMIT_TIME:
		return "seconds, or a time such as 500ms, 10s, 5m";
	case LIMIT_COUNT:
		break;
	}
	return "a whole number";
}

const char *limit_format(const struct limit_row *row, uint64_t value, char *text, size_t size)
{
	switch (row->unit) {
	case LIMIT_BYTES:
		return format_size(value, text, size);
	case LIMIT_TIME:
		return format_duration(value, text, size);
	case LIMIT_MILLI:
		(void)snprintf(text, size, "%g", (double)value / 1000.0);
		return text;
	case LIMIT_COUNT:
		break;
	}
	(void)snprintf(text, size, "%llu", (unsigned long long)value);
	return text;
}

int limit_parse(struct limits *l, const char *name, const char *text, struct cay_error *err)
{
	const struct limit_row *row = limit_find(name);
	char low[32], high[32];
	uint64_t v;

	if (!row)
		return cay_fail(err, CAY_E_INVALID, 0, "no limit is called '%.64s'", name);
	if (parse_value(row, text, &v) < 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"the limit %s can't be '%.64s': expected %s, from %s to %s", name,
				text, example(row->unit),
				limit_format(row, row->min, low, sizeof(low)),
				limit_format(row, row->max, high, sizeof(high)));
	limit_set(l, row, v);
	return 0;
}

uint64_t limit_inodes(uint64_t disk_bytes)
{
	uint64_t inodes = disk_bytes / (1 << 20) * INODES_PER_MIB;

	return inodes < INODES_MIN ? INODES_MIN : inodes > INODES_MAX ? INODES_MAX : inodes;
}
