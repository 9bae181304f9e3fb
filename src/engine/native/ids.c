#include "engine/native/ids.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Above what Debian, systemd (nspawn, DynamicUser) and subuid files give out,
 * below 2^31, where some programs take ids for negative numbers.
 */
#define IDS_FIRST 0x70000000u

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

void ids_init(struct ids *i)
{
	*i = (struct ids){.lock = -1, .next = (uint32_t)getpid() % IDS_RANGES};
}

void ids_done(struct ids *i)
{
	fd_closep(&i->lock);
}

/* An OFD lock: it belongs to this opening of the file, also after a fork. */
static int set_lock(const struct ids *i, uint32_t slot, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

	return fcntl(i->lock, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

int ids_take(struct ids *i, uint32_t *ret_base, struct cay_error *err)
{
	if (i->lock < 0)
		i->lock = open_lock();
	if (i->lock < 0)
		return cay_fail(err, CAY_E_ENGINE, -i->lock, "open %s", LOCK_FILE);
	for (uint32_t n = 0; n < IDS_RANGES; n++) {
		uint32_t slot = (i->next + n) % IDS_RANGES;
		int r = i->taken[slot] ? -EAGAIN : set_lock(i, slot, F_WRLCK);

		if (r == 0) {
			i->taken[slot] = 1;
			i->next = slot + 1;
			*ret_base = IDS_FIRST + slot * IDS_RANGE;
			return 0;
		}
		if (r != -EAGAIN && r != -EACCES)
			return cay_fail(err, CAY_E_ENGINE, -r, "lock %s", LOCK_FILE);
	}
	return cay_fail(err, CAY_E_AT_CAPACITY, 0, "all %u ranges of user ids are in use",
			IDS_RANGES);
}

void ids_give(struct ids *i, uint32_t base)
{
	uint32_t slot = (base - IDS_FIRST) / IDS_RANGE;

	/* Unlocking can't fail, but for want of memory: then the range stays ours. */
	if (base && set_lock(i, slot, F_UNLCK) == 0) {
		i->taken[slot] = 0;
		i->next = slot; /* what was made for its ids may be there yet: image_root.h */
	}
}

bool ids_all_owned(int *ret_error)
{
	char map[64];
	unsigned inside, outside, count;
	ssize_t n;

	*ret_error = 0;
	if (geteuid() != 0)
		return false;
	n = fd_read_text_at(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map));
	if (n < 0)
		*ret_error = (int)-n;
	return n > 0 && sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count == UINT32_MAX;
}
