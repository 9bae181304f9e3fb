/*
 * Programs without an island: whom the launcher lets them run as, whatever it is told, and
 * what is left of root in them. Needs root.
 */
#include "service_client.h"

#include "base/attr.h"
#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLER 4242
#define USER   4343
#define API    4444

static char place[] = "/tmp/cay-test-bare-XXXXXX";
static char path[64], other_path[64];

static void start(const struct bare_rules *rules)
{
	client_start(-1, rules, NULL);
}

static void stop(void)
{
	char left[64];
	glob_t found;

	client_stop();
	(void)snprintf(left, sizeof(left), "%s/cay-direct-*", place);
	assert_int_equal(glob(left, 0, NULL, &found), GLOB_NOMATCH);
}

static struct bare_rules rules_of(enum mode mode)
{
	struct bare_rules r = {.mode = mode, .api = API};

	memcpy(r.socket, path, sizeof(path));
	return r;
}

static int listen_at(const char *where)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, where, strlen(where));
	(void)unlink(where);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(chmod(where, 0666), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static int connect_to(const char *where)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, where, strlen(where));
	return connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? fd : -1;
}

/* A connection to the listener that such a user made. */
static int accept_from(int listener, const char *where, uid_t uid, gid_t gid)
{
	pid_t pid = fork();
	int status, fd;

	if (pid == 0)
		_exit(setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ||
		      connect_to(where) < 0);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(fd >= 0);
	return fd;
}

static struct plan *plan_of(const char *line, const char *mount)
{
	struct spec spec = {0};
	struct cay_error err;

	if (mount)
		assert_int_equal(spec_add_mount(&spec, mount, &err), 0);
	return client_plan(spec, line);
}

static void send_order(struct service_request q, const struct plan *p, const int *fds, size_t n)
{
	client_ask(q, p, p->size, fds, n);
}

/* A run without an island, for the caller at the other end of peer; -1: by TCP. */
static struct service_report run(int peer, const char *line, char *out, size_t size)
{
	static uint32_t island;
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct plan *p = plan_of(line, NULL);
	struct cay_error err;

	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	send_order((struct service_request){.kind = SERVICE_RUN,
					    .island = ++island,
					    .flags = FLAG_BARE | (peer >= 0 ? FLAG_PEER : 0)},
		   p, (int[]){pipes.theirs[0], pipes.theirs[1], pipes.theirs[2], peer},
		   peer >= 0 ? 4 : 3);
	pipes_close_theirs(&pipes);
	client_read(&pipes, out, size);
	free(p);
	return client_hear();
}

static void is_denied(int peer, const char *says)
{
	char out[64];
	struct service_report r = run(peer, "id -u", out, sizeof(out));

	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.error.code, CAY_E_POLICY);
	assert_string_equal(out, "");
	if (!strstr(r.error.text, says) && !strstr(r.error.hint, says))
		fail_msg("'%s' not in '%s' (%s)", says, r.error.text, r.error.hint);
}

static void runs_as(int peer, uid_t uid, gid_t gid)
{
	char out[64], want[64];
	struct service_report r = run(peer, "id -u; id -g; id -G", out, sizeof(out));

	assert_int_equal(r.kind, REPORT_GONE);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.uid, uid);
	(void)snprintf(want, sizeof(want), "%u\n%u\n%u\n", uid, gid, gid);
	assert_string_equal(out, want);
}

static void mode_all_lets_nothing_out(void **state _unused_)
{
	_cleanup_(fd_closep) int listener = listen_at(path), peer = -1;
	struct bare_rules all = rules_of(MODE_ALL), unsaid = rules_of(MODE_UNSAID);

	peer = accept_from(listener, path, CALLER, CALLER);
	all.over_tcp = true;
	start(&all);
	is_denied(peer, "mode is all");
	is_denied(-1, "[serve] mode");
	stop();
	start(&unsaid);
	is_denied(peer, "mode is all");
	stop();
	start(NULL);
	is_denied(peer, "mode is all");
	stop();
}

static void callers_are_the_kernels_word(void **state _unused_)
{
	_cleanup_(fd_closep) int listener = listen_at(path);
	_cleanup_(fd_closep) int peer = accept_from(listener, path, CALLER, CALLER);
	_cleanup_(fd_closep) int root = accept_from(listener, path, 0, 0);
	_cleanup_(fd_closep) int group = accept_from(listener, path, CALLER, 0);
	_cleanup_(fd_closep) int api = accept_from(listener, path, API, API);
	struct bare_rules off = rules_of(MODE_OFF);

	start(&off);
	runs_as(peer, CALLER, CALLER);
	is_denied(root, "direct_user");
	is_denied(group, "group is root's");
	is_denied(api, "the daemon's own user");
	is_denied(-1, "direct_over_tcp");
	stop();
	off.mode = MODE_SELECTIVE;
	off.has_user = true;
	off.uid = off.gid = USER;
	start(&off);
	runs_as(peer, CALLER, CALLER);
	runs_as(root, USER, USER);
	is_denied(-1, "direct_over_tcp");
	stop();
	off.over_tcp = true;
	start(&off);
	runs_as(-1, USER, USER);
	stop();
	off.uid = 0;
	start(&off);
	is_denied(-1, "direct_user");
	is_denied(root, "direct_user");
	stop();
	off.has_user = false;
	start(&off);
	is_denied(-1, "direct_user");
	stop();
}

/* All that an asker could make itself, or has lying about. */
static void forged_connections_are_none(void **state _unused_)
{
	_cleanup_(fd_closep) int listener = listen_at(path), other = listen_at(other_path);
	_cleanup_(fd_closep) int near = connect_to(path);
	_cleanup_(fd_closep) int far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	_cleanup_(fd_closep) int stranger = accept_from(other, other_path, CALLER, CALLER);
	_cleanup_(fd_closep) int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	_cleanup_(fd_closep) int file = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct bare_rules off = rules_of(MODE_OFF);
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	off.has_user = off.over_tcp = true;
	off.uid = off.gid = USER;
	start(&off);
	runs_as(far, USER, USER); /* the control: ours is root's, and known by its address */
	is_denied(pair[0], "no caller's connection");
	is_denied(listener, "no caller's connection");
	is_denied(near, "no caller's connection");
	is_denied(stranger, "no caller's connection");
	is_denied(tcp, "no caller's connection");
	is_denied(file, "no caller's connection");
	stop();
	off.socket[0] = '\0';
	start(&off);
	is_denied(pair[0], "no caller's connection");
	is_denied(far, "no caller's connection");
	stop();
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static void is_no_request(struct service_request q, const struct plan *p, const int *fds, size_t n)
{
	struct service_report r;

	send_order(q, p, fds, n);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_true(r.error.code == CAY_E_INVALID || r.error.code == CAY_E_UNSUPPORTED);
}

static void orders_must_be_whole(void **state _unused_)
{
	_cleanup_(fd_closep) int listener = listen_at(path);
	_cleanup_(fd_closep) int peer = accept_from(listener, path, CALLER, CALLER);
	struct bare_rules off = rules_of(MODE_OFF);
	struct plan *p = plan_of("true", NULL), *mounts = plan_of("true", "/usr:/data");
	const int fds[] = {0, 0, 0, peer};

	start(&off);
	/* A caller for an island; none where one is announced; a command that leaves its island. */
	is_no_request(
		(struct service_request){.kind = SERVICE_RUN, .island = 1, .flags = FLAG_PEER}, p,
		fds, 4);
	is_no_request((struct service_request){.kind = SERVICE_RUN,
					       .island = 1,
					       .flags = FLAG_BARE | FLAG_PEER},
		      p, fds, 3);
	is_no_request(
		(struct service_request){.kind = SERVICE_RUN, .island = 1, .flags = FLAG_BARE}, p,
		fds, 4);
	is_no_request((struct service_request){.kind = SERVICE_COMMAND,
					       .island = 1,
					       .command = 1,
					       .flags = FLAG_BARE | FLAG_PEER},
		      p, fds, 4);
	is_no_request((struct service_request){.kind = SERVICE_RUN,
					       .island = 1,
					       .flags = FLAG_BARE | FLAG_PEER},
		      mounts, fds, 4);
	stop();
	free(p);
	free(mounts);
}

static void root_is_gone_for_good(void **state _unused_)
{
	static const char line[] =
		"grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status | tr -d ' \\t';"
		"ls /proc/self/fd | tr '\\n' ' '; echo; stat -c %u:%a .; umask;"
		"kill -0 $PPID 2>/dev/null || echo steward is out of reach";
	static const char *const want[] = {
		"Uid:4242424242424242\n",
		"Gid:4242424242424242\n",
		"Groups:\n",
		"CapInh:0000000000000000\n",
		"CapPrm:0000000000000000\n",
		"CapEff:0000000000000000\n",
		"CapBnd:0000000000000000\n",
		"CapAmb:0000000000000000\n",
		"NoNewPrivs:1\n",
		"0 1 2 3 \n", /* 3 is ls's own */
		"4242:700\n",
		"0022\n",
		"steward is out of reach\n",
	};
	_cleanup_(fd_closep) int listener = listen_at(path);
	_cleanup_(fd_closep) int peer = accept_from(listener, path, CALLER, CALLER);
	struct bare_rules off = rules_of(MODE_OFF);
	struct service_report r;
	char out[1024];

	start(&off);
	r = run(peer, line, out, sizeof(out));
	assert_int_equal(r.kind, REPORT_GONE);
	for (size_t n = 0; n < ARRAY_LEN(want); n++)
		if (!strstr(out, want[n]))
			fail_msg("no %s in %s", want[n], out);
	assert_int_equal(r.isolation.user, HOLD_NONE);
	assert_int_equal(r.isolation.network, HOLD_HOST);
	assert_int_equal(r.isolation.capabilities, HOLD_NONE);
	assert_true(r.isolation.no_new_privs);
	stop();
}

static int make_place(void **state _unused_)
{
	if (!mkdtemp(place) || chmod(place, 0755) < 0 || setenv("TMPDIR", place, 1) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/a", place);
	(void)snprintf(other_path, sizeof(other_path), "%s/b", place);
	return 0;
}

static int remove_place(void **state _unused_)
{
	(void)unlink(path);
	(void)unlink(other_path);
	return rmdir(place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mode_all_lets_nothing_out),
		cmocka_unit_test(callers_are_the_kernels_word),
		cmocka_unit_test(forged_connections_are_none),
		cmocka_unit_test(orders_must_be_whole),
		cmocka_unit_test(root_is_gone_for_good),
	};

	return cmocka_run_group_tests(tests, make_place, remove_place);
}
