#include "session/sandbox_impl.h"

#include "policy/network.h"
#include "policy/scope.h"

#include <errno.h>
#include <stdlib.h>

/* Rules that cay-egress was told, and has not said yet that it has. */
struct sandbox_rules {
	struct sandbox *sandbox;
	struct network_spec network;
	sandbox_answer_fn *fn;
	void *ctx;
};

void sandbox_rules_free(struct sandbox *s)
{
	if (!s->rules)
		return;
	if (s->ref.outlet.all)
		outlets_forget(s->ref.outlet.all, s->rules);
	network_spec_done(&s->rules->network);
	free(s->rules);
	s->rules = NULL;
}

static void adopt(struct sandbox *s, const struct network_spec *network)
{
	network_spec_done(&s->body->spec.network);
	s->body->spec.network = *network;
	s->rules_changed = true;
}

static void on_ruled(void *ctx, const struct cay_error *err)
{
	struct sandbox_rules *r = ctx;
	struct sandbox *s = r->sandbox;

	s->rules = NULL;
	if (err)
		network_spec_done(&r->network);
	else
		adopt(s, &r->network);
	r->fn(r->ctx, s, err);
	free(r);
	s->busy--;
	sandbox_look_for_end(s);
}

/* Takes the network when it succeeds. */
static int tell(struct sandbox *s, const struct network_spec *network, sandbox_answer_fn *fn,
		void *ctx, struct cay_error *err)
{
	struct sandbox_rules *r = malloc(sizeof(*r));
	int told;

	if (!r)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "change the rules of a way out");
	*r = (struct sandbox_rules){s, *network, fn, ctx};
	told = outlet_set_rules(&s->ref.outlet, network, on_ruled, r, err);
	if (told != 0) {
		free(r);
		return told;
	}
	s->rules = r;
	s->busy++;
	return 0;
}

int sandbox_change_rules(struct sandbox *s, const struct settings *settings,
			 const struct rules_asked *asked, sandbox_answer_fn *fn, void *ctx,
			 struct cay_error *err)
{
	const struct spec *is = &s->body->spec;
	struct network_spec network = is->network;
	struct spec spec = {.has_tier = is->has_tier, .tier = is->tier};
	const struct strv *allow = asked->allow;
	int told = 1;

	if (network.mode == NETWORK_NONE) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s has no network", s->id);
		return cay_hint(err, "whether there is one is said when it is created");
	}
	if (allow && network.mode == NETWORK_ALLOWLIST && s->body->scope &&
	    scope_allow(settings, s->body->scope, allow, &allow, err) < 0)
		return -1;
	/* Borrowed: nothing of it is kept. */
	spec.network = network;
	if (allow)
		spec.network.allow = *allow;
	if (asked->block)
		spec.network.block = *asked->block;
	if (network_decide(&spec, settings, &network, err) < 0)
		return -1;
	if (s->ref.outlet.all)
		told = tell(s, &network, fn, ctx, err);
	if (told < 0)
		network_spec_done(&network);
	else if (told == 1)
		adopt(s, &network);
	return told;
}
