#include "base/parse.h"

#include "base/attr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * Reads digits[.digits] as a number of thousandths, so that nothing passes
 * through floating point. *ret_end points behind it.
 */
static int read_milli(const char *s, uint64_t *ret, const char **ret_end)
{
	uint64_t whole = 0, part = 0, unit = 100;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(whole, 10u, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return -ERANGE;
	if (p == s)
		return -EINVAL;
	if (*p == '.') {
		const char *start = ++p;

		for (; *p >= '0' && *p <= '9'; p++, unit /= 10)
			part += (uint64_t)(*p - '0') * unit;
		if (p == start)
			return -EINVAL;
	}
	if (__builtin_mul_overflow(whole, 1000u, &whole) ||
	    __builtin_add_overflow(whole, part, &whole))
		return -ERANGE;
	*ret = whole;
	*ret_end = p;
	return 0;
}

static int check_range(uint64_t v, uint64_t min, uint64_t max, uint64_t *ret)
{
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	}
	return check_range(v, min, max, ret);
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int find_unit(const struct unit *units, size_t n, const char *name, uint64_t *ret)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(units[i].name, name) == 0) {
			*ret = units[i].factor;
			return 0;
		}
	return -EINVAL;
}

/* v thousandths of a unit of factor, exact where it can be. */
static int scale(uint64_t milli, uint64_t factor, uint64_t *ret)
{
	uint64_t whole, part;

	if (__builtin_mul_overflow(milli / 1000, factor, &whole))
		return -ERANGE;
	part = milli % 1000 * (factor / 1000) + milli % 1000 * (factor % 1000) / 1000;
	return __builtin_add_overflow(whole, part, ret) ? -ERANGE : 0;
}

static int parse_with_unit(const char *s, const struct unit *units, size_t n, uint64_t min,
			   uint64_t max, uint64_t *ret)
{
	uint64_t milli, factor = 1, v = 0;
	const char *end;
	int r = read_milli(s, &milli, &end);

	if (r == 0)
		r = find_unit(units, n, end, &factor);
	if (r == 0)
		r = scale(milli, factor, &v);
	return r < 0 ? r : check_range(v, min, max, ret);
}

int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"b", 1},
		{"k", 1ull << 10},
		{"kb", 1ull << 10},
		{"kib", 1ull << 10},
		{"m", 1ull << 20},
		{"mb", 1ull << 20},
		{"mib", 1ull << 20},
		{"g", 1ull << 30},
		{"gb", 1ull << 30},
		{"gib", 1ull << 30},
		{"t", 1ull << 40},
		{"tb", 1ull << 40},
		{"tib", 1ull << 40},
	};

	return parse_with_unit(s, units, ARRAY_LEN(units), min, max, ret_bytes);
}

int parse_duration(const char *s, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms)
{
	static const struct unit units[] = {
		{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60ull * 1000}, {"h", 3600ull * 1000},
	};

	return parse_with_unit(s, units, ARRAY_LEN(units), min_ms, max_ms, ret_ms);
}

int parse_milli(const char *s, uint64_t min, uint64_t max, uint64_t *ret_milli)
{
	const char *end;
	uint64_t v;
	int r = read_milli(s, &v, &end);

	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	return check_range(v, min, max, ret_milli);
}

int parse_bool(const char *s, int *ret)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		for (int v = 0; v < 2; v++)
			if (strcasecmp(s, words[i][v]) == 0) {
				*ret = v;
				return 0;
			}
	return -EINVAL;
}

const char *format_size(uint64_t bytes, char *text, size_t size)
{
	static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	uint64_t unit = 1;
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(names) && bytes / unit >= 1024) {
		unit *= 1024;
		i++;
	}
	if (bytes % unit == 0)
		(void)snprintf(text, size, "%llu %s", (unsigned long long)(bytes / unit), names[i]);
	else
		(void)snprintf(text, size, "%.1f %s", (double)bytes / (double)unit, names[i]);
	return text;
}

const char *format_duration(uint64_t ms, char *text, size_t size)
{
	if (ms < 1000)
		(void)snprintf(text, size, "%llu ms", (unsigned long long)ms);
	else if (ms % 1000 == 0)
		(void)snprintf(text, size, "%llu s", (unsigned long long)(ms / 1000));
	else
		(void)snprintf(text, size, "%.1f s", (double)ms / 1000.0);
	return text;
}
