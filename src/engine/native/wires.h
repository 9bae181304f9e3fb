/*
 * wires.h: what leads from an island's network to cay-egress, which sits outside: four sockets,
 * born inside and handed out (egress/wire.h), and what makes all that the island sends end up in
 * them. wires-gen.c says how.
 */
#pragma once

#include "core/error.h"
#include "egress/wire.h"

#define WIRES_ISLAND    0xc6120002u /* 198.18.0.2, what the island's programs are seen as */
#define WIRES_PORT      53          /* of the listener on 127.0.0.1, and of DNS everywhere */
#define WIRES_MARK      1
#define WIRES_LOG_GROUP 1
#define WIRES_LOG_BYTES 128

/*
 * There is no congestion between an island and its egress: the host's way, where it is one that
 * paces (bbr), would only cost time. Every kernel has this one, and lets everybody use it.
 */
#define WIRES_CONGESTION "reno"

/* For the network the caller is in, with loopback up. On failure none is left open. */
int wires_lay(int ret[EGRESS_FDS], struct cay_error *err);

void wires_close(int wires[EGRESS_FDS]);
