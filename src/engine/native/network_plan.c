#include "engine/native/network_plan.h"

int network_plan_check(const struct plan *p, struct cay_error *err)
{
	if (p->network == NETWORK_NONE)
		return 0;
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "the native engine has no network mode %s yet",
		       network_mode_name((enum network_mode)p->network));
	return cay_hint(err, "run without a network");
}
