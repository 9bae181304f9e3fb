/* Numbers as people write them, against the same sums in 128 bits. */
#include "fuzz.h"

#include "base/parse.h"

#include <errno.h>
#include <strings.h>

__extension__ typedef unsigned __int128 wide;

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit sizes[] = {
	{"", 1},
	{"b", 1},
	{"k", 1ull << 10},
	{"kb", 1ull << 10},
	{"kib", 1 << 10},
	{"m", 1ull << 20},
	{"mb", 1ull << 20},
	{"mib", 1ull << 20},
	{"g", 1 << 30},
	{"gb", 1 << 30},
	{"gib", 1ull << 30},
	{"t", 1ull << 40},
	{"tb", 1ull << 40},
	{"tib", 1ull << 40},
};
static const struct unit times[] = {
	{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
static const struct unit plain[] = {{"", 1000}};

/* What text means in thousandths of the unit; false: nothing, or more than fits a number. */
static bool value_of(const char *s, const struct unit *units, size_t n, wide *ret)
{
	wide milli = 0;
	unsigned scale = 1000;
	size_t digits = strspn(s, "0123456789");

	if (digits == 0)
		return false;
	for (; digits > 0; digits--, s++) {
		milli = milli * 10 + (wide)(*s - '0') * 1000;
		if (milli > (wide)UINT64_MAX)
			return false;
	}
	if (*s == '.') {
		if (strspn(++s, "0123456789") == 0)
			return false;
		for (; *s >= '0' && *s <= '9'; s++)
			milli += (wide)(*s - '0') * (scale /= 10);
	}
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(s, units[i].name) == 0) {
			*ret = milli * units[i].factor / 1000;
			return milli <= (wide)UINT64_MAX && *ret <= (wide)UINT64_MAX;
		}
	return false;
}

typedef int parse_fn(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

static void check(const char *s, parse_fn *parse, const struct unit *units, size_t n)
{
	uint64_t got = 42;
	wide expected = 0;
	int r = parse(s, 0, UINT64_MAX, &got);

	CHECK(r == 0 || ((r == -EINVAL || r == -ERANGE) && got == 42));
	CHECK((r == 0) == value_of(s, units, n, &expected));
	if (r < 0)
		return;
	CHECK(got == expected);
	CHECK(parse(s, got, got, &got) == 0 && got == expected);
	if (got < UINT64_MAX)
		CHECK(parse(s, got + 1, UINT64_MAX, &got) == -ERANGE && got == expected);
	if (got > 0)
		CHECK(parse(s, 0, got - 1, &got) == -ERANGE && got == expected);
}

static void check_whole(const char *s)
{
	uint64_t v = 42;
	char text[32];

	if (parse_u64(s, 0, UINT64_MAX, &v) < 0) {
		CHECK(v == 42);
		return;
	}
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	while (s[0] == '0' && s[1])
		s++;
	CHECK(strcmp(s, text) == 0);
}

static void check_format(const char *s)
{
	uint64_t v;
	char text[32];

	if (parse_size(s, 0, UINT64_MAX, &v) == 0)
		CHECK(strlen(format_size(v, text, sizeof(text))) < sizeof(text) - 1);
	if (parse_duration(s, 0, UINT64_MAX, &v) == 0)
		CHECK(strlen(format_duration(v, text, sizeof(text))) < sizeof(text) - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *s = input_rest(&in);
	int b = 7;

	check_whole(s);
	check(s, parse_size, sizes, ARRAY_LEN(sizes));
	check(s, parse_duration, times, ARRAY_LEN(times));
	check(s, parse_milli, plain, ARRAY_LEN(plain));
	check_format(s);
	CHECK(parse_bool(s, &b) == 0 ? b == 0 || b == 1 : b == 7);
	return 0;
}
