#include "engine/agent_walk.h"

#include "base/attr.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A directory may have any number of names; they are taken in batches, each the
 * smallest ones behind the last of the batch before, by reading it all anew.
 */
#define BATCH 1024

struct names {
	char *items[2 * BATCH];
	size_t len;
	bool more;
};

static void names_freep(struct names **n)
{
	if (*n)
		for (size_t i = 0; i < (*n)->len; i++)
			free((*n)->items[i]);
	free(*n);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void trim(struct names *n)
{
	qsort(n->items, n->len, sizeof(*n->items), by_name);
	for (; n->len > BATCH; n->more = true)
		free(n->items[--n->len]);
}

/* from: with it, or behind it; NULL: from the first on. */
static int read_names(DIR *d, const char *from, bool inclusive, struct names *n)
{
	rewinddir(d);
	for (;;) {
		struct dirent *e;
		int order;

		errno = 0;
		e = readdir(d);
		if (!e)
			break;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		order = from ? strcmp(e->d_name, from) : 1;
		if (order < 0 || (order == 0 && !inclusive))
			continue;
		if (n->len == ARRAY_LEN(n->items))
			trim(n);
		if (n->more && strcmp(e->d_name, n->items[BATCH - 1]) > 0 && n->len >= BATCH)
			continue;
		n->items[n->len] = strdup(e->d_name);
		if (!n->items[n->len])
			return -ENOMEM;
		n->len++;
	}
	if (errno != 0)
		return -errno;
	trim(n);
	return 0;
}

static int walk_dir(struct walk *w, DIR *d, const char *cursor, struct cay_error *err);

int walk_open(int dir, const char *name, bool follow)
{
	return openat(dir, name,
		      O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
}

/* One that can't be read hides only what is in it. */
static int enter(struct walk *w, int dir, const char *name, const char *cursor,
		 struct cay_error *err)
{
	DIR *d;
	int r;

	if (w->depth >= w->depth_max && w->deeper_fails)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "%s lies deeper than %u directories",
				w->path, w->depth_max);
	if (w->depth >= w->depth_max)
		return 0;
	d = fd_opendir(walk_open(dir, name, false));
	if (!d && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return agent_fail(err, errno, "open", w->path);
	if (!d) {
		w->a->end.skipped++;
		return 0;
	}
	r = walk_dir(w, d, cursor, err);
	(void)closedir(d);
	return r;
}

static bool push(struct walk *w, const char *name, size_t *ret_len)
{
	size_t at = strlen(w->path), len = strlen(name);

	*ret_len = at;
	if (at + (at > 0) + len > AGENT_PATH_MAX)
		return false;
	if (at > 0)
		w->path[at++] = '/';
	memcpy(w->path + at, name, len + 1);
	return true;
}

static int walk_one(struct walk *w, int dir, const char *name, bool seen, const char *cursor,
		    struct cay_error *err)
{
	struct stat st;
	size_t len;
	int r = 0;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* gone meanwhile */
	if (!push(w, name, &len)) {
		w->a->end.skipped++;
		return 0;
	}
	if (!seen)
		r = w->visit(w, dir, name, &st, err);
	if (r == WALK_ON && S_ISDIR(st.st_mode))
		r = enter(w, dir, name, cursor, err);
	w->path[len] = '\0';
	return r == WALK_SKIP ? 0 : r;
}

/* cursor: the path, from this directory on, of the last one that was seen before. */
static int walk_batch(struct walk *w, DIR *d, const struct names *n, const char *cursor,
		      struct cay_error *err)
{
	size_t first = cursor ? strcspn(cursor, "/") : 0;

	for (size_t i = 0; i < n->len; i++) {
		const char *name = n->items[i];
		bool seen = cursor && strlen(name) == first && memcmp(name, cursor, first) == 0;
		const char *rest = seen && cursor[first] ? cursor + first + 1 : NULL;
		int r = walk_one(w, dirfd(d), name, seen, rest, err);

		if (r != 0)
			return r;
	}
	return 0;
}

static int walk_dir(struct walk *w, DIR *d, const char *cursor, struct cay_error *err)
{
	char last[256] = "";
	bool more = true, begun = false;
	int r = 0;

	if (cursor) {
		size_t len = size_min(strcspn(cursor, "/"), sizeof(last) - 1);

		memcpy(last, cursor, len);
		last[len] = '\0';
	}
	w->depth++;
	while (more && r == 0) {
		_cleanup_(names_freep) struct names *n = calloc(1, sizeof(*n));

		r = n ? read_names(d, *last ? last : NULL, !begun, n) : -ENOMEM;
		if (r < 0) {
			r = agent_fail(err, -r, "read the directory", *w->path ? w->path : ".");
			break;
		}
		r = walk_batch(w, d, n, begun ? NULL : cursor, err);
		more = n->more;
		begun = true;
		if (n->len > 0)
			memcpy(last, n->items[n->len - 1], strlen(n->items[n->len - 1]) + 1);
	}
	w->depth--;
	return r;
}

int walk_tree(struct walk *w, int dir, struct cay_error *err)
{
	DIR *d = fd_opendir(dir);
	int r;

	if (!d)
		return agent_fail(err, errno, "read the directory", w->a->path);
	w->depth = 0;
	w->path[0] = '\0';
	r = walk_dir(w, d, w->cursor && *w->cursor ? w->cursor : NULL, err);
	(void)closedir(d);
	return r;
}
