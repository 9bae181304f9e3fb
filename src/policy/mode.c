#include "policy/mode.h"

#include "policy/bounds.h"
#include "policy/network.h"
#include "policy/tier.h"
#include "spec/risk.h"

#include <stdio.h>
#include <string.h>

static int denied(struct cay_error *err, const char *what, enum mode allowed)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "%s: the operator's mode is %s", what,
		       mode_name(allowed));
	return cay_hint(err, "[serve] mode in the settings says what is sandboxed: a request can "
			     "ask for more of it, never for less");
}

/* MODE_SELECTIVE: whether it is sandboxed, and why. */
static bool is_risky(const struct mode_question *q, char why[MODE_REASON_SIZE])
{
	why[0] = '\0';
	if (q->shell && q->network)
		(void)snprintf(why, MODE_REASON_SIZE, "mode selective: a shell with a network");
	else if (!q->trusted)
		(void)snprintf(why, MODE_REASON_SIZE, "mode selective: not marked as trusted");
	else if (q->risk)
		(void)snprintf(why, MODE_REASON_SIZE, "mode selective: the operator's rule %s",
			       q->risk);
	return why[0];
}

static int without_tier(const struct mode_question *q, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "the engine direct: not in what the tier %s brings",
		       q->tier_without);
	return cay_hint(err, "[tier %s] engines in the settings says which it has",
			q->tier_without);
}

static int by_name(const struct mode_question *q, enum mode mode, struct mode_answer *ret,
		   struct cay_error *err)
{
	char why[MODE_REASON_SIZE];

	/* Who could as well run it without cay is only held to their own words. */
	if (q->own && q->asked == MODE_UNSAID)
		mode = MODE_OFF;
	if (mode == MODE_ALL && q->asked == MODE_ALL && (q->own || q->allowed != MODE_ALL)) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the engine direct is none of mode all");
		return cay_hint(err, "the request asks for both: leave mode or engine out");
	}
	if (mode == MODE_ALL)
		return denied(err, "the engine direct", q->allowed);
	if (mode == MODE_SELECTIVE && is_risky(q, why)) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the engine direct: %s", why);
		return cay_hint(err, "leave engine out, or mark the request as trusted if it is; "
				     "a shell with a network, and what the operator's rules name, "
				     "never is");
	}
	if (q->tier_without)
		return without_tier(q, err);
	if (!q->key_direct) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the engine direct: not for this key");
		return cay_hint(err, "the key's bound engines says what it may have");
	}
	ret->engine = ENGINE_DIRECT;
	ret->mode = mode;
	(void)snprintf(ret->reason, sizeof(ret->reason), "asked for by name: no sandbox");
	return 0;
}

static int in_scope(const struct mode_question *q, struct mode_answer *ret, struct cay_error *err)
{
	if (q->engine == ENGINE_DIRECT) {
		(void)cay_fail(err, CAY_E_POLICY, 0,
			       "the engine direct: a scope is a sandbox, whatever the mode");
		return cay_hint(err, "leave engine out, or scope");
	}
	if (ret->mode != MODE_ALL)
		(void)snprintf(ret->reason, sizeof(ret->reason), "a scope is a sandbox");
	return 0;
}

int mode_decide(const struct mode_question *q, struct mode_answer *ret, struct cay_error *err)
{
	enum mode mode = q->asked == MODE_UNSAID ? q->allowed : q->asked;
	bool named = q->engine != ENGINE_AUTO && q->engine != ENGINE_DIRECT;

	*ret = (struct mode_answer){.engine = named ? q->engine : ENGINE_NATIVE, .mode = mode};
	if (mode < q->allowed)
		return denied(err, mode == MODE_OFF ? "mode off" : "mode selective", q->allowed);
	if (q->scope)
		return in_scope(q, ret, err);
	if (q->engine == ENGINE_DIRECT)
		return by_name(q, mode, ret, err);
	if (named || mode == MODE_ALL || (mode == MODE_SELECTIVE && is_risky(q, ret->reason)))
		return 0;
	if (q->tier_without) {
		(void)snprintf(ret->reason, sizeof(ret->reason), "the tier %s has no engine direct",
			       q->tier_without);
	} else if (!q->key_direct) {
		(void)snprintf(ret->reason, sizeof(ret->reason), "the key may not have less");
	} else {
		ret->engine = ENGINE_DIRECT;
		(void)snprintf(ret->reason, sizeof(ret->reason), "%s",
			       mode == MODE_OFF ? "mode off: no sandbox"
						: "mode selective: marked as trusted");
	}
	return 0;
}

/* The first of the operator's rules that it falls under; or NULL. */
static const char *find_risk(const struct settings *s, const struct risk_facts *f)
{
	for (size_t i = 0; i < s->risks.len; i++)
		if (risk_matches(s->risks.items[i], f))
			return s->risks.items[i];
	return NULL;
}

struct mode_question mode_question(const struct settings *s, const struct mode_caller *caller,
				   const struct spec *spec, const struct strv *labels)
{
	const struct bounds *b = s->key;
	const struct risk_facts facts = {.spec = spec,
					 .network = network_in_sight(spec, s),
					 .tier = tier_in_force(spec, s),
					 .key = caller->key,
					 .key_id = caller->key_id,
					 .labels = labels};

	return (struct mode_question){
		.allowed = s->serve_mode,
		.asked = spec->mode,
		.engine = spec->engine,
		.trusted = spec->trusted,
		.shell = spec_is_shell(spec),
		.network = facts.network > NETWORK_NONE,
		.risk = find_risk(s, &facts),
		.key_direct = !b || !b->has_engines || b->engines & 1u << ENGINE_DIRECT,
		.tier_without = tier_without_direct(spec, s),
		.own = caller->own,
	};
}

static struct decision decision_of(enum mode mode, const struct settings *s,
				   const struct spec *spec, const char *scope)
{
	const char *tier = tier_in_force(spec, s);
	struct decision d = {.notable = false};

	(void)snprintf(d.mode, sizeof(d.mode), "%s", mode_name(mode));
	(void)snprintf(d.tier, sizeof(d.tier), "%s", tier ? tier : "");
	(void)snprintf(d.scope, sizeof(d.scope), "%s", scope ? scope : "");
	(void)snprintf(d.why, sizeof(d.why), "mode all: everything is sandboxed");
	return d;
}

struct decision mode_decision(const struct mode_answer *a, const struct settings *s,
			      const struct spec *spec, const char *scope)
{
	struct decision d = decision_of(a->mode, s, spec, scope);

	d.notable = a->reason[0];
	if (d.notable)
		(void)snprintf(d.why, sizeof(d.why), "%s", a->reason);
	else if (a->mode != MODE_ALL)
		(void)snprintf(d.why, sizeof(d.why), "the engine %s was asked for by name",
			       spec_engine_name(a->engine));
	return d;
}

struct decision mode_decision_live(const struct settings *s, const struct spec *sandbox,
				   const char *scope)
{
	struct decision d = decision_of(s->serve_mode, s, sandbox, scope);

	if (s->serve_mode != MODE_ALL)
		(void)snprintf(d.why, sizeof(d.why), "%s is a sandbox, whatever the mode",
			       scope ? "a scope" : "what lives on");
	return d;
}

static int not_outside(struct cay_error *err, const char *field)
{
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "%s: can't be had without a sandbox", field);
	return cay_hint(err, "leave it out, or ask for mode all");
}

int mode_check_direct(const struct request_body *q, struct cay_error *err)
{
	const struct spec *s = &q->spec;
	const size_t skip = strlen(ISLAND_WORKSPACE "/");

	if (s->needs_sandbox)
		return not_outside(err, s->needs_sandbox);
	if (s->n_mounts > 0)
		return not_outside(err, "mounts");
	if (s->workspace.source)
		return not_outside(err, "workspace");
	if (s->limits.disk_bytes)
		return not_outside(err, "limits.disk");
	/* Anywhere else it would be the host's own file. */
	for (size_t n = 0; n < q->n_files; n++)
		if (strncmp(q->files[n].path, ISLAND_WORKSPACE "/", skip) != 0) {
			(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
				       "files[%zu].path: without a sandbox files go to the "
				       "workspace alone",
				       n);
			return cay_hint(err, "a relative path is one in the workspace");
		}
	return 0;
}

int mode_check_settings(const struct settings *s, struct cay_error *err)
{
	if (s->allow_direct || s->serve_mode == MODE_ALL)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "[serve] mode = %s, but [engine] direct = no",
		       mode_name(s->serve_mode));
	return cay_hint(err, "what is not sandboxed is run by the engine direct: allow it, or "
			     "set mode = all");
}
