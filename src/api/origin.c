#include "api/origin.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define NAME_SIZE 256

/* The name of name[:port] or [address][:port]. False: it is neither. */
static bool split_host(const char *host, char name[NAME_SIZE], bool *ret_v6)
{
	const char *start = host, *end;
	uint64_t port;

	*ret_v6 = *host == '[';
	if (*ret_v6)
		start++;
	end = start + strcspn(start, *ret_v6 ? "]" : ":");
	if (end == start || end - start >= NAME_SIZE || (*ret_v6 && *end != ']'))
		return false;
	memcpy(name, start, (size_t)(end - start));
	name[end - start] = '\0';
	end += *ret_v6;
	if (!*end)
		return true;
	return *end == ':' && parse_u64(end + 1, 1, 65535, &port) == 0;
}

bool origin_host_ok(const char *host, const char *const *names, size_t n_names)
{
	char name[NAME_SIZE];
	struct in6_addr address;
	bool v6;

	if (!split_host(host, name, &v6))
		return false;
	if (v6)
		return inet_pton(AF_INET6, name, &address) == 1;
	if (inet_pton(AF_INET, name, &address) == 1 || strcasecmp(name, "localhost") == 0)
		return true;
	for (size_t i = 0; i < n_names; i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

bool origin_is_own(const char *origin, const char *host)
{
	if (strncasecmp(origin, "http://", 7) == 0)
		return strcasecmp(origin + 7, host) == 0;
	if (strncasecmp(origin, "https://", 8) == 0)
		return strcasecmp(origin + 8, host) == 0;
	return false;
}
