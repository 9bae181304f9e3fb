/* Layers: names, whiteouts, replaced entries, limits; and what merging makes of several. */
#include "base/attr.h"
#include "base/fd.h"
#include "image/cursor.h"
#include "image/finish.h"
#include "image/layer.h"
#include "image/merge.h"
#include "image/wipe.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAR_BYTES (1 << 20)

struct entry {
	const char *path;
	unsigned type;    /* AE_IF…; 0: a hard link */
	const char *text; /* content or target */
	unsigned mode;
};

static char place[] = "/tmp/cay-test-layer-XXXXXX";
static int top = -1;

/* A tar in memory: an fd at its beginning. */
static int make_tar(const struct entry *entries, size_t n)
{
	static char bytes[TAR_BYTES];
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	size_t used = 0;
	int fd;

	assert_int_equal(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_memory(a, bytes, sizeof(bytes), &used), ARCHIVE_OK);
	for (size_t i = 0; i < n; i++) {
		bool file = entries[i].type == AE_IFREG;

		archive_entry_clear(e);
		archive_entry_set_pathname(e, entries[i].path);
		archive_entry_set_filetype(e, entries[i].type ? entries[i].type : AE_IFREG);
		archive_entry_set_perm(e, entries[i].mode ? entries[i].mode : 0755);
		archive_entry_set_mtime(e, 1000000000, 0);
		archive_entry_set_size(
			e, file && entries[i].text ? (la_int64_t)strlen(entries[i].text) : 0);
		if (entries[i].type == AE_IFLNK)
			archive_entry_set_symlink(e, entries[i].text);
		if (!entries[i].type)
			archive_entry_set_hardlink(e, entries[i].text);
		assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
		if (file && entries[i].text)
			assert_true(archive_write_data(a, entries[i].text,
						       strlen(entries[i].text)) >= 0);
	}
	archive_entry_free(e);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	fd = fd_sealed("tar", bytes, used);
	assert_true(fd >= 0);
	return fd;
}

static int make_dir(const char *name)
{
	int fd;

	assert_int_equal(mkdirat(top, name, 0755), 0);
	fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int unpack_with(const struct layer_limits *limits, const char *name,
		       const struct entry *entries, size_t n, int *ret_tree,
		       struct layer_count *count, struct cay_error *err)
{
	_cleanup_(fd_closep) int tar = make_tar(entries, n);

	*ret_tree = make_dir(name);
	return layer_unpack(tar, *ret_tree, limits, count, err);
}

static const struct layer_limits plenty = {.bytes = 1 << 30, .entries = 1000, .one_id = true};

#define UNPACK(name, ret_tree, err, ...)                                        \
	unpack_with(&plenty, name, (const struct entry[]){__VA_ARGS__},         \
		    ARRAY_LEN(((const struct entry[]){__VA_ARGS__})), ret_tree, \
		    &(struct layer_count){0}, err)

static void check_text(int dir, const char *path, const char *text)
{
	char found[64];

	assert_true(fd_read_text_at(dir, path, found, sizeof(found)) >= 0);
	assert_string_equal(found, text);
}

static bool is_there(int dir, const char *path)
{
	return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int begin(void **state _unused_)
{
	(void)snprintf(place, sizeof(place), "/tmp/cay-test-layer-XXXXXX");
	if (!mkdtemp(place))
		return -1;
	top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top < 0 ? -1 : 0;
}

static int end(void **state _unused_)
{
	int r = wipe_inside(top, NULL);

	fd_closep(&top);
	return r < 0 || rmdir(place) < 0 ? -1 : 0;
}

static void plain_names(void **state _unused_)
{
	char plain[PATH_MAX], name[NAME_MAX + 2];

	assert_int_equal(cursor_plain("./a//b/./c/", plain), 0);
	assert_string_equal(plain, "a/b/c");
	assert_int_equal(cursor_plain("/etc/passwd", plain), 0);
	assert_string_equal(plain, "etc/passwd");
	assert_int_equal(cursor_plain("./", plain), 0);
	assert_string_equal(plain, "");
	assert_int_equal(cursor_plain("a/../b", plain), -EINVAL);
	assert_int_equal(cursor_plain("..", plain), -EINVAL);
	assert_int_equal(cursor_plain("a/...", plain), 0);
	memset(name, 'x', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	assert_int_equal(cursor_plain(name, plain), -EINVAL);
	assert_int_equal(cursor_plain(name + 1, plain), 0);
}

static void whiteouts_are_kept(void **state _unused_)
{
	_cleanup_(fd_closep) int tree = -1;
	struct cay_error err;
	struct stat st;

	assert_int_equal(UNPACK("l", &tree, &err, {"a/.wh.x", AE_IFREG, "text", 0},
				{"a/.wh..wh..opq", AE_IFREG, NULL, 0},
				{"a/.wh..wh.aufs", AE_IFREG, NULL, 0}),
			 0);
	assert_int_equal(fstatat(tree, "a/.wh.x", &st, 0), 0);
	assert_int_equal(st.st_size, 0);
	assert_true(is_there(tree, "a/" LAYER_OPAQUE));
	assert_false(is_there(tree, "a/.wh..wh.aufs"));
	assert_true(is_there(tree, "a/" LAYER_IMPLIED));
	assert_true(is_there(tree, LAYER_IMPLIED));
}

static void later_entries_replace(void **state _unused_)
{
	_cleanup_(fd_closep) int tree = -1;
	struct cay_error err;
	struct stat st;

	assert_int_equal(UNPACK("l", &tree, &err, {"x", AE_IFREG, "one", 0},
				{"x", AE_IFREG, "two", 0}, {"d", AE_IFDIR, NULL, 0},
				{"d", AE_IFLNK, "x", 0}, {"s", AE_IFLNK, "/none", 0},
				{"s", AE_IFREG, "file", 0}, {"h", 0, "x", 0}, {"h", 0, "x", 0},
				{"x", AE_IFREG, "three", 0}),
			 0);
	check_text(tree, "x", "three");
	check_text(tree, "h", "two");
	check_text(tree, "s", "file");
	assert_int_equal(fstatat(tree, "d", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
}

/* The link's target is in the directory that its name was before, and where the last one led. */
static void links_replace_directories(void **state _unused_)
{
	_cleanup_(fd_closep) int tree = -1;
	struct cay_error err;

	if (UNPACK("l", &tree, &err, {"a/b/x", AE_IFREG, "one", 0}, {"a/h", 0, "a/b/x", 0},
		   {"a/d", AE_IFDIR, NULL, 0}, {"a/d", 0, "a/b/x", 0}) < 0)
		fail_msg("%s", err.text);
	check_text(tree, "a/d", "one");
}

static void refused(void **state _unused_)
{
	static const struct {
		struct entry entries[2];
		const char *says;
	} wrong[] = {
		{{{"a/../../x", AE_IFREG, NULL, 0}, {"y", AE_IFREG, NULL, 0}},
		 "'a/../../x' in the layer leads out of it"},
		{{{"l", AE_IFLNK, "/", 0}, {"l/x", AE_IFREG, NULL, 0}},
		 "'l/x' in the layer lies below what is no directory"},
		{{{"d/x", AE_IFREG, NULL, 0}, {"d", AE_IFREG, NULL, 0}},
		 "'d' in the layer is a directory that has something in it, and then something else"},
		{{{"x", AE_IFREG, NULL, 0}, {"h", 0, "y", 0}},
		 "'h' in the layer is a hard link to what is no file of the layer"},
		{{{"d", AE_IFDIR, NULL, 0}, {"h", 0, "d", 0}},
		 "'h' in the layer is a hard link to what is no file of the layer"},
		{{{"x", AE_IFREG, NULL, 0}, {".wh..", AE_IFREG, NULL, 0}},
		 "'.wh..' in the layer is no whiteout that can be"},
		{{{"x\nevil", AE_IFREG, NULL, 0}, {"x\nevil/y", AE_IFREG, NULL, 0}},
		 "'x evil/y' in the layer lies below what is no directory"},
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		_cleanup_(fd_closep) int tree = -1;
		struct layer_count count;
		struct cay_error err;
		char name[16];

		(void)snprintf(name, sizeof(name), "l%zu", i);
		assert_int_equal(
			unpack_with(&plenty, name, wrong[i].entries, 2, &tree, &count, &err), -1);
		assert_int_equal(err.code, CAY_E_INVALID);
		assert_string_equal(err.text, wrong[i].says);
	}
}

static void limits_hold(void **state _unused_)
{
	const struct entry three[] = {
		{"a", AE_IFREG, "x", 0}, {"b", AE_IFREG, "x", 0}, {"c", AE_IFDIR, NULL, 0}};
	struct layer_limits limits = plenty;
	const struct entry deep[] = {{"a/b/c/x", AE_IFREG, "x", 0}};
	_cleanup_(fd_closep) int fits = -1, entries = -1, bytes = -1, way = -1;
	struct layer_count count;
	struct cay_error err;

	limits.entries = 3;
	limits.bytes = 3 * LAYER_BLOCK;
	assert_int_equal(unpack_with(&limits, "fits", three, 3, &fits, &count, &err), 0);
	assert_int_equal(count.bytes, 3 * LAYER_BLOCK);
	assert_int_equal(count.entries, 3);
	assert_int_equal(layer_count_read(fits, &count), 0);
	assert_int_equal(count.bytes, 3 * LAYER_BLOCK);
	limits.entries = 2;
	assert_int_equal(unpack_with(&limits, "entries", three, 3, &entries, &count, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	limits.entries = 3;
	limits.bytes--;
	assert_int_equal(unpack_with(&limits, "bytes", three, 3, &bytes, &count, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	/* Directories that no entry names are there all the same. */
	assert_int_equal(unpack_with(&plenty, "way", deep, 1, &way, &count, &err), 0);
	assert_int_equal(count.bytes, 4 * LAYER_BLOCK);
	assert_int_equal(count.entries, 4);
}

#define PIECES 100

/* A byte, a hole of more than a block, and so on: a file that takes a block for each. */
static int make_sparse_tar(void)
{
	const la_int64_t apart = 4 * (la_int64_t)LAYER_BLOCK;
	static char bytes[TAR_BYTES], data[PIECES * 4 * LAYER_BLOCK];
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	size_t used = 0;
	int fd;

	assert_int_equal(archive_write_set_format_pax(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_memory(a, bytes, sizeof(bytes), &used), ARCHIVE_OK);
	archive_entry_set_pathname(e, "sparse");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, sizeof(data));
	for (la_int64_t i = 0; i < PIECES; i++)
		archive_entry_sparse_add_entry(e, i * apart, 1);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	assert_true(archive_write_data(a, data, sizeof(data)) >= 0);
	archive_entry_free(e);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	fd = fd_sealed("tar", bytes, used);
	assert_true(fd >= 0 && used < sizeof(data) / 8);
	return fd;
}

static void pieces_count_as_blocks(void **state _unused_)
{
	_cleanup_(fd_closep) int tar = make_sparse_tar(), tree = make_dir("l");
	struct layer_count count;
	struct cay_error err;
	struct stat st;

	assert_int_equal(layer_unpack(tar, tree, &plenty, &count, &err), 0);
	assert_int_equal(fstatat(tree, "sparse", &st, 0), 0);
	assert_int_equal(st.st_size, PIECES * 4 * LAYER_BLOCK);
	assert_true(count.bytes >= PIECES * LAYER_BLOCK);
	assert_true(count.bytes >= (uint64_t)st.st_blocks * 512);
}

static void bits_and_times(void **state _unused_)
{
	_cleanup_(fd_closep) int tree = -1;
	struct cay_error err;
	struct stat st;

	assert_int_equal(UNPACK("l", &tree, &err, {"d", AE_IFDIR, NULL, 02500},
				{"d/suid", AE_IFREG, "x", 06711}, {"d/none", AE_IFREG, "x", 01},
				{"null", AE_IFCHR, NULL, 0}),
			 0);
	assert_int_equal(fstatat(tree, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700); /* one id: it is let in */
	assert_int_equal(st.st_mtime, 1000000000);
	assert_int_equal(fstatat(tree, "d/suid", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(fstatat(tree, "d/none", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0401);
	assert_false(is_there(tree, "null"));
}

static void merged(void **state _unused_)
{
	int layers[3] = {-1, -1, -1};
	_cleanup_(fd_closep) int root = -1;
	struct cay_error err;
	uint64_t own;
	struct stat st, low;

	assert_int_equal(UNPACK("1", &layers[0], &err, {"d", AE_IFDIR, NULL, 01777},
				{"d/keep", AE_IFREG, "1", 0}, {"d/gone", AE_IFREG, "1", 0},
				{"o", AE_IFDIR, NULL, 0}, {"o/old", AE_IFREG, "1", 0},
				{"t", AE_IFDIR, NULL, 0}, {"t/x", AE_IFREG, "1", 0},
				{"l", AE_IFLNK, "/o", 0}),
			 0);
	assert_int_equal(UNPACK("2", &layers[1], &err, {"d/.wh.gone", AE_IFREG, NULL, 0},
				{"d/new", AE_IFREG, "2", 0}, {"o/.wh..wh..opq", AE_IFREG, NULL, 0},
				{"o/new", AE_IFREG, "2", 0}, {"t", AE_IFREG, "now a file", 0},
				{"l", AE_IFDIR, NULL, 0}, {"l/x", AE_IFREG, "2", 0}),
			 0);
	assert_int_equal(UNPACK("3", &layers[2], &err, {"d/gone", AE_IFREG, "3", 0},
				{".wh.absent", AE_IFREG, NULL, 0}),
			 0);
	root = make_dir("root");
	assert_int_equal(merge_layers(layers, 3, root, &plenty, &own, &err), 0);
	check_text(root, "d/keep", "1");
	check_text(root, "d/gone", "3");
	check_text(root, "d/new", "2");
	check_text(root, "o/new", "2");
	check_text(root, "t", "now a file");
	check_text(root, "l/x", "2");
	assert_false(is_there(root, "o/old"));
	assert_false(is_there(root, "d/.wh.gone"));
	assert_false(is_there(root, LAYER_FACTS));
	/* The directory is the lowest layer's, which alone has said what it is. */
	assert_int_equal(fstatat(root, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 01777);
	assert_int_equal(st.st_mtime, 1000000000);
	/* A file is the layer's own, which keeps what was taken away above. */
	assert_int_equal(fstatat(root, "d/keep", &st, 0), 0);
	assert_int_equal(fstatat(layers[0], "d/keep", &low, 0), 0);
	assert_int_equal(st.st_ino, low.st_ino);
	check_text(layers[0], "d/gone", "1");
	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		fd_closep(&layers[i]);
}

/* What a layer only implies goes where links of lower ones lead, and never out of the root. */
static void implied_behind_links(void **state _unused_)
{
	int layers[3] = {-1, -1, -1};
	_cleanup_(fd_closep) int root = -1;
	struct cay_error err;
	struct stat st;
	uint64_t own;

	assert_int_equal(
		UNPACK("1", &layers[0], &err, {"usr/bin", AE_IFDIR, NULL, 0711},
		       {"usr/bin/old", AE_IFREG, "1", 0}, {"usr/bin/gone", AE_IFREG, "1", 0},
		       {"bin", AE_IFLNK, "usr/bin", 0}, {"sub/abs", AE_IFLNK, "/usr", 0},
		       {"up", AE_IFLNK, "../../usr", 0}, {"chain", AE_IFLNK, "sub/abs/bin", 0},
		       {"loop", AE_IFLNK, "loop", 0}, {"nowhere", AE_IFLNK, "/zz/late", 0},
		       {"broken", AE_IFLNK, "/no/such", 0}, {"named", AE_IFLNK, "usr/bin", 0}),
		0);
	assert_int_equal(UNPACK("2", &layers[1], &err, {"bin/x", AE_IFREG, "2", 0},
				{"bin/.wh.gone", AE_IFREG, NULL, 0},
				{"sub/abs/bin/y", AE_IFREG, "2", 0}, {"up/z", AE_IFREG, "2", 0},
				{"chain/c", AE_IFREG, "2", 0}, {"loop/l", AE_IFREG, "2", 0},
				{"nowhere/n", AE_IFREG, "2", 0}, {"zz/late", AE_IFDIR, NULL, 0},
				{"broken/b", AE_IFREG, "2", 0}, {"named", AE_IFDIR, NULL, 0},
				{"named/x", AE_IFREG, "own", 0}),
			 0);
	/* Once more, in what the second has made. */
	assert_int_equal(UNPACK("3", &layers[2], &err, {"bin/x", AE_IFREG, "3", 0}), 0);
	root = make_dir("root");
	assert_int_equal(merge_layers(layers, 3, root, &plenty, &own, &err), 0);
	check_text(root, "usr/bin/old", "1");
	check_text(root, "usr/bin/x", "3");
	check_text(root, "usr/bin/y", "2");
	check_text(root, "usr/bin/c", "2");
	check_text(root, "usr/z", "2");
	check_text(root, "zz/late/n", "2");
	check_text(root, "named/x", "own");
	assert_false(is_there(root, "usr/bin/gone"));
	/* As lower layers have it, and links where they lead to a directory. */
	assert_int_equal(fstatat(root, "usr/bin", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0711);
	assert_int_equal(st.st_mtime, 1000000000);
	assert_int_equal(fstatat(root, "bin", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(fstatat(root, "named", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISDIR(st.st_mode));
	check_text(root, "loop/l", "2");
	check_text(root, "broken/b", "2");
	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		fd_closep(&layers[i]);
}

static void roots_have_limits(void **state _unused_)
{
	_cleanup_(fd_closep) int tree = -1, root = make_dir("root"), more = make_dir("more");
	struct layer_limits limits = {.bytes = 3 * LAYER_BLOCK, .entries = 3, .one_id = true};
	struct cay_error err;
	uint64_t own;

	assert_int_equal(UNPACK("l", &tree, &err, {"a/b/c/x", AE_IFREG, "x", 0}), 0);
	assert_int_equal(merge_layers(&tree, 1, root, &limits, &own, &err), 0);
	assert_int_equal(own, 3 * LAYER_BLOCK);
	limits.bytes--;
	assert_int_equal(merge_layers(&tree, 1, more, &limits, &own, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	assert_non_null(strstr(err.hint, "prune"));
}

static void finished(void **state _unused_)
{
	_cleanup_(fd_closep) int tree = -1, root = -1, bad = -1;
	struct cay_error err;
	uint64_t own;
	char text[256];

	assert_int_equal(UNPACK("l", &tree, &err, {"etc/hosts", AE_IFREG, "theirs", 0},
				{"etc/group", AE_IFREG, "g:x:10001:", 0},
				{"dev/null", AE_IFREG, "x", 0}, {"var/tmp/kept", AE_IFREG, "x", 0}),
			 0);
	root = make_dir("root");
	assert_int_equal(merge_layers(&tree, 1, root, &plenty, &own, &err), 0);
	assert_int_equal(own, 4 * LAYER_BLOCK);
	assert_int_equal(finish_root(root, &own, &err), 0);
	/* proc, sys, tmp, workspace and run; hosts, hostname, resolv.conf, passwd and group. */
	assert_int_equal(own, (4 + 5 + 5) * LAYER_BLOCK);
	assert_true(is_there(root, "workspace"));
	assert_false(is_there(root, "dev/null"));
	assert_true(is_there(root, "var/tmp/kept"));
	check_text(tree, "etc/hosts", "theirs");
	assert_true(fd_read_text_at(root, "etc/group", text, sizeof(text)) > 0);
	assert_string_equal(text, "g:x:10001:\ncay:x:1000:\n");
	assert_true(fd_read_text_at(root, "etc/passwd", text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "\ncay:x:1000:1000:"));
	bad = make_dir("bad");
	assert_int_equal(symlinkat("/tmp", bad, "tmp"), 0);
	assert_int_equal(finish_root(bad, &own, &err), -1);
	assert_string_equal(err.text, "/tmp of the image is no directory, and can't be used");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(plain_names, begin, end),
		cmocka_unit_test_setup_teardown(whiteouts_are_kept, begin, end),
		cmocka_unit_test_setup_teardown(later_entries_replace, begin, end),
		cmocka_unit_test_setup_teardown(links_replace_directories, begin, end),
		cmocka_unit_test_setup_teardown(refused, begin, end),
		cmocka_unit_test_setup_teardown(limits_hold, begin, end),
		cmocka_unit_test_setup_teardown(pieces_count_as_blocks, begin, end),
		cmocka_unit_test_setup_teardown(bits_and_times, begin, end),
		cmocka_unit_test_setup_teardown(merged, begin, end),
		cmocka_unit_test_setup_teardown(implied_behind_links, begin, end),
		cmocka_unit_test_setup_teardown(roots_have_limits, begin, end),
		cmocka_unit_test_setup_teardown(finished, begin, end),
	};

	(void)umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
