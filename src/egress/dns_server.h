/*
 * dns_server.h: answers an island's questions about names, by UDP and TCP. A name that is not
 * allowed is not there, and nobody outside hears of it; one that is gets an address of the
 * network's own (book.h) once it was found to lead somewhere, and is not there either where that is
 * nowhere that may be connected to.
 */
#pragma once

#include "egress/net.h"

#include <stdbool.h>
#include <stdint.h>

/* Questions of one network that wait at once. More are answered with a failure. */
#define DNS_ASKED_MAX 512

/* Whether we answer at this address (the host's order). */
bool dns_server_is_asked(const struct net *n, uint32_t address);

/* One question of the network's socket. false: there is none. */
bool dns_server_read(struct net *n);

/* Forgets the questions that wait. */
void dns_server_leave(struct net *n);

/* Questions on a TCP connection, one after the other. */
struct dns_stream;

/* over: it has ended, and is to be freed; else something was said. The socket stays the caller's.
 */
typedef void dns_stream_fn(void *ctx, bool over);

struct dns_stream *dns_stream_new(struct net *n, int fd, dns_stream_fn *on, void *ctx);
void dns_stream_free(struct dns_stream *s);
