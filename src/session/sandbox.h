/*
 * sandbox.h: islands that live on: created, used again and again, ended by their
 * owner or the reaper. All in the api's memory and in the store; the islands
 * themselves are the launcher's.
 *
 * Three times, never mixed up: a command's time-out ends that command; the idle
 * time-out ends a sandbox that nobody uses; its time to live ends it in any case.
 *
 * A persistent one is only stopped by the idle time-out, and by the end of the daemon:
 * its workspace and what was asked for are kept, and the next use, whichever it is,
 * makes its island again. Callers need not know: what they ask for waits until it stands.
 */
#pragma once

#include "core/error.h"
#include "core/id.h"
#include "core/result.h"
#include "session/agent_client.h"
#include "session/context.h"
#include "session/job.h"
#include "session/logs.h"
#include "spec/request.h"
#include "store/owner.h"
#include "store/sandboxes.h"

#include <stdbool.h>
#include <stdint.h>

struct sandboxes;
struct store;

#define SANDBOX_IDLE_DEFAULT_MS    (3600ull * 1000)
#define SANDBOX_COMMAND_DEFAULT_MS (300ull * 1000)

struct sandbox {
	struct sandbox *next;
	struct sandboxes *all;
	char id[ID_SIZE];
	char *name; /* NULL: none */
	struct owner owner;
	struct request_body *body;   /* what was asked for; its spec is the base of commands' */
	struct image *image;         /* that it is made of; NULL: the host's own */
	struct plan *plan;           /* the island's, as the launcher has it; NULL: unable */
	struct cay_error *unable;    /* why it can't be started any more; or NULL */
	bool rules_changed;          /* those in body are others than the plan's */
	struct sandbox_rules *rules; /* that are about to be others; or NULL */
	struct island_ref ref;
	enum sandbox_state state;
	bool stands;                                  /* the island is there */
	bool woken;                                   /* it was stopped before */
	const char *stopping;                         /* why it is being stopped; or NULL */
	int64_t created_ms, last_used_ms, expires_ms; /* since 1970; expires 0: never */
	int64_t touched_ms;                           /* the last_used_ms that the store knows */
	uint64_t idle_timeout_ms;
	struct isolation isolation;
	bool warm;                /* its island was borne by an interpreter */
	struct logs logs;         /* what its commands print */
	struct contexts contexts; /* its interpreters that remember */
	struct sandbox_job *jobs;
	size_t busy;                /* commands, calls and terminals under way */
	struct sandbox_wait *waits; /* who waits for the launcher's answer */
	struct sandbox_put *put;    /* the files it begins with are under way; or NULL */
	uint64_t memory_bytes;      /* as of the last look */
	uint32_t processes;
	struct usage usage;
};

/* What is told of a sandbox that ended: to those who hold something of it. */
typedef void sandbox_ended_fn(void *ctx, const struct sandbox *s, const char *reason);

struct sandboxes_config {
	struct job_place place;
	const struct settings *settings;
	struct store *store; /* NULL: nothing is remembered (tests) */
	sandbox_ended_fn *ended;
	/* CPU time that one used since this was last called; NULL: nobody wants to know. */
	void (*used)(void *ctx, const struct sandbox *s, double cpu_ms);
	/*
	 * A persistent one of the store's can't be started: it stays as it is, and but for one
	 * whose request can't be read it is there to be looked at, deleted, or tried again.
	 */
	void (*unable)(void *ctx, const char *id, const struct cay_error *err);
	void *ctx;
};

struct sandboxes *sandboxes_new(const struct sandboxes_config *c, struct cay_error *err);
/* Ends all of them; those that are persistent are stopped. */
void sandboxes_free(struct sandboxes *all);

/* An answer of the launcher's; err NULL where it is well. Never from inside the call that asked. */
typedef void sandbox_answer_fn(void *ctx, struct sandbox *s, const struct cay_error *err);

/*
 * body is taken over, also on failure. settings: the operator's, within the owner's
 * bounds; not kept. The answer comes when the island stands and its files are there; a
 * sandbox that could not be made has ended by then (s is valid in the call alone).
 */
int sandbox_create(struct sandboxes *all, const struct owner *owner,
		   const struct settings *settings, struct request_body *body,
		   sandbox_answer_fn *fn, void *ctx, struct cay_error *err);

/* What would be made: its plan, the caller's to free. body stays the caller's. */
int sandbox_plan(struct sandboxes *all, const struct owner *owner, const struct settings *settings,
		 struct request_body *body, struct plan **ret, struct cay_error *err);

/* By id, or by the name of one of the viewer's own. CAY_E_NOT_FOUND; CAY_E_EXPIRED for one that
 * was. */
struct sandbox *sandbox_find(struct sandboxes *all, const struct viewer *v, const char *id_or_name,
			     struct cay_error *err);

typedef void sandbox_each_fn(void *ctx, struct sandbox *s);
void sandboxes_each(struct sandboxes *all, const struct viewer *v, sandbox_each_fn *fn, void *ctx);

/* Whose workspace that is, by its id; also of one whose island is just ending. NULL: nobody's. */
const struct sandbox *sandbox_with_workspace(const struct sandboxes *all, const char *id);

/* The one of a scope of that owner's; NULL: there is none. */
struct sandbox *sandbox_of_scope(struct sandboxes *all, const struct owner *owner,
				 const char *scope);

/*
 * Whether a run that who asks for, and that names the scope of s, can have it as it is;
 * CAY_E_CONFLICT or CAY_E_POLICY. settings: the operator's, within who's bounds.
 */
int sandbox_check_scope(const struct sandbox *s, const struct owner *who,
			const struct settings *settings, const struct request_body *q,
			struct cay_error *err);

/* Something will run there: it is not idle meanwhile, and s stays valid. */
void sandbox_hold(struct sandbox *s);
void sandbox_release(struct sandbox *s);

/* Ends it. reason: "deleted", "idle", "expired" and the like. */
void sandbox_end(struct sandbox *s, const char *reason);

/* The same for one whose owner is gone; a persistent one is stopped, and keeps its workspace. */
void sandbox_retire(struct sandbox *s, const char *reason);

/*
 * SERVICE_FREEZE, SERVICE_THAW, SERVICE_USAGE. CAY_E_CONFLICT where it makes no sense in
 * its state. SERVICE_THAW starts one that is stopped. A waiting answer is cancelled by
 * sandbox_forget(s, ctx).
 */
int sandbox_ask(struct sandbox *s, enum service_request_kind kind, sandbox_answer_fn *fn, void *ctx,
		struct cay_error *err);
void sandbox_forget(struct sandbox *s, const void *ctx);

/*
 * A command's order: the sandbox's base and the command's own. cpu_left_ms: it may use no
 * more; 0: any. body is taken over. The command's id is spec.own, or made.
 */
int sandbox_order(struct sandbox *s, struct request_body *body, uint64_t cpu_left_ms,
		  struct job_order *ret, struct cay_error *err);

/*
 * Starts a command; as job_start(). The sandbox passes reports on, keeps what is printed
 * in its logs, and is not idle meanwhile. Free it by sandbox_job_free(), never by
 * job_free().
 */
struct job *sandbox_start(struct sandbox *s, struct job_order *o, const struct job_events *events,
			  void *ctx, struct cay_error *err);
void sandbox_job_free(struct sandbox *s, struct job *j);

/* A fresh interpreter for a context, also where it is stopped. */
int sandbox_restart_context(struct sandbox *s, struct context *c, struct cay_error *err);

/* An operation on its files. The sandbox is busy until sandbox_call_free(). */
struct agent_call *sandbox_call(struct sandbox *s, const struct agent_ask *ask,
				const struct agent_sink *sink, void *ctx, struct cay_error *err);
void sandbox_call_free(struct sandbox *s, struct agent_call *call);

/*
 * A program on a terminal of the sandbox's own. *ret_sock is where the master comes as
 * an fd (msg_recv of one byte), once; size is the terminal's at first. ended: the command's end, by
 * its report. The sandbox is busy until sandbox_terminal_close(), which ends what still runs there.
 */
struct sandbox_terminal;
struct winsize;
typedef void sandbox_terminal_fn(void *ctx, const struct service_report *r);
struct sandbox_terminal *sandbox_terminal(struct sandbox *s, struct job_order *o,
					  const struct winsize *size, sandbox_terminal_fn *ended,
					  void *ctx, int *ret_sock, struct cay_error *err);
void sandbox_terminal_close(struct sandbox_terminal *t);

/* Somebody uses it now. */
void sandbox_touch(struct sandbox *s);

/*
 * Other rules for its network: what asked lists, where it does, within settings, which are the
 * caller's, for all that runs there. 0: fn is told when they hold, or that they do not. 1: they do
 * already. -1; CAY_E_CONFLICT: it has no network, or others are under way.
 */
struct rules_asked {
	const struct strv *allow, *block; /* NULL: as they were */
};
int sandbox_change_rules(struct sandbox *s, const struct settings *settings,
			 const struct rules_asked *asked, sandbox_answer_fn *fn, void *ctx,
			 struct cay_error *err);

/* Puts what was changed into the store. */
void sandbox_remember(struct sandbox *s);

struct json;
/* As the API shows it; the caller frees it. */
struct json *sandbox_json(const struct sandbox *s);
