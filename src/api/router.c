#include "api/router.h"

#include "base/attr.h"

#include <stdio.h>
#include <string.h>

/* The next segment of a pattern; false: there is no more. */
static bool next(const char **at, struct segment *ret)
{
	if (**at != '/')
		return false;
	ret->text = *at + 1;
	ret->len = strcspn(ret->text, "/");
	*at = ret->text + ret->len;
	return true;
}

static bool fits(struct segment s, const char *value, struct route_match *m)
{
	bool param = s.len > 2 && s.text[0] == '{' && s.text[s.len - 1] == '}';

	if (!param)
		return strlen(value) == s.len && memcmp(s.text, value, s.len) == 0;
	if (!*value || m->n_params == ROUTE_PARAMS_MAX)
		return false;
	m->names[m->n_params] = (struct segment){s.text + 1, s.len - 2};
	m->values[m->n_params++] = value;
	return true;
}

static bool matches(const struct route *r, const char *const *segments, size_t n,
		    struct route_match *m)
{
	const char *at = r->pattern;
	struct segment s;
	size_t i = 0;

	m->n_params = 0;
	while (next(&at, &s))
		if (i == n || !fits(s, segments[i++], m))
			return false;
	return i == n;
}

static void allow(struct route_match *m, const char *method)
{
	size_t used = strlen(m->allow);

	if (strstr(m->allow, method))
		return;
	(void)snprintf(m->allow + used, sizeof(m->allow) - used, "%s%s", used ? ", " : "", method);
	if (strcmp(method, "GET") == 0)
		allow(m, "HEAD");
}

bool route_find(const struct route *const *routes, size_t n_routes, const char *method,
		const char *const *segments, size_t n, struct route_match *ret)
{
	const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < n_routes; i++) {
		if (!matches(routes[i], segments, n, ret))
			continue;
		if (strcmp(routes[i]->method, wanted) == 0) {
			ret->route = routes[i];
			return true;
		}
		allow(ret, routes[i]->method);
	}
	ret->n_params = 0;
	return false;
}

const char *route_param(const struct route_match *m, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < m->n_params; i++)
		if (m->names[i].len == len && memcmp(m->names[i].text, name, len) == 0)
			return m->values[i];
	return NULL;
}
