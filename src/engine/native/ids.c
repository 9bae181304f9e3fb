#include "engine/native/ids.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Above what Debian, systemd (nspawn, DynamicUser) and subuid files give out. Ids past 2^31, which
 * some programs take for negative numbers, only when those below are all in use: the last range
 * below would end at 2^31 - 1, next to (uid_t)-2 of old tools, and the last above leaves out what
 * is that as 32 bits.
 */
static const struct area {
	uint32_t slot, n; /* of its ranges */
	uint32_t first_id;
} areas[IDS_AREAS] = {
	{0, IDS_RANGES_LOW, 0x70000000u},
	{IDS_RANGES_LOW, IDS_RANGES_HIGH, 0x80010000u},
};

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
	*i = (struct ids){.lock = -1};
	for (int k = 0; k < IDS_AREAS; k++)
		i->next[k] = (uint32_t)getpid() % areas[k].n;
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

/* -EAGAIN: it is somebody's. */
static int take_slot(struct ids *i, uint32_t slot)
{
	uint8_t *byte = &i->taken[slot / 8], bit = (uint8_t)(1u << slot % 8);
	int r = *byte & bit ? -EAGAIN : set_lock(i, slot, F_WRLCK);

	if (r == 0)
		*byte |= bit;
	return r == -EACCES ? -EAGAIN : r;
}

/* Unlocking can't fail, but for want of memory: then the range stays ours. */
static void give_slot(struct ids *i, uint32_t slot)
{
	if (set_lock(i, slot, F_UNLCK) == 0)
		i->taken[slot / 8] &= (uint8_t) ~(1u << slot % 8);
}

/* The last of the ranges from this one on that are of the same owner: no need to try each. */
static uint32_t end_of_taken(const struct ids *i, uint32_t slot)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

	if (fcntl(i->lock, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return slot;
	return (uint32_t)(lock.l_start + lock.l_len - 1);
}

/* All n from there on, or none: the last one known that can't be had is *ret_obstacle. */
static int take_slots(struct ids *i, uint32_t first, uint32_t n, uint32_t *ret_obstacle)
{
	for (uint32_t k = 0; k < n; k++) {
		int r = take_slot(i, first + k);

		if (r == 0)
			continue;
		*ret_obstacle = end_of_taken(i, first + k);
		while (k-- > 0)
			give_slot(i, first + k);
		return r;
	}
	return 0;
}

/* -EAGAIN: there is none in this area. Blocks lie in one: behind the low ids come no high ones. */
static int take_in(struct ids *i, int area, uint32_t n, uint32_t *ret_base)
{
	const struct area *a = &areas[area];
	uint32_t first = i->next[area], looked = 0, obstacle = 0;

	while (looked < a->n) {
		int r;

		if (first + n > a->n) {
			looked += a->n - (uint32_t)size_min(first, a->n);
			first = 0;
		}
		r = take_slots(i, a->slot + first, n, &obstacle);
		if (r == 0) {
			i->next[area] = first + n;
			*ret_base = a->first_id + first * IDS_RANGE;
		}
		if (r != -EAGAIN)
			return r;
		obstacle -= a->slot;
		looked += obstacle + 1 - first;
		first = obstacle + 1;
	}
	return -EAGAIN;
}

int ids_take_block(struct ids *i, uint32_t n, uint32_t *ret_base, struct cay_error *err)
{
	int r = -EAGAIN;

	if (i->lock < 0)
		i->lock = open_lock();
	if (i->lock < 0)
		return cay_fail(err, CAY_E_ENGINE, -i->lock, "open %s", LOCK_FILE);
	/* Zygotes' blocks would soon leave nothing of the low ones to everybody else. */
	for (int area = n > 1; area < IDS_AREAS && r == -EAGAIN; area++)
		r = take_in(i, area, n, ret_base);
	if (r == -EAGAIN)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "all %u ranges of user ids are in use",
				IDS_RANGES);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "lock %s", LOCK_FILE) : 0;
}

void ids_give_block(struct ids *i, uint32_t base, uint32_t n)
{
	int area = base >= areas[1].first_id;
	uint32_t slot = (base - areas[area].first_id) / IDS_RANGE;

	if (!base)
		return;
	for (uint32_t k = 0; k < n; k++)
		give_slot(i, areas[area].slot + slot + k);
	i->next[area] = slot; /* what was made for its ids may be there yet: image_root.h */
}

int ids_take(struct ids *i, uint32_t *ret_base, struct cay_error *err)
{
	return ids_take_block(i, 1, ret_base, err);
}

void ids_give(struct ids *i, uint32_t base)
{
	ids_give_block(i, base, 1);
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
