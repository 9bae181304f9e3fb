/*
 * plan.h: what an engine carries out: everything decided, nothing left to look
 * up. A plan is one flat block (header, then text) without pointers, so that it
 * can cross a socket as it is; whoever receives one runs plan_check() first.
 */
#pragma once

#include "core/egress.h"
#include "core/error.h"
#include "core/id.h"
#include "core/limits.h"
#include "settings/settings.h"
#include "spec/image.h"
#include "spec/runtime.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

#define PLAN_MAGIC      0x31796163u /* "cay1" */
#define PLAN_MAX_BYTES  (1u << 20)
#define PLAN_MOUNTS_MAX (SPEC_MOUNTS_MAX + 2)

/* Who a program is, unless the image says otherwise, or root was asked for. */
#define ISLAND_UID      1000u
#define ISLAND_GID      1000u
#define ISLAND_IDS      65536u
#define ISLAND_HOSTNAME "cay"

/* An offset into the plan's text; 0 is the empty string. */
typedef uint32_t plan_text;

enum mount_kind {
	MOUNT_REQUESTED, /* asked for: the mount rules decide */
	MOUNT_OPERATOR,  /* a runtime's directory, named in settings: read-only, always allowed */
	MOUNT_KEPT,      /* /workspace that outlives the island: the source is a name, not a path */
};

struct plan_mount {
	plan_text source, target;
	uint8_t access; /* enum access */
	uint8_t kind;   /* enum mount_kind */
	uint8_t pad[2];
};

/* Strings that follow each other in the text. */
struct plan_list {
	plan_text first;
	uint32_t len;
};

struct plan {
	uint32_t magic;
	uint32_t size; /* of the whole */

	/* The program's: on one island each may have others. */
	char id[ID_SIZE];
	struct plan_list compile; /* executed first, in the same place; empty: nothing is */
	struct plan_list argv, env;
	plan_text workdir;
	plan_text warm; /* by an interpreter that has this set loaded, if there is one; "": cold */

	/* The island's: made for one, it is for no other; but for some limits. */
	uint32_t n_mounts;
	uint32_t engine;        /* enum spec_engine, where it is a container's; 0: an island's */
	struct plan_list rules; /* of its network: "+RULE" allows, "-RULE" blocks */
	struct limits limits;
	struct plan_mount mounts[PLAN_MOUNTS_MAX];
	uint32_t island_text; /* so much of the text, from its beginning, is about the island */
	uint8_t scratch_workspace; /* /workspace is part of the island's own tmpfs */
	uint8_t allow_degraded;
	uint8_t network;   /* enum network_mode */
	uint8_t writable;  /* the root can be written to; with the scratch, up to the limit disk */
	plan_text image;   /* the id of the image it is made of; "": the host's own /usr; a
			      container's:   its reference */
	uint16_t uid, gid; /* who the program is, on the island */

	char text[];
};

/* Nothing between the fields, as they are compared as bytes. */
_Static_assert(sizeof(struct plan) == 8 + ID_SIZE + 4 * sizeof(struct plan_list) + 16 +
					      sizeof(struct limits) +
					      PLAN_MOUNTS_MAX * sizeof(struct plan_mount) + 16,
	       "a new field: is it the island's or the program's? take_program_out() must know");

/*
 * spec x settings -> plan. runtime is NULL for a bare argv, image NULL for the host's own. script
 * is the path
 * on the island that a script or long snippet is put at, or NULL when the code
 * goes as an argument. The caller frees the plan with free().
 */
int plan_make(const struct spec *spec, const struct settings *settings,
	      const struct runtime *runtime, const struct image *image, const char *script,
	      struct plan **ret, struct cay_error *err);

/*
 * Whether b's program can run on an island that was made ahead for a: they differ
 * only in what is looked at after it is made, or not on the island, as rules of its network.
 * Plans with mounts never do, because host paths are judged anew for each; but for those of a
 * runtime, which settings name.
 */
bool plan_fits_island(const struct plan *a, const struct plan *b);

/* A plan for the same islands, without anything of the program's. NULL: no memory. */
struct plan *plan_strip(const struct plan *p);

/* Whether b's can be a command on a live island that was made for a: that has the same mounts. */
bool plan_fits_command(const struct plan *a, const struct plan *b);

/* The same as the island sees it, which was made for a, perhaps ahead: it knows of no rules. */
bool plan_fits_order(const struct plan *a, const struct plan *b);

/* Appends the network's rules to lists; 0 or -errno. */
int plan_rules(const struct plan *p, struct strv *ret_allow, struct strv *ret_block);

/* The image's id, or NULL: the host's own, or a container's. */
const char *plan_image(const struct plan *p);

/* A container's image, by its reference in full; NULL: it is for an island. */
const char *plan_container_image(const struct plan *p);

/* The set of modules that its interpreter should have loaded, or NULL: it starts cold. */
const char *plan_warm(const struct plan *p);

/*
 * Whether files with set-id bits may be made: by root, and only where all that can be written is
 * gone with the island.
 */
bool plan_may_set_ids(const struct plan *p);

/* Whether its workspace is a layer over a host directory. */
bool plan_overlay(const struct plan *p);

/* The name of the workspace that outlives the island, or NULL. */
const char *plan_kept(const struct plan *p);

/* Whether len bytes from somewhere are a plan that can be walked safely and is within limits. */
int plan_check(const struct plan *p, size_t len, struct cay_error *err);

const char *plan_str(const struct plan *p, plan_text t);

/* The nth string of a list; walk with plan_next(). */
const char *plan_first(const struct plan *p, struct plan_list l);
const char *plan_next(const char *s);
