/*
 * runtime.c: finds the interpreters of a language.
 *
 * A lookup is on the way of every run, so it reads no directory and no program
 * that it knows already: the names of the language's row are tried one by one
 * in the few directories there are, each hit costs a stat, and its version comes
 * from the cache. Only a program that is new, or has changed, is searched for
 * its version (runtime_version.c). Nothing is ever executed.
 */
#include "image/runtime.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/runtime_cache.h"
#include "image/runtime_choose.h"
#include "image/runtime_images.h"
#include "image/runtime_version.h"
#include "spec/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 16

struct search {
	const struct runtime_places *places;
	const struct language *language;
	const struct language *row; /* with the programs and versions: language_base() */
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

struct runtime *runtimes_add(struct runtimes *r, const struct language *language,
			     struct cay_error *err)
{
	struct runtime *items, *rt;

	if (r->len == RUNTIMES_MAX) {
		(void)cay_fail(err, CAY_E_INVALID, 0,
			       "more than %d runtimes: name fewer in [language %s]", RUNTIMES_MAX,
			       language->name);
		return NULL;
	}
	items = reallocarray(r->items, r->len + 1, sizeof(*items));
	if (!items) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the runtimes");
		return NULL;
	}
	r->items = items;
	rt = &items[r->len++];
	/* Not all of it: paths are long. */
	rt->language = language;
	rt->default_reason = NULL;
	rt->lacks = NULL;
	rt->version[0] = rt->program[0] = rt->tool[0] = rt->root[0] = rt->image[0] = '\0';
	return rt;
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

/* Whether path is dir or lies below it. */
static bool is_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n > 0 && strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_visible(const struct search *s, const struct place *at, const char *path)
{
	return s->places->whole || is_in(path, s->places->host_root) || is_in(path, at->root);
}

/*
 * resolved is the file itself, name what it was found as. The name of the file
 * counts first: python3 is a link to python3.11.
 */
static void find_version(struct search *s, const char *resolved, const char *name,
			 const struct stat *st, char *ret_version)
{
	const struct language *row = s->row;
	const char *base = "", *known;

	ret_version[0] = '\0';
	if (!language_has_versions(row))
		return;
	if (!runtime_version_of_name(row, strrchr(resolved, '/') + 1, &base))
		(void)runtime_version_of_name(row, name, &base);
	known = runtime_cache_get(&s->cache, row->name, st);
	if (known && (!base[0] || version_matches(known, base)))
		(void)format(ret_version, VERSION_SIZE, "%s", known);
	else if (runtime_version_read(row, resolved, base, ret_version) >= 0)
		runtime_cache_put(&s->cache, row->name, st, ret_version);
}

/*
 * Whether an island can follow the links from path to its file. Where a link
 * lies counts, not only where it ends: what leads by way of /etc/alternatives,
 * which an administrator may turn at any time, is taken for what it is now.
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
	struct runtime *rt = runtimes_add(&s->found, s->language, err);

	if (!rt)
		return NULL;
	s->files[s->found.len - 1].dev = st->st_dev;
	s->files[s->found.len - 1].ino = st->st_ino;
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

static bool is_file(int dir_fd, const char *name, struct stat *ret_st)
{
	return fstatat(dir_fd, name, ret_st, 0) == 0 && S_ISREG(ret_st->st_mode);
}

/* What can't be used is passed over: it may be half installed, or somebody else's. */
static bool is_usable(const struct search *s, const struct place *at, int dir_fd, const char *name,
		      char *ret_resolved, char *ret_program)
{
	return faccessat(dir_fd, name, X_OK, AT_EACCESS) == 0 &&
	       follow(s, at, dir_fd, name, ret_resolved, ret_program);
}

static bool find_tool_in(const struct search *s, const char *dir, const char *root,
			 char *ret_program)
{
	_cleanup_(fd_closep) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char real[PATH_MAX], resolved[PATH_MAX];
	struct place at = {.dir = real, .root = root};
	struct stat st;

	return dir_fd >= 0 && is_file(dir_fd, s->language->tool, &st) && realpath(dir, real) &&
	       is_usable(s, &at, dir_fd, s->language->tool, resolved, ret_program);
}

/* The tool that goes with the program (resolved), if the language has one. */
static void find_tool(const struct search *s, const char *resolved, struct runtime *rt)
{
	const struct language *language = s->language;
	char beside[PATH_MAX];

	if (!language->tool)
		return;
	(void)format(beside, sizeof(beside), "%.*s", (int)(strrchr(resolved, '/') - resolved),
		     resolved);
	if (find_tool_in(s, beside, rt->root, rt->tool))
		return;
	for (const char *const *dir = s->places->host_dirs; *dir && !language->tool_beside; dir++)
		if (find_tool_in(s, *dir, "", rt->tool))
			return;
	rt->tool[0] = '\0';
	if (!language_is_toolless(language, rt->version))
		rt->lacks = language->tool;
}

static int try_name(struct search *s, const struct place *at, int dir_fd, const char *name,
		    struct cay_error *err)
{
	char program[PATH_MAX], resolved[PATH_MAX];
	struct runtime *rt;
	struct stat st;

	if (!is_file(dir_fd, name, &st) || is_known(s, &st) ||
	    !is_usable(s, at, dir_fd, name, resolved, program))
		return 0;
	rt = add(s, at, &st, err);
	if (!rt)
		return -1;
	(void)format(rt->program, sizeof(rt->program), "%s", program);
	find_version(s, resolved, name, &st, rt->version);
	find_tool(s, resolved, rt);
	return 0;
}

/* Calls fn for a name of a row, or for each that it stands for; stops at the first failure. */
typedef int name_fn(struct search *s, const struct place *at, int dir_fd, const char *name,
		    struct cay_error *err);

static int each_name(struct search *s, const struct place *at, int dir_fd,
		     const struct language_program *p, name_fn *fn, struct cay_error *err)
{
	int fixed = (int)strcspn(p->name, "*");
	char name[128];

	if (!p->name[fixed])
		return fn(s, at, dir_fd, p->name, err);
	for (unsigned n = p->first; n <= p->last; n++)
		if (format(name, sizeof(name), "%.*s%u%s", fixed, p->name, n,
			   p->name + fixed + 1) &&
		    fn(s, at, dir_fd, name, err) < 0)
			return -1;
	return 0;
}

/* All programs of the row in one directory; one that is not there has none. */
static int search_dir(struct search *s, const struct place *at, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir_fd = open(at->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return 0;
	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && s->row->programs[i].name; i++)
		if (each_name(s, at, dir_fd, &s->row->programs[i], try_name, err) < 0)
			return -1;
	return 0;
}

static const char *usr(const struct runtime_places *places)
{
	return places->usr ? places->usr : places->host_root;
}

/* A directory below the host's /usr; at is where the host is. */
static int try_host_dir(struct search *s, const struct place *at, int root_fd, const char *dir,
			struct cay_error *err)
{
	char path[PATH_MAX], real[PATH_MAX];

	if (faccessat(root_fd, dir, X_OK, AT_EACCESS) < 0 ||
	    !format(path, sizeof(path), "%s/%s", usr(s->places), dir) || !realpath(path, real))
		return 0;
	return search_dir(s, &(struct place){real, at->root, at->source}, err);
}

static int search_host(struct search *s, struct cay_error *err)
{
	static const struct place host = {.root = "", .source = RUNTIME_HOST};
	_cleanup_(fd_closep) int root_fd = -1;
	char real[PATH_MAX];

	s->group = s->found.len;
	for (const char *const *dir = s->places->host_dirs; *dir; dir++)
		if (realpath(*dir, real) &&
		    search_dir(s, &(struct place){real, host.root, host.source}, err) < 0)
			return -1;
	if (!s->row->dirs[0].name)
		return 0;
	root_fd = open(usr(s->places), O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; root_fd >= 0 && i < LANGUAGE_WORDS_MAX && s->row->dirs[i].name; i++)
		if (each_name(s, &host, root_fd, &s->row->dirs[i], try_host_dir, err) < 0)
			return -1;
	return 0;
}

/* A directory named in settings: a prefix with bin/, or one that has the program itself. */
static int search_named(struct search *s, const char *name, const char *path, const char *source,
			struct cay_error *err)
{
	char root[PATH_MAX], bin[PATH_MAX], other_bin[PATH_MAX];
	struct stat st;
	struct place at = {.root = root, .source = source};
	const char *program = s->row->programs[0].name;

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
		       path, source, program);
	return cay_hint(err,
			"name a directory that has bin/%s (or %s itself), with links that lead "
			"nowhere but into it and into %s",
			program, program, s->places->host_root);
}

static int search_settings(struct search *s, const struct settings *settings, const char *name,
			   struct cay_error *err)
{
	const struct language_settings *ls = settings_language(settings, name);
	char origin[128];

	for (size_t i = 0; ls && i < ls->paths.len; i++) {
		(void)format(origin, sizeof(origin), "language %s.path[%zu]", name, i);
		if (search_named(s, name, ls->paths.items[i], settings_origin(settings, origin),
				 err) < 0)
			return -1;
	}
	return 0;
}

static int search_all(struct search *s, const struct settings *settings, struct cay_error *err)
{
	/* Before the host's own: of two equals the one that was named is meant. */
	if (search_settings(s, settings, s->language->name, err) < 0)
		return -1;
	if (s->row != s->language && search_settings(s, settings, s->row->name, err) < 0)
		return -1;
	if (s->places->images &&
	    (runtime_images_named(s->places->images, settings, s->language, &s->found, err) < 0 ||
	     runtime_images_default(s->places->images, settings, s->language, &s->found, err) < 0))
		return -1;
	if (search_host(s, err) < 0)
		return -1;
	runtimes_order(&s->found, s->language, settings);
	return 0;
}

int runtimes_find_in(const struct runtime_places *places, const struct settings *s,
		     const struct language *language, struct runtimes *ret, struct cay_error *err)
{
	struct search search = {
		.places = places, .language = language, .row = language_base(language)};
	bool remembered = language_has_versions(language);

	if (remembered)
		runtime_cache_load(&search.cache, places->cache_dir);
	if (search_all(&search, s, err) < 0) {
		runtimes_done(&search.found);
		return -1;
	}
	if (remembered)
		runtime_cache_save(&search.cache, places->cache_dir);
	*ret = search.found;
	return 0;
}

static const char *const host_dirs[] = {"/usr/local/bin", "/usr/bin", NULL};

struct runtime_places runtime_places(const char *images, char cache[PATH_MAX])
{
	return (struct runtime_places){
		.host_dirs = host_dirs,
		.host_root = "/usr",
		.images = images,
		.cache_dir = runtime_cache_dir(cache, PATH_MAX),
	};
}

int runtimes_find(const struct settings *s, const struct language *language, const char *images,
		  struct runtimes *ret, struct cay_error *err)
{
	char cache[PATH_MAX];
	const struct runtime_places places = runtime_places(images, cache);

	return runtimes_find_in(&places, s, language, ret, err);
}
