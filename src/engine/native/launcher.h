/*
 * launcher.h: makes islands from plans. Small, single-threaded, without network
 * or text parsing; `cay run` uses it inside its own process, a daemon as a
 * process of its own. (PR_SET_PDEATHSIG follows the thread that cloned: it must
 * live as long as its islands.)
 *
 * A one-shot launcher makes everything afresh. A resident one can prepare:
 *  - a template: a mount namespace in which the image's root is laid out, sealed
 *    and pivoted into. The launcher enters it for the moment of the clone, so an
 *    island inherits it and mounts only what is its own. (A namespace fd does
 *    what a waiting spawner process would, without a message there and back.)
 *  - network namespaces, each used once.
 *  - cgroup directories, used again with the limits of the next.
 *  - whole islands (shelf.h), set up but for the program, each used once. The facts are
 *    read back when the program is there, as on any other.
 */
#pragma once

#include "base/outbox.h"
#include "core/error.h"
#include "core/result.h"
#include "engine/native/cgroup.h"
#include "engine/native/hostdir.h"
#include "engine/native/ids.h"
#include "engine/native/kept.h"
#include "engine/native/network.h"
#include "engine/native/shelf.h"
#include "engine/native/wires.h"
#include "engine/service.h"
#include "policy/mounts.h"
#include "engine/native/image_root.h"
#include "policy/plan.h"

#include <stdbool.h>
#include <stdint.h>

#define NETWORK_POOL_MAX 64
#define CGROUP_POOL_MAX  64
#define REMAINS_MAX      16

struct bare;
struct facts;
struct launched;
struct message;
struct zygote;
struct zygote_kind;

struct launcher {
	struct cgroups cgroups;
	struct ids ids;
	const struct mount_rules *rules;     /* borrowed */
	bool many_ids;                       /* root: a range of ids for each island */
	int ids_error;                       /* why many_ids is not known, or 0 */
	uint64_t own_namespaces[NAMESPACES]; /* 0 until they are needed */
	int template;                        /* mount namespace, or -1 */
	int own_mount, own_net;              /* to come back to; -1 where not needed */
	int networks[NETWORK_POOL_MAX];
	size_t n_networks;
	struct cgroup *spare; /* cgroups of islands that are gone */
	size_t n_spare, max_spare;
	struct shelves shelves;
	int remains[REMAINS_MAX]; /* mount namespaces of islands that are gone */
	size_t n_remains, max_remains;
	int kept_dir; /* kept.h; borrowed; -1: no workspaces are kept */
	struct image_shifts image_shifts;
	const char *image_store;          /* image/images.h; borrowed; NULL: there are no images */
	struct zygote_kind *zygote_kinds; /* zygote.h; borrowed */
	size_t n_zygote_kinds;
	struct zygote *zygotes;
	uint64_t skip_steps; /* tests only: see island_steps */
};

void launcher_init(struct launcher *l, const struct mount_rules *rules);
void launcher_done(struct launcher *l);

/* Resident launchers, as root: prepare a template; fill the pool up to n. */
int launcher_make_template(struct launcher *l, struct cay_error *err);
int launcher_fill_networks(struct launcher *l, size_t n, struct cay_error *err);

/* Keeps up to n cgroups for the next islands. */
int launcher_keep_cgroups(struct launcher *l, size_t n, struct cay_error *err);

/*
 * Islands for programs whose plan fits this one's (plan_fits_island) are kept for good, n of
 * them at least; and they are made now.
 */
int launcher_make_ahead(struct launcher *l, const struct plan *like, size_t n,
			struct cay_error *err);

/*
 * Makes one thing that is short, so that nobody waits for more: a network, of which there shall be
 * so many, or an island ahead; or takes down one that is too much. 0, 1 where nothing is to be
 * done, or -1.
 */
int launcher_restock(struct launcher *l, size_t networks, struct cay_error *err);

struct service_stock launcher_stock(const struct launcher *l);

/*
 * From now on the file systems of an island that is gone are kept until
 * launcher_tidy(), so that nobody waits for their end. Call that when the answer
 * is out; past a few, the next island's end does it.
 */
void launcher_tidy_later(struct launcher *l);
void launcher_tidy(struct launcher *l);

/* An island from outside. */
struct launched {
	struct launcher *launcher;
	pid_t pid;
	int pidfd;
	int control;
	struct outbox orders; /* that a busy PID 1 did not take yet, where control does not block */
	int mounts;           /* its mount namespace, where its end can wait; else -1 */
	enum network_way network;
	int wires[EGRESS_FDS]; /* where it has a way out: wires.h; else -1 */
	int scratch;           /* where held: the root of its writable file system; else -1 */
	struct cgroup cgroup;
	uint32_t first_id; /* of its host ids; 0: it has no range */
	uint32_t n_ids;
	bool zygote;           /* it is for an interpreter that bears others */
	struct zygote *mother; /* that bore it; or NULL: we did */
	bool warm;             /* it had one */
	uint64_t cpu_us;       /* of those: what its program took, and its peak of memory, as its */
	uint64_t memory_bytes; /* PID 1 said */
	bool single;           /* of those: it is for one program, and takes no other order */
	uint32_t slot;         /* of its ids, among the mother's */
	uint32_t uid, gid;     /* who programs are on it */
	struct hostdir hostdirs[PLAN_MOUNTS_MAX];
	struct hostdir image;       /* its root, where it is not the host's own */
	enum kept_kind kept;        /* what its workspace is, where that outlives it */
	struct isolation isolation; /* read back */
	struct bare *bare;          /* it is none, but a program on the host: bare.h; or NULL */
};

/* Nothing of it is there yet: good for launched_kill() and launched_reap(). */
void launched_init(struct launched *i, struct launcher *l);

/*
 * Makes the island and starts the program on it; nothing starts unless what the
 * island reads back agrees with the plan. Where held, the program waits for
 * launched_go(), and scratch can be used before and after. stdio: the ends for
 * the island; they stay the caller's. On failure nothing is left behind.
 */
int launcher_start(struct launcher *l, const struct plan *p, const int stdio[3], bool held,
		   struct launched *ret, struct cay_error *err);

/*
 * Takes the next message of an island's, whose bytes are not trusted; false if
 * there is none. *ret_fd, unless NULL, is the fd that rode along, or -1.
 */
bool launcher_listen(int control, struct message *ret, int *ret_fd);

int launched_go(struct launched *i, struct cay_error *err);

/*
 * The same for a plan whose program is compiled first, by a command: the island is found
 * to be well and waits for orders, and scratch can be used. stdio: pipes, for its check.
 */
int launcher_start_waiting(struct launcher *l, const struct plan *p, const int stdio[3],
			   struct launched *ret, struct cay_error *err);

/*
 * Gives an order by the plan that the island was made for, and waits until what it starts
 * was found good. No other order may be under way.
 */
int launched_begin(struct launched *i, uint32_t command, uint32_t flags, const struct plan *p,
		   const int stdio[3], struct cay_error *err);

/* How an island may be come by. */
enum made {
	MADE_COLD,   /* made now, for this plan */
	MADE_LIVE,   /* also one that was made ahead, or that a zygote bears, where the plan fits it
		      */
	MADE_SINGLE, /* the same, and its first order is its last */
};

/*
 * An island that lives on: it waits for orders (orders.h), and is the caller's to
 * kill and reap. Nothing is waited for: what comes of it is told on its control socket, command by
 * command, and launched_judge() is due when a command says MESSAGE_READY.
 */
int launcher_make_live(struct launcher *l, const struct plan *p, enum made how,
		       struct launched *ret, struct cay_error *err);

/* For shelves and the above: by a zygote that is well. */
int launcher_bear(struct launcher *l, struct zygote *z, const struct plan *p, bool single,
		  struct launched *ret, struct cay_error *err);

/* For zygote.c: the island on which an interpreter will serve. It has its ids already. */
int launcher_make_zygote(struct launcher *l, const struct plan *p, const struct cgroups *cgroups,
			 struct launched *i, struct cay_error *err);

/*
 * flags: enum order_flags. p is NULL: the one that the island was made for. doors: what the
 * command joins its own cgroups by. 0 or -errno.
 */
int launched_order(struct launched *i, uint32_t command, uint32_t flags, const struct plan *p,
		   const int stdio[3], const int *doors, size_t n_doors);

/* Ends this command, or (0) all of them at once, and leaves the island. 0 or -errno. */
int launched_clear(struct launched *i, uint32_t command);

/* SIGINT for this command's process group. 0 or -errno. */
int launched_interrupt(struct launched *i, uint32_t command);

/* Facts and limits against the plan; puts them into the island's isolation, as a result has them.
 */
int launched_judge(struct launched *i, const struct plan *p, const struct facts *f,
		   struct cay_error *err);

/* Kills everything on it, at once. */
void launched_kill(struct launched *i);

/* Waits for its end (after its last message), reads the usage and takes everything down. */
void launched_reap(struct launched *i, struct usage *ret);

/* Both at once: whatever there is of it, alive or not. */
void launched_discard(struct launched *i);
