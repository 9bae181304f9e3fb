#include "engine/native/making.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file system ends with its last island's last process, which may be a moment ago. */
#define BUSY_TICK_MS 10
#define BUSY_TRIES   500

#define COPIES_MAX 4
#define COPY_STEP  ((size_t)1 << 20)

struct copying {
	struct copying *next;
	struct service *service;
	uint32_t number;
	char from[ID_SIZE], to[ID_SIZE];
	struct kept_copy files;
	pid_t child; /* 0: none yet */
	struct loop_fd end;
	struct loop_timer again;
	unsigned tries;
};

static void copying_free(struct copying *c)
{
	struct copying **at = &c->service->copyings;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	loop_remove(c->service->loop, &c->end);
	loop_cancel(c->service->loop, &c->again);
	fd_closep(&c->end.fd);
	if (c->child > 0) {
		(void)kill(c->child, SIGKILL);
		(void)waitpid(c->child, NULL, 0);
		kept_drop_new(c->service->launcher.kept_dir, c->to);
	}
	kept_copy_done(&c->files);
	free(c);
}

static void fail(struct copying *c, const struct cay_error *err)
{
	struct service *s = c->service;
	uint32_t number = c->number;

	copying_free(c);
	service_report_failure(s, number, 0, err);
}

static void succeed(struct copying *c)
{
	struct service_report r = {.kind = REPORT_GONE, .island = c->number, .status = 0};
	struct service *s = c->service;

	copying_free(c);
	service_report(s, &r);
}

/* Holes stay holes: an image is mostly that. */
static int copy_data(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -1;
	while (at < st.st_size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0)
			return errno == ENXIO ? 0 : -1;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || lseek(to, data, SEEK_SET) < 0)
			return -1;
		for (at = data; at < hole;) {
			size_t want = size_min((size_t)(hole - at), COPY_STEP);
			ssize_t n = sendfile(to, from, &at, want);

			if (n <= 0 && errno != EINTR)
				return -1;
		}
	}
	return 0;
}

_noreturn_ static void be_copier(const struct copying *c)
{
	int keep[] = {c->files.from, c->files.to};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || fd_close_others(keep, ARRAY_LEN(keep)) < 0)
		_exit(1);
	/* At once, and without a byte more, where the file system can. */
	if (ioctl(c->files.to, FICLONE, c->files.from) < 0 &&
	    copy_data(c->files.from, c->files.to) < 0)
		_exit(2);
	_exit(fsync(c->files.to) < 0 ? 2 : 0);
}

static void on_copied(struct loop_fd *f, uint32_t events _unused_)
{
	struct copying *c = f->ctx;
	struct cay_error err;
	int status = -1;

	loop_remove(c->service->loop, f);
	(void)waitpid(c->child, &status, 0);
	c->child = 0;
	if (status == 0 && kept_copy_end(c->service->launcher.kept_dir, c->to, &err) == 0) {
		succeed(c);
		return;
	}
	kept_drop_new(c->service->launcher.kept_dir, c->to);
	if (status != 0)
		(void)cay_fail(&err, CAY_E_ENGINE, 0, "the workspace could not be copied");
	fail(c, &err);
}

static int copy(struct copying *c, struct cay_error *err)
{
	int r;

	c->child = fork();
	if (c->child == 0)
		be_copier(c);
	if (c->child < 0) {
		c->child = 0;
		kept_drop_new(c->service->launcher.kept_dir, c->to);
		return cay_fail(err, CAY_E_ENGINE, errno, "copy the workspace");
	}
	c->end.fd = sys_pidfd_open(c->child);
	r = c->end.fd < 0 ? -errno : loop_add(c->service->loop, &c->end, EPOLLIN);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "watch the copy") : 0;
}

/* 0: it is under way, or looked at again. */
static int begin(struct copying *c, struct cay_error *err)
{
	if (kept_copy_begin(c->service->launcher.kept_dir, c->from, c->to, &c->files, err) == 0)
		return copy(c, err);
	if (err->code != CAY_E_CONFLICT || err->sys_errno != EBUSY || c->tries++ >= BUSY_TRIES)
		return -1;
	return loop_after(c->service->loop, &c->again, BUSY_TICK_MS) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "wait for the workspace")
		       : 0;
}

static void on_again(struct loop_timer *t)
{
	struct copying *c = t->ctx;
	struct cay_error err;

	if (begin(c, &err) < 0)
		fail(c, &err);
}

/* Two at one file would be each other's. */
static int check_others(const struct service *s, uint32_t number, const char *from, const char *to,
			struct cay_error *err)
{
	size_t n = 0;

	for (const struct copying *c = s->copyings; c; c = c->next, n++)
		if (c->number == number || strcmp(c->to, to) == 0 || strcmp(c->to, from) == 0)
			return cay_fail(err, CAY_E_CONFLICT, 0, "the workspace is being copied");
	return n < COPIES_MAX ? 0
			      : cay_fail(err, CAY_E_AT_CAPACITY, 0,
					 "%d workspaces are being copied", COPIES_MAX);
}

int copying_start(struct service *s, uint32_t number, const char (*names)[ID_SIZE], size_t n,
		  struct cay_error *err)
{
	struct copying *c;

	if (s->launcher.kept_dir < 0)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "no workspaces are kept here");
	if (n != 2 || number == 0 || strcmp(names[0], names[1]) == 0)
		return cay_fail(err, CAY_E_INVALID, 0, "a copy has two names");
	if (check_others(s, number, names[0], names[1], err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (!c)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "copy the workspace");
	*c = (struct copying){.next = s->copyings,
			      .service = s,
			      .number = number,
			      .files = KEPT_COPY_NONE,
			      .end = {.fd = -1, .ready = on_copied, .ctx = c},
			      .again = {.fire = on_again, .ctx = c}};
	memcpy(c->from, names[0], ID_SIZE);
	memcpy(c->to, names[1], ID_SIZE);
	s->copyings = c;
	if (begin(c, err) == 0)
		return 0;
	copying_free(c);
	return -1;
}

bool copying_to(const struct service *s, const char *name)
{
	for (const struct copying *c = s->copyings; c; c = c->next)
		if (strcmp(c->to, name) == 0)
			return true;
	return false;
}

bool copying_cancel(struct service *s, uint32_t number)
{
	struct service_report r = {
		.kind = REPORT_GONE, .island = number, .status = -1, .cause = CAUSE_CANCELLED};
	struct copying *c = s->copyings;

	while (c && c->number != number)
		c = c->next;
	if (!c)
		return false;
	copying_free(c);
	service_report(s, &r);
	return true;
}

void copyings_done(struct service *s)
{
	while (s->copyings)
		copying_free(s->copyings);
}
