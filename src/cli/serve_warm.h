/*
 * serve_warm.h: the interpreters that the daemon's launcher may start ahead of time
 * (engine/native/zygote.h).
 */
#pragma once

#include "core/error.h"
#include "engine/native/zygote.h"
#include "settings/settings.h"

struct serve_warm {
	struct zygote_kind *kinds; /* their programs and plans are memory of the process's */
	size_t len;
	int module, taker; /* what Python's load, and what others get their order by; or -1 */
};

/*
 * Every set of modules, for every interpreter there is, and for those of images that settings name,
 * in this store. None is no failure, nor is a program that
 * comes with no module to serve by.
 */
int serve_warm_find(const struct settings *s, const char *store, struct serve_warm *ret,
		    struct cay_error *err);
