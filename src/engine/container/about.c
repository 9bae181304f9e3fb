/*
 * What the engines with containers are. Apart from how they run something, as the api says it.
 */
#include "engine/engine.h"

#include "base/attr.h"

static const char *const names[] = {
	"container of its own: pid, mount, net, ipc, uts",
	"read-only root, tmpfs of a size",
	"memory, cpus, pids by the engine's cgroup",
	"no capabilities",
	"no new privileges",
	"rlimits",
	"shut init",
	"seccomp",
	"landlock",
	"read-back",
};

static const char *enforced(unsigned n)
{
	return n < ARRAY_LEN(names) ? names[n] : NULL;
}

static const char *const denied[] = {
	"writing anywhere but /tmp, /workspace, /dev/shm and mounts marked rw",
	"this machine's files but the mounts above",
	"capabilities, set-id programs, namespaces, mounts, devices, raw sockets",
	"system calls that are not on the allow list, or not on the engine's",
	NULL,
};

const struct engine engine_docker = {
	.id = ENGINE_DOCKER,
	.sandboxed = true,
	.enforced = enforced,
	.denied = denied,
};

const struct engine engine_podman = {
	.id = ENGINE_PODMAN,
	.sandboxed = true,
	.enforced = enforced,
	.denied = denied,
};
