#include "api/run_direct.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/request.h"
#include "api/runs.h"
#include "base/log.h"
#include "policy/mode.h"
#include "session/job.h"
#include "session/sandbox.h"

#include <stdio.h>

int run_decide(const struct api *api, const struct run_ask *ask, struct decision *ret,
	       struct cay_error *err)
{
	const struct caller *c = ask->caller;
	struct spec *spec = &ask->body->spec;
	struct settings s = caller_settings(c, &api->settings);
	struct mode_caller who = {.key = c->name,
				  .key_id = c->viewer.owner.kind == OWNER_KEY ? c->viewer.owner.key
									      : NULL};
	struct mode_question q = mode_question(&s, &who, spec, &ask->body->labels);
	struct mode_answer a;

	if (ask->on) { /* a live sandbox is one, whatever the mode */
		*ret = mode_decision_live(&s, &ask->on->body->spec, ask->on->body->scope);
		return 0;
	}
	q.scope = ask->body->scope;
	if (mode_decide(&q, &a, err) < 0)
		return -1;
	if (q.scope) {
		*ret = mode_decision(&a, &s, spec, ask->body->scope);
		return 0;
	}
	spec->engine = a.engine;
	*ret = mode_decision(&a, &s, spec, NULL);
	return a.engine == ENGINE_DIRECT ? mode_check_direct(ask->body, err) : 0;
}

void run_direct_order(const struct decision *d, const struct peer *peer, struct job_order *o)
{
	o->decision = *d;
	o->peer = peer->local ? peer->fd : -1;
}

void run_direct_log(const struct job_order *o, const struct peer *peer, const char *id)
{
	char who[16];

	if (o->engine->sandboxed)
		return;
	(void)snprintf(who, sizeof(who), "%u", peer->uid);
	log_warning("asked for a run without a sandbox", "run", id, "reason", o->decision.why,
		    "peer", peer->address, "uid", peer->local ? who : NULL);
}

int run_direct_user(const struct api *api, const struct peer *peer, char *ret, size_t size,
		    struct cay_error *err)
{
	const struct settings *s = &api->settings;

	if (!peer->local && !s->serve_direct_over_tcp) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "without a sandbox: not for callers by TCP");
		return cay_hint(err, "[serve] direct_over_tcp in the settings allows it");
	}
	if (api->owner != 0 && peer->local && peer->uid != api->owner)
		return cay_fail(err, CAY_E_POLICY, 0,
				"without a sandbox: the daemon is another user's");
	if (api->owner != 0 || (peer->local && peer->uid != 0)) {
		(void)snprintf(ret, size, "%u", api->owner ? api->owner : peer->uid);
		return 0;
	}
	if (!s->serve_direct_user) {
		(void)cay_fail(err, CAY_E_POLICY, 0,
			       "without a sandbox: there is no user to run it as");
		return cay_hint(err, "[serve] direct_user in the settings names one; or ask for "
				     "mode all");
	}
	(void)snprintf(ret, size, "%s", s->serve_direct_user);
	return 0;
}
