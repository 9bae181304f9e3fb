#include "cli/sixel_png.h"

#include "base/attr.h"
#include "base/confine.h"

#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <sys/resource.h>

#define MEMORY_BYTES (256ull << 20)
#define CPU_SECONDS  5

static const char *const allowed[] = {
	"brk",     "exit",         "exit_group", "fstat",           "futex",  "getrandom",
	"madvise", "mmap",         "mprotect",   "mremap",          "munmap", "read",
	"readv",   "rt_sigreturn", "write",      "restart_syscall", NULL,
};

static int confine_to_no_files(void)
{
	struct confine_files f;
	int abi, r = confine_files_begin(false, &f, &abi);

	if (r < 0 || abi == 0)
		return r;
	if (CONFINE_SANITIZED)
		r = confine_files_allow(&f, "/proc/self", CONFINE_READ);
	return confine_files_end(&f, r);
}

static int set_limits(void)
{
	const struct rlimit memory = {MEMORY_BYTES, MEMORY_BYTES}, none = {0};
	const struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS};

	if (setrlimit(RLIMIT_CPU, &cpu) < 0 || setrlimit(RLIMIT_FSIZE, &none) < 0)
		return -errno;
	/* A sanitizer reserves terabytes. */
	return !CONFINE_SANITIZED && setrlimit(RLIMIT_AS, &memory) < 0 ? -errno : 0;
}

int sixel_png_confine(void)
{
	int r = confine_secrets();

	if (r == 0)
		r = set_limits();
	if (r == 0)
		r = confine_to_no_files();
	return r < 0 ? r : confine_to_calls((const char *const *const[]){allowed, NULL}, NULL);
}

int sixel_png_decode(const void *data, size_t len, struct pixels *ret)
{
	png_color white = {255, 255, 255};
	png_image image = {.version = PNG_IMAGE_VERSION};
	int r = -1;

	if (!png_image_begin_read_from_memory(&image, data, len))
		return -1;
	image.format = PNG_FORMAT_RGB;
	if (image.width <= SIXEL_PNG_SIDE_MAX && image.height <= SIXEL_PNG_SIDE_MAX &&
	    (uint64_t)image.width * image.height <= SIXEL_PNG_AREA_MAX)
		ret->rgb = malloc(PNG_IMAGE_SIZE(image));
	if (ret->rgb && png_image_finish_read(&image, &white, ret->rgb, 0, NULL)) {
		ret->width = image.width;
		ret->height = image.height;
		r = 0;
	}
	if (r < 0)
		pixels_done(ret);
	png_image_free(&image);
	return r;
}
