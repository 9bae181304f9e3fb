#include "engine/engine.h"

#include "base/attr.h"

static const char *enforced(unsigned n _unused_)
{
	return NULL;
}

const struct engine engine_direct = {
	.id = ENGINE_DIRECT,
	.enforced = enforced,
	.denied = (const char *const[]){NULL},
};
