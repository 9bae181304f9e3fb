#include "core/decision.h"

#include "base/json.h"

#include <stddef.h>

const char *decision_reason(const struct decision *d)
{
	return d->notable ? d->why : "";
}

struct json *decision_json(const struct decision *d)
{
	struct json *o = json_new_object();

	json_set_str(o, "mode", d->mode);
	json_set_str(o, "tier", d->tier[0] ? d->tier : NULL);
	json_set_str(o, "scope", d->scope[0] ? d->scope : NULL);
	json_set_str(o, "why", d->why);
	return o;
}
