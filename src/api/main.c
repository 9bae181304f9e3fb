/*
 * cay-api: the unprivileged half of `cay serve`, started by it and by nobody else. It
 * has one thread and one loop; what it needs was opened for it (inherit.h).
 */
#include "api/api.h"
#include "api/audit.h"
#include "api/caller.h"
#include "api/confine.h"
#include "api/events.h"
#include "api/files.h"
#include "api/idempotency.h"
#include "api/inherit.h"
#include "api/keeper.h"
#include "api/logs.h"
#include "api/metrics.h"
#include "api/runs.h"
#include "api/sandboxes.h"
#include "api/server.h"
#include "api/terminal.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "image/runtime_choose.h"
#include "session/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Islands that are kept ready for runs with the default limits. */
#define ISLANDS_AHEAD 4

/* How often it is looked whether what runs has ended, when we are asked to end. */
#define DRAIN_TICK_MS 20

/* For the answers of those whose time is over: they were cancelled. */
#define DRAIN_LAST_MS 2000

struct daemon {
	struct api api;
	struct loop_fd signals;
	struct loop_timer drain;
	uint64_t drain_ms; /* left */
	bool last;         /* which is for answers alone */
	int code;
};

static int fail(const struct cay_error *err)
{
	log_error(err->text, "hint", err->hint[0] ? err->hint : NULL);
	return 125;
}

static void on_lost(void *ctx)
{
	struct daemon *d = ctx;

	if (!d->api.draining)
		log_error("the launcher is gone");
	d->code = d->api.draining ? 0 : 125;
	loop_stop(d->api.loop);
}

static void on_drain(struct loop_timer *t)
{
	struct daemon *d = t->ctx;
	bool idle = server_connections(d->api.server) == 0 && runs_active(d->api.runs) == 0;

	if (!idle && !d->last && d->drain_ms < DRAIN_TICK_MS) {
		log_warning("ending what still runs");
		d->last = true;
		d->drain_ms = DRAIN_LAST_MS;
		runs_cancel(d->api.runs, &(struct viewer){.all = true});
	}
	if (idle || d->drain_ms < DRAIN_TICK_MS) {
		loop_stop(d->api.loop);
		return;
	}
	d->drain_ms -= DRAIN_TICK_MS;
	(void)loop_after(d->api.loop, t, DRAIN_TICK_MS);
}

static void on_signal(struct loop_fd *f, uint32_t events _unused_)
{
	struct daemon *d = f->ctx;
	struct signalfd_siginfo info;

	if (read(f->fd, &info, sizeof(info)) != (ssize_t)sizeof(info) || d->api.draining)
		return;
	d->api.draining = true;
	logs_leave(d->api.sandboxes);
	terminals_leave(d->api.terminals);
	files_watch_leave(&d->api);
	runs_turn_away(d->api.runs);
	server_drain(d->api.server);
	events_end(d->api.events);
	(void)loop_after(d->api.loop, &d->drain, 0);
}

static int catch_signals(struct daemon *d)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	d->signals = (struct loop_fd){
		.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal, .ctx = d};
	return d->signals.fd < 0 ? -1 : loop_add(d->api.loop, &d->signals, EPOLLIN);
}

static int read_settings(struct api *api, struct cay_error *err)
{
	struct buf *parts = &api->settings_parts;
	int r;

	*parts = BUF(SETTINGS_PARTS_MAX);
	settings_init(&api->settings);
	settings_init(&api->base);
	r = lseek(API_FD_SETTINGS, 0, SEEK_SET) < 0 ? -errno : fd_read_all(API_FD_SETTINGS, parts);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "read the settings");
	return settings_parse_parts(&api->base, parts, err) < 0
		       ? -1
		       : settings_parse_parts(&api->settings, parts, err);
}

/* A run as most are, to make islands ahead for. */
static int keep_ready(struct api *api, struct cay_error *err)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct plan *plan = NULL;
	int r = strv_add(&spec.args, "/bin/true") < 0
			? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep islands ready")
			: plan_make(&spec, &api->settings, NULL, NULL, NULL, &plan, err);

	if (r == 0)
		r = islands_ahead(api->place.islands, plan, ISLANDS_AHEAD, err);
	spec_done(&spec);
	free(plan);
	return r;
}

/* The same with a program of the default language, where that can be started ahead of time. */
static int keep_warm(struct api *api, struct cay_error *err)
{
	struct spec spec = {.kind = SPEC_CODE, .code = strdup("")};
	struct plan *plan = NULL;
	struct runtime runtime;
	struct cay_error none;
	int r;

	if (!spec.code || spec_set_language(&spec, LANGUAGE_DEFAULT, err) < 0) {
		spec_done(&spec);
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep islands ready");
	}
	if (runtime_choose(&api->settings, spec.language, NULL, NULL, &runtime, &none) < 0) {
		spec_done(&spec);
		return 0;
	}
	r = plan_make(&spec, &api->settings, &runtime, NULL, NULL, &plan, err);
	if (r == 0 && plan_warm(plan))
		r = islands_ahead(api->place.islands, plan, ISLANDS_AHEAD, err);
	spec_done(&spec);
	free(plan);
	return r;
}

static size_t count_routes(void)
{
	size_t n = 0;

	while (api_routes[n])
		n++;
	return n;
}

static void on_finished(struct exchange *x)
{
	struct api *api = api_of(x);

	idempotency_end(x);
	audit_note(x);
	metrics_exchange(api->metrics, x);
	caller_release(x);
	keeper_wrote(api);
}

/* The launcher's end of the socket was made by whoever started us. */
static int find_owner(struct api *api, struct cay_error *err)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(API_FD_LAUNCHER, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "see who started the daemon");
	api->owner = cred.uid;
	return 0;
}

static int start_server(struct api *api, bool tcp, struct cay_error *err)
{
	const struct server_config config = {
		.loop = api->loop,
		.routes = api_routes,
		.n_routes = count_routes(),
		.names = (const char *const *)api->base.serve_hosts.items,
		.n_names = api->base.serve_hosts.len,
		.authorize = caller_authorize,
		.before = idempotency_begin,
		.piece = idempotency_piece,
		.finished = on_finished,
		.ctx = api,
	};

	api->server = server_new(&config);
	if (!api->server)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start the server");
	if (server_listen(api->server, API_FD_UNIX, err) < 0)
		return -1;
	return tcp ? server_listen(api->server, API_FD_TCP, err) : 0;
}

static int confine(const struct api *api, struct cay_error *err)
{
	int landlock;

	if (confine_api(&api->settings, API_FD_STATE, &landlock, err) < 0)
		return -1;
	if (landlock == 0)
		log_warning("the kernel has no Landlock: the api is confined without");
	return 0;
}

static void on_unable(void *ctx _unused_, const char *id, const struct cay_error *err)
{
	log_error("a persistent sandbox can't be started any more", "sandbox", id, "why",
		  err->text);
}

static int start(struct daemon *d, struct cay_error *err)
{
	struct api *api = &d->api;
	bool tcp = fcntl(API_FD_TCP, F_GETFD) >= 0; /* before the number is taken again */

	api->live_fd = fcntl(API_FD_LIVE, F_GETFD) >= 0 ? API_FD_LIVE : -1;

	if (read_settings(api, err) < 0)
		return -1;
	if (fchdir(API_FD_STATE) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "enter the state directory");
	/* Versions of runtimes that were found once are kept there, too, wherever it is. */
	(void)setenv("XDG_CACHE_HOME", "/proc/self/cwd", 1);
	if (find_owner(api, err) < 0)
		return -1;
	api->loop = loop_new();
	if (!api->loop || catch_signals(d) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "start the loop");
	api->outlets = outlets_new(api->loop, API_FD_EGRESS);
	api->place = (struct job_place){
		.loop = api->loop,
		.outlets = api->outlets,
		.islands = islands_new(api->loop, API_FD_LAUNCHER, api->outlets, on_lost, d),
		.containers = islands_new(api->loop, API_FD_CONTAINERS, NULL, on_lost, d),
		.drains = drains_new(api->loop),
	};
	api->runs = runs_new(api);
	api->metrics = metrics_new();
	api->events = events_new();
	api->terminals = terminals_new(api->loop);
	if (!api->outlets || !api->place.islands || !api->place.containers || !api->place.drains ||
	    !api->runs || !api->metrics || !api->events || !api->terminals)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start");
	if (keeper_start(api, err) < 0 || settings_resume(api, err) < 0)
		return -1;
	api->sandboxes = sandboxes_new(&(struct sandboxes_config){.place = api->place,
								  .settings = &api->settings,
								  .store = api->store,
								  .ended = sandbox_ended,
								  .used = sandbox_used,
								  .unable = on_unable,
								  .ctx = api},
				       err);
	if (!api->sandboxes || sandboxes_count(api, err) < 0 || keep_ready(api, err) < 0 ||
	    keep_warm(api, err) < 0 || start_server(api, tcp, err) < 0)
		return -1;
	return confine(api, err);
}

static void stop(struct daemon *d)
{
	server_free(d->api.server);
	events_free(d->api.events);
	runs_free(d->api.runs);
	terminals_free(d->api.terminals);
	sandboxes_free(d->api.sandboxes);
	keeper_stop(&d->api);
	metrics_free(d->api.metrics);
	drains_free(d->api.place.drains);
	islands_free(d->api.place.islands);
	islands_free(d->api.place.containers);
	outlets_free(d->api.outlets);
	settings_done(&d->api.settings);
	settings_done(&d->api.base);
	buf_done(&d->api.settings_parts);
	loop_free(d->api.loop);
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct cay_error err;
	uint64_t seconds;

	if (argc != 2 || fcntl(API_FD_LAUNCHER, F_GETFD) < 0 ||
	    parse_u64(argv[1], 0, 3600, &seconds) < 0) {
		(void)fputs("cay-api is started by `cay serve`\n", stderr);
		return 125;
	}
	log_init("api", LOG_LEVEL_INFO);
	d.drain_ms = seconds * 1000;
	d.drain = (struct loop_timer){.fire = on_drain, .ctx = &d};
	for (int fd = API_FD_LAUNCHER; fd < API_FDS_END; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (start(&d, &err) < 0)
		return fail(&err);
	(void)!write(API_FD_READY, "", 1);
	(void)close(API_FD_READY);
	if (loop_run(d.api.loop) < 0)
		d.code = 125;
	stop(&d);
	return d.code;
}
