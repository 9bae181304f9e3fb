/*
 * docker_config.h: names and passwords for registries, from the files that `docker login` and
 * `podman login` write. Programs that such a file names to ask for a password are not run: what
 * is in a file of the user's is data.
 */
#pragma once

#include "core/error.h"
#include "image/ref.h"

#include <stdbool.h>
#include <stddef.h>

#define LOGIN_TEXT_SIZE   4096
#define LOGIN_HELPER_SIZE 64
#define DOCKER_CONFIG_MAX (1u << 20)

struct login {
	char user[LOGIN_TEXT_SIZE], password[LOGIN_TEXT_SIZE]; /* user "": nobody */
	char identity[LOGIN_TEXT_SIZE]; /* instead of both: what tokens are given out for; or "" */
	char helper[LOGIN_HELPER_SIZE]; /* without any: the program that would know; or "" */
};

/* Whether there is something to log in with. */
static inline bool login_is(const struct login *l)
{
	return l->user[0] || l->identity[0];
}

/*
 * What one file's text says of a repository at a registry; the longest name that covers it
 * counts. Pure. CAY_E_INVALID: the file is none of that kind, or what it has is not a password.
 */
int docker_config_parse(const char *text, size_t len, const char *registry, const char *repository,
			struct login *ret, struct cay_error *err);

/*
 * The first file that knows: $DOCKER_CONFIG/config.json, or ~/.docker/config.json;
 * $REGISTRY_AUTH_FILE, or $XDG_RUNTIME_DIR/containers/auth.json and
 * ~/.config/containers/auth.json. None: an empty login.
 */
int docker_config_find(const char *registry, const char *repository, struct login *ret,
		       struct cay_error *err);
