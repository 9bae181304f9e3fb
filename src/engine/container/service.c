#include "engine/container/service_main.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/outbox.h"
#include "base/title.h"
#include "core/limit.h"
#include "engine/container/keeper.h"
#include "engine/container/place.h"
#include "engine/container/sweep.h"
#include "engine/packet.h"
#include "image/naming.h"
#include "policy/plan.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEPERS_MAX 1024
#define REQUEST_FDS 3

/* A keeper, until it has ended. */
struct kept_island {
	struct service *service;
	uint32_t number;
	pid_t pid;
	bool told; /* the asker knows of its end */
	struct loop_fd sock;
	struct outbox out; /* what it does not take yet: it makes its container */
	struct kept_island *next;
};

struct service {
	const struct container_service *config;
	struct loop *loop;
	struct loop_fd asker;
	struct kept_island *islands;
	size_t n_islands;
	char owner[SWEEP_OWNER_SIZE];
};

static void report(struct service *s, const struct service_report *r)
{
	if (msg_send(s->asker.fd, r, sizeof(*r), NULL, 0) < 0)
		loop_stop(s->loop);
}

static void report_failure(struct service *s, uint32_t island, uint32_t command,
			   const struct cay_error *err)
{
	struct service_report r = {.kind = REPORT_FAILED,
				   .island = island,
				   .command = command,
				   .status = -1,
				   .error = *err};

	report(s, &r);
}

static struct kept_island *find(const struct service *s, uint32_t number)
{
	struct kept_island *k = s->islands;

	while (k && k->number != number)
		k = k->next;
	return k;
}

static void forget(struct kept_island *k)
{
	struct service *s = k->service;
	struct kept_island **at = &s->islands;
	struct cay_error err;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	s->n_islands--;
	loop_remove(s->loop, &k->sock);
	(void)close(k->sock.fd);
	while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (!k->told) {
		(void)cay_fail(&err, CAY_E_ENGINE, 0, "the container's keeper ended");
		report_failure(s, k->number, 0, &err);
	}
	outbox_done(&k->out);
	free(k);
}

static void listen_on(struct kept_island *k)
{
	(void)loop_change(k->service->loop, &k->sock, k->out.first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_keeper(struct loop_fd *f, uint32_t events)
{
	struct kept_island *k = f->ctx;
	struct service_report r;
	size_t none;
	ssize_t n;

	if (events & EPOLLOUT) {
		(void)outbox_flush(&k->out, f->fd);
		listen_on(k);
	}
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	n = msg_recv(f->fd, &r, sizeof(r), NULL, 0, &none);
	if (n == -EAGAIN)
		return;
	if (n != (ssize_t)sizeof(r)) {
		forget(k);
		return;
	}
	/* It keeps one, and speaks of no other. */
	r.island = k->number;
	if (r.kind == REPORT_GONE || (r.kind == REPORT_FAILED && r.command == 0))
		k->told = true;
	report(k->service, &r);
}

_noreturn_ static void be_keeper(struct service *s, int sock, const struct docker_place *place)
{
	struct keeper_config config = {
		.place = *place,
		.rules = s->config->rules,
		.owner = s->owner,
		.runtime = place_settings(place->engine, s->config->settings)->runtime,
		.may_pull = s->config->settings->images_pull == PULL_MISSING,
	};

	/* Others' sockets and pipes are not its own: they would not end. */
	if (fd_close_others(&sock, 1) < 0)
		_exit(125);
	_exit(keeper_serve(sock, &config));
}

static struct kept_island *keeper_start(struct service *s, uint32_t number,
					const struct docker_place *place, struct cay_error *err)
{
	struct kept_island *k = calloc(1, sizeof(*k));
	int ends[2];

	if (!k || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		free(k);
		(void)cay_fail(err, CAY_E_AT_CAPACITY, errno, "start a keeper");
		return NULL;
	}
	k->pid = fork();
	if (k->pid == 0)
		be_keeper(s, ends[1], place);
	(void)close(ends[1]);
	*k = (struct kept_island){
		.service = s,
		.number = number,
		.pid = k->pid,
		.sock = {.fd = ends[0], .ready = on_keeper, .ctx = k},
	};
	if (k->pid < 0 || fd_set_nonblock(ends[0], 1) < 0 ||
	    loop_add(s->loop, &k->sock, EPOLLIN) < 0) {
		(void)cay_fail(err, CAY_E_AT_CAPACITY, errno, "start a keeper");
		(void)close(ends[0]); /* which ends it */
		if (k->pid > 0)
			(void)waitpid(k->pid, NULL, 0);
		free(k);
		return NULL;
	}
	k->next = s->islands;
	s->islands = k;
	s->n_islands++;
	return k;
}

static int pass(struct kept_island *k, const void *packet, size_t len, const int *fds, size_t n_fds,
		struct cay_error *err)
{
	int r = outbox_send(&k->out, k->sock.fd, packet, len, fds, n_fds);

	if (r == 0)
		listen_on(k);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "talk to the container's keeper") : 0;
}

static int plan_ok(const struct service *s, const struct service_request *q, const struct plan *p,
		   size_t len, struct cay_error *err)
{
	if (plan_check(p, len, err) < 0 || limits_check(&p->limits, s->config->maximum, err) < 0)
		return -1;
	if (!plan_container_image(p))
		return cay_fail(err, CAY_E_INVALID, 0, "a plan that is for no container");
	if (image_may_use(s->config->settings, plan_container_image(p), NULL, err) < 0)
		return -1;
	if (p->allow_degraded && !s->config->may_degrade)
		return cay_fail(err, CAY_E_POLICY, 0, "the operator has every limit enforced");
	return packet_times_ok(q, &p->limits)
		       ? 0
		       : cay_fail(err, CAY_E_INVALID, 0, "more time than the plan has");
}

static int make(struct service *s, const struct service_request *q, size_t len, const int *fds,
		size_t n_fds, struct cay_error *err)
{
	const struct plan *p = (const struct plan *)(q + 1);
	struct docker_place place;
	struct kept_island *k;

	if (q->island == 0 || find(s, q->island) || s->n_islands >= KEEPERS_MAX)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "no room for island %u", q->island);
	if (q->flags & (FLAG_BARE | FLAG_PEER))
		return cay_fail(err, CAY_E_INVALID, 0, "a container without a sandbox");
	if (place_find((enum spec_engine)p->engine, s->config->settings, &place, err) < 0)
		return -1;
	k = keeper_start(s, q->island, &place, err);
	return k ? pass(k, q, len, fds, n_fds, err) : -1;
}

static int obey(struct service *s, const struct service_request *q, size_t len, const int *fds,
		size_t n_fds, struct cay_error *err)
{
	bool begins = q->kind == SERVICE_RUN || q->kind == SERVICE_MAKE;
	struct kept_island *k = find(s, q->island);

	if (!packet_ok(q, len, fds, n_fds))
		return cay_fail(err, CAY_E_INVALID, 0, "not a request");
	if ((begins || q->kind == SERVICE_COMMAND) &&
	    plan_ok(s, q, (const struct plan *)(q + 1), len - sizeof(*q), err) < 0)
		return -1;
	if (begins)
		return make(s, q, len, fds, n_fds, err);
	if (q->kind > SERVICE_USAGE && q->kind != SERVICE_INTERRUPT)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "not of a container");
	if (!k)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "there is no such island");
	return pass(k, q, len, fds, n_fds, err);
}

static void on_request(struct loop_fd *f, uint32_t events _unused_)
{
	static uint64_t room[SERVICE_PACKET_MAX / sizeof(uint64_t) + 1];
	struct service *s = f->ctx;
	const struct service_request *q = (const struct service_request *)room;
	struct cay_error err = {0};
	int fds[REQUEST_FDS] = {-1, -1, -1};
	size_t n_fds = 0;
	ssize_t n;

	memset(room, 0, sizeof(*q));
	n = msg_recv(f->fd, room, sizeof(room), fds, REQUEST_FDS, &n_fds);
	if (n == 0 || (n < 0 && n != -EMSGSIZE)) {
		loop_stop(s->loop);
		return;
	}
	if (n < (ssize_t)sizeof(*q))
		(void)cay_fail(&err, CAY_E_INVALID, 0, "not a request");
	else
		(void)obey(s, q, (size_t)n, fds, n_fds, &err);
	if (err.code != CAY_OK)
		report_failure(s, q->island, q->command, &err);
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
}

/*
 * What others left that were killed. By a process of its own: an engine that hangs is nothing that
 * anybody has to wait for.
 */
static void sweep(const struct container_service *config)
{
	if (fork() == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)sweep_engines(config->settings);
		_exit(0);
	}
}

int container_service_main(int sock, const struct container_service *config)
{
	static struct service s;

	s = (struct service){.config = config,
			     .asker = {.fd = sock, .ready = on_request, .ctx = &s},
			     .loop = loop_new()};
	title_set("cay: containers");
	if (!s.loop || sweep_owner(s.owner) < 0 || loop_add(s.loop, &s.asker, EPOLLIN) < 0)
		return 125;
	sweep(config);
	(void)loop_run(s.loop);
	/* They remove what they keep, all at the same time; nobody waits for more than that. */
	for (struct kept_island *k = s.islands; k; k = k->next)
		(void)shutdown(k->sock.fd, SHUT_RDWR);
	while (s.islands)
		forget(s.islands);
	return 0;
}
