/*
 * serve_live.h: what the supervisor made of the settings for the launcher and for cay-egress, and
 * where the files say `[serve] settings = full`, what it makes of settings at run time: the api
 * sends their text, which is judged again, and laid over the files'.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "engine/native/service_rules.h"
#include "settings/settings.h"

#include <sys/types.h>

struct serve_live {
	const struct settings *base;
	struct buf parts; /* settings_load_parts() */
	/* Of which some is forbidden to islands, and whom programs may not run as. */
	const char *socket_path;
	int state_dir; /* -1: not open yet */
	uid_t api_uid;
	/* As they are now. */
	struct service_rules rules;
	int egress_settings; /* egress/start.h */
	/* Ours of the sockets to the api, the launcher and cay-egress; -1 where it is not full. */
	int api, launcher, egress;
};

#define SERVE_LIVE_NONE       \
	((struct serve_live){ \
		.state_dir = -1, .egress_settings = -1, .api = -1, .launcher = -1, .egress = -1})

/* From here on they are the files' alone: what is wrong with those is told. */
int serve_live_begin(struct serve_live *l, struct cay_error *err);

/*
 * What is the daemon's own never gets to an island, whatever lists allow: the state has keys
 * and everybody's results, and whoever reaches the socket as root may have anything.
 */
int serve_live_forbid_own(struct serve_live *l, struct cay_error *err);

/*
 * The api has sent a text. It is handed on, and the answer is the api's. true: cay-egress did not
 * take it, and has to be started again.
 */
bool serve_live_hear(struct serve_live *l);

void serve_live_done(struct serve_live *l);
