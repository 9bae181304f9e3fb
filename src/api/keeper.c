#include "api/keeper.h"

#include "api/api.h"
#include "api/workspaces.h"
#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "session/quota.h"
#include "store/keys.h"
#include "store/runs.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PRUNE_EVERY_MS (10 * 60 * 1000)
#define PRUNE_AGAIN_MS 250 /* there was more than one step forgets */
#define DAY_MS         (24ll * 3600 * 1000)

/* However few days that takes. */
#define RUNS_MAX  1000000
#define AUDIT_MAX 1000000

struct keeper {
	struct api *api;
	struct loop_timer flush, prune;
};

static void complain(const struct cay_error *err)
{
	log_error(err->text, "hint", err->hint[0] ? err->hint : NULL);
}

static void on_flush(struct loop_timer *t)
{
	struct keeper *k = t->ctx;
	struct cay_error err;

	if (store_flush(k->api->store, &err) < 0)
		complain(&err);
}

void keeper_wrote(struct api *api)
{
	struct loop_timer *t = &api->keeper->flush;

	/* A timer that is set stays where it is: a steady stream must not put it off. */
	if (t->place == 0 && store_is_dirty(api->store))
		(void)loop_after(api->loop, t, KEEPER_FLUSH_MS);
}

/* True: there is more. */
static bool trim(struct keeper *k)
{
	uint64_t max = k->api->settings.serve_history_size;
	bool more = false;
	struct cay_error err;

	if (max > 0 && store_results_trim(k->api->store, (int64_t)max, &more, &err) < 0)
		complain(&err);
	return more;
}

/* Not left to the next time something is forgotten: in minutes, runs can fill a disk. */
void keeper_trim(struct api *api)
{
	(void)trim(api->keeper);
	keeper_wrote(api);
}

static void on_prune(struct loop_timer *t)
{
	struct keeper *k = t->ctx;
	const struct settings *s = &k->api->settings;
	const struct retention keep = {
		.runs_age_ms = (int64_t)s->serve_history_days * DAY_MS,
		.runs_max = RUNS_MAX,
		.audit_age_ms = (int64_t)s->serve_audit_days * DAY_MS,
		.audit_max = AUDIT_MAX,
		.gone_age_ms = (int64_t)s->serve_history_days * DAY_MS,
	};
	bool more = false;
	struct cay_error err;

	if (store_prune(k->api->store, &keep, clock_wall_ms(), &more, &err) < 0)
		complain(&err);
	more |= trim(k);
	workspaces_expire(k->api);
	(void)quota_tidy(k->api->quota, clock_now_ms());
	keeper_wrote(k->api);
	(void)loop_after(k->api->loop, t, more ? PRUNE_AGAIN_MS : PRUNE_EVERY_MS);
}

/* The day's CPU time goes on where it was: ending the daemon is no way to more. */
static void restore_cpu(void *ctx, const struct key_record *key)
{
	struct api *api = ctx;
	struct owner o = {.kind = OWNER_KEY};
	struct cay_error err;
	double cpu_ms = 0;

	if (key->quotas.cpu_seconds_per_day == 0)
		return;
	(void)snprintf(o.key, sizeof(o.key), "%s", key->id);
	if (store_runs_cpu_ms(api->store, &o, clock_wall_ms() - DAY_MS, &cpu_ms, &err) < 0 ||
	    quota_add_cpu(api->quota, &o, cpu_ms, clock_now_ms(), &err) < 0)
		complain(&err);
}

static int restore_quotas(struct api *api, struct cay_error *err)
{
	struct page page = {.limit = PAGE_LIMIT_MAX};
	int r;

	do
		r = store_keys_list(api->store, false, &page, restore_cpu, api, err);
	while (r == 0 && page.cursor[0]);
	return r;
}

static void report(const struct store_recovered *found)
{
	char runs[24], stopped[24], lost[24];

	if (found->runs == 0 && found->stopped == 0 && found->lost == 0)
		return;
	(void)snprintf(runs, sizeof(runs), "%" PRId64, found->runs);
	(void)snprintf(stopped, sizeof(stopped), "%" PRId64, found->stopped);
	(void)snprintf(lost, sizeof(lost), "%" PRId64, found->lost);
	log_warning("the daemon had not ended in order", "interrupted_runs", runs,
		    "stopped_sandboxes", stopped, "lost_sandboxes", lost);
}

int keeper_start(struct api *api, struct cay_error *err)
{
	const struct key_quotas total = {
		.parallel_runs = (int64_t)api->settings.serve_max_runs,
		.live_sandboxes = (int64_t)api->settings.serve_max_sandboxes,
	};
	struct store_recovered found;
	struct keeper *k = api->keeper = calloc(1, sizeof(*k));

	api->quota = quota_new(&total);
	if (!k || !api->quota)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start");
	*k = (struct keeper){.api = api,
			     .flush = {.fire = on_flush, .ctx = k},
			     .prune = {.fire = on_prune, .ctx = k}};
	if (store_open(".", &api->store, err) < 0 ||
	    store_recover(api->store, clock_wall_ms(), &found, err) < 0)
		return -1;
	report(&found);
	(void)loop_after(api->loop, &k->prune, PRUNE_AGAIN_MS);
	return restore_quotas(api, err);
}

void keeper_stop(struct api *api)
{
	if (api->keeper) {
		loop_cancel(api->loop, &api->keeper->flush);
		loop_cancel(api->loop, &api->keeper->prune);
	}
	free(api->keeper);
	store_close(api->store);
	quota_free(api->quota);
}
