/* Paths of --put, in a directory with a neighbour: files land below it, or nowhere. */
#include "fuzz.h"

#include "base/fd.h"
#include "cli/files.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/cay-fuzz-XXXXXX";
static char workspace[64], tmp[64];

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
		      struct FTW *ftw)
{
	/* The directories of the set-up stay. */
	return ftw->level > 1 ? remove(path) : 0;
}

static size_t n_files;

static int count_one(const char *path, const struct stat *st _unused_, int type _unused_,
		     struct FTW *ftw)
{
	if (ftw->level == 0)
		return 0;
	/* Only what was there before, and what lies below the two. */
	CHECK(strncmp(path, workspace, strlen(workspace)) == 0 ||
	      strncmp(path, tmp, strlen(tmp)) == 0);
	n_files += type == FTW_F;
	return 0;
}

static void remove_top(void)
{
	(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	(void)rmdir(workspace);
	(void)rmdir(tmp);
	(void)rmdir(top);
}

static void make_top(void)
{
	CHECK(mkdtemp(top));
	(void)snprintf(workspace, sizeof(workspace), "%s/workspace", top);
	(void)snprintf(tmp, sizeof(tmp), "%s/tmp", top);
	CHECK(mkdir(workspace, 0755) == 0 && mkdir(tmp, 0755) == 0);
	CHECK(atexit(remove_top) == 0);
}

static int count_got(void *ctx, const char *path, int fd _unused_, size_t size,
		     struct cay_error *err _unused_)
{
	CHECK(path[0] != '/' || strncmp(path, "/tmp/", 5) == 0);
	CHECK(size == 1);
	++*(size_t *)ctx;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *path = input_line(&in);
	_cleanup_(freep) char *glob = input_line(&in);
	_cleanup_(fd_closep) int workspace_fd = -1, tmp_fd = -1;
	static bool made;
	struct island_files files = {0};
	struct cay_error err = {0};
	size_t n = 0, got = 0;
	int r;

	if (!made)
		make_top();
	made = true;
	files.workspace = workspace_fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	files.tmp = tmp_fd = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* A way out, for who follows it. */
	CHECK(symlinkat("..", workspace_fd, "link") == 0);
	r = files_write(&files, path, "x", 1, 0644, &err);
	CHECK(r == 0 || err.text[0]);
	n_files = 0;
	CHECK(nftw(top, count_one, 16, FTW_PHYS) == 0);
	CHECK(n_files == (r == 0));
	if (files_get(&files, glob, 0, count_got, &got, &n, &err) == 0)
		CHECK(n == got && n <= n_files);
	CHECK(nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
	return 0;
}
