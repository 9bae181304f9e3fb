#include "engine/native/removal.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/guest.h"
#include "engine/sys.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct removal {
	struct removal *next;
	struct service *service;
	pid_t pid;
	struct loop_fd end;
};

static void removal_free(struct removal *r)
{
	struct removal **at = &r->service->removals;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	loop_remove(r->service->loop, &r->end);
	fd_closep(&r->end.fd);
	(void)waitpid(r->pid, NULL, 0);
	free(r);
}

static void on_removed(struct loop_fd *f, uint32_t events _unused_)
{
	removal_free(f->ctx);
}

_noreturn_ static void remove_it(struct workspace *w)
{
	int none[] = {-1};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && fd_close_others(none, 1) == 0)
		workspace_remove(w);
	_exit(0);
}

void removal_start(struct service *s, struct workspace *w)
{
	struct removal *r = calloc(1, sizeof(*r));
	pid_t pid = r ? fork() : -1;

	if (pid == 0)
		remove_it(w);
	if (pid < 0) {
		free(r);
		workspace_remove(w);
		return;
	}
	w->top[0] = '\0';
	*r = (struct removal){.next = s->removals, .service = s, .pid = pid};
	r->end = (struct loop_fd){.fd = sys_pidfd_open(pid), .ready = on_removed, .ctx = r};
	s->removals = r;
	if (r->end.fd < 0 || loop_add(s->loop, &r->end, EPOLLIN) < 0)
		removal_free(r);
}

void removals_done(struct service *s)
{
	while (s->removals)
		removal_free(s->removals);
}
