/* Plans from elsewhere: none is walked that was not found good. */
#include "plan_support.h"

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
		assert_true(p->mounts[i].access < ACCESSES);
		assert_true(p->mounts[i].access != ACCESS_OVERLAY ||
			    strcmp(plan_str(p, p->mounts[i].target), ISLAND_WORKSPACE) == 0);
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
	assert_int_equal(plan_make(spec, &settings, runtime, NULL, NULL, &p, &err), 0);
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
		CHECK_BAD(p, mounts[i].access, ACCESSES);
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
	/* A layer is over the workspace alone; that is mounts[1]. */
	CHECK_BAD(p, mounts[0].access, ACCESS_OVERLAY);
	CHECK_BAD(p, mounts[2].access, ACCESS_OVERLAY);
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
	CHECK_BAD(p, writable, 1); /* without an image */
	CHECK_BAD(p, uid, 999);
	CHECK_BAD(p, gid, 0);
	CHECK_BAD(p, mounts[0].pad[0], 1);
}

/* Of an image's id a path is made: nothing else may come of it. */
static void images_are_ids(void **state)
{
	struct image image = {.uid = 999, .gid = 0};
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;
	char *id;

	(void)state;
	memset(image.id, 'a', IMAGE_ID_SIZE - 1);
	use_code("sh", "id");
	spec->writable = true;
	assert_int_equal(plan_make(spec, &settings, runtime, &image, NULL, &p, &err), 0);
	assert_true(taken_as_plan(p, p->size));
	assert_int_equal(p->uid, 999);
	CHECK_BAD(p, writable, 2);
	CHECK_BAD(p, image, p->workdir);
	CHECK_BAD(p, image, p->image + 1);
	CHECK_BAD(p, image, UINT32_MAX);
	id = p->text + p->image;
	for (size_t n = 0; n < IMAGE_ID_SIZE - 1; n++) {
		id[n] = '/';
		assert_false(taken_as_plan(p, p->size));
		id[n] = '.';
		assert_false(taken_as_plan(p, p->size));
		id[n] = 'a';
	}
	assert_true(taken_as_plan(p, p->size));
}

/* Set-id files only where nothing that outlives the island can be written to. */
static void set_ids_end_with_the_island(void **state)
{
	struct image image = {.id = "x"};
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err;

	(void)state;
	use_code("sh", "id");
	spec->writable = spec->as_root = true;
	assert_int_equal(plan_make(spec, &settings, runtime, &image, NULL, &p, &err), 0);
	assert_true(plan_may_set_ids(p));
	p->writable = 0;
	assert_false(plan_may_set_ids(p));
	p->writable = 1;
	p->uid = 1000;
	assert_false(plan_may_set_ids(p));
	p->uid = 0;
	p->n_mounts = 1;
	p->mounts[0].access = ACCESS_READ;
	assert_true(plan_may_set_ids(p));
	p->mounts[0].access = ACCESS_WRITE;
	assert_false(plan_may_set_ids(p));
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
	a->n_mounts = b->n_mounts = 1;
	assert_false(plan_fits_island(a, b));
	/* A runtime's directory is the operator's, and needs no rule. */
	a->mounts[0].kind = b->mounts[0].kind = MOUNT_OPERATOR;
	assert_true(plan_fits_island(a, b));
	b->mounts[0].source = 1;
	assert_false(plan_fits_island(a, b));
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
		{offsetof(struct plan, warm), sizeof(plan_text)},
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
		TEST(images_are_ids),
		TEST(set_ids_end_with_the_island),
		TEST(kept_workspaces_are_names),
		TEST(islands_are_shared_by_what_fits),
		TEST(commands_fit_by_every_byte),
		TEST(commands_fit_with_mounts),
		TEST(random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
