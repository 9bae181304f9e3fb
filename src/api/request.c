#include "api/request.h"

#include "base/http.h"
#include "core/id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place, which it never outgrows. */
static int decode(char *s, bool plus)
{
	char *out = s;

	for (; *s; s++) {
		int high, low;

		if (*s != '%') {
			*out++ = plus && *s == '+' ? ' ' : *s;
			continue;
		}
		high = hex(s[1]);
		low = high < 0 ? -1 : hex(s[2]);
		if (low < 0 || high + low == 0)
			return -1;
		*out++ = (char)(high << 4 | low);
		s += 2;
	}
	*out = '\0';
	return 0;
}

static int split_path(struct request *r, char *path, const char **why)
{
	/* Split first: an escaped slash is part of its segment. */
	for (char *at = path, *end; at; at = end) {
		at++;
		end = strchr(at, '/');
		if (r->n_segments == ROUTE_SEGMENTS_MAX) {
			*why = "the path has too many segments";
			return -1;
		}
		if (end)
			*end = '\0';
		if (decode(at, false) < 0) {
			*why = "the path has an escape that is none, or a NUL";
			return -1;
		}
		r->segments[r->n_segments++] = at;
	}
	return 0;
}

static int add_query(struct request *r, char *item, const char **why)
{
	char *value = strchr(item, '=');

	if (value)
		*value++ = '\0';
	else
		value = item + strlen(item);
	if (decode(item, true) < 0 || decode(value, true) < 0) {
		*why = "the query has an escape that is none, or a NUL";
		return -1;
	}
	if (request_query(r, item)) {
		*why = "a query parameter is there twice";
		return -1;
	}
	if (r->n_query == REQUEST_QUERY_MAX) {
		*why = "the query has too many parameters";
		return -1;
	}
	r->query[r->n_query++] = (struct query_item){item, value};
	return 0;
}

static int split_query(struct request *r, char *query, const char **why)
{
	for (char *at = query, *end; at; at = end) {
		end = strchr(at, '&');
		if (end)
			*end++ = '\0';
		if (*at && add_query(r, at, why) < 0)
			return -1;
	}
	return 0;
}

int request_split(struct request *r, const struct http_head *head, const char **ret_why)
{
	size_t len = strlen(head->url);
	char *path, *query;

	r->head = head;
	r->method = head->method;
	if (head->url[0] != '/') {
		*ret_why = "the request's target must be a path";
		return -1;
	}
	/* Twice: once as it was sent, once to be decoded. */
	r->text = malloc(2 * (len + 1));
	if (!r->text) {
		*ret_why = "out of memory";
		return -1;
	}
	memcpy(r->text, head->url, len + 1);
	r->text[strcspn(r->text, "?#")] = '\0';
	r->path = r->text;
	path = r->text + len + 1;
	memcpy(path, head->url, len + 1);
	if (strchr(path, '#')) {
		*ret_why = "the request's target has a fragment";
		return -1;
	}
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	if (split_path(r, path, ret_why) < 0)
		return -1;
	return split_query(r, query, ret_why);
}

void request_release(struct request *r)
{
	free(r->text);
	r->text = NULL;
}

const char *request_header(const struct request *r, const char *name)
{
	return http_header(r->head, name);
}

const char *request_query(const struct request *r, const char *name)
{
	for (size_t i = 0; i < r->n_query; i++)
		if (strcmp(r->query[i].name, name) == 0)
			return r->query[i].value;
	return NULL;
}

const char *request_param(const struct request *r, const char *name)
{
	return route_param(&r->match, name);
}

void request_make_id(const char *given, char id[REQUEST_ID_SIZE])
{
	static const char harmless[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
	char own[ID_SIZE] = "req_none"; /* only without randomness */
	size_t len = given ? strlen(given) : 0;

	if (len > 0 && len < REQUEST_ID_SIZE && strspn(given, harmless) == len) {
		memcpy(id, given, len + 1);
		return;
	}
	(void)id_make("req", own);
	(void)snprintf(id, REQUEST_ID_SIZE, "%s", own);
}

bool request_mutates(const struct request *r)
{
	return strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0;
}
