#include "image/runtime_version.h"

#include "base/attr.h"
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SCAN_MAX_BYTES (512ll << 20)
#define LIBRARIES_MAX  8 /* names that a program is asked for, per row's file */
#define VERSION_CHARS  "0123456789.abcdefghijklmnopqrstuvwxyz+"
#define LIBRARY_CHARS  "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-" VERSION_CHARS

/* A file in memory; data is NULL where it could not be read. */
struct bytes {
	const char *data;
	size_t len;
};

static struct bytes bytes_of(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return (struct bytes){0};
	if (st.st_size <= 0 || st.st_size > SCAN_MAX_BYTES)
		return (struct bytes){"", 0};
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return data == MAP_FAILED ? (struct bytes){0} : (struct bytes){data, (size_t)st.st_size};
}

static void bytes_done(struct bytes *b)
{
	if (b->len > 0)
		(void)munmap((void *)(uintptr_t)b->data, b->len);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool runtime_version_of_name(const struct language *row, const char *name, const char **ret_base)
{
	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && row->programs[i].name; i++) {
		const char *pattern = row->programs[i].name;
		size_t fixed = strcspn(pattern, "*");
		const char *rest = name + fixed;

		if (strncmp(name, pattern, fixed) != 0)
			continue;
		if (pattern[fixed] == '*' ? !*rest || rest[strspn(rest, "0123456789")] : *rest)
			continue;
		*ret_base = name + strcspn(name, "0123456789");
		return true;
	}
	return false;
}

/* What the bytes say, as long as they speak with one voice. */
struct vote {
	char version[VERSION_SIZE];
	bool split;
};

static void vote_add(struct vote *v, const char *version)
{
	if (!v->version[0])
		memcpy(v->version, version, sizeof(v->version));
	else if (strcmp(v->version, version) != 0)
		v->split = true;
}

static bool vote_result(const struct vote *v, char *ret_version)
{
	if (!v->version[0] || v->split)
		return false;
	memcpy(ret_version, v->version, sizeof(v->version));
	return true;
}

/* The version that begins at p, if it ends well. */
static bool read_version(const char *p, const char *end, bool whole, char *ret_version)
{
	size_t n = 0;

	while (p + n < end && p[n] && strchr(VERSION_CHARS, p[n])) {
		/* The 20 of ruby 3.1.2p20 only counts what was patched: 3.1.2 it is. */
		if (!whole && p[n] == 'p' && p + n + 1 < end && is_digit(p[n + 1]))
			break;
		if (++n >= VERSION_SIZE)
			return false;
	}
	if (whole && (p + n == end || p[n]))
		return false;
	memset(ret_version, 0, VERSION_SIZE);
	memcpy(ret_version, p, n);
	/* Among strings of their own there are many a "v1" and "v16". */
	return version_valid(ret_version) && (!whole || strchr(ret_version, '.'));
}

/*
 * Looks for mark, base, a dot and more: "3.11." of python3.11 leads to 3.11.2.
 * A whole one is a string of its own; but a linker that merges strings makes it
 * the end of a longer one that happens to end so, which is what becomes of it
 * where the prefix is /root/.pyenv/versions/3.12.1. So the ends count if there
 * is no string of its own. Differing answers are none.
 */
static bool scan(const struct bytes *bytes, const struct language_version *where, const char *base,
		 char *ret_version)
{
	const char *end = bytes->data + bytes->len;
	struct vote own = {0}, merged = {0};
	char needle[128], version[VERSION_SIZE];
	int n = snprintf(needle, sizeof(needle), "%s%s%s", where->mark, base, base[0] ? "." : "");

	if (n <= 0 || (size_t)n >= sizeof(needle))
		return false;
	for (const char *p = bytes->data;; p++) {
		const char *rest;
		char before;

		p = memmem(p, (size_t)(end - p), needle, (size_t)n);
		if (!p)
			break;
		before = p > bytes->data ? p[-1] : '\0';
		rest = p + n;
		if (rest == end || !is_digit(*rest) ||
		    !read_version(p + strlen(where->mark), end, where->whole, version))
			continue;
		if (!where->whole || before == '\0')
			vote_add(&own, version);
		else if (!is_digit(before) && before != '.')
			vote_add(&merged, version);
	}
	return own.version[0] ? vote_result(&own, ret_version) : vote_result(&merged, ret_version);
}

/* A file in the directory of the program, or relative to it. */
static bool scan_beside(const char *program, const char *dir, const char *name,
			const struct language_version *where, const char *base, char *ret_version)
{
	_cleanup_(bytes_done) struct bytes bytes = {0};
	int own_len = (int)(strrchr(program, '/') - program);
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%.*s/%s%s", own_len, program, dir, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return false;
	bytes = bytes_of(path);
	return bytes.data && scan(&bytes, where, base, ret_version);
}

/*
 * A program names the libraries that it is linked with: "librustc_driver*" is
 * librustc_driver-4c3beb7552356b6f.so in one, and no other will do.
 */
static bool scan_libraries(const struct bytes *bytes, const char *program,
			   const struct language_version *where, const char *base,
			   char *ret_version)
{
	const char *slash = strrchr(where->file, '/'), *end = bytes->data + bytes->len;
	const char *start = slash ? slash + 1 : where->file;
	const char *p = bytes->data;
	char dir[128], name[NAME_MAX + 1];

	(void)snprintf(dir, sizeof(dir), "%.*s", (int)(start - where->file), where->file);
	for (int i = 0; i < LIBRARIES_MAX; i++, p++) {
		size_t n = 0;

		p = memmem(p, (size_t)(end - p), start, strcspn(start, "*"));
		if (!p)
			break;
		while (p + n < end && p[n] && strchr(LIBRARY_CHARS, p[n]) && n < NAME_MAX)
			n++;
		if (p + n == end || p[n])
			continue;
		memcpy(name, p, n + 1);
		if (scan_beside(program, dir, name, where, base, ret_version))
			return true;
	}
	return false;
}

int runtime_version_read(const struct language *row, const char *program, const char *base,
			 char ret_version[VERSION_SIZE])
{
	_cleanup_(bytes_done) struct bytes bytes = bytes_of(program);

	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && row->versions[i].mark; i++) {
		const struct language_version *where = &row->versions[i];
		bool hit;

		if (where->file && !strchr(where->file, '*'))
			hit = scan_beside(program, "", where->file, where, base, ret_version);
		else if (!bytes.data)
			hit = false;
		else if (where->file)
			hit = scan_libraries(&bytes, program, where, base, ret_version);
		else
			hit = scan(&bytes, where, base, ret_version);
		if (hit)
			return 1;
	}
	(void)snprintf(ret_version, VERSION_SIZE, "%s", base);
	return bytes.data ? 0 : -1;
}
