/*
 * origin.h: keeps web pages out. A page that somebody looks at can make their browser
 * talk to any address it reaches, this server's too: by DNS rebinding, where a name of
 * the attacker's comes to mean 127.0.0.1, and by plain cross-site requests. The first
 * shows in Host, the second in Origin.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a Host header names us: an IP address, localhost, or one of the names that
 * were configured, with or without a port. No name an attacker has can be among these.
 */
bool origin_host_ok(const char *host, const char *const *names, size_t n_names);

/* Whether an Origin header is of the server itself: http or https, and the same host. */
bool origin_is_own(const char *origin, const char *host);
