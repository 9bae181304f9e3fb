/* Versions, three of them, one a line: comparing them is an order. */
#include "fuzz.h"

#include "spec/version.h"

static int sign(int v)
{
	return (v > 0) - (v < 0);
}

static void check_one(const char *v)
{
	CHECK(version_compare(v, v) == 0);
	if (version_valid(v))
		CHECK(v[0] && strlen(v) < VERSION_SIZE && version_matches(v, v));
	if (version_is_request(v))
		CHECK(version_valid(v));
	CHECK(version_compare("", v) <= 0 || !version_valid(v));
}

static void check_two(const char *a, const char *b)
{
	CHECK(sign(version_compare(a, b)) == -sign(version_compare(b, a)));
	if (version_valid(a) && version_is_request(b) && version_matches(a, b)) {
		CHECK(strlen(a) >= strlen(b));
		/* One that was asked for is not before what was asked for. */
		CHECK(version_compare(a, b) >= 0);
	}
}

static void check_three(const char *a, const char *b, const char *c)
{
	if (version_valid(a) && version_valid(b) && version_valid(c) &&
	    version_compare(a, b) <= 0 && version_compare(b, c) <= 0)
		CHECK(version_compare(a, c) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *a = input_line(&in);
	_cleanup_(freep) char *b = input_line(&in);
	_cleanup_(freep) char *c = input_rest(&in);

	check_one(a);
	check_one(b);
	check_one(c);
	check_two(a, b);
	check_two(b, c);
	check_two(a, c);
	check_three(a, b, c);
	check_three(b, c, a);
	check_three(c, a, b);
	return 0;
}
