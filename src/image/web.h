/*
 * web.h: the one shim over libcurl: GET, and POST of a form, one at a time. Redirects are not
 * followed and nothing is tried again: that, and who is told a password, is the caller's to decide.
 * Certificates are always checked.
 */
#pragma once

#include "base/buf.h"
#include "core/registry.h"
#include "image/auth.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_URL_SIZE    8192
#define WEB_TYPE_SIZE   128
#define WEB_DIGEST_SIZE 128
#define WEB_SAID_MAX    4096 /* bytes of an answer that is none */
#define WEB_WHY_SIZE    256

struct web;

/* stall_s: see web_end. authorities: certificates (PEM) to go by instead of the system's, or NULL.
 * NULL: no memory. */
struct web *web_new(unsigned stall_s, const struct buf *authorities);
void web_free(struct web *w);

/* Takes a body as it comes. Both return 0 or -errno, which ends the transfer. */
struct web_sink {
	/* Before the first byte: from where in the whole it is. */
	int (*begin)(void *ctx, uint64_t from);
	int (*take)(void *ctx, const void *data, size_t len);
	void *ctx;
};

struct web_ask {
	const char *url;
	const char *accept;          /* NULL: anything */
	const char *user, *password; /* NULL: none */
	const char *bearer;          /* NULL: none */
	const struct buf *form;      /* a POST of it; NULL: a GET */
	uint64_t from;               /* more than 0: the rest from there, if that can be had */
	struct web_sink sink;
};

enum web_end {
	WEB_ANSWERED,
	WEB_UNREACHABLE, /* nobody is there by that name, or at that port */
	WEB_UNTRUSTED,   /* or who they are can't be believed */
	WEB_BROKEN,      /* begun, and not to its end */
	WEB_STALLED,     /* in stall_s next to nothing came */
	WEB_REFUSED,     /* by the sink: sink_errno */
	WEB_FAILED,      /* on our side */
};

struct web_answer {
	enum web_end end;
	char why[WEB_WHY_SIZE]; /* unless WEB_ANSWERED */
	int sink_errno;
	int status;
	bool has_body;                /* 200 or 206: the sink has it */
	char type[WEB_TYPE_SIZE];     /* without parameters */
	char digest[WEB_DIGEST_SIZE]; /* as the registry says it; "" */
	char redirect[WEB_URL_SIZE];  /* in full; "" */
	struct challenge challenge;
	uint64_t retry_after_s;  /* 0: not said */
	char said[WEB_SAID_MAX]; /* the beginning of another answer's body */
};

void web_get(struct web *w, const struct web_ask *ask, struct web_answer *ret);

/*
 * Where a URL leads: "https://HOST:PORT", with the port always. -EINVAL for what is neither http
 * nor https, or has a name and a password in it.
 */
int web_origin(const char *url, char ret[REGISTRY_URL_SIZE]);

/* A form's NAME=VALUE, behind what it has. 0, -ENOMEM, or -EFBIG past its maximum. */
int web_add_field(struct buf *form, const char *name, const char *value);

/* url with NAME=VALUE at the end of its query, both as they are. 0, -EINVAL or -ENOMEM. */
int web_add_query(char url[WEB_URL_SIZE], const char *name, const char *value);
