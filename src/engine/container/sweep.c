#include "engine/container/sweep.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "engine/container/containers.h"
#include "engine/container/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_FIELD 20 /* of stat, behind the name: when it began, in ticks since the boot */

struct owner {
	uint64_t pid_namespace, pid, start;
};

/* 0 or -errno. */
static int start_of(uint64_t pid, uint64_t *ret)
{
	char path[40], text[1024], *at;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	r = (int)fd_read_text_at(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return r;
	at = strrchr(text, ')'); /* the name before it may be anything */
	for (int i = 0; at && i < START_FIELD; i++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at + 1, "%" SCNu64, ret) == 1 ? 0 : -EINVAL;
}

static int our_namespace(uint64_t *ret)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}

int sweep_owner(char ret[SWEEP_OWNER_SIZE])
{
	struct owner o = {.pid = (uint64_t)getpid()};
	int r = our_namespace(&o.pid_namespace);

	if (r == 0)
		r = start_of(o.pid, &o.start);
	if (r == 0)
		(void)snprintf(ret, SWEEP_OWNER_SIZE, "%" PRIu64 "-%" PRIu64 "-%" PRIu64,
			       o.pid_namespace, o.pid, o.start);
	return r;
}

bool sweep_is_gone(const char *owner)
{
	char again[SWEEP_OWNER_SIZE];
	struct owner o;
	uint64_t ours = 0, start = 0;
	int r;

	if (sscanf(owner, "%" SCNu64 "-%" SCNu64 "-%" SCNu64, &o.pid_namespace, &o.pid, &o.start) !=
	    3)
		return false;
	(void)snprintf(again, sizeof(again), "%" PRIu64 "-%" PRIu64 "-%" PRIu64, o.pid_namespace,
		       o.pid, o.start);
	if (strcmp(again, owner) != 0 || our_namespace(&ours) < 0 || o.pid_namespace != ours)
		return false;
	r = start_of(o.pid, &start);
	return r == 0 ? start != o.start : r == -ENOENT || r == -ESRCH;
}

struct sweeper {
	struct docker *docker;
	int removed;
};

static const char *label_of(const struct container_listed *c, const char *label)
{
	const struct json *l = c->labels && json_kind(c->labels) == JSON_KIND_OBJECT
				       ? json_get(c->labels, label)
				       : NULL;

	return l ? json_str(l) : NULL;
}

/* An image's labels are its containers', too; a name only who makes a container gives it. */
static bool is_ours(const struct container_listed *c)
{
	const char *id = label_of(c, CONTAINER_LABEL);
	char ours[sizeof("/cay-") + ID_SIZE];

	if (!id || !c->names || json_kind(c->names) != JSON_KIND_ARRAY ||
	    snprintf(ours, sizeof(ours), "/cay-%s", id) >= (int)sizeof(ours))
		return false;
	for (size_t i = 0; i < json_len(c->names); i++) {
		const char *name = json_str(json_at(c->names, i));

		if (name && strcmp(name, name[0] == '/' ? ours : ours + 1) == 0)
			return true;
	}
	return false;
}

static int remove_if_left(void *ctx, const struct container_listed *c, struct cay_error *err)
{
	struct sweeper *s = ctx;
	const char *owner = label_of(c, CONTAINER_OWNER);

	if (!owner || !is_ours(c) || !sweep_is_gone(owner))
		return 0;
	if (container_remove(s->docker, &c->id, err) < 0)
		return -1;
	s->removed++;
	return 0;
}

int sweep_engine(const struct docker_place *place, struct cay_error *err)
{
	_cleanup_(docker_freep) struct docker *d = NULL;
	struct sweeper s = {0};

	if (docker_open(place, &d, err) < 0)
		return -1;
	s.docker = d;
	return container_list(d, CONTAINER_LABEL, remove_if_left, &s, err) < 0 ? -1 : s.removed;
}

static bool would_be_started(const struct docker_place *place)
{
	return place->engine == ENGINE_DOCKER &&
	       (strcmp(place->path, "/var/run/docker.sock") == 0 ||
		strcmp(place->path, "/run/docker.sock") == 0) &&
	       access("/run/docker.pid", F_OK) < 0 && access("/var/run/docker.pid", F_OK) < 0;
}

int sweep_engines(const struct settings *s)
{
	static const enum spec_engine engines[] = {ENGINE_DOCKER, ENGINE_PODMAN};
	int n = 0;

	for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
		struct docker_place place;
		struct cay_error err;
		int removed;

		if (place_find(engines[i], s, &place, &err) < 0 || would_be_started(&place))
			continue;
		removed = sweep_engine(&place, &err);
		n += removed > 0 ? removed : 0;
	}
	return n;
}
