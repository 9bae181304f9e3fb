/*
 * runtime.c: finds the interpreters of a language.
 *
 * A lookup is on the way of every run, so it reads no directory and no program
 * that it knows already: the names of the language's row are tried one by one
 * in the few directories there are, each hit costs a stat, and its version comes
 * from the cache. Only a program that is new, or has changed, is searched for
 * its version. Nothing is ever executed.
 */
#include "image/runtime.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/runtime_cache.h"
#include "spec/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX         16
#define SCAN_MAX_BYTES    (512ll << 20)
#define LIST_MAX_BYTES    400 /* of the versions named in an error */
#define VERSION_CHARS     "0123456789.abcdefghijklmnopqrstuvwxyz+"
#define OPERATOR_SETTINGS "/etc/cay/cay.conf"

struct search {
	const struct runtime_places *places;
	const struct language *language;
	struct runtimes found;
	struct {
		dev_t dev;
		ino_t ino;
	} files[RUNTIMES_MAX];
	size_t group; /* the first item of the group in which a file counts only once */
	struct runtime_cache cache;
};

/* One directory that is looked into. */
struct place {
	const char *dir;  /* no link anywhere in it */
	const char *root; /* to be bound, "" inside what an island sees anyway */
	const char *source;
};

void runtimes_done(struct runtimes *r)
{
	free(r->items);
	r->items = NULL;
	r->len = 0;
}

_printf_(3, 4) static bool format(char *to, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(to, size, fmt, ap);
	va_end(ap);
	return n >= 0 && (size_t)n < size;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Whether path is dir or lies below it. */
static bool is_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n > 0 && strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_visible(const struct search *s, const struct place *at, const char *path)
{
	return is_in(path, s->places->host_root) || is_in(path, at->root);
}

/* Versions */

/*
 * The version that a program's name begins with, "3.11" of python3.11, if it
 * is one of the row's names: not that of python3.11-config or python3.11m.
 */
static bool version_of_name(const struct language *language, const char *name, const char **ret)
{
	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && language->programs[i].name; i++) {
		const char *pattern = language->programs[i].name;
		size_t fixed = strcspn(pattern, "*");
		const char *rest = name + fixed;

		if (strncmp(name, pattern, fixed) != 0)
			continue;
		if (pattern[fixed] == '*' ? !*rest || rest[strspn(rest, "0123456789")] : *rest)
			continue;
		*ret = name + strcspn(name, "0123456789");
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

/* The version that begins at p, if it ends well: without a mark only a NUL ends one. */
static bool read_version(const char *p, const char *end, bool marked, char *ret_version)
{
	size_t n = 0;

	while (p + n < end && p[n] && strchr(VERSION_CHARS, p[n]))
		if (++n >= VERSION_SIZE)
			return false;
	if (!marked && (p + n == end || p[n]))
		return false;
	memset(ret_version, 0, VERSION_SIZE);
	memcpy(ret_version, p, n);
	return version_valid(ret_version);
}

/*
 * Looks for mark, base, a dot and more: "3.11." of python3.11 leads to 3.11.2.
 * Without a mark a version is a string of its own; but a linker that merges
 * strings makes it the end of a longer one that happens to end so, which is
 * what becomes of it where the prefix is /root/.pyenv/versions/3.12.1. So the
 * ends count if there is no string of its own. Differing answers are none.
 */
static bool scan(const char *data, size_t len, const char *mark, const char *base,
		 char *ret_version)
{
	const char *end = data + len;
	struct vote own = {0}, merged = {0};
	char needle[128], version[VERSION_SIZE];
	const char *rest;
	size_t needle_len;
	char before;

	if (!format(needle, sizeof(needle), "%s%s%s", mark, base, base[0] ? "." : "") || !needle[0])
		return false;
	needle_len = strlen(needle);
	for (const char *p = data;; p++) {
		p = memmem(p, (size_t)(end - p), needle, needle_len);
		if (!p)
			break;
		before = p > data ? p[-1] : '\0';
		rest = p + needle_len;
		if (rest == end || !is_digit(*rest) ||
		    !read_version(p + strlen(mark), end, mark[0] != '\0', version))
			continue;
		if (mark[0] || before == '\0')
			vote_add(&own, version);
		else if (!is_digit(before) && before != '.')
			vote_add(&merged, version);
	}
	return own.version[0] ? vote_result(&own, ret_version) : vote_result(&merged, ret_version);
}

/* 1 if the file says it, 0 if it does not, -1 if it could not be read. */
static int scan_file(const char *path, const struct language *language, const char *base,
		     char *ret_version)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	void *data;
	bool hit;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	if (st.st_size <= 0 || st.st_size > SCAN_MAX_BYTES)
		return 0;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -1;
	hit = scan(data, (size_t)st.st_size, language->version_mark, base, ret_version);
	(void)munmap(data, (size_t)st.st_size);
	return hit;
}

/* The libraries beside a program that is only a launcher. */
static bool scan_libraries(const char *program, const struct language *language, const char *base,
			   char *ret_version)
{
	int dir_len = (int)(strrchr(program, '/') - program);
	char path[PATH_MAX];

	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && language->version_files[i]; i++) {
		const char *file = language->version_files[i];
		int fixed = (int)strcspn(file, "*");
		const char *rest = file[fixed] ? file + fixed + 1 : "";

		if (format(path, sizeof(path), "%.*s/%.*s%s%s", dir_len, program, fixed, file,
			   file[fixed] ? base : "", rest) &&
		    scan_file(path, language, base, ret_version) > 0)
			return true;
	}
	return false;
}

/*
 * resolved is the file itself, name what it was found as. The name of the file
 * counts first: python3 is a link to python3.11.
 */
static void find_version(struct search *s, const char *resolved, const char *name,
			 const struct stat *st, char *ret_version)
{
	const struct language *language = s->language;
	const char *base = "", *known;
	int r;

	ret_version[0] = '\0';
	if (!language->version_mark)
		return;
	if (!version_of_name(language, strrchr(resolved, '/') + 1, &base))
		(void)version_of_name(language, name, &base);
	known = runtime_cache_get(&s->cache, language->name, st);
	if (known && (!base[0] || version_matches(known, base))) {
		(void)format(ret_version, VERSION_SIZE, "%s", known);
		return;
	}
	r = scan_file(resolved, language, base, ret_version);
	if (r <= 0 && !scan_libraries(resolved, language, base, ret_version))
		(void)format(ret_version, VERSION_SIZE, "%s", base);
	if (r >= 0)
		runtime_cache_put(&s->cache, language->name, st, ret_version);
}

/* Search */

/*
 * Whether an island can follow the links from path to its file. Where a link
 * lies counts, not only where it ends: /etc/alternatives is not on the island.
 */
static bool links_visible(const struct search *s, const struct place *at, const char *path)
{
	char here[PATH_MAX], target[PATH_MAX], next[PATH_MAX], dir[PATH_MAX];

	if (!format(here, sizeof(here), "%s", path))
		return false;
	for (int i = 0; i < LINKS_MAX; i++) {
		ssize_t n = readlink(here, target, sizeof(target) - 1);
		char *slash;

		if (n < 0)
			return errno == EINVAL; /* no link: the file itself */
		target[n] = '\0';
		slash = strrchr(here, '/');
		if (!format(next, sizeof(next), "%.*s%s",
			    target[0] == '/' ? 0 : (int)(slash + 1 - here), here, target))
			return false;
		slash = strrchr(next, '/');
		*slash = '\0';
		if (!realpath(next[0] ? next : "/", dir) || !is_visible(s, at, dir) ||
		    !format(here, sizeof(here), "%s/%s", dir, slash + 1))
			return false;
	}
	return false;
}

static bool is_known(const struct search *s, const struct stat *st)
{
	for (size_t i = s->group; i < s->found.len; i++)
		if (s->files[i].ino == st->st_ino && s->files[i].dev == st->st_dev)
			return true;
	return false;
}

/* A new item at the end, filled but for its version and program. NULL on failure. */
static struct runtime *add(struct search *s, const struct place *at, const struct stat *st,
			   struct cay_error *err)
{
	struct runtime *items, *rt;

	if (s->found.len == RUNTIMES_MAX) {
		(void)cay_fail(err, CAY_E_INVALID, 0,
			       "more than %d runtimes: name fewer in [language %s] path",
			       RUNTIMES_MAX, s->language->name);
		return NULL;
	}
	items = reallocarray(s->found.items, s->found.len + 1, sizeof(*items));
	if (!items) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the runtimes");
		return NULL;
	}
	s->found.items = items;
	s->files[s->found.len].dev = st->st_dev;
	s->files[s->found.len].ino = st->st_ino;
	rt = &items[s->found.len++];
	rt->language = s->language;
	rt->default_reason = NULL;
	(void)format(rt->root, sizeof(rt->root), "%s", at->root);
	(void)format(rt->source, sizeof(rt->source), "%s", at->source);
	return rt;
}

/* From at->dir, which has no links, to the file and to what to call it by. */
static bool follow(const struct search *s, const struct place *at, int dir_fd, const char *name,
		   char *ret_resolved, char *ret_program)
{
	char c;

	if (!format(ret_program, PATH_MAX, "%s/%s", at->dir, name))
		return false;
	if (readlinkat(dir_fd, name, &c, 1) < 0)
		return errno == EINVAL && is_visible(s, at, ret_program) &&
		       format(ret_resolved, PATH_MAX, "%s", ret_program);
	if (!realpath(ret_program, ret_resolved) || !is_visible(s, at, ret_resolved))
		return false;
	return links_visible(s, at, ret_program) ||
	       format(ret_program, PATH_MAX, "%s", ret_resolved);
}

static int try_name(struct search *s, const struct place *at, int dir_fd, const char *name,
		    struct cay_error *err)
{
	char program[PATH_MAX], resolved[PATH_MAX];
	struct runtime *rt;
	struct stat st;

	/* What can't be used is passed over: it may be half installed, or somebody else's. */
	if (fstatat(dir_fd, name, &st, 0) < 0 || !S_ISREG(st.st_mode) || is_known(s, &st) ||
	    faccessat(dir_fd, name, X_OK, AT_EACCESS) < 0 ||
	    !follow(s, at, dir_fd, name, resolved, program))
		return 0;
	rt = add(s, at, &st, err);
	if (!rt)
		return -1;
	(void)format(rt->program, sizeof(rt->program), "%s", program);
	find_version(s, resolved, name, &st, rt->version);
	return 0;
}

/* All names of the row in one directory; one that is not there has none. */
static int search_dir(struct search *s, const struct place *at, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir_fd = open(at->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[128];

	if (dir_fd < 0)
		return 0;
	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && s->language->programs[i].name; i++) {
		const struct language_program *p = &s->language->programs[i];
		int fixed = (int)strcspn(p->name, "*");

		if (!p->name[fixed]) {
			if (try_name(s, at, dir_fd, p->name, err) < 0)
				return -1;
			continue;
		}
		for (unsigned n = p->first; n <= p->last; n++)
			if (format(name, sizeof(name), "%.*s%u%s", fixed, p->name, n,
				   p->name + fixed + 1) &&
			    try_name(s, at, dir_fd, name, err) < 0)
				return -1;
	}
	return 0;
}

static int search_host(struct search *s, struct cay_error *err)
{
	char real[PATH_MAX];

	s->group = s->found.len;
	for (const char *const *dir = s->places->host_dirs; *dir; dir++)
		if (realpath(*dir, real) &&
		    search_dir(s, &(struct place){real, "", "host"}, err) < 0)
			return -1;
	return 0;
}

/* A directory named in settings: a prefix with bin/, or one that has the program itself. */
static int search_named(struct search *s, const char *path, const char *source,
			struct cay_error *err)
{
	char root[PATH_MAX], bin[PATH_MAX], other_bin[PATH_MAX];
	struct stat st;
	struct place at = {.root = root, .source = source};
	const char *name = s->language->name;

	if (!realpath(path, root))
		return cay_fail(err, CAY_E_INVALID, errno, "[language %s] path = %s (%s)", name,
				path, source);
	if (is_in(root, s->places->host_root))
		at.root = "";
	s->group = s->found.len;
	if (format(bin, sizeof(bin), "%s/bin", root) && lstat(bin, &st) == 0) {
		at.dir = S_ISLNK(st.st_mode) ? realpath(bin, other_bin) : bin;
		if (at.dir && search_dir(s, &at, err) < 0)
			return -1;
	}
	if (s->found.len == s->group) {
		at.dir = root;
		if (search_dir(s, &at, err) < 0)
			return -1;
	}
	if (s->found.len > s->group)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0,
		       "[language %s] path = %s (%s): no program %s in it that can be used", name,
		       path, source, s->language->programs[0].name);
	return cay_hint(err,
			"name a directory that has bin/%s (or %s itself), with links that lead "
			"nowhere but into it and into %s",
			s->language->programs[0].name, s->language->programs[0].name,
			s->places->host_root);
}

/* Stable: what was found first stays in front of its equals. */
static void sort_newest_first(struct runtimes *r)
{
	for (size_t i = 1; i < r->len; i++) {
		struct runtime item = r->items[i];
		size_t k = i;

		for (; k > 0 && version_compare(r->items[k - 1].version, item.version) < 0; k--)
			r->items[k] = r->items[k - 1];
		if (k != i)
			r->items[k] = item;
	}
}

static struct runtime *newest_match(const struct runtimes *r, const char *request)
{
	for (size_t i = 0; i < r->len; i++)
		if (version_matches(r->items[i].version, request))
			return &r->items[i];
	return NULL;
}

static void mark_default(const struct settings *settings, const struct language *language,
			 const struct runtimes *r)
{
	const struct language_settings *ls = settings_language(settings, language->name);
	const char *prefer = ls && ls->prefer ? ls->prefer : language->prefer;
	struct runtime *match = prefer ? newest_match(r, prefer) : NULL;

	if (match)
		match->default_reason = "preferred";
	else if (r->len > 0)
		r->items[0].default_reason = r->items[0].version[0] ? "newest" : "first found";
}

static int search_all(struct search *s, const struct settings *settings, struct cay_error *err)
{
	const struct language_settings *ls = settings_language(settings, s->language->name);
	char origin[128];

	/* Before the host's own: of two equals the one that was named is meant. */
	for (size_t i = 0; ls && i < ls->paths.len; i++) {
		(void)format(origin, sizeof(origin), "language %s.path[%zu]", s->language->name, i);
		if (search_named(s, ls->paths.items[i], settings_origin(settings, origin), err) < 0)
			return -1;
	}
	if (search_host(s, err) < 0)
		return -1;
	sort_newest_first(&s->found);
	mark_default(settings, s->language, &s->found);
	return 0;
}

int runtimes_find_in(const struct runtime_places *places, const struct settings *s,
		     const struct language *language, struct runtimes *ret, struct cay_error *err)
{
	struct search search = {.places = places, .language = language};

	/* A language without versions has nothing to remember. */
	if (language->version_mark)
		runtime_cache_load(&search.cache, places->cache_dir);
	if (search_all(&search, s, err) < 0) {
		runtimes_done(&search.found);
		return -1;
	}
	runtime_cache_save(&search.cache, places->cache_dir);
	*ret = search.found;
	return 0;
}

/* Choice */

static int hint_get(const struct language *language, struct cay_error *err)
{
	return cay_hint(err,
			"install the Debian package %s, or name a directory: [language %s] path = "
			"DIR in " OPERATOR_SETTINGS,
			language->package, language->name);
}

static int fail_no_match(const struct runtimes *r, const struct language *language,
			 const char *version, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf list = BUF(LIST_MAX_BYTES);
	size_t named = 0;
	int full = 0;

	if (r->len == 0) {
		(void)cay_fail(err, CAY_E_RUNTIME, 0, "no %s found", language->name);
		return hint_get(language, err);
	}
	if (!language->version_mark) {
		(void)cay_fail(err, CAY_E_RUNTIME, 0, "%s has no versions to choose from",
			       language->name);
		return cay_hint(err, "ask for %s without @%s", language->name, version);
	}
	for (size_t i = r->len; i-- > 0 && !full;) {
		const char *v = r->items[i].version;

		if (i + 1 < r->len && strcmp(v, r->items[i + 1].version) == 0)
			continue;
		full = buf_printf(&list, "%s%s", named ? ", " : "", v);
		named++;
	}
	(void)cay_fail(err, CAY_E_RUNTIME, 0, "%s %s is not here; there %s %s%s", language->name,
		       version, named == 1 ? "is" : "are", buf_str(&list), full ? " …" : "");
	return hint_get(language, err);
}

int runtime_choose_in(const struct runtime_places *places, const struct settings *s,
		      const struct language *language, const char *version, struct runtime *ret,
		      struct cay_error *err)
{
	_cleanup_(runtimes_done) struct runtimes all = {0};
	const struct runtime *chosen = NULL;

	if (version && !version_is_request(version))
		return cay_fail(err, CAY_E_INVALID, 0,
				"'%.40s' is no version of %s: digits and dots, as in %s", version,
				language->name, language->prefer ? language->prefer : "3.12");
	if (runtimes_find_in(places, s, language, &all, err) < 0)
		return -1;
	if (version)
		chosen = newest_match(&all, version);
	for (size_t i = 0; !version && i < all.len; i++)
		if (all.items[i].default_reason)
			chosen = &all.items[i];
	if (!chosen)
		return fail_no_match(&all, language, version, err);
	*ret = *chosen;
	return 0;
}

static const char *const host_dirs[] = {"/usr/local/bin", "/usr/bin", NULL};

static struct runtime_places default_places(char *cache, size_t size)
{
	return (struct runtime_places){
		.host_dirs = host_dirs,
		.host_root = "/usr",
		.cache_dir = runtime_cache_dir(cache, size),
	};
}

int runtimes_find(const struct settings *s, const struct language *language, struct runtimes *ret,
		  struct cay_error *err)
{
	char cache[PATH_MAX];
	struct runtime_places places = default_places(cache, sizeof(cache));

	return runtimes_find_in(&places, s, language, ret, err);
}

int runtime_choose(const struct settings *s, const struct language *language, const char *version,
		   struct runtime *ret, struct cay_error *err)
{
	char cache[PATH_MAX];
	struct runtime_places places = default_places(cache, sizeof(cache));

	return runtime_choose_in(&places, s, language, version, ret, err);
}
