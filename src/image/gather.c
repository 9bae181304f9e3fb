/*
 * Theory of operation. One loop; what takes time are other processes: fetchers (fetch.h) and jobs
 * that unpack (job.h). A layer goes through the states below, and after whatever happened step()
 * looks for what can be begun next. A layer whose download another process is at is looked at again
 * now and then: usually it is in the store by then. Who gets it from a registry that drips holds up
 * nobody else: what hardly grows meanwhile we download for ourselves, to a file of our own.
 */
#include "image/gather.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "image/layer.h"
#include "image/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX        4
#define OTHERS_EVERY_MS 100
/* Others' downloads are waited for while as much as this comes in such a time, and so long at most.
 */
#define OTHERS_LOOK_MS    10000
#define OTHERS_LOOK_BYTES (1u << 20)
#define OTHERS_MAX_MS     (600 * 1000)
#define PARTIAL_NAME_SIZE (IMAGE_ID_SIZE + 16)

enum state { TO_GET, GETTING, GOT, UNPACKING, THERE };

struct layer {
	const struct descriptor *from;
	const char *diff_id;
	enum state state;
	int fd;       /* of its file in partial/, locked; -1 */
	bool resumed; /* a part was here before */
	bool tried;   /* and was not of the same bytes */
	bool own;     /* its file is nobody else's */
	struct {
		int64_t since_ms, looked_ms; /* 0: nobody was at it */
		uint64_t bytes;              /* at that look */
	} others;
	struct gather *gather;
};

/* One of the processes at work, and the layer it is at: NULL while idle. */
struct post {
	struct gather *gather;
	struct loop_fd wait;
	struct layer *at;
	struct fetcher *fetcher; /* of one that downloads */
	struct job job;          /* of one that unpacks */
};

struct gather {
	const struct gather_call *call;
	struct loop *loop;
	struct loop_fd signals;
	struct loop_timer again;
	int partial; /* the directory */
	struct layer *layers;
	struct bar *bars_list;
	size_t n;
	struct bars bars;
	struct post fetching[GATHER_FETCHERS], unpacking[JOBS_MAX];
	size_t n_unpacking; /* how many may */
	struct post finishing;
	bool failed;
	struct cay_error *err;
};

static void step(struct gather *g);

static void stop(struct gather *g)
{
	g->failed = true;
	loop_stop(g->loop);
}

static size_t index_of(const struct layer *l)
{
	return (size_t)(l - l->gather->layers);
}

static void tell(const struct layer *l, enum bars_phase phase, uint64_t done)
{
	bars_set(&l->gather->bars, index_of(l), phase, done);
}

static void name_of(const struct layer *l, char ret[PARTIAL_NAME_SIZE])
{
	int n = snprintf(ret, PARTIAL_NAME_SIZE, "%s", l->from->digest);

	if (l->own)
		(void)snprintf(ret + n, PARTIAL_NAME_SIZE - (size_t)n, ".%d", (int)getpid());
}

/* Its file in partial/, locked. 0, -EAGAIN: another process has it; or -errno. */
static int open_partial(struct layer *l)
{
	_cleanup_(fd_closep) int fd = -1;
	char name[PARTIAL_NAME_SIZE];
	struct stat st, now;

	name_of(l, name);
	fd = openat(l->gather->partial, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	/* Who had it before may have been done with it, and removed the name. */
	if (fstat(fd, &st) < 0)
		return -errno;
	if (fstatat(l->gather->partial, name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    now.st_ino != st.st_ino || now.st_dev != st.st_dev)
		return -EAGAIN;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	l->fd = take_fd(&fd);
	return 0;
}

/* One of our own is of use to nobody else. */
static void drop_partial(struct layer *l, bool remove)
{
	char name[PARTIAL_NAME_SIZE];

	name_of(l, name);
	if ((remove || l->own) && l->fd >= 0)
		(void)unlinkat(l->gather->partial, name, 0);
	fd_closep(&l->fd);
}

/* It is in the store, by whomever. */
static bool is_there(struct layer *l)
{
	if (!store_has_layer(l->gather->call->store, l->diff_id))
		return false;
	drop_partial(l, true);
	l->state = THERE;
	tell(l, BARS_DONE, l->from->size);
	return true;
}

/* Its bytes in partial/, of an earlier pull or of another process. */
static uint64_t bytes_here(const struct layer *l)
{
	char name[PARTIAL_NAME_SIZE];
	struct stat st;

	name_of(l, name);
	if (fstatat(l->gather->partial, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (uint64_t)st.st_size;
}

/*
 * Whether another process takes too long with it. One that has all of it unpacks it, which takes
 * what it takes; one that has more has been told of another size than we.
 */
static bool is_held_up(struct layer *l)
{
	uint64_t here = bytes_here(l), came;
	int64_t now = clock_now_ms();

	if (l->others.since_ms == 0) {
		l->others.since_ms = l->others.looked_ms = now;
		l->others.bytes = here;
	}
	if (here > l->from->size || now - l->others.since_ms >= OTHERS_MAX_MS)
		return true;
	if (now - l->others.looked_ms < OTHERS_LOOK_MS)
		return false;
	came = here > l->others.bytes ? here - l->others.bytes : 0;
	l->others.looked_ms = now;
	l->others.bytes = here;
	return here < l->from->size && came < OTHERS_LOOK_BYTES;
}

/* Begins a download, or finds that none is needed. *ret_busy: another process is at it. */
static int begin(struct layer *l, struct post *p, bool *ret_busy)
{
	struct gather *g = l->gather;
	struct fetch_order order = {.kind = FETCH_BLOB, .size = l->from->size};
	struct stat st = {0};
	int r = open_partial(l);

	if (r == -EAGAIN && is_there(l))
		r = 0;
	if (r == -EAGAIN && is_held_up(l)) {
		l->own = true;
		r = open_partial(l);
	}
	*ret_busy = r == -EAGAIN;
	if (*ret_busy || l->state == THERE || (r == 0 && is_there(l)))
		return 0;
	if (r == 0 && fstat(l->fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return cay_fail(g->err, CAY_E_INTERNAL, -r, "keep a layer in partial/");
	order.have = (uint64_t)st.st_size;
	l->resumed = order.have > 0;
	if (order.have > order.size)
		order.have = 0;
	/* All of it, also where that is nothing. */
	if (order.have == order.size && l->resumed) {
		l->state = GOT;
		tell(l, BARS_DOWNLOADING, order.size);
		return 0;
	}
	(void)snprintf(order.reference, sizeof(order.reference), "%s", l->from->digest);
	if (fetcher_order(p->fetcher, &order, l->fd, g->err) < 0)
		return -1;
	p->at = l;
	l->state = GETTING;
	tell(l, BARS_DOWNLOADING, order.have);
	return 0;
}

static void on_fetcher(struct loop_fd *f, uint32_t events _unused_)
{
	struct post *p = f->ctx;
	struct layer *l = p->at;
	struct fetch_report report;

	fetcher_report(p->fetcher, &report);
	if (l && report.news == FETCH_MORE) {
		tell(l, BARS_DOWNLOADING, report.have);
		return;
	}
	p->at = NULL;
	/* One that has nothing to do says nothing, unless it ends. */
	if (!l || report.news == FETCH_FAILED) {
		*p->gather->err = report.err;
		stop(p->gather);
		return;
	}
	tell(l, BARS_DOWNLOADING, report.have);
	l->state = GOT;
	step(p->gather);
}

static int unpack(struct store *store, void *ctx, const struct progress *progress,
		  struct cay_error *err)
{
	const struct layer *l = ctx;
	struct image_layer layer = {.fd = l->fd, .size = l->from->size};

	memcpy(layer.digest, l->from->digest, sizeof(layer.digest));
	(void)snprintf(layer.diff_id, sizeof(layer.diff_id), "%s", l->diff_id);
	return store_add_layer(store, &layer, progress, err);
}

static void end_job(struct post *p)
{
	loop_remove(p->gather->loop, &p->wait);
	job_stop(&p->job);
	p->at = NULL;
}

static void on_job(struct loop_fd *f, uint32_t events _unused_)
{
	struct post *p = f->ctx;
	struct gather *g = p->gather;
	struct layer *l = p->at;
	struct job_report report;

	job_report(&p->job, &report);
	if (!report.ended) {
		tell(l, BARS_UNPACKING, report.done);
		return;
	}
	end_job(p);
	if (!report.failed && is_there(l)) {
		step(g);
		return;
	}
	if (!report.failed)
		(void)cay_fail(&report.err, CAY_E_CONFLICT, 0,
			       "a layer was removed as soon as it was there");
	/* What is no such layer is not gone on with; what was begun by others may be to blame. */
	drop_partial(l, report.failed && report.err.code == CAY_E_INVALID);
	if (report.failed && report.err.code == CAY_E_INVALID && l->resumed && !l->tried) {
		l->tried = true;
		l->state = TO_GET;
		step(g);
		return;
	}
	*g->err = report.err;
	stop(g);
}

static int begin_job(struct layer *l, struct post *p)
{
	struct gather *g = l->gather;
	int r;

	if (job_start(&p->job, g->call->store_dir, g->call->budget_bytes, unpack, l, g->err) < 0)
		return -1;
	p->at = l;
	p->wait = (struct loop_fd){.fd = p->job.reports, .ready = on_job, .ctx = p};
	r = loop_add(g->loop, &p->wait, EPOLLIN);
	if (r < 0)
		return cay_fail(g->err, CAY_E_INTERNAL, -r, "wait for a layer");
	l->state = UNPACKING;
	tell(l, BARS_UNPACKING, 0);
	return 0;
}

static struct layer *find(struct gather *g, enum state state, size_t from)
{
	for (size_t i = from; i < g->n; i++)
		if (g->layers[i].state == state)
			return &g->layers[i];
	return NULL;
}

static int begin_downloads(struct gather *g, bool *ret_busy)
{
	*ret_busy = false;
	for (size_t i = 0; i < GATHER_FETCHERS; i++) {
		struct post *p = &g->fetching[i];
		struct layer *l = p->at ? NULL : find(g, TO_GET, 0);

		while (l && !p->at) {
			bool busy;

			if (begin(l, p, &busy) < 0)
				return -1;
			*ret_busy |= busy;
			l = find(g, TO_GET, index_of(l) + 1);
		}
	}
	return 0;
}

static int begin_jobs(struct gather *g)
{
	for (size_t i = 0; i < g->n_unpacking; i++) {
		struct layer *l = g->unpacking[i].at ? NULL : find(g, GOT, 0);

		if (l && begin_job(l, &g->unpacking[i]) < 0)
			return -1;
	}
	return 0;
}

static void on_finished(struct loop_fd *f, uint32_t events _unused_)
{
	struct post *p = f->ctx;
	struct gather *g = p->gather;
	struct job_report report;

	job_report(&p->job, &report);
	if (!report.ended)
		return;
	if (report.failed) {
		*g->err = report.err;
		stop(g);
	}
	loop_stop(g->loop);
}

static void finish(struct gather *g)
{
	const struct gather_call *c = g->call;
	struct post *p = &g->finishing;
	int r;

	/* Nothing else is to be begun. */
	loop_cancel(g->loop, &g->again);
	if (job_start(&p->job, c->store_dir, c->budget_bytes, c->finish, c->ctx, g->err) < 0) {
		stop(g);
		return;
	}
	p->wait = (struct loop_fd){.fd = p->job.reports, .ready = on_finished, .ctx = p};
	r = loop_add(g->loop, &p->wait, EPOLLIN);
	if (r < 0) {
		(void)cay_fail(g->err, CAY_E_INTERNAL, -r, "wait for the image");
		stop(g);
	}
}

/* Begins all that can be begun. */
static void step(struct gather *g)
{
	bool busy;

	if (begin_downloads(g, &busy) < 0 || begin_jobs(g) < 0) {
		stop(g);
		return;
	}
	if (busy)
		(void)loop_after(g->loop, &g->again, OTHERS_EVERY_MS);
	for (size_t i = 0; i < g->n; i++)
		if (g->layers[i].state != THERE)
			return;
	finish(g);
}

static void on_again(struct loop_timer *t)
{
	step(t->ctx);
}

static void on_signal(struct loop_fd *f, uint32_t events _unused_)
{
	struct gather *g = f->ctx;
	struct signalfd_siginfo info;

	if (fd_read_exact(f->fd, &info, sizeof(info)) < 0)
		return;
	(void)cay_fail(g->err, CAY_E_CONFLICT, 0, "stopped by a signal");
	g->err->exit_code = 128 + (int)info.ssi_signo;
	stop(g);
}

/* Those that are not in the store, each once. */
static int list_layers(struct gather *g)
{
	const struct manifest *m = g->call->manifest;

	g->n = 0;
	g->layers = calloc(m->n_layers + 1, sizeof(*g->layers));
	g->bars_list = calloc(m->n_layers + 1, sizeof(*g->bars_list));
	if (!g->layers || !g->bars_list)
		return cay_fail(g->err, CAY_E_INTERNAL, ENOMEM, "list the layers");
	for (size_t i = 0; i < m->n_layers; i++) {
		const char *diff_id = g->call->diff_ids->items[i];
		bool known = false;

		for (size_t k = 0; k < g->n && !known; k++)
			known = strcmp(g->layers[k].diff_id, diff_id) == 0 ||
				strcmp(g->layers[k].from->digest, m->layers[i].digest) == 0;
		if (known || store_has_layer(g->call->store, diff_id))
			continue;
		g->bars_list[g->n] =
			(struct bar){.digest = m->layers[i].digest, .total = m->layers[i].size};
		g->layers[g->n++] = (struct layer){
			.from = &m->layers[i], .diff_id = diff_id, .fd = -1, .gather = g};
	}
	return 0;
}

/* Before the first byte comes. What can't be gone on with takes no room from others. */
static int check_room(struct gather *g)
{
	uint64_t room, inodes, missing = 0;

	if (store_room(g->call->store, &room, &inodes, g->err) < 0)
		return -1;
	for (size_t i = 0; i < g->n; i++) {
		uint64_t size = g->layers[i].from->size, here = bytes_here(&g->layers[i]);

		missing += size > here ? size - here : 0;
	}
	if (missing <= room)
		return 0;
	for (size_t i = 0; i < g->n; i++)
		if (bytes_here(&g->layers[i]) > 0 && open_partial(&g->layers[i]) == 0)
			drop_partial(&g->layers[i], true);
	(void)cay_fail(g->err, CAY_E_TOO_LARGE, ENOSPC,
		       "%llu bytes are to be downloaded, and there is room for %llu",
		       (unsigned long long)missing, (unsigned long long)room);
	return cay_hint(g->err, LAYER_ROOM_HINT);
}

/* Files of processes' own whose processes are gone. */
static void sweep_partial(const struct gather *g)
{
	DIR *d = fd_opendir_again(g->partial);

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		_cleanup_(fd_closep) int fd = -1;

		if (e->d_name[0] == '.' || !strchr(e->d_name, '.'))
			continue;
		fd = openat(g->partial, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)unlinkat(g->partial, e->d_name, 0);
	}
	(void)closedir(d);
}

static int watch_signals(struct gather *g)
{
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	g->signals = (struct loop_fd){
		.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal, .ctx = g};
	r = g->signals.fd < 0 ? -errno : loop_add(g->loop, &g->signals, EPOLLIN);
	return r;
}

static int watch_fetchers(struct gather *g)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < GATHER_FETCHERS; i++) {
		struct post *p = &g->fetching[i];

		p->gather = g;
		p->fetcher = &g->call->fetchers[i];
		p->wait =
			(struct loop_fd){.fd = p->fetcher->channel, .ready = on_fetcher, .ctx = p};
		r = loop_add(g->loop, &p->wait, EPOLLIN);
	}
	return r;
}

static size_t jobs_at_once(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : size_min((size_t)n, JOBS_MAX);
}

static void prepare(struct gather *g, const struct gather_call *call, struct cay_error *err)
{
	*g = (struct gather){.call = call, .err = err, .partial = -1};
	g->signals.fd = -1;
	g->again = (struct loop_timer){.fire = on_again, .ctx = g};
	g->n_unpacking = jobs_at_once();
	g->finishing = (struct post){.gather = g, .job = JOB_NONE};
	for (size_t i = 0; i < JOBS_MAX; i++)
		g->unpacking[i] = g->finishing;
}

static void clear(struct gather *g, const sigset_t *old)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (g->unpacking[i].at)
			end_job(&g->unpacking[i]);
	if (g->finishing.job.pid > 0)
		end_job(&g->finishing);
	if (g->loop) {
		for (size_t i = 0; i < GATHER_FETCHERS; i++)
			loop_remove(g->loop, &g->fetching[i].wait);
		loop_remove(g->loop, &g->signals);
		loop_cancel(g->loop, &g->again);
	}
	for (size_t i = 0; i < g->n; i++)
		drop_partial(&g->layers[i], false);
	fd_closep(&g->signals.fd);
	fd_closep(&g->partial);
	loop_free(g->loop);
	free(g->layers);
	free(g->bars_list);
	(void)sigprocmask(SIG_SETMASK, old, NULL);
}

static int run(struct gather *g)
{
	int r = 0;

	g->loop = loop_new();
	if (!g->loop)
		r = -errno;
	if (r == 0)
		r = watch_signals(g);
	if (r == 0)
		r = watch_fetchers(g);
	if (r == 0) {
		g->partial = openat(store_fd(g->call->store), "partial",
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = g->partial < 0 ? -errno : 0;
	}
	if (r < 0)
		return cay_fail(g->err, CAY_E_INTERNAL, -r, "begin to download");
	sweep_partial(g);
	if (list_layers(g) < 0 || check_room(g) < 0)
		return -1;
	bars_begin(&g->bars, g->call->title, g->bars_list, g->n, g->call->json);
	step(g);
	r = g->failed ? 0 : loop_run(g->loop);
	bars_end(&g->bars);
	if (r < 0)
		return cay_fail(g->err, CAY_E_INTERNAL, -r, "wait for layers");
	return g->failed ? -1 : 0;
}

int gather(const struct gather_call *call, struct cay_error *err)
{
	struct gather g;
	sigset_t old;
	int r;

	/* What jobs leave behind is ours to reap, so that it is gone when we say so. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || sigprocmask(SIG_BLOCK, NULL, &old) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "begin to download");
	prepare(&g, call, err);
	r = run(&g);
	clear(&g, &old);
	/* Of jobs that were ended; nobody is at it any more. */
	if (r < 0)
		staging_sweep(call->store);
	return r;
}
