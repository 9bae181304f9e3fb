/*
 * service_client.h: the launcher as a process of its own, and what is said to it and
 * heard from it. One at a time; whatever goes wrong fails the test.
 */
#pragma once

#include "engine/native/service_main.h"
#include "engine/pipes.h"
#include "engine/service.h"
#include "policy/plan.h"

#include <sys/types.h>

/* For what must come; only a hang takes that long. */
#define PATIENCE_MS 60000

extern int client_sock;
extern pid_t client_launcher;

/* All as in struct service_config; no host directory may be mounted. */
void client_start(int kept_dir, const struct bare_rules *bare, const struct limits *maximum);

/* It must end in order, as there is nobody left to ask. */
void client_stop(void);

/* A line for /bin/sh, with what else the spec has. The caller's to free; the spec's
 * contents are gone. */
struct plan *client_plan(struct spec spec, const char *line);

/* The request, more_len bytes behind it, and fds beside it. */
void client_ask(struct service_request q, const void *more, size_t more_len, const int *fds,
		size_t n_fds);

/* The next report that is not about the stock. */
struct service_report client_hear(void);

/* All that the program prints, until it ends, as a string of at most size - 1 bytes. */
void client_read(const struct pipes *pipes, char *out, size_t size);
