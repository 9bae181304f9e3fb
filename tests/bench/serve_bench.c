/*
 * serve_bench launcher RUNS PARALLEL PROGRAM [ARG...]
 * serve_bench python RUNS PARALLEL CODE
 * serve_bench http RUNS PARALLEL SOCKET BODY
 *
 * The same runs by a launcher's process alone, and through the daemon's API over
 * keep-alive connections: PARALLEL at a time, from the request until the output was
 * read and the end is known. Prints JSON; times in microseconds, and how many runs were warm.
 */
#include "http_run.h"
#include "service_process.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/parse.h"
#include "engine/pipes.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PARALLEL_MAX 64

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
static uint64_t parallel, runs, begun, ended, warm;
static uint64_t *times;
static struct loop_fd launcher;
static struct service_process service;
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
		     "\"median_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"warm\":%llu}\n",
		     (unsigned long long)runs, (unsigned long long)parallel,
		     (double)runs * 1e9 / (double)wall_ns, (double)times[runs / 4] / 1e3,
		     (double)times[runs / 2] / 1e3, (double)times[runs * 9 / 10] / 1e3,
		     (double)times[runs * 99 / 100] / 1e3, (unsigned long long)warm);
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
	if (service_ask(&service, q, pipes.theirs, 3) < 0)
		die("launcher");
	pipes_done(&pipes);
}

static void on_report(struct loop_fd *f _unused_, uint32_t events _unused_)
{
	struct service_report r;

	if (service_hear(&service, &r) < 0)
		die("launcher");
	if (r.kind == REPORT_STOCK)
		return;
	if (r.kind != REPORT_GONE || r.status != 0) {
		(void)fprintf(stderr, "a run failed: %s\n", r.error.text);
		exit(1);
	}
	warm += r.warm;
	for (uint64_t n = 0; n < parallel; n++)
		if (slots[n].island == r.island) {
			slots[n].gone = true;
			look_for_end(&slots[n]);
			return;
		}
}

static void start_launcher(struct spec *spec)
{
	struct cay_error err = {0};

	if (service_start(spec, &service, &err) < 0) {
		(void)fprintf(stderr, "launcher: %s\n", err.text);
		exit(1);
	}
	launcher = (struct loop_fd){.fd = service.sock, .ready = on_report};
	if (loop_add(loop, &launcher, EPOLLIN) < 0)
		die("launcher");
}

static struct spec spec_of(bool python, char **words)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct cay_error err;

	if (python && service_python(words[0], &spec, &err) < 0)
		die("plan");
	for (; *words && !python; words++)
		if (strv_add(&spec.args, *words) < 0)
			die("plan");
	return spec;
}

static void ask(struct slot *s)
{
	s->len = 0;
	if (fd_write_all(s->fds[0].fd, request, request_len) < 0)
		die("write");
}

static void on_answer(struct loop_fd *f, uint32_t events _unused_)
{
	struct slot *s = f->ctx;
	ssize_t n = read(f->fd, s->answer + s->len, ANSWER_MAX - 1 - s->len);
	bool was_warm;

	if (n <= 0)
		die("read");
	s->len += (size_t)n;
	s->answer[s->len] = '\0';
	if (!http_is_whole(s->answer, s->len))
		return;
	if (!http_is_ok(s->answer, &was_warm)) {
		(void)fprintf(stderr, "a run failed: %s\n", s->answer);
		exit(1);
	}
	warm += was_warm;
	if (next_run(s))
		ask(s);
}

static void connect_all(const char *path, const char *body)
{
	request = http_request(body);
	if (!request)
		die("request");
	request_len = strlen(request);
	for (uint64_t n = 0; n < parallel; n++) {
		struct slot *s = &slots[n];

		s->fds[0] =
			(struct loop_fd){.fd = http_connect(path), .ready = on_answer, .ctx = s};
		if (s->fds[0].fd < 0 || loop_add(loop, &s->fds[0], EPOLLIN) < 0)
			die(path);
	}
}

int main(int argc, char **argv)
{
	bool http = argc == 6 && strcmp(argv[1], "http") == 0;
	bool python = argc == 5 && strcmp(argv[1], "python") == 0;
	uint64_t start_ns;
	struct spec spec;

	if ((!http && !python && (argc < 5 || strcmp(argv[1], "launcher") != 0)) ||
	    parse_u64(argv[2], 10, 1000000, &runs) < 0 ||
	    parse_u64(argv[3], 1, PARALLEL_MAX, &parallel) < 0)
		return 2;
	loop = loop_new();
	times = calloc(runs, sizeof(*times));
	if (!loop || !times)
		die("memory");
	if (http) {
		connect_all(argv[4], argv[5]);
	} else {
		spec = spec_of(python, argv + 4);
		start_launcher(&spec);
	}
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
