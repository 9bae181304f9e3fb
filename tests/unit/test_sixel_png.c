/* What becomes of pictures, and what the process that decodes them can't do any more. */
#include "base/confine.h"
#include "base/landlock.h"
#include "cli/sixel_png.h"
#include "confined_support.h"

#include <fcntl.h>
#include <png.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static char png[1 << 20];

/* One of that size, of nothing, with this pixel at its end. */
static size_t make(unsigned width, unsigned height, const uint8_t pixel[4])
{
	png_image image = {.version = PNG_IMAGE_VERSION,
			   .width = width,
			   .height = height,
			   .format = PNG_FORMAT_RGBA,
			   .flags = PNG_IMAGE_FLAG_FAST};
	size_t size = sizeof(png), bytes = (size_t)width * height * 4;
	uint8_t *rgba = calloc(bytes, 1);

	assert_non_null(rgba);
	memcpy(rgba + bytes - 4, pixel, 4);
	assert_int_equal(png_image_write_to_memory(&image, png, &size, 0, rgba, 0, NULL), 1);
	free(rgba);
	return size;
}

static void a_picture(void **state)
{
	size_t len = make(3, 2, (uint8_t[]){10, 200, 30, 255});
	struct pixels p = {0};

	(void)state;
	assert_int_equal(sixel_png_decode(png, len, &p), 0);
	assert_int_equal(p.width, 3);
	assert_int_equal(p.height, 2);
	assert_memory_equal(p.rgb, ((uint8_t[]){255, 255, 255}), 3); /* transparent: on white */
	assert_memory_equal(p.rgb + 15, ((uint8_t[]){10, 200, 30}), 3);
	pixels_done(&p);
}

static void no_pictures(void **state)
{
	size_t len = make(30, 20, (uint8_t[]){1, 2, 3, 255});
	struct pixels p = {0};

	(void)state;
	for (size_t n = 0; n < len; n++)
		if (sixel_png_decode(png, n, &p) == 0)
			pixels_done(&p); /* without its end it is still one */
		else
			assert_null(p.rgb);
	assert_int_equal(sixel_png_decode(png, len / 2, &p), -1);
	png[len / 2] ^= 1;
	assert_int_equal(sixel_png_decode(png, len, &p), -1);
	assert_null(p.rgb);
}

/* Small files: nothing compresses well. */
static void too_large(void **state)
{
	struct pixels p = {0};
	size_t len;

	(void)state;
	len = make(SIXEL_PNG_SIDE_MAX + 1, 1, (uint8_t[4]){0});
	assert_int_equal(sixel_png_decode(png, len, &p), -1);
	len = make(1, SIXEL_PNG_SIDE_MAX + 1, (uint8_t[4]){0});
	assert_int_equal(sixel_png_decode(png, len, &p), -1);
	len = make(4097, 4097, (uint8_t[4]){0});
	assert_int_equal(sixel_png_decode(png, len, &p), -1);
	len = make(4096, 4096, (uint8_t[4]){0});
	assert_int_equal(sixel_png_decode(png, len, &p), 0);
	pixels_done(&p);
}

static void confine(void)
{
	MUST(sixel_png_confine() == 0);
}

static void try_all(void)
{
	int mine = memfd_create("x", MFD_CLOEXEC);

	MUST(mine >= 0 && write(mine, "x", 1) == 1 && lseek(mine, 0, SEEK_SET) == 0);
	confine();
	MUST(read(mine, png, 1) == 1);
	MUST(malloc(64u << 20));
	DENIED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	DENIED(socket(AF_INET, SOCK_STREAM, 0), EPERM);
	DENIED(memfd_create("x", 0), EPERM);
	DENIED((int)syscall(SYS_execveat, mine, "", NULL, NULL, 0), EPERM);
	DENIED(kill(1, 0), EPERM);
	DENIED(dup2(mine, 9), EPERM);
	if (CONFINE_SANITIZED)
		return;
	DENIED(open("/etc/passwd", O_RDONLY), EPERM);
	DENIED((int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM);
	DENIED(setrlimit(RLIMIT_CPU, &(struct rlimit){1, 1}), EPERM);
	DENIED((intptr_t)mmap(NULL, 1u << 30, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
	       ENOMEM);
}

static void confined(void **state)
{
	(void)state;
	in_child(try_all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_picture),
		cmocka_unit_test(no_pictures),
		cmocka_unit_test(too_large),
		cmocka_unit_test(confined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
