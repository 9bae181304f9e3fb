#include "egress/client_hello.h"

/*
 * RFC 8446, 4.1.2, and RFC 6066, 3. Written by hand, because OpenSSL reads a ClientHello only as a
 * server that then answers it. Nothing is skipped that could be read in another way: every length
 * must come out even with what is around it.
 */

#define RECORD_MAX      (1u << 14)
#define ENCRYPTED_MORE  2048
#define CLIENT_HELLO    1
#define LENGTH_HIGH_MAX 2 /* of three bytes: what OpenSSL takes at most is below 3 << 16 */
#define VERSION_MAJOR   3
#define MESSAGE_HEADER  4
#define VERSION_RANDOM  (2 + 32)
#define SESSION_MAX     32
#define EXT_SERVER_NAME 0
#define EXT_EARLY_DATA  42
#define NAME_IS_HOST    0

struct part {
	const uint8_t *at;
	size_t len;
};

size_t tls_record_size(const uint8_t header[TLS_RECORD_HEADER])
{
	size_t len = (size_t)header[3] << 8 | header[4];

	size_t max = header[0] == TLS_HANDSHAKE ? RECORD_MAX : RECORD_MAX + ENCRYPTED_MORE;

	/* The minor version is to be ignored. */
	return header[0] >= TLS_CHANGE_CIPHER && header[0] <= TLS_DATA &&
			       header[1] == VERSION_MAJOR && len <= max
		       ? len
		       : 0;
}

static bool take(struct part *p, size_t n, struct part *ret)
{
	if (n > p->len)
		return false;
	*ret = (struct part){p->at, n};
	p->at += n;
	p->len -= n;
	return true;
}

static bool take_number(struct part *p, size_t bytes, size_t *ret)
{
	struct part n;

	if (!take(p, bytes, &n))
		return false;
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | n.at[i];
	return true;
}

/* What has its length in front of it, in so many bytes. */
static bool take_vector(struct part *p, size_t bytes, struct part *ret)
{
	size_t n;

	return take_number(p, bytes, &n) && take(p, n, ret);
}

static bool server_name_ok(struct part body, hello_name_fn *ok, void *ctx)
{
	struct part list, name;
	size_t type;

	if (!take_vector(&body, 2, &list) || body.len > 0)
		return false;
	if (!take_number(&list, 1, &type) || type != NAME_IS_HOST ||
	    !take_vector(&list, 2, &name) || list.len > 0)
		return false;
	return ok(ctx, (const char *)name.at, name.len);
}

static bool extensions_ok(struct part all, hello_name_fn *ok, void *ctx, bool *ret_early)
{
	bool named = false;

	while (all.len > 0) {
		struct part body;
		size_t type;

		if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &body))
			return false;
		*ret_early |= type == EXT_EARLY_DATA;
		if (type != EXT_SERVER_NAME)
			continue;
		if (named || !server_name_ok(body, ok, ctx))
			return false;
		named = true;
	}
	return true;
}

static bool hello_ok(struct part p, hello_name_fn *ok, void *ctx, bool *ret_early)
{
	struct part fixed, session, suites, methods, extensions;

	if (!take(&p, VERSION_RANDOM, &fixed) || !take_vector(&p, 1, &session) ||
	    !take_vector(&p, 2, &suites) || !take_vector(&p, 1, &methods))
		return false;
	if (session.len > SESSION_MAX || suites.len == 0 || suites.len % 2 != 0 || methods.len == 0)
		return false;
	if (p.len == 0)
		return true; /* as before there were extensions */
	return take_vector(&p, 2, &extensions) && p.len == 0 &&
	       extensions_ok(extensions, ok, ctx, ret_early);
}

enum hello client_hello_check(const char *data, size_t len, hello_name_fn *ok, void *ctx,
			      bool *ret_early)
{
	struct part p = {(const uint8_t *)data, len}, message;
	size_t type, n;

	*ret_early = false;
	if (!take_number(&p, 1, &type))
		return HELLO_MORE;
	if (type != CLIENT_HELLO)
		return HELLO_BAD;
	if (!take_number(&p, MESSAGE_HEADER - 1, &n))
		return HELLO_MORE;
	if (n > CLIENT_HELLO_MAX)
		return HELLO_BAD;
	if (!take(&p, n, &message))
		return HELLO_MORE;
	return p.len == 0 && hello_ok(message, ok, ctx, ret_early) ? HELLO_OK : HELLO_BAD;
}

/* By so many fixed bits that what is encrypted is not taken for one in practice. */
bool client_hello_begins(const char *data, size_t len)
{
	const uint8_t *at = (const uint8_t *)data;

	return (len < 1 || at[0] == CLIENT_HELLO) && (len < 2 || at[1] <= LENGTH_HIGH_MAX) &&
	       (len < CLIENT_HELLO_BEGIN || at[MESSAGE_HEADER] == VERSION_MAJOR);
}
