/*
 * rights.h: for a child that is about to become another program, one that needs none of ours.
 */
#pragma once

#include <sys/types.h>

/* Ids that are nobody's, below those of islands: one for each kind of process. */
#define RIGHTS_ID_API    (0x70000000u - 1)
#define RIGHTS_ID_EGRESS (0x70000000u - 2)
#define RIGHTS_ID_FETCH  (0x70000000u - 3)

/* Who the daemon's api is: the user cay, where the machine has one. Of root's daemon, that is. */
void rights_of_api(uid_t *ret_uid, gid_t *ret_gid);

/*
 * Root becomes these ids; everybody is without capabilities and may gain none. Between fork and
 * exec: system calls and nothing else. 0 or -errno.
 */
int rights_drop(uid_t uid, gid_t gid);
