/*
 * A launcher's whole life, for valgrind: template, pools, islands on the spot,
 * held and ahead, those that fail and die, and its end. Afterwards as many fds
 * are open as before.
 *
 * The islands are played. valgrind knows no clone3(), and a child that it emulates
 * can't live behind a system call filter; so the clone is a fork with what
 * namespaces an unshare gives, and the child only says what an island would. It
 * knows neither fsopen() nor pidfds: the template is a mount namespace like the
 * old one.
 * The launcher's side is its own source, as it is. What real islands do is seen
 * by tests/unit/test_island.c, also under ASan.
 */
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/network.h"
#include "engine/native/rootfs.h"
#include "engine/sys.h"

#include <sched.h>

static long play_clone3(struct clone_args *args);
_noreturn_ static void play_island(struct island *i);

static int play_root(int *ret);
static int play_kill(int pidfd);
static int play_open(pid_t pid);

#define sys_clone3                          play_clone3
#define island_main                         play_island
#define rootfs_build(at, ret, err)          play_root(ret)
#define rootfs_seal(root, writable, err)    0
#define rootfs_devices(root, err)           0
#define rootfs_enter(root, err)             0
#define sys_open_tree(dir, path, flags)     open(path, O_PATH | O_CLOEXEC)
#define sys_move_mount(from, a, to, b, c)   0
#define sys_pidfd_kill                      play_kill
#define sys_pidfd_open                      play_open
#define network_provide(to, by, wires, err) 0
#include "engine/native/launcher.c"
#include "engine/native/stock.c"

#include "../launch.h"

#include <dirent.h>

#define CHECK(holds)                                                                         \
	do {                                                                                 \
		if (!(holds)) {                                                              \
			(void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #holds, \
				      err.text);                                             \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static struct cay_error err;

static long play_clone3(struct clone_args *args)
{
	const uint64_t given =
		CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
	int ready[2];
	char byte = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		if (unshare((int)(args->flags & given)) < 0)
			_exit(1);
		(void)!write(ready[1], &byte, 1);
		(void)close(ready[0]);
		(void)close(ready[1]);
		return 0;
	}
	(void)close(ready[1]);
	(void)!read(ready[0], &byte, 1);
	(void)close(ready[0]);
	if (pid > 0 && args->flags & CLONE_PIDFD)
		*(int *)(uintptr_t)args->pidfd = play_open(pid);
	return pid;
}

/* As good as a pidfd to us, and valgrind knows it. */
static int play_open(pid_t pid)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int play_kill(int pidfd)
{
	char path[64];

	CHECK(fd_real_path(pidfd, path, sizeof(path)) == 0);
	return kill((pid_t)strtol(path + strlen("/proc/"), NULL, 10), SIGKILL);
}

static int play_root(int *ret)
{
	*ret = open("/", O_PATH | O_CLOEXEC);
	return *ret < 0 ? -1 : 0;
}

static void say(const struct island *i, const struct message *m)
{
	bool scratch = i->held || i->order.flags & ORDER_SCRATCH;
	int fd = scratch ? open("/", O_PATH | O_CLOEXEC) : -1;

	(void)msg_send(i->control, m, sizeof(*m), &fd, m->kind == MESSAGE_READY && fd >= 0);
	fd_closep(&fd);
}

static void say_ready(const struct island *i, const struct provision *p)
{
	struct message m = {.kind = MESSAGE_READY};
	struct facts *f = &m.facts;

	memset(&m.facts, 0, sizeof(m.facts));
	f->uid = ISLAND_UID;
	f->gid = ISLAND_GID;
	f->in_cgroups = f->no_new_privs = f->root_read_only = 1;
	f->seccomp_mode = 2;
	f->scratch_bytes = i->plan->limits.disk_bytes;
	f->open_files = i->plan->limits.open_files;
	for (int n = 0; n < NAMESPACES; n++)
		f->namespaces[n] = p->namespaces[n] + 1;
	say(i, &m);
}

/* One order after the other until the last; all but that are well, and over at once. */
static void play_orders(struct island *i, const struct provision *provision)
{
	static uint64_t room[ORDER_PLAN_MAX / sizeof(uint64_t)];
	struct message m, end = {.kind = MESSAGE_EXITED};
	int fds[3];
	size_t n;

	memset(&end.facts, 0, sizeof(end.facts));
	do {
		if (msg_recv(i->control, &m, sizeof(m), fds, 3, &n) != (ssize_t)sizeof(m))
			_exit(1);
		i->order = m.order;
		if (!(m.order.flags & ORDER_OWN)) {
			if (msg_recv(i->control, room, sizeof(room), NULL, 0, &n) <= 0)
				_exit(1);
			i->plan = (const struct plan *)room;
		}
		if (!(m.order.flags & ORDER_LAST)) {
			say_ready(i, provision);
			say(i, &end);
		}
	} while (!(m.order.flags & ORDER_LAST));
}

/* What the plan's program is called says how the island fares. */
static void play_island(struct island *i)
{
	struct message m, failed = {.kind = MESSAGE_FAILED}, last = {.kind = MESSAGE_EXITED};
	struct provision provision;
	const char *fate;
	int fds[3];
	size_t n;

	if (msg_recv(i->control, &m, sizeof(m), NULL, 0, &n) != (ssize_t)sizeof(m) ||
	    msg_recv(i->control, &m, sizeof(m), fds, 3, &n) != (ssize_t)sizeof(m))
		_exit(1);
	provision = m.provision;
	if (i->ahead)
		play_orders(i, &provision);
	fate = plan_first(i->plan, i->plan->argv);
	if (strcmp(fate, "dies") == 0)
		_exit(1);
	if (strcmp(fate, "fails") == 0) {
		memset(&failed.error, 0, sizeof(failed.error));
		(void)cay_fail(&failed.error, CAY_E_ENGINE, 0, "as it was told to");
		say(i, &failed);
		_exit(1);
	}
	say_ready(i, &provision);
	if (i->held)
		(void)msg_recv(i->control, &m, sizeof(m), NULL, 0, &n);
	memset(&last.facts, 0, sizeof(last.facts));
	say(i, &last);
	_exit(0);
}

static struct plan *make_plan(const char *fate)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct plan *plan = NULL;

	settings_init(&settings);
	CHECK(strv_add(&spec.args, fate) == 0);
	CHECK(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err) == 0);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

static void see_end(struct launched *island)
{
	struct message m = {0};
	struct usage usage;

	CHECK(launcher_listen(island->control, &m, NULL) && m.kind == MESSAGE_EXITED);
	launched_reap(island, &usage);
}

static void run(struct launcher *l, const struct plan *p, bool held)
{
	const int stdio[3] = {0, 1, 2};
	struct launched island;

	CHECK(launcher_start(l, p, stdio, held, &island, &err) == 0);
	CHECK((island.scratch >= 0) == held);
	if (held)
		CHECK(launched_go(&island, &err) == 0);
	see_end(&island);
}

static void run_live(struct launcher *l, const struct plan *p)
{
	const int stdio[3] = {0, 1, 2};
	struct launched island;

	CHECK(launch_live(l, p, stdio, &island, &err) == 0);
	see_end(&island);
}

/* As native.c does where there is a compiler. */
static void run_compiled(struct launcher *l, const struct plan *p)
{
	const int stdio[3] = {0, 1, 2};
	struct launched island;
	struct message m = {0};

	CHECK(launcher_start_waiting(l, p, stdio, &island, &err) == 0);
	CHECK(island.scratch >= 0);
	CHECK(launched_begin(&island, 1, ORDER_COMPILE, p, stdio, &err) == 0);
	CHECK(launcher_listen(island.control, &m, NULL) && m.kind == MESSAGE_EXITED);
	CHECK(island.scratch >= 0);
	CHECK(launched_begin(&island, 0, ORDER_LAST, p, stdio, &err) == 0);
	see_end(&island);
}

static void refuse(struct launcher *l, const char *fate)
{
	const int stdio[3] = {0, 1, 2};
	struct plan *p = make_plan(fate);
	struct launched island;

	CHECK(launcher_start(l, p, stdio, false, &island, &err) < 0);
	CHECK(launch_live(l, p, stdio, &island, &err) < 0);
	free(p);
}

static void live(void)
{
	static struct mount_rules no_rules;
	struct plan *p = make_plan("runs"), *other = make_plan("runs");
	struct launched *first;
	struct launcher l;
	siginfo_t end;

	launcher_init(&l, &no_rules);
	CHECK(launcher_make_template(&l, &err) == 0);
	CHECK(launcher_fill_networks(&l, 2, &err) == 0);
	CHECK(launcher_keep_cgroups(&l, 2, &err) == 0);
	run(&l, p, false);
	run(&l, p, true);
	run_compiled(&l, p);
	refuse(&l, "fails");
	refuse(&l, "dies");
	launcher_tidy_later(&l);
	CHECK(launcher_make_ahead(&l, p, 3, &err) == 0 && l.shelves.n_islands == 3);
	first = l.shelves.items[0]->islands[0];
	launched_kill(first);
	CHECK(waitid(P_PID, (id_t)first->pid, &end, WEXITED | WNOWAIT) == 0);
	run_live(&l, p);
	refuse(&l, "fails");
	other->limits.pids++;
	CHECK(launcher_make_ahead(&l, other, 2, &err) == 0);
	run_live(&l, other);
	CHECK(l.shelves.n_islands == 4);
	launcher_tidy(&l);
	run_live(&l, other);
	CHECK(launcher_make_ahead(&l, other, 1, &err) == 0);
	launcher_done(&l);
	free(p);
	free(other);
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

int main(void)
{
	int before = count_fds();

	if (geteuid() != 0) {
		(void)fprintf(stderr, "launcher_life needs root: a launcher with pools\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	live();
	CHECK(count_fds() == before);
	return 0;
}
