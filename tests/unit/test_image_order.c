/* What the api may ask of the process that starts cay-image: a name and a platform. */
#include "image_support.h"

#include "image/order.h"

static struct settings settings;

static int begin(void **state)
{
	(void)state;
	settings_init(&settings);
	return 0;
}

static int end(void **state)
{
	(void)state;
	settings_done(&settings);
	return 0;
}

static struct image_order make(enum image_order_kind kind, const char *name, const char *platform)
{
	struct image_order o;
	struct cay_error err;

	if (image_order_make(&settings, kind, name, platform, &o, &err) < 0)
		fail_msg("%s: %s", name, err.text);
	return o;
}

static void is_refused(const struct image_order *o, size_t len)
{
	struct cay_error err = {0};

	assert_int_equal(image_order_check(o, len, &settings, &err), -1);
	assert_int_not_equal(err.code, CAY_OK);
}

static void orders_are_written_in_full(void **state)
{
	struct image_order pull = make(IMAGE_ORDER_PULL, "python:3.12-slim", "linux/arm/v7");
	struct image_order rm = make(IMAGE_ORDER_RM, "aaaaaaaaaaaa", NULL);
	struct cay_error err;

	(void)state;
	assert_string_equal(pull.name, PYTHON_312);
	assert_string_equal(pull.platform, "linux/arm/v7");
	assert_string_equal(rm.name, "aaaaaaaaaaaa");
	assert_int_equal(image_order_check(&pull, sizeof(pull), &settings, &err), 0);
	assert_int_equal(image_order_check(&rm, sizeof(rm), &settings, &err), 0);
}

static void what_is_no_order_is_refused(void **state)
{
	static const char *const names[] = {"",     "host", "-x",          "--all",
					    "../x", "a b",  "aaaaaaaaaaaa"};
	static const char *const platforms[] = {"linux",        "-a/b", "linux/--x",
						"a/b/c/d",      "a//b", "A/b",
						"linux/arm64 ", "/a/b", "./.."};
	struct image_order o;
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(
			image_order_make(&settings, IMAGE_ORDER_PULL, names[i], NULL, &o, &err),
			-1);
	for (size_t i = 0; i < ARRAY_LEN(platforms); i++)
		assert_int_equal(
			image_order_make(&settings, IMAGE_ORDER_PULL, "x", platforms[i], &o, &err),
			-1);
}

/* The same again, by who believes nothing. */
static void packets_are_checked(void **state)
{
	const struct image_order good = make(IMAGE_ORDER_PULL, "x", NULL);
	struct image_order o = good;

	(void)state;
	is_refused(&o, sizeof(o) - 1);
	is_refused(&o, 0);
	o.kind = IMAGE_ORDER_KINDS;
	is_refused(&o, sizeof(o));
	o = good;
	memset(o.name, 'a', sizeof(o.name));
	is_refused(&o, sizeof(o));
	o = good;
	memset(o.platform, 'a', sizeof(o.platform));
	is_refused(&o, sizeof(o));
	o = good;
	(void)snprintf(o.platform, sizeof(o.platform), "--all");
	is_refused(&o, sizeof(o));
	o = good;
	(void)snprintf(o.name, sizeof(o.name), "x"); /* not in full */
	is_refused(&o, sizeof(o));
	(void)snprintf(o.name, sizeof(o.name), "--progress");
	is_refused(&o, sizeof(o));
	(void)snprintf(o.name, sizeof(o.name), IMAGE_HOST);
	is_refused(&o, sizeof(o));
}

static void only_what_is_allowed_is_pulled(void **state)
{
	const struct image_order other = make(IMAGE_ORDER_PULL, "other", NULL);
	struct image_order rm = make(IMAGE_ORDER_RM, "other", NULL);
	struct cay_error err;

	(void)state;
	assert_int_equal(settings_parse(&settings, "F", "[images]\nallow = python:*\n", &err), 0);
	is_refused(&other, sizeof(other));
	(void)make(IMAGE_ORDER_PULL, "python:3", NULL);
	assert_int_equal(image_order_check(&rm, sizeof(rm), &settings, &err), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(orders_are_written_in_full),
		TEST(what_is_no_order_is_refused),
		TEST(packets_are_checked),
		TEST(only_what_is_allowed_is_pulled),
	};

	return cmocka_run_group_tests_name("image_order", tests, NULL, NULL);
}
