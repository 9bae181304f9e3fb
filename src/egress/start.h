/*
 * start.h: cay-egress, from the side of whoever starts it.
 */
#pragma once

#include "base/attr.h"
#include "settings/settings.h"

#include <sys/types.h>

/* What they say of networks, as text, for EGRESS_FD_SETTINGS: an fd, or -errno. */
int egress_settings(const struct settings *s);

/* In a child: becomes it (program: helper_open()), without any rights; it ends with its parent.
 * news: EGRESS_FD_NEWS, or -1. */
_noreturn_ void egress_become(int program, int channel, int settings, int news, pid_t parent);
