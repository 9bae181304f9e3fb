/*
 * surroundings.h: what was put around this process before it began, and who can take it away: a
 * container's system call filter, its covered /proc and read-only cgroups, switches of the kernel.
 * doctor asks here where a control fails; nothing is decided by it.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct surroundings {
	bool filtered;     /* a system call filter is in force on us already */
	bool proc_covered; /* something is mounted over parts of /proc */
	bool cgroups_read_only;
	bool privileged;       /* the effective id is 0 */
	bool admin;            /* with CAP_SYS_ADMIN, which containers' roots lack */
	bool namespaces_none;  /* user.max_user_namespaces is 0 */
	bool namespaces_off;   /* kernel.unprivileged_userns_clone is 0 (Debian) */
	bool namespaces_bound; /* kernel.apparmor_restrict_unprivileged_userns is 1 (Ubuntu) */
	char profile[64];      /* AppArmor's, that confines us; "": none does */
};

/* root is "/", or a directory that has files for a test. What can't be read is not there. */
void surroundings_read(struct surroundings *ret, const char *root);

enum lacking { LACKING_NAMESPACES, LACKING_PROC, LACKING_CGROUPS, LACKING_FILTER, LACKING_MOUNTS };

/* What to do where this is lacking. */
void surroundings_advise(const struct surroundings *s, enum lacking what, char *text, size_t size);

/*
 * Appends all flags of `docker run` and `podman run` together that a default run needs here, as
 * they are typed; nothing where none would help. limited: there are
 * cgroups that can be used. 0 or -errno.
 */
int surroundings_flags(const struct surroundings *s, bool limited, struct buf *ret);
