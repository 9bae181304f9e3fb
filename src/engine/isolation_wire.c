#include "engine/service.h"

#include "base/attr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Every word an isolation can have: what comes in is one of these, or nothing. */
static const char *const words[] = {"none", "userns",    "cgroup1", "cgroup2", "rlimit", "tmpfs",
				    "host", "allowlist", "kept",    "loop",    "full"};

static void pack(char out[12], const char *word)
{
	(void)snprintf(out, 12, "%s", word ? word : "none");
}

void isolation_pack(const struct isolation *i, struct isolation_wire *ret)
{
	size_t len = 0;

	*ret = (struct isolation_wire){
		.landlock = i->landlock,
		.namespaces = i->namespaces,
		.no_new_privs = i->no_new_privs,
		.read_only_root = i->read_only_root,
	};
	pack(ret->user, i->user);
	pack(ret->memory, i->memory);
	pack(ret->pids, i->pids);
	pack(ret->cpu, i->cpu);
	pack(ret->disk, i->disk);
	pack(ret->seccomp, i->seccomp);
	pack(ret->network, i->network);
	pack(ret->capabilities, i->capabilities);
	for (size_t n = 0; n < i->degraded.len && len < sizeof(ret->degraded); n++) {
		int r = snprintf(ret->degraded + len, sizeof(ret->degraded) - len, "%s ",
				 i->degraded.items[n]);

		len += r > 0 ? (size_t)r : 0;
	}
}

static const char *unpack(const char in[12])
{
	for (size_t n = 0; n < ARRAY_LEN(words); n++)
		if (strncmp(in, words[n], 12) == 0)
			return words[n];
	return "none";
}

int isolation_unpack(const struct isolation_wire *w, struct isolation *ret)
{
	char degraded[sizeof(w->degraded) + 1] = {0};

	*ret = (struct isolation){
		.user = unpack(w->user),
		.memory = unpack(w->memory),
		.pids = unpack(w->pids),
		.cpu = unpack(w->cpu),
		.disk = unpack(w->disk),
		.seccomp = unpack(w->seccomp),
		.network = unpack(w->network),
		.capabilities = unpack(w->capabilities),
		.landlock = w->landlock,
		.namespaces = w->namespaces,
		.no_new_privs = w->no_new_privs != 0,
		.read_only_root = w->read_only_root != 0,
	};
	memcpy(degraded, w->degraded, sizeof(w->degraded));
	for (char *name = degraded; *name;) {
		size_t len = strcspn(name, " ");
		char *next = name + len + (name[len] == ' ');

		name[len] = '\0';
		if (len > 0 && strv_add(&ret->degraded, name) < 0)
			return -ENOMEM;
		name = next;
	}
	return 0;
}
