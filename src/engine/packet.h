/*
 * packet.h: whether a packet is a request of service.h's, whichever engine's process it was sent
 * to. The plan and the names in it are that one's to judge.
 */
#pragma once

#include "core/limit.h"
#include "engine/service.h"

#include <stdbool.h>
#include <stddef.h>

bool packet_has_plan(const struct service_request *q);
bool packet_has_names(const struct service_request *q);

/*
 * Kind, flags, what rides along, and the length where nothing is behind the header; len is that of
 * a header at least.
 */
bool packet_ok(const struct service_request *q, size_t len, const int *fds, size_t n_fds);

/* Times in the request are what is left of the plan's: no way around the operator's. */
bool packet_times_ok(const struct service_request *q, const struct limits *l);
