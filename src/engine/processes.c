/*
 * A process can leave its parents by a double fork, but only for PID 1 (or for a subreaper
 * among its own ancestors): never for another command's tree. So whatever is not below a
 * command that is spared may be of the one to be ended, and goes.
 *
 * Processes go on forking while /proc is read. What has a SIGKILL pending forks no more,
 * so passes are repeated until two in a row find nobody new.
 */
#include "engine/processes.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who forks faster than this is read is ended with all the others. */
#define PASSES_MAX 100

struct process {
	pid_t pid, parent;
	unsigned long long began; /* a pid may be used again */
	bool ended;
};

struct processes {
	struct process *items; /* by pid */
	size_t len, room;
};

static int add(struct processes *all, const struct process *p)
{
	if (all->len == all->room) {
		size_t room = all->room ? 2 * all->room : 64;
		struct process *items = reallocarray(all->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		all->items = items;
		all->room = room;
	}
	all->items[all->len++] = *p;
	return 0;
}

/* "7 (a name) S 1 …": the name may have anything in it, also brackets. */
static bool parse(char *text, struct process *ret)
{
	char *name_end = strrchr(text, ')'), state;
	int parent;

	/* Field 22 is when it began. */
	if (!name_end ||
	    sscanf(name_end + 1,
		   " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%llu",
		   &state, &parent, &ret->began) != 3)
		return false;
	ret->parent = parent;
	ret->ended = state == 'Z' || state == 'X';
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct process *p = a, *q = b;

	return (p->pid > q->pid) - (p->pid < q->pid);
}

static int read_all(struct processes *all)
{
	DIR *d = opendir("/proc");
	int r = 0;

	all->len = 0;
	if (!d)
		return -errno;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		struct process p = {0};
		char path[32], text[1024];
		uint64_t pid;

		if (parse_u64(e->d_name, 2, INT32_MAX, &pid) < 0)
			continue;
		p.pid = (pid_t)pid;
		(void)snprintf(path, sizeof(path), "%d/stat", (int)p.pid);
		if (fd_read_text_at(dirfd(d), path, text, sizeof(text)) > 0 && parse(text, &p))
			r = add(all, &p);
	}
	(void)closedir(d);
	if (r == 0 && all->len > 0)
		qsort(all->items, all->len, sizeof(*all->items), compare);
	return r;
}

static const struct process *find(const struct processes *all, pid_t pid)
{
	const struct process key = {.pid = pid};

	return all->len ? bsearch(&key, all->items, all->len, sizeof(key), compare) : NULL;
}

static bool is_below(const struct processes *all, const struct process *p, const pid_t *roots,
		     size_t n)
{
	/* As many steps as there are processes: what was read is of no one moment. */
	for (size_t steps = 0; p && steps <= all->len; steps++) {
		for (size_t i = 0; i < n; i++)
			if (p->pid == roots[i])
				return true;
		p = find(all, p->parent);
	}
	return false;
}

static bool was_killed(const struct processes *killed, const struct process *p)
{
	for (size_t i = 0; i < killed->len; i++)
		if (killed->items[i].pid == p->pid && killed->items[i].began == p->began)
			return true;
	return false;
}

/* How many were new to it, or -errno. */
static int pass(struct processes *all, struct processes *killed, const pid_t *spared, size_t n)
{
	int found = 0, r = read_all(all);

	for (size_t i = 0; i < all->len && r == 0; i++) {
		const struct process *p = &all->items[i];

		if (p->ended || is_below(all, p, spared, n) || was_killed(killed, p))
			continue;
		(void)kill(p->pid, SIGKILL); /* ESRCH: it has ended since */
		r = add(killed, p);
		found++;
	}
	return r < 0 ? r : found;
}

void processes_kill_but(const pid_t *spared, size_t n)
{
	struct processes all = {0}, killed = {0};
	int found = 0, quiet = 0;

	for (int i = 0; i < PASSES_MAX && found >= 0 && quiet < 2; i++) {
		found = pass(&all, &killed, spared, n);
		quiet = found == 0 ? quiet + 1 : 0;
	}
	free(all.items);
	free(killed.items);
	if (quiet < 2)
		(void)kill(-1, SIGKILL);
}
