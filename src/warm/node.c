/*
 * node.c: how a node that waits gets its order: an object that node.js has loaded by
 * process.dlopen(), and that does everything while it is loaded. It is no module of node's, so it
 * needs nothing of its API, and is unloaded at once: the program finds nothing of it in its memory.
 *
 * The launcher's part of it is engine/native/waiter.h: the socket is fd 0, this object fd 1.
 */
#include "base/attr.h"
#include "base/fd.h"
#include "policy/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_noreturn_ static void give_up(const char *what)
{
	(void)dprintf(2, "node: %s\n", what);
	_exit(125);
}

static char *copy(const char *text)
{
	char *own = strdup(text);

	if (!own)
		give_up("no memory");
	return own;
}

static char **make_list(uint32_t len)
{
	char **list = calloc(len + 1, sizeof(*list));

	if (!list)
		give_up("no memory");
	return list;
}

/* Of what was loaded, something was replaced by now: a cold start would load the new. */
static bool is_stale(void)
{
	static const char gone[] = " (deleted)\n";
	FILE *maps = fopen("/proc/self/maps", "re");
	bool stale = !maps;
	char line[4096];

	while (maps && fgets(line, sizeof(line), maps)) {
		size_t len = strlen(line);

		/* A path: we are of none, and node's own memory has no name. */
		if (len > sizeof(gone) && strcmp(line + len - strlen(gone), gone) == 0 &&
		    strchr(line, '/') && !strstr(line, "/memfd:"))
			stale = true;
	}
	if (maps)
		(void)fclose(maps);
	return stale;
}

/*
 * The environment, and before it, by names that no variable has, the directory and the words of the
 * command line. All of it is node.js's to take: node has a mind of its own about its directory.
 */
static void set_world(const struct plan *p)
{
	char **list = make_list(1 + p->argv.len + p->env.len);
	const char *word = plan_first(p, p->argv), *variable = plan_first(p, p->env);
	size_t at = 0;

	if (asprintf(&list[at++], "\x01=%s", plan_str(p, p->workdir)) < 0)
		give_up("no memory");
	for (uint32_t n = 0; n < p->argv.len; n++, word = plan_next(word))
		if (asprintf(&list[at++], "\x01%u=%s", n, word) < 0)
			give_up("no memory");
	for (uint32_t n = 0; n < p->env.len; n++, variable = plan_next(variable))
		list[at++] = copy(variable);
	environ = list;
}

_noreturn_ static void start_cold(const struct plan *p)
{
	char **argv = make_list(p->argv.len), **env = make_list(p->env.len);
	const char *word = plan_first(p, p->argv), *variable = plan_first(p, p->env);

	for (uint32_t n = 0; n < p->argv.len; n++, word = plan_next(word))
		argv[n] = copy(word);
	for (uint32_t n = 0; n < p->env.len; n++, variable = plan_next(variable))
		env[n] = copy(variable);
	if (argv[0] && chdir(plan_str(p, p->workdir)) == 0)
		(void)execve(argv[0], argv, env);
	give_up("can't be executed again");
}

__attribute__((constructor)) static void take_order(void)
{
	static uint64_t room[PLAN_MAX_BYTES / sizeof(uint64_t)];
	const struct plan *p = (const struct plan *)room;
	int fds[3] = {-1, -1, -1};
	struct cay_error err;
	size_t n_fds = 0;
	ssize_t n;

	do
		n = msg_recv(STDIN_FILENO, room, sizeof(room), fds, 3, &n_fds);
	while (n == -EINTR);
	if (n == 0)
		_exit(0); /* nobody will come any more */
	if (n < 0 || n_fds != 3 || plan_check(p, (size_t)n, &err) < 0)
		give_up("not an order");
	for (int k = 0; k < 3; k++)
		if (dup2(fds[k], k) < 0)
			give_up("no standard input and output");
	for (int k = 0; k < 3; k++)
		(void)close(fds[k]);
	if (is_stale())
		start_cold(p);
	set_world(p);
}
