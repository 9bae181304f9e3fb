#include "engine/native/ids.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Above what Debian, systemd (nspawn, DynamicUser) and subuid files give out,
 * below 2^31, where some programs take ids for negative numbers.
 */
#define IDS_FIRST  0x70000000u
#define IDS_RANGES 4095u /* the last one would end at 2^31 - 1, next to (uid_t)-2 of old tools */

#define LOCK_DIR  "/run/cay"
#define LOCK_FILE LOCK_DIR "/ids"

static int open_lock(void)
{
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(LOCK_FILE, flags, 0600);

	if (fd < 0 && errno == ENOENT) {
		if (mkdir(LOCK_DIR, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = open(LOCK_FILE, flags, 0600);
	}
	return fd < 0 ? -errno : fd;
}

int ids_take(struct ids *ret, struct cay_error *err)
{
	int fd = open_lock();
	uint32_t start = (uint32_t)getpid();

	if (fd < 0)
		return cay_fail(err, CAY_E_ENGINE, -fd, "open %s", LOCK_FILE);
	for (uint32_t n = 0; n < IDS_RANGES; n++) {
		uint32_t slot = (start + n) % IDS_RANGES;
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

		/* An OFD lock: it belongs to this opening of the file, also after a fork. */
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
			*ret = (struct ids){.lock = fd, .base = IDS_FIRST + slot * IDS_RANGE};
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES) {
			(void)cay_fail(err, CAY_E_ENGINE, errno, "lock a range of user ids in %s",
				       LOCK_FILE);
			(void)close(fd);
			return -1;
		}
	}
	(void)close(fd);
	return cay_fail(err, CAY_E_AT_CAPACITY, 0, "all %u ranges of user ids are in use",
			IDS_RANGES);
}

void ids_release(struct ids *i)
{
	fd_closep(&i->lock);
}
