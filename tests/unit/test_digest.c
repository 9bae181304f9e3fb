/* SHA-256 as images write it. */
#include "image/digest.h"

#include "base/attr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* FIPS 180-2, B.1 and B.2. */
#define OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define OF_ABC     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static void known_ones(void **state _unused_)
{
	char hex[IMAGE_ID_SIZE];

	assert_int_equal(digest_of("", 0, hex), 0);
	assert_string_equal(hex, OF_NOTHING);
	assert_int_equal(digest_of("abc", 3, hex), 0);
	assert_string_equal(hex, OF_ABC);
}

static void in_pieces(void **state _unused_)
{
	_cleanup_(digest_freep) struct digest *d = digest_new();
	char hex[IMAGE_ID_SIZE];

	assert_non_null(d);
	digest_add(d, "a", 1);
	digest_add(d, "", 0);
	digest_add(d, "bc", 2);
	digest_end(d, hex);
	assert_string_equal(hex, OF_ABC);
}

static void parsed(void **state _unused_)
{
	static const char *const wrong[] = {
		"",
		"sha256:",
		OF_ABC,
		"sha512:" OF_ABC,
		"sha256:" OF_ABC "0",
		"SHA256:" OF_ABC,
		"sha256:"
		"BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
		"sha256:../../../../../../../../../../../../../../../../../../../../../x",
	};
	char hex[IMAGE_ID_SIZE];

	assert_int_equal(digest_parse("sha256:" OF_ABC, hex), 0);
	assert_string_equal(hex, OF_ABC);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(digest_parse(wrong[i], hex), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_ones),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
