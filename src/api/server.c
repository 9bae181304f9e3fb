#include "api/server.h"

#include "api/connection.h"
#include "base/fd.h"
#include "core/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPTS_AT_ONCE 64
#define ACCEPT_AGAIN_MS 100
#define KEEPALIVE_S     60

const struct server_limits server_limits_default = {
	.connections = 4096,
	.listener_connections = 3072,
	.line_bytes = 8192,
	.head_bytes = 32768,
	.header_lines = 100,
	.body_bytes = (size_t)1 << 20,
	.output_bytes = (size_t)512 << 20,
	.head_ms = 10000,
	.body_idle_ms = 30000,
	.keep_alive_ms = 75000,
	.write_stall_ms = 60000,
	.linger_ms = 2000,
	.heartbeat_ms = 15000,
};

_Static_assert(HTTP_HEADERS_MAX >= 100, "as many headers as the default allows");

struct server *server_new(const struct server_config *config)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->config = *config;
	s->limits = config->limits ? *config->limits : server_limits_default;
	return s;
}

void server_remember(struct connection *c)
{
	struct server *s = c->server;

	c->next = s->first;
	c->link = &s->first;
	if (c->next)
		c->next->link = &c->next;
	s->first = c;
	if (c->refused) {
		s->n_refused++;
		return;
	}
	s->n_connections++;
	c->listener->n_connections++;
}

void server_forget(struct connection *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (c->refused) {
		c->server->n_refused--;
		return;
	}
	c->server->n_connections--;
	c->listener->n_connections--;
}

static void print_address(const struct sockaddr_storage *a, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN] = "?";
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (a->ss_family == AF_INET) {
		(void)inet_ntop(AF_INET, &v4->sin_addr, address, sizeof(address));
		(void)snprintf(text, size, "%s:%u", address, ntohs(v4->sin_port));
	} else {
		(void)inet_ntop(AF_INET6, &v6->sin6_addr, address, sizeof(address));
		(void)snprintf(text, size, "[%s]:%u", address, ntohs(v6->sin6_port));
	}
}

int peer_of(int fd, bool tcp, struct peer *ret)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct ucred cred;

	*ret = (struct peer){.uid = (uid_t)-1, .gid = (gid_t)-1, .fd = fd};
	if (tcp) {
		if (getpeername(fd, (struct sockaddr *)&a, &len) < 0)
			return -1;
		print_address(&a, ret->address, sizeof(ret->address));
		return 0;
	}
	len = sizeof(cred);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -1;
	ret->local = true;
	ret->uid = cred.uid;
	ret->gid = cred.gid;
	ret->pid = cred.pid;
	(void)snprintf(ret->address, sizeof(ret->address), "unix");
	return 0;
}

/* No fds or no memory: the client stays in the kernel's queue until there are. */
static void rest(struct listener *l)
{
	struct loop *loop = l->server->config.loop;

	if (loop_after(loop, &l->again, ACCEPT_AGAIN_MS) == 0)
		(void)loop_change(loop, &l->fd, 0);
}

static void on_again(struct loop_timer *t)
{
	struct listener *l = t->ctx;

	(void)loop_change(l->server->config.loop, &l->fd, EPOLLIN);
}

/* A client whose machine is gone sends no FIN: the kernel shall ask for it. */
static void set_tcp_options(int fd)
{
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){KEEPALIVE_S}, sizeof(int));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){KEEPALIVE_S / 4}, sizeof(int));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){4}, sizeof(int));
}

static void welcome(struct listener *l, int fd)
{
	const struct server *s = l->server;
	bool full = s->n_connections >= s->limits.connections ||
		    l->n_connections >= s->limits.listener_connections;

	if (full && s->n_refused >= REFUSED_MAX) {
		fd_closep(&fd);
		return;
	}
	if (l->tcp)
		set_tcp_options(fd);
	connection_new(l, fd, full);
}

static void on_accept(struct loop_fd *f, uint32_t events)
{
	struct listener *l = f->ctx;

	(void)events;
	for (int i = 0; i < ACCEPTS_AT_ONCE && f->added; i++) {
		int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			welcome(l, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			rest(l);
		/* All others are of the one connection that was lost, or say that there is none. */
		if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO)
			return;
	}
}

int server_listen(struct server *s, int fd, struct cay_error *err)
{
	struct listener *l = &s->listeners[s->n_listeners];
	struct sockaddr_storage a = {0};
	socklen_t len = sizeof(a);
	int r;

	if (s->n_listeners == LISTENERS_MAX)
		return cay_fail(err, CAY_E_INTERNAL, 0, "more than %d listeners", LISTENERS_MAX);
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "ask a listener for its name");
	r = fd_set_nonblock(fd, 1);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "make a listener non-blocking");
	*l = (struct listener){.server = s, .tcp = a.ss_family != AF_UNIX};
	l->fd = (struct loop_fd){.fd = fd, .ready = on_accept, .ctx = l};
	l->again = (struct loop_timer){.fire = on_again, .ctx = l};
	r = loop_add(s->config.loop, &l->fd, EPOLLIN);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "wait for connections");
	s->n_listeners++;
	return 0;
}

static void stop_listening(struct server *s)
{
	for (size_t i = 0; i < s->n_listeners; i++) {
		struct listener *l = &s->listeners[i];

		loop_cancel(s->config.loop, &l->again);
		loop_remove(s->config.loop, &l->fd);
		fd_closep(&l->fd.fd);
	}
}

void server_drain(struct server *s)
{
	s->draining = true;
	stop_listening(s);
	for (struct connection *c = s->first; c; c = c->next) {
		if (c->state == CONN_HEAD && !(c->parser && http_parser_begun(c->parser)))
			connection_break(c);
	}
}

size_t server_connections(const struct server *s)
{
	return s->n_connections;
}

void server_break(struct server *s, server_caller_fn *is, const void *ctx)
{
	for (struct connection *c = s->first; c; c = c->next)
		if (c->exchange && c->exchange->caller && is(ctx, c->exchange->caller))
			connection_break(c);
}

void server_free(struct server *s)
{
	if (!s)
		return;
	stop_listening(s);
	while (s->first)
		connection_free(s->first);
	free(s);
}
