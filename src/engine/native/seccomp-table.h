/*
 * seccomp-table.h: which system calls an island has. Data only: seccomp-gen.c
 * makes the filter out of it at build time, the test reads it to check the result.
 *
 * What is not listed is ABSENT, so a call that a later kernel brings is out until
 * somebody has thought about it. A name that libseccomp does not know is a build
 * error unless it is in newer_calls; so is a name that is listed twice. A name the
 * target lacks (open on arm64) is skipped.
 */
#pragma once

enum verdict {
	ABSENT, /* ENOSYS, as from a kernel without it: programs fall back to older calls */
	ALLOW,
	DENY, /* EPERM: the call is known, and refused */

	/* Allowed with harmless arguments only; the rules are in seccomp-gen.c. */
	CHECK_CLONE,
	CHECK_SOCKET,
	CHECK_SETSOCKOPT, /* no filters: what they are compiled into is one pool of the machine's */
	CHECK_IOCTL,
	CHECK_PERSONALITY,
	CHECK_PRCTL,   /* no filters, as for sockets */
	CHECK_OPEN,    /* open: the mode is argument 2, if the flags say that it counts */
	CHECK_OPENAT,  /* the same, one further */
	CHECK_MODE,    /* no set-id bits in argument 1 */
	CHECK_MODE_AT, /* in argument 2 */
	CHECK_MKNOD,   /* mode in argument 1: no set-id bits, no devices */
	CHECK_MKNODAT, /* in argument 2 */
	CHECK_FCNTL,   /* no leases */
	CHECK_MMAP,    /* no huge pages of the host's pool: they count to no memory limit */
	CHECK_MEMFD,
	CHECK_SHMGET,
	CHECK_RLIMIT, /* setrlimit, prlimit64: the core limit stays as it is */
	CHECK_PRLIMIT,
	VERDICTS
};

struct call_group {
	enum verdict verdict;
	const char *names; /* separated by spaces */
};

static const struct call_group call_groups[] = {
	/* Bytes in and out of what is open. */
	{ALLOW, "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek "
		"sendfile copy_file_range splice tee vmsplice readahead fadvise64 fallocate "
		"truncate ftruncate fsync fdatasync sync_file_range cachestat"},
	{ALLOW, "close close_range dup dup2 dup3 flock pipe pipe2"},
	/*
	 * The core limit is 1, the one value at which the kernel starts no core handler
	 * of the host's: 0 would let a crash on an island run it, as root.
	 */
	{CHECK_RLIMIT, "setrlimit"},
	{CHECK_PRLIMIT, "prlimit64"},
	{CHECK_MMAP, "mmap"},
	{CHECK_MEMFD, "memfd_create"},
	{CHECK_SHMGET, "shmget"},

	/* A lease makes the host's own open() of a shared file wait. */
	{CHECK_FCNTL, "fcntl"},

	/* Names, and what hangs on them. Without capabilities chown and xattrs are the kernel's. */
	{ALLOW, "stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 "
		"getdents getdents64 getcwd chdir fchdir readlink readlinkat "
		"rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat rmdir "
		"umask utime utimes futimesat utimensat chown fchown lchown fchownat"},
	{ALLOW, "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr "
		"listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr"},
	{ALLOW, "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"},

	/*
	 * Every call that can set a set-uid or set-gid bit: in a writable workspace such a
	 * file would stay behind on the host.
	 */
	{CHECK_OPEN, "open"},
	{CHECK_OPENAT, "openat"},
	{CHECK_MODE, "creat mkdir chmod fchmod"},
	{CHECK_MODE_AT, "mkdirat fchmodat"},
	{CHECK_MKNOD, "mknod"},
	{CHECK_MKNODAT, "mknodat"},

	/* Their mode or flags are in memory, where a filter can't look. Libcs fall back. */
	{ABSENT, "openat2 fchmodat2 clone3"},

	/* Memory. */
	{ALLOW, "mprotect munmap mremap msync mincore madvise brk remap_file_pages mseal "
		"mlock mlock2 munlock mlockall munlockall map_shadow_stack "
		"pkey_alloc pkey_free pkey_mprotect process_madvise process_mrelease"},
	/* OpenBLAS, java and libnuma ask; placing one's own pages is harmless. */
	{ALLOW, "get_mempolicy set_mempolicy set_mempolicy_home_node mbind"},

	/* Processes, threads, scheduling of one's own. */
	{CHECK_CLONE, "clone"},
	{ALLOW, "fork vfork execve execveat exit exit_group wait4 waitid "
		"getpid getppid gettid getpgid getpgrp setpgid getsid setsid set_tid_address "
		"futex futex_waitv futex_wake futex_wait futex_requeue "
		"set_robust_list get_robust_list rseq membarrier "
		"arch_prctl get_thread_area set_thread_area "
		"pidfd_open pidfd_send_signal pidfd_getfd"},
	{ALLOW, "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
		"sched_getscheduler sched_setscheduler sched_getattr sched_setattr "
		"sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
		"getpriority setpriority ioprio_get ioprio_set getcpu "
		"getrlimit getrusage times"},
	{ALLOW, "kill tkill tgkill pause rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
		"rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack "
		"signalfd signalfd4 restart_syscall"},
	/*
	 * gdb and strace, for one's own: PID 1 is not dumpable and of another user. The
	 * kernel asks the filter again after a tracer has changed a call.
	 */
	{ALLOW, "ptrace process_vm_readv process_vm_writev"},
	/* No option of prctl gives anything back once no_new_privs is set and no capability left.
	 */
	{CHECK_PRCTL, "prctl"},
	{CHECK_PERSONALITY, "personality"},
	/* A sandbox in the sandbox can only take away; but seccomp() is absent: see CHECK_PRCTL. */
	{ALLOW, "landlock_create_ruleset landlock_add_rule landlock_restrict_self"},

	/* Ids. Without capabilities they can only be swapped among one's own. */
	{ALLOW, "getuid geteuid getgid getegid getresuid getresgid getgroups "
		"setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups "
		"capget capset"},

	/* Time. */
	{ALLOW, "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep "
		"alarm getitimer setitimer timer_create timer_settime timer_gettime "
		"timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime"},

	/* Waiting. */
	{ALLOW, "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait "
		"epoll_pwait epoll_pwait2 eventfd eventfd2"},
	/* Asynchronous I/O takes of one number for the whole machine (fs.aio-max-nr). */
	{ABSENT, "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents"},

	/* Sockets, System V IPC, POSIX queues: of the island's own namespaces. */
	{CHECK_SOCKET, "socket socketpair"},
	{CHECK_SETSOCKOPT, "setsockopt"},
	{ALLOW, "bind listen accept accept4 connect shutdown getsockname getpeername "
		"getsockopt sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg"},
	{ALLOW, "shmat shmdt shmctl semget semop semtimedop semctl "
		"msgget msgsnd msgrcv msgctl "
		"mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},

	{CHECK_IOCTL, "ioctl"},
	{ALLOW, "uname sysinfo getrandom"},

	/* Namespaces and mounts: the fence itself. */
	{DENY, "unshare setns chroot pivot_root mount umount2 mount_setattr move_mount open_tree "
	       "fsopen fsconfig fsmount fspick name_to_handle_at open_by_handle_at"},

	/* Large, and a steady source of kernel holes. */
	{DENY, "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register "
	       "add_key request_key keyctl fanotify_init fanotify_mark memfd_secret modify_ldt "
	       "move_pages migrate_pages kcmp"},

	/* They write back the file systems of the whole host, on nobody's account. */
	{DENY, "sync syncfs"},

	/* The machine's administrator. All need capabilities too: two locks are better. */
	{DENY, "init_module finit_module delete_module kexec_load kexec_file_load reboot "
	       "swapon swapoff acct quotactl quotactl_fd sethostname setdomainname vhangup syslog "
	       "settimeofday clock_settime clock_adjtime adjtimex iopl ioperm lookup_dcookie"},

	/* Dead or dying. No kernel of ours has most of them; listed, they join their neighbours. */
	{DENY, "uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl "
	       "getpmsg putpmsg afs_syscall tuxcall security"},
};

/*
 * Calls libseccomp 2.5.4 can't name. From 424 on all architectures have the same
 * numbers. A libseccomp that can is asked as well, and must agree.
 */
struct newer_call {
	const char *name;
	unsigned nr;
};

static const struct newer_call newer_calls[] = {
	{"cachestat", 451},  {"fchmodat2", 452},  {"map_shadow_stack", 453},
	{"futex_wake", 454}, {"futex_wait", 455}, {"futex_requeue", 456},
	{"mseal", 462},
};
