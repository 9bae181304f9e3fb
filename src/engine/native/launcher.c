#include "engine/native/launcher.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "core/limit.h"
#include "engine/native/bare.h"
#include "engine/native/confine.h"
#include "engine/native/island.h"
#include "engine/native/network.h"
#include "engine/native/stock.h"
#include "engine/native/zygote.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Set-up takes a millisecond; a file system that does not answer must not hold us for ever. */
#define SETUP_TIMEOUT_MS 30000

void launcher_init(struct launcher *l, const struct mount_rules *rules)
{
	*l = (struct launcher){
		.rules = rules, .template = -1, .own_mount = -1, .own_net = -1, .kept_dir = -1};
	l->shelves.memory_bytes = UINT64_MAX;
	l->many_ids = ids_all_owned(&l->ids_error);
	cgroups_init(&l->cgroups);
	ids_init(&l->ids);
}

void launched_discard(struct launched *i)
{
	struct usage unused;

	launched_kill(i);
	launched_reap(i, &unused);
}

void launcher_done(struct launcher *l)
{
	shelves_done(l);
	zygotes_done(l);
	stock_done(l);
	image_shifts_done(&l->image_shifts);
	cgroups_done(&l->cgroups);
	ids_done(&l->ids);
}

bool launcher_listen(int control, struct message *ret, int *ret_fd)
{
	size_t n_fds = 0;
	int fd = -1;
	ssize_t n = msg_recv(control, ret, sizeof(*ret), &fd, 1, &n_fds);

	if (ret_fd)
		*ret_fd = n_fds > 0 ? fd : -1;
	else if (n_fds > 0)
		(void)close(fd);
	if (n != (ssize_t)sizeof(*ret))
		return false;
	if (ret->kind == MESSAGE_FAILED)
		cay_error_mend(&ret->error);
	return true;
}

/*
 * A template has no mount points but its own: other targets need a root of their own. Images have
 * that in any case, and are laid out from there, because it has a /dev, and little else to copy.
 */
static bool fits_template(const struct launcher *l, const struct plan *p)
{
	if (l->template <0 || plan_image(p))
		return l->template >= 0;
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (strcmp(plan_str(p, p->mounts[n].target), ISLAND_WORKSPACE) != 0)
			return false;
	return true;
}

static int write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return fd_write_file_at(AT_FDCWD, path, text);
}

static int write_maps(const struct launched *i, bool many_ids)
{
	char uids[64], gids[64];
	int r = 0;

	if (many_ids) {
		(void)snprintf(uids, sizeof(uids), "0 %u %u", i->first_id, i->n_ids);
		(void)snprintf(gids, sizeof(gids), "0 %u %u", i->first_id, i->n_ids);
	} else {
		(void)snprintf(uids, sizeof(uids), "%u %u 1", i->uid, geteuid());
		(void)snprintf(gids, sizeof(gids), "%u %u 1", i->gid, getegid());
		r = write_map(i->pid, "setgroups", "deny");
	}
	if (r == 0)
		r = write_map(i->pid, "uid_map", uids);
	if (r == 0)
		r = write_map(i->pid, "gid_map", gids);
	return r;
}

/*
 * The clone, from inside the template and a pooled network where there are
 * such. Entering and leaving is cheap; not coming back is fatal.
 */
static pid_t clone_island(struct launcher *l, struct launched *i, bool use_template, int network)
{
	struct clone_args args = {
		.flags = ISLAND_CLONE_FLAGS,
		.pidfd = (uint64_t)(uintptr_t)&i->pidfd,
		.exit_signal = SIGCHLD,
	};
	bool entered;
	pid_t pid = -1;
	int saved;

	if (i->cgroup.unified >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)i->cgroup.unified;
	}
	if (network >= 0 && setns(network, CLONE_NEWNET) < 0)
		return -1;
	entered = use_template && setns(l->template, CLONE_NEWNS) == 0;
	if (entered == use_template)
		pid = (pid_t)sys_clone3(&args);
	if (pid == 0)
		return 0;
	saved = errno;
	if ((entered && setns(l->own_mount, CLONE_NEWNS) < 0) ||
	    (network >= 0 && setns(l->own_net, CLONE_NEWNET) < 0))
		abort();
	errno = saved;
	return pid;
}

static int clone_failed(struct cay_error *err)
{
	int saved = errno;

	(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, saved, "make the island's namespaces");
	/* ENOSYS is how containers' filters refuse clone3(). */
	if (saved == EPERM || saved == EACCES || saved == ENOSYS)
		return cay_hint(err, "this machine or container does not let you make them: "
				     "`cay doctor` says what to change");
	if (saved == ENOSPC)
		return cay_hint(err, "the number of user namespaces is used up or set to 0: "
				     "sysctl user.max_user_namespaces");
	return -1;
}

/* So that /dev/stdin, /dev/stdout and /dev/stderr can be opened again by their names. */
static void give_pipes(const int stdio[3], const struct launched *i)
{
	for (int n = 0; n < 3 && i->launcher->many_ids; n++) {
		struct stat st;

		if (fstat(stdio[n], &st) < 0 || !S_ISFIFO(st.st_mode))
			continue;
		if (i->bare)
			(void)!fchown(stdio[n], i->bare->user.uid, i->bare->user.gid);
		else
			(void)!fchown(stdio[n], i->first_id + i->uid, i->first_id + i->gid);
	}
}

static int open_mount(struct launcher *l, const struct plan *p, uint32_t n, struct launched *i,
		      struct cay_error *err)
{
	const struct plan_mount *m = &p->mounts[n];
	const char *source = plan_str(p, m->source);

	if (m->kind == MOUNT_KEPT)
		return kept_open(l->kept_dir, source, &i->hostdirs[n], &i->kept, err);
	return hostdir_open(l->rules, source, m, &i->hostdirs[n], err);
}

static int prepare(struct launcher *l, const struct plan *p, const struct cgroups *cgroups,
		   struct launched *i, struct cay_error *err)
{
	if (l->ids_error)
		return cay_fail(err, CAY_E_ENGINE, l->ids_error, "read /proc/self/uid_map");
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (open_mount(l, p, n, i, err) < 0)
			return -1;
	if (stock_take_cgroup(l, cgroups, p, &i->cgroup, err) < 0)
		return -1;
	i->uid = p->uid;
	i->gid = p->gid;
	if (l->many_ids && !i->first_id) {
		i->n_ids = IDS_RANGE;
		if (ids_take(&l->ids, &i->first_id, err) < 0)
			return -1;
	}
	if (plan_image(p) &&
	    image_root_open(l->image_store, p, i->first_id, &l->image_shifts, &i->image, err) < 0)
		return -1;
	if (!l->many_ids)
		return 0;
	/* A runtime's directory keeps its owner, as /usr does: nobody writes there. */
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (hostdir_idmap(&i->hostdirs[n], (enum access)p->mounts[n].access,
				  p->mounts[n].kind != MOUNT_OPERATOR, i->first_id + p->uid,
				  i->first_id + p->gid, err) < 0)
			return -1;
	return 0;
}

static int spawn(struct launcher *l, const struct plan *p, const int stdio[3], bool held,
		 struct launched *i, struct cay_error *err)
{
	bool use_template = fits_template(l, p);
	bool wired = p->network != NETWORK_NONE;
	bool pooled = !wired && !i->mother && l->n_networks > 0;
	_cleanup_(fd_closep) int network = pooled ? l->networks[--l->n_networks] : -1;
	_cleanup_(fd_closep) int theirs = -1, self = sys_pidfd_open(getpid());
	int pair[2];

	if (self < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "open a pidfd of the launcher");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "make the control socket");
	i->control = fd_above_stdio(pair[0]);
	theirs = fd_above_stdio(pair[1]);
	i->network = pooled ? NETWORK_POOLED : stdio || wired ? NETWORK_SENT : NETWORK_MADE;
	if (i->mother)
		return zygote_bear(i->mother, p, i, theirs, err);
	i->pid = clone_island(l, i, use_template, network);
	if (i->pid == 0) {
		struct island inside = {
			.plan = p,
			.control = theirs,
			.launcher = self,
			.ahead = !stdio,
			.zygote = i->zygote,
			.hostdirs = i->hostdirs,
			.image = &i->image,
			.many_ids = l->many_ids,
			.in_template = use_template,
			.network = i->network,
			.held = held,
			.waiter = i->waits ? &i->waits->waiter : NULL,
			.skip = l->skip_steps,
		};

		if (stdio)
			memcpy(inside.stdio, stdio, sizeof(inside.stdio));
		island_main(&inside);
	}
	return i->pid < 0 ? clone_failed(err) : 0;
}

/* The launcher's part, while the island is busy with its own. */
static int provide(struct launcher *l, const struct plan *p, struct launched *i,
		   struct cay_error *err)
{
	struct message mapped = {.kind = MESSAGE_MAPPED}, m = {.kind = MESSAGE_LIMITED};
	int tasks[CONTROLLERS];
	size_t n_tasks = 0;
	/* Now: with its ids changed it is shut to us, unless we may trace. */
	_cleanup_(fd_closep) int user =
		i->network == NETWORK_SENT ? stock_open_namespace(i, "user") : -1;
	int r = i->mother ? 0 : write_maps(i, l->many_ids);

	if (r == 0)
		r = msg_send(i->control, &mapped, sizeof(mapped), NULL, 0);
	if (r < 0)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "map the island's users");
	r = l->own_namespaces[0] == 0 ? namespaces_read(l->own_namespaces) : 0;
	if (r < 0)
		return cay_fail(err, CAY_E_ENGINE, -r, "read /proc/self/ns");
	if (!i->cgroup.reused && cgroup_limit(&i->cgroup, &p->limits, p->allow_degraded, err) < 0)
		return -1;
	cgroup_ticket(&i->cgroup, &m.provision.ticket);
	memcpy(m.provision.namespaces, l->own_namespaces, sizeof(l->own_namespaces));
	for (int k = 0; k < CONTROLLERS; k++)
		if (i->cgroup.tasks[k] >= 0)
			tasks[n_tasks++] = i->cgroup.tasks[k];
	r = msg_send(i->control, &m, sizeof(m), tasks, n_tasks);
	if (r < 0)
		return cay_fail(err, CAY_E_ENGINE, -r, "talk to the island");
	if (i->network == NETWORK_SENT &&
	    network_provide(user, i->control, p->network != NETWORK_NONE ? i->wires : NULL, err) <
		    0)
		return -1;
	cgroup_read_back(&i->cgroup, &p->limits, &i->isolation);
	/* A workspace's file system ends with the island: its end may take time, which is not ours.
	 */
	if (i->kept == KEPT_NONE)
		stock_keep_mounts(i);
	return 0;
}

/* A step that was not allowed: by what is around us, as the steps are always the same. */
static int hint_refusal(struct cay_error *err)
{
	if (err->code == CAY_E_ENGINE && !err->hint[0] &&
	    (err->sys_errno == EPERM || err->sys_errno == EACCES || err->sys_errno == ENOSYS))
		return cay_hint(err, "`cay doctor` says what this machine or container forbids");
	return -1;
}

static int await_message(struct launched *i, enum message_kind kind, struct message *ret,
			 struct cay_error *err)
{
	struct pollfd wait = {.fd = i->control, .events = POLLIN};
	bool heard;
	int r, fd;

	do
		r = poll(&wait, 1, SETUP_TIMEOUT_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return cay_fail(err, CAY_E_ENGINE, r < 0 ? errno : ETIMEDOUT, "set up the island");
	heard = launcher_listen(i->control, ret, &fd);
	if (fd >= 0) {
		fd_closep(&i->scratch);
		i->scratch = fd;
	}
	if (heard && ret->kind == MESSAGE_FAILED) {
		*err = ret->error;
		return hint_refusal(err);
	}
	if (!heard || ret->kind != (uint32_t)kind) {
		if (cgroup_oom_kills(&i->cgroup) > 0)
			return cay_fail(err, CAY_E_INVALID, 0,
					"the memory limit is too small to set up an island");
		return cay_fail(err, CAY_E_ENGINE, 0, "the island died while it was set up");
	}
	return 0;
}

static int note_degraded(struct isolation *iso, bool allowed, const char *limit, enum hold how,
			 struct cay_error *err)
{
	if (how != HOLD_NONE)
		return 0;
	if (!allowed)
		return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
				"the limit %s is not in force on the island", limit);
	iso->degraded |= limit_bit(limit_find(limit));
	return 0;
}

int launched_judge(struct launched *i, const struct plan *p, const struct facts *f,
		   struct cay_error *err)
{
	struct isolation *iso = &i->isolation;

	if (i->bare)
		return bare_judge(i, p, f, err);
	if ((i->mother && zygote_check_child(i, f->namespaces, err) < 0) ||
	    facts_check(f, p, i->launcher->own_namespaces, err) < 0)
		return -1;
	iso->degraded = 0;
	iso->user = HOLD_USERNS;
	iso->disk = i->kept == KEPT_IMAGE   ? HOLD_LOOP
		    : i->kept == KEPT_PLAIN ? HOLD_NONE
					    : HOLD_TMPFS;
	iso->seccomp = HOLD_ALLOWLIST;
	iso->landlock = f->landlock;
	iso->network = network_hold((enum network_mode)p->network);
	iso->capabilities = p->uid == 0 ? HOLD_USERNS : HOLD_NONE;
	iso->no_new_privs = true;
	iso->read_only_root = !p->writable;
	iso->namespaces = (1u << NAMESPACES) - 1;
	/*
	 * Counted per user and user namespace: as good as a cgroup, where the kernel does that.
	 * But root of many ids can be one user after the other.
	 */
	if (iso->pids == HOLD_NONE && f->processes <= p->limits.pids + 1 &&
	    (p->uid != 0 || !i->first_id))
		iso->pids = HOLD_RLIMIT;
	if (note_degraded(iso, p->allow_degraded, "memory", iso->memory, err) < 0 ||
	    note_degraded(iso, p->allow_degraded, "cpus", iso->cpu, err) < 0 ||
	    note_degraded(iso, p->allow_degraded, "pids", iso->pids, err) < 0 ||
	    note_degraded(iso, p->allow_degraded, "disk", iso->disk, err) < 0)
		return -1;
	/* Without a cgroup only each process alone is counted, by its rlimit. */
	if (p->limits.cpu_time_ms && !i->cgroup.has_unified &&
	    note_degraded(iso, p->allow_degraded, "cpu_time", HOLD_NONE, err) < 0)
		return -1;
	return 0;
}

/* An island that gave up said why: that counts, not that it did not listen to us any more. */
static void hear_why(const struct launched *i, struct cay_error *err)
{
	struct pollfd said = {.fd = i->control, .events = POLLIN};
	struct message m;

	if (poll(&said, 1, 0) <= 0 || !launcher_listen(i->control, &m, NULL) ||
	    m.kind != MESSAGE_FAILED)
		return;
	*err = m.error;
	(void)hint_refusal(err);
}

/* The child has its own: with ours open, a mount would outlive its island. */
static void let_go_of_trees(struct launched *i)
{
	for (size_t n = 0; n < PLAN_MOUNTS_MAX; n++)
		fd_closep(&i->hostdirs[n].tree);
	fd_closep(&i->image.tree);
}

void launched_init(struct launched *i, struct launcher *l)
{
	*i = (struct launched){.launcher = l,
			       .pid = -1,
			       .pidfd = -1,
			       .control = -1,
			       .mounts = -1,
			       .scratch = -1,
			       .image = HOSTDIR_NONE,
			       .cgroup = CGROUP_NONE};
	for (size_t n = 0; n < PLAN_MOUNTS_MAX; n++)
		i->hostdirs[n] = HOSTDIR_NONE;
	for (size_t n = 0; n < EGRESS_FDS; n++)
		i->wires[n] = -1;
}

/* One that is prepared: cloned, or borne, and given what it needs. */
static int bring_up(struct launcher *l, const struct plan *p, const int *stdio, bool held,
		    struct launched *i, struct cay_error *err)
{
	if (spawn(l, p, stdio, held, i, err) < 0)
		return -1;
	let_go_of_trees(i);
	if (provide(l, p, i, err) == 0)
		return 0;
	hear_why(i, err);
	return -1;
}

/* Without stdio it waits for its program. It has been initialised. */
static int make_island(struct launcher *l, const struct plan *p, const int *stdio, bool held,
		       struct launched *ret, struct cay_error *err)
{
	if (prepare(l, p, &l->cgroups, ret, err) == 0) {
		if (stdio)
			give_pipes(stdio, ret);
		if (bring_up(l, p, stdio, held, ret, err) == 0)
			return 0;
	}
	launched_discard(ret);
	return -1;
}

/* The same of a zygote's: its mounts are there already. */
static int bear(struct launcher *l, struct zygote *z, const struct plan *p, bool single,
		struct launched *ret, struct cay_error *err)
{
	launched_init(ret, l);
	ret->single = single;
	ret->uid = p->uid;
	ret->gid = p->gid;
	if (zygote_provide(z, p, ret, err) == 0 &&
	    (!plan_image(p) || image_root_open(l->image_store, p, ret->first_id, &l->image_shifts,
					       &ret->image, err) == 0) &&
	    bring_up(l, p, NULL, false, ret, err) == 0)
		return 0;
	launched_discard(ret);
	return -1;
}

int launcher_bear(struct launcher *l, struct zygote *z, const struct plan *p, bool single,
		  struct launched *ret, struct cay_error *err)
{
	/* What is the program's comes with its order: it is nothing for the zygote's memory. */
	struct plan *island = plan_strip(p);
	int r;

	if (!island)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "have an island borne");
	r = bear(l, z, island, single, ret, err);
	free(island);
	return r;
}

int launcher_make_zygote(struct launcher *l, const struct plan *p, const struct cgroups *cgroups,
			 struct launched *i, struct cay_error *err)
{
	i->zygote = true;
	return prepare(l, p, cgroups, i, err) < 0 ? -1 : bring_up(l, p, NULL, false, i, err);
}

int launched_order(struct launched *i, uint32_t command, uint32_t flags, const struct plan *p,
		   const int stdio[3], const int *doors, size_t n_doors)
{
	struct message m = {.kind = MESSAGE_ORDER, .command = command};
	int fds[3 + COMMAND_DOORS] = {stdio[0], stdio[1], stdio[2]};
	int r;

	/* Whatever was asked for: it says whether a plan follows. */
	m.order.flags = p ? flags & ~(uint32_t)ORDER_OWN : flags | ORDER_OWN;
	if (p && p->size > ORDER_PLAN_MAX)
		return -EMSGSIZE;
	for (size_t n = 0; n < n_doors; n++)
		fds[3 + n] = doors[n];
	if (n_doors > 0)
		m.order.flags |= ORDER_CGROUP;
	give_pipes(stdio, i);
	r = outbox_send(&i->orders, i->control, &m, sizeof(m), fds, 3 + n_doors);
	return r < 0 || !p ? r : outbox_send(&i->orders, i->control, p, p->size, NULL, 0);
}

int launched_clear(struct launched *i, uint32_t command)
{
	struct message m = {.kind = MESSAGE_CLEAR, .command = command};

	return outbox_send(&i->orders, i->control, &m, sizeof(m), NULL, 0);
}

int launched_interrupt(struct launched *i, uint32_t command)
{
	struct message m = {.kind = MESSAGE_INTERRUPT, .command = command};

	return outbox_send(&i->orders, i->control, &m, sizeof(m), NULL, 0);
}

int launcher_make_live(struct launcher *l, const struct plan *p, enum made how,
		       struct launched *ret, struct cay_error *err)
{
	struct zygote_kind *k;
	struct zygote *z = NULL;

	if (plan_check(p, p->size, err) < 0)
		return -1;
	k = how == MADE_COLD ? NULL : zygote_kind_of(l, p);
	/*
	 * Where one waits, it may never have that program. What is borne has its memory from the
	 * zygote's user namespace, whose root all of the island is if there is one id: the names of
	 * PID 1's fds would be open to it.
	 */
	if (k && how == MADE_LIVE && (zygote_kind_waits(k) || !l->many_ids))
		k = NULL;
	if (k && !zygote_kind_waits(k)) {
		zygote_want(k, clock_now_ms());
		z = zygote_find(l, k);
	}
	if (k && (how == MADE_SINGLE || zygote_kind_waits(k)) &&
	    shelves_take(l, p, k, clock_now_ms(), ret))
		return 0;
	if (z && launcher_bear(l, z, p, how == MADE_SINGLE, ret, err) == 0)
		return 0;
	if (how != MADE_COLD && shelves_take(l, p, NULL, clock_now_ms(), ret))
		return 0;
	launched_init(ret, l);
	return make_island(l, p, NULL, false, ret, err);
}

int launcher_make_waiting(struct launcher *l, const struct plan *p, const struct zygote_kind *k,
			  struct launched *ret, struct cay_error *err)
{
	launched_init(ret, l);
	ret->waits = k;
	ret->warm = true;
	zygote_kind_look(k, &ret->program);
	return make_island(l, p, NULL, false, ret, err);
}

static int await_good(struct launched *i, const struct plan *p, struct cay_error *err)
{
	struct message m;

	return await_message(i, MESSAGE_READY, &m, err) < 0 ? -1
							    : launched_judge(i, p, &m.facts, err);
}

int launched_begin(struct launched *i, uint32_t command, uint32_t flags, const struct plan *p,
		   const int stdio[3], struct cay_error *err)
{
	int r = launched_order(i, command, flags, NULL, stdio, NULL, 0);

	if (r == 0)
		r = outbox_flush(&i->orders, i->control); /* nobody does it later */
	if (r == 0)
		return await_good(i, p, err);
	(void)cay_fail(err, CAY_E_ENGINE, -r, "talk to the island");
	hear_why(i, err);
	return -1;
}

int launcher_start_waiting(struct launcher *l, const struct plan *p, const int stdio[3],
			   struct launched *ret, struct cay_error *err)
{
	struct message end;

	if (launcher_make_live(l, p, MADE_COLD, ret, err) < 0)
		return -1;
	if (launched_begin(ret, 0, ORDER_CHECK | ORDER_SCRATCH, p, stdio, err) == 0 &&
	    await_message(ret, MESSAGE_EXITED, &end, err) == 0)
		return 0;
	launched_discard(ret);
	return -1;
}

int launcher_start(struct launcher *l, const struct plan *p, const int stdio[3], bool held,
		   struct launched *ret, struct cay_error *err)
{
	if (plan_check(p, p->size, err) < 0)
		return -1;
	launched_init(ret, l);
	if (make_island(l, p, stdio, held, ret, err) < 0)
		return -1;
	if (await_good(ret, p, err) == 0)
		return 0;
	launched_discard(ret);
	return -1;
}

int launched_go(struct launched *i, struct cay_error *err)
{
	struct message m = {.kind = MESSAGE_GO};
	int r = msg_send(i->control, &m, sizeof(m), NULL, 0);

	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "start the program") : 0;
}

void launched_settle(struct launched *i)
{
	cgroup_let_go(&i->cgroup);
	fd_closep(&i->mounts);
}

void launched_kill(struct launched *i)
{
	if (i->bare && !i->cgroup.has_unified) {
		bare_ask_to_end(i);
		return;
	}
	/* PID 1's death is everybody's. The cgroup is a second way to the same end. */
	if (i->pidfd >= 0 && sys_pidfd_kill(i->pidfd) < 0 && i->pid > 0 && !i->mother)
		(void)kill(i->pid, SIGKILL); /* ours, and not reaped: the number is its own */
	cgroup_kill(&i->cgroup);
}

uint64_t launched_cpu_us(const struct launched *i, uint64_t all_us)
{
	return all_us - (i->waited_us < all_us ? i->waited_us : all_us);
}

void launched_reap(struct launched *i, struct usage *ret)
{
	struct rusage used = {0};

	if (i->pid > 0 && !i->mother)
		while (wait4(i->pid, NULL, 0, &used) < 0 && errno == EINTR)
			;
	ret->cpu_ms =
		(double)(i->mother ? i->cpu_us : launched_cpu_us(i, clock_cpu_us(&used))) / 1e3;
	ret->memory_peak_bytes = i->mother ? i->memory_bytes : (uint64_t)used.ru_maxrss * 1024;
	if (i->mother)
		zygote_lay_to_rest(i);
	ret->processes_peak = 0;
	cgroup_usage(&i->cgroup, ret);
	if (i->bare)
		bare_done(i);
	fd_closep(&i->pidfd);
	fd_closep(&i->control);
	outbox_done(&i->orders);
	fd_closep(&i->scratch);
	wires_close(i->wires);
	for (size_t n = 0; n < PLAN_MOUNTS_MAX; n++)
		hostdir_done(&i->hostdirs[n]);
	/* Closing is not enough: an island that is just being born has a copy for a moment. */
	image_root_let_go(&i->image);
	hostdir_done(&i->image);
	stock_leave_mounts(i);
	stock_give_cgroup(i->launcher, &i->cgroup);
	if (i->first_id)
		ids_give_block(&i->launcher->ids, i->first_id, i->n_ids / IDS_RANGE);
	i->first_id = 0;
	i->pid = -1;
}
