/*
 * request.h: the JSON object that asks for a run, for a sandbox, or for a command
 * in a sandbox. It becomes a struct spec and what only the API has. Strict: an
 * unknown name, a wrong kind of value, a name that does not belong there and what
 * is not supported yet are errors that name the field ("files[2].path: …").
 */
#pragma once

#include "base/strv.h"
#include "core/error.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_FILES_MAX  1024
#define REQUEST_ENV_MAX    1024
#define REQUEST_LABELS_MAX 64
#define REQUEST_NAME_MAX   63 /* characters in a sandbox's name or a label's */
#define REQUEST_LABEL_MAX  255
#define REQUEST_WAIT_MAX   3600       /* seconds */
#define REQUEST_KEPT_MAX   (1u << 20) /* bytes of a request that is kept with its sandbox */

/* Which of them it is; each has names of its own. */
enum request_place {
	REQUEST_RUN = 1,
	REQUEST_SANDBOX = 2,
	REQUEST_COMMAND = 4, /* in a sandbox: what the sandbox decided can't be asked for again */
};

struct request_file {
	char *path; /* absolute, on the island */
	char *data;
	size_t size;
	bool executable;
};

struct request_body {
	/*
	 * A run and a command have code, a file or an argv in it, with a language if it
	 * is no argv; a sandbox has none, and its kind says nothing. A file is the
	 * island's, and sources of mounts are absolute. get is in spec.get; files are not
	 * in spec.put.
	 */
	struct spec spec;
	bool background, dry_run;
	bool has_wait; /* else the settings say how long it waits for room */
	uint64_t wait_ms;
	struct request_file *files;
	size_t n_files;
	bool has_stdin; /* else it is empty */
	char *stdin_data;
	size_t stdin_len;
	char *context;      /* in which of the sandbox's interpreters its code runs; NULL: none */
	bool rich;          /* what the code shows is wanted, also without one */
	struct strv labels; /* NAME=VALUE */
	char *name;         /* NULL: none was given */
	bool persistent;
	char *workspace;            /* the name of one that is kept; NULL */
	char workspace_id[ID_SIZE]; /* once it is known; "" */
	char *text;                 /* of one that is: the request as it came */
	char *scope;                /* core/scope.h; NULL: none */
	char *place; /* of a run in a scope: what it says of where it runs, as a sandbox's JSON */
	uint64_t ttl_ms, idle_timeout_ms; /* 0: not asked for */
};

/*
 * Reads a body of at most REQUEST_MAX_BYTES. *ret is the caller's to
 * request_body_done(), also after a failure. CAY_E_INVALID, CAY_E_TOO_LARGE,
 * CAY_E_UNSUPPORTED, CAY_E_RUNTIME.
 */
int request_parse(struct request_body *ret, enum request_place place, const char *text, size_t len,
		  struct cay_error *err);

struct json;

/* The same of a value that was read already: one of a batch. */
int request_read(struct request_body *ret, enum request_place place, const struct json *j,
		 struct cay_error *err);

void request_body_done(struct request_body *q);

/* One that is on the heap; or NULL. */
void request_body_free(struct request_body *q);

/* Only its files, once they are where they belong. */
void request_files_done(struct request_body *q);

/* Whether text can be a sandbox's name: letters, digits, '-', '_', '.'; no id. */
bool request_name_ok(const char *text);

/* {"NAME":"VALUE",…} of the labels; the caller frees it. */
struct json *request_labels_json(const struct request_body *q);
