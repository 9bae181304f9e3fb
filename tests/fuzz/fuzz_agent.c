/*
 * A hostile client: its bytes to an agent whose workspace is a directory with a
 * neighbour. The agent answers with whole records, the last of which is an end, and
 * what is beside the workspace stays. (Inside an island the user's rights are the
 * fence; here it is that paths with ".." and absolute ones are not tried.)
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/fd.h"
#include "engine/agent_wire.h"
#include "engine/agent.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/cay-fuzz-agent-XXXXXX";
#define NOBODY 65534

static char workspace[64], beside[64];

static int remove_one(const char *path, const struct stat *st _unused_, int type _unused_,
		      struct FTW *ftw)
{
	return ftw->level > 0 ? remove(path) : 0;
}

static void remove_top(void)
{
	(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	(void)rmdir(top);
}

static void make_top(void)
{
	CHECK(mkdtemp(top));
	(void)snprintf(workspace, sizeof(workspace), "%s/workspace", top);
	(void)snprintf(beside, sizeof(beside), "%s/beside", top);
	CHECK(chmod(top, 0777) == 0 && atexit(remove_top) == 0);
}

/*
 * Whether it could lead out, as it may on an island: a text that begins with a
 * slash, which is that of a request or follows a NUL, or one with "..".
 */
static bool leads_out(const uint8_t *data, size_t size)
{
	struct agent_request r;
	const uint8_t *texts = data + sizeof(r);

	if (size <= sizeof(r))
		return false;
	memcpy(&r, data, sizeof(r));
	size -= sizeof(r);
	return texts[0] == '/' || (r.path_len < size && texts[r.path_len] == '/') ||
	       memmem(texts, size, "\0/", 2) || memmem(texts, size, "..", 2);
}

/* And if it did, nobody would do no harm. */
static void become(uid_t uid)
{
	CHECK(getuid() != 0 || seteuid(uid) == 0);
}

static void check_answer(int fd)
{
	_cleanup_(buf_done) struct buf all = BUF(1 << 20);
	struct agent_record r = {0};

	CHECK(fd_read_all(fd, &all) == 0);
	for (size_t at = 0; at < all.len; at += r.len) {
		CHECK(r.kind != RECORD_END && r.kind != RECORD_ERROR);
		CHECK(all.len - at >= sizeof(r));
		memcpy(&r, all.data + at, sizeof(r));
		at += sizeof(r);
		CHECK(r.kind > 0 && r.kind < RECORD_KINDS && r.len <= AGENT_CHUNK);
		CHECK(all.len - at >= r.len);
	}
	CHECK(r.kind == RECORD_END || r.kind == RECORD_ERROR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool made;
	static int back = -1;
	char path[96];
	struct stat st;
	int to[2], from[2];

	if (!made) {
		make_top();
		back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	made = true;
	if (leads_out(data, size) || size > 60000)
		return 0;
	become(NOBODY);
	CHECK(mkdir(workspace, 0755) == 0 && mkdir(beside, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/a", workspace);
	CHECK(mkdir(path, 0755) == 0);
	(void)snprintf(path, sizeof(path), "%s/a/b", workspace);
	CHECK(fd_create_file_at(AT_FDCWD, path, "bytes", 5, 0644) == 0);
	(void)snprintf(path, sizeof(path), "%s/l", workspace);
	CHECK(symlink("../beside", path) == 0);
	CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
	CHECK(fd_write_all(to[1], data, size) == 0);
	(void)close(to[1]);
	(void)agent_serve(workspace, to[0], from[1], -1);
	/* It is meant for a process of its own: what it changed is put back. */
	become(0);
	CHECK(fchdir(back) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	(void)close(to[0]);
	(void)close(from[1]);
	check_answer(from[0]);
	(void)close(from[0]);
	CHECK(stat(beside, &st) == 0);
	CHECK(nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
	return 0;
}
