#include "image/child.h"

#include "base/attr.h"
#include "base/fd.h"
#include "image/confine.h"
#include "spec/image.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_BYTES (2ull << 30)

enum message_kind { PROGRESS, RESULT, FAILED };

struct message {
	enum message_kind kind;
	uint32_t len;
	uint64_t done;
};

static int send_message(int fd, enum message_kind kind, const void *data, size_t len)
{
	struct message m = {.kind = kind, .len = (uint32_t)len};
	int r = fd_write_all(fd, &m, sizeof(m));

	return r < 0 ? r : fd_write_all(fd, data, len);
}

void child_progress(int tell, uint64_t done)
{
	const struct message m = {.kind = PROGRESS, .done = done};

	(void)fd_write_all(tell, &m, sizeof(m));
}

/* Ids: a namespace, in which the parent (or we, for the one we are) says who is who. */

static int write_map(pid_t pid, const char *file, uint32_t outside, uint32_t n)
{
	char path[64], text[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	(void)snprintf(text, sizeof(text), "0 %u %u\n", outside, n);
	return fd_write_file_at(AT_FDCWD, path, text);
}

static bool needs_namespace(const struct child_job *job)
{
	return !job->one_id || job->kind == CHILD_MERGER;
}

static int map_self(uid_t uid, gid_t gid)
{
	int r = fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r == 0)
		r = write_map(getpid(), "uid_map", uid, 1);
	return r < 0 ? r : write_map(getpid(), "gid_map", gid, 1);
}

static int become_root_inside(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* In the child. ready: the parent closes its end when it has mapped. */
static int enter_namespace(const struct child_job *job, int told, int ready)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char byte;

	if (!needs_namespace(job))
		return 0;
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	if (job->one_id)
		return map_self(uid, gid);
	if (fd_write_all(told, "", 1) < 0 || read(ready, &byte, 1) != 1)
		return -ECHILD;
	return become_root_inside();
}

static int map_child(pid_t pid, int told, int ready)
{
	char byte;
	int r;

	if (fd_read_exact(told, &byte, 1) < 0)
		return 0; /* it failed, and says so itself */
	r = write_map(pid, "uid_map", IMAGE_IDS_FIRST, IMAGE_IDS);
	if (r == 0)
		r = write_map(pid, "gid_map", IMAGE_IDS_FIRST, IMAGE_IDS);
	return r < 0 ? r : fd_write_all(ready, "", 1);
}

static int keep_capabilities(enum child_kind kind)
{
	static const uint32_t kept[] = {
		[CHILD_READER] = 0,
		[CHILD_WRITER] = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER,
		[CHILD_MERGER] = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER |
				 1u << CAP_SYS_CHROOT,
	};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}}, had[2];

	if (syscall(SYS_capget, &header, had) < 0)
		return -errno;
	data[0].permitted = data[0].effective = kept[kind] & had[0].permitted;
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int set_limits(void)
{
	const struct rlimit memory = {MEMORY_BYTES, MEMORY_BYTES};
	/* A sanitizer reserves terabytes. */
	return !CONFINE_SANITIZED && setrlimit(RLIMIT_AS, &memory) < 0 ? -errno : 0;
}

/* A descriptor that the job has not named is not there; standard error is for sanitizers. */
static int close_others(const struct child_job *job, int tell, int told, int ready)
{
	int keep[CHILD_FDS_MAX + 3];
	size_t n = 0;
	int r;

	if (job->n_fds > CHILD_FDS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < job->n_fds; i++)
		keep[n++] = job->fds[i];
	keep[n++] = tell;
	if (told >= 0)
		keep[n++] = told;
	if (ready >= 0)
		keep[n++] = ready;
	r = fd_mute();
	return r < 0 ? r : fd_close_others(keep, n);
}

static int prepare(const struct child_job *job, int tell, int told, int ready, pid_t parent)
{
	int r = close_others(job, tell, told, ready);

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_DFL);
	(void)umask(0);
	if (r == 0)
		r = enter_namespace(job, told, ready);
	if (r == 0 && job->kind != CHILD_OPEN)
		r = keep_capabilities(job->kind);
	/* After the ids have changed, which takes it away. */
	if (r == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		r = -ECHILD;
	if (r == 0)
		r = set_limits();
	return r < 0 || job->kind == CHILD_OPEN ? r : confine_child(job);
}

_noreturn_ static void be_child(const struct child_job *job, int tell, int told, int ready,
				pid_t parent)
{
	struct buf result = BUF(CHILD_RESULT_MAX);
	struct cay_error err;
	int r = prepare(job, tell, told, ready, parent);

	if (r < 0) {
		(void)cay_fail(&err, CAY_E_ENGINE, -r, "confine the process that unpacks images");
		if (needs_namespace(job))
			(void)cay_hint(&err, "it needs a user namespace; cay doctor says what is "
					     "missing here");
	} else {
		r = job->run(job->ctx, tell, &result, &err);
	}
	r = r < 0 ? send_message(tell, FAILED, &err, sizeof(err))
		  : send_message(tell, RESULT, result.data, result.len);
	_exit(r < 0 ? 1 : 0);
}

int child_start(struct child *c, const struct child_job *job, struct cay_error *err)
{
	int out[2] = {-1, -1}, told[2] = {-1, -1}, ready[2] = {-1, -1}, r = 0;
	bool maps = !job->one_id;
	pid_t parent = getpid();

	*c = CHILD_NONE;
	if (pipe2(out, O_CLOEXEC) < 0 ||
	    (maps && (pipe2(told, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)))
		r = -errno;
	if (r == 0) {
		(void)fflush(NULL);
		c->pid = fork();
		if (c->pid == 0)
			be_child(job, out[1], told[1], ready[0], parent);
		r = c->pid < 0 ? -errno : 0;
	}
	c->pid = r < 0 ? 0 : c->pid;
	fd_closep(&out[1]);
	fd_closep(&told[1]);
	fd_closep(&ready[0]);
	if (r == 0 && maps)
		r = map_child(c->pid, told[0], ready[1]);
	fd_closep(&told[0]);
	fd_closep(&ready[1]);
	c->out = out[0];
	if (r == 0)
		return 0;
	child_stop(c);
	return cay_fail(err, CAY_E_ENGINE, -r, "start a process that unpacks images");
}

static void reap(struct child *c)
{
	while (c->pid > 0 && waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	fd_closep(&c->out);
}

void child_stop(struct child *c)
{
	if (c->pid > 0)
		(void)kill(c->pid, SIGKILL);
	reap(c);
}

static int fail_lost(struct child *c, struct cay_error *err)
{
	child_stop(c);
	return cay_fail(err, CAY_E_INTERNAL, 0, "the process that unpacks images was lost");
}

static int read_bytes(int fd, size_t len, struct buf *to)
{
	char piece[4096];
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = size_min(len, sizeof(piece));

		r = fd_read_exact(fd, piece, n);
		if (r == 0 && to)
			r = buf_append(to, piece, n);
		len -= n;
	}
	return r;
}

int child_wait(struct child *c, void (*on_progress)(void *ctx, uint64_t done), void *ctx,
	       struct buf *result, struct cay_error *err)
{
	struct message m;

	while (fd_read_exact(c->out, &m, sizeof(m)) == 0 && m.len <= CHILD_RESULT_MAX) {
		if (m.kind == PROGRESS) {
			if (on_progress)
				on_progress(ctx, m.done);
		} else if (m.kind == RESULT) {
			if (read_bytes(c->out, m.len, result) < 0)
				break;
			reap(c);
			return 0;
		} else {
			if (m.len != sizeof(*err) || fd_read_exact(c->out, err, sizeof(*err)) < 0)
				break;
			cay_error_mend(err);
			reap(c);
			return -1;
		}
	}
	return fail_lost(c, err);
}
