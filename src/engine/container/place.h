/*
 * place.h: where an engine listens, found as its own programs find it: what the settings say; the
 * environment; for Docker, the current context; the sockets that packages make.
 */
#pragma once

#include "engine/container/docker.h"
#include "settings/settings.h"

/* [docker] or [podman]. */
const struct container_settings *place_settings(enum spec_engine engine, const struct settings *s);

/*
 * CAY_E_POLICY: the settings switch it off; CAY_E_UNSUPPORTED: it is said to be where only a
 * network leads; CAY_E_ENGINE: no place can be told. Whether somebody listens there, docker_open()
 * finds out.
 */
int place_find(enum spec_engine engine, const struct settings *s, struct docker_place *ret,
	       struct cay_error *err);

/* As place_find(), and who said so, in words. */
int place_find_why(enum spec_engine engine, const struct settings *s, struct docker_place *ret,
		   char ret_why[128], struct cay_error *err);

/*
 * What the files that `docker context` writes say. Pure. config.json: the name of the current one,
 * "" where there is none; meta.json: where the context of that name is, 0, or 1: it is another's.
 * -EINVAL: it is no such file.
 */
int place_current_context(const char *config, size_t len, char ret_name[128]);
int place_context_host(const char *meta, size_t len, const char *name, char ret_host[256]);
