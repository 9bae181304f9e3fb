#include "engine/native/making.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MKFS_MS 30000

/* An island's file system ends with its last process; a fd on its way can hold it longer. */
#define BUSY_TICK_MS 10
#define BUSY_TRIES   3000

struct making {
	struct making *next;
	struct service *service;
	uint32_t number;
	struct plan *plan;
	pid_t mkfs; /* 0: none */
	struct loop_fd end;
	struct loop_timer timer; /* mkfs takes too long; or: look again */
	unsigned tries;
};

static void making_free(struct making *m)
{
	struct making **at = &m->service->makings;

	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	loop_remove(m->service->loop, &m->end);
	loop_cancel(m->service->loop, &m->timer);
	fd_closep(&m->end.fd);
	if (m->mkfs > 0) {
		(void)kill(m->mkfs, SIGKILL);
		(void)waitpid(m->mkfs, NULL, 0);
		kept_drop_new(m->service->launcher.kept_dir, plan_kept(m->plan));
	}
	free(m->plan);
	free(m);
}

/* The workspace is there: on to the island. One that is still in use is looked at again. */
static int go_on(struct making *m, struct cay_error *err)
{
	struct service *s = m->service;

	if (service_make(s, m->number, 0, m->plan, NULL, err) == 0) {
		making_free(m);
		return 0;
	}
	if (err->code != CAY_E_CONFLICT || err->sys_errno != EBUSY || m->tries++ >= BUSY_TRIES)
		return -1;
	return loop_after(s->loop, &m->timer, BUSY_TICK_MS) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "wait for the workspace")
		       : 0;
}

static void fail(struct making *m, const struct cay_error *err)
{
	struct service *s = m->service;
	uint32_t number = m->number;

	making_free(m);
	service_report_failure(s, number, 0, err);
}

static void on_timer(struct loop_timer *t)
{
	struct making *m = t->ctx;
	struct cay_error err;

	if (m->mkfs > 0) {
		(void)kill(m->mkfs, SIGKILL); /* its end is noticed */
		return;
	}
	if (go_on(m, &err) < 0)
		fail(m, &err);
}

static void on_made(struct loop_fd *f, uint32_t events _unused_)
{
	struct making *m = f->ctx;
	struct cay_error err;
	int status = -1;

	loop_remove(m->service->loop, f);
	loop_cancel(m->service->loop, &m->timer);
	(void)waitpid(m->mkfs, &status, 0);
	m->mkfs = 0;
	if (status == 0 && go_on(m, &err) == 0)
		return;
	kept_drop_new(m->service->launcher.kept_dir, plan_kept(m->plan));
	if (status != 0)
		(void)cay_fail(&err, CAY_E_ENGINE, 0, "mkfs.ext4 could not make the workspace");
	fail(m, &err);
}

static int make_image(struct making *m, struct cay_error *err)
{
	struct service *s = m->service;
	int r;

	if (kept_make_image(s->launcher.kept_dir, plan_kept(m->plan), m->plan->limits.disk_bytes,
			    &m->mkfs, err) < 0)
		return -1;
	m->end.fd = sys_pidfd_open(m->mkfs);
	r = m->end.fd < 0 ? -errno : loop_add(s->loop, &m->end, EPOLLIN);
	if (r == 0)
		r = loop_after(s->loop, &m->timer, MKFS_MS);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "watch mkfs.ext4") : 0;
}

static int make_workspace(struct making *m, struct cay_error *err)
{
	const struct launcher *l = &m->service->launcher;
	const char *why = kept_no_image(l->many_ids);

	if (!why)
		return make_image(m, err);
	if (!m->plan->allow_degraded) {
		(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
			       "the limit disk can't be enforced on a workspace that is kept");
		return cay_hint(err, "%s; allow_degraded goes without that limit", why);
	}
	if (kept_make_plain(l->kept_dir, plan_kept(m->plan), l->many_ids, err) < 0)
		return -1;
	return go_on(m, err);
}

static bool is_taken(const struct service *s, uint32_t number)
{
	for (const struct making *m = s->makings; m; m = m->next)
		if (m->number == number)
			return true;
	return number == 0;
}

int making_start(struct service *s, uint32_t number, const struct plan *p, struct cay_error *err)
{
	struct making *m;
	int r;

	if (s->launcher.kept_dir < 0)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "no workspaces are kept here");
	if (is_taken(s, number) || guest_find(s, number))
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "no room for island %u", number);
	m = calloc(1, sizeof(*m));
	if (!m)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make an island");
	*m = (struct making){.next = s->makings,
			     .service = s,
			     .number = number,
			     .plan = plan_copy(p),
			     .end = {.fd = -1, .ready = on_made, .ctx = m},
			     .timer = {.fire = on_timer, .ctx = m}};
	s->makings = m;
	if (!m->plan)
		r = cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make an island");
	else if (copying_to(s, plan_kept(p)))
		r = cay_fail(err, CAY_E_CONFLICT, 0, "the workspace is being restored");
	else if (kept_look(s->launcher.kept_dir, plan_kept(p)) == KEPT_NONE)
		r = make_workspace(m, err);
	else
		r = go_on(m, err);
	if (r < 0)
		making_free(m);
	return r;
}

bool making_cancel(struct service *s, uint32_t number)
{
	struct service_report r = {
		.kind = REPORT_GONE, .island = number, .status = -1, .cause = CAUSE_CANCELLED};
	struct making *m = s->makings;

	while (m && m->number != number)
		m = m->next;
	if (!m)
		return false;
	making_free(m);
	service_report(s, &r);
	return true;
}

static void empty_gone(struct service *s);

static void emptier_ended(struct service *s)
{
	loop_remove(s->loop, &s->emptier);
	fd_closep(&s->emptier.fd);
	(void)waitpid(s->emptier_pid, NULL, 0);
	s->emptier_pid = 0;
}

static void on_emptied(struct loop_fd *f, uint32_t events _unused_)
{
	struct service *s = f->ctx;

	emptier_ended(s);
	if (s->empty_again)
		empty_gone(s);
}

/* What can't be begun now is done by the next sweep. */
static void empty_gone(struct service *s)
{
	pid_t pid;

	s->empty_again = s->emptier_pid > 0;
	if (s->empty_again)
		return;
	pid = fork();
	if (pid == 0) {
		int keep[] = {s->launcher.kept_dir};

		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && fd_close_others(keep, 1) == 0)
			kept_empty_gone(s->launcher.kept_dir);
		_exit(0);
	}
	if (pid < 0)
		return;
	s->emptier_pid = pid;
	s->emptier = (struct loop_fd){.fd = sys_pidfd_open(pid), .ready = on_emptied, .ctx = s};
	if (s->emptier.fd < 0 || loop_add(s->loop, &s->emptier, EPOLLIN) < 0)
		emptier_ended(s);
}

void making_discard(struct service *s, const char (*names)[ID_SIZE], size_t n)
{
	bool gone = false;

	for (size_t k = 0; k < n && s->launcher.kept_dir >= 0; k++)
		gone = kept_remove(s->launcher.kept_dir, names[k]) || gone;
	if (gone)
		empty_gone(s);
}

void making_sweep(struct service *s, const char (*names)[ID_SIZE], size_t n)
{
	bool gone = false;

	if (s->launcher.kept_dir >= 0)
		(void)kept_sweep(s->launcher.kept_dir, names, n, &gone);
	if (gone)
		empty_gone(s);
}

void makings_done(struct service *s)
{
	while (s->makings)
		making_free(s->makings);
	if (s->emptier_pid > 0) {
		(void)kill(s->emptier_pid, SIGKILL);
		emptier_ended(s);
	}
}
