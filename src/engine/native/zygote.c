#include "engine/native/zygote.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/native/island.h"
#include "engine/native/stock.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One that waits answers in a millisecond; one that does not in this time is given up. */
#define BIRTH_MS 2000

/* Loading everything takes a second on a slow machine, if much of it is on no disk cache. */
#define START_MS      30000
#define POLL_MS       20
#define LOOK_MS       2000
#define AGAIN_MS      2000 /* after one that failed; after each further twice as long */
#define AGAIN_DOUBLES 9

/* One that was never ready: as our default set. What it takes is known then. */
#define GUESS_BYTES (8ull << 20)

/* So much of its mother's memory an island has copied at most while it waits. */
#define CHILD_SHARE 4

#define PF_EXITING 0x4 /* of /proc/PID/stat, field 9 */

#define INTERPRETER 1 /* the number of the command that it is, on its island */

enum zygote_state {
	ZYGOTE_STARTS,
	ZYGOTE_WAITS,
	ZYGOTE_FADES, /* it bears no more, and goes with its last island */
	ZYGOTE_ENDS,  /* its island was killed */
};

struct zygote {
	struct zygote *next;
	struct launcher *launcher;
	struct zygote_kind *kind;
	enum zygote_state state;
	struct launched island;
	struct cgroups_below below;
	int sock;
	int64_t since_ms, looked_ms;
	uint64_t memory_bytes; /* what is counted for it */
	uint64_t namespaces[NAMESPACES];
	uint8_t taken[ZYGOTE_CHILDREN];
	size_t n_children, n_births;
};

/* Its island is reaped: where that was not killed, or is not dead yet, this waits. */
static void zygote_free(struct zygote *z)
{
	struct zygote **at = &z->launcher->zygotes;
	struct usage unused;

	while (*at && *at != z)
		at = &(*at)->next;
	if (*at)
		*at = z->next;
	fd_closep(&z->sock);
	launched_reap(&z->island, &unused);
	stock_drop_cgroups(z->launcher, &z->below.cgroups);
	cgroups_below_remove(&z->below);
	free(z);
}

static void fade(struct zygote *z)
{
	z->state = ZYGOTE_FADES;
	z->launcher->zygote_news = true;
	fd_closep(&z->sock); /* the interpreter ends by that */
}

/* What can't be started now, or ever, is tried less and less often. */
static void put_off(struct zygote_kind *k, const char *why)
{
	log_warning("an interpreter could not be started ahead: its runs start cold", "set", k->set,
		    "program", k->program, "why", why);
	k->not_before_ms = clock_now_ms() + ((int64_t)AGAIN_MS << k->failures);
	if (k->failures < AGAIN_DOUBLES)
		k->failures++;
}

static void fail(struct zygote *z, const char *why)
{
	put_off(z->kind, why);
	fade(z);
}

/* The interpreter, with the socket for its standard input. */
static int give_order(struct zygote *z, struct cay_error *err)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	_cleanup_(fd_closep) int theirs = -1;
	int pair[2], r;

	if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "start a zygote");
	z->sock = pair[0];
	theirs = pair[1];
	/* One that takes nothing more is of no use: it is not waited for. */
	if (fd_set_nonblock(z->sock, 1) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "start a zygote");
	r = launched_order(&z->island, INTERPRETER, 0, NULL, (int[]){theirs, z->kind->module, null},
			   NULL, 0);
	if (r == 0)
		r = outbox_flush(&z->island.orders, z->island.control);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "start a zygote") : 0;
}

/* What one that is not ready yet counts as. */
static uint64_t expected_bytes(const struct zygote_kind *k)
{
	return k->memory_bytes ? k->memory_bytes : GUESS_BYTES;
}

static int zygote_start(struct launcher *l, struct zygote_kind *k, int64_t now_ms,
			struct cay_error *err)
{
	struct zygote *z = calloc(1, sizeof(*z));
	uint32_t n_ids = (ZYGOTE_CHILDREN + 1) * IDS_RANGE;

	if (!z)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "start a zygote");
	*z = (struct zygote){.launcher = l,
			     .kind = k,
			     .sock = -1,
			     .since_ms = now_ms,
			     .memory_bytes = expected_bytes(k)};
	launched_init(&z->island, l);
	z->island.n_ids = n_ids;
	z->next = l->zygotes;
	l->zygotes = z;
	if ((!l->many_ids ||
	     ids_take_block(&l->ids, n_ids / IDS_RANGE, &z->island.first_id, err) == 0) &&
	    cgroups_below_make(&l->cgroups, z->island.first_id, &z->below, err) == 0 &&
	    launcher_make_zygote(l, k->plan, &z->below.cgroups, &z->island, err) == 0 &&
	    give_order(z, err) == 0) {
		/* With PID 1 all that was borne would end: it is the interpreter that goes. */
		cgroup_spare_others(&z->island.cgroup);
		/* It can be removed: what is loaded of it has changed then. */
		image_root_let_go(&z->island.image);
		return 0;
	}
	fade(z);
	return -1;
}

/* -1: it is not what it must be. */
static int hear_island(struct zygote *z, struct cay_error *err)
{
	struct pollfd said = {.fd = z->island.control, .events = POLLIN};
	struct message m;

	while (poll(&said, 1, 0) > 0) {
		if (!launcher_listen(z->island.control, &m, NULL))
			return cay_fail(err, CAY_E_ENGINE, 0, "its island ended");
		if (m.kind == MESSAGE_FAILED) {
			*err = m.error;
			return -1;
		}
		if (m.kind != MESSAGE_READY)
			return cay_fail(err, CAY_E_ENGINE, 0, "it ended while it was started");
		if (facts_check_zygote(&m.facts, z->launcher->own_namespaces, err) < 0)
			return -1;
		memcpy(z->namespaces, m.facts.namespaces, sizeof(z->namespaces));
	}
	return 0;
}

/* The next word; 0, -EAGAIN where there is none in this time, or what is wrong. */
static int hear(const struct zygote *z, int timeout_ms, struct zygote_message *ret, int *ret_fd)
{
	struct pollfd said = {.fd = z->sock, .events = POLLIN};
	size_t n_fds = 0;
	ssize_t n;
	int r;

	*ret_fd = -1;
	do
		r = poll(&said, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -EAGAIN;
	n = msg_recv(z->sock, ret, sizeof(*ret), ret_fd, 1, &n_fds);
	if (n < 0 || n_fds == 0)
		*ret_fd = -1;
	if (n != (ssize_t)sizeof(*ret))
		return n < 0 ? (int)n : -EPIPE;
	if (ret->kind == ZYGOTE_FAILED)
		cay_error_mend(&ret->error);
	return 0;
}

/* Those before it have borne enough. */
static void succeed(const struct zygote *heir)
{
	for (struct zygote *z = heir->launcher->zygotes; z; z = z->next)
		if (z != heir && z->kind == heir->kind && z->state == ZYGOTE_WAITS)
			fade(z);
}

/* The one, but for this and what is kept, that was longest unused; NULL: all are in use. */
static struct zygote *find_unused(const struct zygote_kind *for_whom, int64_t now_ms,
				  struct launcher *l)
{
	struct zygote *found = NULL;

	for (struct zygote *z = l->zygotes; z; z = z->next)
		if (z->state < ZYGOTE_FADES && z->kind != for_whom && !z->kind->kept &&
		    now_ms - z->kind->used_ms >= ZYGOTE_YIELD_MS &&
		    (!found || z->kind->used_ms < found->kind->used_ms))
			found = z;
	return found;
}

/* Whether there is room for so much more. Others that are unused give way. */
static bool make_room(struct launcher *l, struct zygote_kind *k, uint64_t more, int64_t now_ms)
{
	struct zygote *other = NULL;

	while (zygotes_bytes(l) + more > l->shelves.memory_bytes &&
	       (other = find_unused(k, now_ms, l))) {
		other->kind->wanted = false;
		fade(other);
	}
	if (zygotes_bytes(l) + more <= l->shelves.memory_bytes) {
		k->crowded_out = false;
		return true;
	}
	if (!k->crowded_out)
		log_warning("[warm] memory has no room for an interpreter: its runs start cold",
			    "set", k->set, "program", k->program);
	k->crowded_out = true;
	return false;
}

/* It is ready, and what it takes is known. */
static void take_up(struct zygote *z, uint64_t bytes, int64_t now_ms)
{
	z->memory_bytes = z->kind->memory_bytes = bytes + AHEAD_BYTES;
	if (!make_room(z->launcher, z->kind, 0, now_ms)) {
		fade(z);
		return;
	}
	z->state = ZYGOTE_WAITS;
	z->launcher->zygote_news = true;
	succeed(z);
}

static void tend_start(struct zygote *z, int64_t now_ms)
{
	struct cay_error err;
	struct zygote_message m = {0};
	int fd, r;

	if (hear_island(z, &err) < 0) {
		fail(z, err.text);
		return;
	}
	r = hear(z, 0, &m, &fd);
	fd_closep(&fd);
	if (r == -EAGAIN && now_ms - z->since_ms < START_MS)
		return;
	/* READY of the island comes first: until then nothing is known of its namespaces. */
	if (r == 0 && m.kind == ZYGOTE_READY && z->namespaces[0] != 0) {
		take_up(z, m.memory_bytes, now_ms);
	} else {
		fail(z, r == 0 && m.kind == ZYGOTE_FAILED ? m.error.text : "it did not get ready");
	}
}

static bool is_dead(const struct launched *i)
{
	struct pollfd end = {.fd = i->pidfd, .events = POLLIN};

	return i->pidfd < 0 || poll(&end, 1, 0) > 0;
}

static void tend(struct zygote *z, int64_t now_ms)
{
	const struct zygote_message look = {.kind = ZYGOTE_LOOK};
	struct pollfd said = {.fd = z->sock, .events = POLLIN};

	if (z->state == ZYGOTE_STARTS)
		tend_start(z, now_ms);
	/* Where nobody waits for an answer, its end is all it has to say. */
	else if (z->state == ZYGOTE_WAITS && poll(&said, 1, 0) > 0)
		fade(z);
	else if (z->state == ZYGOTE_WAITS && now_ms - z->looked_ms >= LOOK_MS) {
		z->looked_ms = now_ms;
		if (msg_send(z->sock, &look, sizeof(look), NULL, 0) < 0)
			fade(z);
	}
	if (z->state == ZYGOTE_FADES && z->n_children == 0) {
		launched_kill(&z->island);
		z->state = ZYGOTE_ENDS;
	}
	/* One that was killed may yet wait for something in the kernel: we do not. */
	if (z->state == ZYGOTE_ENDS && is_dead(&z->island))
		zygote_free(z);
}

/* How many it bears before the one that shall take over is started: that takes a second. */
static size_t births_alone(const struct zygote_kind *k)
{
	return k->births_max - k->births_max / 16;
}

/* Whether there is one that need not be replaced, or is on its way. */
static bool is_served(const struct launcher *l, const struct zygote_kind *k)
{
	for (const struct zygote *z = l->zygotes; z; z = z->next)
		if (z->kind == k && z->state < ZYGOTE_FADES && z->n_births < births_alone(k))
			return true;
	return false;
}

uint64_t zygotes_bytes(const struct launcher *l)
{
	uint64_t sum = 0;

	/* What is left of one that fades is there for the runs that it bore. */
	for (const struct zygote *z = l->zygotes; z; z = z->next)
		sum += z->state < ZYGOTE_FADES ? z->memory_bytes : 0;
	return sum;
}

uint64_t zygote_child_bytes(const struct zygote_kind *k)
{
	return AHEAD_BYTES + expected_bytes(k) / CHILD_SHARE;
}

static void tend_kind(struct launcher *l, struct zygote_kind *k, int64_t now_ms)
{
	struct cay_error err;

	if (!k->kept && k->wanted && now_ms - k->used_ms >= ZYGOTE_FORGET_MS) {
		k->wanted = false;
		for (struct zygote *z = l->zygotes; z; z = z->next)
			if (z->kind == k && z->state < ZYGOTE_FADES)
				fade(z);
	}
	if ((k->kept || k->wanted) && !is_served(l, k) && now_ms >= k->not_before_ms &&
	    make_room(l, k, expected_bytes(k), now_ms) && zygote_start(l, k, now_ms, &err) < 0)
		put_off(k, err.text);
}

int zygotes_tend(struct launcher *l, int64_t now_ms, bool *ret_news)
{
	int again = -1;

	for (struct zygote *z = l->zygotes, *next; z; z = next) {
		next = z->next;
		tend(z, now_ms);
	}
	for (size_t n = 0; n < l->n_zygote_kinds; n++) {
		struct zygote_kind *k = &l->zygote_kinds[n];

		tend_kind(l, k, now_ms);
		if (k->kept || k->wanted)
			again = LOOK_MS;
	}
	if (l->zygotes)
		again = LOOK_MS;
	for (struct zygote *z = l->zygotes; z; z = z->next)
		if (z->state == ZYGOTE_STARTS || z->state == ZYGOTE_ENDS)
			again = POLL_MS;
	*ret_news = l->zygote_news;
	l->zygote_news = false;
	return again;
}

static bool same_mounts(const struct plan *a, const struct plan *b)
{
	if (a->n_mounts != b->n_mounts)
		return false;
	for (uint32_t n = 0; n < a->n_mounts; n++)
		if (a->mounts[n].kind != MOUNT_OPERATOR || b->mounts[n].kind != MOUNT_OPERATOR ||
		    strcmp(plan_str(a, a->mounts[n].source), plan_str(b, b->mounts[n].source)) != 0)
			return false;
	return true;
}

/* An image's root is mounted for each island with its own ids, where there are such. */
static bool same_image(const struct launcher *l, const struct plan *a, const struct plan *b)
{
	const char *one = plan_image(a), *other = plan_image(b);

	return one && other ? l->many_ids && strcmp(one, other) == 0 : !one && !other;
}

bool zygote_kind_waits(const struct zygote_kind *k)
{
	return k->waiter.plan;
}

void zygote_kind_look(const struct zygote_kind *k, struct program_id *ret)
{
	struct stat st = {0};

	(void)stat(k->program, &st); /* one that is gone is none that was there */
	*ret = (struct program_id){.dev = st.st_dev,
				   .ino = st.st_ino,
				   .changed_s = st.st_ctim.tv_sec,
				   .changed_ns = st.st_ctim.tv_nsec};
}

/*
 * Whether what waits can become this program: the same words as far as it is an interpreter, then
 * code or a file, as it was started for either; and where it is already.
 */
static bool suits_waiter(const struct waiter *w, const struct plan *p)
{
	const char *its = plan_first(w->plan, w->plan->argv), *word = plan_first(p, p->argv);
	uint32_t n = 0;

	if (p->n_mounts > 0 || plan_image(p) || p->limits.pids < WAITER_PIDS_MIN ||
	    p->compile.len > 0 ||
	    strcmp(plan_str(p, p->workdir), plan_str(w->plan, w->plan->workdir)) != 0)
		return false;
	for (; strcmp(its, WAITER_OPTION) != 0; its = plan_next(its), word = plan_next(word))
		if (++n >= p->argv.len || strcmp(its, word) != 0)
			return false;
	its = plan_next(plan_next(its));
	return strcmp(its, "-e") == 0
		       ? strcmp(word, "-e") == 0 || strncmp(word, "--eval=", strlen("--eval=")) == 0
		       : word[0] == '/';
}

struct zygote_kind *zygote_kind_of(struct launcher *l, const struct plan *p)
{
	const char *set = plan_warm(p);

	if (!set || p->writable || p->uid == 0 || p->size > ORDER_PLAN_MAX)
		return NULL;
	for (size_t n = 0; n < l->n_zygote_kinds; n++) {
		struct zygote_kind *k = &l->zygote_kinds[n];

		if (strcmp(k->set, set) == 0 && strcmp(k->program, plan_first(p, p->argv)) == 0 &&
		    same_mounts(k->plan, p) && same_image(l, k->plan, p) &&
		    (!zygote_kind_waits(k) || suits_waiter(&k->waiter, p)))
			return k;
	}
	return NULL;
}

void zygote_want(struct zygote_kind *k, int64_t now_ms)
{
	k->wanted = true;
	k->used_ms = now_ms;
}

struct zygote *zygote_find(struct launcher *l, const struct zygote_kind *k)
{
	struct zygote *z = l->zygotes;

	while (z && (z->kind != k || z->state != ZYGOTE_WAITS || z->n_children == ZYGOTE_CHILDREN))
		z = z->next;
	return z;
}

bool zygote_is_well(const struct zygote *z)
{
	return z->state == ZYGOTE_WAITS;
}

/* Such a one is shown in the root of v1's trees, before its pidfd tells of its end. */
static bool is_exiting(pid_t pid)
{
	char path[64], text[512], *rest;
	unsigned flags;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	rest = strrchr(text, ')'); /* a name may have any other */
	return rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       flags & PF_EXITING;
}

int zygote_check_child(const struct launched *i, const uint64_t namespaces[NAMESPACES],
		       struct cay_error *err)
{
	struct cgroup_ticket ticket;

	for (int n = 0; n < NAMESPACES; n++)
		if (namespaces[n] == i->mother->namespaces[n])
			return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
					"the island has a namespace of its zygote's");
	cgroup_ticket(&i->cgroup, &ticket);
	/* One that has ended is in none, and its number may be another's. */
	if (cgroup_is_joined(&ticket, i->pid) || is_exiting(i->pid) || is_dead(i))
		return 0;
	return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "the island is not in its cgroups");
}

int zygote_provide(struct zygote *z, const struct plan *p, struct launched *i,
		   struct cay_error *err)
{
	size_t n = 0;
	int r;

	while (n < ZYGOTE_CHILDREN && z->taken[n])
		n++;
	if (n == ZYGOTE_CHILDREN)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "the zygote has all its ids in use");
	z->taken[n] = 1;
	z->n_children++;
	i->mother = z;
	i->warm = true;
	i->slot = (uint32_t)n;
	if (z->island.first_id) {
		i->n_ids = IDS_RANGE;
		i->first_id = z->island.first_id + (uint32_t)(n + 1) * IDS_RANGE;
	}
	if (stock_take_cgroup(z->launcher, &z->below.cgroups, p, &i->cgroup, err) < 0)
		return -1;
	r = cgroup_open_birth(&i->cgroup, z->island.first_id);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "give the zygote a cgroup") : 0;
}

/*
 * "NSpid:\t1234\t7\t1": the PID 1 of a PID namespace within the zygote's island's, or 0. Whatever
 * else a zygote sends, the launcher's own process or one of the host's, is nothing to be killed.
 */
static pid_t read_borne(int pidfd)
{
	char path[64], text[512], *line;
	unsigned pid, middle, inside;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	line = strstr(text, "\nNSpid:\t");
	if (!line)
		return 0;
	line[1 + strcspn(line + 1, "\n")] = '\0';
	return sscanf(line, "\nNSpid: %u %u %u", &pid, &middle, &inside) == 3 && inside == 1 &&
			       pid <= INT32_MAX
		       ? (pid_t)pid
		       : 0;
}

/*
 * A directory's fd leads up by "..", and out of the zygote's root: as a mount of its own it leads
 * nowhere. With one id the zygote is the user that the launcher is, and there is nothing to keep.
 */
static int open_birth_place(const struct launched *i)
{
	int fd = i->first_id ? sys_open_tree(i->cgroup.unified, "",
					     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)
			     : fcntl(i->cgroup.unified, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

static int ask(struct zygote *z, const struct plan *p, const struct launched *i, int theirs)
{
	_cleanup_(fd_closep) int cgroup = i->cgroup.unified >= 0 ? open_birth_place(i) : -1;
	struct zygote_message m = {.kind = ZYGOTE_BEAR,
				   .uid = i->uid,
				   .gid = i->gid,
				   .network = (uint32_t)i->network,
				   .single = i->single};
	int fds[ZYGOTE_FDS] = {theirs};
	size_t n_fds = 1;
	char *packet;
	int r;

	if (i->first_id)
		m.first_id = i->first_id - z->island.first_id;
	if (i->cgroup.unified >= 0 && cgroup < 0)
		return cgroup;
	m.has_cgroup = cgroup >= 0;
	if (m.has_cgroup)
		fds[n_fds++] = cgroup;
	m.has_image = i->image.tree >= 0;
	if (m.has_image)
		fds[n_fds++] = i->image.tree;
	/* In one packet: it is walked only when it is whole. */
	packet = malloc(sizeof(m) + p->size);
	if (!packet)
		return -ENOMEM;
	memcpy(packet, &m, sizeof(m));
	memcpy(packet + sizeof(m), p, p->size);
	r = msg_send(z->sock, packet, sizeof(m) + p->size, fds, n_fds);
	free(packet);
	return r;
}

int zygote_bear(struct zygote *z, const struct plan *p, struct launched *i, int theirs,
		struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct zygote_message m = {0};
	int r = ask(z, p, i, theirs);

	if (r == 0)
		r = hear(z, BIRTH_MS, &m, &fd);
	i->pid = r == 0 && m.kind == ZYGOTE_BORN && fd >= 0 ? read_borne(fd) : 0;
	if (i->pid > 0) {
		i->pidfd = take_fd(&fd);
		z->kind->failures = 0;
		z->n_births++;
		if (z->n_births == births_alone(z->kind))
			z->launcher->zygote_news = true; /* another is wanted */
		if (z->n_births == z->kind->births_max)
			fade(z);
		return 0;
	}
	if (r == 0 && m.kind == ZYGOTE_FAILED)
		*err = m.error;
	else
		(void)cay_fail(err, CAY_E_ENGINE, r < 0 ? -r : 0, "the zygote did not answer");
	/* One that never could is not started again and again. */
	if (z->n_births > 0)
		fade(z);
	else
		fail(z, err->text);
	return -1;
}

void zygote_lay_to_rest(struct launched *i)
{
	struct pollfd end = {.fd = i->pidfd, .events = POLLIN};

	if (i->pidfd >= 0)
		while (poll(&end, 1, -1) < 0 && errno == EINTR)
			;
	i->mother->taken[i->slot] = 0;
	i->mother->n_children--;
	i->mother = NULL;
	i->first_id = 0;
}

void zygotes_done(struct launcher *l)
{
	while (l->zygotes) {
		launched_kill(&l->zygotes->island);
		zygote_free(l->zygotes);
	}
}
