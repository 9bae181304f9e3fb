/*
 * settings.h: what the operator said: /etc/cay/cay.conf, then the user's own
 * file, then $CAY_CONFIG; a later file overrides single values and adds to lists.
 *
 * A user's own file is that user's say over that user's runs; it is read only
 * where cay runs with that user's rights. (A daemon reads the operator's alone.)
 */
#pragma once

#include "base/buf.h"
#include "base/strv.h"
#include "core/egress.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/scope.h"
#include "core/tier.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTINGS_LANGUAGES_MAX 32
#define SETTINGS_FILES_MAX     3

/* Of all files together, with their names. */
#define SETTINGS_PARTS_MAX ((size_t)(SETTINGS_FILES_MAX + 1) * (SETTINGS_MAX_BYTES + 8192))

/* [language NAME] prefer = VERSION, path = DIRECTORY and image = REFERENCE (again and again). */
struct language_settings {
	char *name;
	char *prefer; /* NULL: the table's own preference */
	struct strv paths, images;
};

/* What of it may be changed at run time (settings/live.h). */
enum live_mode { LIVE_OFF, LIVE_NARROW, LIVE_FULL, LIVE_MODES };

const char *live_mode_name(enum live_mode m);

/* Of an image that a one-shot run names and the store has not. */
enum pull { PULL_MISSING, PULL_NEVER, PULLS };

/* [docker] and [podman]. */
struct container_settings {
	bool enabled;  /* enabled = yes|no */
	char *socket;  /* socket: where its service listens; NULL: found as its own programs do */
	char *runtime; /* runtime: what containers are run by; NULL: as the engine is set up */
};

/* Host directories that can be had at most. */
enum tier_mounts { TIER_MOUNTS_NONE, TIER_MOUNTS_READ, TIER_MOUNTS_WRITE };

const char *tier_mounts_name(enum tier_mounts m);

/* Sets of engines: all there are, and those that are a sandbox. */
#define ENGINES_ALL       (((1u << ENGINES) - 1) & ~(1u << ENGINE_AUTO))
#define ENGINES_SANDBOXED (ENGINES_ALL & ~(1u << ENGINE_DIRECT))

/* [tier NAME]: what a tier brings, and the most that those who have it can get. */
struct tier_settings {
	enum network_mode network;
	unsigned engines; /* bits of enum spec_engine */
	enum tier_mounts mounts;
	struct limits limits; /* 0: as [limits] and [maximum] have it */
};

/* [scope session], [scope agent], [scope shared]: the sandboxes of such scopes. */
struct scope_settings {
	struct limits limits;      /* 0: as a request or [limits] has it */
	uint64_t idle_timeout_ms;  /* idle_timeout */
	char *workspace;           /* workspace = DIRECTORY[:ro|rw]; NULL: scratch, or a kept one */
	char *image;               /* image; NULL: as a request has it */
	enum network_mode network; /* network; NETWORK_MODES: as a request has it */
	struct strv allow;         /* allow = RULE: domains that go with it */
	enum tier tier;            /* tier; TIERS: as a request has it */
	bool keep;                 /* of agent and shared: its workspace outlives its island */
	bool everybody;            /* of shared: one for all callers, not for each owner */
};

struct bounds;

struct settings {
	struct limits limits;    /* [limits]: what a run gets when it does not ask */
	struct limits maximum;   /* [maximum]: what it can get at most; 0: no maximum */
	struct strv mount_read;  /* [mounts] read = DIR: may be mounted read-only */
	struct strv mount_write; /* [mounts] write = DIR: may be mounted writable (and read-only) */
	struct strv mount_forbid; /* [mounts] forbid = PATH: added to the built-in forbidden list */
	bool allow_degraded;      /* [isolation] allow_degraded = yes|no */
	bool may_degrade;         /* may_degrade = yes|no: whether a run may ask for that */
	bool allow_direct;        /* [engine] direct = yes|no */
	struct container_settings docker, podman;
	enum network_mode network_mode; /* [network] mode: the most that can be had */
	struct strv network_allow;      /* allow = RULE: as domain_rule_text() writes it */
	struct strv network_block;      /* block = RULE: the same */
	struct strv network_addresses;  /* address = RULE: not public, and allowed yet */
	bool network_check_names;     /* check_names: TLS and HTTP must name who is connected to */
	uint64_t network_connections; /* connections: of one sandbox at once */
	uint64_t network_total_connections; /* total_connections: of all */
	uint64_t network_connection_rate;   /* connection_rate: new ones a second of one; 0: not
					       limited */
	uint64_t network_lookup_rate;       /* lookup_rate: the same of names that are asked for */
	uint64_t network_rate;       /* rate: bytes a second and direction of one; 0: not limited */
	uint64_t network_total_rate; /* total_rate: the same of all */
	uint64_t network_bytes;      /* bytes: both directions together of one; 0: not limited */
	uint64_t network_connect_timeout; /* connect_timeout: seconds until nobody answers */
	uint64_t network_idle_timeout;    /* idle_timeout: seconds */
	struct strv risks; /* [selective] sandbox = RULE (spec/risk.h): is sandboxed, too */
	struct tier_settings tiers[TIERS];
	struct scope_settings scopes[SCOPES];
	enum live_mode serve_settings; /* [serve] settings = off|narrow|full */
	uint64_t serve_max_runs;      /* [serve] max_runs: of all callers at once; 0: not limited */
	uint64_t serve_max_sandboxes; /* max_sandboxes: the same of live sandboxes */
	uint64_t serve_queue;         /* queue: how many runs may wait for room; 0: none */
	uint64_t serve_queue_per_key; /* queue_per_key: the same of one key or user */
	uint64_t serve_wait;          /* wait: seconds that one does, where it does not say */
	uint64_t workspaces_max;      /* max: with snapshots, of each key or user; 0: no limit */
	uint64_t workspaces_max_total;                 /* max_total: of all together */
	uint64_t workspaces_size, workspaces_max_size; /* size, max_size: of each, in bytes */
	uint64_t workspaces_keep_days; /* keep_days: unused for so long, they go; 0: never */
	uint64_t serve_history_days;   /* history_days: how long runs are remembered; 0: for ever */
	uint64_t serve_history_size;   /* history_size: bytes of all kept results; 0: not limited */
	uint64_t serve_audit_days;     /* audit_days: the same of the audit log */
	struct strv serve_hosts;       /* host = NAME: what TCP clients may call us by */
	enum mode serve_mode;          /* mode = all|selective|off: what is sandboxed */
	char *serve_direct_user;       /* direct_user = NAME or uid, never root; NULL */
	bool serve_direct_over_tcp;    /* direct_over_tcp = yes|no */
	uint64_t warm_memory;          /* [warm] memory: what all that is kept ready may take */
	char *images_store;            /* [images] store = DIRECTORY; NULL: images_dir() says */
	uint64_t images_budget;     /* budget: bytes of all layers and downloads; 0: not limited */
	struct strv images_allow;   /* allow = GLOB: of references that may be used; none: all */
	struct strv images_aliases; /* alias = NAME=REFERENCE */
	enum pull images_pull;      /* pull: what becomes of an image that is not in the store */
	struct strv images_mirrors; /* mirror = REGISTRY=URL: asked before the registry itself */
	struct strv images_plain_http; /* plain_http = REGISTRY: asked without TLS */
	uint64_t images_stall_timeout; /* stall_timeout: seconds in which next to nothing comes */
	bool warm_enabled;             /* [warm] enabled = yes|no */
	struct strv warm_images;       /* image = REFERENCE: trusted to have interpreters started */
	struct strv warm_sets; /* set = NAME=MODULE,MODULE: of what interpreters have loaded */
	struct language_settings languages[SETTINGS_LANGUAGES_MAX];
	size_t n_languages;
	/* In a copy for one caller: what that one's key may have (policy/bounds.h); else NULL. */
	const struct bounds *key;
	struct strv origins; /* NAME=FILE:LINE for each value that came from a file; see
				settings_origin() */
};

/* The defaults, as if there were no file. */
void settings_init(struct settings *s);
void settings_done(struct settings *s);

/*
 * Lays one file's text over s. Pure. A wrong section, key or value is
 * CAY_E_INVALID with "FILE:LINE: …" and a hint that lists what is known there.
 * After a failure s holds what stood before the wrong line.
 *
 * A limit may be 0, for "not limited", where that is its default: cpu_time and
 * file_size, and all of [maximum]. Paths are kept as written: absolute, without
 * "..", "." and "//", and in [mounts] also from "~/" on. A language goes by its name in
 * spec/language.h, whatever alias the file used.
 */
int settings_parse(struct settings *s, const char *file, const char *text, struct cay_error *err);

/*
 * The same, where all that the text says has one origin: "run time, version 7". Errors name file
 * and line all the same.
 */
int settings_parse_as(struct settings *s, const char *file, const char *origin, const char *text,
		      struct cay_error *err);

/* Appends the files that settings_load() looks at, in order, each once. 0 or -errno. */
int settings_files(struct strv *ret_files);

/*
 * Lays one file over s. A file that is not there is no error, unless $CAY_CONFIG
 * names it; *ret_found says which. One that is there must be readable, a regular
 * file of at most SETTINGS_MAX_BYTES, and, for root, root's own and writable by
 * nobody else.
 */
int settings_load_file(struct settings *s, const char *file, bool *ret_found,
		       struct cay_error *err);

/* Lays all of settings_files() over s; stops at the first error. */
int settings_load(struct settings *s, struct cay_error *err);

/*
 * The same, and all that was read is appended to parts, for whoever may not read the files, and
 * must go by the very bytes that were checked: for each file its name and its text, each with a
 * NUL behind it.
 */
int settings_load_parts(struct settings *s, struct buf *parts, struct cay_error *err);

/* One more, that is no file: its values have that origin. 0 or -errno. */
#define SETTINGS_DEFAULT "default"
int settings_add_part(struct buf *parts, const char *name, const char *text);

/* Lays all of them over s. */
int settings_parse_parts(struct settings *s, const struct buf *parts, struct cay_error *err);

/*
 * Where "limits.memory" or "language python.prefer" came from: "FILE:LINE", or
 * "default". Of a list, "mounts.read[0]" is the origin of the first item, and
 * "mounts.read" that of the last one added.
 */
const char *settings_origin(const struct settings *s, const char *name);

/* The settings of one language, or NULL. */
const struct language_settings *settings_language(const struct settings *s, const char *name);

/*
 * Calls fn for every effective value in the order of the example file; lists
 * give one call for each item. value is written so that it could stand in a file.
 */
typedef void settings_show_fn(void *ctx, const char *section, const char *key, const char *value,
			      const char *origin);
void settings_show(const struct settings *s, settings_show_fn *fn, void *ctx);
