/*
 * Each call of the engine's client once, on a real engine: calls ENGINE SOCKET IMAGE LABEL. The
 * image has a shell; the host's /usr is mounted where it has none of its own (USR=1).
 */
#include "engine/container/containers.h"
#include "engine/container/docker_images.h"
#include "engine/container/frames.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000

static struct cay_error err;

#define MUST(call)                                                                            \
	do {                                                                                  \
		if ((call) < 0) {                                                             \
			(void)fprintf(stderr, "%d: %s: %s (%s)\n", __LINE__, #call, err.text, \
				      err.hint);                                              \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

#define CHECK(that)                                                              \
	do {                                                                     \
		if (!(that)) {                                                   \
			(void)fprintf(stderr, "%d: not: %s\n", __LINE__, #that); \
			exit(1);                                                 \
		}                                                                \
	} while (0)

static struct json *words(const char *const *argv)
{
	struct json *j = json_new_array();

	for (; *argv; argv++)
		json_add_str(j, *argv);
	return j;
}

static struct json *ulimits(void)
{
	static const char *const names[] = {"nofile", "nproc"};
	struct json *list = json_new_array();

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct json *one = json_new_object();

		json_set_str(one, "Name", names[i]);
		json_set_int(one, "Soft", 1024);
		json_set_int(one, "Hard", 1024);
		json_add(list, one);
	}
	return list;
}

static struct json *config(const char *image, const char *label, const char *const *argv)
{
	struct json *j = json_new_object(), *labels = json_new_object(), *host = json_new_object();
	const char *const binds[] = {"/usr:/usr:ro", NULL};

	json_set_str(j, "Image", image);
	json_set(j, "Cmd", words(argv));
	json_set_bool(j, "OpenStdin", true);
	json_set_bool(j, "StdinOnce", true);
	json_set_str(labels, label, "calls");
	json_set(j, "Labels", labels);
	json_set_str(host, "NetworkMode", "none");
	/* Podman's own defaults are more than a root without CAP_SYS_RESOURCE may give. */
	json_set(host, "Ulimits", ulimits());
	if (getenv("USR"))
		json_set(host, "Binds", words(binds));
	json_set(j, "HostConfig", host);
	return j;
}

struct printed {
	struct buf out, err;
};

static void take(struct frames *f, struct printed *p, const char *data, size_t len)
{
	enum frame_kind kind;
	const char *piece;
	size_t n;
	int r;

	while ((r = frames_next(f, &data, &len, &kind, &piece, &n)) == 1)
		CHECK(buf_append(kind == FRAME_STDERR ? &p->err : &p->out, piece, n) == 0);
	CHECK(r == 0);
}

/* All that comes, up to the end of the stream. */
static struct printed drain(struct docker_stream *s)
{
	struct printed p = {BUF(1 << 20), BUF(1 << 20)};
	struct frames f = {0};
	char piece[4096];
	ssize_t n;

	take(&f, &p, buf_str(&s->early), s->early.len);
	for (;;) {
		struct pollfd wait = {.fd = s->fd, .events = POLLIN};

		CHECK(poll(&wait, 1, WAIT_MS) == 1);
		n = recv(s->fd, piece, sizeof(piece), 0);
		if (n <= 0)
			break;
		take(&f, &p, piece, (size_t)n);
	}
	CHECK(n == 0 && frames_at_border(&f));
	docker_stream_done(s);
	return p;
}

static int wait_end(struct docker_later *later)
{
	struct json *answer = NULL;
	int r, code;

	while ((r = docker_later(later, &answer, &err)) == 0) {
		struct pollfd wait = {.fd = later->fd, .events = POLLIN};

		CHECK(poll(&wait, 1, WAIT_MS) == 1);
	}
	MUST(r);
	code = container_wait_code(answer);
	json_free(answer);
	docker_later_done(later);
	return code;
}

static struct container_state state_of(struct docker *d, const struct container_id *id)
{
	struct container_state s;
	struct json *j;

	MUST(container_inspect(d, id->text, &j, &err));
	container_state_read(j, &s);
	json_free(j);
	return s;
}

/* Create, attach, wait, start; input until its end; both streams, the code, all of it. */
static void run(struct docker *d, const char *image, const char *label)
{
	const char *const argv[] = {"/bin/sh", "-c", "cat; echo beside >&2; exit 3", NULL};
	struct json *c = config(image, label, argv);
	struct docker_stream s = DOCKER_STREAM;
	struct docker_later later = DOCKER_LATER;
	struct container_id id;
	struct printed p;

	MUST(container_create(d, NULL, c, &id, &err));
	MUST(container_attach(d, &id, &s, &err));
	MUST(container_wait(d, &id, &later, &err));
	MUST(container_start(d, &id, &err));
	CHECK(send(s.fd, "hello\n", 6, 0) == 6);
	CHECK(shutdown(s.fd, SHUT_WR) == 0);
	p = drain(&s);
	CHECK(strcmp(buf_str(&p.out), "hello\n") == 0);
	CHECK(strcmp(buf_str(&p.err), "beside\n") == 0);
	CHECK(wait_end(&later) == 3);
	CHECK(!state_of(d, &id).running && state_of(d, &id).exit_code == 3);
	/* Nothing to kill is no failure, nor is to remove it twice. */
	MUST(container_kill(d, &id, SIGKILL, &err));
	MUST(container_remove(d, &id, &err));
	MUST(container_remove(d, &id, &err));
	CHECK(container_start(d, &id, &err) < 0 && err.code == CAY_E_NOT_FOUND);
	buf_done(&p.out);
	buf_done(&p.err);
	json_free(c);
}

struct seen {
	struct container_id id;
	int n;
};

static int note(void *ctx, const struct container_listed *c, struct cay_error *e)
{
	struct seen *s = ctx;

	(void)e;
	s->n++;
	s->id = c->id;
	CHECK(c->running && json_kind(c->labels) == JSON_KIND_OBJECT);
	return 0;
}

static int gather(void *ctx, const char *data, size_t len, struct cay_error *e)
{
	(void)e;
	CHECK(buf_append(ctx, data, len) == 0);
	return 0;
}

static int first(void *ctx, const struct json *event, struct cay_error *e)
{
	(void)e;
	CHECK(json_get(event, "Type") != NULL);
	++*(int *)ctx;
	return 1;
}

/* A file goes in as a tar and comes out as one. */
static void files(struct docker *d, const struct container_id *id)
{
	struct buf out = BUF(1 << 20);
	int fd = open(getenv("TAR"), O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	MUST(container_put(d, id, "/tmp", fd, &err));
	MUST(container_get(d, id, "/tmp/note", gather, &out, &err));
	CHECK(out.len >= 1024 && memmem(out.data, out.len, "a line\n", 7) != NULL);
	CHECK(container_get(d, id, "/nowhere", gather, &out, &err) < 0 &&
	      err.code == CAY_E_NOT_FOUND);
	(void)close(fd);
	buf_done(&out);
}

static void command(struct docker *d, const struct container_id *id)
{
	const char *const argv[] = {"/bin/sh", "-c", "echo out; echo err >&2; exit 4", NULL};
	struct json *c = json_new_object();
	struct docker_stream s = DOCKER_STREAM;
	struct container_id exec;
	struct printed p;
	int code;

	json_set_bool(c, "AttachStdout", true);
	json_set_bool(c, "AttachStderr", true);
	json_set(c, "Cmd", words(argv));
	MUST(container_exec(d, id, c, &exec, &err));
	MUST(container_exec_start(d, &exec, false, &s, &err));
	p = drain(&s);
	CHECK(strcmp(buf_str(&p.out), "out\n") == 0 && strcmp(buf_str(&p.err), "err\n") == 0);
	do
		MUST(container_exec_inspect(d, &exec, &code, &err));
	while (code < 0);
	CHECK(code == 4);
	buf_done(&p.out);
	buf_done(&p.err);
	json_free(c);
}

/* Podman 4 does not tell what was before, so something happens again and again meanwhile. */
static void hear(struct docker *d, const char *label, const struct container_id *id)
{
	pid_t pid = fork();
	int events = 0;
	char filter[64];

	CHECK(pid >= 0);
	if (pid == 0) {
		struct docker *own;

		MUST(docker_open(docker_place(d), &own, &err));
		while (getppid() != 1)
			if (container_pause(own, id, &err) < 0 ||
			    container_unpause(own, id, &err) < 0)
				_exit(1);
		_exit(0);
	}
	(void)snprintf(filter, sizeof(filter), "%s=calls", label);
	MUST(container_events(d, filter, 0, first, &events, &err));
	CHECK(events == 1);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	/* What the child had asked for last may just be happening. */
	while (state_of(d, id).paused)
		(void)container_unpause(d, id, &err);
}

static void live(struct docker *d, const char *image, const char *label)
{
	const char *const argv[] = {"/bin/sh", "-c", "echo up; sleep 1000", NULL};
	struct json *c = config(image, label, argv);
	struct docker_stream s = DOCKER_STREAM;
	struct docker_later later = DOCKER_LATER;
	struct container_usage use;
	struct container_id id;
	struct seen seen = {.n = 0};
	struct pollfd up;
	int events = 0, pipes[2];

	MUST(container_create(d, NULL, c, &id, &err));
	MUST(container_attach(d, &id, &s, &err));
	MUST(container_wait(d, &id, &later, &err));
	MUST(container_start(d, &id, &err));
	up = (struct pollfd){.fd = s.fd, .events = POLLIN};
	CHECK(s.early.len > 0 || poll(&up, 1, WAIT_MS) == 1);
	CHECK(state_of(d, &id).running && state_of(d, &id).pid > 1);
	MUST(container_list(d, label, note, &seen, &err));
	CHECK(seen.n == 1 && strcmp(seen.id.text, id.text) == 0);
	MUST(container_usage(d, &id, &use, &err));
	CHECK(use.memory_bytes > 0 && use.processes >= 1);
	command(d, &id);
	files(d, &id);
	MUST(container_pause(d, &id, &err));
	CHECK(state_of(d, &id).paused);
	MUST(container_unpause(d, &id, &err));
	CHECK(!state_of(d, &id).paused);
	hear(d, label, &id);
	/* A call that would last is ended by its fd, and the next goes on. */
	CHECK(pipe(pipes) == 0 && close(pipes[1]) == 0);
	docker_cancel_by(d, pipes[0]);
	CHECK(container_events(d, "no-such-label", 0, first, &events, &err) < 0 &&
	      docker_cancelled(d));
	docker_cancel_by(d, -1);
	(void)close(pipes[0]);
	MUST(container_kill(d, &id, SIGKILL, &err));
	CHECK(wait_end(&later) == 128 + SIGKILL);
	MUST(container_remove(d, &id, &err));
	docker_stream_done(&s);
	json_free(c);
}

static void images(struct docker *d, const char *image)
{
	struct json *j;

	MUST(docker_image_inspect(d, image, &j, &err));
	CHECK(json_get(j, "Id") != NULL);
	json_free(j);
	CHECK(docker_image_inspect(d, "cay.invalid/a/b:c", &j, &err) < 0 &&
	      err.code == CAY_E_IMAGE);
	CHECK(docker_image_pull(d, "localhost:1/no/image:1", NULL, NULL, NULL, &err) < 0 &&
	      err.code == CAY_E_IMAGE);
	MUST(docker_image_list(d, &j, &err));
	CHECK(json_len(j) >= 1);
	json_free(j);
}

static void missing_image(struct docker *d, const char *label)
{
	const char *const argv[] = {"/bin/true", NULL};
	struct json *c = config("cay.invalid/none:1", label, argv);
	struct container_id id;

	CHECK(container_create(d, NULL, c, &id, &err) < 0 && err.code == CAY_E_IMAGE);
	CHECK(err.hint[0]);
	json_free(c);
}

int main(int argc, char **argv)
{
	struct docker_place place = {.engine = argc > 1 && strcmp(argv[1], "podman") == 0
						       ? ENGINE_PODMAN
						       : ENGINE_DOCKER};
	struct docker *d;
	struct json *j;

	CHECK(argc == 5 && strlen(argv[2]) < sizeof(place.path));
	(void)snprintf(place.path, sizeof(place.path), "%s", argv[2]);
	MUST(docker_open(&place, &d, &err));
	CHECK(docker_is_podman(d) == (place.engine == ENGINE_PODMAN));
	CHECK(docker_api(d) >= DOCKER_API_LEAST && docker_api(d) <= DOCKER_API_MOST);
	MUST(docker_version(d, &j, &err));
	json_free(j);
	MUST(docker_info(d, &j, &err));
	json_free(j);
	run(d, argv[3], argv[4]);
	live(d, argv[3], argv[4]);
	images(d, argv[3]);
	missing_image(d, argv[4]);
	(void)printf("1.%d\n", docker_api(d));
	docker_free(d);
	return 0;
}
