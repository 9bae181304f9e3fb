#include "base/rights.h"

#include <errno.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define API_USER "cay"

void rights_of_api(uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *p = getpwnam(API_USER);

	*ret_uid = p && p->pw_uid != 0 ? p->pw_uid : RIGHTS_ID_API;
	*ret_gid = p && p->pw_gid != 0 ? p->pw_gid : RIGHTS_ID_API;
}

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
