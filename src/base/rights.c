#include "base/rights.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int rights_drop(uid_t uid, gid_t gid)
{
	/* While we still may: it takes a capability. */
	for (unsigned long cap = 0; geteuid() == 0 && prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EPERM)
			return -errno;
	if (geteuid() == 0 && (syscall(SYS_setgroups, 0, NULL) < 0 ||
			       setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
