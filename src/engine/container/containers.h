/*
 * containers.h: what can be done with containers, one call of the engine's each. Names and
 * configurations are the caller's; ids are what the engine answered, and harmless in a path.
 */
#pragma once

#include "engine/container/docker.h"

#include <stdbool.h>
#include <stdint.h>

#define CONTAINER_ID_SIZE 65

struct container_id {
	char text[CONTAINER_ID_SIZE];
};

/*
 * The order of a start: create, attach, wait, start. What has been attached to before the start
 * loses nothing, and who waits before the start misses no end.
 */

/* name: NULL, and the engine makes one up. CAY_E_IMAGE: the image is not there. */
int container_create(struct docker *d, const char *name, const struct json *config,
		     struct container_id *ret, struct cay_error *err);

/* All three streams; frames.h where the container has no terminal. */
int container_attach(struct docker *d, const struct container_id *id, struct docker_stream *ret,
		     struct cay_error *err);

/*
 * For the next end of it. docker_later() has to be asked once before fd is waited for; *ret of it
 * is for container_wait_code().
 */
int container_wait(struct docker *d, const struct container_id *id, struct docker_later *ret,
		   struct cay_error *err);
int container_wait_code(const struct json *answer); /* -1: not known */

int container_start(struct docker *d, const struct container_id *id, struct cay_error *err);

/* These are 0 also where it is so already: not running, gone, being removed by somebody. */
int container_kill(struct docker *d, const struct container_id *id, int signal,
		   struct cay_error *err);
/* With its anonymous volumes, and whatever it runs. */
int container_remove(struct docker *d, const struct container_id *id, struct cay_error *err);

int container_pause(struct docker *d, const struct container_id *id, struct cay_error *err);
int container_unpause(struct docker *d, const struct container_id *id, struct cay_error *err);

struct container_state {
	bool running, paused, oom_killed;
	int pid; /* on the engine's host, of what is PID 1 inside; 0: there is none */
	int exit_code;
	char error[256]; /* why it could not be started; one harmless line */
};

/* id may be a name. *ret is the caller's. CAY_E_NOT_FOUND. */
int container_inspect(struct docker *d, const char *id, struct json **ret, struct cay_error *err);
void container_state_read(const struct json *inspected, struct container_state *ret);

struct container_usage {
	uint64_t cpu_us, memory_bytes, memory_peak_bytes; /* the peak 0 where it is not told */
	uint64_t processes;
};

/* One look. */
int container_usage(struct docker *d, const struct container_id *id, struct container_usage *ret,
		    struct cay_error *err);

/* All that have the label ("KEY" or "KEY=VALUE"), also those that do not run. 0, or -1 to stop. */
struct container_listed {
	struct container_id id;
	const struct json *labels; /* an object */
	const struct json *names;  /* "/NAME", and what others call it */
	bool running;
};
typedef int container_list_fn(void *ctx, const struct container_listed *c, struct cay_error *err);
int container_list(struct docker *d, const char *label, container_list_fn *fn, void *ctx,
		   struct cay_error *err);

/* Commands beside PID 1. config: AttachStdin, Cmd, …; terminal as in it. */
int container_exec(struct docker *d, const struct container_id *id, const struct json *config,
		   struct container_id *ret_exec, struct cay_error *err);
int container_exec_start(struct docker *d, const struct container_id *exec, bool terminal,
			 struct docker_stream *ret, struct cay_error *err);
/* *ret_code: -1 while it runs. */
int container_exec_inspect(struct docker *d, const struct container_id *exec, int *ret_code,
			   struct cay_error *err);

/* A tar of path, as it comes; and one, read from fd to its end, unpacked in the directory path. */
int container_get(struct docker *d, const struct container_id *id, const char *path,
		  docker_bytes_fn *fn, void *ctx, struct cay_error *err);
int container_put(struct docker *d, const struct container_id *id, const char *path, int from_fd,
		  struct cay_error *err);

/*
 * What happens to containers with the label ("KEY=VALUE": Podman 4 knows no other here), from since
 * (seconds of the wall's clock; 0: now) on, until fn answers 1 or the call is cancelled. Each
 * engine has its own words for some of it.
 */
int container_events(struct docker *d, const char *label, int64_t since_s, docker_object_fn *fn,
		     void *ctx, struct cay_error *err);
