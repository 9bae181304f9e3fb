#include "cli/bench_peers.h"

#include "base/attr.h"
#include "image/host.h"
#include "policy/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS    3000 /* for a question to a container engine */
#define FIRST_RUN_MS 15000
#define IMAGES_TRIED 4
#define OUTPUT_MAX   (64u << 10)

/* An argv that is being built; the first failure stays. */
struct words {
	struct strv *to;
	int error;
};

static void add(struct words *w, const char *word)
{
	if (w->error == 0)
		w->error = strv_add(w->to, word);
}

#define ADD(w, ...) add_all(w, (const char *const[]){__VA_ARGS__, NULL})

static void add_all(struct words *w, const char *const *list)
{
	for (; *list; list++)
		add(w, *list);
}

static int finish(const struct words *w, struct cay_error *err)
{
	return w->error < 0 ? cay_fail(err, CAY_E_INTERNAL, -w->error, "prepare the comparison")
			    : 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Where a sandbox shows the file. */
static void inner_path(const struct snippet *s, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/%s", ISLAND_WORKSPACE, base_name(s->file));
}

static int make_plan(const struct snippet *s, bool inside, struct plan **ret, struct cay_error *err)
{
	char inner[PATH_MAX + sizeof(ISLAND_WORKSPACE)];
	const char *script = s->file[0] ? s->file : NULL;

	if (script && inside) {
		inner_path(s, inner, sizeof(inner));
		script = inner;
	}
	return plan_make(s->spec, s->settings, s->runtime, NULL, script, ret, err);
}

/* The program's words as cay would have them; the program itself may be another. */
static void add_program(struct words *w, const struct plan *plan, const char *program)
{
	const char *word = plan_first(plan, plan->argv);

	for (uint32_t n = 0; n < plan->argv.len; n++, word = plan_next(word))
		add(w, n == 0 && program ? program : word);
}

static void add_env(struct words *w, const struct plan *plan)
{
	const char *item = plan_first(plan, plan->env);

	for (uint32_t n = 0; n < plan->env.len; n++, item = plan_next(item))
		add(w, item);
}

static int make_bare(const struct snippet *s, const struct plan *plan _unused_, struct peer *p,
		     struct cay_error *err)
{
	struct words argv = {.to = &p->argv}, env = {.to = &p->env};
	struct plan *outside;

	if (make_plan(s, false, &outside, err) < 0)
		return -1;
	add_program(&argv, outside, NULL);
	add_env(&env, outside);
	free(outside);
	/* Not where others may write: interpreters load what lies in these. */
	if (env.error == 0)
		env.error = strv_set_env(&p->env, "HOME", "/nonexistent");
	p->dir = "/";
	(void)snprintf(p->what, sizeof(p->what), "the program itself, no sandbox");
	return finish(&argv, err) < 0 ? -1 : finish(&env, err);
}

static int make_cay(const struct snippet *s, const struct plan *plan _unused_, struct peer *p,
		    struct cay_error *err)
{
	const struct runtime *rt = s->runtime;
	struct words w = {.to = &p->argv};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "find cay itself");
	self[n] = '\0';
	ADD(&w, self, "run", "--image", IMAGE_HOST, "-l"); /* as the others have it */
	if (w.error == 0)
		w.error = rt->version[0]
				  ? strv_addf(&p->argv, "%s@%s", rt->language->name, rt->version)
				  : strv_add(&p->argv, rt->language->name);
	if (s->file[0])
		add(&w, s->file);
	else
		ADD(&w, "-c", s->spec->code);
	(void)snprintf(p->what, sizeof(p->what),
		       "cay run: namespaces, limits, system call filter, read-only system");
	return finish(&w, err);
}

static void add_system(struct words *w)
{
	for (size_t i = 0; i < n_host_items; i++) {
		char path[64], target[64];
		struct stat st;
		ssize_t n;

		if (host_items[i].kind != HOST_ROOT_DIR)
			continue;
		(void)snprintf(path, sizeof(path), "/%s", host_items[i].path);
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			ADD(w, "--symlink", target, path);
		} else if (stat(path, &st) == 0) {
			ADD(w, "--ro-bind", path, path);
		}
	}
}

/* Sees what an island does; of /etc all, because one mount is cheaper than a choice. */
static int make_bubblewrap(const struct snippet *s, const struct plan *plan, struct peer *p,
			   struct cay_error *err)
{
	struct words w = {.to = &p->argv}, env = {.to = &p->env};
	char inner[PATH_MAX + sizeof(ISLAND_WORKSPACE)];

	ADD(&w, "bwrap", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc");
	add_system(&w);
	ADD(&w, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", ISLAND_WORKSPACE);
	if (s->runtime->root[0])
		ADD(&w, "--ro-bind", s->runtime->root, s->runtime->root);
	if (s->file[0]) {
		inner_path(s, inner, sizeof(inner));
		ADD(&w, "--ro-bind", s->file, inner);
	}
	ADD(&w, "--remount-ro", "/", "--unshare-user", "--unshare-all", "--uid", "1000", "--gid",
	    "1000", "--hostname", ISLAND_HOSTNAME, "--cap-drop", "ALL", "--new-session",
	    "--die-with-parent", "--chdir", ISLAND_WORKSPACE);
	add_program(&w, plan, NULL);
	add_env(&env, plan);
	(void)snprintf(p->what, sizeof(p->what),
		       "bwrap: namespaces, read-only system; no limits, no system call filter");
	return finish(&w, err) < 0 ? -1 : finish(&env, err);
}

/* A name that an image may have it by: python3, not python3.11. */
static const char *common_name(const struct runtime *rt)
{
	const struct language_program *programs = rt->language->programs;

	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && programs[i].name; i++)
		if (!strchr(programs[i].name, '*'))
			return programs[i].name;
	return base_name(rt->program);
}

static int make_container(const struct snippet *s, const struct plan *plan, const char *image,
			  struct peer *p, struct cay_error *err)
{
	struct words w = {.to = &p->argv}, clean = {.to = &p->cleanup};
	char inner[PATH_MAX + sizeof(ISLAND_WORKSPACE)], name[64];

	strv_done(&p->argv);
	strv_done(&p->cleanup);
	(void)snprintf(name, sizeof(name), "cay-bench-%d", getpid());
	ADD(&w, p->name, "run", "--rm", "--pull=never", "--network", "none", "--entrypoint", "",
	    "--name", name);
	if (s->file[0]) {
		inner_path(s, inner, sizeof(inner));
		add(&w, "-v");
		if (w.error == 0)
			w.error = strv_addf(&p->argv, "%s:%s:ro", s->file, inner);
	}
	add(&w, image);
	add_program(&w, plan, common_name(s->runtime));
	ADD(&clean, p->name, "rm", "-f", name);
	(void)snprintf(p->what, sizeof(p->what),
		       "%s run: a new container of %.80s, with the image's own %.32s", p->name,
		       image, common_name(s->runtime));
	return finish(&w, err) < 0 ? -1 : finish(&clean, err);
}

/* The last line that says something. */
static void last_line(struct buf *output, char *line, size_t size)
{
	char *text = output->data;
	size_t len = output->len;
	const char *begin;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
		len--;
	begin = len > 0 ? memrchr(text, '\n', len) : NULL;
	begin = begin ? begin + 1 : text;
	(void)snprintf(line, size, "%.*s", len > 0 ? (int)(text + len - begin) : 0,
		       len > 0 ? begin : "");
}

int peer_run(struct spawner *s, const struct peer *p, uint64_t timeout_ms, struct buf *output,
	     struct spawned *ret, struct cay_error *err)
{
	struct spawn what = {.argv = &p->argv,
			     .env = &p->env,
			     .dir = p->dir,
			     .timeout_ms = timeout_ms,
			     .output = output};
	struct spawned unused;
	int cancelled;

	if (spawn_wait(s, &what, ret, err) < 0)
		return -1;
	if (!ret->stopped || p->cleanup.len == 0)
		return 0;
	cancelled = s->cancelled;
	s->cancelled = 0; /* this one is still to be done */
	what = (struct spawn){.argv = &p->cleanup, .timeout_ms = ANSWER_MS};
	(void)spawn_wait(s, &what, &unused, err);
	s->cancelled = cancelled;
	return 0;
}

/* Whether it works, by running it once; says why not. */
static bool works(struct spawner *s, struct peer *p)
{
	_cleanup_(buf_done) struct buf output = BUF(OUTPUT_MAX);
	struct spawned done;
	struct cay_error err;

	p->why_not[0] = '\0';
	if (peer_run(s, p, FIRST_RUN_MS, &output, &done, &err) < 0)
		(void)snprintf(p->why_not, sizeof(p->why_not), "%.190s", err.text);
	else if (done.stopped)
		(void)snprintf(p->why_not, sizeof(p->why_not), "its first run did not end");
	else if (done.status != 0)
		last_line(&output, p->why_not, sizeof(p->why_not));
	if (done.status != 0 && !p->why_not[0])
		(void)snprintf(p->why_not, sizeof(p->why_not), "its first run failed");
	return !p->why_not[0];
}

static bool is_installed(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");
		char file[PATH_MAX];

		(void)snprintf(file, sizeof(file), "%.*s/%s", (int)len, path, name);
		if (access(file, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

/* Where systemd holds the socket, a mere question would start the daemon. */
static bool would_start_a_daemon(const char *engine)
{
	return strcmp(engine, "docker") == 0 && !getenv("DOCKER_HOST") &&
	       access("/run/docker.sock", F_OK) == 0 && access("/run/docker.pid", F_OK) != 0;
}

/* The names of local images, one a line; false, and why in p->why_not. */
static bool list_images(struct spawner *s, struct peer *p, struct buf *ret)
{
	_cleanup_(strv_done) struct strv argv = {0};
	struct words w = {.to = &argv};
	struct spawn what = {.argv = &argv, .timeout_ms = ANSWER_MS, .output = ret};
	struct spawned done;
	struct cay_error err;

	ADD(&w, p->name, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}");
	if (finish(&w, &err) < 0 || spawn_wait(s, &what, &done, &err) < 0)
		(void)snprintf(p->why_not, sizeof(p->why_not), "%.190s", err.text);
	else if (done.stopped)
		(void)snprintf(p->why_not, sizeof(p->why_not), "no answer within %d s",
			       ANSWER_MS / 1000);
	else if (done.status != 0)
		last_line(ret, p->why_not, sizeof(p->why_not));
	else
		return true;
	return false;
}

/* The next image of the list whose name has the language in it, or not. */
static bool next_image(const char **list, const char *language, bool has, char *image, size_t size)
{
	while (**list) {
		size_t len = strcspn(*list, "\n");

		(void)snprintf(image, size, "%.*s", (int)len, *list);
		*list += len + ((*list)[len] == '\n');
		/* Lines with blanks are warnings. */
		if (image[0] && !strpbrk(image, " <") && (strstr(image, language) != NULL) == has)
			return true;
	}
	return false;
}

static int try_images(struct spawner *s, const struct snippet *snippet, const struct plan *plan,
		      const char *images, struct peer *p, struct cay_error *err)
{
	const char *language = snippet->runtime->language->name;
	int tried = 0;

	for (int likely = 1; likely >= 0; likely--) {
		const char *list = images;
		char image[256];

		while (tried < IMAGES_TRIED && !s->cancelled &&
		       next_image(&list, language, likely, image, sizeof(image))) {
			if (make_container(snippet, plan, image, p, err) < 0)
				return -1;
			if (works(s, p))
				return 0;
			tried++;
		}
	}
	(void)snprintf(p->why_not, sizeof(p->why_not),
		       "no local image with a working %.32s (of %d)", common_name(snippet->runtime),
		       tried);
	return 0;
}

static int find_container(struct spawner *s, const struct snippet *snippet, const struct plan *plan,
			  struct peer *p, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf images = BUF(OUTPUT_MAX);

	if (!is_installed(p->name))
		(void)snprintf(p->why_not, sizeof(p->why_not), "not installed");
	else if (would_start_a_daemon(p->name))
		(void)snprintf(p->why_not, sizeof(p->why_not), "its daemon is not running");
	else if (list_images(s, p, &images))
		return try_images(s, snippet, plan, buf_str(&images), p, err);
	return 0;
}

static int find(struct spawner *s, const struct snippet *snippet, const struct plan *plan,
		struct peer peers[PEERS], struct cay_error *err)
{
	static int (*const make[])(const struct snippet *, const struct plan *, struct peer *,
				   struct cay_error *) = {make_bare, make_cay, make_bubblewrap};

	for (size_t i = 0; i < ARRAY_LEN(make) && !s->cancelled; i++) {
		if (i == PEER_BUBBLEWRAP && !is_installed("bwrap")) {
			(void)snprintf(peers[i].why_not, sizeof(peers[i].why_not), "not installed");
			continue;
		}
		if (make[i](snippet, plan, &peers[i], err) < 0)
			return -1;
		(void)works(s, &peers[i]);
	}
	for (int i = PEER_PODMAN; i <= PEER_DOCKER && !s->cancelled; i++)
		if (find_container(s, snippet, plan, &peers[i], err) < 0)
			return -1;
	return 0;
}

int peers_find(struct spawner *s, const struct snippet *snippet, struct peer ret[PEERS],
	       struct cay_error *err)
{
	static const char *const names[PEERS] = {"bare", "cay", "bubblewrap", "podman", "docker"};
	struct plan *plan;
	int r;

	for (int i = 0; i < PEERS; i++)
		ret[i] = (struct peer){.name = names[i]};
	if (make_plan(snippet, true, &plan, err) < 0)
		return -1;
	r = find(s, snippet, plan, ret, err);
	free(plan);
	return r;
}

void peers_done(struct peer peers[PEERS])
{
	for (int i = 0; i < PEERS; i++) {
		strv_done(&peers[i].argv);
		strv_done(&peers[i].env);
		strv_done(&peers[i].cleanup);
	}
}
