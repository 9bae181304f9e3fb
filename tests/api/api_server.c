/*
 * What tests/api talks to: the server of src/api with routes that show how it behaves.
 *
 *	api_server SOCKET [LIMIT=VALUE…]
 *
 * Listens at SOCKET and on a port of 127.0.0.1, which it prints, and ends on SIGTERM.
 */
#include "api/exchange.h"
#include "api/server.h"
#include "api/websocket.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/parse.h"
#include "core/error.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct loop *loop;
static struct server *server;
static struct {
	int64_t done, gone, finished, body, drained;
} count;

/* What most handlers here keep. */
struct job {
	struct exchange *x;
	struct loop_timer timer;
	uint64_t left, seen;
};

static uint64_t number(struct exchange *x, const char *name, uint64_t otherwise)
{
	const char *s = request_query(exchange_request(x), name);
	uint64_t v;

	return s && parse_u64(s, 0, UINT64_MAX, &v) == 0 ? v : otherwise;
}

static void job_close(struct exchange *x, enum exchange_end how)
{
	struct job *job = exchange_ctx(x);

	count.done += how == EXCHANGE_DONE;
	count.gone += how == EXCHANGE_GONE;
	loop_cancel(loop, &job->timer);
	free(job);
}

static struct job *job_new(struct exchange *x, const struct exchange_events *events)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		abort();
	job->x = x;
	job->timer.ctx = job;
	exchange_watch(x, events, job);
	return job;
}

/* /echo: the body, whole. */

static void echo(struct exchange *x)
{
	const struct request *r = exchange_request(x);

	exchange_respond(x, 200, "application/octet-stream", r->body, r->body_len);
}

/* /items/{id}: what was understood of the request. */

static void item(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	const struct request *r = exchange_request(x);

	json_set_str(j, "id", request_param(r, "id"));
	json_set_str(j, "q", request_query(r, "q"));
	json_set_str(j, "path", r->path);
	json_set_str(j, "header", request_header(r, "x-test"));
	json_set_str(j, "address", r->peer->address);
	json_set_bool(j, "local", r->peer->local);
	json_set_int(j, "uid", r->peer->local ? (int64_t)r->peer->uid : -1);
	json_set_int(j, "pid", r->peer->pid);
	exchange_respond_json(x, 200, j);
}

/* /pipe: the body as it comes; reads no faster than its answer is read. */

static void pipe_body(struct exchange *x, const char *data, size_t len)
{
	if (exchange_write(x, data, len) >= EXCHANGE_HIGH)
		exchange_pause(x);
}

static void pipe_end(struct exchange *x)
{
	exchange_end(x);
}

static void pipe_drain(struct exchange *x)
{
	count.drained++;
	exchange_resume(x);
}

static void pipe_start(struct exchange *x)
{
	static const struct exchange_events events = {pipe_body, pipe_end, pipe_drain, job_close};

	(void)job_new(x, &events);
	exchange_begin(x, 200, "application/octet-stream");
}

/* /upload?pause=MS: counts the body; may pause at each piece of it. */

static void upload_go_on(struct loop_timer *t)
{
	struct job *job = t->ctx;

	exchange_resume(job->x);
}

static void upload_body(struct exchange *x, const char *data, size_t len)
{
	struct job *job = exchange_ctx(x);
	uint64_t ms = number(x, "pause", 0);

	(void)data;
	job->seen += len;
	count.body += (int64_t)len;
	if (ms > 0) {
		exchange_pause(x);
		(void)loop_after(loop, &job->timer, ms);
	}
}

static void upload_end(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct job *job = exchange_ctx(x);

	json_set_int(j, "bytes", (int64_t)job->seen);
	exchange_respond_json(x, 200, j);
}

static void upload(struct exchange *x)
{
	static const struct exchange_events events = {
		.on_body = upload_body, .on_body_end = upload_end, .on_close = job_close};
	struct job *job = job_new(x, &events);

	job->timer.fire = upload_go_on;
}

/* /early: answers at the head, and does not care for the body. */

static void early(struct exchange *x)
{
	static const struct exchange_events events = {.on_close = job_close};

	(void)job_new(x, &events);
	exchange_respond(x, 200, "text/plain", "early\n", 6);
}

/* /flood?bytes=N: as much, as fast as it is read. &sized=1: with its length. */

static void flood_more(struct exchange *x)
{
	static const char block[16384];
	struct job *job = exchange_ctx(x);
	size_t buffered = 0;

	while (job->left > 0 && buffered < EXCHANGE_HIGH && !exchange_gone(x)) {
		size_t n = size_min(job->left, sizeof(block));

		buffered = exchange_write(x, block, n);
		job->left -= n;
		if (request_header(exchange_request(x), "x-test"))
			buffered = 0; /* one who does not care */
	}
	if (job->left == 0)
		exchange_end(x);
}

static void flood_drain(struct exchange *x)
{
	count.drained++;
	flood_more(x);
}

static void flood(struct exchange *x)
{
	static const struct exchange_events events = {.on_drain = flood_drain,
						      .on_close = job_close};
	struct job *job = job_new(x, &events);

	job->left = number(x, "bytes", 1000);
	if (number(x, "sized", 0))
		exchange_begin_sized(x, 200, "application/octet-stream", job->left);
	else
		exchange_begin(x, 200, "application/octet-stream");
	flood_more(x);
}

/* /slow?ms=N and /run?ms=N: an answer that takes its time; /run ends with its client. */

static void slow_fire(struct loop_timer *t)
{
	struct job *job = t->ctx;

	exchange_respond(job->x, 200, "text/plain", "slow\n", 5);
}

static void slow(struct exchange *x)
{
	static const struct exchange_events events = {.on_close = job_close};
	struct job *job = job_new(x, &events);

	job->timer.fire = slow_fire;
	(void)loop_after(loop, &job->timer, number(x, "ms", 100));
}

/* /events?n=N&ms=M: events, M apart; then an end, unless &hold=1. */

static void events_fire(struct loop_timer *t)
{
	struct job *job = t->ctx;
	_cleanup_(json_freep) struct json *j = json_new_object();

	if (job->left == 0) {
		if (!number(job->x, "hold", 0))
			exchange_end(job->x);
		return;
	}
	json_set_str(j, "text", "a\nb");
	json_set_int(j, "left", (int64_t)job->left--);
	(void)exchange_event(job->x, "tick", j);
	(void)loop_after(loop, &job->timer, number(job->x, "ms", 10));
}

static void events(struct exchange *x)
{
	static const struct exchange_events handlers = {.on_close = job_close};
	struct job *job = job_new(x, &handlers);

	job->left = number(x, "n", 3);
	job->timer.fire = events_fire;
	exchange_events_begin(x);
	(void)loop_after(loop, &job->timer, 0);
}

/* /ws: sends messages back; "close" closes, "flood" sends 16 MiB, as it is read. */

struct talk {
	struct websocket *w;
	size_t left;
};

static void talk_more(struct websocket *w)
{
	static const char block[16384];
	struct talk *talk = websocket_ctx(w);

	while (talk->left > 0) {
		talk->left -= sizeof(block);
		if (websocket_send(w, false, block, sizeof(block)) >= EXCHANGE_HIGH)
			break;
	}
}

static void talk_message(struct websocket *w, bool text, const char *data, size_t len)
{
	struct talk *talk = websocket_ctx(w);

	if (text && len == 5 && memcmp(data, "close", 5) == 0) {
		websocket_close(w, 1000, "as you wish");
	} else if (text && len == 5 && memcmp(data, "flood", 5) == 0) {
		talk->left = 16 << 20;
		talk_more(w);
	} else {
		(void)websocket_send(w, text, data, len);
	}
}

static void talk_drain(struct websocket *w)
{
	count.drained++;
	talk_more(w);
}

static void talk_close(struct websocket *w, int code)
{
	count.gone += code == 1006;
	count.done += code != 1006;
	free(websocket_ctx(w));
}

static void ws(struct exchange *x)
{
	static const struct websocket_events handlers = {talk_message, talk_drain, talk_close};
	struct talk *talk = calloc(1, sizeof(*talk));

	if (!talk)
		abort();
	talk->w = websocket_new(x, &handlers, talk);
	if (!talk->w)
		free(talk);
}

/* /fail?code=N, /broken: an answer that ends in the middle; /nothing: 204. */

static void fail(struct exchange *x)
{
	struct cay_error err;

	(void)cay_fail(&err, (enum cay_code)number(x, "code", CAY_E_INTERNAL), 0, "as you wish");
	exchange_fail(x, &err);
}

static void broken(struct exchange *x)
{
	exchange_begin_sized(x, 200, "text/plain", 100);
	(void)exchange_write(x, "half", 4);
	exchange_end(x);
}

/* Nothing but the server is behind it. */
static void health(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "status", "ok");
	json_set_str(j, "version", CAY_VERSION);
	exchange_respond_json(x, 200, j);
}

static void nothing(struct exchange *x)
{
	exchange_respond(x, 204, NULL, NULL, 0);
}

/* /drain: the last request that is taken. */

static void drain(struct exchange *x)
{
	exchange_respond(x, 200, "text/plain", "bye\n", 4);
	server_drain(server);
}

/* /count: what became of the others. */

static void counts(struct exchange *x)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_int(j, "done", count.done);
	json_set_int(j, "gone", count.gone);
	json_set_int(j, "finished", count.finished);
	json_set_int(j, "body", count.body);
	json_set_int(j, "drained", count.drained);
	json_set_int(j, "connections", (int64_t)server_connections(server));
	exchange_respond_json(x, 200, j);
}

#define ROUTE(m, p, h, ...) \
	(&(const struct route){.method = (m), .pattern = (p), .handle = (h), __VA_ARGS__})

static int authorize(struct exchange *x, struct cay_error *err)
{
	const char *key = request_header(exchange_request(x), "authorization");

	if (key && strcmp(key, "Bearer good") == 0)
		return 0;
	return cay_fail(err, CAY_E_UNAUTHORIZED, 0, "a key is needed");
}

static void finished(struct exchange *x)
{
	(void)x;
	count.finished++;
}

static const struct {
	const char *name;
	size_t offset;
} names[] = {
#define LIMIT(name)                                         \
	{                                                   \
#name, offsetof(struct server_limits, name) \
	}
	LIMIT(connections),  LIMIT(listener_connections), LIMIT(output_bytes),   LIMIT(head_ms),
	LIMIT(body_idle_ms), LIMIT(keep_alive_ms),        LIMIT(write_stall_ms), LIMIT(linger_ms),
	LIMIT(heartbeat_ms), LIMIT(body_bytes),
};

static int set_limit(struct server_limits *limits, const char *arg)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t len = strlen(names[i].name);
		uint64_t v;

		if (strncmp(arg, names[i].name, len) != 0 || arg[len] != '=')
			continue;
		if (parse_u64(arg + len + 1, 0, UINT64_MAX, &v) < 0)
			return -1;
		/* All are 64 bits wide, sizes and times alike. */
		memcpy((char *)limits + names[i].offset, &v, sizeof(v));
		return 0;
	}
	return -1;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0)
		return -1;
	return fd;
}

static int listen_tcp(unsigned *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -1;
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static void on_signal(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	loop_stop(loop);
}

static int watch_signal(struct loop_fd *f)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	*f = (struct loop_fd){.fd = signalfd(-1, &set, SFD_CLOEXEC), .ready = on_signal};
	return f->fd < 0 ? -1 : loop_add(loop, f, EPOLLIN);
}

int main(int argc, char **argv)
{
	const struct route *routes[] = {
		ROUTE("GET", "/v1/health", health, .flags = ROUTE_PUBLIC),
		ROUTE("POST", "/echo", echo, .flags = ROUTE_PUBLIC),
		ROUTE("PUT", "/echo", echo, .flags = ROUTE_PUBLIC, .max_body = 10),
		ROUTE("GET", "/items/{id}", item, .flags = ROUTE_PUBLIC),
		ROUTE("DELETE", "/items/{id}", item, .flags = ROUTE_PUBLIC),
		ROUTE("POST", "/pipe", pipe_start, .flags = ROUTE_PUBLIC | ROUTE_STREAMS_BODY,
		      .max_body = 1 << 30),
		ROUTE("POST", "/upload", upload, .flags = ROUTE_PUBLIC | ROUTE_STREAMS_BODY,
		      .max_body = 64 << 20),
		ROUTE("POST", "/early", early, .flags = ROUTE_PUBLIC | ROUTE_STREAMS_BODY,
		      .max_body = 64 << 20),
		ROUTE("POST", "/drain", drain, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/flood", flood, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/slow", slow, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/run", slow, .flags = ROUTE_PUBLIC | ROUTE_CANCELS_ON_FIN),
		ROUTE("GET", "/events", events, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/ws", ws, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/fail", fail, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/broken", broken, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/nothing", nothing, .flags = ROUTE_PUBLIC),
		ROUTE("GET", "/count", counts, .flags = ROUTE_PUBLIC),
		ROUTE("POST", "/secret", echo, .flags = 0),
	};
	static const char *const own[] = {"cay.example"};
	struct server_limits limits = server_limits_default;
	struct server_config config = {.routes = routes,
				       .n_routes = ARRAY_LEN(routes),
				       .limits = &limits,
				       .names = own,
				       .n_names = ARRAY_LEN(own),
				       .authorize = authorize,
				       .finished = finished};
	struct cay_error err = {0};
	struct loop_fd signals;
	unsigned port = 0;

	if (argc < 2)
		return 2;
	for (int i = 2; i < argc; i++)
		if (set_limit(&limits, argv[i]) < 0)
			return 2;
	config.loop = loop = loop_new();
	server = server_new(&config);
	if (!loop || !server || watch_signal(&signals) < 0 ||
	    server_listen(server, listen_unix(argv[1]), &err) < 0 ||
	    server_listen(server, listen_tcp(&port), &err) < 0) {
		(void)fprintf(stderr, "api_server: %s\n", err.text);
		return 1;
	}
	(void)printf("%u\n", port);
	(void)fflush(stdout);
	(void)loop_run(loop);
	server_free(server);
	loop_remove(loop, &signals);
	fd_closep(&signals.fd);
	loop_free(loop);
	return 0;
}
