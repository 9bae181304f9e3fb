/*
 * The version of a program, from its bytes: the first byte says of which
 * language, then a line with the program's name, then the bytes.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "image/runtime_version.h"

#include <sys/mman.h>
#include <unistd.h>

static void check_version(const char *version, const char *base, int r)
{
	CHECK(memchr(version, '\0', VERSION_SIZE));
	if (r == 1) {
		CHECK(version_valid(version));
		CHECK(strncmp(version, base, strlen(base)) == 0);
	} else {
		CHECK(strncmp(version, base, VERSION_SIZE - 1) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	const struct language *row = &languages[input_u8(&in) % n_languages];
	_cleanup_(freep) char *name = input_line(&in);
	_cleanup_(fd_closep) int fd = memfd_create("program", MFD_CLOEXEC);
	char path[64], version[VERSION_SIZE];
	const char *base = NULL;

	CHECK(fd >= 0 && fd_write_all(fd, in.at, in.len) == 0);
	if (!runtime_version_of_name(row, name, &base)) {
		CHECK(!base);
		base = "";
	}
	CHECK(base[strspn(base, "0123456789.")] == '\0');
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	memset(version, 'x', sizeof(version));
	check_version(version, base, runtime_version_read(row, path, base, version));
	return 0;
}
