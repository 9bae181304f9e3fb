#include "egress/target.h"

#include "egress/dns_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

/* An IPv4 address, as on the wire: of a name that we gave it to, or for itself. */
static void find(const struct net *n, uint32_t to, uint16_t port, struct target *ret)
{
	const struct book_name *known = book_at(&n->names.book, ntohl(to));

	*ret = (struct target){.port = port, .literal = !known};
	memcpy(ret->address.bytes, v4_mapped, sizeof(v4_mapped));
	memcpy(ret->address.bytes + sizeof(v4_mapped), &to, sizeof(to));
	if (known)
		(void)snprintf(ret->name, sizeof(ret->name), "%s", known->name);
	else
		address_text(&ret->address, ret->name);
}

void target_find(const struct net *n, const struct tuple *t, struct target *ret)
{
	uint32_t to = ntohl(t->to);

	find(n, t->to, ntohs(t->to_port), ret);
	if (!ret->literal)
		return;
	if (ret->port == DNS_PORT && dns_server_is_asked(n, to))
		ret->kind = TARGET_DNS;
	else if (ret->port == PROXY_PORT && to == BOOK_OURS)
		ret->kind = TARGET_PROXY;
}

void target_find_proxied(const struct net *n, const struct authority *to, struct target *ret)
{
	uint32_t v4;

	*ret = (struct target){.port = to->port, .literal = to->literal, .address = to->address};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", to->host);
	if (!to->literal || memcmp(to->address.bytes, v4_mapped, sizeof(v4_mapped)) != 0)
		return;
	memcpy(&v4, to->address.bytes + sizeof(v4_mapped), sizeof(v4));
	find(n, v4, to->port, ret);
}

enum egress_why target_judge(const struct net *n, const struct target *t)
{
	if (t->kind != TARGET_THROUGH)
		return WHY_NONE;
	return t->literal ? verdict_literal(&n->policy, &t->address, t->port)
			  : verdict_name(&n->policy, t->name, t->port);
}

bool target_may_name(const struct net *n, const struct target *t, const char *name)
{
	struct address address;

	if (strcmp(name, t->name) == 0)
		return true;
	return t->literal && address_parse(name, &address) < 0 &&
	       verdict_name(&n->policy, name, t->port) == WHY_NONE;
}
