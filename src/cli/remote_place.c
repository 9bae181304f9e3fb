#include "cli/remote.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "settings/places.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int bad_host(const char *text, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "CAY_HOST can't be '%.128s'", text);
	return cay_hint(err, "unix:PATH with an absolute path, or http://HOST:PORT");
}

static int set_path(struct remote_place *p, const char *path, struct cay_error *err)
{
	_Static_assert(sizeof(p->path) == sizeof(((struct sockaddr_un *)0)->sun_path),
		       "a path is as long as the kernel's");

	if (strlen(path) >= sizeof(p->path))
		return cay_fail(err, CAY_E_INVALID, 0,
				"the socket's path is longer than the kernel's %zu bytes: %.128s",
				sizeof(p->path) - 1, path);
	(void)snprintf(p->path, sizeof(p->path), "%s", path);
	return 0;
}

/* What may stand in a Host header and be looked up. */
static bool host_ok(const char *host, size_t len, bool brackets)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	static const char address[] = "0123456789abcdefABCDEF:.";

	return len > 0 && len < sizeof(((struct remote_place *)0)->host) &&
	       strspn(host, brackets ? address : letters) >= len;
}

/* "HOST:PORT", with nothing behind it but a slash. */
static int parse_tcp(const char *rest, struct remote_place *ret)
{
	bool brackets = rest[0] == '[';
	const char *host = rest + brackets, *end = strchr(host, brackets ? ']' : ':');
	const char *colon = end && brackets ? end + 1 : end;
	size_t port_len;
	uint64_t port;

	if (!end || *colon != ':' || !host_ok(host, (size_t)(end - host), brackets))
		return -1;
	port_len = strspn(colon + 1, "0123456789");
	if (port_len == 0 || port_len >= sizeof(ret->port) ||
	    (colon[1 + port_len] != '\0' && strcmp(colon + 1 + port_len, "/") != 0))
		return -1;
	(void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)(end - host), host);
	(void)snprintf(ret->port, sizeof(ret->port), "%.*s", (int)port_len, colon + 1);
	ret->tcp = true;
	return parse_u64(ret->port, 1, 65535, &port) < 0 ? -1 : 0;
}

int remote_place_parse(const char *text, struct remote_place *ret, struct cay_error *err)
{
	*ret = (struct remote_place){.named = true};
	if (strncmp(text, "unix:", 5) == 0) {
		const char *path = text + 5;

		/* unix:///run/x.sock is how docker writes it. */
		if (strncmp(path, "///", 3) == 0)
			path += 2;
		return path[0] == '/' && path[1] ? set_path(ret, path, err) : bad_host(text, err);
	}
	if (strncmp(text, "https://", 8) == 0) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "CAY_HOST: https is not supported yet");
		return cay_hint(err, "http://HOST:PORT, through a tunnel if it is another machine");
	}
	if (strncmp(text, "http://", 7) == 0 && parse_tcp(text + 7, ret) == 0)
		return 0;
	return bad_host(text, err);
}

int remote_place_find(struct remote_place *ret, struct cay_error *err)
{
	const char *host = getenv("CAY_HOST");
	char path[PATH_MAX];

	if (host && host[0])
		return remote_place_parse(host, ret, err);
	*ret = (struct remote_place){0};
	return place_socket(path, err) < 0 ? -1 : set_path(ret, path, err);
}

const char *remote_place_text(const struct remote_place *p, char text[300])
{
	bool brackets = strchr(p->host, ':') != NULL;

	if (p->tcp)
		(void)snprintf(text, 300, "http://%s%s%s:%s", brackets ? "[" : "", p->host,
			       brackets ? "]" : "", p->port);
	else
		(void)snprintf(text, 300, "%s", p->path);
	return text;
}

static int nobody(const struct remote_place *p, int why, struct cay_error *err)
{
	char text[300];

	(void)cay_fail(err, CAY_E_ENGINE, why, "no daemon at %s", remote_place_text(p, text));
	return cay_hint(err, p->named ? "CAY_HOST says it would be there; `cay serve` is the daemon"
				      : "start one: cay serve; or say where it is: CAY_HOST");
}

/* 0 or -errno. */
static int wait_connected(int fd, int ms)
{
	struct pollfd f = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int error = 0, n = poll(&f, 1, ms);

	if (n <= 0)
		return n == 0 ? -ETIMEDOUT : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -errno;
	return -error;
}

static int connect_to(int family, const struct sockaddr *to, socklen_t len, int ms, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && connect(fd, to, len) < 0)
		r = errno == EINPROGRESS ? wait_connected(fd, ms) : -errno;
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int connect_unix(const struct remote_place *p, int ms, int *ret_fd)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	uint64_t began = clock_now_ns();
	int r;

	memcpy(to.sun_path, p->path, sizeof(to.sun_path));
	/* A full backlog is no socket to wait on: only asking again helps. */
	do {
		r = connect_to(AF_UNIX, (const struct sockaddr *)&to, sizeof(to), ms, ret_fd);
		if (r == -EAGAIN)
			(void)poll(NULL, 0, 10);
	} while (r == -EAGAIN && clock_ms_since(began) < ms);
	return r;
}

static int connect_tcp(const struct remote_place *p, int ms, int *ret_fd, struct cay_error *err)
{
	struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV},
			*found = NULL;
	int on = 1, r = getaddrinfo(p->host, p->port, &want, &found);

	if (r != 0)
		return cay_fail(err, CAY_E_ENGINE, 0, "CAY_HOST: %s: %s", p->host, gai_strerror(r));
	r = -ENOENT;
	for (const struct addrinfo *a = found; a && r < 0; a = a->ai_next)
		r = connect_to(a->ai_family, a->ai_addr, a->ai_addrlen, ms, ret_fd);
	freeaddrinfo(found);
	if (r < 0)
		return nobody(p, -r, err);
	(void)setsockopt(*ret_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return 0;
}

int remote_place_connect(const struct remote_place *p, int ms, int *ret_fd, struct cay_error *err)
{
	int r;

	if (p->tcp)
		return connect_tcp(p, ms, ret_fd, err);
	r = connect_unix(p, ms, ret_fd);
	return r < 0 ? nobody(p, -r, err) : 0;
}
