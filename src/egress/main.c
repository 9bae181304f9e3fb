/*
 * cay-egress: carries the connections of islands, which have no way out of their own. It is started
 * by whoever makes islands and by nobody else, has one thread and one loop, no rights, and
 * ends when its channel (egress/wire.h) does.
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/handover.h"
#include "base/log.h"
#include "egress/confine.h"
#include "egress/control.h"
#include "egress/net.h"
#include "egress/own.h"
#include "egress/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of one connection at most: two sockets and two pipes, or attempts to connect. */
#define FDS_EACH 6
/* For all else: networks, name servers, files. A quarter is more than they need. */
#define FDS_ELSE 4

static int read_settings(int fd, struct settings *s, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(SETTINGS_MAX_BYTES * SETTINGS_FILES_MAX);
	int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(fd, &text);

	settings_init(s);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "read the settings");
	return settings_parse(s, "settings", buf_str(&text), err);
}

/* Other rules, for all that is asked from here on. */
static int renew(struct egress *e, int fd)
{
	struct operator_rules rules;
	struct settings settings;
	struct cay_error err;

	if (read_settings(fd, &settings, &err) < 0 ||
	    operator_rules_make(&settings, &rules, &err) < 0) {
		log_error(err.text);
		settings_done(&settings);
		return -1;
	}
	settings_done(&e->settings);
	operator_rules_done(&e->operator);
	e->settings = settings;
	e->operator= rules;
	return 0;
}

static void on_news(struct loop_fd *f, uint32_t events _unused_)
{
	struct egress *e = f->ctx;
	_cleanup_(fd_closep) int fd = handover_take(f->fd);

	if (fd == -EPIPE)
		loop_remove(e->loop, f);
	else
		handover_answer(f->fd, fd >= 0 && renew(e, fd) == 0);
}

/* No more connections than there are fds for. */
static int find_limit(struct egress *e, struct cay_error *err)
{
	struct rlimit limit;
	uint64_t most;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "see how many files can be open");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "have more files open");
	most = (limit.rlim_cur - limit.rlim_cur / FDS_ELSE) / FDS_EACH;
	e->connections_max = e->settings.network_total_connections;
	if (e->connections_max > most)
		e->connections_max = most;
	return 0;
}

static int confine(struct cay_error *err)
{
	int landlock;

	if (confine_egress(&landlock, err) < 0)
		return -1;
	if (landlock == 0)
		log_warning("the kernel has no Landlock: cay-egress is confined without");
	return 0;
}

static int start(struct egress *e, struct cay_error *err)
{
	if (read_settings(EGRESS_FD_SETTINGS, &e->settings, err) < 0 || find_limit(e, err) < 0 ||
	    operator_rules_make(&e->settings, &e->operator, err) < 0)
		return -1;
	e->loop = loop_new();
	if (!e->loop)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start the loop");
	egress_share_init(e);
	e->resolver = resolver_new(e->loop);
	if (!e->resolver)
		return cay_fail(err, CAY_E_INTERNAL, 0, "read how the host resolves names");
	e->own = own_open();
	if (e->own < 0)
		return cay_fail(err, CAY_E_INTERNAL, -e->own,
				"see which addresses are the host's own");
	return confine(err);
}

static void stop(struct egress *e)
{
	while (e->nets)
		net_close(e->nets);
	resolver_free(e->resolver);
	fd_closep(&e->own);
	pipes_done(&e->pipes);
	operator_rules_done(&e->operator);
	settings_done(&e->settings);
	loop_free(e->loop);
}

/* A terminal's signals are for the program that started us: we end with the channel. */
static void ignore_signals(void)
{
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
}

int main(void)
{
	static struct egress e;
	struct loop_fd news = {.fd = EGRESS_FD_NEWS, .ready = on_news, .ctx = &e};
	bool has_news = fcntl(EGRESS_FD_NEWS, F_GETFD) >= 0; /* before the number is taken again */
	struct control control;
	struct cay_error err;
	int r;

	if (fcntl(EGRESS_FD_CHANNEL, F_GETFD) < 0 || fcntl(EGRESS_FD_SETTINGS, F_GETFD) < 0) {
		(void)fputs("cay-egress is started by `cay run` and `cay serve`\n", stderr);
		return 125;
	}
	log_init("egress", LOG_LEVEL_INFO);
	ignore_signals();
	for (int fd = EGRESS_FD_CHANNEL; fd < EGRESS_FDS_END; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (start(&e, &err) < 0 || control_start(&control, &e, EGRESS_FD_CHANNEL, &err) < 0 ||
	    (has_news && loop_add(e.loop, &news, EPOLLIN) < 0 &&
	     cay_fail(&err, CAY_E_INTERNAL, errno, "hear of other settings") < 0)) {
		log_error(err.text, "hint", err.hint[0] ? err.hint : NULL);
		return 125;
	}
	r = loop_run(e.loop);
	control_stop(&control);
	stop(&e);
	return r < 0 ? 125 : 0;
}
