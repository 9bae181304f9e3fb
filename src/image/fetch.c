#include "image/fetch.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rights.h"
#include "image/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AUTHORITIES_MAX (8u << 20)
#define NEWS_EVERY_NS   50000000ull

_Static_assert(sizeof(struct fetch_whom) < (128u << 10), "has to fit a packet");

struct desk {
	int channel;
	struct registry *registry;
	struct web *web;
	uint64_t told_ns;
	struct buf authorities;
};

static void say(const struct desk *d, const struct fetch_report *report, int flags)
{
	ssize_t n;

	do
		n = send(d->channel, report, sizeof(*report), MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	/* Nobody is there any more. What need not be said may be lost. */
	if (n < 0 && !(flags & MSG_DONTWAIT))
		_exit(1);
}

static void tell_more(void *ctx, uint64_t have)
{
	struct desk *d = ctx;
	struct fetch_report report = {.news = FETCH_MORE, .have = have};
	uint64_t now = clock_now_ns();

	if (now < d->told_ns + NEWS_EVERY_NS)
		return;
	d->told_ns = now;
	say(d, &report, MSG_DONTWAIT);
}

static void carry_out(struct desk *d, const struct fetch_order *order, int fd)
{
	struct fetch_report report = {.news = FETCH_FAILED};
	struct body body = {.fd = fd,
			    .have = order->have,
			    .size = order->size,
			    .at_most = order->at_most,
			    .more = tell_more,
			    .ctx = d};
	int r = order->kind == FETCH_MANIFEST
			? registry_manifest(d->registry, order->reference, &body, report.type,
					    report.digest, &report.err)
			: registry_blob(d->registry, order->reference, &body, &report.err);

	if (r == 0)
		report.news = FETCH_DONE;
	report.have = body.have;
	say(d, &report, 0);
}

static int hear_whom(struct desk *d)
{
	struct fetch_whom *whom = calloc(1, sizeof(*whom));

	if (!whom)
		return -1;
	if (recv(d->channel, whom, sizeof(*whom), 0) == (ssize_t)sizeof(*whom))
		d->web = web_new(whom->stall_s, d->authorities.len ? &d->authorities : NULL);
	if (d->web)
		d->registry =
			registry_new(whom->sources, whom->n_sources, whom->repository, d->web);
	explicit_bzero(whom, sizeof(*whom));
	free(whom);
	return d->registry ? 0 : -1;
}

static _noreturn_ void serve(struct desk *d)
{
	if (hear_whom(d) < 0)
		_exit(1);
	for (;;) {
		struct fetch_order order;
		int fd = -1;
		size_t n_fds = 0;
		ssize_t n = msg_recv(d->channel, &order, sizeof(order), &fd, 1, &n_fds);

		if (n != (ssize_t)sizeof(order) || n_fds != 1)
			_exit(n == 0 ? 0 : 1);
		carry_out(d, &order, fd);
		fd_closep(&fd);
	}
}

/* OpenSSL's own variable, which others go by, too; read while the file can be. */
static int read_authorities(struct buf *ret, struct cay_error *err)
{
	const char *file = getenv("SSL_CERT_FILE");
	int r = file && *file ? fd_read_file_at(AT_FDCWD, file, ret) : 0;

	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "read $SSL_CERT_FILE, %.200s", file) : 0;
}

static _noreturn_ void become(int channel, pid_t parent, uint64_t file_bytes)
{
	struct desk d = {.channel = channel, .authorities = BUF(AUTHORITIES_MAX)};
	struct fetch_report report = {.news = FETCH_FAILED};
	int r;

	(void)signal(SIGINT, SIG_IGN); /* a terminal's; the parent ends us */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN); /* it is an error as others are */
	if (fd_mute() < 0 || fd_close_others(&d.channel, 1) < 0)
		_exit(1);
	if (read_authorities(&d.authorities, &report.err) < 0)
		goto failed;
	r = rights_drop(RIGHTS_ID_FETCH, RIGHTS_ID_FETCH);
	/* Not before: other ids take it back. */
	if (r == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		r = -errno;
	if (r < 0) {
		(void)cay_fail(&report.err, CAY_E_INTERNAL, -r, "give up rights to download");
		goto failed;
	}
	if (fetch_confine(file_bytes, &report.err) < 0)
		goto failed;
	serve(&d);
failed:
	say(&d, &report, 0);
	_exit(1);
}

int fetcher_start(struct fetcher *ret, uint64_t file_bytes, struct cay_error *err)
{
	pid_t parent = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start a download");
	pid = fork();
	if (pid == 0)
		become(pair[1], parent, file_bytes);
	fd_closep(&pair[1]);
	if (pid < 0) {
		int failed = errno;

		fd_closep(&pair[0]);
		return cay_fail(err, CAY_E_INTERNAL, failed, "start a download");
	}
	*ret = (struct fetcher){.pid = pid, .channel = pair[0]};
	return 0;
}

void fetcher_stop(struct fetcher *f)
{
	if (f->pid > 0) {
		(void)kill(f->pid, SIGKILL);
		while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	fd_closep(&f->channel);
	f->pid = 0;
}

int fetcher_tell(const struct fetcher *f, const struct fetch_whom *whom, struct cay_error *err)
{
	int r = msg_send(f->channel, whom, sizeof(*whom), NULL, 0);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "tell whom to ask for an image") : 0;
}

int fetcher_order(const struct fetcher *f, const struct fetch_order *order, int fd,
		  struct cay_error *err)
{
	int r = msg_send(f->channel, order, sizeof(*order), &fd, 1);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "order a download") : 0;
}

void fetcher_report(const struct fetcher *f, struct fetch_report *ret)
{
	ssize_t n;

	do
		n = recv(f->channel, ret, sizeof(*ret), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*ret)) {
		*ret = (struct fetch_report){.news = FETCH_FAILED};
		(void)cay_fail(&ret->err, CAY_E_INTERNAL, 0, "the process that downloads ended");
	}
	ret->type[sizeof(ret->type) - 1] = '\0';
	ret->digest[sizeof(ret->digest) - 1] = '\0';
	if (ret->news != FETCH_MORE && ret->news != FETCH_DONE)
		ret->news = FETCH_FAILED;
	/* Whatever it calls it: news of one that has nothing to do are an error, too. */
	cay_error_mend(&ret->err);
}
