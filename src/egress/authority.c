#include "egress/authority.h"

#include "base/parse.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static int set_literal(const char *text, size_t len, bool brackets, struct authority *ret)
{
	char copy[ADDRESS_SIZE];

	/* v6 has brackets around it, v4 has not. */
	if (len >= sizeof(copy) || (memchr(text, ':', len) != NULL) != brackets)
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (strlen(copy) != len || address_parse(copy, &ret->address) < 0)
		return -EINVAL;
	_Static_assert(ADDRESS_SIZE <= sizeof(ret->host), "an address fits");
	address_text(&ret->address, ret->host);
	ret->literal = true;
	return 0;
}

static int set_port(const char *text, size_t len, struct authority *ret)
{
	char copy[sizeof("65535")];
	uint64_t port;

	if (len == 0 || len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (strlen(copy) != len || parse_u64(copy, 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	ret->port = (uint16_t)port;
	return 0;
}

int authority_parse(const char *text, size_t len, struct authority *ret)
{
	bool brackets = len > 0 && text[0] == '[';
	const char *host = text + brackets, *end = text + len, *host_end, *rest;

	*ret = (struct authority){0};
	host_end = memchr(host, brackets ? ']' : ':', (size_t)(end - host));
	if (brackets && !host_end)
		return -EINVAL;
	if (!host_end)
		host_end = end;
	rest = host_end + brackets;
	if (set_literal(host, (size_t)(host_end - host), brackets, ret) < 0 &&
	    (brackets || domain_name(host, (size_t)(host_end - host), ret->host) < 0))
		return -EINVAL;
	if (rest == end)
		return 0;
	return *rest == ':' ? set_port(rest + 1, (size_t)(end - rest) - 1, ret) : -EINVAL;
}

int authority_of_url(const char *url, struct authority *ret, bool *ret_https, const char **ret_path)
{
	size_t scheme, len;

	if (strncasecmp(url, "http://", 7) == 0)
		scheme = 7;
	else if (strncasecmp(url, "https://", 8) == 0)
		scheme = 8;
	else
		return -EINVAL;
	len = strcspn(url + scheme, "/?#");
	*ret_https = scheme == 8;
	*ret_path = url + scheme + len;
	return authority_parse(url + scheme, len, ret);
}
