/*
 * egress_bench serve ADDRESS PORT
 * egress_bench connect HOST PORT TIMES
 * egress_bench push|pull HOST PORT BYTES
 * egress_bench many HOST PORT CONNECTIONS
 *
 * A server and what its clients time, wherever they run: connecting, one connection's bytes in
 * either direction, and many connections that are all open before each says something and hears it
 * again. A name is resolved before anything is timed. Clients print JSON; times in microseconds.
 */
#include "series.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK   (128u << 10)
#define BACKLOG 4096
#define STACK   (256u << 10)

/* What a client says first. No text, so that it is none of the protocols that are looked at. */
enum want { WANT_ECHO = 1, WANT_TAKE, WANT_GIVE };

struct hello {
	uint64_t want, bytes;
};

_noreturn_ static void die(const char *what, int r)
{
	(void)fprintf(stderr, "egress_bench: %s: %s\n", what, strerror(r < 0 ? -r : errno));
	exit(1);
}

static int take_bytes(int fd, uint64_t bytes)
{
	char data[CHUNK];

	while (bytes > 0) {
		ssize_t n = read(fd, data, sizeof(data));

		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		bytes -= (uint64_t)n;
	}
	return 0;
}

static int give_bytes(int fd, uint64_t bytes)
{
	static const char data[CHUNK];
	int r = 0;

	for (; r == 0 && bytes > 0; bytes -= size_min(bytes, CHUNK))
		r = fd_write_all(fd, data, size_min(bytes, CHUNK));
	return r;
}

static void echo(int fd)
{
	char data[4096];
	ssize_t n;

	do
		n = read(fd, data, sizeof(data));
	while (n > 0 && fd_write_all(fd, data, (size_t)n) == 0);
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct hello h;

	/* One that only connects says nothing. */
	if (fd_read_exact(fd, &h, sizeof(h)) == 0) {
		if (h.want == WANT_ECHO)
			echo(fd);
		else if (h.want == WANT_GIVE)
			(void)give_bytes(fd, h.bytes);
		else if (take_bytes(fd, h.bytes) == 0)
			(void)fd_write_all(fd, "", 1);
	}
	(void)close(fd);
	return NULL;
}

static struct addrinfo *find(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;

	if (getaddrinfo(host, port, &hints, &found) != 0)
		die(host, -EADDRNOTAVAIL);
	return found;
}

_noreturn_ static void serve(const char *address, const char *port)
{
	struct addrinfo *at = find(address, port);
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	pthread_attr_t attr;

	if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(sock, at->ai_addr, at->ai_addrlen) < 0 || listen(sock, BACKLOG) < 0)
		die("listen", 0);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		int fd = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
		pthread_t thread;

		if (fd < 0)
			die("accept", 0);
		if (pthread_create(&thread, &attr, serve_one, (void *)(intptr_t)fd) != 0)
			die("thread", -EAGAIN);
	}
}

static int open_to(const struct addrinfo *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0)
		die("connect", 0);
	return fd;
}

static json_t *time_connects(const struct addrinfo *to, size_t times)
{
	struct series s;
	json_t *j;

	series_init(&s, "connect", times);
	for (size_t k = 0; k < times; k++) {
		double start = now_us();
		int fd = open_to(to);

		series_add(&s, now_us() - start);
		(void)close(fd);
		/* So that what the end of this one costs is not the next one's. */
		pause_us(500);
	}
	j = series_json(&s);
	series_done(&s);
	return j;
}

static void say_hello(int fd, enum want want, uint64_t bytes)
{
	int r = fd_write_all(fd, &(struct hello){want, bytes}, sizeof(struct hello));

	if (r < 0)
		die("write", r);
}

static json_t *time_bytes(const struct addrinfo *to, uint64_t bytes, enum want want)
{
	int fd = open_to(to), r;
	double start = now_us();

	say_hello(fd, want, bytes);
	if (want == WANT_TAKE) {
		r = give_bytes(fd, bytes);
		bytes = 1;
	} else {
		r = 0;
	}
	if (r == 0)
		r = take_bytes(fd, bytes);
	if (r < 0)
		die("bytes", r);
	(void)close(fd);
	return json_pack("{s:f}", "us", now_us() - start);
}

static json_t *time_many(const struct addrinfo *to, size_t n)
{
	int *fds = calloc(n, sizeof(int));
	double start = now_us(), connected;
	char said[sizeof(struct hello)];

	if (!fds)
		die("memory", 0);
	for (size_t k = 0; k < n; k++)
		fds[k] = open_to(to);
	connected = now_us() - start;
	for (size_t k = 0; k < n; k++) {
		say_hello(fds[k], WANT_ECHO, 0);
		/* What is said again is the same size as the hello, which is not. */
		say_hello(fds[k], WANT_ECHO, k);
	}
	for (size_t k = 0; k < n; k++) {
		const struct hello is = {WANT_ECHO, k};
		int r = fd_read_exact(fds[k], said, sizeof(said));

		if (r < 0 || memcmp(said, &is, sizeof(is)) != 0)
			die("echo", r < 0 ? r : -EBADMSG);
	}
	free(fds);
	return json_pack("{s:f, s:f}", "connect_us", connected, "us", now_us() - start);
}

static void raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		die("fds", 0);
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		die("fds", 0);
}

int main(int argc, char **argv)
{
	struct addrinfo *to;
	uint64_t n;

	(void)signal(SIGPIPE, SIG_IGN);
	raise_fd_limit();
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		serve(argv[2], argv[3]);
	if (argc != 5 || parse_size(argv[4], 1, UINT64_MAX, &n) < 0)
		return 2;
	to = find(argv[2], argv[3]);
	if (strcmp(argv[1], "connect") == 0)
		return print_json(time_connects(to, n));
	if (strcmp(argv[1], "push") == 0)
		return print_json(time_bytes(to, n, WANT_TAKE));
	if (strcmp(argv[1], "pull") == 0)
		return print_json(time_bytes(to, n, WANT_GIVE));
	return strcmp(argv[1], "many") == 0 ? print_json(time_many(to, n)) : 2;
}
