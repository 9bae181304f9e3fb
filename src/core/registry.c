#include "core/registry.h"

#include "base/attr.h"
#include "base/parse.h"
#include "core/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGITS          "0123456789"
#define PATH_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~/-"

static int parse_address(const char *text, size_t len, char ret[DOMAIN_SIZE])
{
	bool brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';
	char bare[ADDRESS_SIZE];
	struct address a;

	if (brackets) {
		text++;
		len -= 2;
	}
	if (len >= sizeof(bare))
		return -EINVAL;
	memcpy(bare, text, len);
	bare[len] = '\0';
	if (strlen(bare) != len || address_parse(bare, &a) < 0 || address_is_v4(&a) == brackets)
		return -EINVAL;
	address_text(&a, bare);
	(void)snprintf(ret, DOMAIN_SIZE, brackets ? "[%s]" : "%s", bare);
	return 0;
}

static int parse_port(const char *text, size_t len, unsigned *ret)
{
	char port[sizeof("65535")];
	uint64_t n;

	if (len == 0 || len >= sizeof(port) || strspn(text, DIGITS) < len)
		return -EINVAL;
	memcpy(port, text, len);
	port[len] = '\0';
	if (parse_u64(port, 1, UINT16_MAX, &n) < 0)
		return -EINVAL;
	*ret = (unsigned)n;
	return 0;
}

int registry_parse(const char *text, size_t len, char ret[REGISTRY_SIZE])
{
	const char *end = text + len, *colon = memrchr(text, ':', len);
	char host[DOMAIN_SIZE];
	unsigned port = 0;
	size_t host_len;

	/* The last colon of an address in brackets is no port's. */
	if (colon && end[-1] == ']')
		colon = NULL;
	host_len = (size_t)((colon ? colon : end) - text);
	/* A dot at the end of a name says nothing, and two names would be one registry. */
	if (host_len == 0 || text[host_len - 1] == '.')
		return -EINVAL;
	if (domain_name(text, host_len, host) < 0 && parse_address(text, host_len, host) < 0)
		return -EINVAL;
	if (colon && parse_port(colon + 1, (size_t)(end - colon - 1), &port) < 0)
		return -EINVAL;
	if (colon)
		(void)snprintf(ret, REGISTRY_SIZE, "%s:%u", host, port);
	else
		(void)snprintf(ret, REGISTRY_SIZE, "%s", host);
	return 0;
}

bool registry_is_loopback(const char *registry)
{
	static const char *const hosts[] = {"localhost", "[::1]"};
	struct address a;
	char host[ADDRESS_SIZE];
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		len = strlen(hosts[i]);
		if (strncmp(registry, hosts[i], len) == 0 &&
		    (registry[len] == '\0' || registry[len] == ':'))
			return true;
	}
	len = strcspn(registry, ":");
	if (len >= sizeof(host))
		return false;
	memcpy(host, registry, len);
	host[len] = '\0';
	return address_parse(host, &a) == 0 && address_is_v4(&a) && a.bytes[12] == 127;
}

int registry_url_parse(const char *text, char ret[REGISTRY_URL_SIZE])
{
	static const char *const schemes[] = {"https://", "http://"};
	const char *scheme = NULL, *host, *path;
	char registry[REGISTRY_SIZE];
	size_t path_len;
	int n;

	for (size_t i = 0; i < ARRAY_LEN(schemes) && !scheme; i++)
		if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
			scheme = schemes[i];
	if (!scheme)
		return -EINVAL;
	host = text + strlen(scheme);
	path = strchrnul(host, '/');
	path_len = strlen(path);
	if (registry_parse(host, (size_t)(path - host), registry) < 0 ||
	    strspn(path, PATH_CHARACTERS) != path_len || strstr(path, "..") || strstr(path, "//"))
		return -EINVAL;
	while (path_len > 0 && path[path_len - 1] == '/')
		path_len--;
	n = snprintf(ret, REGISTRY_URL_SIZE, "%s%s%.*s", scheme, registry, (int)path_len, path);
	return n < 0 || n >= REGISTRY_URL_SIZE ? -EINVAL : 0;
}
