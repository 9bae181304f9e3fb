#include "engine/native/confine.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/parse.h"
#include "engine/landlock.h"
#include "engine/native/island.h"
#include "engine/native/kept.h"
#include "engine/native/machine.h"
#include "engine/seccomp.h"
#include "engine/self.h"
#include "engine/native/waiter.h"
#include "engine/rlimit.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Where the scratch is kept while waiting. */
#define SCRATCH_FD (CONTROL_FD + 1)
#define WAITER_FD  (SCRATCH_FD + 1)

static uint64_t caps_of(const struct plan *p)
{
	return p->uid == 0 ? ROOT_CAPS : 0;
}

static int fail(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_ENGINE, errno, "%s", what);
}

int confine_cgroup(struct island *i, struct cay_error *err)
{
	int r = cgroup_join(&i->provision.ticket, i->tasks, err);

	/* The last moment at which it can see where it is. */
	i->in_cgroups = r == 0 && cgroup_is_joined(&i->provision.ticket, 0);
	return r;
}

/* Not by a clone flag: the namespace's root is where the process is at that moment. */
int confine_cgroup_namespace(struct island *i _unused_, struct cay_error *err)
{
	return unshare(CLONE_NEWCGROUP) < 0 ? fail(err, "make a cgroup namespace") : 0;
}

/*
 * It may have died before the kernel was told: then nobody would ever kill us.
 * The socket alone does not tell: an island that was cloned after us has the other
 * end open, too, until it has let go. The pidfd alone tells a moment too late: the
 * kernel looks for those to be killed first.
 */
int confine_to_launcher(struct island *i, struct cay_error *err)
{
	struct pollfd launcher[] = {{.fd = i->control}, {.fd = i->launcher, .events = POLLIN}};
	int r;

	/*
	 * One that was borne has the zygote for a parent, whose end is not its own: it lives in
	 * the zygote's island's PID namespace, and ends with that, which ends with the launcher.
	 */
	if (!i->interpreter && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return fail(err, "tie the island's life to the launcher's");
	r = poll(launcher, i->interpreter ? 1 : 2, 0);
	if (r < 0)
		return fail(err, "look for the launcher");
	return r == 0 ? 0 : cay_fail(err, CAY_E_ENGINE, 0, "the launcher is gone");
}

int confine_ids(struct island *i, struct cay_error *err)
{
	if (!i->many_ids)
		return 0; /* we are the one id there is, with all capabilities in here */
	if (sys_setgroups(0, NULL) < 0 || sys_setresgid(0, 0, 0) < 0 || sys_setresuid(0, 0, 0) < 0)
		return fail(err, "become the island's root");
	return confine_to_launcher(i, err); /* the change of ids untied us */
}

int confine_hostname(struct island *i _unused_, struct cay_error *err)
{
	return sethostname(ISLAND_HOSTNAME, strlen(ISLAND_HOSTNAME)) < 0
		       ? fail(err, "set the host name")
		       : 0;
}

int confine_keyring(struct island *i _unused_, struct cay_error *err)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS)
		return fail(err, "make a session keyring");
	return 0;
}

int confine_rlimits(struct island *i, struct cay_error *err)
{
	const struct limits *l = &i->plan->limits;
	/* What it took to be started is not the program's; the cgroup's clock is more exact. */
	uint64_t before_s = i->waiter ? WAITER_CPU_S : 0;
	const struct {
		int resource;
		uint64_t value;
	} limits[] = {
		{RLIMIT_CORE, CORE_LIMIT},
		{RLIMIT_NOFILE, l->open_files},
		{RLIMIT_FSIZE, l->file_size_bytes ? l->file_size_bytes : RLIM_INFINITY},
		{RLIMIT_CPU,
		 l->cpu_time_ms ? (l->cpu_time_ms + 999) / 1000 + before_s : RLIM_INFINITY},
		/*
		 * Counted in the island's user namespace and above: the program's
		 * processes, one more for init where both have the same id, and one
		 * more because the count is compared before the fork.
		 */
		{RLIMIT_NPROC, l->pids + 1},
		{RLIMIT_MEMLOCK, 8 << 20},
		{RLIMIT_MSGQUEUE, 819200},
		{RLIMIT_SIGPENDING, 4096},
		{RLIMIT_NICE, 0},
		{RLIMIT_RTPRIO, 0},
	};

	for (size_t n = 0; n < ARRAY_LEN(limits); n++)
		if (rlimit_lower(limits[n].resource, limits[n].value) < 0)
			return fail(err, "set resource limits");
	return 0;
}

/*
 * As many CPUs as may be used are in sight, so that programs size their thread
 * pools by what they get. They are counted from the one we are on: the kernel
 * just chose it as the idlest, and moving away would cost a wake-up. An island
 * that waits for its program is free until that wakes it.
 */
int confine_cpus(struct island *i, struct cay_error *err)
{
	unsigned want = machine_cpus(i->plan);
	cpu_set_t have, use;
	int cpu_now = sched_getcpu();

	if (i->ahead)
		return 0;
	if (cpu_now < 0 || sched_getaffinity(0, sizeof(have), &have) < 0)
		return fail(err, "read the CPUs");
	if (want >= (unsigned)CPU_COUNT(&have))
		return 0;
	CPU_ZERO(&use);
	for (unsigned k = 0; k < CPU_SETSIZE && want > 0; k++) {
		unsigned cpu = ((unsigned)cpu_now + k) % CPU_SETSIZE;

		if (CPU_ISSET(cpu, &have)) {
			CPU_SET(cpu, &use);
			want--;
		}
	}
	return sched_setaffinity(0, sizeof(use), &use) < 0 ? fail(err, "set the CPUs") : 0;
}

int confine_bounding(struct island *i, struct cay_error *err)
{
	uint64_t keep = caps_of(i->plan);

	for (int cap = 0; cap < 64; cap++)
		if (!(keep & CAP_BIT(cap)) && prctl(PR_CAPBSET_DROP, cap) < 0) {
			if (errno == EINVAL)
				break; /* past the last one the kernel knows */
			return fail(err, "drop the capability bounding set");
		}
	return 0;
}

int confine_securebits(struct island *i, struct cay_error *err)
{
	/* Who is root to have its capabilities keeps them over an exec. */
	const unsigned long bits = (caps_of(i->plan) ? 0 : SECBIT_NOROOT) | SECBIT_NOROOT_LOCKED |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	return prctl(PR_SET_SECUREBITS, bits) < 0 ? fail(err, "lock the secure bits") : 0;
}

int confine_no_new_privs(struct island *i _unused_, struct cay_error *err)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? fail(err, "set no_new_privs") : 0;
}

/*
 * Before the program runs, or, where it has the same id as init, it could look
 * into it for a moment: /proc/1/exe, /proc/1/fd, /proc/1/mem. The exec gives the
 * program's own process a memory that is open again.
 */
int confine_shut_init(struct island *i _unused_, struct cay_error *err)
{
	return prctl(PR_SET_DUMPABLE, 0) < 0 ? fail(err, "shut init's memory") : 0;
}

/* A live island's commands are told apart, and ended, by cgroups below the island's own. */
int confine_command(struct island *i, struct cay_error *err)
{
	int r = 0;

	for (int n = 0; n < COMMAND_DOORS && r == 0; n++)
		if (i->command_cgroup[n] >= 0)
			r = fd_write_all(i->command_cgroup[n], "0", 1);
	return r < 0 ? cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "join the command's cgroup") : 0;
}

/* A session of its own, the usual umask, and no signal blocked; clone3() has reset the handlers. */
int confine_session(struct island *i _unused_, struct cay_error *err)
{
	sigset_t none;

	(void)sigemptyset(&none);
	if (setsid() < 0)
		return fail(err, "make a session");
	(void)umask(022);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? fail(err, "reset signals") : 0;
}

int confine_user(struct island *i, struct cay_error *err)
{
	if (!i->many_ids)
		return 0;
	if (sys_setresgid(i->plan->gid, i->plan->gid, i->plan->gid) < 0 ||
	    sys_setresuid(i->plan->uid, i->plan->uid, i->plan->uid) < 0)
		return fail(err, "become the island's user");
	/* The change of ids set it to what fs.suid_dumpable says, and the memory is init's. */
	return confine_shut_init(i, err);
}

static int set_capabilities(uint64_t caps)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	for (int n = 0; n < 2; n++)
		data[n].effective = data[n].permitted = (uint32_t)(caps >> 32 * n);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_capset, &head, data);
}

int confine_capabilities(struct island *i, struct cay_error *err)
{
	return set_capabilities(i->bare ? 0 : caps_of(i->plan)) < 0
		       ? fail(err, "empty the capability sets")
		       : 0;
}

/* Leaves only 0, 1, 2 and the control socket, which closes on exec. */
static int keep_control(struct island *i)
{
	if (i->control != CONTROL_FD && dup3(i->control, CONTROL_FD, O_CLOEXEC) < 0)
		return -1;
	i->control = CONTROL_FD;
	return sys_close_range(CONTROL_FD + 1, ~0u, 0);
}

/* How large the terminal is, where that was said beforehand: the program sees no other size. */
static void set_size(int sock, int master)
{
	struct winsize size;

	if (recv(sock, &size, sizeof(size), MSG_DONTWAIT) == (ssize_t)sizeof(size))
		(void)ioctl(master, TIOCSWINSZ, &size);
}

/*
 * The island's own terminal, made by the island's user: the master goes to whoever
 * is at the other end of what came as standard input.
 */
int confine_terminal(struct island *i, struct cay_error *err)
{
	_cleanup_(fd_closep) int master = -1;
	int unlock = 0, slave;

	if (!(i->order.flags & ORDER_TERMINAL))
		return 0;
	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return fail(err, "make a terminal");
	set_size(i->stdio[0], master);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return fail(err, "open the terminal");
	if (msg_send(i->stdio[0], "", 1, &master, 1) < 0)
		return fail(err, "hand the terminal over");
	for (int n = 0; n < 3; n++) {
		(void)close(i->stdio[n]);
		i->stdio[n] = slave;
	}
	return 0;
}

/*
 * Standard input that is not a pipe is /dev/null, opened outside: by the mount it
 * came with its times could be set. The island's own is read-only.
 */
static int own_null(void)
{
	_cleanup_(fd_closep) int null = -1;
	struct stat st;

	if (isatty(0) || fstat(0, &st) < 0 || !S_ISCHR(st.st_mode))
		return 0;
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return null < 0 ? -1 : dup2(null, 0);
}

static int make_channel(struct island *i)
{
	int pair[2], r;

	if (!(i->order.flags & ORDER_CHANNEL))
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	r = msg_send(i->stdio[0], "", 1, &pair[0], 1);
	(void)close(pair[0]);
	(void)close(i->stdio[0]);
	i->stdio[0] = pair[1];
	return r;
}

int confine_stdio(struct island *i, struct cay_error *err)
{
	if (make_channel(i) < 0)
		return fail(err, "make the program's channel");
	for (int n = 0; n < 3; n++)
		if (dup2(i->stdio[n], n) < 0)
			return fail(err, "connect standard input and output");
	return own_null() < 0 ? fail(err, "open the island's own /dev/null") : 0;
}

/* Every fd that is not the program's goes before any path is looked up for it. */
int confine_fds(struct island *i, struct cay_error *err)
{
	return keep_control(i) < 0 ? fail(err, "close what is not the program's") : 0;
}

/*
 * Nothing but standard input and output and the control socket is open by now,
 * and init is shut: a path through /proc leads nowhere but to the island itself.
 */
int confine_workdir(struct island *i, struct cay_error *err)
{
	const char *dir = plan_str(i->plan, i->plan->workdir);
	char cwd[PATH_MAX];

	if (chdir(dir) < 0) {
		(void)cay_fail(err, CAY_E_INVALID, errno, "the working directory %s", dir);
		return cay_hint(err,
				"it must exist on the island: /workspace, /tmp, a mount, or put");
	}
	/* The C library's getcwd() hides what the raw call says of a directory out of reach. */
	if (syscall(SYS_getcwd, cwd, sizeof(cwd)) < 0 || cwd[0] != '/')
		return cay_fail(err, CAY_E_INVALID, 0,
				"the working directory %s is not on the island", dir);
	return 0;
}

int confine_landlock(struct island *i, struct cay_error *err)
{
	const struct plan *p = i->plan;
	bool own = p->scratch_workspace || plan_kept(p) || plan_overlay(p);
	const char *scratch[] = {"/tmp", "/dev/shm", NULL, NULL, NULL};
	const char *host_dirs[PLAN_MOUNTS_MAX + 2] = {NULL};
	size_t n_scratch = 2, len = 0;

	if (own)
		scratch[n_scratch++] = ISLAND_WORKSPACE;
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (p->mounts[n].access == ACCESS_WRITE && p->mounts[n].kind != MOUNT_KEPT)
			host_dirs[len++] = plan_str(p, p->mounts[n].target);
	/* What is allowed below "/" is allowed below all: no sockets where some would stay. */
	if (p->writable && len > 0)
		host_dirs[len++] = "/";
	else if (p->writable)
		scratch[n_scratch++] = "/";
	i->landlock = landlock_confine(scratch, host_dirs);
	return i->landlock < 0
		       ? cay_fail(err, CAY_E_ENGINE, -i->landlock, "confine files by Landlock")
		       : 0;
}

int confine_seccomp(struct island *i, struct cay_error *err)
{
	int r = syscall_filter_load(plan_may_set_ids(i->plan));

	return r < 0 ? cay_fail(err, CAY_E_NOT_ENFORCEABLE, -r, "load the system call filter") : 0;
}

static int read_capabilities(struct facts *f)
{
	struct capability_sets sets;

	if (capabilities_read(&sets) < 0)
		return -1;
	f->caps_effective = sets.effective;
	f->caps_permitted = sets.permitted;
	f->caps_inheritable = sets.inheritable;
	f->caps_bounding = sets.bounding;
	f->caps_ambient = sets.ambient;
	return 0;
}

static uint64_t read_limit(int resource)
{
	struct rlimit r;

	return getrlimit(resource, &r) < 0 ? RLIM_INFINITY : r.rlim_max;
}

int confine_read_facts(struct island *i, struct facts *ret, struct cay_error *err)
{
	struct statvfs root, tmp, kept = {0};

	*ret = (struct facts){.uid = geteuid(),
			      .gid = getegid(),
			      .landlock = i->landlock,
			      .in_cgroups = i->in_cgroups};
	if (read_capabilities(ret) < 0)
		return fail(err, "read the capabilities back");
	ret->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	ret->seccomp_mode = prctl(PR_GET_SECCOMP);
	ret->init_dumpable = prctl(PR_GET_DUMPABLE); /* init's memory is ours until the exec */
	if (statvfs("/", &root) < 0 || statvfs("/tmp", &tmp) < 0)
		return fail(err, "look at the file systems");
	if ((plan_kept(i->plan) || plan_overlay(i->plan)) && statvfs(ISLAND_WORKSPACE, &kept) < 0)
		return fail(err, "look at the workspace");
	ret->workspace_bytes = (uint64_t)kept.f_blocks * kept.f_frsize;
	ret->root_read_only = (root.f_flag & ST_RDONLY) != 0;
	/* A read-only /tmp is the root's own: there is no scratch. */
	if (!(tmp.f_flag & ST_RDONLY))
		ret->scratch_bytes = (uint64_t)tmp.f_blocks * tmp.f_frsize;
	ret->open_files = read_limit(RLIMIT_NOFILE);
	ret->core_bytes = read_limit(RLIMIT_CORE);
	ret->processes = read_limit(RLIMIT_NPROC);
	if (namespaces_read(ret->namespaces) < 0)
		return fail(err, "read the namespaces back");
	return 0;
}

/*
 * An island that waits must not keep open what was the launcher's at the clone:
 * other runs' pipes never ended. 0 to 2 stay taken, so that what comes does not
 * land there.
 */
int confine_waiting(struct island *i, struct cay_error *err)
{
	bool waits = i->waiter_sock >= 0;
	/* Off the numbers that they get. */
	int scratch = fcntl(i->scratch_fd, F_DUPFD_CLOEXEC, WAITER_FD + 1);
	int sock = waits ? fcntl(i->waiter_sock, F_DUPFD_CLOEXEC, WAITER_FD + 1) : 0;
	int r = scratch < 0 ? scratch : sock;

	if (r >= 0 && i->control != CONTROL_FD)
		r = dup3(i->control, CONTROL_FD, O_CLOEXEC);
	if (r >= 0)
		r = dup3(scratch, SCRATCH_FD, O_CLOEXEC);
	if (r >= 0 && waits)
		r = dup3(sock, WAITER_FD, O_CLOEXEC);
	for (int n = 0; n < 3 && r >= 0; n++)
		r = dup3(CONTROL_FD, n, O_CLOEXEC);
	if (r < 0 || sys_close_range(waits ? WAITER_FD + 1 : WAITER_FD, ~0u, 0) < 0)
		return fail(err, "let go of the launcher's fds");
	i->control = CONTROL_FD;
	i->scratch_fd = SCRATCH_FD;
	i->waiter_sock = waits ? WAITER_FD : -1;
	i->root_fd = -1;
	return 0;
}

int confine_init(struct island *i, struct cay_error *err)
{
	if (set_capabilities(0) < 0)
		return fail(err, "empty init's capability sets");
	/* Also 0 to 2: the host's standard output must not hang on an island. */
	if (keep_control(i) < 0 || sys_close_range(0, 2, 0) < 0)
		return fail(err, "close init's fds");
	return 0;
}

static int own_namespaces(const struct facts *f, const uint64_t host[NAMESPACES], uint32_t which,
			  struct cay_error *err)
{
	for (int n = 0; n < NAMESPACES; n++)
		if (which & 1u << n && (f->namespaces[n] == 0 || f->namespaces[n] == host[n]))
			return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0,
					"the island has no %s namespace of its own",
					namespace_names[n]);
	return 0;
}

static int not_in_force(struct cay_error *err, const char *what)
{
	return cay_fail(err, CAY_E_NOT_ENFORCEABLE, 0, "%s not in force on the island", what);
}

int facts_check(const struct facts *f, const struct plan *p, const uint64_t host[NAMESPACES],
		struct cay_error *err)
{
	if (own_namespaces(f, host, ~0u, err) < 0)
		return -1;
	if (f->uid != p->uid || f->gid != p->gid)
		return not_in_force(err, "the user is");
	if ((f->caps_effective | f->caps_permitted | f->caps_inheritable | f->caps_bounding |
	     f->caps_ambient) &
	    ~caps_of(p))
		return not_in_force(err, "the empty capability sets are");
	if (!f->in_cgroups)
		return not_in_force(err, "the cgroups are");
	if (f->no_new_privs != 1)
		return not_in_force(err, "no_new_privs is");
	if (f->seccomp_mode != 2)
		return not_in_force(err, "the system call filter is");
	if (f->init_dumpable != 0)
		return not_in_force(err, "init's shut memory is");
	if (!f->root_read_only && !p->writable)
		return not_in_force(err, "the read-only root is");
	if (f->scratch_bytes == 0 || f->scratch_bytes > p->limits.disk_bytes + 65536)
		return not_in_force(err, "the disk limit is");
	if (plan_kept(p) && !p->allow_degraded &&
	    (f->workspace_bytes == 0 ||
	     f->workspace_bytes > kept_image_bytes(p->limits.disk_bytes)))
		return not_in_force(err, "the workspace's disk limit is");
	/* The layer's, which is the scratch's: a host directory has another. */
	if (plan_overlay(p) && f->workspace_bytes != f->scratch_bytes)
		return not_in_force(err, "the workspace's layer is");
	if (f->open_files > p->limits.open_files || f->core_bytes > CORE_LIMIT)
		return not_in_force(err, "the resource limits are");
	return 0;
}

int facts_check_zygote(const struct facts *f, const uint64_t host[NAMESPACES],
		       struct cay_error *err)
{
	/* Its islands have cgroup namespaces, which they could not make sense of below its own. */
	if (own_namespaces(f, host, ~(1u << NAMESPACE_CGROUP), err) < 0)
		return -1;
	if (f->uid != 0 || f->gid != 0)
		return not_in_force(err, "the zygote's user is");
	if (!f->in_cgroups)
		return not_in_force(err, "the cgroups are");
	if (f->no_new_privs != 1)
		return not_in_force(err, "no_new_privs is");
	return f->root_read_only ? 0 : not_in_force(err, "the read-only root is");
}
