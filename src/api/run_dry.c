#include "api/run_dry.h"

#include "base/json.h"
#include "engine/dry.h"
#include "session/job.h"

static const char *reason_of(const struct plan_mount *m)
{
	switch ((enum mount_kind)m->kind) {
	case MOUNT_OPERATOR:
		return "a runtime's directory, named in the settings";
	case MOUNT_KEPT:
		return "a workspace of its own, on disk";
	case MOUNT_REQUESTED:
		break;
	}
	return "asked for; judged when the run begins";
}

/* A kept workspace has the name of its sandbox, and there is none. */
static const char *source_of(const struct plan *p, const struct plan_mount *m)
{
	return m->kind == MOUNT_KEPT ? "" : plan_str(p, m->source);
}

static struct json *dry_of(const struct plan *p, const struct runtime *rt,
			   const struct dry_engine *engine)
{
	struct json *mounts = json_new_array();

	for (uint32_t n = 0; n < p->n_mounts; n++) {
		const struct plan_mount *m = &p->mounts[n];

		json_add(mounts, dry_mount_json(source_of(p, m), plan_str(p, m->target),
						(enum access)m->access, reason_of(m)));
	}
	return dry_json(p, rt, engine, mounts);
}

struct json *run_dry_json(const struct job_order *o, const char *user)
{
	return dry_of(o->plan, o->has_runtime ? &o->runtime : NULL,
		      &(struct dry_engine){.engine = o->engine,
					   .decision = &o->decision,
					   .image = o->image,
					   .user = user});
}

struct json *sandbox_dry_json(struct plan *p, const char *image, const struct decision *decision)
{
	p->argv.len = 0; /* what an island is tried with before it is anybody's */
	return dry_of(p, NULL,
		      &(struct dry_engine){.engine = &engine_native,
					   .decision = decision,
					   .image = image,
					   .user = ""});
}
