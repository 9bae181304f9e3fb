/* http_run.h: POST /v1/runs by a connection that is kept, and what comes back. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ANSWER_MAX (256u << 10)

/* A connected socket, or -1. */
static inline int http_connect(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	return fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ? -1 : fd;
}

/* NULL: no memory. */
static inline char *http_request(const char *body)
{
	char *text = NULL;

	return asprintf(&text,
			"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n"
			"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			strlen(body), body) < 0
		       ? NULL
		       : text;
}

/* When as many bytes follow the head as it says. */
static inline bool http_is_whole(const char *answer, size_t len)
{
	const char *end = strstr(answer, "\r\n\r\n"), *length;

	if (!end)
		return false;
	length = strcasestr(answer, "content-length:");
	return length && len >= (size_t)(end + 4 - answer) + strtoul(length + 15, NULL, 10);
}

/* Whether the program ended well; *ret_warm: by an interpreter that had been started. */
static inline bool http_is_ok(const char *answer, bool *ret_warm)
{
	*ret_warm = strstr(answer, "\"start\":\"warm:") != NULL;
	return strstr(answer, "\"status\":\"ok\"") != NULL;
}
