/* A layer's bytes: all that comes of them is in the tree, and can be merged and removed again. */
#include "fuzz.h"

#include "base/fd.h"
#include "image/layer.h"
#include "image/merge.h"
#include "image/wipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/cay-fuzz-layer-XXXXXX";
static int top = -1;

static void remove_place(void)
{
	(void)wipe_inside(top, NULL);
	(void)rmdir(place);
}

static int make_dir(const char *name)
{
	int fd;

	CHECK(mkdirat(top, name, 0700) == 0);
	fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static size_t count(int dir)
{
	DIR *d = fd_opendir_again(dir);
	size_t n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct layer_limits limits = {.bytes = 1 << 20, .entries = 200, .one_id = true};
	struct layer_count counted = {0};
	struct cay_error err;
	uint64_t own;
	int tar, tree, root;

	if (top < 0) {
		CHECK(mkdtemp(place) && atexit(remove_place) == 0);
		top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(top >= 0);
		(void)umask(0);
	}
	tar = fd_sealed("tar", data, size);
	CHECK(tar >= 0);
	tree = make_dir("tree");
	root = make_dir("root");
	if (layer_unpack(tar, tree, &limits, &counted, &err) == 0) {
		CHECK(counted.bytes <= limits.bytes && counted.entries <= limits.entries);
		CHECK(merge_layers(&tree, 1, root, &limits, &own, &err) == 0);
		CHECK(own <= counted.bytes);
	} else {
		CHECK(err.text[0] && !strpbrk(err.text, "\n\r\033"));
	}
	fd_closep(&tar);
	fd_closep(&tree);
	fd_closep(&root);
	/* Nothing beside the two, and nothing that can't go. */
	CHECK(count(top) == 4 && wipe_inside(top, NULL) == 0);
	return 0;
}
