/*
 * What the native engine is. Apart from how it runs something: the api says this of it, and
 * is not to have a launcher in its memory.
 */
#include "engine/engine.h"

#include "engine/native/island.h"

static const char *enforced(unsigned n)
{
	return n < n_island_steps ? island_steps[n].name : NULL;
}

/* What every island is denied, beside what dry_network_denied() says. */
static const char *const denied[] = {
	"writing anywhere but /tmp, /workspace, /dev/shm and mounts marked rw",
	"the host's files but /usr, parts of /etc, and the mounts above",
	"capabilities, set-id programs, namespaces, mounts, devices, raw and host sockets",
	"system calls that are not on the allow list",
	NULL,
};

const struct engine engine_native = {
	.id = ENGINE_NATIVE,
	.sandboxed = true,
	.enforced = enforced,
	.denied = denied,
};
