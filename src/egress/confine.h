/*
 * confine.h: cay-egress confines itself before it hears the first request, so that a hole in it is
 * worth little: it reads how the host resolves names and nothing else, makes sockets of TCP and
 * UDP that connect and none that listens, starts no process, and can do no other call than what it
 * does all day.
 */
#pragma once

#include "core/error.h"

/* *ret_landlock: its version; 0 where the kernel has none, which is worth a warning. */
int confine_egress(int *ret_landlock, struct cay_error *err);
