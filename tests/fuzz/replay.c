/*
 * Feeds each file of a corpus to the target that it is linked with: what was once
 * found stays found, without clang. Called with the corpus's directory.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>

static void replay(const uint8_t *data, size_t size)
{
	/* A block of exactly its size: a step past it is seen. */
	uint8_t *copy = malloc(size_max(size, 1));

	CHECK(copy);
	if (size > 0)
		memcpy(copy, data, size);
	CHECK(LLVMFuzzerTestOneInput(copy, size) == 0);
	free(copy);
}

static void replay_file(int dir, const char *name)
{
	_cleanup_(buf_done) struct buf bytes = BUF(1 << 20);

	(void)fprintf(stderr, "%s\n", name);
	CHECK(fd_read_file_at(dir, name, &bytes) == 0);
	replay((const uint8_t *)buf_str(&bytes), bytes.len);
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	size_t n = 0;

	if (!dir) {
		(void)fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	replay(NULL, 0);
	for (struct dirent *e; (e = readdir(dir));)
		if (e->d_name[0] != '.') {
			replay_file(dirfd(dir), e->d_name);
			n++;
		}
	(void)closedir(dir);
	(void)printf("%zu files\n", n);
	return n > 0 ? 0 : 1;
}
