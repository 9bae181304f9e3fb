#include "policy/plan.h"

#include "base/attr.h"
#include "core/limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct settings settings;
static struct spec *spec;
static struct runtime *runtime;

static int begin(void **state)
{
	(void)state;
	settings_init(&settings);
	spec = calloc(1, sizeof(*spec));
	runtime = calloc(1, sizeof(*runtime));
	return spec && runtime ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	settings_done(&settings);
	spec_done(spec);
	free(spec);
	free(runtime);
	return 0;
}

static void freep(struct plan **p)
{
	free(*p);
}

static void use_code(const char *language, const char *code)
{
	runtime->language = language_find(language);
	(void)snprintf(runtime->program, sizeof(runtime->program), "/usr/bin/%s", language);
	spec->language = runtime->language;
	spec->kind = SPEC_CODE;
	free(spec->code);
	spec->code = strdup(code);
	spec->code_len = strlen(code);
}

static void add_args(const char *a, const char *b)
{
	assert_int_equal(strv_add(&spec->args, a), 0);
	assert_int_equal(strv_add(&spec->args, b), 0);
}

static struct plan *make(const struct runtime *rt, const char *script)
{
	struct plan *p = NULL;
	struct cay_error err;

	if (plan_make(spec, &settings, rt, script, &p, &err) < 0)
		fail_msg("%s", err.text);
	if (plan_check(p, p->size, &err) < 0)
		fail_msg("%s", err.text);
	return p;
}

static void check_list(const struct plan *p, struct plan_list l, const char *const *expected)
{
	const char *s = plan_first(p, l);
	uint32_t n = 0;

	for (; expected[n]; n++, s = plan_next(s)) {
		assert_true(n < l.len);
		assert_string_equal(s, expected[n]);
	}
	assert_int_equal(l.len, n);
}

#define CHECK_LIST(p, l, ...) check_list(p, l, (const char *const[]){__VA_ARGS__, NULL})

static const char *env_of(const struct plan *p, const char *name)
{
	const char *s = plan_first(p, p->env);
	size_t len = strlen(name);

	for (uint32_t n = 0; n < p->env.len; n++, s = plan_next(s))
		if (strncmp(s, name, len) == 0 && s[len] == '=')
			return s + len + 1;
	return NULL;
}

static void check_refused(enum cay_code code, const char *words)
{
	struct plan *p = (struct plan *)&settings; /* must stay as it is */
	struct cay_error err = {0};

	assert_int_equal(plan_make(spec, &settings, NULL, NULL, &p, &err), -1);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
	assert_ptr_equal(p, &settings);
}

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

static const char *const taken[] = {
	"/",      "/proc",      "/proc/x",      "/dev",   "/dev/shm", "/etc",     "/etc/ssl",
	"/usr",   "/usr/share", "/bin",         "/sbin",  "/lib",     "/lib64",   "/lib/x",
	"/lib32", "/libx32",    "/run",         "/run/x", "/var",     "/var/lib", "/tmp",
	"/tmp/x", "/workspace", "/workspace/x", "/sys",   "/sys/fs",
};

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
	r = plan_make(spec, &settings, runtime, NULL, &p, &err);
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

/* A plan with a bit of everything, in a block of exactly its size, so that ASan sees any step past
 * it. */
static struct plan *make_rich(void)
{
	struct cay_error err;

	use_code("sh", "echo $1");
	if (spec->args.len == 0) {
		add_args("a", "b");
		(void)snprintf(runtime->root, sizeof(runtime->root), "/opt/r");
		assert_int_equal(spec_add_mount(spec, "/src:/data:rw", &err), 0);
		assert_int_equal(spec_set_workspace(spec, "proj", &err), 0);
		assert_int_equal(spec_add_env(spec, "X=1", &err), 0);
	}
	return make(runtime, NULL);
}

static bool taken_as_plan(const struct plan *p, size_t len)
{
	struct cay_error err = {0};
	int r = plan_check(p, len, &err);

	if (r < 0) {
		assert_int_equal(r, -1);
		assert_int_equal(err.code, CAY_E_INVALID);
		assert_int_equal(strncmp(err.text, "not a plan: ", 12), 0);
	}
	return r == 0;
}

static void check_string(const struct plan *p, size_t len, const char *s)
{
	const char *text_end = (const char *)p + len;

	assert_true(s >= p->text && s < text_end);
	assert_non_null(memchr(s, '\0', (size_t)(text_end - s)));
}

static void check_strings(const struct plan *p, size_t len, struct plan_list l)
{
	const char *s = plan_first(p, l);

	for (uint32_t n = 0; n < l.len; n++, s = plan_next(s))
		check_string(p, len, s);
}

/* What was taken can be walked, and says nothing that is out of its range. */
static void check_walk(const struct plan *p, size_t len)
{
	assert_int_equal(p->size, len);
	check_strings(p, len, p->argv);
	check_strings(p, len, p->env);
	check_string(p, len, plan_str(p, p->workdir));
	assert_true(p->argv.len > 0);
	assert_true(strlen(p->id) < ID_SIZE && !strchr(p->id, '/'));
	assert_true(p->n_mounts <= PLAN_MOUNTS_MAX);
	for (uint32_t i = 0; i < p->n_mounts; i++) {
		check_string(p, len, plan_str(p, p->mounts[i].source));
		check_string(p, len, plan_str(p, p->mounts[i].target));
		assert_true(island_path_ok(plan_str(p, p->mounts[i].target)));
		assert_true(p->mounts[i].access <= ACCESS_WRITE);
		assert_true(p->mounts[i].kind <= MOUNT_OPERATOR);
	}
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t v = limit_get(&p->limits, &limit_rows[i]);

		assert_true(v == 0 || (v >= limit_rows[i].min && v <= limit_rows[i].max));
	}
}

static void try(const struct plan *p, size_t len)
{
	if (taken_as_plan(p, len))
		check_walk(p, len);
}

static struct plan *copy_of(const void *data, size_t len)
{
	struct plan *p = malloc(len ? len : 1);

	assert_non_null(p);
	memcpy(p, data, len);
	return p;
}

/* Bytes that may have any value: what is left of the header must be refused when it changes. */
static bool any_value_goes(size_t at, const struct plan *p)
{
	size_t limits_at = offsetof(struct plan, limits), id_at = offsetof(struct plan, id);
	size_t mounts_at = offsetof(struct plan, mounts);

	if (at >= id_at + 4 && at < id_at + ID_SIZE)
		return true; /* see ids_are_ours() */
	if (at >= limits_at && at < limits_at + sizeof(struct limits))
		return true; /* see limits_are_checked() */
	if (at >= mounts_at && at < mounts_at + sizeof(p->mounts))
		return true; /* see mounts_are_checked() */
	/* A list that is shorter, or begins at another string, is a list. */
	return at >= offsetof(struct plan, compile);
}

static void every_byte_of_the_header(void **state)
{
	_cleanup_(freep) struct plan *good = make_rich();
	size_t len = good->size, refused = 0;

	(void)state;
	for (size_t at = 0; at < sizeof(*good); at++) {
		for (int v = 0; v < 256; v++) {
			_cleanup_(freep) struct plan *p = copy_of(good, len);
			unsigned char *byte = (unsigned char *)p + at;

			if (*byte == v)
				continue;
			*byte = (unsigned char)v;
			if (!taken_as_plan(p, len)) {
				refused++;
				continue;
			}
			if (!any_value_goes(at, p))
				fail_msg("byte %zu may be %d", at, v);
			check_walk(p, len);
		}
	}
	assert_true(refused > 10000);
}

static void every_byte_of_the_text(void **state)
{
	_cleanup_(freep) struct plan *good = make_rich();
	size_t len = good->size;

	(void)state;
	for (size_t at = sizeof(*good); at < len; at++) {
		_cleanup_(freep) struct plan *p = copy_of(good, len);
		char *byte = (char *)p + at;

		*byte = *byte ? '\0' : 'x';
		if (at == sizeof(*good) || at == len - 1)
			assert_false(taken_as_plan(p, len));
		else
			try(p, len);
	}
}

static void every_truncation(void **state)
{
	_cleanup_(freep) struct plan *good = make_rich();

	(void)state;
	for (size_t len = 0; len < good->size; len++) {
		_cleanup_(freep) struct plan *p = copy_of(good, len);

		assert_false(taken_as_plan(p, len));
		/* Nor when its head says so; what is left may be whole by chance: never past the
		 * end. */
		if (len >= sizeof(*p)) {
			p->size = (uint32_t)len;
			try(p, len);
		}
	}
}

static void lengths_must_agree(void **state)
{
	_cleanup_(freep) struct plan *good = make_rich(), *longer = NULL, *huge = NULL;
	size_t len = good->size;

	(void)state;
	longer = calloc(1, len + 8);
	assert_non_null(longer);
	memcpy(longer, good, len);
	assert_false(taken_as_plan(longer, len + 8));
	longer->size = (uint32_t)len + 8;
	assert_true(taken_as_plan(longer, len + 8));
	longer->size = UINT32_MAX;
	assert_false(taken_as_plan(longer, len + 8));
	huge = calloc(1, PLAN_MAX_BYTES + 1);
	assert_non_null(huge);
	memcpy(huge, good, len);
	huge->size = PLAN_MAX_BYTES;
	assert_true(taken_as_plan(huge, PLAN_MAX_BYTES));
	huge->size = PLAN_MAX_BYTES + 1;
	assert_false(taken_as_plan(huge, PLAN_MAX_BYTES + 1));
}

/* Sets one field to a bad value, sees the plan refused, and puts the field back. */
#define CHECK_BAD(p, field, value)                                                   \
	do {                                                                         \
		__typeof__((p)->field) old_ = (p)->field;                            \
		(p)->field = (__typeof__(old_))(value);                              \
		if (taken_as_plan(p, (p)->size))                                     \
			fail_msg("line %d: %s may be %s", __LINE__, #field, #value); \
		(p)->field = old_;                                                   \
		assert_true(taken_as_plan(p, (p)->size));                            \
	} while (0)

static void lists_are_checked(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();
	uint32_t text = p->size - (uint32_t)sizeof(*p);

	(void)state;
	CHECK_BAD(p, magic, 0);
	CHECK_BAD(p, magic, PLAN_MAGIC + 1);
	CHECK_BAD(p, argv.len, 0);
	CHECK_BAD(p, argv.len, STRV_MAX + 1);
	CHECK_BAD(p, argv.len, UINT32_MAX);
	CHECK_BAD(p, argv.len, text);
	CHECK_BAD(p, argv.first, text);
	CHECK_BAD(p, argv.first, UINT32_MAX);
	CHECK_BAD(p, argv.first, text - 1);
	CHECK_BAD(p, env.len, STRV_MAX + 1);
	CHECK_BAD(p, env.len, text);
	CHECK_BAD(p, env.first, text);
	CHECK_BAD(p, env.first, UINT32_MAX);
	CHECK_BAD(p, workdir, text);
	CHECK_BAD(p, workdir, UINT32_MAX);
	CHECK_BAD(p, workdir, 0);              /* "" */
	CHECK_BAD(p, workdir, p->env.first);   /* "PATH=…" */
	CHECK_BAD(p, workdir, p->workdir + 1); /* "workspace" */
	CHECK_BAD(p, n_mounts, PLAN_MOUNTS_MAX + 1);
	CHECK_BAD(p, n_mounts, UINT32_MAX);
}

/* A rule of requests, which a plan from elsewhere never passed. */
static void workdir_is_checked(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	use_code("sh", "pwd");
	spec->workdir = strdup("/proc/self/cwd");
	assert_int_equal(plan_make(spec, &settings, runtime, NULL, &p, &err), 0);
	assert_false(taken_as_plan(p, p->size));
}

/* Where nothing is to be read, what points to it must not point outside all the same. */
static void empty_lists_begin_within(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();

	(void)state;
	p->env = (struct plan_list){.first = 0, .len = 0};
	assert_true(taken_as_plan(p, p->size));
	CHECK_BAD(p, env.first, UINT32_MAX);
}

static void mounts_are_checked(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();
	uint32_t text = p->size - (uint32_t)sizeof(*p);

	(void)state;
	assert_int_equal(p->n_mounts, 3);
	for (uint32_t i = 0; i < p->n_mounts; i++) {
		CHECK_BAD(p, mounts[i].source, text);
		CHECK_BAD(p, mounts[i].source, UINT32_MAX);
		CHECK_BAD(p, mounts[i].target, text);
		CHECK_BAD(p, mounts[i].target, UINT32_MAX);
		CHECK_BAD(p, mounts[i].target, 0);
		CHECK_BAD(p, mounts[i].target, p->mounts[i].target + 1);
		CHECK_BAD(p, mounts[i].access, 2);
		CHECK_BAD(p, mounts[i].access, 255);
		CHECK_BAD(p, mounts[i].kind, 2);
		CHECK_BAD(p, mounts[i].kind, 255);
	}
	/* What the island's text does not cover would not be compared. */
	CHECK_BAD(p, mounts[0].source, p->island_text);
	CHECK_BAD(p, mounts[0].target, p->island_text);
	CHECK_BAD(p, island_text, 0);
	CHECK_BAD(p, island_text, 1);
	CHECK_BAD(p, island_text, p->island_text - 1);
	CHECK_BAD(p, island_text, text + 1);
	CHECK_BAD(p, island_text, UINT32_MAX);
	/* A runtime's directory is never writable. */
	CHECK_BAD(p, mounts[0].access, ACCESS_WRITE);
	CHECK_BAD(p, mounts[2].kind, MOUNT_OPERATOR);
}

/* The receiver trusts the sender no further than a request: what plan_make() refuses, it refuses.
 */
static void targets_are_checked_again(void **state)
{
	(void)state;
	add_args("ls", "-l");
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		_cleanup_(freep) struct plan *p = NULL;
		struct cay_error err;
		char text[64];

		if (strncmp(taken[i], "/workspace", 10) == 0)
			continue; /* the workspace itself is a mount there */
		/* As long as the target, then overwritten by it. */
		(void)snprintf(text, sizeof(text), "/a:/%.*s", (int)strlen(taken[i]),
			       "xxxxxxxxxxxx");
		assert_int_equal(spec_add_mount(spec, text, &err), 0);
		p = make(NULL, NULL);
		memcpy(p->text + p->mounts[0].target, taken[i], strlen(taken[i]) + 1);
		if (taken_as_plan(p, p->size))
			fail_msg("a mount over %s passes", taken[i]);
		free(spec->mounts[0].source);
		free(spec->mounts[0].target);
		spec->n_mounts = 0;
	}
}

static void ids_are_checked(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();
	static const char *const bad[] = {"",
					  "run",
					  "runs_0123",
					  "/run_0123",
					  "run_../../x",
					  "run_a/b",
					  "box_0123456789abcdef"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(p->id, sizeof(p->id), "%s", bad[i]);
		if (taken_as_plan(p, p->size))
			fail_msg("the id '%s' passes", bad[i]);
	}
	memset(p->id, 'x', sizeof(p->id));
	memcpy(p->id, "run_", 4);
	assert_false(taken_as_plan(p, p->size));
	p->id[20] = '\0';
	assert_true(taken_as_plan(p, p->size));
}

/* An id becomes the name of a cgroup and a word in logs: it has the shape that id_make() gives it.
 */
static void ids_are_ours(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();
	static const char *const bad[] = {
		"run_", "run_..", "run_a b", "run_\n0123456789abcde", "run_\x1b[2J", "run_%s"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(p->id, sizeof(p->id), "%s", bad[i]);
		if (taken_as_plan(p, p->size))
			fail_msg("the id '%s' passes", bad[i]);
	}
}

static void limits_are_checked(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();

	(void)state;
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		const uint64_t bad[] = {row->min - 1, row->max + 1, UINT64_MAX};
		uint64_t old = limit_get(&p->limits, row);

		for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
			limit_set(&p->limits, row, bad[k]);
			if (bad[k] != 0 && taken_as_plan(p, p->size))
				fail_msg("%s may be %llu", row->name, (unsigned long long)bad[k]);
		}
		limit_set(&p->limits, row, row->min);
		assert_true(taken_as_plan(p, p->size));
		limit_set(&p->limits, row, row->max);
		assert_true(taken_as_plan(p, p->size));
		limit_set(&p->limits, row, old);
	}
	CHECK_BAD(p, limits.memory_bytes, 0);
	CHECK_BAD(p, limits.cpus_milli, 0);
	CHECK_BAD(p, limits.pids, 0);
	CHECK_BAD(p, limits.disk_bytes, 0);
	CHECK_BAD(p, limits.timeout_ms, 0);
	CHECK_BAD(p, limits.open_files, 0);
}

/* Bits without a meaning are not carried along unseen. */
static void flags_are_flags(void **state)
{
	_cleanup_(freep) struct plan *p = make_rich();

	(void)state;
	CHECK_BAD(p, scratch_workspace, 2);
	CHECK_BAD(p, allow_degraded, 2);
	CHECK_BAD(p, pad[0], 1);
	CHECK_BAD(p, mounts[0].pad[0], 1);
}

/* A workspace that is kept goes by its sandbox's name alone, and to its place alone. */
static void kept_workspaces_are_names(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct plan_mount *m;
	char *source;

	(void)state;
	use_code("python", "print(1)");
	spec->kept = "sbx_0123456789abcdef";
	p = make(runtime, NULL);
	spec->kept = NULL;
	m = &p->mounts[p->n_mounts - 1];
	assert_int_equal(m->kind, MOUNT_KEPT);
	assert_string_equal(plan_kept(p), "sbx_0123456789abcdef");
	assert_string_equal(plan_str(p, m->target), "/workspace");
	assert_true(taken_as_plan(p, p->size));
	CHECK_BAD(p, scratch_workspace, 1);
	CHECK_BAD(p, mounts[p->n_mounts - 1].access, ACCESS_READ);
	CHECK_BAD(p, mounts[p->n_mounts - 1].target, p->workdir + 1);
	source = p->text + m->source;
	for (size_t n = 0; n < strlen(source); n++) {
		char was = source[n];

		source[n] = '/';
		assert_false(taken_as_plan(p, p->size));
		source[n] = was;
	}
	p->mounts[p->n_mounts] = *m;
	p->n_mounts++;
	assert_false(taken_as_plan(p, p->size));
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Only what is looked at after an island is made may differ. */
static void islands_are_shared_by_what_fits(void **state)
{
	_cleanup_(freep) struct plan *a = NULL;
	_cleanup_(freep) struct plan *b = NULL;

	(void)state;
	use_code("python", "print(1)");
	a = make(runtime, NULL);
	use_code("sh", "echo something longer");
	b = make(runtime, NULL);
	assert_true(plan_fits_island(a, b));
	b->limits.timeout_ms++;
	b->limits.output_bytes++;
	assert_true(plan_fits_island(a, b));
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t was = limit_get(&b->limits, row);
		bool outside =
			strcmp(row->name, "timeout") == 0 || strcmp(row->name, "output") == 0;

		limit_set(&b->limits, row, was + 1);
		assert_int_equal(plan_fits_island(a, b), outside);
		limit_set(&b->limits, row, was);
	}
	b->allow_degraded ^= 1;
	assert_false(plan_fits_island(a, b));
	b->allow_degraded ^= 1;
	b->scratch_workspace ^= 1;
	assert_false(plan_fits_island(a, b));
	b->scratch_workspace ^= 1;
	b->n_mounts = 1;
	assert_false(plan_fits_island(a, b));
	assert_false(plan_fits_island(b, b));
}

/* What a command may have of its own, as bytes of the head. */
static bool is_the_programs(size_t at)
{
	size_t limits = offsetof(struct plan, limits);
	const size_t own[][2] = {
		{offsetof(struct plan, size), sizeof(uint32_t)},
		{offsetof(struct plan, id), ID_SIZE},
		{offsetof(struct plan, compile), sizeof(struct plan_list)},
		{offsetof(struct plan, argv), sizeof(struct plan_list)},
		{offsetof(struct plan, env), sizeof(struct plan_list)},
		{offsetof(struct plan, workdir), sizeof(plan_text)},
		{limits + offsetof(struct limits, timeout_ms), sizeof(uint64_t)},
		{limits + offsetof(struct limits, cpu_time_ms), sizeof(uint64_t)},
		{limits + offsetof(struct limits, output_bytes), sizeof(uint64_t)},
	};

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (at >= own[i][0] && at < own[i][0] + own[i][1])
			return true;
	return false;
}

/* All else is the island's, also what nobody thought of. */
static void commands_fit_by_every_byte(void **state)
{
	_cleanup_(freep) struct plan *a = make_rich();
	_cleanup_(freep) struct plan *b = copy_of(a, a->size);
	size_t texts = 0;

	(void)state;
	assert_true(plan_fits_command(a, b));
	for (size_t at = 0; at < a->size; at++) {
		bool head = at < sizeof(*a), text = at - sizeof(*a) >= a->island_text;

		((unsigned char *)b)[at] ^= 1;
		if (plan_fits_command(a, b) != (head ? is_the_programs(at) : text))
			fail_msg("byte %zu", at);
		((unsigned char *)b)[at] ^= 1;
		texts += !head && !text;
	}
	assert_true(texts > strlen("/opt/python")); /* of the mounts */
}

/* The mounts stand in the text before what a command has of its own. */
static void commands_fit_with_mounts(void **state)
{
	_cleanup_(freep) struct plan *a = NULL, *b = NULL, *c = NULL;
	struct cay_error err;

	(void)state;
	assert_int_equal(spec_add_mount(spec, "/a:/data", &err), 0);
	use_code("python", "print(1)");
	a = make(runtime, NULL);
	use_code("sh", "echo something longer");
	b = make(runtime, NULL);
	assert_true(plan_fits_command(a, b));
	assert_false(plan_fits_island(a, b));
	spec->mounts[0].source[1] = 'b';
	c = make(runtime, NULL);
	assert_false(plan_fits_command(a, c));
}

/* Half of the rounds are noise behind a good head, half a good plan with some bytes changed. */
static void random_bytes(void **state)
{
	_cleanup_(freep) struct plan *good = make_rich();
	uint64_t seed = 0x9e3779b97f4a7c15u;
	size_t passed = 0;

	(void)state;
	for (int round = 0; round < 100000; round++) {
		size_t len = round % 2 ? good->size : sizeof(*good) + next_random(&seed) % 200;
		_cleanup_(freep) struct plan *p = malloc(len);
		unsigned char *bytes = (unsigned char *)p;

		assert_non_null(p);
		if (round % 2) {
			memcpy(p, good, len);
			for (uint64_t n = 1 + next_random(&seed) % 4; n > 0; n--)
				bytes[next_random(&seed) % len] = (unsigned char)next_random(&seed);
		} else {
			for (size_t i = 0; i < len; i++)
				bytes[i] = (unsigned char)(next_random(&seed) >> 24);
			p->magic = PLAN_MAGIC;
			p->size = (uint32_t)len;
			memcpy(p->id, good->id, sizeof(p->id));
			p->limits = good->limits;
			p->argv.len %= 8;
			p->argv.first %= 256;
			p->env.len %= 8;
			p->env.first %= 256;
			p->workdir %= 256;
			p->n_mounts %= 3;
			p->island_text = (uint32_t)(len - sizeof(*p));
			if (len > sizeof(*p)) {
				p->text[0] = '\0';
				bytes[len - 1] = '\0';
			}
		}
		if (taken_as_plan(p, len)) {
			check_walk(p, len);
			passed++;
		}
	}
	/* Both ways are gone: a test that never gets past the head shows nothing. */
	assert_in_range(passed, 1000, 49999);
}

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
		TEST(every_byte_of_the_header),
		TEST(every_byte_of_the_text),
		TEST(every_truncation),
		TEST(lengths_must_agree),
		TEST(lists_are_checked),
		TEST(workdir_is_checked),
		TEST(empty_lists_begin_within),
		TEST(mounts_are_checked),
		TEST(targets_are_checked_again),
		TEST(ids_are_checked),
		TEST(ids_are_ours),
		TEST(limits_are_checked),
		TEST(flags_are_flags),
		TEST(kept_workspaces_are_names),
		TEST(islands_are_shared_by_what_fits),
		TEST(commands_fit_by_every_byte),
		TEST(commands_fit_with_mounts),
		TEST(random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
