/* Plans that come from somewhere. */
#include "policy/plan.h"

#include "base/attr.h"
#include "core/domain.h"
#include "core/limit.h"
#include "policy/mounts.h"
#include "policy/plan_impl.h"

#include <string.h>

const char *plan_target_owner(const char *target)
{
	static const char *const own[] = {"/proc", "/dev", "/etc",   "/usr",   "/bin",
					  "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
					  "/tmp",  "/run", "/var",   "/sys"};

	if (strcmp(target, "/") == 0)
		return "/";
	for (size_t k = 0; k < ARRAY_LEN(own); k++)
		if (path_is_within(target, own[k]))
			return own[k];
	return NULL;
}

static int bad(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_INVALID, 0, "not a plan: %s", what);
}

/* Every string of the list starts inside the text; the text ends in NUL, so each ends there too. */
static bool list_ok(const struct plan *p, struct plan_list l, size_t text_len)
{
	size_t at = l.first;

	if (at >= text_len)
		return false;
	for (uint32_t i = 0; i < l.len; i++) {
		if (at >= text_len)
			return false;
		at += strlen(p->text + at) + 1;
	}
	return true;
}

static bool limits_ok(const struct limits *l)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t v = limit_get(l, &limit_rows[i]);

		if (v != 0 && (v < limit_rows[i].min || v > limit_rows[i].max))
			return false;
	}
	return l->memory_bytes && l->cpus_milli && l->pids && l->disk_bytes && l->timeout_ms &&
	       l->open_files;
}

/* A runtime's directory goes where it is on the host; others go where nothing of the island's is.
 */
static bool mount_ok(const struct plan *p, const struct plan_mount *m)
{
	const char *target = p->text + m->target;

	/* Text that is not compared would let an island with other mounts fit. */
	if (m->source >= p->island_text || m->target >= p->island_text || !island_path_ok(target) ||
	    m->pad[0] || m->pad[1] || m->access >= ACCESSES)
		return false;
	if (m->kind == MOUNT_OPERATOR)
		return m->access == ACCESS_READ && strcmp(p->text + m->source, target) == 0 &&
		       strcmp(target, "/") != 0;
	if (m->kind == MOUNT_KEPT)
		return m->access == ACCESS_WRITE && id_is_kept(p->text + m->source) &&
		       strcmp(target, ISLAND_WORKSPACE) == 0;
	/* A layer is laid over the workspace and over nothing else. */
	if (m->access == ACCESS_OVERLAY && strcmp(target, ISLAND_WORKSPACE) != 0)
		return false;
	return m->kind == MOUNT_REQUESTED && !plan_target_owner(target) &&
	       (strcmp(target, ISLAND_WORKSPACE) == 0 || !path_is_within(target, ISLAND_WORKSPACE));
}

static bool rule_ok(const char *text)
{
	struct domain_rule rule;
	struct cay_error unused;
	char normal[DOMAIN_RULE_SIZE];

	if ((text[0] != '+' && text[0] != '-') || domain_rule_parse(text + 1, &rule, &unused) < 0)
		return false;
	domain_rule_text(&rule, normal);
	return strcmp(normal, text + 1) == 0;
}

/* As network_decide() makes them; all in the island's text, as an island of other rules is another.
 */
static bool network_ok(const struct plan *p)
{
	const char *rule = plan_first(p, p->rules);
	size_t bytes = 0, allowed = 0;

	if (p->network >= NETWORK_MODES || p->rules.len > EGRESS_RULES_MAX ||
	    !list_ok(p, p->rules, p->island_text) || (p->rules.len == 0) != (p->rules.first == 0))
		return false;
	for (uint32_t i = 0; i < p->rules.len; i++, rule = plan_next(rule)) {
		if (!rule_ok(rule))
			return false;
		allowed += rule[0] == '+';
		bytes += strlen(rule) + 1;
	}
	if (p->network == NETWORK_NONE && p->rules.len > 0)
		return false;
	return (allowed > 0) == (p->network == NETWORK_ALLOWLIST) && bytes <= EGRESS_RULES_BYTES;
}

static bool user_ok(const struct plan *p)
{
	return p->uid == 0 ? p->gid == 0 : p->uid == ISLAND_UID && p->gid == ISLAND_GID;
}

/* For an engine that has images of its own: what could be a name of one. */
static bool reference_ok(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len < IMAGE_TEXT_MAX && text[0] != '-' &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			    "._-/:@[]") == len;
}

/* Of the island's text; an image's id is all that ever becomes part of a path. */
static bool image_ok(const struct plan *p)
{
	const char *id = p->text + p->image;

	if (p->image >= p->island_text)
		return false;
	if (p->engine)
		return user_ok(p) && reference_ok(id);
	if (p->image == 0)
		return p->writable == 0 && user_ok(p);
	return strlen(id) == IMAGE_ID_SIZE - 1 &&
	       strspn(id, "0123456789abcdef") == IMAGE_ID_SIZE - 1;
}

static bool flags_ok(const struct plan *p)
{
	unsigned kept = 0;

	for (uint32_t i = 0; i < p->n_mounts; i++)
		kept += p->mounts[i].kind == MOUNT_KEPT;
	if (kept + p->scratch_workspace > 1)
		return false;
	return p->scratch_workspace <= 1 && p->allow_degraded <= 1 && p->network < NETWORK_MODES &&
	       p->writable <= 1;
}

int plan_check(const struct plan *p, size_t len, struct cay_error *err)
{
	size_t text_len;

	if (len < sizeof(*p) + 1 || len > PLAN_MAX_BYTES)
		return bad(err, "its length");
	if (p->magic != PLAN_MAGIC || p->size != len)
		return bad(err, "its head");
	text_len = len - sizeof(*p);
	if (p->text[text_len - 1] != '\0' || p->text[0] != '\0')
		return bad(err, "its text");
	if (!id_ok("run", p->id))
		return bad(err, "its id");
	if (p->argv.len == 0 || p->argv.len > STRV_MAX || p->env.len > STRV_MAX ||
	    p->compile.len > STRV_MAX || !list_ok(p, p->compile, text_len) ||
	    !list_ok(p, p->argv, text_len) || !list_ok(p, p->env, text_len))
		return bad(err, "its lists");
	if (p->workdir >= text_len || !island_workdir_ok(p->text + p->workdir))
		return bad(err, "its working directory");
	if (p->island_text == 0 || p->island_text > text_len || p->text[p->island_text - 1] != '\0')
		return bad(err, "the island's text");
	if (p->n_mounts > PLAN_MOUNTS_MAX)
		return bad(err, "its mounts");
	for (uint32_t i = 0; i < p->n_mounts; i++)
		if (!mount_ok(p, &p->mounts[i]))
			return bad(err, "a mount");
	if (!network_ok(p))
		return bad(err, "its network");
	if (!image_ok(p))
		return bad(err, "its image or user");
	if (p->warm >= text_len)
		return bad(err, "its set of modules");
	if (p->engine && !spec_engine_is_container((enum spec_engine)p->engine))
		return bad(err, "its engine");
	if (!flags_ok(p))
		return bad(err, "its flags");
	return limits_ok(&p->limits) ? 0 : bad(err, "its limits");
}
