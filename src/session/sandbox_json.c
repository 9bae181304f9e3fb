#include "session/sandbox_impl.h"

#include "base/json.h"
#include "core/limit.h"

static struct json *usage_json(const struct sandbox *s)
{
	struct json *o = json_new_object();

	json_set_real(o, "cpu_ms", s->usage.cpu_ms);
	json_set_int(o, "memory_bytes", (int64_t)s->memory_bytes);
	json_set_int(o, "memory_peak_bytes", (int64_t)s->usage.memory_peak_bytes);
	json_set_int(o, "processes", (int64_t)s->processes);
	return o;
}

struct json *sandbox_network_json(const struct sandbox *s)
{
	const struct network_spec *n = &s->body->spec.network;
	struct json *o = egress_rules_json(&n->allow, &n->block);

	json_set_str(o, "mode", network_mode_name(n->mode));
	return o;
}

struct json *sandbox_json(const struct sandbox *s)
{
	struct json *o = json_new_object();
	char owner[OWNER_SIZE];

	json_set_str(o, "id", s->id);
	json_set_str(o, "name", s->name);
	json_set_str(o, "scope", s->body->scope);
	json_set_str(o, "state", s->unable ? "unusable" : sandbox_state_name(s->state));
	json_set_str(o, "reason", s->unable ? s->unable->text : NULL);
	json_set_str(o, "owner", owner_text(&s->owner, owner));
	json_set_int(o, "created", s->created_ms);
	json_set_int(o, "last_used", s->last_used_ms);
	if (s->expires_ms)
		json_set_int(o, "expires", s->expires_ms);
	else
		json_set_null(o, "expires");
	json_set_real(o, "idle_timeout", (double)s->idle_timeout_ms / 1000);
	json_set_bool(o, "persistent", s->body->persistent);
	json_set_int(o, "busy", (int64_t)s->busy);
	json_set(o, "labels", request_labels_json(s->body));
	json_set_str(o, "engine",
		     spec_engine_name(s->body->spec.engine ? s->body->spec.engine : ENGINE_NATIVE));
	json_set_str(o, "image", s->body->spec.image);
	json_set(o, "limits", limits_json(&s->body->spec.limits));
	json_set(o, "network", sandbox_network_json(s));
	json_set(o, "usage", usage_json(s));
	if (s->stands)
		json_set(o, "isolation", isolation_json(&s->isolation));
	else
		json_set_null(o, "isolation");
	return o;
}
