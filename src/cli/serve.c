/*
 * Theory of operation
 *
 *   cay serve ──fork──> launcher   our rights; islands
 *       │                  │ SOCK_SEQPACKET: engine/service.h
 *       ├─fork, exec──> cay-api    none of our rights; HTTP, state
 *       │                  │ SOCK_SEQPACKET: egress/wire.h
 *       ├─fork, exec──> cay-egress none of our rights; islands' connections
 *       │                  api │ SOCK_SEQPACKET: image/order.h
 *       └─fork────────> images     our rights; starts cay-image, which writes to the store
 *
 * This process listens, so that clients find the socket also while the others are
 * started again, and does nothing else: it talks to nobody, but to the api where the files say
 * [serve] settings = full (serve_live.h). When launcher or api ends, so do
 * the others, because none is of use alone, and all are started again (serve_children.h).
 * cay-egress, which handles what comes from islands and from the network, is started again
 * alone: its end of the socket is kept here, and the api tells the next one what to carry.
 */
#include "cli/cli.h"

#include "api/inherit.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/title.h"
#include "cli/options.h"
#include "cli/serve_children.h"
#include "cli/serve_images.h"
#include "cli/serve_live.h"
#include "cli/serve_sockets.h"
#include "cli/serve_warm.h"
#include "egress/start.h"
#include "engine/native/cgroup.h"
#include "engine/native/kept.h"
#include "engine/container/service_main.h"
#include "engine/native/service_main.h"
#include "engine/workspace.h"
#include "image/images.h"
#include "policy/mode.h"
#include "settings/places.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Crashes one after the other are not repaired by starting again. */
#define CRASHES_MAX    5
#define CRASHES_WITHIN (60ull * 1000000000)

/* cay-egress then rests before it is tried again: an island that can end it ends no other. */
#define EGRESS_REST_S 5

/* After the api was asked to end it finishes what runs; a second signal does not wait. */
#define DRAIN_SECONDS "30"
#define DRAIN_MS      35000 /* and if it does not keep to that */

struct crashes {
	uint64_t at[CRASHES_MAX];
	size_t n;
};

struct serve {
	const char *socket_path, *tcp, *state_path; /* as given; NULL */
	char socket_default[PATH_MAX], state_default[PATH_MAX];
	struct settings settings;
	struct serve_live live;
	int unix_fd, tcp_fd, state_dir, lock, settings_fd, signals;
	struct serve_warm warm;                      /* the launcher's alone */
	int kept_dir;                                /* the same */
	char image_store[PATH_MAX];                  /* the same */
	int egress_program, egress_end, egress_news; /* of its sockets: each next one's */
	uid_t uid;
	gid_t gid;
	int ready; /* read end: the api says here that it takes requests; -1 after */
	bool ending;
	struct crashes crashes, egress_crashes;
	bool egress_rests;
};

/* What the children are born with, besides. */
struct birth {
	struct serve *serve;
	int program;                /* cay-api */
	int launcher_end, api_end;  /* of the socket between them */
	int api_outlet;             /* of the one to cay-egress */
	int news, api_live;         /* of those by which settings are handed on; -1: they are not */
	int images_end, api_images; /* of the one to who starts cay-image */
	int containers_end, api_containers;
	int ready; /* write end */
};

static OPTION_SETTER(set_absolute)
{
	if (value[0] != '/')
		return cay_fail(err, CAY_E_INVALID, 0, "--%s %s: not absolute", row->name, value);
	return option_store_text(ctx, row, value, err);
}

static const struct option_row rows[] = {
	{0, "socket", "FILE", "where clients on this machine connect to", .set = set_absolute,
	 .at = offsetof(struct serve, socket_path)},
	{0, "listen", "HOST:PORT", "also listen here, for clients with an API key",
	 OPTION_STORE(struct serve, tcp)},
	{0, "state", "FILE", "the directory of what is kept: keys, sandboxes ...",
	 .set = set_absolute, .at = offsetof(struct serve, state_path)},
};

static int name_store(struct buf *parts, const char *dir)
{
	_cleanup_(buf_done) struct buf text = BUF(PATH_MAX + 32);
	int r = buf_printf(&text, "[images]\nstore = %s\n", dir);

	return r < 0 ? r : settings_add_part(parts, SETTINGS_DEFAULT, buf_str(&text));
}

/*
 * The api, another user, is told where it is. What it may read has to be there when it is confined
 * to that; where it can't be made, there are no images either.
 */
static int name_images(const struct serve *s, struct buf *parts, struct cay_error *err)
{
	static const char *const dirs[] = {"names", "records"};
	char dir[PATH_MAX], path[PATH_MAX + 16];
	int r = images_dir(&s->settings, dir);
	struct cay_error unmade;

	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s/", dir, dirs[i]);
		(void)serve_make_dirs(path, 0755, &unmade);
	}
	images_guard(dir);
	if (r == 0 && !s->settings.images_store)
		r = name_store(parts, dir);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "find the image store") : 0;
}

static int load(struct serve *s, struct cay_error *err)
{
	struct buf *parts = &s->live.parts;

	s->live.base = &s->settings;
	s->live.socket_path = s->socket_path;
	s->live.api_uid = s->uid;
	*parts = BUF(SETTINGS_PARTS_MAX);
	if (settings_load_parts(&s->settings, parts, err) < 0 || name_images(s, parts, err) < 0 ||
	    serve_live_begin(&s->live, err) < 0)
		return -1;
	/* As they were read: the api may not be able to read the files itself. */
	s->settings_fd = fd_sealed("settings", parts->data, parts->len);
	return s->settings_fd < 0
		       ? cay_fail(err, CAY_E_INTERNAL, -s->settings_fd, "hand the settings on")
		       : 0;
}

static void find_user(struct serve *s)
{
	s->uid = geteuid();
	s->gid = getegid();
	if (s->uid == 0)
		rights_of_api(&s->uid, &s->gid);
}

/* What is in it is the api's. */
static int give_state(const struct serve *s, struct cay_error *err)
{
	if (geteuid() == 0 &&
	    (fchown(s->state_dir, s->uid, s->gid) < 0 || fchmod(s->state_dir, 0700) < 0))
		return cay_fail(err, CAY_E_INTERNAL, errno, "give the state directory to the api");
	return 0;
}

static int find_program(const char *name, int *ret, struct cay_error *err)
{
	*ret = helper_open(name);
	if (*ret >= 0)
		return 0;
	(void)cay_fail(err, CAY_E_ENGINE, -*ret, "find %s, a part of the daemon", name);
	return cay_hint(err, "it is beside cay where that was built, and in libexec/cay where it "
			     "was installed");
}

static int prepare(struct serve *s, struct cay_error *err)
{
	if (!s->socket_path) {
		if (place_socket(s->socket_default, err) < 0)
			return -1;
		s->socket_path = s->socket_default;
	}
	if (!s->state_path) {
		if (place_state(s->state_default, err) < 0)
			return -1;
		s->state_path = s->state_default;
	}
	find_user(s);
	if (find_program("cay-egress", &s->egress_program, err) < 0)
		return -1;
	/* What was said wrong is told first, not that a daemon has the state already. */
	if (serve_check_addresses(s->socket_path, s->tcp, err) < 0 || load(s, err) < 0 ||
	    serve_open_state(s->state_path, &s->state_dir, &s->lock, err) < 0 ||
	    kept_open_dir(s->state_dir, &s->kept_dir, err) < 0 || give_state(s, err) < 0 ||
	    serve_listen_unix(s->socket_path, &s->unix_fd, err) < 0)
		return -1;
	s->live.state_dir = s->state_dir;
	if (serve_live_forbid_own(&s->live, err) < 0)
		return -1;
	if (images_dir(&s->settings, s->image_store) < 0)
		s->image_store[0] = '\0'; /* nowhere: there are none */
	if (serve_warm_find(&s->settings, s->image_store, &s->warm, err) < 0)
		return -1;
	return s->tcp ? serve_listen_tcp(s->tcp, &s->tcp_fd, err) : 0;
}

/* As many fds as may be had: there is one and more for each connection and island. */
static void raise_fds(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

static void unblock_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Ctrl-C on a terminal goes to the whole group: only we decide what it means. */
static void be_child(void)
{
	(void)setpgid(0, 0);
	(void)signal(SIGPIPE, SIG_IGN);
	unblock_signals();
	raise_fds();
}

/* It keeps the lock, too: who starts after we were killed waits until its islands have no maker. */
_noreturn_ static void be_launcher(void *ctx, pid_t parent)
{
	const struct birth *b = ctx;
	struct serve *s = b->serve;
	int sock = b->launcher_end;

	be_child();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    fd_close_others((int[]){sock, s->kept_dir, s->lock, s->warm.module, s->warm.taker,
				    b->news < 0 ? sock : b->news},
			    b->news < 0 ? 5 : 6) < 0)
		_exit(125);
	_exit(service_main(sock,
			   &(struct service_config){.rules = &s->live.rules.mounts,
						    .image_store = s->image_store,
						    .kept_dir = s->kept_dir,
						    .zygote_kinds = s->warm.kinds,
						    .n_zygote_kinds = s->warm.len,
						    .bare = &s->live.rules.bare,
						    .maximum = &s->live.rules.maximum,
						    .has_news = b->news >= 0,
						    .news = b->news,
						    .ahead_bytes = s->settings.warm_memory,
						    .may_degrade = s->live.rules.may_degrade}));
}

_noreturn_ static void be_api(void *ctx, pid_t parent)
{
	const struct birth *b = ctx;
	struct serve *s = b->serve;
	int fds[API_FDS_END] = {
		[API_FD_LAUNCHER] = b->api_end,  [API_FD_CONTAINERS] = b->api_containers,
		[API_FD_EGRESS] = b->api_outlet, [API_FD_IMAGES] = b->api_images,
		[API_FD_READY] = b->ready,       [API_FD_SETTINGS] = s->settings_fd,
		[API_FD_STATE] = s->state_dir,   [API_FD_UNIX] = s->unix_fd,
		[API_FD_TCP] = s->tcp_fd,        [API_FD_LIVE] = b->api_live,
	};
	char *argv[] = {(char *)"cay-api", (char *)DRAIN_SECONDS, NULL};
	char *env[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL};
	int program = b->program;

	be_child();
	if (lseek(s->settings_fd, 0, SEEK_SET) < 0 ||
	    fd_place(fds, API_FD_LAUNCHER, API_FDS_END, &program) < 0 ||
	    rights_drop(s->uid, s->gid) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    getppid() != parent)
		_exit(126);
	(void)fexecve(program, argv, env);
	_exit(127);
}

_noreturn_ static void be_containers(void *ctx, pid_t parent)
{
	const struct birth *b = ctx;
	const struct serve *s = b->serve;
	int sock = b->containers_end;

	be_child();
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent ||
	    fd_close_others(&sock, 1) < 0)
		_exit(125);
	_exit(container_service_main(
		sock, &(struct container_service){.rules = &s->live.rules.mounts,
						  .maximum = &s->live.rules.maximum,
						  .may_degrade = s->live.rules.may_degrade,
						  .settings = &s->settings}));
}

_noreturn_ static void be_images(void *ctx, pid_t parent)
{
	const struct birth *b = ctx;
	int sock = b->images_end;

	be_child();
	title_set("cay: images");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    fd_close_others(&sock, 1) < 0)
		_exit(125);
	_exit(serve_images(sock, &b->serve->settings));
}

_noreturn_ static void be_egress(void *ctx, pid_t parent)
{
	const struct serve *s = ((const struct birth *)ctx)->serve;

	be_child();
	if (s->egress_rests)
		(void)sleep(EGRESS_REST_S);
	egress_become(s->egress_program, s->egress_end, s->live.egress_settings, s->egress_news,
		      parent);
}

/* The one that leads comes last: what it asks stands before it does, and it is ended first. */
static struct serve_child children[] = {
	{.name = "launcher", .be = be_launcher},
	{.name = "containers", .be = be_containers},
	{.name = "images", .be = be_images},
	{.name = "egress", .be = be_egress, .alone = true},
	{.name = "api", .be = be_api, .leads = true},
};

static int make_pair(int *ret_one, int *ret_other, struct cay_error *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start the daemon's processes");
	*ret_one = pair[0];
	*ret_other = pair[1];
	return 0;
}

/* By which settings are handed on at run time. */
static int make_live(struct serve *s, int *ret_news, int *ret_api, struct cay_error *err)
{
	struct serve_live *l = &s->live;

	fd_closep(&l->api);
	fd_closep(&l->launcher);
	fd_closep(&l->egress);
	fd_closep(&s->egress_news);
	return make_pair(&l->api, ret_api, err) < 0 || make_pair(&l->launcher, ret_news, err) < 0
		       ? -1
		       : make_pair(&l->egress, &s->egress_news, err);
}

static int start(struct serve *s, struct cay_error *err)
{
	_cleanup_(fd_closep) int program = -1, theirs = -1, ours = -1, outlet = -1, ready = -1;
	_cleanup_(fd_closep) int images = -1, api_images = -1, news = -1, api_live = -1;
	_cleanup_(fd_closep) int containers = -1, api_containers = -1;
	int pipe_ends[2], r;

	fd_closep(&s->egress_end);
	if (find_program("cay-api", &program, err) < 0 || make_pair(&ours, &theirs, err) < 0 ||
	    make_pair(&outlet, &s->egress_end, err) < 0 ||
	    make_pair(&api_images, &images, err) < 0 ||
	    make_pair(&api_containers, &containers, err) < 0)
		return -1;
	if (s->settings.serve_settings == LIVE_FULL && make_live(s, &news, &api_live, err) < 0)
		return -1;
	if (pipe2(pipe_ends, O_CLOEXEC) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start the api");
	fd_closep(&s->ready);
	s->ready = pipe_ends[0];
	ready = pipe_ends[1];
	r = serve_children_start(children, ARRAY_LEN(children),
				 &(struct birth){.serve = s,
						 .program = program,
						 .launcher_end = theirs,
						 .api_end = ours,
						 .api_outlet = outlet,
						 .news = news,
						 .api_live = api_live,
						 .containers_end = containers,
						 .api_containers = api_containers,
						 .images_end = images,
						 .api_images = api_images,
						 .ready = ready});
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "fork") : 0;
}

/* systemd's way: a datagram to the socket it named. */
static void notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	_cleanup_(fd_closep) int fd = -1;
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

static void on_ready(struct serve *s)
{
	char byte;
	ssize_t n = read(s->ready, &byte, 1);

	fd_closep(&s->ready);
	if (n != 1)
		return; /* it ended instead, which we will hear of */
	log_info("serving", "socket", s->socket_path, "listen", s->tcp, "state", s->state_path);
	notify("READY=1");
}

/* False: it is no use. */
static bool count_crash(struct crashes *c)
{
	uint64_t now = clock_now_ns();

	if (c->n == CRASHES_MAX)
		memmove(c->at, c->at + 1, --c->n * sizeof(c->at[0]));
	c->at[c->n++] = now;
	return c->n < CRASHES_MAX || now - c->at[0] > CRASHES_WITHIN;
}

/* What a daemon that was killed left; its islands have died with it. */
static void sweep(void)
{
	struct cgroups c;
	char n[16];

	cgroups_init(&c);
	(void)snprintf(n, sizeof(n), "%d", cgroups_sweep(&c));
	cgroups_done(&c);
	(void)workspace_sweep();
	if (strcmp(n, "0") != 0)
		log_info("removed what killed runs had left", "cgroups", n);
}

static int revive(struct serve *s, struct cay_error *err)
{
	int n = s->ending ? 0
			  : serve_children_revive(children, ARRAY_LEN(children),
						  &(struct birth){.serve = s});

	if (n < 0)
		return cay_fail(err, CAY_E_INTERNAL, -n, "fork");
	if (n > 0)
		s->egress_rests = !count_crash(&s->egress_crashes);
	return 0;
}

static int on_child(struct serve *s, struct cay_error *err)
{
	if (!serve_children_ended(children, ARRAY_LEN(children)))
		return revive(s, err);
	serve_children_stop(children, ARRAY_LEN(children));
	if (s->ending)
		return 1;
	sweep();
	if (!count_crash(&s->crashes))
		return cay_fail(err, CAY_E_INTERNAL, 0,
				"the daemon's processes ended %d times within a minute",
				CRASHES_MAX);
	log_warning("starting again");
	return start(s, err);
}

static void on_signal(struct serve *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		serve_children_signal(children, ARRAY_LEN(children), s->ending ? SIGKILL : SIGTERM);
		if (!s->ending) {
			log_info("ending: waiting for what runs", "signal",
				 strsignal((int)info.ssi_signo));
			notify("STOPPING=1");
		}
		s->ending = true;
	}
}

static int catch_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGQUIT);
	return sigprocmask(SIG_BLOCK, &set, NULL) < 0
		       ? -1
		       : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int supervise(struct serve *s, struct cay_error *err)
{
	int r = start(s, err);

	while (r == 0) {
		struct pollfd wait[] = {{.fd = s->signals, .events = POLLIN},
					{.fd = s->ready, .events = POLLIN},
					{.fd = s->live.api, .events = POLLIN}};

		int n = poll(wait, ARRAY_LEN(wait), s->ending ? DRAIN_MS : -1);

		if (n < 0 && errno != EINTR)
			r = cay_fail(err, CAY_E_INTERNAL, errno, "wait");
		if (n == 0)
			serve_children_signal(children, ARRAY_LEN(children), SIGKILL);
		if (wait[1].revents)
			on_ready(s);
		if (wait[2].revents && serve_live_hear(&s->live))
			serve_children_kill(children, ARRAY_LEN(children), "egress");
		on_signal(s);
		if (r == 0)
			r = on_child(s, err);
	}
	serve_children_stop(children, ARRAY_LEN(children));
	return r < 0 ? -1 : 0;
}

static void serve_done(struct serve *s)
{
	if (s->unix_fd >= 0)
		(void)unlink(s->socket_path);
	fd_closep(&s->unix_fd);
	fd_closep(&s->tcp_fd);
	fd_closep(&s->state_dir);
	fd_closep(&s->kept_dir);
	fd_closep(&s->egress_program);
	fd_closep(&s->egress_end);
	fd_closep(&s->egress_news);
	fd_closep(&s->settings_fd);
	fd_closep(&s->signals);
	fd_closep(&s->ready);
	fd_closep(&s->lock);
	serve_live_done(&s->live);
	settings_done(&s->settings);
}

/* Where nobody watches, it is a line of the log like any other. */
static int tell(const struct cay_error *err)
{
	if (isatty(STDERR_FILENO))
		return cli_error(err, false);
	log_error(err->text, "hint", err->hint[0] ? err->hint : NULL);
	return err->exit_code;
}

static int run(int argc, char **argv)
{
	static struct serve s;
	struct cay_error err;
	int r;

	s = (struct serve){.unix_fd = -1,
			   .tcp_fd = -1,
			   .state_dir = -1,
			   .kept_dir = -1,
			   .egress_program = -1,
			   .live = SERVE_LIVE_NONE,
			   .egress_end = -1,
			   .egress_news = -1,
			   .lock = -1,
			   .settings_fd = -1,
			   .signals = -1,
			   .ready = -1};
	settings_init(&s.settings);
	r = verb_parse(&verb_serve, argc, argv, &s, NULL, 0, &err);
	if (r != 0)
		return r == 1 ? 0 : cli_error(&err, false);
	log_init("serve", LOG_LEVEL_INFO);
	s.signals = catch_signals();
	r = prepare(&s, &err);
	if (r == 0) {
		sweep();
		if (s.settings.serve_mode != MODE_ALL)
			log_warning("not all that runs here has a sandbox", "mode",
				    mode_name(s.settings.serve_mode));
		r = supervise(&s, &err);
		(void)workspace_sweep(); /* those that were on their way out */
	}
	serve_done(&s);
	return r < 0 ? tell(&err) : 0;
}

const struct verb verb_serve = {
	.name = "serve",
	.summary = "runs the daemon: live sandboxes and an HTTP API",
	.usage = "[--socket PATH] [--listen HOST:PORT] [--state DIR]",
	.about = "Serves the HTTP API on a unix socket, and on HOST:PORT if asked to, until it is\n"
		 "told to end (SIGTERM, Ctrl-C): it waits for what runs. Twice ends it at once.\n",
	.examples = "  cay serve\n"
		    "  cay serve --listen 127.0.0.1:8600\n",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
