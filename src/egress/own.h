/*
 * own.h: whether an address is this host's own. What is sent there never leaves the host: services
 * that a firewall keeps from others would be open to islands.
 */
#pragma once

#include "core/address.h"

#include <stdbool.h>

/* To ask the kernel by, before the process is confined: an fd, or -errno. */
int own_open(void);

/* Also where the kernel does not say. */
bool own_address(int sock, const struct address *a);
