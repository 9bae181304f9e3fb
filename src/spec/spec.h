/*
 * spec.h: what was asked for, validated for form and nothing more: whether it
 * may be had is policy's business.
 */
#pragma once

#include "base/strv.h"
#include "core/egress.h"
#include "core/error.h"
#include "core/id.h"
#include "core/limits.h"
#include "core/tier.h"
#include "spec/language.h"

#include <stdbool.h>

#define SPEC_MOUNTS_MAX    32
#define SPEC_TRANSFERS_MAX 256

#define IMAGE_TEXT_MAX 512 /* of an image's name, as it is asked for */

#define ISLAND_WORKSPACE "/workspace"
#define IMAGE_HOST       "host" /* this machine's own /usr: the image that has no record */

enum spec_kind {
	SPEC_CODE, /* code in a language */
	SPEC_FILE, /* a script: on the host, copied in; of an API's request, on the island */
	SPEC_ARGV, /* a program of the island's */
};

/* By what it is carried out. ENGINE_AUTO is none of its own: one of the others is chosen. */
enum spec_engine {
	ENGINE_AUTO,
	ENGINE_NATIVE,
	ENGINE_DOCKER,
	ENGINE_PODMAN,
	ENGINE_DIRECT,
	ENGINES
};

const char *spec_engine_name(enum spec_engine e);

/* ENGINES: none is called so. */
enum spec_engine spec_engine_find(const char *name);

/* Whether it makes containers, of images of its own. */
bool spec_engine_is_container(enum spec_engine e);

/* How much is sandboxed, from little to all. */
enum mode { MODE_UNSAID, MODE_OFF, MODE_SELECTIVE, MODE_ALL, MODES };

const char *mode_name(enum mode m);

/* MODE_UNSAID: no mode is called so. */
enum mode mode_find(const char *name);

enum access {
	ACCESS_READ,
	ACCESS_WRITE,
	ACCESS_OVERLAY, /* of a workspace: changes go to a layer of the island's */
	ACCESSES,
};

const char *access_name(enum access a); /* "ro", "rw", "overlay" */

struct mount_spec {
	char *source; /* as the caller wrote it; relative to the caller's directory */
	char *target; /* absolute, on the island */
	enum access access;
};

/* Files in before (--put SRC[:DEST]) and out after (--get GLOB[:DEST]). */
struct transfer {
	char *from;
	char *to; /* NULL: same name */
};

struct transfers {
	struct transfer items[SPEC_TRANSFERS_MAX];
	size_t len;
};

/* What is asked of the network. Rules are as domain_rule_text() writes them. */
struct network_spec {
	bool said; /* the mode was */
	enum network_mode mode;
	struct strv allow, block;
};

void network_spec_done(struct network_spec *n);

struct plan;
struct runtime;

struct spec {
	enum spec_kind kind;
	const struct language *language; /* NULL for SPEC_ARGV */
	char *version;                   /* NULL: whatever is preferred */
	char *code;                      /* SPEC_CODE; code_len bytes */
	size_t code_len;
	/*
	 * Where a driver (spec/driver.h) is what is run: then code is the driver's, and this is
	 * what it is to run. NULL: there is none.
	 */
	char *cell;
	size_t cell_len;
	char *file_name;      /* SPEC_CODE: as a script of this name; NULL: as it goes best */
	char *file;           /* SPEC_FILE */
	char *entry;          /* what a program begins with, where its language has such; NULL */
	struct strv args;     /* SPEC_ARGV: the argv; else what follows the code or file */
	struct strv env;      /* NAME=VALUE */
	char *stdin_file;     /* NULL: the caller's own */
	struct limits limits; /* 0: not asked for */
	struct mount_spec mounts[SPEC_MOUNTS_MAX];
	size_t n_mounts;
	struct mount_spec workspace; /* source NULL: scratch */
	char *workdir;               /* NULL: the workspace */
	struct transfers put, get;
	enum spec_engine engine;
	enum mode mode;
	bool trusted; /* the caller's word, which counts in MODE_SELECTIVE alone */
	/* The first field that asks for what only a sandbox has ("network"); static; or NULL. */
	const char *needs_sandbox;
	bool allow_degraded;
	bool cold;   /* by island and interpreter made for it, none that stood ready */
	char *image; /* a reference, or an id, or IMAGE_HOST; NULL: none was named */
	/*
	 * Where an engine with images of its own carries it out: its reference in full (borrowed),
	 * whatever was named. NULL: for an island.
	 */
	const char *container_image;
	bool writable; /* the root can be written to, and is gone with the island */
	bool as_root;  /* the program is root on its island */
	struct network_spec network;
	bool has_tier; /* what a tier brings is asked for */
	enum tier tier;
	/*
	 * For a sandbox that lives on: the directories of all runtimes that are not in
	 * /usr, whichever is used (borrowed); and programs may install what they need.
	 * NULL: for one program, which gets what it needs.
	 */
	const struct strv *live_roots;
	/*
	 * For one too: the interpreter that its programs are most likely to want (borrowed), which
	 * may be started with it; or NULL.
	 */
	const struct runtime *live_runtime;
	/* For a sandbox that is persistent: its workspace's name (borrowed), or NULL. */
	const char *kept;
	/* For a program on a live island: that one's plan (borrowed), whose network it has. */
	const struct plan *island;
	/*
	 * For a program beside others on a live island: what is put there for it alone
	 * carries this in its name, as they may be at it at the same time. Else "".
	 */
	char own[ID_SIZE];
};

void spec_done(struct spec *s);

/*
 * Nothing is said any more of where it runs: no mounts, image, network and the like, and of
 * limits only time and output, which are a command's own.
 */
void spec_leave_place(struct spec *s);

/* "SRC:DEST[:ro|rw]" into the next mount. */
int spec_add_mount(struct spec *s, const char *text, struct cay_error *err);

/* "SRC[:ro|rw|overlay]" */
int spec_set_workspace(struct spec *s, const char *text, struct cay_error *err);

/* "FROM[:TO]" */
int transfers_add(struct transfers *t, const char *option, const char *text, struct cay_error *err);

/* "K=V", or "K" for the caller's own value (nothing if it has none). */
int spec_add_env(struct spec *s, const char *text, struct cay_error *err);

/* A file's lines of the same, with # comments and empty lines. */
int spec_add_env_lines(struct spec *s, const char *file, char *text, struct cay_error *err);

/* A variable by its name and value. */
int spec_set_env(struct spec *s, const char *name, const char *value, struct cay_error *err);

/* "python", "node@22" */
int spec_set_language(struct spec *s, const char *text, struct cay_error *err);

/* "memory", "512m"; names are those of the API's limits object. */
int spec_set_limit(struct spec *s, const char *name, const char *text, struct cay_error *err);

/* "off", "selective", "all" */
int spec_set_mode(struct spec *s, const char *text, struct cay_error *err);

int spec_set_engine(struct spec *s, const char *text, struct cay_error *err);

/* "none", "allowlist", "full" */
int spec_set_network(struct spec *s, const char *text, struct cay_error *err);

/* "*.example.org:443" to what may be reached, and to what may not. */
int spec_allow_domain(struct spec *s, const char *text, struct cay_error *err);
int spec_block_domain(struct spec *s, const char *text, struct cay_error *err);

int spec_set_tier(struct spec *s, const char *text, struct cay_error *err);

/* A reference or id, or "host"; what is there, image/choose.h finds. */
int spec_set_image(struct spec *s, const char *text, struct cay_error *err);

/* "root"; or "cay", which is said for nothing. */
int spec_set_user(struct spec *s, const char *text, struct cay_error *err);

int spec_set_workdir(struct spec *s, const char *path, struct cay_error *err);

/* Whether a path on the island is absolute, without "." and ".." and empty parts. */
bool island_path_ok(const char *path);

/* Whether a program may be started there. */
bool island_workdir_ok(const char *path);
