#include "base/landlock.h"

#include <errno.h>

static int create(const struct landlock_rights *rights, size_t size, uint32_t flags)
{
	return (int)syscall(SYS_landlock_create_ruleset, rights, size, flags);
}

int landlock_abi(void)
{
	int abi = create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	return abi;
}

int landlock_create(int abi, struct landlock_rights *rights)
{
	size_t size = abi >= 6   ? sizeof(*rights)
		      : abi >= 4 ? offsetof(struct landlock_rights, scoped)
				 : offsetof(struct landlock_rights, net);
	int fd;

	rights->fs &= abi < 2 ? ~LANDLOCK_FS_REFER : ~0ull;
	rights->fs &= abi < 3 ? ~LANDLOCK_FS_TRUNCATE : ~0ull;
	rights->fs &= abi < 5 ? ~LANDLOCK_FS_IOCTL_DEV : ~0ull;
	fd = create(rights, size, 0);
	return fd < 0 ? -errno : fd;
}
