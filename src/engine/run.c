#include "engine/engine.h"

#include <assert.h>
#include <errno.h>

static engine_run_fn *const runs[ENGINES] = {
	[ENGINE_NATIVE] = native_run,
	[ENGINE_DOCKER] = container_run,
	[ENGINE_PODMAN] = container_run,
	[ENGINE_DIRECT] = direct_run,
};

int engine_run(const struct engine *e, const struct run *run, struct result *ret,
	       struct cay_error *err)
{
	assert(runs[e->id]);
	engine_describe(e, ret);
	if (plan_rules(run->plan, &ret->allow, &ret->block) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "prepare the result");
	return runs[e->id](run, ret, err);
}
