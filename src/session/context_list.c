#include "session/context_impl.h"

#include "base/clock.h"
#include "base/json.h"
#include "policy/plan.h"
#include "spec/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void context_free(struct context *c)
{
	struct context **at = &c->all->list;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->all->n--;
	for (int n = 0; n < STREAMS; n++)
		capture_done(&c->streams[n].held);
	strv_done(&c->env);
	free(c->version);
	free(c->workdir);
	free(c->name);
	free(c->plan);
	free(c);
}

void context_remove(struct context *c)
{
	context_abandon(c);
	context_free(c);
}

void contexts_done(struct contexts *all)
{
	while (all->list)
		context_remove(all->list);
}

static struct context *find(const struct contexts *all, const char *name)
{
	struct context *c = all->list;

	while (c && strcmp(c->name, name) != 0)
		c = c->next;
	return c;
}

struct context *context_find(const struct contexts *all, const char *name, struct cay_error *err)
{
	struct context *c = find(all, name);

	if (!c)
		(void)cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no context %.64s", name);
	return c;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_list(const struct strv *a, const struct strv *b)
{
	bool same = a->len == b->len;

	for (size_t n = 0; n < a->len && same; n++)
		same = strcmp(a->items[n], b->items[n]) == 0;
	return same;
}

/* What of its start a cell asks for otherwise than it was; NULL: nothing. */
static const char *differs(const struct context *c, const struct context_start *s)
{
	if (c->language != s->runtime->language)
		return "language";
	if (s->version && strcmp(c->language_version, s->runtime->version) != 0)
		return "version";
	if (s->workdir && !same_text(c->workdir, s->workdir))
		return "workdir";
	return same_list(&c->env, s->env) ? NULL : "env";
}

/* As the next start shall have it. */
static int prepare(struct context *c, const struct context_start *s)
{
	struct strv env = {0};
	int r = 0;

	free(c->plan);
	c->plan = malloc(s->plan->size);
	free(c->version);
	c->version = s->version ? strdup(s->version) : NULL;
	free(c->workdir);
	c->workdir = s->workdir ? strdup(s->workdir) : NULL;
	for (size_t n = 0; n < s->env->len && r == 0; n++)
		r = strv_add(&env, s->env->items[n]);
	strv_done(&c->env);
	c->env = env;
	if (!c->plan || r < 0 || (s->version && !c->version) || (s->workdir && !c->workdir))
		return -ENOMEM;
	memcpy(c->plan, s->plan, s->plan->size);
	c->language = s->runtime->language;
	memcpy(c->language_version, s->runtime->version, sizeof(c->language_version));
	c->channel.plain = driver_is_plain(c->language);
	return 0;
}

/* Nothing runs there, and nothing is about to: what it is may change. */
static bool is_unused(const struct context *c)
{
	return c->state == CONTEXT_ENDED && !c->cells;
}

/* One that has ended gives way. */
static void make_room(struct contexts *all)
{
	for (struct context *c = all->list; c && all->n >= CONTEXTS_MAX; c = c->next)
		if (is_unused(c)) {
			context_remove(c);
			return;
		}
}

static struct context *context_new(struct contexts *all, const char *name)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->all = all;
	c->name = strdup(name);
	context_init(c);
	c->created_ms = c->last_used_ms = clock_wall_ms();
	c->next = all->list;
	all->list = c;
	all->n++;
	return c;
}

static int check(const struct context *c, const struct context_start *s, struct cay_error *err)
{
	const char *other = is_unused(c) ? NULL : differs(c, s);
	size_t n = 0;

	if (other) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the context %s has another %s", c->name,
			       other);
		return cay_hint(err, "it is decided by the first code that runs there: "
				     "take another name, or delete the context");
	}
	for (const struct cell *cell = c->cells; cell; cell = cell->next)
		n++;
	if (n >= CONTEXT_CELLS)
		return cay_fail(err, CAY_E_RATE_LIMITED, 0, "%d wait in the context %s already",
				CONTEXT_CELLS, c->name);
	return 0;
}

struct context *context_get(struct contexts *all, const struct context_start *s,
			    struct cay_error *err)
{
	struct context *c = find(all, s->name);

	if (!c)
		make_room(all);
	if (!c && all->n >= CONTEXTS_MAX) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox has %d contexts already",
			       CONTEXTS_MAX);
		(void)cay_hint(err, "delete one that is not needed any more");
		return NULL;
	}
	if (c && check(c, s, err) < 0)
		return NULL;
	if (!c)
		c = context_new(all, s->name);
	if (!c || !c->name || (is_unused(c) && prepare(c, s) < 0)) {
		if (c)
			context_remove(c);
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the interpreter");
		return NULL;
	}
	return c;
}

static const char *const state_names[] = {
	[CONTEXT_ENDED] = "ended",
	[CONTEXT_STARTING] = "starting",
	[CONTEXT_IDLE] = "idle",
	[CONTEXT_BUSY] = "busy",
};

struct json *context_json(const struct context *c)
{
	struct json *o = json_new_object(), *asked = c->asks ? json_new_object() : NULL;
	bool runs = c->cells && context_is_at_work(c);
	int64_t queued = 0;

	for (const struct cell *cell = c->cells; cell; cell = cell->next)
		queued++;
	json_set_str(o, "name", c->name);
	json_set_str(o, "language", c->language->name);
	json_set_str(o, "version", c->language_version[0] ? c->language_version : NULL);
	json_set_str(o, "state", state_names[c->state]);
	json_set_str(o, "start",
		     c->state == CONTEXT_ENDED ? NULL
		     : c->start[0]             ? c->start
					       : "cold");
	json_set_int(o, "created", c->created_ms);
	json_set_int(o, "last_used", c->last_used_ms);
	json_set_int(o, "cells", (int64_t)c->n_cells);
	json_set_int(o, "queued", queued - runs);
	json_set_str(o, "run", runs ? c->cells->run : NULL);
	if (asked) {
		json_set_str(asked, "prompt", c->prompt);
		json_set_bool(asked, "password", c->password);
		json_set(o, "waiting_for_input", asked);
	} else {
		json_set_null(o, "waiting_for_input");
	}
	return o;
}

struct json *contexts_json(const struct contexts *all)
{
	struct json *o = json_new_object(), *list = json_new_array();

	for (const struct context *c = all->list; c; c = c->next)
		json_add(list, context_json(c));
	json_set(o, "contexts", list);
	return o;
}
