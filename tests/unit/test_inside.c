/* PID 1 of a container, in a process namespace of its own: what it refuses to do. */
#include "plan_support.h"
#include "must_work.h"

#include "base/fd.h"
#include "engine/container/inside.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int wire[2];

/* In there all that it ends is its own. */
static pid_t start_inside(void)
{
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire), 0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		(void)close(wire[0]);
		_exit(getpid() == 1 ? inside_serve(wire[1], wire[1]) : 99);
	}
	(void)close(wire[1]);
	if (pid < 0) {
		(void)close(wire[0]);
		CANT_RUN("no process namespaces can be made");
	}
	return pid;
}

static void add(struct buf *b, enum wire_kind kind, uint32_t command, const void *head,
		size_t head_len, const struct plan *p)
{
	struct wire_head h = {
		.kind = kind, .command = command, .len = (uint32_t)(head_len + p->size)};

	assert_int_equal(buf_append(b, &h, sizeof(h)), 0);
	assert_int_equal(buf_append(b, head, head_len), 0);
	assert_int_equal(buf_append(b, p, p->size), 0);
}

/* What it answers: each a failure, of the command, saying so. */
static void read_failure(uint32_t command, const char *words)
{
	struct wire_head h;
	struct cay_error err;

	assert_int_equal(recv(wire[0], &h, sizeof(h), MSG_WAITALL), sizeof(h));
	assert_int_equal(h.kind, WIRE_FAILED);
	assert_int_equal(h.command, command);
	assert_int_equal(h.len, sizeof(err));
	assert_int_equal(recv(wire[0], &err, sizeof(err), MSG_WAITALL), sizeof(err));
	cay_error_mend(&err);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

static struct plan *plan_with(const char *mount)
{
	struct cay_error err;

	spec->engine = ENGINE_DOCKER;
	spec->container_image = "docker.io/library/python:3.12-slim";
	use_code("sh", "exit 7");
	if (mount)
		assert_int_equal(spec_add_mount(spec, mount, &err), 0);
	return make(runtime, NULL);
}

/* All said at once: no order is obeyed where the mounts are others, and there is no second try. */
static void test_nothing_after_a_failed_setup(void **state)
{
	_cleanup_(freep) struct plan *plain = plan_with(NULL), *mounted = plan_with("/src:/mnt:rw");
	_cleanup_(buf_done) struct buf said = BUF(1u << 20);
	struct {
		struct wire_setup setup;
		struct wire_mount mount;
	} head = {{.n_mounts = 1}, {.dev = 1, .ino = UINT64_MAX}};
	struct wire_order order = {.flags = 0};
	pid_t pid = start_inside();
	int status;
	char more;

	(void)state;
	add(&said, WIRE_SETUP, 0, &head, sizeof(head), mounted);
	add(&said, WIRE_ORDER, 5, &order, sizeof(order), plain);
	head.setup.n_mounts = 0;
	add(&said, WIRE_SETUP, 0, &head.setup, sizeof(head.setup), plain);
	add(&said, WIRE_ORDER, 6, &order, sizeof(order), plain);
	assert_int_equal(write(wire[0], said.data, said.len), said.len);
	assert_int_equal(shutdown(wire[0], SHUT_WR), 0);
	read_failure(0, "/mnt did not land");
	read_failure(5, "wrong time");
	read_failure(0, "made for");
	read_failure(6, "wrong time");
	assert_int_equal(recv(wire[0], &more, 1, 0), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	(void)close(wire[0]);
}

static void landed(const struct plan *p, const char *lines, const char *words)
{
	struct cay_error err = {0};
	int r = inside_landed(p, lines, &err);

	assert_int_equal(r, words ? -1 : 0);
	if (!words)
		return;
	assert_int_equal(err.code, CAY_E_NOT_ENFORCEABLE);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

#define LINE(root, point) "36 35 8:1 " root " " point " rw,nosuid shared:1 - ext4 /dev/x rw\n"

static void test_where_mounts_land(void **state)
{
	_cleanup_(freep) struct plan *none = plan_with(NULL);
	_cleanup_(freep) struct plan *one = plan_with("/src:/mnt/a b");

	(void)state;
	landed(none, LINE("/", "/"), NULL);
	landed(one, LINE("/", "/") LINE("/src", "/mnt/a\\040b"), NULL);
	landed(one, LINE("/", "/") LINE("/src", "/etc"), "did not land there");
	landed(one, LINE("/mnt/a\\040b", "/"), "did not land there");
	landed(one, LINE("/src", "/mnt/a\\040b/c"), "did not land there");
	landed(one, LINE("/src", "/mnt/a\\040b//deleted"), "did not land there");
	landed(one, LINE("/src", "/mnt/a\\040b") LINE("/x", "/mnt/a\\040b"), "did not land there");
	landed(one, "", "did not land there");
	landed(one, LINE("/src", "/mnt/a\\040b") "36 35\n", "mounts");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_after_a_failed_setup, begin, end),
		cmocka_unit_test_setup_teardown(test_where_mounts_land, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
