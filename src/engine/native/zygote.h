/*
 * zygote.h: started interpreters, each on an island of its own, that bear islands: the launcher's
 * side. (Theirs is interpreter.h and bear.c.)
 *
 * Theory of operation
 *
 *   launcher ──clone3──> init of the zygote's island ──> interpreter, all modules loaded
 *      │                                                     │ clone3, for each island
 *      └── control ──────────────────────────────────── init (PID 1) ──fork──> program (PID 2)
 *
 * A zygote has capabilities in its island's user namespace and none outside. From there it clones
 * itself into fresh namespaces, and the clone becomes an island by the same steps as any other
 * (island.c, linked into the interpreter's process): it joins its cgroups by fds of the launcher's,
 * is told to by the same messages, loads the filter, and has its facts read back and judged. Only
 * at the end there is no exec: the interpreter runs the program.
 *
 * What the launcher has to do otherwise: ids come out of a block that is mapped into the
 * zygote's user namespace, and the zygote maps them, because nobody else may; the island's cgroup
 * is one that the zygote may put its child into; and its end is told by its pidfd, as it is the
 * zygote's child. All of it lies in the PID namespace of the zygote's island, whose PID 1 ends with
 * the launcher: so does everything that was ever borne. A zygote's own end ends none of them.
 *
 * Where there is none, or it does not answer, islands are made as ever.
 */
#pragma once

#include "engine/native/launcher.h"
#include "engine/native/waiter.h"

/* Islands that one zygote can have at a time; more start cold. */
#define ZYGOTE_CHILDREN 255

/*
 * And in all. Those of one zygote have the same addresses, and the same seed of their hashes. A new
 * one has others, and nothing that the old one may have let grow.
 */
#define ZYGOTE_BIRTHS 20000

/* What is said by the socket that is the interpreter's standard input. */
enum zygote_word {
	ZYGOTE_READY = 1, /* everything is loaded */
	ZYGOTE_BEAR,      /* a plan follows; fds: control socket, and what it has */
	ZYGOTE_LOOK,      /* whether it is out of date: then it ends */
	ZYGOTE_BORN,      /* fd: its pidfd */
	ZYGOTE_FAILED,    /* error */
};

struct zygote_message {
	uint32_t kind;
	uint32_t first_id; /* of its ids, as the zygote's user namespace has them; 0: it has only
			      one */
	uint32_t uid, gid; /* with one id: what that is on the island */
	uint32_t network;  /* enum network_way */
	uint32_t single;   /* it is for one program */
	/* Whether fds ride along: of its cgroup; of its image's root, as a mount. */
	uint32_t has_cgroup, has_image;
	uint64_t memory_bytes; /* of one that is ready: what it has to itself */
	struct cay_error error;
};

#define ZYGOTE_FDS        3
#define ZYGOTE_PACKET_MAX (sizeof(struct zygote_message) + ORDER_PLAN_MAX)

/* Zygotes that the operator lets be: plans whose program is an interpreter that serves. */
struct zygote_kind {
	const char *set;     /* what of plan_warm() it serves */
	const char *program; /* what of argv[0] */
	struct plan *plan;
	int module;        /* what it loads to serve, by fd: its standard output */
	size_t births_max; /* after so many another takes over: ZYGOTE_BIRTHS */
	bool kept;         /* from the start, and for good */
	/* Where it can't be cloned, one waits on each of its islands instead; else all is NULL. */
	struct waiter waiter;

	/* The launcher's own. */
	bool wanted;           /* somebody asked for one */
	int64_t used_ms;       /* when somebody last did */
	int64_t not_before_ms; /* the last one failed: the next is started no sooner */
	unsigned failures;     /* one after the other */
	uint64_t memory_bytes; /* of the last that was ready; 0: it is not known */
	bool crowded_out;      /* it was said that there is no room for it */
};

/* Whether its interpreters bear none, but wait. */
bool zygote_kind_waits(const struct zygote_kind *k);

/* What a file was: another has taken its place, or it was changed, if that differs. */
void zygote_kind_look(const struct zygote_kind *k, struct program_id *ret);

/* Times are of clock_now_ms(). */

/* One that was wanted by nobody for so long goes. */
#define ZYGOTE_FORGET_MS 300000

/* One that gives way to another was wanted by nobody for so long, or they would do so in turns. */
#define ZYGOTE_YIELD_MS 30000

/* The kind for this plan, or NULL: it starts cold. */
struct zygote_kind *zygote_kind_of(struct launcher *l, const struct plan *p);

/* Somebody has a program for it: where there is none, one is wanted from now on. */
void zygote_want(struct zygote_kind *k, int64_t now_ms);

/* One of this kind that is well and has room, or NULL. */
struct zygote *zygote_find(struct launcher *l, const struct zygote_kind *k);

/* What all of them take in memory, and what an island that one of this kind has borne will. */
uint64_t zygotes_bytes(const struct launcher *l);
uint64_t zygote_child_bytes(const struct zygote_kind *k);

/* Whether it still bears: what waits on an island of one that does not is out of date. */
bool zygote_is_well(const struct zygote *z);

/*
 * Starts what is wanted and fits into shelves.memory_bytes, before which islands made ahead give
 * way; hears what those that start have to say, and ends those of no use. In how
 * many ms it wants to be called again; -1: when something is wanted. *ret_news: one is well now, or
 * not any more; or there is another reason to tend to them.
 */
int zygotes_tend(struct launcher *l, int64_t now_ms, bool *ret_news);

/* Takes ids and a cgroup out of the zygote's for the island, before it is borne. */
int zygote_provide(struct zygote *z, const struct plan *p, struct launched *i,
		   struct cay_error *err);

/* Bears it; theirs is its end of the control socket. */
int zygote_bear(struct zygote *z, const struct plan *p, struct launched *i, int theirs,
		struct cay_error *err);

/*
 * What the island does not say of itself, or would not be believed: that none of its namespaces is
 * the zygote's, and that it is in its cgroups.
 */
int zygote_check_child(const struct launched *i, const uint64_t namespaces[NAMESPACES],
		       struct cay_error *err);

/* Waits for its end, and takes its ids back. */
void zygote_lay_to_rest(struct launched *i);

/* Ends all. */
void zygotes_done(struct launcher *l);
