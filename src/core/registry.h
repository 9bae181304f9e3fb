/*
 * registry.h: how registries of images are named: HOST or HOST:PORT, and where they are asked:
 * http[s]://HOST[:PORT][/PATH]. Pure.
 */
#pragma once

#include "core/domain.h"

#include <stdbool.h>
#include <stddef.h>

#define REGISTRY_SIZE     (DOMAIN_SIZE + 6) /* with its port */
#define REGISTRY_URL_SIZE 512

/* Normalised: a name in small letters, a dotted quad, or [::1]. -EINVAL: it is none. */
int registry_parse(const char *text, size_t len, char ret[REGISTRY_SIZE]);

/* Whether it is this machine: localhost, 127.0.0.0/8 or [::1], on any port. */
bool registry_is_loopback(const char *registry);

/* The URL normalised, without a slash at its end. -EINVAL: it is none, or has more in it. */
int registry_url_parse(const char *text, char ret[REGISTRY_URL_SIZE]);
