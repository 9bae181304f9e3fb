#include "cli/sparse.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define HOLE_BYTES 4096

static bool is_zero(const char *data, size_t len)
{
	return data[0] == '\0' && memcmp(data, data + 1, len - 1) == 0;
}

/* How much from here on is, or is not, zeros in whole blocks of the file. */
static size_t next_run(uint64_t offset, const char *data, size_t len, bool *ret_hole)
{
	size_t n = size_min(len, HOLE_BYTES - offset % HOLE_BYTES), more;

	for (*ret_hole = is_zero(data, n); n < len; n += more) {
		more = size_min(len - n, HOLE_BYTES);
		if (is_zero(data + n, more) != *ret_hole)
			break;
	}
	return n;
}

int sparse_write(int fd, uint64_t *at, const char *data, size_t len)
{
	size_t n;
	bool hole;
	int r = 0;

	for (; len > 0 && r == 0; data += n, len -= n, *at += n) {
		n = next_run(*at, data, len, &hole);
		if (!hole)
			r = fd_write_all(fd, data, n);
		else if (lseek(fd, (off_t)n, SEEK_CUR) < 0)
			r = -errno;
	}
	return r;
}

int sparse_end(int fd, uint64_t at)
{
	return ftruncate(fd, (off_t)at) < 0 ? -errno : 0;
}
