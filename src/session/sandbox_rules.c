#include "session/sandbox_impl.h"

#include "policy/network.h"

static int set_rules(struct sandbox *s, struct network_spec *network, struct cay_error *err)
{
	if (s->ref.outlet.all && outlet_set_rules(&s->ref.outlet, network, err) < 0)
		return -1;
	network_spec_done(&s->body->spec.network);
	s->body->spec.network = *network;
	s->rules_changed = true;
	return 0;
}

int sandbox_change_rules(struct sandbox *s, const struct settings *settings,
			 const struct rules_asked *asked, struct cay_error *err)
{
	const struct spec *is = &s->body->spec;
	struct network_spec network = is->network;
	struct spec spec = {.has_tier = is->has_tier, .tier = is->tier};

	if (network.mode == NETWORK_NONE) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "the sandbox %s has no network", s->id);
		return cay_hint(err, "whether there is one is said when it is created");
	}
	/* Borrowed: nothing of it is kept. */
	spec.network = network;
	if (asked->allow)
		spec.network.allow = *asked->allow;
	if (asked->block)
		spec.network.block = *asked->block;
	if (network_decide(&spec, settings, &network, err) < 0)
		return -1;
	if (set_rules(s, &network, err) == 0)
		return 0;
	network_spec_done(&network);
	return -1;
}
