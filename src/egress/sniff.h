/*
 * sniff.h: what host a client names: in TLS's first message, or in each HTTP/1 request.
 * Bytes as they come, in order. Pure, but for memory.
 *
 * TLS (the first byte is a handshake record's): the server_name of the ClientHello, which may lie
 * in several records, and of the second, if the server asks for one. None: nothing contradicts.
 * What is encrypted can't be seen: neither names of HTTP within TLS, nor one in an encrypted
 * ClientHello, of which only the outer name is looked at (many clients send a random one, so having
 * one says nothing).
 *
 * HTTP (the first line begins like a request, or says HTTP/): every request must be what
 * base/http.h takes, and name one host that is ok, in its Host or its target, or the same in
 * both. A request of HTTP/1.0 need not: without a name it gets whatever the server has for that,
 * as TLS without a name does. Behind a request that asks for an upgrade it is looked afresh at
 * what comes: what looks like neither (a WebSocket's frames) ends the looking; a server that does
 * not upgrade and reads on sees only requests that were checked. HTTP/2 in the clear is refused,
 * because its names can't be seen.
 *
 * Anything else, such as SSH: nothing is named. That is known of text when its first line ends, and
 * at once where there is a byte that no such line has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sniff;

/* Whether this host may be named. name: normalised (domain_name, or address_text for an address).
 */
typedef bool sniff_ok_fn(void *ctx, const char *name);

enum sniff_verdict {
	SNIFF_MORE,     /* not known yet: hold the last sniff_held() bytes back */
	SNIFF_PASS,     /* all bytes so far may go; the next ones are to be shown too */
	SNIFF_DONE,     /* the same, and no more need be shown */
	SNIFF_DIFFERS,  /* another host is named, or it can't be told: end it */
	SNIFF_TOO_LONG, /* the same, because more would have to be held back than may be */
};

/*
 * So many bytes are held back at most. A ClientHello with post-quantum keys has 2 KiB, and most
 * servers take no more than 8 to 16 KiB of an HTTP head.
 */
#define SNIFF_HELD_MAX (16u << 10)

/* NULL when memory is out. */
struct sniff *sniff_new(sniff_ok_fn *ok, void *ctx);
void sniff_free(struct sniff *s);
void sniff_freep(struct sniff **s);

/* Only bytes not shown before. After SNIFF_DONE and what ends it the answer stays the same. */
enum sniff_verdict sniff_bytes(struct sniff *s, const char *data, size_t len);

/* No more will come. SNIFF_MORE: what is held is nothing whole, and not to go at all. */
enum sniff_verdict sniff_end(struct sniff *s);

/* How many of the bytes shown, the last ones, may not go yet. */
size_t sniff_held(const struct sniff *s);
