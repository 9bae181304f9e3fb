/* The engine's client against a server that says what the test wants. */
#include "engine/container/containers.h"
#include "engine/container/docker_images.h"
#include "engine/container/frames.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/json.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define PING "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"
#define ID   "0123456789abcdef"

static const struct container_id id = {ID};

/* A server is a child that answers one request after the other with these texts. */
struct server {
	struct docker_place place;
	char dir[64];
	pid_t pid;
};

#define HANG  ""     /* reads, and says nothing */
#define CLOSE "\x01" /* closes the connection instead of an answer */

static void answer(int listener, const char *const *answers)
{
	int fd = -1;

	for (; *answers; answers++) {
		char request[65536];

		if (fd < 0)
			fd = accept(listener, NULL, NULL);
		if (read(fd, request, sizeof(request)) <= 0) {
			(void)close(fd);
			fd = accept(listener, NULL, NULL);
			(void)!read(fd, request, sizeof(request));
		}
		if (strcmp(*answers, CLOSE) == 0) {
			(void)close(fd);
			fd = -1;
			continue;
		}
		(void)!write(fd, *answers, strlen(*answers));
	}
	pause();
}

static void serve(struct server *s, const char *const *answers)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*s = (struct server){.place.engine = ENGINE_DOCKER, .dir = "/tmp/cay-test-XXXXXX"};
	assert_non_null(mkdtemp(s->dir));
	(void)snprintf(s->place.path, sizeof(s->place.path), "%s/socket", s->dir);
	memcpy(at.sun_path, s->place.path, sizeof(at.sun_path));
	assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 5), 0);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		answer(listener, answers);
	}
	(void)close(listener);
}

static void end(struct server *s)
{
	(void)kill(s->pid, SIGKILL);
	(void)waitpid(s->pid, NULL, 0);
	(void)unlink(s->place.path);
	(void)rmdir(s->dir);
}

static struct docker *opened(struct server *s)
{
	struct cay_error err;
	struct docker *d;

	if (docker_open(&s->place, &d, &err) < 0)
		fail_msg("%s", err.text);
	return d;
}

static void expect_no_engine(const char *const *answers, const char *says)
{
	struct cay_error err;
	struct server s;
	struct docker *d;

	serve(&s, answers);
	assert_int_equal(docker_open(&s.place, &d, &err), -1);
	assert_int_equal(err.code, CAY_E_ENGINE);
	if (!strstr(err.text, says))
		fail_msg("%s: not in: %s", says, err.text);
	assert_true(err.hint[0]);
	end(&s);
}

static void agrees_on_a_version(void **state)
{
	static const struct {
		const char *ping, *version;
		int api;
	} rows[] = {
		{PING, NULL, 41},
		{"HTTP/1.1 200 OK\r\nApi-Version: 1.43\r\nContent-Length: 0\r\n\r\n", NULL, 43},
		{"HTTP/1.1 200 OK\r\nApi-Version: 1.51\r\nContent-Length: 0\r\n\r\n", NULL, 44},
		{"HTTP/1.1 200 OK\r\nApi-Version: 1.60\r\nContent-Length: 0\r\n\r\n",
		 "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"MinAPIVersion\":\"1.44\"}", 44},
		{"HTTP/1.1 200 OK\r\nApi-Version: 1.60\r\nContent-Length: 0\r\n\r\n",
		 "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"MinAPIVersion\":\"1.50\"}", 50},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const answers[] = {rows[i].ping, rows[i].version, NULL};
		struct server s;
		struct docker *d;

		serve(&s, answers);
		d = opened(&s);
		assert_int_equal(docker_api(d), rows[i].api);
		assert_false(docker_is_podman(d));
		docker_free(d);
		end(&s);
	}
}

static void tells_who_is_no_engine(void **state)
{
	static const char *const old[] = {
		"HTTP/1.1 200 OK\r\nApi-Version: 1.40\r\nContent-Length: 0\r\n\r\n", NULL};
	static const char *const web[] = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", NULL};
	static const char *const other[] = {"SSH-2.0-OpenSSH\r\n", NULL};
	static const char *const gone[] = {CLOSE, NULL};
	struct docker_place nobody = {ENGINE_PODMAN, "/nowhere/podman.sock"};
	struct cay_error err;
	struct docker *d;

	(void)state;
	expect_no_engine(old, "too old: it speaks API 1.40");
	expect_no_engine(web, "no version");
	expect_no_engine(other, "does not answer as Docker would");
	expect_no_engine(gone, "is lost");
	assert_int_equal(docker_open(&nobody, &d, &err), -1);
	assert_int_equal(err.code, CAY_E_ENGINE);
	assert_non_null(strstr(err.hint, "podman"));
}

static void takes_answers_in_any_shape(void **state)
{
	static const char *const answers[] = {
		PING,
		"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
		"7\r\n{\"Id\":\"\r\n10\r\n" ID "\r\n2\r\n\"}\r\n0\r\n\r\n",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\n\r\n",
		"HTTP/1.1 201 Created\r\nContent-Length: 15\r\n\r\n{\"Id\":\"../../\"}\n",
		NULL};
	struct json *config = json_new_object();
	struct container_id made;
	struct cay_error err;
	struct server s;
	struct docker *d;

	(void)state;
	serve(&s, answers);
	d = opened(&s);
	assert_int_equal(container_create(d, "a b", config, &made, &err), 0);
	assert_string_equal(made.text, ID);
	assert_int_equal(container_start(d, &made, &err), 0);
	assert_int_equal(container_start(d, &made, &err), 0);
	/* What is no id never gets into a path. */
	assert_int_equal(container_create(d, NULL, config, &made, &err), -1);
	assert_int_equal(err.code, CAY_E_ENGINE);
	docker_free(d);
	end(&s);
	json_free(config);
}

static void hands_streams_over(void **state)
{
	static const char *const answers[] = {
		PING, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly",
		PING,
		"HTTP/1.1 404 Not Found\r\nContent-Length: 27\r\n\r\n{\"message\":\"No such thing\"}\n",
		NULL};
	struct docker_stream stream = DOCKER_STREAM;
	struct cay_error err;
	struct server s;
	struct docker *d;

	(void)state;
	serve(&s, answers);
	d = opened(&s);
	assert_int_equal(container_attach(d, &id, &stream, &err), 0);
	assert_true(stream.fd >= 0);
	assert_string_equal(buf_str(&stream.early), "early");
	docker_stream_done(&stream);
	end(&s);
	assert_int_equal(container_attach(d, &id, &stream, &err), -1);
	assert_int_equal(err.code, CAY_E_ENGINE);
	docker_free(d);
	serve(&s, answers + 2);
	d = opened(&s);
	assert_int_equal(container_attach(d, &id, &stream, &err), -1);
	assert_int_equal(err.code, CAY_E_NOT_FOUND);
	assert_int_equal(stream.fd, -1);
	docker_free(d);
	end(&s);
}

static void says_what_was_refused(void **state)
{
	static const struct {
		int status;
		const char *body;
		enum cay_code code;
	} rows[] = {
		{404, "{\"message\":\"No such image: x:1\"}", CAY_E_IMAGE},
		{404, "{\"message\":\"pull access denied for x, repository does not exist\"}",
		 CAY_E_IMAGE},
		{404, "{\"message\":\"No such container: x\"}", CAY_E_NOT_FOUND},
		{409, "{\"message\":\"is not running\"}", CAY_E_CONFLICT},
		{500, "{\"message\":\"write /x: no space left on device\"}", CAY_E_AT_CAPACITY},
		{500, "{\"message\":\"OCI runtime create failed: permission denied\"}",
		 CAY_E_ENGINE},
		{400, "{\"message\":\"unknown or invalid runtime name: runsc\"}",
		 CAY_E_UNSUPPORTED},
		{400, "{\"message\":\"Unknown runtime specified runsc\"}", CAY_E_UNSUPPORTED},
		{400,
		 "{\"message\":\"client version 1.44 is too old. Minimum supported API version "
		 "is 1.60, please upgrade\"}",
		 CAY_E_ENGINE},
		{500, "<html>", CAY_E_ENGINE},
	};
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(docker_refused(ENGINE_DOCKER, "do it", rows[i].status,
						rows[i].body, strlen(rows[i].body), &err),
				 -1);
		if (err.code != rows[i].code)
			fail_msg("%s: %s", rows[i].body, cay_code_name(err.code));
	}
	assert_int_equal(docker_refused(ENGINE_PODMAN, "do it", 500, "a\x1b[31m\nb", 8, &err), -1);
	assert_null(strchr(err.text, 0x1b));
}

static void gives_up_in_time(void **state)
{
	static const char *const silent[] = {PING, HANG, NULL};
	static const char *const cut[] = {PING, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
					  CLOSE, NULL};
	const struct docker_ask ask = {
		.method = "GET", .path = "/info", .timeout_ms = 100, .what = "ask"};
	struct json *j;
	struct cay_error err;
	struct server s;
	struct docker *d;
	int pipes[2];

	(void)state;
	serve(&s, silent);
	d = opened(&s);
	assert_int_equal(docker_json(d, &ask, &j, &err), -1);
	assert_int_equal(err.code, CAY_E_ENGINE);
	assert_non_null(strstr(err.text, "no answer"));
	docker_free(d);
	end(&s);

	serve(&s, cut);
	d = opened(&s);
	assert_int_equal(docker_json(d, &ask, &j, &err), -1);
	assert_null(j);
	docker_free(d);
	end(&s);

	serve(&s, silent);
	d = opened(&s);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	(void)close(pipes[1]);
	docker_cancel_by(d, pipes[0]);
	assert_int_equal(docker_info(d, &j, &err), -1);
	assert_true(docker_cancelled(d));
	(void)close(pipes[0]);
	docker_free(d);
	end(&s);
}

struct heard {
	int layers;
	uint64_t bytes;
};

static void on_pull(void *ctx, const struct docker_pull *p)
{
	struct heard *h = ctx;

	h->layers += p->layer != NULL;
	h->bytes += p->now_bytes;
}

static void follows_a_pull(void **state)
{
	static const char *const answers[] = {
		PING,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		"30\r\n{\"status\":\"Pulling\",\"id\":\"a\",\"progressDetail\":{\"\r\n"
		"1f\r\ncurrent\":5,\"total\":9}}\r\n{\"statu\r\n"
		"c\r\ns\":\"Done\"}\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3d\r\n{\"error\":\"pull access denied for x\",\"errorDetail\":{\"x\":true}}\r\n"
		"0\r\n\r\n",
		NULL};
	struct heard heard = {0};
	struct cay_error err;
	struct server s;
	struct docker *d;

	(void)state;
	serve(&s, answers);
	d = opened(&s);
	if (docker_image_pull(d, "docker.io/library/x:1", NULL, on_pull, &heard, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(heard.layers, 1);
	assert_int_equal(heard.bytes, 5);
	assert_int_equal(docker_image_pull(d, "docker.io/library/x:1", NULL, on_pull, &heard, &err),
			 -1);
	assert_int_equal(err.code, CAY_E_IMAGE);
	docker_free(d);
	end(&s);
}

static void waits_without_losing_an_end(void **state)
{
	static const char *const at_once[] = {
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{\"StatusCode\":137\r\n"
		"3\r\n}\r\n\r\n0\r\n\r\n",
		NULL};
	static const char *const ping[] = {PING, NULL};
	struct docker_later later = DOCKER_LATER;
	struct server first, s;
	struct cay_error err;
	struct docker *d;
	struct json *j;

	(void)state;
	serve(&first, ping);
	d = opened(&first);
	end(&first);
	/* The same place, another server: what waits has a connection of its own. */
	serve(&s, at_once);
	assert_int_equal(rename(s.dir, first.dir), 0);
	assert_int_equal(container_wait(d, &id, &later, &err), 0);
	for (int r = 0; r == 0;) {
		struct pollfd f = {.fd = later.fd, .events = POLLIN};

		r = docker_later(&later, &j, &err);
		assert_true(r >= 0);
		assert_true(r == 1 || poll(&f, 1, 10000) == 1);
	}
	assert_int_equal(container_wait_code(j), 137);
	json_free(j);
	docker_later_done(&later);
	docker_free(d);
	(void)snprintf(s.dir, sizeof(s.dir), "%s", first.dir);
	s.place = first.place;
	end(&s);
}

static void takes_frames_apart(void **state)
{
	static const char stream[] = "\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1e";
	const char *data = stream, *piece;
	size_t len = sizeof(stream) - 1, n;
	enum frame_kind kind;
	struct frames f = {0};

	(void)state;
	assert_int_equal(frames_next(&f, &data, &len, &kind, &piece, &n), 1);
	assert_int_equal(kind, FRAME_STDOUT);
	assert_memory_equal(piece, "out", 3);
	assert_int_equal(n, 3);
	assert_int_equal(frames_next(&f, &data, &len, &kind, &piece, &n), 1);
	assert_int_equal(kind, FRAME_STDERR);
	assert_int_equal(n, 1);
	assert_true(frames_at_border(&f));
	assert_int_equal(frames_next(&f, &data, &len, &kind, &piece, &n), 0);
	data = "hello wo";
	len = 8;
	assert_int_equal(frames_next(&f, &data, &len, &kind, &piece, &n), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_on_a_version),
		cmocka_unit_test(tells_who_is_no_engine),
		cmocka_unit_test(takes_answers_in_any_shape),
		cmocka_unit_test(hands_streams_over),
		cmocka_unit_test(says_what_was_refused),
		cmocka_unit_test(gives_up_in_time),
		cmocka_unit_test(follows_a_pull),
		cmocka_unit_test(waits_without_losing_an_end),
		cmocka_unit_test(takes_frames_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
