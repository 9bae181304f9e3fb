/*
 * sandbox_impl.h: sandboxes from the inside, for the files sandbox*.c alone.
 */
#pragma once

#include "session/sandbox.h"

struct sandboxes {
	struct sandboxes_config config;
	struct strv roots; /* of all runtimes that are not in /usr */
	struct sandbox *list;
	struct loop_timer reaper;
	unsigned int rounds; /* of it */
};

struct sandbox_job {
	struct sandbox_job *next;
	struct job *job;
};

struct sandbox_wait {
	struct sandbox_wait *next;
	enum service_request_kind kind;
	sandbox_answer_fn *fn; /* NULL: nobody waits any more */
	void *ctx;
};

struct sandbox_terminal {
	struct sandbox_terminal *next;
	struct sandbox *sandbox; /* NULL: it is gone */
	uint32_t command;
	sandbox_terminal_fn *ended;
	void *ctx;
};

/* Tells all of a list, which is empty then; err NULL where it is well. */
void sandbox_answer_list(struct sandbox *s, struct sandbox_wait **list,
			 const struct cay_error *err);
void sandbox_waits_free(struct sandbox_wait *list);

/* sandbox_put.c: the files it begins with; then those who wait for it are told. */
void sandbox_put_files(struct sandbox *s);
void sandbox_put_free(struct sandbox *s);

/*
 * sandbox_workspace.c. What is asked of a new one's workspace; one with a name is found, and
 * nobody else has it. CAY_E_CONFLICT: somebody has.
 */
int sandbox_check_workspace(const struct sandboxes *all, const struct owner *owner,
			    struct request_body *body, struct cay_error *err);
/* Whose workspace is the daemon's to keep; a host directory stays by itself. id: the sandbox's. */
void sandbox_name_kept(struct request_body *body, const char *id);
/* It is used now. */
void sandbox_touch_workspace(const struct sandbox *s);

/* sandbox_rules.c: who waits for a change of them is not told. */
void sandbox_rules_free(struct sandbox *s);

/* Frees one that has ended, once nobody holds anything of it. */
void sandbox_look_for_end(struct sandbox *s);

/* One that is stopped gets an island again; what is asked of it meanwhile waits. */
int sandbox_wake(struct sandbox *s, struct cay_error *err);

/* sandbox_store.c. CAY_E_CONFLICT, CAY_E_INTERNAL: it is not remembered. */
int sandbox_keep(struct sandbox *s, struct cay_error *err);
/* Those that are stopped, from the store; and workspaces that are nobody's are removed. */
int sandboxes_restore(struct sandboxes *all, struct cay_error *err);

struct json;
/* sandbox_json.c: {"mode":…,"allow":[…],"block":[…]} */
struct json *sandbox_network_json(const struct sandbox *s);

/* One that was unable, for the reason that it has had, or for another. */
int sandbox_enable(struct sandbox *s, struct cay_error *err);

/*
 * For sandbox_store.c: enters one that was, with its body, owner and times set. 0 also where it
 * can't be started.
 */
int sandbox_enter_stopped(struct sandboxes *all, struct sandbox *s, struct cay_error *err);

/* sandbox_use.c: what the launcher says about a command. */
void sandbox_command_report(struct sandbox *s, const struct service_report *r);
/* The island is gone: all that ran there is told. */
void sandbox_tell_gone(struct sandbox *s, const struct service_report *r);

/* Once for all its life: later the name may lead to another. It is in full from here on. */
int sandbox_choose_image(const struct settings *settings, struct spec *spec, struct image **ret,
			 struct cay_error *err);

/*
 * sandbox_live.c: whose interpreter it shall be borne by, where that can be had, in room; *ret is
 * NULL: by none. A language that was named is there, or it is an error.
 */
int sandbox_choose_live(const struct settings *settings, const struct request_body *body,
			const struct image *image, struct runtime *room, const struct runtime **ret,
			struct cay_error *err);
