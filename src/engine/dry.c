#include "engine/dry.h"

#include "base/attr.h"
#include "base/json.h"
#include "core/limit.h"

static struct json *list_json(const struct plan *p, struct plan_list l)
{
	struct json *list = json_new_array();
	const char *s = plan_first(p, l);

	for (uint32_t n = 0; n < l.len; n++, s = plan_next(s))
		json_add_str(list, s);
	return list;
}

struct json *dry_mount_json(const char *source, const char *target, enum access access,
			    const char *reason)
{
	struct json *m = json_new_object();

	json_set_str(m, "source", source);
	json_set_str(m, "target", target);
	json_set_str(m, "access", access_name(access));
	json_set_str(m, "reason", reason);
	return m;
}

const char *dry_network_denied(const struct plan *p, const struct engine *engine)
{
	static const char *const words[NETWORK_MODES] = {
		[NETWORK_NONE] = "network: only a loopback of its own",
		[NETWORK_ALLOWLIST] = "network: all but TCP to the domains that are listed, and "
				      "DNS for them",
		[NETWORK_FULL] = "network: all but TCP to public addresses, and DNS",
	};

	return engine->sandboxed ? words[p->network] : NULL;
}

static struct json *rules_json(const struct plan *p)
{
	_cleanup_(strv_done) struct strv allow = {0}, block = {0};

	return plan_rules(p, &allow, &block) < 0 ? NULL : egress_rules_json(&allow, &block);
}

struct json *dry_json(const struct plan *p, const struct runtime *rt, const struct dry_engine *by,
		      struct json *mounts)
{
	const struct engine *engine = by->engine;
	struct json *o = json_new_object(), *plan = json_new_object();
	struct json *steps = json_new_array(), *no = json_new_array();
	const char *network = dry_network_denied(p, engine);
	enum network_mode mode = (enum network_mode)p->network;

	json_set_str(plan, "engine", spec_engine_name(engine->id));
	json_set_str(plan, "engine_reason", decision_reason(by->decision));
	json_set(plan, "policy", decision_json(by->decision));
	json_set_str(plan, "user", by->user[0] ? by->user : NULL);
	json_set_bool(plan, "sandboxed", engine->sandboxed);
	json_set_str(plan, "image", engine->sandboxed ? by->image : NULL);
	json_set_str(plan, "language", rt ? rt->language->name : NULL);
	json_set_str(plan, "version", rt && rt->version[0] ? rt->version : NULL);
	json_set(plan, "compile", list_json(p, p->compile));
	json_set(plan, "argv", list_json(p, p->argv));
	json_set(plan, "env", list_json(p, p->env));
	json_set_str(plan, "workdir", plan_str(p, p->workdir));
	json_set_str(plan, "network", engine->sandboxed ? network_mode_name(mode) : "host");
	json_set(plan, "network_rules", rules_json(p));
	json_set(plan, "limits", limits_json(&p->limits));
	json_set(plan, "mounts", mounts);
	for (unsigned n = 0; engine->enforced(n); n++)
		json_add_str(steps, engine->enforced(n));
	json_set(plan, "enforced", steps);
	if (network)
		json_add_str(no, network);
	for (const char *const *what = engine->denied; *what; what++)
		json_add_str(no, *what);
	json_set(plan, "denied", no);
	json_set_bool(plan, "allow_degraded", p->allow_degraded);
	json_set(o, "dry_run", plan);
	return o;
}
