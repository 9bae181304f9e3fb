/*
 * service_main.h: the daemon's process for containers: speaks engine/service.h to the api, and has
 * a keeper for each island that is asked for. It reads no text; what it is sent it checks like the
 * native one, and holds to the operator's maxima. Whoever keeps the containers of a daemon that
 * died: their PID 1s have ended with their keepers, and what is left is removed at the start.
 */
#pragma once

#include "policy/mounts.h"
#include "settings/settings.h"

struct container_service {
	const struct mount_rules *rules;
	const struct limits *maximum; /* the operator's, for all plans */
	bool may_degrade;             /* plans may go without a limit that can't be enforced */
	const struct settings *settings;
};

/* Serves sock until its other end is gone; returns what to exit with. */
int container_service_main(int sock, const struct container_service *config);
