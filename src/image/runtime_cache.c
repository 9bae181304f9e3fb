#include "image/runtime_cache.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "spec/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHE_NAME      "runtimes"
#define CACHE_MAX_BYTES 32768

/* The first line. What another version of cay took for a version may be wrong. */
#define CACHE_TITLE "cay " CAY_VERSION

/* A further line: language device inode seconds nanoseconds size version, which may be unknown. */
#define CACHE_NUMBERS 5
#define CACHE_UNKNOWN "-"

const char *runtime_cache_dir(char *path, size_t size)
{
	const char *base = getenv("XDG_CACHE_HOME");
	const char *below = "/cay";
	int n;

	if (geteuid() == 0)
		return "/var/cache/cay";
	/* The XDG rules: what is not absolute is as if it were not set. */
	if (!base || base[0] != '/') {
		base = getenv("HOME");
		below = "/.cache/cay";
	}
	if (!base || base[0] != '/')
		return NULL;
	n = snprintf(path, size, "%s%s", base, below);
	return n > 0 && (size_t)n < size ? path : NULL;
}

static int copy(char *to, size_t size, const char *from)
{
	size_t n = strlen(from);

	if (n >= size)
		return -ENAMETOOLONG;
	memcpy(to, from, n + 1);
	return 0;
}

/* False for a file that has no place in a cache: a time before 1970. */
static bool entry_init(struct runtime_cache_entry *e, const char *language, const struct stat *st)
{
	memset(e, 0, sizeof(*e));
	if (st->st_mtim.tv_sec < 0 || copy(e->language, sizeof(e->language), language) < 0)
		return false;
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->sec = (uint64_t)st->st_mtim.tv_sec;
	e->nsec = (uint64_t)st->st_mtim.tv_nsec;
	e->size = (uint64_t)st->st_size;
	return true;
}

static bool same_file(const struct runtime_cache_entry *a, const struct runtime_cache_entry *b)
{
	return a->ino == b->ino && a->dev == b->dev && strcmp(a->language, b->language) == 0;
}

const char *runtime_cache_get(const struct runtime_cache *c, const char *language,
			      const struct stat *st)
{
	struct runtime_cache_entry key;

	if (!entry_init(&key, language, st))
		return NULL;
	for (size_t i = 0; i < c->len; i++) {
		const struct runtime_cache_entry *e = &c->entries[i];

		if (same_file(e, &key) && e->sec == key.sec && e->nsec == key.nsec &&
		    e->size == key.size)
			return e->version;
	}
	return NULL;
}

static void forget(struct runtime_cache *c, size_t i)
{
	c->len--;
	memmove(&c->entries[i], &c->entries[i + 1], (c->len - i) * sizeof(c->entries[0]));
}

static void add(struct runtime_cache *c, const struct runtime_cache_entry *entry)
{
	for (size_t i = c->len; i-- > 0;)
		if (same_file(&c->entries[i], entry))
			forget(c, i);
	if (c->len == RUNTIME_CACHE_MAX)
		forget(c, 0);
	c->entries[c->len++] = *entry;
}

void runtime_cache_put(struct runtime_cache *c, const char *language, const struct stat *st,
		       const char *version)
{
	struct runtime_cache_entry entry;

	if (!entry_init(&entry, language, st) || (version[0] && !version_valid(version)) ||
	    copy(entry.version, sizeof(entry.version), version) < 0)
		return;
	add(c, &entry);
	c->dirty = true;
}

/* Takes one line in; a line that is not as we write them is passed over. */
static void load_line(struct runtime_cache *c, char *line)
{
	struct runtime_cache_entry e = {0};
	uint64_t *numbers[CACHE_NUMBERS] = {&e.dev, &e.ino, &e.sec, &e.nsec, &e.size};
	const char *word = strsep(&line, " ");

	if (copy(e.language, sizeof(e.language), word) < 0)
		return;
	for (size_t i = 0; i < CACHE_NUMBERS; i++) {
		word = strsep(&line, " ");
		if (!word || parse_u64(word, 0, UINT64_MAX, numbers[i]) < 0)
			return;
	}
	if (!line)
		return;
	if (strcmp(line, CACHE_UNKNOWN) != 0 &&
	    (!version_valid(line) || copy(e.version, sizeof(e.version), line) < 0))
		return;
	add(c, &e);
}

/*
 * Only a plain file that is ours and that nobody else may write: whoever can
 * write it decides which version a program claims to be.
 */
static int open_trusted(const char *dir)
{
	_cleanup_(fd_closep) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (dir_fd < 0)
		return -errno;
	fd = openat(dir_fd, CACHE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return -EPERM;
	return take_fd(&fd);
}

void runtime_cache_load(struct runtime_cache *c, const char *dir)
{
	_cleanup_(buf_done) struct buf text = BUF(CACHE_MAX_BYTES);
	_cleanup_(fd_closep) int fd = -1;
	char *rest, *line;

	c->len = 0;
	c->dirty = false;
	if (!dir)
		return;
	fd = open_trusted(dir);
	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data)
		return;
	rest = text.data;
	line = strsep(&rest, "\n");
	if (strcmp(line, CACHE_TITLE) != 0)
		return;
	while ((line = strsep(&rest, "\n")))
		load_line(c, line);
}

static int cache_text(const struct runtime_cache *c, struct buf *out)
{
	int r = buf_printf(out, CACHE_TITLE "\n");

	for (size_t i = 0; r == 0 && i < c->len; i++) {
		const struct runtime_cache_entry *e = &c->entries[i];

		r = buf_printf(out, "%s %ju %ju %ju %ju %ju %s\n", e->language, (uintmax_t)e->dev,
			       (uintmax_t)e->ino, (uintmax_t)e->sec, (uintmax_t)e->nsec,
			       (uintmax_t)e->size, e->version[0] ? e->version : CACHE_UNKNOWN);
	}
	return r;
}

/* Opens dir; makes it, and the one above it, if need be. */
static int make_dir(const char *dir)
{
	char parent[PATH_MAX];
	char *slash;
	int fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (copy(parent, sizeof(parent), dir) < 0)
		return -1;
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		(void)mkdir(parent, 0700);
	}
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return -1;
	return open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int write_file(int dir_fd, const char *name, const struct buf *text)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	/* Whatever the umask says: the mode is part of what open_trusted() checks. */
	if (fchmod(fd, 0644) < 0)
		return -errno;
	return fd_write_all(fd, text->data, text->len);
}

void runtime_cache_save(const struct runtime_cache *c, const char *dir)
{
	_cleanup_(buf_done) struct buf text = BUF(CACHE_MAX_BYTES);
	_cleanup_(fd_closep) int dir_fd = -1;
	char temp[64];

	if (!c->dirty || !dir || cache_text(c, &text) < 0)
		return;
	dir_fd = make_dir(dir);
	if (dir_fd < 0)
		return;
	(void)snprintf(temp, sizeof(temp), CACHE_NAME ".%ld", (long)getpid());
	/* On failure the name goes too: a dead process with our pid may have left it. */
	if (write_file(dir_fd, temp, &text) < 0 || renameat(dir_fd, temp, dir_fd, CACHE_NAME) < 0)
		(void)unlinkat(dir_fd, temp, 0);
}
