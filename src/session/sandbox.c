#include "session/sandbox_impl.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"
#include "core/limit.h"
#include "image/images.h"
#include "image/runtime.h"
#include "policy/network.h"
#include "policy/tier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAPER_MS      1000
#define TOUCH_EVERY_MS 60000
#define LOOK_EVERY     10 /* rounds of the reaper, at what each used */

/* Once for all: a sandbox can't get a directory later. */
static int find_roots(struct sandboxes *all, struct cay_error *err)
{
	for (size_t n = 0; n < n_languages; n++) {
		struct runtimes found = {0};
		int r = runtimes_find(all->config.settings, &languages[n], NULL, &found, err);

		for (size_t k = 0; r == 0 && k < found.len; k++) {
			const char *root = found.items[k].root;

			if (root[0] && !strv_has(&all->roots, root) &&
			    strv_add(&all->roots, root) < 0)
				r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "look for runtimes");
		}
		runtimes_done(&found);
		if (r < 0)
			return -1;
	}
	return 0;
}

static void answer_first(struct sandbox *s, struct sandbox_wait **list, const struct cay_error *err)
{
	struct sandbox_wait *w = *list;

	if (!w)
		return;
	*list = w->next;
	if (w->fn)
		w->fn(w->ctx, s, err);
	free(w);
}

static void answer(struct sandbox *s, const struct cay_error *err)
{
	answer_first(s, &s->waits, err);
}

void sandbox_waits_free(struct sandbox_wait *list)
{
	while (list) {
		struct sandbox_wait *w = list;

		list = w->next;
		free(w);
	}
}

void sandbox_answer_list(struct sandbox *s, struct sandbox_wait **list, const struct cay_error *err)
{
	s->busy++; /* what is told of it may end it */
	while (*list)
		answer_first(s, list, err);
	s->busy--;
}

static void answer_all(struct sandbox *s, const struct cay_error *err)
{
	sandbox_answer_list(s, &s->waits, err);
}

/*
 * It has no island any more, and can be started again. Who only wanted to look at it
 * sees that.
 */
static void note_stopped(struct sandbox *s, const char *reason)
{
	struct store *store = s->all->config.store;
	struct cay_error err;

	s->state = SANDBOX_STOPPED;
	s->stopping = NULL;
	s->stands = false;
	contexts_lost(&s->contexts, reason);
	outlet_done(&s->ref.outlet);
	s->memory_bytes = s->processes = 0;
	if (store)
		(void)store_sandbox_set_state(store, s->id, SANDBOX_STOPPED, reason,
					      clock_wall_ms(), &err);
	(void)cay_fail(&err, CAY_E_CONFLICT, 0, "the sandbox %s was stopped: %s", s->id, reason);
	s->busy++;
	while (s->waits)
		answer(s, s->waits->kind == SERVICE_USAGE ? NULL : &err);
	s->busy--;
}

static void idle_out(struct sandbox *s)
{
	if (!s->body->persistent) {
		sandbox_end(s, "idle");
		return;
	}
	islands_forget(&s->ref);
	note_stopped(s, "idle");
}

static void on_reaper(struct loop_timer *t)
{
	struct sandboxes *all = t->ctx;
	int64_t now = clock_wall_ms();
	struct cay_error unused;

	all->rounds++;
	for (struct sandbox *s = all->list, *next; s; s = next) {
		next = s->next;
		if (!sandbox_is_alive(s->state))
			continue;
		if (all->rounds % LOOK_EVERY == 0 && s->stands)
			(void)sandbox_ask(s, SERVICE_USAGE, NULL, NULL, &unused);
		if (s->expires_ms && now >= s->expires_ms)
			sandbox_end(s, "expired");
		else if (s->busy == 0 && s->state != SANDBOX_STOPPED &&
			 now - s->last_used_ms >= (int64_t)s->idle_timeout_ms)
			idle_out(s);
	}
	(void)loop_after(all->config.place.loop, t, REAPER_MS);
}

struct sandboxes *sandboxes_new(const struct sandboxes_config *c, struct cay_error *err)
{
	struct sandboxes *all = calloc(1, sizeof(*all));

	if (!all) {
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start");
		return NULL;
	}
	all->config = *c;
	all->reaper = (struct loop_timer){.fire = on_reaper, .ctx = all};
	if (find_roots(all, err) < 0 || loop_after(c->place.loop, &all->reaper, REAPER_MS) < 0 ||
	    (c->store && sandboxes_restore(all, err) < 0)) {
		sandboxes_free(all);
		return NULL;
	}
	return all;
}

static void sandbox_free(struct sandbox *s)
{
	struct sandbox **at = &s->all->list;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
	sandbox_rules_free(s);
	contexts_done(&s->contexts);
	islands_forget(&s->ref);
	logs_done(&s->logs);
	sandbox_waits_free(s->waits);
	sandbox_put_free(s);
	request_body_free(s->body);
	image_free(s->image);
	free(s->plan);
	free(s->unable);
	free(s->name);
	free(s);
}

/* The daemon ends. */
static void retire(struct sandbox *s)
{
	struct cay_error unused;

	if (s->state == SANDBOX_STOPPED || !sandbox_is_alive(s->state))
		return;
	if (s->body->persistent)
		note_stopped(s, "the daemon ended");
	else if (s->all->config.store)
		(void)store_sandbox_set_state(s->all->config.store, s->id, SANDBOX_GONE,
					      "the daemon ended", clock_wall_ms(), &unused);
}

void sandboxes_free(struct sandboxes *all)
{
	if (!all)
		return;
	loop_cancel(all->config.place.loop, &all->reaper);
	while (all->list) {
		retire(all->list);
		sandbox_free(all->list);
	}
	strv_done(&all->roots);
	free(all);
}

void sandbox_look_for_end(struct sandbox *s)
{
	if (!sandbox_is_alive(s->state) && !s->ref.number && s->busy == 0)
		sandbox_free(s);
}

/* All of its end but that it is freed. */
static void note_end(struct sandbox *s, const char *reason)
{
	struct sandboxes *all = s->all;
	struct cay_error unused;

	if (!sandbox_is_alive(s->state))
		return;
	s->state = SANDBOX_GONE;
	if (all->config.store)
		(void)store_sandbox_set_state(all->config.store, s->id, SANDBOX_GONE, reason,
					      clock_wall_ms(), &unused);
	if (all->config.ended)
		all->config.ended(all->config.ctx, s, reason);
	logs_done(&s->logs);
	if (s->ref.number)
		islands_kill(&s->ref, 0, CAUSE_CANCELLED);
	/* Its island still has it open; what nobody has open is gone then. */
	if (s->body->spec.kept && !s->body->workspace)
		(void)islands_discard(s->ref.islands, (const char(*)[ID_SIZE])s->id, 1, &unused);
}

void sandbox_end(struct sandbox *s, const char *reason)
{
	note_end(s, reason);
	sandbox_look_for_end(s);
}

void sandbox_retire(struct sandbox *s, const char *reason)
{
	if (!s->body->persistent) {
		sandbox_end(s, reason);
	} else if (s->ref.number) {
		s->stopping = reason;
		/* What runs there is told by its end. */
		islands_kill(&s->ref, 0, CAUSE_CANCELLED);
	}
}

static void on_ready(struct sandbox *s, const struct service_report *r)
{
	struct cay_error err;

	s->stands = true;
	s->isolation = r->isolation;
	s->warm = r->warm;
	s->last_used_ms = clock_wall_ms();
	sandbox_touch_workspace(s);
	/* What is not remembered would be removed by the next start. */
	if (sandbox_keep(s, &err) < 0 && s->body->persistent) {
		answer_all(s, &err);
		sandbox_end(s, "it could not be remembered");
		return;
	}
	/* One that is started again has them. */
	if (s->body->n_files > 0 && !s->woken) {
		sandbox_put_files(s);
		return;
	}
	while (s->waits && s->waits->kind == SERVICE_MAKE)
		answer(s, NULL);
}

static void note_usage(struct sandbox *s, const struct usage *u)
{
	const struct sandboxes_config *c = &s->all->config;
	double more = u->cpu_ms - s->usage.cpu_ms;

	s->usage = *u;
	if (more > 0 && c->used)
		c->used(c->ctx, s, more);
}

static void on_usage(struct sandbox *s, const struct service_report *r)
{
	struct sandbox_wait *w = s->waits;
	bool was_paused = s->state == SANDBOX_PAUSED;

	note_usage(s, &r->usage);
	s->memory_bytes = r->memory_bytes;
	s->processes = r->processes;
	if (w && w->kind == SERVICE_FREEZE)
		s->state = SANDBOX_PAUSED;
	if (w && w->kind == SERVICE_THAW)
		s->state = SANDBOX_LIVE;
	contexts_freeze(&s->contexts, s->state == SANDBOX_PAUSED);
	if (was_paused != (s->state == SANDBOX_PAUSED))
		sandbox_remember(s);
	answer(s, NULL);
}

/* Its island ended: because we wanted it, or by itself, which nothing of it survives. */
static void on_gone(struct sandbox *s, const struct service_report *r)
{
	const char *why = s->stopping                ? s->stopping
			  : r->cause == CAUSE_MEMORY ? "out of memory"
						     : "its first process ended";
	struct cay_error err;

	s->stands = false;
	note_usage(s, &r->usage);
	s->busy++; /* what is told of it may free what it held */
	sandbox_tell_gone(s, r);
	contexts_lost(&s->contexts, why);
	if (s->body->persistent && sandbox_is_alive(s->state))
		note_stopped(s, why);
	(void)cay_fail(&err, CAY_E_EXPIRED, 0, "the sandbox %s has ended", s->id);
	answer_all(s, &err);
	sandbox_touch_workspace(s);
	if (s->state != SANDBOX_STOPPED)
		note_end(s, why);
	s->busy--;
	sandbox_look_for_end(s);
}

static void on_failed(struct sandbox *s, const struct service_report *r)
{
	if (s->stands) {
		answer(s, &r->error);
		return;
	}
	s->busy++;
	sandbox_tell_gone(s, r);
	contexts_lost(&s->contexts, r->error.text);
	answer_all(s, &r->error);
	/* One that never stood: the answer is the error, and there is no sandbox. */
	if (s->woken && sandbox_is_alive(s->state))
		note_stopped(s, "it could not be started");
	else
		note_end(s, "it could not be made");
	s->busy--;
	sandbox_look_for_end(s);
}

static void on_report(struct island_ref *ref, const struct service_report *r)
{
	struct sandbox *s = ref->ctx;

	if (r->command && r->kind != REPORT_GONE) {
		sandbox_command_report(s, r);
		return;
	}
	switch ((enum service_report_kind)r->kind) {
	case REPORT_READY:
		on_ready(s, r);
		break;
	case REPORT_FAILED:
		on_failed(s, r);
		break;
	case REPORT_USAGE:
		on_usage(s, r);
		break;
	case REPORT_GONE:
		on_gone(s, r);
		break;
	case REPORT_EXITED:
	case REPORT_NETWORK:
	case REPORT_STOCK:
		break;
	}
}

static int wait_for(struct sandbox *s, enum service_request_kind kind, sandbox_answer_fn *fn,
		    void *ctx, struct cay_error *err)
{
	struct sandbox_wait *w = calloc(1, sizeof(*w)), **at = &s->waits;

	if (!w)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "ask the launcher");
	*w = (struct sandbox_wait){.kind = kind, .fn = fn, .ctx = ctx};
	while (*at)
		at = &(*at)->next;
	*at = w;
	return 0;
}

static void drop_last_wait(struct sandbox *s)
{
	struct sandbox_wait **at = &s->waits;

	while ((*at)->next)
		at = &(*at)->next;
	free(*at);
	*at = NULL;
}

void sandbox_forget(struct sandbox *s, const void *ctx)
{
	for (struct sandbox_wait *w = s->waits; w; w = w->next)
		if (w->ctx == ctx)
			w->fn = NULL;
}

/* The island is made for a program that does nothing: its name says which interpreter it has. */
static int make_plan(struct sandboxes *all, const char *id, const struct settings *settings,
		     struct request_body *body, const struct image *image, struct plan **ret,
		     struct cay_error *err)
{
	static const struct strv no_roots = {0};
	struct spec *spec = &body->spec;
	bool container = spec_engine_is_container(spec->engine);
	struct network_spec network;
	const struct runtime *live = NULL;
	struct runtime room;
	int r;

	spec->kind = SPEC_ARGV;
	spec->container_image = container ? spec->image : NULL;
	spec->live_roots = image || container ? &no_roots : &all->roots; /* they are the host's */
	sandbox_name_kept(body, id);
	if (!spec->limits.timeout_ms) /* a command's */
		spec->limits.timeout_ms =
			tier_timeout_ms(spec, settings, SANDBOX_COMMAND_DEFAULT_MS);
	if (network_decide(spec, settings, &network, err) < 0)
		return -1;
	network_spec_done(&spec->network);
	spec->network = network;
	if (!container && sandbox_choose_live(settings, body, image, &room, &live, err) < 0)
		return -1;
	spec->live_runtime = live;
	strv_done(&spec->args);
	if (strv_add(&spec->args, spec->live_runtime ? room.program : "/bin/true") < 0)
		r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make the sandbox");
	else
		r = plan_make(spec, settings, NULL, image, NULL, ret, err);
	spec->live_runtime = NULL; /* it ends here */
	if (r < 0)
		return -1;
	spec->limits = (*ret)->limits; /* commands get what was decided, not what was asked */
	return 0;
}

/* Rules that were changed since are not in it. */
static int renew_plan(struct sandbox *s, struct cay_error *err)
{
	struct plan *plan;

	if (make_plan(s->all, s->id, s->all->config.settings, s->body, s->image, &plan, err) < 0)
		return -1;
	free(s->plan);
	s->plan = plan;
	s->rules_changed = false;
	return 0;
}

/* Once more: an image may be there by now. */
int sandbox_enable(struct sandbox *s, struct cay_error *err)
{
	if (!s->unable)
		return 0;
	if (sandbox_choose_image(s->all->config.settings, &s->body->spec, &s->image, err) < 0 ||
	    renew_plan(s, err) < 0) {
		*s->unable = *err;
		return cay_wrap(err, "the sandbox %s can't be started any more", s->id);
	}
	free(s->unable);
	s->unable = NULL;
	return 0;
}

int sandbox_wake(struct sandbox *s, struct cay_error *err)
{
	if (sandbox_enable(s, err) < 0 || (s->rules_changed && renew_plan(s, err) < 0))
		return -1;
	if (islands_make(&s->ref, s->plan, 0, NULL, err) < 0)
		return -1;
	s->state = SANDBOX_LIVE;
	s->woken = true;
	s->usage = (struct usage){0};
	sandbox_touch(s);
	return 0;
}

int sandbox_ask(struct sandbox *s, enum service_request_kind kind, sandbox_answer_fn *fn, void *ctx,
		struct cay_error *err)
{
	bool starts = s->state == SANDBOX_STOPPED || (s->state == SANDBOX_LIVE && !s->stands);

	if (kind == SERVICE_THAW && starts) {
		if (s->state == SANDBOX_STOPPED && sandbox_wake(s, err) < 0)
			return -1;
		return wait_for(s, SERVICE_MAKE, fn, ctx, err);
	}
	if (!s->stands || !sandbox_is_alive(s->state))
		return cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s is not running", s->id);
	if (kind == SERVICE_FREEZE && s->state == SANDBOX_PAUSED)
		return cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s is paused already", s->id);
	if (kind == SERVICE_THAW && s->state != SANDBOX_PAUSED)
		return cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s is not paused", s->id);
	if (wait_for(s, kind, fn, ctx, err) < 0)
		return -1;
	if (islands_ask(&s->ref, kind, err) == 0)
		return 0;
	drop_last_wait(s);
	return -1;
}

static void set_times(struct sandbox *s)
{
	const struct request_body *b = s->body;

	s->created_ms = s->last_used_ms = clock_wall_ms();
	s->idle_timeout_ms = b->idle_timeout_ms ? b->idle_timeout_ms : SANDBOX_IDLE_DEFAULT_MS;
	s->expires_ms = b->ttl_ms ? s->created_ms + (int64_t)b->ttl_ms : 0;
}

static bool name_taken(const struct sandboxes *all, const struct owner *owner, const char *name)
{
	for (const struct sandbox *s = all->list; s; s = s->next)
		if (sandbox_is_alive(s->state) && s->name && owner_is(&s->owner, owner) &&
		    strcmp(s->name, name) == 0)
			return true;
	return false;
}

static int check_new(const struct sandboxes *all, const struct owner *owner, struct request_body *b,
		     struct cay_error *err)
{
	if (b->name && name_taken(all, owner, b->name))
		return cay_fail(err, CAY_E_CONFLICT, 0, "a sandbox named %s is live already",
				b->name);
	if (b->persistent && !all->config.store)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "nothing is remembered here");
	return sandbox_check_workspace(all, owner, b, err);
}

int sandbox_plan(struct sandboxes *all, const struct owner *owner, const struct settings *settings,
		 struct request_body *body, struct plan **ret, struct cay_error *err)
{
	_cleanup_(image_freep) struct image *image = NULL;
	char id[ID_SIZE];
	int r;

	if (check_new(all, owner, body, err) < 0 ||
	    sandbox_choose_image(settings, &body->spec, &image, err) < 0)
		return -1;
	if (id_make("sbx", id) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "name the sandbox");
	r = make_plan(all, id, settings, body, image, ret, err);
	body->spec.kept = NULL; /* the name ends here */
	return r;
}

/* Who makes its island is its engine's to say. */
static void init_places(struct sandbox *s)
{
	const struct job_place *place = &s->all->config.place;

	s->ref = (struct island_ref){
		.islands = job_islands(place, s->body->spec.engine), .ctx = s, .report = on_report};
	s->contexts = (struct contexts){.place = place, .ref = &s->ref, .logs = &s->logs};
}

int sandbox_create(struct sandboxes *all, const struct owner *owner,
		   const struct settings *settings, struct request_body *body,
		   sandbox_answer_fn *fn, void *ctx, struct cay_error *err)
{
	struct sandbox *s = calloc(1, sizeof(*s));
	int r = s ? check_new(all, owner, body, err)
		  : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make the sandbox");

	if (r < 0 || id_make("sbx", s->id) < 0) {
		if (r == 0)
			r = cay_fail(err, CAY_E_INTERNAL, errno, "name the sandbox");
		request_body_free(body);
		free(s);
		return -1;
	}
	s->all = all;
	s->body = body;
	s->owner = *owner;
	s->name = body->name ? strdup(body->name) : NULL;
	init_places(s);
	set_times(s);
	s->next = all->list;
	all->list = s;
	if (sandbox_choose_image(settings, &body->spec, &s->image, err) < 0 ||
	    make_plan(all, s->id, settings, body, s->image, &s->plan, err) < 0 ||
	    wait_for(s, SERVICE_MAKE, fn, ctx, err) < 0 ||
	    islands_make(&s->ref, s->plan, 0, NULL, err) < 0) {
		sandbox_free(s);
		return -1;
	}
	return 0;
}

int sandbox_enter_stopped(struct sandboxes *all, struct sandbox *s, struct cay_error *err)
{
	struct cay_error *why = malloc(sizeof(*why));
	int r;

	if (!why)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "restore the sandbox");
	(void)cay_fail(why, CAY_E_INTERNAL, 0, "not tried yet");
	s->all = all;
	init_places(s);
	s->state = SANDBOX_STOPPED;
	s->unable = why;
	sandbox_name_kept(s->body, s->id);
	s->next = all->list;
	all->list = s;
	r = sandbox_enable(s, err);
	if (r < 0)
		all->config.unable(all->config.ctx, s->id, err);
	return 0;
}

static void find_reason(void *ctx, const struct sandbox_record *r)
{
	struct cay_error *err = ctx;

	(void)cay_fail(err, CAY_E_EXPIRED, 0, "the sandbox %.24s is gone: %.64s", r->id,
		       r->reason ? r->reason : sandbox_state_name(r->state));
}

static bool fits(const struct sandbox *s, const struct viewer *v, const char *word)
{
	bool own = owner_is(&s->owner, &v->owner);

	if (!sandbox_is_alive(s->state) || (!own && !v->all))
		return false;
	if (own && s->body->scope && strcmp(s->body->scope, word) == 0)
		return true;
	return strcmp(s->id, word) == 0 || (own && s->name && strcmp(s->name, word) == 0);
}

static struct sandbox *find_fitting(struct sandboxes *all, const struct viewer *v, const char *word)
{
	struct sandbox *s = all->list;

	while (s && !fits(s, v, word))
		s = s->next;
	return s;
}

struct sandbox *sandbox_find(struct sandboxes *all, const struct viewer *v, const char *id_or_name,
			     struct cay_error *err)
{
	const struct viewer everybody = {.owner = OWNER_EVERYBODY};
	struct sandbox *s = find_fitting(all, v, id_or_name);
	struct cay_error unused;

	/* What is everybody's is an operator's to look into, by its scope too. */
	if (!s && v->all)
		s = find_fitting(all, &everybody, id_or_name);
	if (s)
		return s;
	(void)cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no sandbox %.64s", id_or_name);
	if (all->config.store)
		(void)store_sandbox_get(all->config.store, v, id_or_name, find_reason, err,
					&unused);
	return NULL;
}

void sandboxes_each(struct sandboxes *all, const struct viewer *v, sandbox_each_fn *fn, void *ctx)
{
	for (struct sandbox *s = all->list, *next; s; s = next) {
		next = s->next;
		if (sandbox_is_alive(s->state) && (v->all || owner_is(&s->owner, &v->owner)))
			fn(ctx, s);
	}
}

void sandbox_touch(struct sandbox *s)
{
	struct store *store = s->all->config.store;
	struct cay_error unused;

	s->last_used_ms = clock_wall_ms();
	if (store && s->last_used_ms - s->touched_ms >= TOUCH_EVERY_MS) {
		s->touched_ms = s->last_used_ms;
		(void)store_sandbox_touch(store, s->id, s->touched_ms, &unused);
	}
}
