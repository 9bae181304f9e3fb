#include "cli/image_program.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/json.h"
#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME           "cay-image"
#define LINES_MAX      ((size_t)16 << 20) /* of progress, all of which but the last is dropped */
#define ERROR_LINE_MAX ((size_t)64 << 10)

static int find(int *ret, struct cay_error *err)
{
	*ret = helper_open(NAME);
	if (*ret >= 0)
		return 0;
	(void)cay_fail(err, CAY_E_ENGINE, -*ret, "find " NAME ", which keeps the images");
	return cay_hint(err, "it is beside cay where that was built, and in libexec/cay where it "
			     "was installed");
}

int image_program_become(char *const argv[], struct cay_error *err)
{
	_cleanup_(fd_closep) int program = -1;

	if (find(&program, err) < 0)
		return -1;
	(void)fexecve(program, argv, environ);
	return cay_fail(err, CAY_E_ENGINE, errno, "start " NAME);
}

/* out: where its standard output goes. */
_noreturn_ static void be_pull(int program, const char *reference, bool quiet, int out)
{
	char *argv[6] = {(char *)NAME};
	int n = 1, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (quiet) {
		argv[n++] = (char *)"--progress";
		argv[n++] = (char *)"json";
	}
	argv[n++] = (char *)"pull";
	argv[n++] = (char *)(uintptr_t)reference;
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    (quiet && dup2(null, STDERR_FILENO) < 0))
		_exit(125);
	(void)fexecve(program, argv, environ);
	_exit(127);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* The last line, where it is an error. */
static int take_error(const struct buf *lines, const char *reference, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	size_t end = lines->len, begin;

	if (end > 0 && lines->data[end - 1] == '\n')
		end--;
	for (begin = end; begin > 0 && lines->data[begin - 1] != '\n'; begin--)
		;
	if (end > begin &&
	    json_parse(lines->data + begin, end - begin, ERROR_LINE_MAX, &j, &fault) == 0 &&
	    json_get(j, "error"))
		return remote_refusal_json(500, j, err);
	return cay_fail(err, CAY_E_IMAGE, 0, "the image %.200s could not be pulled", reference);
}

int image_program_pull(const char *reference, bool quiet, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf lines = BUF(LINES_MAX);
	_cleanup_(fd_closep) int program = -1, in = -1, out = -1;
	int ends[2], r = 0;
	pid_t pid;

	if (find(&program, err) < 0)
		return -1;
	if (quiet) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return cay_fail(err, CAY_E_INTERNAL, errno, "start " NAME);
		in = ends[0];
		out = ends[1];
	}
	pid = fork();
	if (pid < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start " NAME);
	if (pid == 0)
		be_pull(program, reference, quiet, quiet ? out : STDERR_FILENO);
	fd_closep(&out);
	if (quiet)
		r = fd_read_all(in, &lines);
	fd_closep(&in); /* one who talks too much is not listened to */
	if (wait_for(pid) == 0 && r == 0)
		return 0;
	return take_error(&lines, reference, err);
}
