#include "cli/run_dry.h"

#include "base/fd.h"
#include "base/json.h"
#include "cli/cli.h"
#include "core/limit.h"
#include "engine/dry.h"
#include "engine/native/hostdir.h"

#include <stdio.h>
#include <string.h>

struct dry_mount {
	char source[4096];
	const char *target, *why;
	enum access access;
};

/* The same judgement that the run would get, by opening what it would open. */
static int judge_mount(const struct plan *p, const struct mount_rules *rules, uint32_t n,
		       struct dry_mount *ret, struct cay_error *err)
{
	const struct plan_mount *m = &p->mounts[n];
	struct hostdir h = HOSTDIR_NONE;

	if (hostdir_open(rules, plan_str(p, m->source), m, &h, err) < 0)
		return -1;
	(void)snprintf(ret->source, sizeof(ret->source), "%s", h.path);
	hostdir_done(&h);
	ret->target = plan_str(p, m->target);
	ret->access = (enum access)m->access;
	ret->why = m->kind == MOUNT_OPERATOR ? "a runtime's directory, named in the settings"
					     : "asked for and allowed";
	return 0;
}

static int mounts_json(const struct plan *p, const struct mount_rules *rules, struct json **ret,
		       struct cay_error *err)
{
	struct json *list = json_new_array();

	for (uint32_t n = 0; n < p->n_mounts; n++) {
		struct dry_mount d;

		if (judge_mount(p, rules, n, &d, err) < 0) {
			json_free(list);
			return -1;
		}
		json_add(list, dry_mount_json(d.source, d.target, d.access, d.why));
	}
	*ret = list;
	return 0;
}

static int print_json(const struct plan *p, const struct mount_rules *rules,
		      const struct runtime *rt, const struct dry_engine *by, struct cay_error *err)
{
	struct json *mounts;

	if (mounts_json(p, rules, &mounts, err) < 0)
		return -1;
	return cli_print_json(dry_json(p, rt, by, mounts));
}

static void print_limits(const struct limits *l)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t v = limit_get(l, &limit_rows[i]);
		char text[32];

		if (v)
			(void)printf("limit    %-10s %s\n", limit_rows[i].name,
				     limit_format(&limit_rows[i], v, text, sizeof(text)));
	}
}

static int print_mounts(const struct plan *p, const struct mount_rules *rules, const char *image,
			struct cay_error *err)
{
	if (plan_image(p))
		(void)printf("mount    %-10s / of the image %.200s\n", p->writable ? "rw" : "ro",
			     image);
	else
		(void)printf("mount    %-10s /usr and parts of /etc of this machine (image %s)\n",
			     "ro", image);
	(void)printf("mount    %-10s /tmp, /dev/shm%s: one tmpfs of the size of the disk limit\n",
		     "rw", p->scratch_workspace ? ", /workspace" : "");
	for (uint32_t n = 0; n < p->n_mounts; n++) {
		struct dry_mount d;

		if (judge_mount(p, rules, n, &d, err) < 0)
			return -1;
		(void)printf("mount    %-10s %s at %s: %s\n", access_name(d.access), d.source,
			     d.target, d.why);
	}
	return 0;
}

static void print_words(const char *label, const struct plan *p, struct plan_list l)
{
	const char *s = plan_first(p, l);

	for (uint32_t n = 0; n < l.len; n++, s = plan_next(s))
		(void)printf("%-8s %.200s\n", label, s);
}

int run_dry(const struct plan *plan, const struct mount_rules *rules, const struct runtime *runtime,
	    const char *image, const struct engine *engine, const struct decision *decision,
	    bool json, struct cay_error *err)
{
	if (json)
		return print_json(
			plan, rules, runtime,
			&(struct dry_engine){
				.engine = engine, .decision = decision, .image = image, .user = ""},
			err);
	(void)printf("engine   %s\n", spec_engine_name(engine->id));
	(void)printf("policy   %s\n", decision->why);
	if (runtime)
		(void)printf("runtime  %s %s (%s)\n", runtime->language->name, runtime->version,
			     runtime->program);
	print_words("compile", plan, plan->compile);
	print_words("argv", plan, plan->argv);
	print_words("env", plan, plan->env);
	(void)printf("workdir  %s\n", plan_str(plan, plan->workdir));
	print_limits(&plan->limits);
	(void)printf("network  %s\n",
		     engine->sandboxed ? network_mode_name(plan->network) : "host");
	print_words("rule", plan, plan->rules);
	if (!engine->sandboxed) {
		(void)printf("denied   nothing: the program runs on this machine as you do\n");
		return 0;
	}
	if (print_mounts(plan, rules, image, err) < 0)
		return -1;
	for (unsigned n = 0; engine->enforced(n); n++)
		(void)printf("enforce  %s\n", engine->enforced(n));
	(void)printf("denied   %s\n", dry_network_denied(plan, engine));
	for (const char *const *what = engine->denied; *what; what++)
		(void)printf("denied   %s\n", *what);
	return 0;
}
