/*
 * Plans from elsewhere: a good one, cut and edited. The first byte says which,
 * the next two how much is cut off or added; then come edits, each an offset and
 * a byte.
 */
#include "fuzz.h"

#include "core/limit.h"
#include "policy/plan.h"

static struct plan *make_plan(bool mounts)
{
	struct spec *spec = calloc(1, sizeof(*spec));
	struct settings settings;
	struct runtime *rt = calloc(1, sizeof(*rt));
	struct plan *plan = NULL;
	struct cay_error err;

	CHECK(spec && rt);
	settings_init(&settings);
	spec->kind = SPEC_CODE;
	spec->code = strdup("echo $1");
	CHECK(spec->code && spec_set_language(spec, "sh", &err) == 0);
	rt->language = spec->language;
	(void)snprintf(rt->program, sizeof(rt->program), "/opt/sh/bin/sh");
	CHECK(strv_add(&spec->args, "a") == 0 && spec_add_env(spec, "A=b", &err) == 0);
	if (mounts) {
		(void)snprintf(rt->root, sizeof(rt->root), "/opt/sh");
		CHECK(spec_add_mount(spec, "data:/data", &err) == 0);
		CHECK(spec_set_workspace(spec, "proj:rw", &err) == 0);
	}
	CHECK(spec_allow_domain(spec, "*.example.org", &err) == 0);
	CHECK(spec_block_domain(spec, "ads.example.org:80", &err) == 0);
	CHECK(plan_make(spec, &settings, rt, NULL, NULL, &plan, &err) == 0);
	/* So that the same bytes are the same plan: an id is made of random letters. */
	(void)snprintf(plan->id, sizeof(plan->id), "run_0123456789abcdef");
	spec_done(spec);
	settings_done(&settings);
	free(spec);
	free(rt);
	return plan;
}

/* In a block of exactly its size, as a receiver would have it. */
static struct plan *edit(const struct plan *good, struct input *in, size_t *ret_len)
{
	size_t len = good->size + 128 - (size_t)input_u16(in) % (good->size + 128);
	struct plan *p = calloc(1, len + 8);
	uint32_t size = (uint32_t)len;

	CHECK(p);
	memcpy(p, good, size_min(len, good->size));
	/* Or every other length would end the look at its head. */
	if (len >= sizeof(*p))
		memcpy(&p->size, &size, sizeof(size));
	while (in->len >= 3) {
		size_t at = input_u16(in);

		((uint8_t *)p)[at % len] = input_u8(in);
	}
	*ret_len = len;
	return realloc(p, len);
}

static void walk_list(const struct plan *p, struct plan_list l, const char *end)
{
	const char *s = plan_first(p, l);

	for (uint32_t i = 0; i < l.len; i++, s = plan_next(s))
		CHECK(s >= p->text && s < end && s + strlen(s) < end);
}

static void check_string(const struct plan *p, plan_text t, const char *end)
{
	const char *s = plan_str(p, t);

	CHECK(s >= p->text && s < end && s + strlen(s) < end);
}

/* As an engine would. */
static void walk(const struct plan *p, size_t len)
{
	const char *end = (const char *)p + len;

	CHECK(strlen(p->id) < sizeof(p->id) && !strchr(p->id, '/'));
	CHECK(p->argv.len > 0);
	walk_list(p, p->compile, end);
	walk_list(p, p->argv, end);
	walk_list(p, p->env, end);
	walk_list(p, p->rules, p->text + p->island_text);
	CHECK(p->network < NETWORK_MODES && p->rules.len <= EGRESS_RULES_MAX);
	check_string(p, p->workdir, end);
	CHECK(island_workdir_ok(plan_str(p, p->workdir)));
	CHECK(p->n_mounts <= PLAN_MOUNTS_MAX);
	for (uint32_t i = 0; i < p->n_mounts; i++) {
		const struct plan_mount *m = &p->mounts[i];
		const char *target = plan_str(p, m->target);

		check_string(p, m->source, end);
		check_string(p, m->target, end);
		CHECK(island_path_ok(target) && strcmp(target, "/") != 0);
		CHECK(m->kind == MOUNT_REQUESTED || m->access == ACCESS_READ);
		if (m->kind == MOUNT_REQUESTED)
			CHECK(strncmp(target, "/proc", 5) != 0 || (target[5] && target[5] != '/'));
	}
	for (size_t i = 0; i < n_limit_rows; i++)
		CHECK(limit_get(&p->limits, &limit_rows[i]) <= limit_rows[i].max);
}

static void check_fit(const struct plan *a, const struct plan *b)
{
	bool fits = plan_fits_island(a, b);

	CHECK(fits == plan_fits_island(b, a));
	if (fits)
		CHECK(a->n_mounts == 0 && b->n_mounts == 0 && a->limits.pids == b->limits.pids &&
		      a->limits.memory_bytes == b->limits.memory_bytes &&
		      a->allow_degraded == b->allow_degraded && a->network == b->network &&
		      strcmp(plan_str(a, a->image), plan_str(b, b->image)) == 0 &&
		      plan_fits_order(a, b));
}

/* Without its program it is for the same islands. */
static void check_strip(const struct plan *p)
{
	_cleanup_(freep) struct plan *bare = plan_strip(p);
	struct cay_error err = {0};

	CHECK(bare && plan_check(bare, bare->size, &err) == 0 && plan_fits_command(p, bare));
	CHECK(plan_fits_island(bare, bare) == (p->n_mounts == 0));
	walk(bare, bare->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct plan *good[2];
	struct input in = INPUT(data, size);
	size_t which = input_u8(&in) % 2, len;
	_cleanup_(freep) struct plan *p = NULL;
	struct cay_error err = {0};

	for (size_t i = 0; i < 2 && !good[1]; i++) {
		good[i] = make_plan(i == 1);
		CHECK(plan_check(good[i], good[i]->size, &err) == 0);
		CHECK(plan_fits_island(good[i], good[i]) == (i == 0));
	}
	p = edit(good[which], &in, &len);
	if (plan_check(p, len, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID && strncmp(err.text, "not a plan: ", 12) == 0);
		return 0;
	}
	walk(p, len);
	check_fit(good[0], p);
	check_fit(p, p);
	check_strip(p);
	return 0;
}
