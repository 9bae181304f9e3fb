#include "cli/serve_images.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/json.h"
#include "image/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM        "cay-image"
#define AT_ONCE_MAX    4
#define LINE_MAX_BYTES 8192

struct call {
	pid_t pid; /* 0: none */
	int out;   /* where its end is told */
};

struct images {
	const struct settings *settings;
	int sock, signals;
	struct call calls[AT_ONCE_MAX];
};

/* A pipe takes a line of this length whole or not at all, and a reader who is slow waits for none.
 */
static void write_line(int out, struct json *j)
{
	_cleanup_(buf_done) struct buf text = BUF(LINE_MAX_BYTES);

	if (json_text(j, &text) == 0 && fd_set_nonblock(out, 1) == 0)
		(void)!write(out, text.data, text.len);
	json_free(j);
}

static void write_end(int out, int code)
{
	struct json *j = json_new_object();

	json_set_int(j, "ended", code);
	write_line(out, j);
}

static void refuse(int out, const struct cay_error *err)
{
	write_line(out, cay_error_json(err, NULL));
	write_end(out, err->exit_code);
}

_noreturn_ static void be_program(int program, const struct image_order *o, int out, pid_t parent)
{
	static const char *const verbs[] = {[IMAGE_ORDER_PULL] = "pull", [IMAGE_ORDER_RM] = "rm"};
	const char *argv[9] = {PROGRAM, "--progress", "json"};
	int n = 3, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	if (o->platform[0]) {
		argv[n++] = "--platform";
		argv[n++] = o->platform;
	}
	argv[n++] = verbs[o->kind];
	argv[n++] = "--";
	argv[n++] = o->name;
	(void)sigemptyset(&none);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    sigprocmask(SIG_SETMASK, &none, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 ||
	    getppid() != parent)
		_exit(126);
	(void)fexecve(program, (char *const *)(uintptr_t)argv, environ);
	_exit(127);
}

static struct call *free_call(struct images *im)
{
	for (size_t i = 0; i < AT_ONCE_MAX; i++)
		if (im->calls[i].pid == 0)
			return &im->calls[i];
	return NULL;
}

/* out is taken over where it goes well. */
static int start(struct images *im, const struct image_order *o, size_t len, int *out,
		 struct cay_error *err)
{
	_cleanup_(fd_closep) int program = -1;
	struct call *c = free_call(im);
	pid_t self = getpid(), pid;

	if (image_order_check(o, len, im->settings, err) < 0)
		return -1;
	if (!c)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "%d images are being pulled or removed",
				AT_ONCE_MAX);
	program = helper_open(PROGRAM);
	if (program < 0)
		return cay_fail(err, CAY_E_ENGINE, -program, "find " PROGRAM);
	pid = fork();
	if (pid < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start " PROGRAM);
	if (pid == 0)
		be_program(program, o, *out, self);
	*c = (struct call){.pid = pid, .out = take_fd(out)};
	return 0;
}

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Whether there may be more. */
static bool take_order(struct images *im)
{
	struct image_order o;
	_cleanup_(fd_closep) int out = -1;
	struct cay_error err;
	size_t n_fds = 0;
	ssize_t n = msg_recv(im->sock, &o, sizeof(o), &out, 1, &n_fds);

	if (n < 0)
		out = -1; /* closed already */
	if (n == 0 || (n < 0 && n != -EMSGSIZE))
		return n == -EAGAIN;
	/* Without a pipe to answer by there is nobody to be told. */
	if (n < 0 || n_fds != 1 || !is_pipe(out))
		return true;
	if (start(im, &o, (size_t)n, &out, &err) < 0)
		refuse(out, &err);
	return true;
}

static void reap(struct images *im)
{
	struct signalfd_siginfo info;

	while (read(im->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	for (size_t i = 0; i < AT_ONCE_MAX; i++) {
		struct call *c = &im->calls[i];
		int status;

		if (c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
			continue;
		write_end(c->out, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
		fd_closep(&c->out);
		c->pid = 0;
	}
}

int serve_images(int sock, const struct settings *s)
{
	struct images im = {.settings = s, .sock = sock};
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return 125;
	im.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (im.signals < 0)
		return 125;
	for (;;) {
		struct pollfd wait[] = {{.fd = sock, .events = POLLIN},
					{.fd = im.signals, .events = POLLIN}};

		if (poll(wait, ARRAY_LEN(wait), -1) < 0 && errno != EINTR)
			return 125;
		if (wait[1].revents)
			reap(&im);
		/* cay-image ends with us: what it had begun is never seen. */
		if (wait[0].revents && !take_order(&im))
			return 0;
	}
}
