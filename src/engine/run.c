#include "engine/engine.h"

#include <assert.h>

static engine_run_fn *const runs[ENGINES] = {
	[ENGINE_NATIVE] = native_run,
	[ENGINE_DIRECT] = direct_run,
};

int engine_run(const struct engine *e, const struct run *run, struct result *ret,
	       struct cay_error *err)
{
	assert(runs[e->id]);
	engine_describe(e, ret);
	return runs[e->id](run, ret, err);
}
