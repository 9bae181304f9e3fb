/*
 * serve_bench launcher RUNS PARALLEL PROGRAM [ARG...]
 * serve_bench http RUNS PARALLEL SOCKET BODY
 *
 * The same runs by a launcher's process alone, and through the daemon's API over
 * keep-alive connections: PARALLEL at a time, from the request until the output was
 * read and the end is known. Prints JSON; times in microseconds.
 */
#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/parse.h"
#include "engine/native/service_main.h"
#include "engine/pipes.h"
#include "engine/service.h"
#include "policy/plan.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARALLEL_MAX 64
#define AHEAD        4 /* as cay-api asks for */
#define ANSWER_MAX   (256u << 10)

struct slot {
	uint64_t start_ns;
	bool gone;
	struct loop_fd fds[2]; /* a run's pipes, or a connection */
	uint32_t island;
	char answer[ANSWER_MAX];
	size_t len;
};

static struct loop *loop;
static struct slot slots[PARALLEL_MAX];
static uint64_t parallel, runs, begun, ended;
static uint64_t *times;
static struct loop_fd launcher;
static struct plan *plan;
static char *request;
static size_t request_len;

_noreturn_ static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print(uint64_t wall_ns)
{
	qsort(times, runs, sizeof(*times), by_size);
	(void)printf("{\"runs\":%llu,\"parallel\":%llu,\"per_second\":%.1f,\"p25_us\":%.1f,"
		     "\"median_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f}\n",
		     (unsigned long long)runs, (unsigned long long)parallel,
		     (double)runs * 1e9 / (double)wall_ns, (double)times[runs / 4] / 1e3,
		     (double)times[runs / 2] / 1e3, (double)times[runs * 9 / 10] / 1e3,
		     (double)times[runs * 99 / 100] / 1e3);
}

/* False: there are enough. */
static bool next_run(struct slot *s)
{
	if (s->start_ns)
		times[ended++] = clock_now_ns() - s->start_ns;
	s->start_ns = 0;
	if (ended == runs)
		loop_stop(loop);
	if (begun == runs)
		return false;
	begun++;
	s->start_ns = clock_now_ns();
	return true;
}

static void start_island(struct slot *s);

static void look_for_end(struct slot *s)
{
	if (s->gone && s->fds[0].fd < 0 && s->fds[1].fd < 0 && next_run(s))
		start_island(s);
}

static void on_pipe(struct loop_fd *f, uint32_t events _unused_)
{
	char text[4096];

	if (read(f->fd, text, sizeof(text)) > 0)
		return;
	loop_remove(loop, f);
	fd_closep(&f->fd);
	look_for_end(f->ctx);
}

static void start_island(struct slot *s)
{
	static uint32_t number;
	static char packet[SERVICE_PACKET_MAX];
	struct pipes pipes = PIPES_NONE;
	struct service_request q = {.kind = SERVICE_RUN, .island = ++number};
	struct cay_error err;

	if (pipes_open(&pipes, 0, &err) < 0)
		die("pipe");
	s->island = number;
	s->gone = false;
	for (int n = 0; n < 2; n++) {
		s->fds[n] = (struct loop_fd){
			.fd = take_fd(&pipes.ours[1 + n]), .ready = on_pipe, .ctx = s};
		if (loop_add(loop, &s->fds[n], EPOLLIN) < 0)
			die("epoll");
	}
	memcpy(packet, &q, sizeof(q));
	memcpy(packet + sizeof(q), plan, plan->size);
	if (msg_send(launcher.fd, packet, sizeof(q) + plan->size, pipes.theirs, 3) < 0)
		die("launcher");
	pipes_done(&pipes);
}

static void on_report(struct loop_fd *f, uint32_t events _unused_)
{
	struct service_report r;
	size_t n_fds;

	if (msg_recv(f->fd, &r, sizeof(r), NULL, 0, &n_fds) != (ssize_t)sizeof(r))
		die("launcher");
	if (r.kind == REPORT_STOCK)
		return;
	if (r.kind != REPORT_GONE || r.status != 0) {
		(void)fprintf(stderr, "a run failed: %s\n", r.error.text);
		exit(1);
	}
	for (uint64_t n = 0; n < parallel; n++)
		if (slots[n].island == r.island) {
			slots[n].gone = true;
			look_for_end(&slots[n]);
			return;
		}
}

static void start_launcher(char **argv)
{
	static struct mount_rules no_rules;
	static char packet[SERVICE_PACKET_MAX];
	struct service_request ahead = {.kind = SERVICE_AHEAD, .command = AHEAD};
	const struct service_config config = {.rules = &no_rules, .kept_dir = -1, .ahead_bytes = UINT64_MAX};
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;
	int pair[2];

	settings_init(&settings);
	for (; *argv; argv++)
		if (strv_add(&spec.args, *argv) < 0)
			die("plan");
	if (plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("plan");
	if (fork() == 0) {
		(void)close(pair[0]);
		_exit(service_main(pair[1], &config));
	}
	(void)close(pair[1]);
	launcher = (struct loop_fd){.fd = pair[0], .ready = on_report};
	memcpy(packet, &ahead, sizeof(ahead));
	memcpy(packet + sizeof(ahead), plan, plan->size);
	if (msg_send(pair[0], packet, sizeof(ahead) + plan->size, NULL, 0) < 0 ||
	    loop_add(loop, &launcher, EPOLLIN) < 0)
		die("launcher");
}

static void ask(struct slot *s)
{
	s->len = 0;
	if (fd_write_all(s->fds[0].fd, request, request_len) < 0)
		die("write");
}

/* Whole when as many bytes follow the head as it says. */
static bool is_whole(const struct slot *s)
{
	const char *end = strstr(s->answer, "\r\n\r\n"), *length;

	if (!end)
		return false;
	length = strcasestr(s->answer, "content-length:");
	return length && s->len >= (size_t)(end + 4 - s->answer) + strtoul(length + 15, NULL, 10);
}

static void on_answer(struct loop_fd *f, uint32_t events _unused_)
{
	struct slot *s = f->ctx;
	ssize_t n = read(f->fd, s->answer + s->len, ANSWER_MAX - 1 - s->len);

	if (n <= 0)
		die("read");
	s->len += (size_t)n;
	s->answer[s->len] = '\0';
	if (!is_whole(s))
		return;
	if (!strstr(s->answer, "\"status\":\"ok\"")) {
		(void)fprintf(stderr, "a run failed: %s\n", s->answer);
		exit(1);
	}
	if (next_run(s))
		ask(s);
}

static void connect_all(const char *path, const char *body)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (asprintf(&request,
		     "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n"
		     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		     strlen(body), body) < 0)
		die("request");
	request_len = strlen(request);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	for (uint64_t n = 0; n < parallel; n++) {
		struct slot *s = &slots[n];

		s->fds[0] = (struct loop_fd){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
					     .ready = on_answer,
					     .ctx = s};
		if (connect(s->fds[0].fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		    loop_add(loop, &s->fds[0], EPOLLIN) < 0)
			die(path);
	}
}

int main(int argc, char **argv)
{
	bool http = argc == 6 && strcmp(argv[1], "http") == 0;
	uint64_t start_ns;

	if ((!http && (argc < 5 || strcmp(argv[1], "launcher") != 0)) ||
	    parse_u64(argv[2], 10, 1000000, &runs) < 0 ||
	    parse_u64(argv[3], 1, PARALLEL_MAX, &parallel) < 0)
		return 2;
	loop = loop_new();
	times = calloc(runs, sizeof(*times));
	if (!loop || !times)
		die("memory");
	if (http)
		connect_all(argv[4], argv[5]);
	else
		start_launcher(argv + 4);
	(void)usleep(100000); /* what is kept ready becomes so */
	start_ns = clock_now_ns();
	for (uint64_t n = 0; n < parallel; n++)
		if (next_run(&slots[n])) {
			if (http)
				ask(&slots[n]);
			else
				start_island(&slots[n]);
		}
	if (loop_run(loop) < 0)
		die("loop");
	print(clock_now_ns() - start_ns);
	return 0;
}
