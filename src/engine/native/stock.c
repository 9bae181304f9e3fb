#include "engine/native/stock.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/network.h"
#include "engine/native/rootfs.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the template's child: the image's root, and the host's /proc, which grants a fresh one. */
static int lay_out_template(struct cay_error *err)
{
	_cleanup_(fd_closep) int root = -1, proc = -1;

	if (sys_make_mounts_private() < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "make mounts private");
	if (rootfs_build("/tmp", &root, err) < 0)
		return -1;
	if (rootfs_seal(root, false, err) < 0 || rootfs_devices(root, err) < 0)
		return -1;
	proc = sys_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (proc < 0 || sys_move_mount(proc, "", root, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "keep /proc in the template");
	return rootfs_enter(root, err);
}

static int open_namespace(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int stock_open_namespace(const struct launched *i, const char *name)
{
	struct pollfd end = {.fd = i->pidfd, .events = POLLIN};
	int fd = open_namespace(i->pid, name);

	/* A child of ours keeps its number until we have waited for it; a zygote's does not. */
	if (fd >= 0 && i->mother && poll(&end, 1, 0) != 0) {
		(void)close(fd);
		return -ESRCH;
	}
	return fd;
}

int launcher_make_template(struct launcher *l, struct cay_error *err)
{
	struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWNET, .exit_signal = SIGCHLD};
	struct message m = {0};
	int pair[2];
	size_t n_fds;
	pid_t pid;

	if (!l->many_ids)
		return cay_fail(err, CAY_E_ENGINE, l->ids_error ? l->ids_error : EPERM,
				"make a template without root");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "make a template");
	pid = (pid_t)sys_clone3(&args);
	if (pid == 0) {
		(void)close(pair[0]);
		m.kind = lay_out_template(&m.error) < 0 ? MESSAGE_FAILED : MESSAGE_READY;
		if (msg_send(pair[1], &m, sizeof(m), NULL, 0) == 0)
			(void)msg_recv(pair[1], &m, sizeof(m), NULL, 0,
				       &n_fds); /* until we are held by fd */
		_exit(0);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return cay_fail(err, CAY_E_ENGINE, errno, "make a template");
	}
	if (!launcher_listen(pair[0], &m, NULL)) {
		m.kind = MESSAGE_FAILED;
		(void)cay_fail(&m.error, CAY_E_ENGINE, 0, "the template's process died");
	}
	if (m.kind == MESSAGE_READY) {
		l->template = open_namespace(pid, "mnt");
		l->own_mount = open_namespace(getpid(), "mnt");
	}
	(void)close(pair[0]);
	(void)waitpid(pid, NULL, 0);
	if (m.kind != MESSAGE_READY) {
		*err = m.error;
		return -1;
	}
	if (l->template <0 || l->own_mount < 0) {
		int r = l->template <0 ? l->template : l->own_mount;

		fd_closep(&l->template);
		fd_closep(&l->own_mount);
		return cay_fail(err, CAY_E_ENGINE, -r, "hold the template");
	}
	return 0;
}

int launcher_fill_networks(struct launcher *l, size_t n, struct cay_error *err)
{
	if (l->own_net < 0)
		l->own_net = open_namespace(getpid(), "net");
	while (l->n_networks < size_min(n, NETWORK_POOL_MAX)) {
		int fd = l->own_net < 0 ? l->own_net : network_make_apart(l->own_net);

		if (fd < 0)
			return cay_fail(err, CAY_E_ENGINE, -fd, "make a network namespace");
		l->networks[l->n_networks++] = fd;
	}
	return 0;
}

int launcher_restock(struct launcher *l, size_t networks, struct cay_error *err)
{
	if (l->many_ids && l->n_networks < size_min(networks, NETWORK_POOL_MAX))
		return launcher_fill_networks(l, l->n_networks + 1, err);
	return shelves_restock(l, clock_now_ms(), err);
}

int launcher_make_ahead(struct launcher *l, const struct plan *like, size_t n,
			struct cay_error *err)
{
	int r = shelves_name(l, like, n, clock_now_ms(), err);

	while (r == 0)
		r = shelves_restock(l, clock_now_ms(), err);
	return r < 0 ? -1 : 0;
}

struct service_stock launcher_stock(const struct launcher *l)
{
	return (struct service_stock){.islands = (uint32_t)l->shelves.n_islands,
				      .networks = (uint32_t)l->n_networks,
				      .cgroups = (uint32_t)l->n_spare};
}

void launcher_tidy_later(struct launcher *l)
{
	l->max_remains = REMAINS_MAX;
}

void launcher_tidy(struct launcher *l)
{
	while (l->n_remains > 0)
		fd_closep(&l->remains[--l->n_remains]);
}

void stock_keep_mounts(struct launched *i)
{
	if (i->launcher->max_remains > 0)
		i->mounts = stock_open_namespace(i, "mnt");
}

void stock_leave_mounts(struct launched *i)
{
	struct launcher *l = i->launcher;

	if (i->mounts < 0)
		return;
	if (l->n_remains == l->max_remains)
		launcher_tidy(l);
	l->remains[l->n_remains++] = take_fd(&i->mounts);
}

int launcher_keep_cgroups(struct launcher *l, size_t n, struct cay_error *err)
{
	l->spare = calloc(CGROUP_POOL_MAX, sizeof(*l->spare));
	if (!l->spare)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a pool of cgroups");
	l->max_spare = size_min(n, CGROUP_POOL_MAX);
	return 0;
}

/* The one that was put there last, or false. */
static bool take_spare(struct launcher *l, const struct cgroups *host, struct cgroup *ret)
{
	for (size_t n = l->n_spare; n-- > 0;)
		if (l->spare[n].host == host) {
			*ret = l->spare[n];
			l->spare[n] = l->spare[--l->n_spare];
			return true;
		}
	return false;
}

int stock_take_cgroup(struct launcher *l, const struct cgroups *host, const struct plan *p,
		      struct cgroup *ret, struct cay_error *err)
{
	while (take_spare(l, host, ret)) {
		if (cgroup_reuse(ret, &p->limits) == 0)
			return 0;
		cgroup_remove(ret);
	}
	return cgroup_make(host, ret, err);
}

void stock_drop_cgroups(struct launcher *l, const struct cgroups *host)
{
	struct cgroup c;

	while (take_spare(l, host, &c))
		cgroup_remove(&c);
}

void stock_give_cgroup(struct launcher *l, struct cgroup *c)
{
	bool whole = l && c->limits.pids != 0 && !c->killed && c->has_unified == (c->unified >= 0);

	for (int k = 0; k < CONTROLLERS; k++)
		whole = whole && c->has[k] && c->joins[k] == (c->tasks[k] >= 0);
	if (whole && l->n_spare < l->max_spare)
		l->spare[l->n_spare++] = *c;
	else
		cgroup_remove(c);
}

void stock_done(struct launcher *l)
{
	launcher_tidy(l);
	while (l->n_spare > 0)
		cgroup_remove(&l->spare[--l->n_spare]);
	free(l->spare);
	fd_closep(&l->template);
	fd_closep(&l->own_mount);
	fd_closep(&l->own_net);
	while (l->n_networks > 0)
		fd_closep(&l->networks[--l->n_networks]);
}
