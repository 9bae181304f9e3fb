#include "image/used.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/images.h"
#include "image/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int layer_count_read(int tree_fd, struct layer_count *ret)
{
	char text[128];
	ssize_t n = fd_read_text_at(tree_fd, LAYER_FACTS, text, sizeof(text));
	unsigned long long v[3];

	if (n < 0)
		return (int)n;
	if (sscanf(text, "%llu %llu %llu", &v[0], &v[1], &v[2]) != 3)
		return -EINVAL;
	*ret = (struct layer_count){.bytes = v[0], .entries = v[1], .left_out = v[2]};
	return 0;
}

static uint64_t layer_bytes(int dir_fd, const char *name)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct layer_count count;

	return fd >= 0 && layer_count_read(fd, &count) == 0 ? count.bytes : 0;
}

static uint64_t file_bytes(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0
								   : (uint64_t)st.st_blocks * 512;
}

static int add_all(const char *dir, const char *subdir, uint64_t (*bytes)(int, const char *),
		   uint64_t *sum)
{
	char path[PATH_MAX + 16];
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, subdir);
	d = fd_opendir(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			*sum += bytes(dirfd(d), e->d_name);
	(void)closedir(d);
	return 0;
}

int images_used(const char *dir, uint64_t *ret_bytes, size_t *ret_images, struct cay_error *err)
{
	struct image **images;
	uint64_t sum = 0;
	int r = add_all(dir, "layers", layer_bytes, &sum);

	if (r == 0)
		r = add_all(dir, "partial", file_bytes, &sum);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "see how much the images of %s take", dir);
	if (images_list(dir, &images, ret_images, NULL, err) < 0)
		return -1;
	for (size_t i = 0; i < *ret_images; i++)
		sum += images[i]->root_bytes;
	image_list_free(images, *ret_images);
	*ret_bytes = sum;
	return 0;
}
