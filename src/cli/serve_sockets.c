#include "cli/serve_sockets.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096

/* One that was killed a moment ago still dies: what it holds is free soon. */
#define TRIES        100
#define TRY_AGAIN_US 20000

int serve_make_dirs(const char *path, unsigned mode, struct cay_error *err)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return cay_fail(err, CAY_E_INTERNAL, errno, "make the directory %s", part);
	}
	return 0;
}

static bool take_lock(int fd)
{
	for (int n = 0; n < TRIES; n++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		(void)usleep(TRY_AGAIN_US);
	}
	return false;
}

int serve_open_state(const char *path, int *ret_dir, int *ret_lock, struct cay_error *err)
{
	_cleanup_(fd_closep) int dir = -1, lock = -1;

	if (serve_make_dirs(path, 0755, err) < 0)
		return -1;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return cay_fail(err, CAY_E_INTERNAL, errno, "make the state directory %s", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "open the state directory %s", path);
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "write to the state directory %s",
				path);
	if (!take_lock(lock)) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0,
			       "a daemon with the state directory %s runs already", path);
		return cay_hint(err,
				"stop it, or give this one its own: --state DIR --socket PATH");
	}
	*ret_dir = take_fd(&dir);
	*ret_lock = take_fd(&lock);
	return 0;
}

static bool is_listened_on(const struct sockaddr_un *at)
{
	for (int n = 0; n < TRIES; n++) {
		_cleanup_(fd_closep) int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (probe < 0 || connect(probe, (const struct sockaddr *)at, sizeof(*at)) < 0)
			return false;
		(void)usleep(TRY_AGAIN_US);
	}
	return true;
}

/* One that is left from a daemon that was killed refuses; one that answers is in use. */
static int remove_stale(const struct sockaddr_un *at, struct cay_error *err)
{
	struct stat st;

	if (lstat(at->sun_path, &st) < 0)
		return errno == ENOENT
			       ? 0
			       : cay_fail(err, CAY_E_INTERNAL, errno, "look at %s", at->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return cay_fail(err, CAY_E_CONFLICT, 0, "%s is there, and no socket", at->sun_path);
	if (is_listened_on(at)) {
		(void)cay_fail(err, CAY_E_CONFLICT, 0, "somebody listens on %s already",
			       at->sun_path);
		return cay_hint(err, "stop that daemon, or give this one its own: --socket PATH");
	}
	return unlink(at->sun_path) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, errno, "remove the old %s", at->sun_path)
		       : 0;
}

static int check_path(const char *path, struct cay_error *err)
{
	size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	return strlen(path) <= max
		       ? 0
		       : cay_fail(err, CAY_E_INVALID, 0,
				  "the socket's path is longer than the kernel's %zu bytes: %s",
				  max, path);
}

int serve_listen_unix(const char *path, int *ret, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	mode_t before;
	int r;

	if (check_path(path, err) < 0)
		return -1;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (serve_make_dirs(path, 0755, err) < 0 || remove_stale(&at, err) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(0177);
	r = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)&at, sizeof(at));
	(void)umask(before);
	if (r < 0 || listen(fd, BACKLOG) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "listen on %s", path);
	*ret = take_fd(&fd);
	return 0;
}

static int split(const char *address, char host[256], char port[8], struct cay_error *err)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;
	uint64_t number;
	bool brackets = len > 2 && address[0] == '[' && address[len - 1] == ']';

	if (!colon || len == 0 || len >= 256 || parse_u64(colon + 1, 0, UINT16_MAX, &number) < 0 ||
	    (!brackets && memchr(address, ':', len))) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "'%s' is not HOST:PORT", address);
		return cay_hint(err,
				"for example --listen 127.0.0.1:8600 or --listen '[::1]:8600'");
	}
	(void)snprintf(host, 256, "%.*s", (int)(brackets ? len - 2 : len), address + brackets);
	(void)snprintf(port, 8, "%s", colon + 1);
	return 0;
}

int serve_check_addresses(const char *path, const char *tcp, struct cay_error *err)
{
	char host[256], port[8];

	return check_path(path, err) < 0 || (tcp && split(tcp, host, port, err) < 0) ? -1 : 0;
}

static int bind_patiently(int fd, const struct addrinfo *at)
{
	int r = bind(fd, at->ai_addr, at->ai_addrlen);

	for (int n = 1; n < TRIES && r < 0 && errno == EADDRINUSE; n++) {
		(void)usleep(TRY_AGAIN_US);
		r = bind(fd, at->ai_addr, at->ai_addrlen);
	}
	return r;
}

int serve_listen_tcp(const char *address, int *ret, struct cay_error *err)
{
	struct addrinfo want = {.ai_socktype = SOCK_STREAM,
				.ai_flags = AI_PASSIVE | AI_NUMERICSERV},
			*found = NULL;
	_cleanup_(fd_closep) int fd = -1;
	char host[256], port[8];
	int on = 1, r;

	if (split(address, host, port, err) < 0)
		return -1;
	r = getaddrinfo(host, port, &want, &found);
	if (r != 0)
		return cay_fail(err, CAY_E_INVALID, 0, "--listen %s: %s", address, gai_strerror(r));
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind_patiently(fd, found) < 0 || listen(fd, BACKLOG) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, errno, "listen on %s", address);
	freeaddrinfo(found);
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}
