/*
 * live.h: settings that are laid over the files' while the daemon runs, as if they were one more
 * file. Of most keys they say what they like, of those that bound programs only less than the
 * files do, and of what a process has from its start nothing at all: see the table in live.c.
 *
 * Why less: whoever says it talks to the api, which has no rights. Launcher and cay-egress hold
 * to the files, so more would not be had anyhow; and what the files say bounds an api that was
 * taken over. Where the files say `[serve] settings = full`, the supervisor hands on what widens
 * (cli/serve_live.h), and such an api may have what an operator may.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "settings/settings.h"

#include <stdint.h>

#define LIVE_TEXT_MAX (64u << 10)

enum live_rule {
	LIVE_FILE, /* in a file only, and from the next start on */
	LIVE_LESS, /* no more than the files say; of lists only more where more is less */
	LIVE_ANY,
};

const char *live_rule_name(enum live_rule r); /* "file", "less", "any" */

/* key: as in [section]; section without the name of a language or tier. mode: the files'. */
enum live_rule live_rule_of(enum live_mode mode, const char *section, const char *key);

/*
 * Lays text over the files', which are given as they were read and as they are. The origin of what
 * it says is "run time, version N". Errors are those of a file, of the name LIVE_NAME. The caller
 * has *ret to settings_done(), also after a failure.
 */
#define LIVE_NAME "run-time settings"
int live_lay(const struct buf *parts, const struct settings *base, const char *text,
	     int64_t version, struct settings *ret, struct cay_error *err);

/* The text without what it says of the key ("limits.memory", "language python.prefer"), and with
 * these values instead. Comments are lost. 0 or -1. */
int live_edit(const char *text, const char *name, const struct strv *values, struct buf *ret,
	      struct cay_error *err);

/* What differs between two texts: key by key, in the order of the second, values one a line. */
typedef void live_diff_fn(void *ctx, const char *name, const struct strv *was,
			  const struct strv *is);
int live_diff(const char *was, const char *is, live_diff_fn *fn, void *ctx);
