#include "engine/native/systemd_scope.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A little more than cay-scope itself takes at most. */
#define DEADLINE_MS 6000

/* systemd's own marks of what it delegated: for all to see, and one that only root can set. */
#define MARK         "user.delegate"
#define MARK_BY_ROOT "trusted.delegate"

/* The user's own, and with somebody at home: set as XDG_RUNTIME_DIR, with one of systemd's sockets.
 */
static const char *runtime_dir(void)
{
	static const char *const sockets[] = {"systemd/private", "bus"};
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	struct stat st;

	if (!dir || dir[0] != '/' || stat(dir, &st) < 0 || st.st_uid != geteuid())
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(sockets); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, sockets[i]);
		if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode))
			return dir;
	}
	return NULL;
}

/* In the child. Nothing of ours goes along but the pipe; it does not outlive us. */
static _noreturn_ void run_helper(int helper, int output, pid_t parent, const char *pid,
				  const char *environment)
{
	char *const argv[] = {(char *)"cay-scope", (char *)pid, NULL};
	char *const envp[] = {(char *)environment, NULL};
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	(void)sigemptyset(&none);
	if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
	    sigprocmask(SIG_SETMASK, &none, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    getppid() != parent || syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		_exit(126);
	(void)fexecve(helper, argv, envp);
	_exit(127);
}

/* What it says, up to the first line's end; -ETIMEDOUT if it does not come to its own end. */
static int listen_to(int fd, char *text, size_t size)
{
	uint64_t start_ns = clock_now_ns();
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		double passed = clock_ms_since(start_ns);
		char rest[128];
		bool fits = len + 1 < size;

		if (passed >= DEADLINE_MS || poll(&wait, 1, DEADLINE_MS - (int)passed) == 0)
			return -ETIMEDOUT;
		do
			n = fits ? read(fd, text + len, size - len - 1)
				 : read(fd, rest, sizeof(rest));
		while (n < 0 && errno == EINTR);
		len += fits && n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

static int start_helper(int helper, const char *runtime, int *ret_output, pid_t *ret_pid)
{
	char number[16], environment[PATH_MAX + 32];
	pid_t self = getpid();
	int ends[2];

	(void)snprintf(number, sizeof(number), "%d", (int)self);
	(void)snprintf(environment, sizeof(environment), "XDG_RUNTIME_DIR=%s", runtime);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ret_pid = fork();
	if (*ret_pid == 0)
		run_helper(helper, ends[1], self, number, environment);
	(void)close(ends[1]);
	*ret_output = ends[0];
	return *ret_pid < 0 ? -errno : 0;
}

static int run(int helper, const char *runtime, char *why, size_t size)
{
	_cleanup_(fd_closep) int output = -1;
	pid_t pid;
	int status = 0, r = start_helper(helper, runtime, &output, &pid);

	if (r < 0) {
		(void)snprintf(why, size, "cay-scope: %s", strerror(-r));
		return -1;
	}
	r = listen_to(output, why, size);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (r < 0)
		(void)snprintf(why, size, "cay-scope did not answer");
	else if (why[0] == '\0')
		(void)snprintf(why, size, "cay-scope could not run");
	return -1;
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_unit(const char *name)
{
	return ends_in(name, ".scope") || ends_in(name, ".service");
}

/* Managers, which were given theirs for units of their own. */
static bool is_managers(const char *name)
{
	return strncmp(name, "user@", 5) == 0 || ends_in(name, ".slice");
}

static bool is_marked(int dir, const char *attribute)
{
	char delegate;

	return fgetxattr(dir, attribute, &delegate, 1) == 1 && delegate == '1';
}

bool scope_is_free(int dir, const char *name)
{
	return !is_managers(name) && (!is_unit(name) || is_marked(dir, MARK));
}

bool scope_is_given(int dir, const char *name)
{
	return !is_managers(name) && is_unit(name) && is_marked(dir, MARK_BY_ROOT);
}

void scope_mark(int dir)
{
	(void)fsetxattr(dir, MARK, "1", 1, 0);
}

int scope_ask(char *why, size_t size)
{
	_cleanup_(fd_closep) int helper = -1;
	const char *runtime;

	why[0] = '\0';
	if (geteuid() == 0 || getuid() == 0)
		return -1;
	runtime = runtime_dir();
	if (!runtime)
		return -1;
	helper = helper_open("cay-scope");
	if (helper < 0) {
		(void)snprintf(why, size, "cay-scope is not installed");
		return -1;
	}
	return run(helper, runtime, why, size);
}
