#include "engine/container/place.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_MAX   ((size_t)1 << 20)
#define CONTEXTS_MAX 1000 /* directories that are looked into */
#define NAME_SIZE    128
#define HOST_SIZE    256

/* What there is to know of each engine. */
static const struct engine_row {
	const char *name;     /* of the section in the settings */
	const char *variable; /* of the environment */
	const char *socket;   /* root's */
	const char *users;    /* below $XDG_RUNTIME_DIR */
	bool contexts;
} rows[] = {
	[ENGINE_DOCKER] = {"docker", "DOCKER_HOST", "/var/run/docker.sock", "docker.sock", true},
	[ENGINE_PODMAN] = {"podman", "CONTAINER_HOST", "/run/podman/podman.sock",
			   "podman/podman.sock", false},
};

struct found {
	struct docker_place *place;
	char *why; /* of 128 bytes */
};

const struct container_settings *place_settings(enum spec_engine engine, const struct settings *s)
{
	return engine == ENGINE_PODMAN ? &s->podman : &s->docker;
}

static int use_path(struct found *f, const char *path, struct cay_error *err)
{
	if (strlen(path) >= sizeof(f->place->path))
		return cay_fail(
			err, CAY_E_ENGINE, 0,
			"%s: the socket's path is longer than the kernel's %zu bytes: %.128s",
			f->why, sizeof(f->place->path) - 1, path);
	(void)snprintf(f->place->path, sizeof(f->place->path), "%s", path);
	return 0;
}

/* "unix:///run/x.sock", as everybody writes it; what is elsewhere is no sandbox of this machine's.
 */
static int use_host(struct found *f, const char *host, struct cay_error *err)
{
	const char *name = docker_name(f->place->engine);
	char shown[HOST_SIZE];

	if (strncmp(host, "unix://", 7) == 0 && host[7] == '/')
		return use_path(f, host + 7, err);
	(void)snprintf(shown, sizeof(shown), "%s", host);
	text_flatten(shown, strlen(shown));
	if (strncmp(host, "tcp://", 6) == 0 || strncmp(host, "ssh://", 6) == 0 ||
	    strncmp(host, "http://", 7) == 0 || strncmp(host, "https://", 8) == 0) {
		(void)cay_fail(
			err, CAY_E_UNSUPPORTED, 0,
			"%s says that %s is at %.200s: only a socket of this machine's can be used",
			f->why, name, shown);
		return cay_hint(err,
				"run cay on that machine; or name a socket here: %s, or socket "
				"in [%s] of the settings",
				rows[f->place->engine].variable, rows[f->place->engine].name);
	}
	(void)cay_fail(err, CAY_E_ENGINE, 0, "%s can't be '%.200s'", f->why, shown);
	return cay_hint(err, "unix://PATH with an absolute path");
}

/* Contexts */

static const char *text_at(const struct json *j, const char *key)
{
	const struct json *v = j && json_kind(j) == JSON_KIND_OBJECT ? json_get(j, key) : NULL;

	return v ? json_str(v) : NULL;
}

static const struct json *object_at(const struct json *j, const char *key)
{
	return j && json_kind(j) == JSON_KIND_OBJECT ? json_get(j, key) : NULL;
}

static int copy(char *to, size_t size, const char *from)
{
	return snprintf(to, size, "%s", from) >= (int)size ? -EINVAL : 0;
}

int place_current_context(const char *config, size_t len, char ret_name[128])
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const char *name;
	int r = json_parse(config, len, CONFIG_MAX, &j, &fault);

	if (r < 0)
		return r == -ENOMEM ? r : -EINVAL;
	name = text_at(j, "currentContext");
	return copy(ret_name, NAME_SIZE, name ? name : "");
}

int place_context_host(const char *meta, size_t len, const char *name, char ret_host[256])
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const char *is, *host;
	int r = json_parse(meta, len, CONFIG_MAX, &j, &fault);

	if (r < 0)
		return r == -ENOMEM ? r : -EINVAL;
	is = text_at(j, "Name");
	if (!is || strcmp(is, name) != 0)
		return 1;
	host = text_at(object_at(object_at(j, "Endpoints"), "docker"), "Host");
	return host ? copy(ret_host, HOST_SIZE, host) : -EINVAL;
}

static int read_config(int dir, const char *path, struct buf *out)
{
	_cleanup_(fd_closep) int fd =
		openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? fd_read_all(fd, out) : -EINVAL;
}

/* Goes through the contexts' directories, whose names are digests. 0, 1: there is none, -errno. */
static int look_for_context(int top, const char *name, char host[HOST_SIZE])
{
	DIR *dir = fd_opendir(openat(top, "contexts/meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int r = 1, n = 0;
	struct dirent *e;

	while (dir && r == 1 && n++ < CONTEXTS_MAX && (e = readdir(dir))) {
		_cleanup_(buf_done) struct buf text = BUF(CONFIG_MAX);
		char path[NAME_MAX + 16];

		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/meta.json", e->d_name);
		if (read_config(dirfd(dir), path, &text) == 0)
			r = place_context_host(buf_str(&text), text.len, name, host);
		if (r == -EINVAL)
			r = 1;
	}
	if (dir)
		(void)closedir(dir);
	return r;
}

static int open_config_dir(void)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	char path[PATH_MAX];

	if (dir && dir[0] == '/')
		(void)snprintf(path, sizeof(path), "%s", dir);
	else if (home && home[0] == '/')
		(void)snprintf(path, sizeof(path), "%s/.docker", home);
	else
		return -1;
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* 0, 1: no context says anything, -1. */
static int try_context(struct found *f, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(CONFIG_MAX);
	_cleanup_(fd_closep) int top = open_config_dir();
	const char *said = getenv("DOCKER_CONTEXT");
	char name[NAME_SIZE] = "", host[HOST_SIZE];

	if (said && said[0])
		(void)snprintf(name, sizeof(name), "%s", said);
	else if (top < 0 || read_config(top, "config.json", &text) < 0 ||
		 place_current_context(buf_str(&text), text.len, name) < 0)
		return 1;
	if (!name[0] || strcmp(name, "default") == 0)
		return 1;
	text_flatten(name, strlen(name));
	(void)snprintf(f->why, NAME_SIZE, "the docker context '%.60s'", name);
	if (top < 0 || look_for_context(top, name, host) != 0) {
		(void)cay_fail(err, CAY_E_ENGINE, 0, "%s is the current one, and is not there",
			       f->why);
		return cay_hint(err, "docker context use default; or say where it is: DOCKER_HOST");
	}
	return use_host(f, host, err);
}

static bool is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Ordinary users have a Podman of their own before root's, which is shut to them. */
static int use_default(struct found *f, const struct engine_row *row, struct cay_error *err)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char own[PATH_MAX] = "";
	bool own_first = geteuid() != 0 && f->place->engine == ENGINE_PODMAN;

	(void)snprintf(f->why, NAME_SIZE, "by default");
	if (run && run[0] == '/')
		(void)snprintf(own, sizeof(own), "%s/%s", run, row->users);
	if (own[0] && is_socket(own) && (own_first || !is_socket(row->socket)))
		return use_path(f, own, err);
	return use_path(f, row->socket, err);
}

int place_find_why(enum spec_engine engine, const struct settings *s, struct docker_place *ret,
		   char ret_why[128], struct cay_error *err)
{
	const struct container_settings *own = place_settings(engine, s);
	const struct engine_row *row = &rows[engine];
	const char *said = getenv(row->variable);
	struct found f = {.place = ret, .why = ret_why};
	int r;

	*ret = (struct docker_place){.engine = engine};
	if (!own->enabled) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the settings switch the engine %s off",
			       row->name);
		return cay_hint(err, "enabled = yes in [%s]", row->name);
	}
	if (own->socket) {
		(void)snprintf(ret_why, NAME_SIZE, "socket in [%s] of the settings", row->name);
		return use_path(&f, own->socket, err);
	}
	if (said && said[0]) {
		(void)snprintf(ret_why, NAME_SIZE, "%s", row->variable);
		return use_host(&f, said, err);
	}
	r = row->contexts ? try_context(&f, err) : 1;
	return r == 1 ? use_default(&f, row, err) : r;
}

int place_find(enum spec_engine engine, const struct settings *s, struct docker_place *ret,
	       struct cay_error *err)
{
	char why[NAME_SIZE];

	return place_find_why(engine, s, ret, why, err);
}
