/*
 * islands.h: the unprivileged side of the launcher (engine/service.h): islands
 * by number, requests out, reports to whom they concern. Nothing here waits: what the
 * socket does not take now is kept, in order, and sent when it does.
 */
#pragma once

#include "base/outbox.h"
#include "core/error.h"
#include "engine/service.h"
#include "policy/plan.h"
#include "session/outlet.h"

#include <stdint.h>

struct islands;
struct loop;

/* One island, inside a struct of the caller's. */
struct island_ref {
	struct islands *islands; /* who makes it; set before anything is asked of it */
	uint32_t number;         /* 0: there is none */
	void *ctx;
	/*
	 * What the launcher says of it. After REPORT_GONE, and after a REPORT_FAILED that
	 * is about the island itself (command 0 and no READY before), the number is 0 and
	 * nothing more comes.
	 */
	void (*report)(struct island_ref *ref, const struct service_report *r);
	/* Ours. */
	struct island_ref *next;
	uint32_t commands;    /* numbers given out */
	bool made;            /* it is one that lives on */
	bool stands;          /* READY was heard */
	struct outlet outlet; /* where it has a network; it outlives the island */
	struct outbox early;  /* for one that lives on, and does not stand yet */
};

/* Without an island: engine/native/bare.h. */
struct islands_bare {
	int peer; /* the caller's connection; -1: it came by TCP */
};

/*
 * lost: the launcher is gone, and with it all islands. outlets: borrowed; NULL: no island gets
 * a network. NULL: no memory.
 */
struct islands *islands_new(struct loop *loop, int sock, struct outlets *outlets,
			    void (*lost)(void *ctx), void *ctx);
void islands_free(struct islands *l);

/* A program to be run. */
struct island_order {
	const struct plan *plan;
	int fds[3];                       /* its stdio; the caller's to close, also at once */
	uint32_t flags;                   /* enum order_flags, FLAG_TELL_READY, FLAG_COLD */
	uint64_t timeout_ms, cpu_time_ms; /* what is left of them; 0: as the plan says */
};

/*
 * All return 0 or -1. A plan that is too large to be sent is CAY_E_TOO_LARGE. What is asked of an
 * island that does not stand yet is sent when it does; where it never does, the fds are closed.
 * bare: or NULL.
 */
int islands_run(struct island_ref *ref, const struct island_order *o,
		const struct islands_bare *bare, struct cay_error *err);
int islands_command(struct island_ref *ref, const struct island_order *o, uint32_t *ret_command,
		    struct cay_error *err);
/* flags: FLAG_OWN, FLAG_COLD. */
int islands_make(struct island_ref *ref, const struct plan *p, uint32_t flags,
		 const struct islands_bare *bare, struct cay_error *err);

/* command 0: the island. What is gone already is no failure. */
void islands_kill(struct island_ref *ref, uint32_t command, enum cause cause);

/* SERVICE_USAGE of one command. */
int islands_measure(struct island_ref *ref, uint32_t command, struct cay_error *err);

/* SIGINT for a command's process group. */
void islands_interrupt(struct island_ref *ref, uint32_t command);

/* SERVICE_FREEZE, SERVICE_THAW, SERVICE_USAGE: answered by REPORT_USAGE, or REPORT_FAILED. */
int islands_ask(struct island_ref *ref, enum service_request_kind kind, struct cay_error *err);

/* Keeps n islands ready that are like this plan's. */
int islands_ahead(struct islands *l, const struct plan *like, uint32_t n, struct cay_error *err);

/* What the launcher has ready, by its last report. */
struct service_stock islands_stock(const struct islands *l);

/* Removes kept workspaces (engine/native/kept.h): these; all but these. */
int islands_discard(struct islands *l, const char (*names)[ID_SIZE], size_t n,
		    struct cay_error *err);
/*
 * Makes one a copy of the other, which nobody may have mounted. The number is of the copy; its
 * report is REPORT_GONE with status 0, or REPORT_FAILED.
 */
int islands_copy(struct island_ref *ref, const char from[ID_SIZE], const char to[ID_SIZE],
		 struct cay_error *err);
int islands_sweep(struct islands *l, const char (*names)[ID_SIZE], size_t n, struct cay_error *err);

/* From here on nobody is told what becomes of it; it is ended, if it is there, and its outlet. */
void islands_forget(struct island_ref *ref);
