/*
 * bare_user.h: whom a program without an island runs as. The launcher finds it out
 * itself: whoever asks it (the api, which strangers talk to) could lie, so it looks at the
 * connection that the caller made, which only the kernel can say something about.
 */
#pragma once

#include "core/error.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/* What the operator said, from the settings, not from the asker. */
struct bare_rules {
	enum mode mode;
	bool over_tcp;
	bool has_user; /* uid and gid are of one, who is not root */
	uid_t uid;
	gid_t gid;
	uid_t api; /* the asker's own: nobody's programs run as that */
	/* Where callers connect to: a connection that was not made there is not looked at. */
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

struct bare_user {
	uid_t uid;
	gid_t gid;
	bool change; /* it is another one than ours */
};

/*
 * peer: the caller's connection to our socket; -1: it came another way, by TCP. Never
 * root, nor root's group. CAY_E_POLICY with the setting that decides.
 */
int bare_user_find(const struct bare_rules *rules, int peer, struct bare_user *ret,
		   struct cay_error *err);
