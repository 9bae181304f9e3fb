/* The file of versions found earlier: what is taken from it can be written and read again. */
#include "fuzz.h"

#include "base/fd.h"
#include "image/runtime_cache.h"

#include <fcntl.h>
#include <unistd.h>

#define TITLE "cay " CAY_VERSION "\n"

static char dir[] = "/tmp/cay-fuzz-XXXXXX";

static void remove_dir(void)
{
	char file[64];

	(void)snprintf(file, sizeof(file), "%s/runtimes", dir);
	(void)unlink(file);
	(void)rmdir(dir);
}

/* The bytes, behind a good first line unless they are to have their own. */
static void write_file(struct input *in)
{
	bool titled = input_u8(in) % 8 != 0;
	char file[64];
	int fd;

	(void)snprintf(file, sizeof(file), "%s/runtimes", dir);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	if (titled)
		CHECK(fd_write_all(fd, TITLE, strlen(TITLE)) == 0);
	CHECK(fd_write_all(fd, in->at, in->len) == 0);
	(void)close(fd);
}

static void check_entry(const struct runtime_cache *c, const struct runtime_cache_entry *e)
{
	struct stat st = {.st_dev = e->dev,
			  .st_ino = e->ino,
			  .st_mtim = {.tv_sec = (time_t)e->sec, .tv_nsec = (long)e->nsec},
			  .st_size = (off_t)e->size};
	const char *version;

	CHECK(memchr(e->language, '\0', sizeof(e->language)));
	CHECK(memchr(e->version, '\0', sizeof(e->version)));
	CHECK(!e->version[0] || version_valid(e->version));
	version = runtime_cache_get(c, e->language, &st);
	CHECK((int64_t)e->sec < 0 ? !version : version && strcmp(version, e->version) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct runtime_cache first, again;
	static bool made;
	struct input in = INPUT(data, size);

	if (!made) {
		made = true;
		CHECK(mkdtemp(dir));
		CHECK(atexit(remove_dir) == 0);
	}
	write_file(&in);
	runtime_cache_load(&first, dir);
	CHECK(first.len <= RUNTIME_CACHE_MAX && !first.dirty);
	for (size_t i = 0; i < first.len; i++)
		check_entry(&first, &first.entries[i]);
	first.dirty = true;
	runtime_cache_save(&first, dir);
	runtime_cache_load(&again, dir);
	CHECK(again.len == first.len);
	CHECK(memcmp(again.entries, first.entries, first.len * sizeof(first.entries[0])) == 0);
	return 0;
}
