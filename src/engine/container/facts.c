#include "engine/container/facts.h"

#include "base/attr.h"
#include "core/limit.h"
#include "engine/self.h"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <string.h>

static int not_in_force(struct cay_error *err, const char *what)
{
	(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "%s is not in force in the container", what);
	return cay_hint(err, "the engine, or its runtime, did not do what it was asked to");
}

static bool caps_ok(const struct wire_facts *f)
{
	uint64_t may = f->uid == 0 ? ROOT_CAPS : 0;

	/* What can't be had without being root is no right: no_new_privs shuts that door. */
	return !(f->caps_effective & ~may) && !(f->caps_permitted & ~may) &&
	       !(f->caps_bounding & ~may) && !f->caps_inheritable && !f->caps_ambient;
}

int facts_hold(const struct wire_facts *f, const struct plan *p, const struct wire_setup *who,
	       struct cay_error *err)
{
	if (f->pid != 1)
		return not_in_force(err, "a process namespace of its own");
	if (f->uid != who->uid || f->gid != who->gid || (f->uid == 0) != (p->uid == 0))
		return not_in_force(err, "the user");
	if (!caps_ok(f))
		return not_in_force(err, "the lack of capabilities");
	/* As on an island, root in there must be nobody outside: these are the host's files. */
	if (p->uid == 0 && !f->user_mapped && p->n_mounts > 0) {
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
			       "root in the container would be root over the host's directories");
		return cay_hint(err, "leave out the directories, or --user root; or have an engine "
				     "that maps users: rootless Podman, userns-remap");
	}
	if (f->no_new_privs != 1)
		return not_in_force(err, "no_new_privs");
	if (f->seccomp_mode != SECCOMP_MODE_FILTER)
		return not_in_force(err, "the system call filter");
	if (f->dumpable != 0)
		return not_in_force(err, "the shut memory of PID 1");
	if (!p->writable && !f->root_read_only)
		return not_in_force(err, "the read-only root");
	if (!f->only_loopback)
		return not_in_force(err, "the empty network");
	return 0;
}

static int note_degraded(struct isolation *iso, const struct plan *p, const char *limit,
			 enum hold how, struct cay_error *err)
{
	if (how != HOLD_NONE)
		return 0;
	if (!p->allow_degraded) {
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
			       "the limit %s is not in force in the container", limit);
		return cay_hint(err, "--allow-degraded runs without it");
	}
	iso->degraded |= limit_bit(limit_find(limit));
	return 0;
}

/* Pages and periods round; more than asked for is not held. */
static enum hold held(const struct wire_facts *f, uint64_t limit, uint64_t asked)
{
	if (!f->cgroup || limit == 0 || limit > asked)
		return HOLD_NONE;
	return f->cgroup == 1 ? HOLD_CGROUP1 : HOLD_CGROUP2;
}

/* An inode number that is not known is no namespace of the host's. */
static bool shares(const struct wire_facts *f, const uint64_t host[NAMESPACES])
{
	static const unsigned own[] = {1, 2, 3, 4, 5}; /* pid, mount, net, ipc, uts */

	for (size_t n = 0; n < ARRAY_LEN(own); n++)
		if (f->namespaces[own[n]] == host[own[n]])
			return true;
	return false;
}

static unsigned own_namespaces(const struct wire_facts *f, const uint64_t host[NAMESPACES])
{
	unsigned bits = 0;

	for (unsigned n = 0; n < NAMESPACES; n++)
		if (f->namespaces[n] && (!host || f->namespaces[n] != host[n]))
			bits |= 1u << n;
	return bits;
}

int facts_judge(const struct wire_facts *f, const struct plan *p, const struct wire_setup *who,
		const uint64_t host[NAMESPACES], struct isolation *ret, struct cay_error *err)
{
	uint64_t disk =
		f->tmp_bytes + f->shm_bytes + (p->scratch_workspace ? f->workspace_bytes : 0);
	bool sized = f->tmp_bytes && f->shm_bytes && (f->workspace_bytes || !p->scratch_workspace);

	if (facts_hold(f, p, who, err) < 0)
		return -1;
	if (host && shares(f, host))
		return not_in_force(err, "a set of namespaces of its own");
	*ret = (struct isolation){
		.user = f->user_mapped ? HOLD_USERNS : HOLD_NONE,
		.memory = held(f, f->memory_bytes, p->limits.memory_bytes),
		.pids = held(f, f->pids, p->limits.pids + 1),
		.cpu = held(f, f->cpus_milli, p->limits.cpus_milli),
		.disk = sized && !p->writable && disk <= p->limits.disk_bytes ? HOLD_TMPFS
									      : HOLD_NONE,
		.seccomp = HOLD_ALLOWLIST,
		.network = network_hold((enum network_mode)p->network),
		.capabilities = p->uid == 0 ? HOLD_KEPT : HOLD_NONE,
		.landlock = f->landlock,
		.no_new_privs = true,
		.read_only_root = f->root_read_only != 0,
		.namespaces = own_namespaces(f, host),
	};
	if (note_degraded(ret, p, "memory", ret->memory, err) < 0 ||
	    note_degraded(ret, p, "cpus", ret->cpu, err) < 0 ||
	    note_degraded(ret, p, "pids", ret->pids, err) < 0 ||
	    note_degraded(ret, p, "disk", ret->disk, err) < 0)
		return -1;
	return 0;
}
