/*
 * Trees as archives: what is written is read back, by us and by tar(1); archives
 * that nobody should take; and how much memory a long one needs.
 */
#include "base/buf.h"
#include "session/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#define MAX_BYTES (64u << 20)

static void collect(void *ctx, const void *data, size_t len)
{
	assert_int_equal(buf_append(ctx, data, len), 0);
}

/* What a reader brought, one line for each entry. */
static void read_back(const struct buf *archive, size_t piece, struct buf *ret, int *ret_r,
		      struct cay_error *err)
{
	_cleanup_(tar_reader_freep) struct tar_reader *r = tar_reader_new(err);
	struct tar_item item;
	size_t at = 0;

	assert_non_null(r);
	while ((*ret_r = tar_reader_next(r, &item, err)) >= 0 && *ret_r != TAR_END) {
		size_t n = size_min(piece, archive->len - at);

		if (*ret_r == TAR_NEEDS_INPUT) {
			tar_reader_feed(r, archive->data + at, n);
			at += n;
		} else if (*ret_r == TAR_ENTRY) {
			assert_int_equal(buf_printf(ret, "%d %o %s %s %lld\n", item.file.type,
						    item.file.mode, item.file.path,
						    item.file.target, (long long)item.file.size),
					 0);
		} else {
			assert_int_equal(buf_append(ret, item.data, item.len), 0);
		}
	}
}

static void write_some(enum tar_filter filter, struct buf *out)
{
	static const struct agent_file files[] = {
		{.type = AGENT_DIR, .mode = 02755, .path = "d", .target = ""},
		{.type = AGENT_FILE,
		 .mode = 06755,
		 .path = "d/f",
		 .target = "",
		 .size = 6,
		 .mtime_ns = 1234567890123456789},
		{.type = AGENT_FILE, .mode = 0600, .path = "d/short", .target = "", .size = 4},
		{.type = AGENT_LINK, .mode = 0777, .path = "l", .target = "/etc/passwd"},
		{.type = AGENT_FILE,
		 .mode = 0644,
		 .path = "na\xc3\xafve \xe2\x82\xac",
		 .target = ""},
		{.type = AGENT_FILE, .mode = 0644, .path = "raw\xff\n", .target = ""},
		{.type = AGENT_FIFO, .mode = 0644, .path = "fifo", .target = ""},
	};
	struct cay_error err = {0};
	_cleanup_(tar_writer_freep) struct tar_writer *w =
		tar_writer_new(filter, collect, out, &err);

	assert_non_null(w);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		assert_int_equal(tar_writer_entry(w, &files[i], &err), 0);
		if (i == 1) /* more than it said */
			assert_int_equal(tar_writer_data(w, "hello\n and more", 15, &err), 0);
		if (i == 2)
			assert_int_equal(tar_writer_data(w, "x", 1, &err), 0);
	}
	assert_int_equal(tar_writer_end(w, &err), 0);
}

static void what_is_written_is_read(void **state _unused_)
{
	static const char expected[] = "2 755 d  0\n"
				       "1 755 d/f  6\nhello\n"
				       "1 600 d/short  4\nx\0\0\0"
				       "3 777 l /etc/passwd 0\n"
				       "1 644 na\xc3\xafve \xe2\x82\xac  0\n"
				       "1 644 raw\xff\n  0\n";

	for (int filter = TAR_PLAIN; filter <= TAR_ZSTD; filter++) {
		for (size_t piece = 1; piece < 100000; piece *= 317) {
			_cleanup_(buf_done) struct buf archive = BUF(MAX_BYTES),
						       back = BUF(MAX_BYTES);
			struct cay_error err = {0};
			int r;

			write_some((enum tar_filter)filter, &archive);
			read_back(&archive, piece, &back, &r, &err);
			if (r < 0)
				fail_msg("%s", err.text);
			assert_int_equal(back.len, sizeof(expected) - 1);
			assert_memory_equal(back.data, expected, back.len);
		}
	}
}

/* One entry, made by libarchive without our checks. */
static void make_bad(struct buf *out, const char *path, unsigned type, const char *hard)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	static char bytes[20000];
	size_t used = 0;

	assert_int_equal(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_memory(a, bytes, sizeof(bytes), &used), ARCHIVE_OK);
	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, type);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, 0);
	if (hard)
		archive_entry_set_hardlink(e, hard);
	assert_true(archive_write_header(a, e) >= ARCHIVE_WARN);
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	assert_int_equal(buf_append(out, bytes, used), 0);
	archive_entry_free(e);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
}

static void archives_that_nobody_takes(void **state _unused_)
{
	static const struct {
		const char *path;
		unsigned type;
		const char *hard;
		const char *word; /* NULL: it is taken */
	} cases[] = {
		{"../x", AE_IFREG, NULL, "leads out"},
		{"a/../../x", AE_IFREG, NULL, "leads out"},
		{"/etc/passwd", AE_IFREG, NULL, "absolute"},
		{"x", AE_IFREG, "/etc/passwd", "absolute"},
		{"x", AE_IFREG, "a/../../y", "leads out"},
		{"dev", AE_IFCHR, NULL, "neither"},
		{"dev", AE_IFBLK, NULL, "neither"},
		{"fifo", AE_IFIFO, NULL, "neither"},
		{".", AE_IFREG, NULL, "no name"},
		{"./.", AE_IFDIR, NULL, NULL},
		{"./a//b/./c", AE_IFREG, NULL, NULL},
		{"x", AE_IFREG, "./y", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(buf_done) struct buf archive = BUF(MAX_BYTES), back = BUF(MAX_BYTES);
		struct cay_error err = {0};
		int r;

		make_bad(&archive, cases[i].path, cases[i].type, cases[i].hard);
		read_back(&archive, 4096, &back, &r, &err);
		if (cases[i].word && (r >= 0 || !strstr(err.text, cases[i].word)))
			fail_msg("%s: %d %s", cases[i].path, r, err.text);
		if (!cases[i].word && r != TAR_END)
			fail_msg("%s: %s", cases[i].path, err.text);
	}
}

static void archives_that_are_none(void **state _unused_)
{
	_cleanup_(buf_done) struct buf whole = BUF(MAX_BYTES);

	write_some(TAR_GZIP, &whole);
	for (size_t len = 0; len < whole.len; len += 13) {
		_cleanup_(buf_done) struct buf back = BUF(MAX_BYTES);
		struct buf part = {.data = whole.data, .len = len, .max = MAX_BYTES};
		struct cay_error err = {0};
		int r;

		read_back(&part, 7, &back, &r, &err);
		assert_true(r < 0 ? err.code == CAY_E_INVALID && err.text[0] : len > 100);
	}
	for (int i = 0; i < 200; i++) {
		_cleanup_(buf_done) struct buf back = BUF(MAX_BYTES), noise = BUF(MAX_BYTES);
		struct cay_error err = {0};
		int r;

		assert_int_equal(buf_append(&noise, whole.data, whole.len), 0);
		noise.data[(size_t)i % noise.len] ^= (char)(1 << i % 8);
		read_back(&noise, 64, &back, &r, &err);
	}
}

/* Broken off in the middle, at each step. */
static void readers_can_be_left(void **state _unused_)
{
	_cleanup_(buf_done) struct buf whole = BUF(MAX_BYTES);

	write_some(TAR_ZSTD, &whole);
	for (int steps = 0; steps < 12; steps++) {
		struct cay_error err = {0};
		struct tar_reader *r = tar_reader_new(&err);
		struct tar_item item;

		for (int i = 0; i < steps; i++)
			if (tar_reader_next(r, &item, &err) == TAR_NEEDS_INPUT && i % 3)
				tar_reader_feed(r, whole.data, whole.len);
		tar_reader_free(r);
	}
}

/* Straight from the writer into the reader: 300 MB, of which little is ever there. */
struct through {
	struct tar_reader *reader;
	unsigned long long in, out;
};

static void pass(void *ctx, const void *data, size_t len)
{
	struct through *t = ctx;
	struct cay_error err = {0};
	struct tar_item item;
	bool fed = false;

	for (;;) {
		int r = tar_reader_next(t->reader, &item, &err);

		if (r < 0)
			fail_msg("%s", err.text);
		if (r == TAR_END || (r == TAR_NEEDS_INPUT && fed))
			return;
		if (r == TAR_NEEDS_INPUT)
			tar_reader_feed(t->reader, data, len);
		fed |= r == TAR_NEEDS_INPUT;
		if (r == TAR_DATA)
			t->out += item.len;
	}
}

static long peak_kb(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static void long_ones_take_no_memory(void **state _unused_)
{
	static const char chunk[65536];
	const uint64_t size = 300ull << 20;
	const struct agent_file file = {
		.type = AGENT_FILE, .path = "big", .target = "", .size = size};
	struct cay_error err = {0};
	struct through t = {.reader = tar_reader_new(&err)};
	struct tar_writer *w = tar_writer_new(TAR_PLAIN, pass, &t, &err);
	long before = peak_kb();

	assert_int_equal(tar_writer_entry(w, &file, &err), 0);
	for (; t.in < size; t.in += sizeof(chunk))
		assert_int_equal(tar_writer_data(w, chunk, sizeof(chunk), &err), 0);
	assert_int_equal(tar_writer_end(w, &err), 0);
	assert_int_equal(t.out, size);
	assert_true(peak_kb() - before < 8192);
	tar_writer_free(w);
	tar_reader_free(t.reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(archives_that_nobody_takes),
		cmocka_unit_test(archives_that_are_none),
		cmocka_unit_test(readers_can_be_left),
		cmocka_unit_test(long_ones_take_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
