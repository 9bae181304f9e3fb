/*
 * cay run --watch.
 *
 * Two processes: this one waits for saves and signals and parses nothing; each
 * run is a child that goes the ordinary way, so that no run leaves anything in
 * memory to the next. The child goes when we go, and takes its island along.
 *
 * Directories are watched, not files: many editors write a new file and rename
 * it over the old one.
 */
#include "cli/run_watch.h"

#include "base/attr.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* An editor's save is several steps; the run shall see the last of them. */
#define SETTLE_MS 50

struct watched {
	int wd;                  /* of its directory */
	char name[NAME_MAX + 1]; /* in there; "": whatever is in there */
	bool script;             /* else a --put */
};

struct watcher {
	int inotify, signals;
	sigset_t before;                              /* the signal mask that children get */
	struct watched files[SPEC_TRANSFERS_MAX + 2]; /* the script first, by both its names */
	size_t n_files;
	int lifeline[2]; /* a pipe: its end tells the child that we are gone */
	pid_t child;     /* -1: none */
	int child_fd;
};

static int watch_in(struct watcher *w, const char *dir, const char *name, bool script,
		    struct cay_error *err)
{
	struct watched *f = &w->files[w->n_files];

	f->wd = inotify_add_watch(w->inotify, dir, IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR);
	if (f->wd < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "watch the directory %s", dir);
	f->script = script;
	if ((size_t)snprintf(f->name, sizeof(f->name), "%s", name) >= sizeof(f->name))
		return cay_fail(err, CAY_E_NOT_FOUND, ENAMETOOLONG, "watch the file %s", name);
	w->n_files++;
	return 0;
}

static int watch_path(struct watcher *w, const char *path, bool script, struct cay_error *err)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX] = ".";
	struct stat st;

	if (!script && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return watch_in(w, path, "", script, err);
	if (slash)
		(void)snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path),
			       path);
	return watch_in(w, dir, slash ? slash + 1 : path, script, err);
}

static int watch_all(struct watcher *w, const struct spec *spec, struct cay_error *err)
{
	char real[PATH_MAX];

	if (watch_path(w, spec->file, true, err) < 0)
		return -1;
	/* A link's target is saved where it is. */
	if (realpath(spec->file, real) && watch_path(w, real, true, err) < 0)
		return -1;
	for (size_t i = 0; i < spec->put.len; i++)
		if (watch_path(w, spec->put.items[i].from, false, err) < 0)
			return -1;
	return 0;
}

static bool concerns_us(const struct watcher *w, const struct inotify_event *e)
{
	for (size_t i = 0; i < w->n_files; i++) {
		const struct watched *f = &w->files[i];

		/* While a run goes on its --get may write what was put. */
		if (f->wd == e->wd && (f->script || w->child < 0) && e->len > 0 &&
		    (!f->name[0] || strcmp(f->name, e->name) == 0))
			return true;
	}
	return false;
}

/* *ret_changed is left alone where nothing of ours changed. */
static int read_events(const struct watcher *w, bool *ret_changed, struct cay_error *err)
{
	_Alignas(struct inotify_event) char data[16 << 10];
	ssize_t n = read(w->inotify, data, sizeof(data));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : cay_fail(err, CAY_E_INTERNAL, errno, "watch the script");
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *e = (const void *)(data + at);

		if (e->mask & IN_IGNORED && e->wd == w->files[0].wd)
			return cay_fail(err, CAY_E_NOT_FOUND, 0,
					"the directory of the script is gone");
		*ret_changed |= (e->mask & IN_Q_OVERFLOW) || concerns_us(w, e);
		at += (ssize_t)(sizeof(*e) + e->len);
	}
	return 0;
}

/*
 * The pipe's end comes as a signal. PR_SET_PDEATHSIG would not do: it is lost
 * when files are put in, as another user.
 */
static void follow_parent(struct watcher *w)
{
	struct pollfd f = {w->lifeline[0], POLLIN, 0};

	fd_closep(&w->lifeline[1]);
	if (fcntl(w->lifeline[0], F_SETOWN, getpid()) < 0 ||
	    fcntl(w->lifeline[0], F_SETSIG, WATCH_CANCEL) < 0 ||
	    fcntl(w->lifeline[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0 || poll(&f, 1, 0) != 0)
		_exit(EXIT_OURS);
}

_noreturn_ static void be_child(struct watcher *w, int (*run)(void *ctx), void *ctx)
{
	int code;

	fd_closep(&w->inotify);
	fd_closep(&w->signals);
	follow_parent(w);
	(void)sigprocmask(SIG_SETMASK, &w->before, NULL);
	code = run(ctx);
	if (fflush(stdout) != 0)
		code = EXIT_OURS;
	_exit(code);
}

static int start(struct watcher *w, int (*run)(void *ctx), void *ctx, struct cay_error *err)
{
	w->child = fork();
	if (w->child == 0)
		be_child(w, run, ctx);
	if (w->child > 0)
		w->child_fd = sys_pidfd_open(w->child);
	if (w->child < 0 || w->child_fd < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start a run");
	return 0;
}

static void reap(struct watcher *w)
{
	while (waitpid(w->child, NULL, 0) < 0 && errno == EINTR)
		;
	w->child = -1;
	fd_closep(&w->child_fd);
}

static void stop(struct watcher *w, int sig)
{
	if (w->child < 0)
		return;
	(void)kill(w->child, sig);
	reap(w);
}

/* What --get wrote until now is no save. */
static int end_of_run(struct watcher *w, bool *ret_changed, struct cay_error *err)
{
	int r = read_events(w, ret_changed, err);

	reap(w);
	return r;
}

/* The number of a signal that has come, or 0. */
static int take_signal(const struct watcher *w)
{
	struct signalfd_siginfo info;

	return read(w->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo
									      : 0;
}

/* Until a save (0), a signal (its number), or -1. */
static int wait_for_save(struct watcher *w, struct cay_error *err)
{
	bool changed = false;
	int sig = 0;

	while (!changed && sig == 0) {
		struct pollfd fds[] = {
			{w->signals, POLLIN, 0}, {w->inotify, POLLIN, 0}, {w->child_fd, POLLIN, 0}};

		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return cay_fail(err, CAY_E_INTERNAL, errno, "wait for a save");
		if (fds[1].revents && read_events(w, &changed, err) < 0)
			return -1;
		if (fds[2].revents && end_of_run(w, &changed, err) < 0)
			return -1;
		sig = take_signal(w);
	}
	return sig;
}

/* Lets an editor finish. Returns as wait_for_save(). */
static int settle(const struct watcher *w, struct cay_error *err)
{
	struct pollfd f = {w->signals, POLLIN, 0};
	bool more = false;

	(void)poll(&f, 1, SETTLE_MS);
	return read_events(w, &more, err) < 0 ? -1 : take_signal(w);
}

static int watch_and_run(struct watcher *w, const struct spec *spec, int (*run)(void *ctx),
			 void *ctx, struct cay_error *err)
{
	const char *slash = strrchr(spec->file, '/');

	for (;;) {
		int sig;

		if (start(w, run, ctx, err) < 0)
			return -1;
		sig = wait_for_save(w, err);
		stop(w, sig > 0 ? sig : WATCH_CANCEL);
		if (sig == 0)
			sig = settle(w, err);
		if (sig != 0)
			return sig > 0 ? 128 + sig : -1;
		cli_note("--- %s changed, running again", slash ? slash + 1 : spec->file);
	}
}

int run_watch(const struct spec *spec, int (*run)(void *ctx), void *ctx, struct cay_error *err)
{
	struct watcher *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "watch the script");
	w->child = w->child_fd = w->lifeline[0] = w->lifeline[1] = -1;
	w->signals = cli_catch_signals(&w->before);
	w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->signals < 0 || w->inotify < 0 || pipe2(w->lifeline, O_CLOEXEC) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, errno, "watch the script");
	else
		r = watch_all(w, spec, err);
	if (r == 0)
		r = watch_and_run(w, spec, run, ctx, err);
	stop(w, WATCH_CANCEL);
	fd_closep(&w->signals);
	fd_closep(&w->inotify);
	fd_closep(&w->lifeline[0]);
	fd_closep(&w->lifeline[1]);
	free(w);
	return r;
}
