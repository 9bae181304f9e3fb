#include "api/run_direct.h"

#include "api/api.h"
#include "api/caller.h"
#include "api/request.h"
#include "api/runs.h"
#include "base/log.h"
#include "session/job.h"

#include <stdio.h>

int run_decide(const struct api *api, const struct run_ask *ask, struct mode_answer *ret,
	       struct cay_error *err)
{
	struct spec *spec = &ask->body->spec;
	struct settings s = caller_settings(ask->caller, &api->settings);
	struct mode_question q = mode_question(&s, &ask->caller->bounds, spec);

	*ret = (struct mode_answer){ENGINE_NATIVE, ""};
	if (ask->on) /* a live sandbox is one, whatever the mode */
		return 0;
	if (mode_decide(&q, ret, err) < 0)
		return -1;
	spec->engine = ret->engine;
	return ret->engine == ENGINE_DIRECT ? mode_check_direct(ask->body, err) : 0;
}

void run_direct_order(const struct mode_answer *a, const struct peer *peer, struct job_order *o)
{
	o->reason = a->reason;
	o->peer = peer->local ? peer->fd : -1;
}

void run_direct_log(const struct job_order *o, const struct peer *peer, const char *id)
{
	char who[16];

	if (o->engine->sandboxed)
		return;
	(void)snprintf(who, sizeof(who), "%u", peer->uid);
	log_warning("asked for a run without a sandbox", "run", id, "reason", o->reason, "peer",
		    peer->address, "uid", peer->local ? who : NULL);
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
