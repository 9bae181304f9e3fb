/*
 * runtime_list.h: the runtimes there are, as JSON, for `cay runtimes --json` and the API.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"
#include "spec/language.h"

struct json;

/* {"runtimes":[…],"missing":[…]} of one language, or (NULL) of all; the caller frees it. */
int runtime_list_json(const struct settings *s, const struct language *only, struct json **ret,
		      struct cay_error *err);
