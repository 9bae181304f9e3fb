/*
 * service_main.h: the launcher as a process of its own, which speaks engine/service.h.
 */
#pragma once

#include "engine/native/bare_user.h"
#include "policy/mounts.h"

struct zygote_kind;

struct service_config {
	const struct mount_rules *rules;
	const char *image_store;          /* image/images.h; NULL: there are no images */
	int kept_dir;                     /* kept.h; -1: no workspaces are kept */
	const struct bare_rules *bare;    /* bare_user.h; NULL: nothing runs without an island */
	const struct limits *maximum;     /* the operator's, for all plans; NULL: only ours */
	struct zygote_kind *zygote_kinds; /* zygote.h: which there may be */
	size_t n_zygote_kinds;
	uint64_t ahead_bytes; /* what islands made ahead, and zygotes, may take in memory */
	bool may_degrade;     /* plans may go without a limit that can't be enforced */
	bool has_news;        /* by news others of these rules may come: base/handover.h */
	int news;             /* with service_rules_pack()'s fd */
};

/*
 * The launcher's whole life: makes islands as the other end of sock asks, until that is
 * closed. Returns an exit code.
 */
int service_main(int sock, const struct service_config *config);
