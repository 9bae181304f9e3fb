#include "image/job.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/progress.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEWS_EVERY_NS 50000000ull

struct desk {
	int reports;
	uint64_t told_ns;
};

static void tell_more(void *to, const char *what _unused_, uint64_t done, uint64_t total _unused_)
{
	struct desk *d = to;
	struct job_report report = {.done = done};
	uint64_t now = clock_now_ns();

	if (now < d->told_ns + NEWS_EVERY_NS)
		return;
	d->told_ns = now;
	(void)send(d->reports, &report, sizeof(report), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static _noreturn_ void work(int reports, pid_t parent, const char *store_dir, uint64_t budget_bytes,
			    job_fn *fn, void *ctx)
{
	struct desk desk = {.reports = reports};
	struct progress progress = {tell_more, &desk};
	struct job_report report = {.ended = true};
	struct store *store = NULL;
	sigset_t none;

	/* A group of its own: a terminal's signals are the parent's, which ends us all at once. */
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	report.failed = store_open(store_dir, budget_bytes, &store, &report.err) < 0 ||
			fn(store, ctx, &progress, &report.err) < 0;
	store_free(store);
	_exit(msg_send(reports, &report, sizeof(report), NULL, 0) < 0 ? 1 : 0);
}

int job_start(struct job *ret, const char *store_dir, uint64_t budget_bytes, job_fn *fn, void *ctx,
	      struct cay_error *err)
{
	pid_t parent = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start work in the image store");
	pid = fork();
	if (pid == 0)
		work(pair[1], parent, store_dir, budget_bytes, fn, ctx);
	fd_closep(&pair[1]);
	if (pid < 0) {
		int failed = errno;

		fd_closep(&pair[0]);
		return cay_fail(err, CAY_E_INTERNAL, failed, "start work in the image store");
	}
	/* In both: whoever is first. */
	(void)setpgid(pid, pid);
	*ret = (struct job){.pid = pid, .reports = pair[0]};
	return 0;
}

void job_report(const struct job *j, struct job_report *ret)
{
	ssize_t n;

	do
		n = recv(j->reports, ret, sizeof(*ret), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*ret)) {
		*ret = (struct job_report){.ended = true, .failed = true};
		(void)cay_fail(&ret->err, CAY_E_INTERNAL, 0,
			       "the process that works in the image store ended");
	}
}

void job_stop(struct job *j)
{
	if (j->pid > 0) {
		(void)kill(-j->pid, SIGKILL);
		while (waitpid(-j->pid, NULL, 0) > 0 || errno == EINTR)
			;
	}
	fd_closep(&j->reports);
	j->pid = 0;
}
