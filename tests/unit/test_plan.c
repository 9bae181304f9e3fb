/* Plans as they are made. */
#include "plan_support.h"

static void head(void **state)
{
	_cleanup_(freep) struct plan *p = NULL, *q = NULL;

	(void)state;
	use_code("python", "1");
	p = make(runtime, NULL);
	q = make(runtime, NULL);
	assert_int_equal(p->magic, PLAN_MAGIC);
	assert_int_equal(strncmp(p->id, "run_", 4), 0);
	assert_int_equal(strlen(p->id), 20);
	assert_string_not_equal(p->id, q->id);
	assert_string_equal(plan_str(p, 0), "");
	assert_string_equal(plan_str(p, p->workdir), "/workspace");
	assert_int_equal(p->n_mounts, 0);
	assert_int_equal(p->scratch_workspace, 1);
	assert_int_equal(p->allow_degraded, 0);
}

static void argv_of_code(void **state)
{
	_cleanup_(freep) struct plan *p = NULL, *q = NULL;

	(void)state;
	use_code("python", "print(1)\n");
	add_args("a", "");
	p = make(runtime, NULL);
	CHECK_LIST(p, p->argv, "/usr/bin/python", "-c", "print(1)\n", "a", "");
	/* What follows sh -c CODE is $0 first: a name goes there, or an argument would be lost. */
	use_code("sh", "echo $1");
	q = make(runtime, NULL);
	CHECK_LIST(q, q->argv, "/usr/bin/sh", "-c", "--", "echo $1", "sh", "a", "");
}

static void argv_of_scripts(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;

	(void)state;
	use_code("sh", "unused");
	add_args("-x", "b c");
	p = make(runtime, "/workspace/main.sh");
	CHECK_LIST(p, p->argv, "/usr/bin/sh", "/workspace/main.sh", "-x", "b c");
}

static void argv_as_it_is(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;

	(void)state;
	spec->kind = SPEC_ARGV;
	add_args("ls", "-l");
	p = make(NULL, NULL);
	CHECK_LIST(p, p->argv, "ls", "-l");
}

/* Code is never taken for an option of its interpreter. */
static void code_may_begin_with_a_dash(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	const char *s;

	(void)state;
	use_code("sh", "-x");
	p = make(runtime, NULL);
	s = plan_next(plan_next(plan_first(p, p->argv)));
	assert_string_equal(s, "--");
	assert_string_equal(plan_next(s), "-x");
}

static void env_defaults(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;

	(void)state;
	/* Nothing of ours leaks in. */
	assert_int_equal(setenv("CAY_TEST_PLAN", "ours", 1), 0);
	add_args("ls", "-l");
	p = make(NULL, NULL);
	(void)unsetenv("CAY_TEST_PLAN");
	CHECK_LIST(p, p->env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		   "HOME=/workspace", "USER=cay", "LOGNAME=cay", "SHELL=/bin/sh", "TMPDIR=/tmp",
		   "LANG=C.UTF-8", "GOMEMLIMIT=483183819"); /* nine tenths of 512 MiB */
}

/* It may be read-only, and is somebody's: programs keep their caches and settings elsewhere. */
static void home_is_no_host_directory(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	add_args("ls", "-l");
	assert_int_equal(spec_set_workspace(spec, "proj:rw", &err), 0);
	p = make(NULL, NULL);
	assert_string_equal(env_of(p, "HOME"), "/tmp");
}

static void go_knows_the_memory_limit(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	add_args("ls", "-l");
	spec->limits.memory_bytes = 100 << 20;
	assert_int_equal(spec_add_env(spec, "LANG=C", &err), 0);
	p = make(NULL, NULL);
	assert_string_equal(env_of(p, "GOMEMLIMIT"), "94371840");
}

static void env_overrides(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	add_args("ls", "-l");
	assert_int_equal(spec_add_env(spec, "HOME=/tmp", &err), 0);
	assert_int_equal(spec_add_env(spec, "LANG=", &err), 0);
	assert_int_equal(spec_add_env(spec, "X=a=b", &err), 0);
	p = make(NULL, NULL);
	assert_int_equal(p->env.len, 9);
	assert_string_equal(env_of(p, "HOME"), "/tmp");
	assert_string_equal(env_of(p, "LANG"), "");
	assert_string_equal(env_of(p, "X"), "a=b");
	assert_string_equal(env_of(p, "USER"), "cay");
	/* The request is as it was. */
	assert_string_equal(spec->env.items[0], "HOME=/tmp");
	assert_string_equal(spec->env.items[2], "X=a=b");
}

static void mounts(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	use_code("python", "1");
	(void)snprintf(runtime->root, sizeof(runtime->root), "/opt/python");
	assert_int_equal(spec_add_mount(spec, "./data:/data", &err), 0);
	assert_int_equal(spec_add_mount(spec, "/out:/srv/out:rw", &err), 0);
	assert_int_equal(spec_set_workspace(spec, "proj:rw", &err), 0);
	assert_int_equal(spec_set_workdir(spec, "sub", &err), 0);
	spec->allow_degraded = true;
	p = make(runtime, NULL);
	assert_int_equal(p->n_mounts, 4);
	assert_int_equal(p->scratch_workspace, 0);
	assert_int_equal(p->allow_degraded, 1);
	assert_string_equal(plan_str(p, p->workdir), "/workspace/sub");
	assert_string_equal(plan_str(p, p->mounts[0].source), "/opt/python");
	assert_string_equal(plan_str(p, p->mounts[0].target), "/opt/python");
	assert_int_equal(p->mounts[0].kind, MOUNT_OPERATOR);
	assert_int_equal(p->mounts[0].access, ACCESS_READ);
	assert_string_equal(plan_str(p, p->mounts[1].source), "proj");
	assert_string_equal(plan_str(p, p->mounts[1].target), "/workspace");
	assert_int_equal(p->mounts[1].kind, MOUNT_REQUESTED);
	assert_int_equal(p->mounts[1].access, ACCESS_WRITE);
	assert_string_equal(plan_str(p, p->mounts[2].source), "./data");
	assert_string_equal(plan_str(p, p->mounts[2].target), "/data");
	assert_int_equal(p->mounts[2].access, ACCESS_READ);
	assert_string_equal(plan_str(p, p->mounts[3].target), "/srv/out");
	assert_int_equal(p->mounts[3].access, ACCESS_WRITE);
	assert_int_equal(p->mounts[3].kind, MOUNT_REQUESTED);
}

static void as_many_mounts_as_can_be_asked_for(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;
	char text[32];

	(void)state;
	use_code("python", "1");
	(void)snprintf(runtime->root, sizeof(runtime->root), "/opt/python");
	assert_int_equal(spec_set_workspace(spec, "proj", &err), 0);
	for (int i = 0; i < SPEC_MOUNTS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "/a%d:/b%d", i, i);
		assert_int_equal(spec_add_mount(spec, text, &err), 0);
	}
	p = make(runtime, NULL);
	assert_int_equal(p->n_mounts, PLAN_MOUNTS_MAX);
	assert_string_equal(plan_str(p, p->mounts[PLAN_MOUNTS_MAX - 1].target), "/b31");
}

static void targets_are_checked(void **state)
{
	static const char *const free_ones[] = {"/data",    "/devel",      "/etc2",
						"/tmpx",    "/workspaces", "/home",
						"/srv/usr", "/x/proc",     "/opt"};
	struct cay_error err;
	char text[64];

	(void)state;
	add_args("ls", "-l");
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		(void)snprintf(text, sizeof(text), "/a:%s", taken[i]);
		assert_int_equal(spec_add_mount(spec, text, &err), 0);
		check_refused(CAY_E_INVALID, taken[i]);
		free(spec->mounts[0].source);
		free(spec->mounts[0].target);
		spec->n_mounts = 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(free_ones); i++) {
		(void)snprintf(text, sizeof(text), "/a:%s", free_ones[i]);
		assert_int_equal(spec_add_mount(spec, text, &err), 0);
	}
	free(make(NULL, NULL));
}

static void limits_come_from_request_then_settings(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;

	(void)state;
	add_args("ls", "-l");
	spec->limits = (struct limits){.memory_bytes = 1 << 30, .cpu_time_ms = 5};
	settings.limits.pids = 7;
	p = make(NULL, NULL);
	assert_int_equal(p->limits.memory_bytes, 1 << 30);
	assert_int_equal(p->limits.cpu_time_ms, 5);
	assert_int_equal(p->limits.pids, 7);
	assert_int_equal(p->limits.disk_bytes, LIMIT_DEFAULT_DISK);
	assert_int_equal(p->limits.timeout_ms, LIMIT_DEFAULT_TIMEOUT_MS);
	assert_int_equal(p->limits.file_size_bytes, 0);
}

/* For every limit: past the maximum is refused by name, a default is lowered, none becomes it. */
static void maxima_hold(void **state)
{
	(void)state;
	add_args("ls", "-l");
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t max = row->min + 10;
		struct plan *p;

		settings.maximum = spec->limits = (struct limits){0};
		limit_set(&settings.maximum, row, max);
		limit_set(&spec->limits, row, max + 1);
		check_refused(CAY_E_POLICY, row->name);
		limit_set(&spec->limits, row, max);
		p = make(NULL, NULL);
		assert_int_equal(limit_get(&p->limits, row), max);
		free(p);
		limit_set(&spec->limits, row, max - 1);
		p = make(NULL, NULL);
		assert_int_equal(limit_get(&p->limits, row), max - 1);
		free(p);
		/* Not asked for: the default (or no limit at all) is above the maximum. */
		limit_set(&spec->limits, row, 0);
		p = make(NULL, NULL);
		assert_int_equal(limit_get(&p->limits, row), max);
		free(p);
	}
	settings.maximum = (struct limits){.memory_bytes = 256 << 20};
	spec->limits = (struct limits){.memory_bytes = 512 << 20};
	check_refused(CAY_E_POLICY,
		      "the limit memory of 512 MiB is above the operator's maximum of 256 MiB");
}

static void degraded_by_settings(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;

	(void)state;
	add_args("ls", "-l");
	settings.allow_degraded = true;
	p = make(NULL, NULL);
	assert_int_equal(p->allow_degraded, 1);
	free(p);
	settings.may_degrade = false;
	p = make(NULL, NULL);
	assert_int_equal(p->allow_degraded, 0);
	spec->allow_degraded = true;
	check_refused(CAY_E_POLICY, "the operator has every limit enforced");
}

static void size_is_bounded(void **state)
{
	char *big = malloc(PLAN_MAX_BYTES + 1);
	struct plan *p;
	size_t room;

	(void)state;
	assert_non_null(big);
	add_args("echo", "");
	p = make(NULL, NULL);
	room = PLAN_MAX_BYTES - p->size;
	free(p);
	memset(big, 'x', PLAN_MAX_BYTES);
	big[room] = '\0';
	free(spec->args.items[1]);
	spec->args.items[1] = big;
	p = make(NULL, NULL);
	assert_int_equal(p->size, PLAN_MAX_BYTES);
	free(p);
	big[room] = 'x';
	big[room + 1] = '\0';
	check_refused(CAY_E_TOO_LARGE, "arguments and environment are too many, or larger than");
	big[room + 1] = 'x';
	big[PLAN_MAX_BYTES] = '\0';
	check_refused(CAY_E_TOO_LARGE, "arguments and environment are too many, or larger than");
}

/* What is made can be carried out, or is refused at once with a reason for people. */
static void made_plans_pass_their_check(void **state)
{
	struct plan *p = NULL;
	struct cay_error err = {0};
	int r;

	(void)state;
	use_code("sh", "echo $#");
	for (int i = 0; i < STRV_MAX; i++)
		if (strv_add(&spec->args, "") < 0)
			break;
	r = plan_make(spec, &settings, runtime, NULL, NULL, &p, &err);
	if (r < 0) {
		assert_int_equal(err.code, CAY_E_TOO_LARGE);
		return;
	}
	r = plan_check(p, p->size, &err);
	free(p);
	if (r < 0)
		fail_msg("%s", err.text);
}

/*
 * From here on: plan_check() against bytes from elsewhere.
 */

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(head),
		TEST(argv_of_code),
		TEST(argv_of_scripts),
		TEST(argv_as_it_is),
		TEST(code_may_begin_with_a_dash),
		TEST(env_defaults),
		TEST(env_overrides),
		TEST(home_is_no_host_directory),
		TEST(go_knows_the_memory_limit),
		TEST(mounts),
		TEST(as_many_mounts_as_can_be_asked_for),
		TEST(targets_are_checked),
		TEST(limits_come_from_request_then_settings),
		TEST(maxima_hold),
		TEST(degraded_by_settings),
		TEST(size_is_bounded),
		TEST(made_plans_pass_their_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
