/* The zygote's side of zygote.h: linked into an interpreter's process, not into the launcher's. */
#include "base/attr.h"
#include "base/fd.h"
#include "base/title.h"
#include "engine/native/island.h"
#include "engine/native/zygote.h"
#include "engine/sys.h"
#include "warm/interpreter.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(int sock, uint32_t kind, const struct cay_error *err, const int *fd)
{
	struct zygote_message m = {.kind = kind};

	if (err)
		m.error = *err;
	if (msg_send(sock, &m, sizeof(m), fd, fd ? 1 : 0) < 0)
		_exit(0); /* nobody is there any more */
}

static int write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return fd_write_file_at(AT_FDCWD, path, text);
}

/* Its ids, out of ours: those of no other island. */
static int map_ids(pid_t pid, const struct zygote_message *m)
{
	char uids[64], gids[64];
	int r = 0;

	if (m->first_id) {
		(void)snprintf(uids, sizeof(uids), "0 %u %u", m->first_id, IDS_RANGE);
		(void)snprintf(gids, sizeof(gids), "0 %u %u", m->first_id, IDS_RANGE);
	} else {
		(void)snprintf(uids, sizeof(uids), "%u 0 1", m->uid);
		(void)snprintf(gids, sizeof(gids), "%u 0 1", m->gid);
		r = write_map(pid, "setgroups", "deny");
	}
	if (r == 0)
		r = write_map(pid, "uid_map", uids);
	if (r == 0)
		r = write_map(pid, "gid_map", gids);
	return r;
}

_noreturn_ static void be_island(const struct zygote_message *m, const struct plan *p,
				 const int fds[ZYGOTE_FDS], const struct interpreter *in)
{
	const struct hostdir image = {
		.fd = -1,
		.tree = m->has_image ? fds[1 + (m->has_cgroup ? 1 : 0)] : -1,
	};
	struct island i = {
		.plan = p,
		.control = fds[0],
		.launcher = -1,
		.ahead = true,
		.single = m->single,
		.image = &image,
		.many_ids = m->first_id != 0,
		.in_template = true,
		.network = (enum network_way)m->network,
		.interpreter = in,
	};

	island_main(&i);
}

/* 0 or -errno; *ret is its pidfd. */
static int bear(const struct zygote_message *m, const struct plan *p, const int fds[ZYGOTE_FDS],
		const struct interpreter *in, int *ret)
{
	struct clone_args args = {
		.flags = ISLAND_CLONE_FLAGS,
		.pidfd = (uint64_t)(uintptr_t)ret,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;
	int r;

	if (m->has_cgroup) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)fds[1];
	}
	pid = (pid_t)sys_clone3(&args);
	if (pid == 0)
		be_island(m, p, fds, in);
	if (pid < 0)
		return -errno;
	r = map_ids(pid, m);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	return r;
}

/* One request; false: nobody is there any more. */
static bool obey(int sock, const struct interpreter *in)
{
	static uint64_t room[ZYGOTE_PACKET_MAX / sizeof(uint64_t) + 1];
	const struct zygote_message *m = (const struct zygote_message *)room;
	const struct plan *p = (const struct plan *)(m + 1);
	int fds[ZYGOTE_FDS] = {-1, -1, -1}, pidfd = -1, r;
	struct cay_error err;
	size_t n_fds = 0;
	ssize_t n = msg_recv(sock, room, sizeof(room), fds, ZYGOTE_FDS, &n_fds);

	if (n == (ssize_t)sizeof(*m) && m->kind == ZYGOTE_LOOK)
		return !in->stale();
	if (n < (ssize_t)sizeof(*m) || m->kind != ZYGOTE_BEAR ||
	    n_fds != 1 + (m->has_cgroup ? 1u : 0u) + (m->has_image ? 1u : 0u) ||
	    plan_check(p, (size_t)n - sizeof(*m), &err) < 0)
		return false;
	if (in->stale()) {
		(void)cay_fail(&err, CAY_E_ENGINE, 0, "what the zygote has loaded has changed");
		say(sock, ZYGOTE_FAILED, &err, NULL);
		return false;
	}
	r = bear(m, p, fds, in, &pidfd);
	/* The clone has its own copy; the next one's program is not to find it here. */
	explicit_bzero(room, (size_t)n);
	for (size_t k = 0; k < n_fds; k++)
		(void)close(fds[k]);
	if (r < 0) {
		(void)cay_fail(&err, CAY_E_ENGINE, -r, "bear an island");
		say(sock, ZYGOTE_FAILED, &err, NULL);
	} else {
		say(sock, ZYGOTE_BORN, NULL, &pidfd);
	}
	fd_closep(&pidfd);
	return true;
}

/*
 * What was mounted for the interpreter's own start: islands have theirs in the same places, and
 * need not carry these below. (/tmp twice: the scratch, and its tmp over it.)
 */
static int leave_mounts(void)
{
	static const char *const own[] = {"/workspace", "/dev/shm", "/tmp", "/tmp"};

	if (chdir("/") < 0)
		return -1;
	for (size_t n = 0; n < ARRAY_LEN(own); n++)
		if (sys_detach(own[n]) < 0 && errno != EINVAL) /* of Linux 6.1: it is gone */
			return -1;
	return 0;
}

/* Not what it has in common with others: files that are mapped. */
static uint64_t own_memory(void)
{
	unsigned long long resident = 0, shared = 0;
	char text[128];

	if (fd_read_text_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) < 0 ||
	    sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident)
		return 0;
	return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void zygote_serve(int sock, const struct interpreter *in)
{
	struct zygote_message ready = {.kind = ZYGOTE_READY, .memory_bytes = own_memory()};
	struct cay_error err;

	/* Whoever asked for them waits for their end; we need not. */
	if (leave_mounts() < 0 || title_init_own() < 0 || signal(SIGCHLD, SIG_IGN) == SIG_ERR) {
		(void)cay_fail(&err, CAY_E_ENGINE, errno, "prepare the zygote");
		say(sock, ZYGOTE_FAILED, &err, NULL);
		_exit(125);
	}
	if (msg_send(sock, &ready, sizeof(ready), NULL, 0) < 0)
		_exit(0);
	while (obey(sock, in))
		;
	_exit(0);
}
