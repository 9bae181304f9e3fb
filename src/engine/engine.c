#include "engine/engine.h"

#include <assert.h>
#include <string.h>

static const struct engine *const engines[ENGINES] = {
	[ENGINE_AUTO] = &engine_native,   [ENGINE_NATIVE] = &engine_native,
	[ENGINE_DOCKER] = &engine_docker, [ENGINE_PODMAN] = &engine_podman,
	[ENGINE_DIRECT] = &engine_direct,
};

const struct engine *engine_get(enum spec_engine id)
{
	assert(engines[id]);
	return engines[id];
}

void engine_describe(const struct engine *e, struct result *ret)
{
	ret->engine = strdup(spec_engine_name(e->id));
	ret->sandboxed = e->sandboxed;
}
