#include "policy/plan.h"

#include "base/attr.h"
#include "base/buf.h"
#include "core/limit.h"
#include "policy/command.h"
#include "policy/mounts.h"
#include "policy/network.h"
#include "policy/plan_impl.h"
#include "policy/tier.h"
#include "policy/warm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cay-egress's own address: it answers DNS and proxies HTTP there, on every island. */
#define NETWORK_PROXY      "http://198.18.0.1:3128"
#define NETWORK_PROXY_NONE "localhost,127.0.0.1,::1"

/* The text is gathered first; header and text become one block at the end. */
struct builder {
	struct plan head;
	struct buf text;
	int failed; /* -errno of the first append that failed */
};

static plan_text add(struct builder *b, const char *s)
{
	plan_text at = (plan_text)b->text.len;
	int r = buf_append(&b->text, s, strlen(s) + 1);

	if (r < 0 && !b->failed)
		b->failed = r;
	return at;
}

static void push(struct builder *b, struct plan_list *list, const char *s)
{
	plan_text at = add(b, s);

	if (list->len++ == 0)
		list->first = at;
}

static void push_all(struct builder *b, struct plan_list *list, const struct strv *v)
{
	for (size_t i = 0; i < v->len; i++)
		push(b, list, v->items[i]);
}

static void push_signed(struct builder *b, char sign, const struct strv *rules)
{
	for (size_t i = 0; i < rules->len; i++) {
		char text[DOMAIN_RULE_SIZE + 1];

		(void)snprintf(text, sizeof(text), "%c%s", sign, rules->items[i]);
		push(b, &b->head.rules, text);
	}
}

/* A live island's network is there: what runs on it has that one, whatever is said by now. */
static int add_network(struct builder *b, const struct spec *spec, const struct settings *settings,
		       struct cay_error *err)
{
	struct network_spec n;
	const char *rule;

	if (!spec->island) {
		if (network_decide(spec, settings, &n, err) < 0)
			return -1;
		/* Without a sandbox it is the host's, which nobody keeps from anything. */
		if (spec->engine != ENGINE_DIRECT) {
			b->head.network = (uint8_t)n.mode;
			push_signed(b, '+', &n.allow);
			push_signed(b, '-', &n.block);
		}
		network_spec_done(&n);
		return 0;
	}
	b->head.network = spec->island->network;
	rule = plan_first(spec->island, spec->island->rules);
	for (uint32_t i = 0; i < spec->island->rules.len; i++, rule = plan_next(rule))
		push(b, &b->head.rules, rule);
	return 0;
}

static void add_mount(struct builder *b, const char *source, const char *target, enum access access,
		      enum mount_kind kind)
{
	if (b->head.n_mounts == PLAN_MOUNTS_MAX) {
		b->failed = -E2BIG;
		return;
	}
	b->head.mounts[b->head.n_mounts++] = (struct plan_mount){
		.source = add(b, source),
		.target = add(b, target),
		.access = (uint8_t)access,
		.kind = (uint8_t)kind,
	};
}

static void add_mounts(struct builder *b, const struct spec *spec, const struct runtime *runtime)
{
	for (size_t i = 0; spec->live_roots && !spec->container_image && i < spec->live_roots->len;
	     i++)
		add_mount(b, spec->live_roots->items[i], spec->live_roots->items[i], ACCESS_READ,
			  MOUNT_OPERATOR);
	if (!spec->live_roots && runtime && runtime->root[0])
		add_mount(b, runtime->root, runtime->root, ACCESS_READ, MOUNT_OPERATOR);
	if (spec->workspace.source)
		add_mount(b, spec->workspace.source, ISLAND_WORKSPACE, spec->workspace.access,
			  MOUNT_REQUESTED);
	else if (spec->kept)
		add_mount(b, spec->kept, ISLAND_WORKSPACE, ACCESS_WRITE, MOUNT_KEPT);
	else
		b->head.scratch_workspace = 1;
	for (size_t i = 0; i < spec->n_mounts; i++)
		add_mount(b, spec->mounts[i].source, spec->mounts[i].target, spec->mounts[i].access,
			  MOUNT_REQUESTED);
}

static int check_degraded(const struct spec *spec, const struct settings *settings,
			  struct cay_error *err)
{
	if (!spec->allow_degraded || settings->may_degrade)
		return 0;
	(void)cay_fail(err, CAY_E_POLICY, 0, "the operator has every limit enforced");
	return cay_hint(err, "leave allow_degraded out; the setting is [isolation] may_degrade");
}

/*
 * What is installed in a sandbox stays in its home, and is found there: pip's user
 * base and caches are below it anyway. Debian's guard against pip is for the host's
 * own Python, which nobody can write to here.
 */
static int let_install(const struct spec *spec, struct strv *env)
{
	const char *home = spec->workspace.source ? "/tmp" : ISLAND_WORKSPACE;
	const char *path = strv_get_env(env, "PATH");
	char text[512];
	int r;

	(void)snprintf(text, sizeof(text), "%s/.local/bin:%s", home, path ? path : "");
	r = strv_set_env(env, "PATH", text);
	if (r == 0)
		r = strv_set_env(env, "PIP_BREAK_SYSTEM_PACKAGES", "1");
	if (r == 0)
		r = strv_set_env(env, "PIP_DISABLE_PIP_VERSION_CHECK", "1");
	(void)snprintf(text, sizeof(text), "%s/.local", home);
	return r < 0 ? r : strv_set_env(env, "NPM_CONFIG_PREFIX", text);
}

/* For programs that would rather ask one: what reaches nothing without it reaches the same. */
static int name_proxy(struct strv *env)
{
	static const char *const names[][2] = {
		{"http_proxy", NETWORK_PROXY},    {"https_proxy", NETWORK_PROXY},
		{"HTTP_PROXY", NETWORK_PROXY},    {"HTTPS_PROXY", NETWORK_PROXY},
		{"no_proxy", NETWORK_PROXY_NONE}, {"NO_PROXY", NETWORK_PROXY_NONE},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(names) && r == 0; i++)
		r = strv_set_env(env, names[i][0], names[i][1]);
	return r;
}

/*
 * What programs keep at home has no place in a host directory, or none at all. A user that
 * the image has made is at home there, whether that can be written to or not.
 */
static const char *decide_home(const struct spec *spec, const struct image *image,
			       const struct plan *head)
{
	if (spec->workspace.source && spec->engine != ENGINE_DIRECT)
		return "/tmp";
	if (head->uid == 0)
		return head->writable ? "/root" : ISLAND_WORKSPACE;
	return image && image->uid == head->uid && image->home ? image->home : ISLAND_WORKSPACE;
}

/* The name of the image's own user, unless all that is known is a number. */
static const char *decide_user_name(const struct image *image, const struct plan *head)
{
	if (head->uid == 0)
		return "root";
	if (image && image->uid == head->uid && image->user &&
	    (image->user[0] < '0' || image->user[0] > '9') && !strchr(image->user, ':'))
		return image->user;
	return "cay";
}

/*
 * Thread pools need no variables: the CPUs that may be used are the ones in sight.
 * Memory is not: go alone reads a variable for it, and collects garbage before the
 * limit is reached if told so a little below it.
 */
static int decide_env(const struct spec *spec, const struct image *image, const struct plan *head,
		      const struct strv *needed, struct strv *env)
{
	const char *const user = decide_user_name(image, head);
	const char *const base[][2] = {
		{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		{"HOME", decide_home(spec, image, head)},
		{"USER", user},
		{"LOGNAME", user},
		{"SHELL", "/bin/sh"},
		{"TMPDIR", "/tmp"},
		{"LANG", "C.UTF-8"},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(base) && r == 0; i++) {
		/* A container's image has its own, which is known only there. */
		if (spec->container_image && i == 0)
			continue;
		/* The island's user: on the host it is somebody else. */
		if (spec->engine == ENGINE_DIRECT && base[i][1] == user)
			continue;
		r = strv_set_env(env, base[i][0], base[i][1]);
	}
	if (r == 0)
		r = strv_addf(env, "GOMEMLIMIT=%llu",
			      (unsigned long long)(head->limits.memory_bytes / 10 * 9));
	if (r == 0 && image)
		r = strv_merge_env(env, &image->env);
	if (r == 0 && head->network != NETWORK_NONE)
		r = name_proxy(env);
	if (r == 0 && spec->live_roots && !spec->container_image)
		r = let_install(spec, env);
	if (r == 0)
		r = strv_merge_env(env, needed);
	return r < 0 ? r : strv_merge_env(env, &spec->env);
}

static int check_targets(const struct spec *spec, struct cay_error *err)
{
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const char *t = spec->mounts[i].target, *owner = plan_target_owner(t);

		for (size_t k = 0; k < i; k++)
			if (strcmp(t, spec->mounts[k].target) == 0)
				return cay_fail(err, CAY_E_INVALID, 0, "two volumes for %s", t);
		if (owner)
			return cay_fail(err, CAY_E_INVALID, 0,
					"%s can't be mounted over: %s is the island's own", t,
					owner);
		if (path_is_within(t, ISLAND_WORKSPACE)) {
			(void)cay_fail(err, CAY_E_INVALID, 0, "%s can't be a volume", t);
			return cay_hint(err, "--workspace SRC[:ro|rw] decides what is there");
		}
	}
	return 0;
}

/* What only an image, or only an island, can give. */
static int check_image(const struct spec *spec, const struct image *image, struct cay_error *err)
{
	const char *what = image ? "image" : spec->writable ? "writable" : "user";

	if (spec->engine == ENGINE_DIRECT && (image || spec->writable || spec->as_root)) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "%s needs a sandbox", what);
		return cay_hint(err, "leave the engine out, or choose native");
	}
	if (spec->workspace.source && spec->workspace.access == ACCESS_OVERLAY &&
	    (spec->engine == ENGINE_DIRECT || spec->engine == ENGINE_DOCKER ||
	     spec->engine == ENGINE_PODMAN)) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
			       "the engine %s can't lay an overlay over the workspace",
			       spec_engine_name(spec->engine));
		return cay_hint(err, "leave the engine out, or choose native");
	}
	if (spec->writable && !image && !spec->island && !spec->container_image) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
			       "the root of this machine's own /usr can't be writable");
		return cay_hint(err, "name an image as well: --image REF; /tmp and /workspace can "
				     "be written to as it is");
	}
	if (image && (image->uid >= ISLAND_IDS || image->gid >= ISLAND_IDS))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"the image's user is %u:%u: islands have ids up to %u", image->uid,
				image->gid, ISLAND_IDS - 1);
	return 0;
}

/* Who the program is, and on what root. Nobody is root who did not ask for it. */
static void add_image(struct builder *b, const struct spec *spec, const struct image *image)
{
	const struct plan *island = spec->island;
	bool own = image && image->uid != 0;

	b->head.engine = spec->container_image ? spec->engine : 0;
	b->head.image = spec->container_image ? add(b, spec->container_image)
			: image               ? add(b, image->id)
					      : 0;
	b->head.writable = island ? island->writable : spec->writable;
	b->head.uid = (uint16_t)(island          ? island->uid
				 : spec->as_root ? 0
				 : own           ? image->uid
						 : ISLAND_UID);
	b->head.gid = (uint16_t)(island          ? island->gid
				 : spec->as_root ? 0
				 : own           ? image->gid
						 : ISLAND_GID);
}

/* The image's, where the caller has nothing of its own to be in. */
static const char *decide_workdir(const struct spec *spec, const struct image *image)
{
	if (spec->workdir)
		return spec->workdir;
	if (!image || !image->workdir || spec->workspace.source ||
	    strcmp(image->workdir, "/") == 0 || !island_workdir_ok(image->workdir))
		return ISLAND_WORKSPACE;
	return image->workdir;
}

static int finish(struct builder *b, struct plan **ret, struct cay_error *err)
{
	struct plan *p;
	size_t size = sizeof(*p) + b->text.len;

	if (b->failed == -EFBIG || b->failed == -E2BIG || size > PLAN_MAX_BYTES ||
	    b->head.compile.len > STRV_MAX || b->head.argv.len > STRV_MAX ||
	    b->head.env.len > STRV_MAX)
		return cay_fail(
			err, CAY_E_TOO_LARGE, 0,
			"arguments and environment are too many, or larger than %u bytes together",
			PLAN_MAX_BYTES - (unsigned)sizeof(*p));
	p = b->failed ? NULL : malloc(size);
	if (!p)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make the plan");
	b->head.size = (uint32_t)size;
	memcpy(p, &b->head, sizeof(*p));
	memcpy(p->text, b->text.data, b->text.len);
	*ret = p;
	return 0;
}

int plan_make(const struct spec *spec, const struct settings *settings,
	      const struct runtime *runtime, const struct image *image, const char *script,
	      struct plan **ret, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv env = {0};
	_cleanup_(command_done) struct command_words command = {0};
	struct builder b = {.head = {.magic = PLAN_MAGIC}, .text = BUF(PLAN_MAX_BYTES)};
	char warm[WARM_NAME_SIZE];
	int r;

	(void)add(&b, ""); /* offset 0 */
	memcpy(b.head.id, spec->own, sizeof(b.head.id));
	if (!spec->own[0] && id_make("run", b.head.id) < 0) {
		buf_done(&b.text);
		return cay_fail(err, CAY_E_INTERNAL, errno, "name the run");
	}
	if ((!spec->island && tier_check(spec, settings, err) < 0) ||
	    tier_limits(spec, settings, &b.head.limits, err) < 0 ||
	    check_degraded(spec, settings, err) < 0 || check_targets(spec, err) < 0 ||
	    check_image(spec, image, err) < 0) {
		buf_done(&b.text);
		return -1;
	}
	if (b.failed == 0)
		b.failed =
			command_make(spec, runtime, script, b.head.limits.memory_bytes, &command);
	/* The island's first: offsets and text of what is the same are the same. */
	add_image(&b, spec, image);
	add_mounts(&b, spec, runtime);
	if (add_network(&b, spec, settings, err) < 0) {
		buf_done(&b.text);
		return -1;
	}
	if (b.failed == 0)
		b.failed = decide_env(spec, image, &b.head, &command.env, &env);
	b.head.island_text = (uint32_t)b.text.len;
	push_all(&b, &b.head.compile, &command.compile);
	push_all(&b, &b.head.argv, &command.argv);
	push_all(&b, &b.head.env, &env);
	if (!spec->container_image &&
	    warm_choose(spec, settings, spec->live_runtime ? spec->live_runtime : runtime, image,
			&env, warm))
		b.head.warm = add(&b, warm);
	b.head.workdir = add(&b, decide_workdir(spec, image));
	b.head.allow_degraded =
		settings->may_degrade && (spec->allow_degraded || settings->allow_degraded);
	r = finish(&b, ret, err);
	buf_done(&b.text);
	return r;
}

const char *plan_str(const struct plan *p, plan_text t)
{
	return p->text + t;
}

const char *plan_first(const struct plan *p, struct plan_list l)
{
	return p->text + l.first;
}

const char *plan_next(const char *s)
{
	return s + strlen(s) + 1;
}

int plan_rules(const struct plan *p, struct strv *ret_allow, struct strv *ret_block)
{
	const char *rule = plan_first(p, p->rules);
	int r = 0;

	for (uint32_t i = 0; i < p->rules.len && r == 0; i++, rule = plan_next(rule))
		r = strv_add(rule[0] == '+' ? ret_allow : ret_block, rule + 1);
	return r;
}

const char *plan_image(const struct plan *p)
{
	return p->image && !p->engine ? plan_str(p, p->image) : NULL;
}

const char *plan_container_image(const struct plan *p)
{
	return p->engine ? plan_str(p, p->image) : NULL;
}

const char *plan_warm(const struct plan *p)
{
	return p->warm ? plan_str(p, p->warm) : NULL;
}

bool plan_may_set_ids(const struct plan *p)
{
	if (p->uid != 0 || !p->writable)
		return false;
	for (uint32_t i = 0; i < p->n_mounts; i++)
		if (p->mounts[i].access != ACCESS_READ)
			return false;
	return true;
}

bool plan_overlay(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_mounts; i++)
		if (p->mounts[i].access == ACCESS_OVERLAY)
			return true;
	return false;
}

const char *plan_kept(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_mounts; i++)
		if (p->mounts[i].kind == MOUNT_KEPT)
			return plan_str(p, p->mounts[i].source);
	return NULL;
}

/*
 * What is left is the island's. It is what may differ that is named here: a field that
 * nobody thought of makes an island fit too little, not too much.
 */
static void take_program_out(const struct plan *p, struct plan *ret)
{
	memcpy(ret, p, sizeof(*ret));
	ret->size = 0;
	memset(ret->id, 0, sizeof(ret->id));
	ret->compile = ret->argv = ret->env = (struct plan_list){0};
	ret->workdir = ret->warm = 0;
	/* Kept from outside, by whoever watches, or by the command's own process. */
	ret->limits.timeout_ms = ret->limits.output_bytes = ret->limits.cpu_time_ms = 0;
}

bool plan_fits_command(const struct plan *a, const struct plan *b)
{
	struct plan first, second;

	take_program_out(a, &first);
	take_program_out(b, &second);
	return memcmp(&first, &second, sizeof(first)) == 0 &&
	       memcmp(a->text, b->text, a->island_text) == 0;
}

/* How much of the island's text there is without rules, if they end it: plan_make() sees to that.
 */
static uint32_t text_before_rules(const struct plan *p)
{
	const char *rule = plan_first(p, p->rules);

	for (uint32_t i = 0; i < p->rules.len; i++)
		rule = plan_next(rule);
	return p->rules.len > 0 && rule == p->text + p->island_text ? p->rules.first
								    : p->island_text;
}

/* A runtime's directory is the same for all; what was asked for is judged anew for each. */
static bool has_own_mounts(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_mounts; i++)
		if (p->mounts[i].kind != MOUNT_OPERATOR)
			return true;
	return false;
}

/* Whether the islands are the same, and can be made ahead. Rules are whoever's who has the wires.
 */
static bool same_but_rules(const struct plan *a, const struct plan *b)
{
	uint32_t len = text_before_rules(a);
	struct plan first, second;

	take_program_out(a, &first);
	take_program_out(b, &second);
	first.rules = second.rules = (struct plan_list){0};
	first.island_text = second.island_text = 0;
	return !has_own_mounts(a) && memcmp(&first, &second, sizeof(first)) == 0 &&
	       len == text_before_rules(b) && memcmp(a->text, b->text, len) == 0 &&
	       strcmp(plan_str(a, a->image), plan_str(b, b->image)) == 0;
}

bool plan_fits_order(const struct plan *a, const struct plan *b)
{
	return plan_fits_command(a, b) || same_but_rules(a, b);
}

bool plan_fits_island(const struct plan *a, const struct plan *b)
{
	return a->limits.cpu_time_ms == b->limits.cpu_time_ms && same_but_rules(a, b);
}

struct plan *plan_strip(const struct plan *p)
{
	static const char program[] = "true\0" ISLAND_WORKSPACE;
	size_t size = sizeof(*p) + p->island_text + sizeof(program);
	struct plan *bare = malloc(size);

	if (!bare)
		return NULL;
	memcpy(bare, p, sizeof(*p) + p->island_text);
	memcpy(bare->text + p->island_text, program, sizeof(program));
	bare->size = (uint32_t)size;
	bare->compile = bare->env = (struct plan_list){0};
	bare->warm = 0;
	bare->argv = (struct plan_list){.first = p->island_text, .len = 1};
	bare->workdir = p->island_text + (uint32_t)strlen(program) + 1;
	return bare;
}
