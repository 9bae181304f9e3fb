#include "api/run_dry.h"

#include "base/json.h"
#include "engine/native/dry.h"
#include "session/job.h"

static const char *reason_of(const struct plan_mount *m)
{
	return m->kind == MOUNT_OPERATOR ? "a runtime's directory, named in the settings"
					 : "asked for; judged when the run begins";
}

struct json *run_dry_json(const struct job_order *o, const char *user)
{
	const struct plan *p = o->plan;
	struct json *mounts = json_new_array();

	for (uint32_t n = 0; n < p->n_mounts; n++) {
		const struct plan_mount *m = &p->mounts[n];

		json_add(mounts, dry_mount_json(plan_str(p, m->source), plan_str(p, m->target),
						(enum access)m->access, reason_of(m)));
	}
	return dry_json(p, o->has_runtime ? &o->runtime : NULL,
			&(struct dry_engine){.name = o->direct ? "direct" : "native",
					     .reason = o->reason ? o->reason : "",
					     .user = user,
					     .sandboxed = !o->direct},
			mounts);
}
