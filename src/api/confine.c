#include "api/confine.h"

#include "base/attr.h"
#include "base/confine.h"
#include "image/images.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Where runtimes are, what they are told apart by, and what the libraries look at. */
static const char *const readable[] = {
	"/usr",
	"/lib",
	"/lib64",
	"/bin",
	"/sbin",
	"/etc/ssl",
	"/etc/alternatives",
	"/proc/self",
	"/sys/devices/system/cpu",
	"/dev/urandom",
};

/* What images there are, and nothing that is in one. */
static int allow_images(const struct confine_files *f, const struct settings *s)
{
	static const char *const parts[] = {"names", "records"};
	char dir[PATH_MAX], path[PATH_MAX + 16];
	int r = images_dir(s, dir);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, parts[i]);
		r = confine_files_allow(f, path, CONFINE_READ);
	}
	return r;
}

static int confine_to_files(const struct settings *s, int state, int *ret_abi)
{
	struct confine_files f;
	int r = confine_files_begin(false, &f, ret_abi);

	if (r < 0 || *ret_abi == 0)
		return r;
	r = confine_files_allow_fd(&f, state, CONFINE_STATE);
	if (r == 0)
		r = confine_files_allow(&f, "/dev/null", CONFINE_FILE);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(readable); i++)
		r = confine_files_allow(&f, readable[i], CONFINE_READ);
	for (size_t i = 0; i < s->n_languages; i++)
		for (size_t k = 0; r == 0 && k < s->languages[i].paths.len; k++)
			r = confine_files_allow(&f, s->languages[i].paths.items[k], CONFINE_READ);
	if (r == 0)
		r = allow_images(&f, s);
	return confine_files_end(&f, r);
}

static const char *const denied[] = {
	"acct",
	"add_key",
	"adjtimex",
	"bind",
	"bpf",
	"capset",
	"chroot",
	"clock_adjtime",
	"clock_settime",
	"connect",
	"delete_module",
	"execve",
	"execveat",
	"fanotify_init",
	"finit_module",
	"fsconfig",
	"fsmount",
	"fsopen",
	"init_module",
	"io_uring_enter",
	"io_uring_register",
	"io_uring_setup",
	"ioperm",
	"iopl",
	"kcmp",
	"kexec_file_load",
	"kexec_load",
	"keyctl",
	"kill",
	"listen",
	"lookup_dcookie",
	"mknod",
	"mknodat",
	"modify_ldt",
	"mount",
	"mount_setattr",
	"move_mount",
	"name_to_handle_at",
	"nfsservctl",
	"open_by_handle_at",
	"open_tree",
	"perf_event_open",
	"personality",
	"pidfd_getfd",
	"pidfd_open",
	"pidfd_send_signal",
	"pivot_root",
	"process_vm_readv",
	"process_vm_writev",
	"quotactl",
	"reboot",
	"request_key",
	"setdomainname",
	"setfsgid",
	"setfsuid",
	"setgid",
	"setgroups",
	"sethostname",
	"setns",
	"setregid",
	"setresgid",
	"setresuid",
	"setreuid",
	"settimeofday",
	"setuid",
	"socket",
	"swapoff",
	"swapon",
	"syslog",
	"umount2",
	"unshare",
	"userfaultfd",
	"vhangup",
};

/* No processes, either; but those that find leaks. */
static const char *const denied_unless_sanitized[] = {
	"clone", "clone3", "fork", "ptrace", "vfork",
};

static int deny_arguments(scmp_filter_ctx filter)
{
	static const unsigned requests[] = {TIOCSTI, TIOCLINUX};
	/* One end of such a pair can send to any socket that has a name, without connect(). */
	static const unsigned datagrams[] = {SOCK_DGRAM, SOCK_RAW};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(datagrams); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 1,
				     SCMP_A1_32(SCMP_CMP_MASKED_EQ, 0xf, datagrams[i]));
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(requests); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
				     SCMP_A1_32(SCMP_CMP_EQ, requests[i]));
	return r;
}

static int deny_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!filter)
		return -ENOMEM;
	r = confine_calls(filter, SCMP_ACT_ERRNO(EPERM), denied, ARRAY_LEN(denied));
	if (r == 0 && !CONFINE_SANITIZED)
		r = confine_calls(filter, SCMP_ACT_ERRNO(EPERM), denied_unless_sanitized,
				  ARRAY_LEN(denied_unless_sanitized));
	if (r == 0)
		r = deny_arguments(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int confine_api(const struct settings *s, int state, int *ret_landlock, struct cay_error *err)
{
	/* Keys pass through our memory. */
	int r = confine_secrets();

	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "confine the api");
	r = confine_to_files(s, state, ret_landlock);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "confine the api with Landlock");
	r = deny_calls();
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "confine the api with seccomp");
	return 0;
}
