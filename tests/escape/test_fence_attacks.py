"""Attacks on the kernel's fences: namespaces, mounts, odd numbers, odd sockets, terminals."""

import pytest

from attack import assert_refused, attack, tries, x86_64

pytestmark = x86_64


@attack(12)
def test_namespaces(island):
    """unshare, clone, clone3, setns: refused with every flag, also with the high bits set."""
    results = tries(island, """
for flag in (0x10000000, 0x20000, 0x40000000, 0x08000000, 0x04000000, 0x20000000, 0x02000000):
    attempt(f'unshare {flag:x}', lambda: call(272, ctypes.c_long(flag)))
    attempt(f'clone {flag:x}', lambda: call(56, ctypes.c_long(flag | 17), 0, 0, 0, 0))
    attempt(f'clone high {flag:x}', lambda: call(56, ctypes.c_long(flag | 17 | 0xdead << 32), 0, 0, 0, 0))
attempt('unshare time', lambda: call(272, 0x80))
for name in ('user', 'mnt', 'pid', 'net'):
    attempt('setns ' + name, lambda: call(308, os.open('/proc/self/ns/' + name, os.O_RDONLY), 0))
attempt('clone3', lambda: call(435, struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88))
""")
    assert results.pop("clone3") == "ENOSYS"
    assert_refused(results, "EPERM")


@attack(13)
def test_mounts(island):
    """The old mount calls and the new ones, chroot, pivot_root."""
    assert_refused(tries(island, """
attempt('mount', lambda: call(165, b'x', b'/tmp', b'no-such-type', 0, 0))
attempt('cgroup', lambda: call(165, b'cgroup', b'/tmp', b'cgroup', 0, b'memory'))
attempt('umount', lambda: call(166, b'/proc/sys', 2))
attempt('chroot', lambda: call(161, b'/tmp'))
attempt('pivot_root', lambda: call(155, b'/tmp', b'/tmp'))
attempt('open_tree', lambda: call(428, -100, b'/', 1))
attempt('move_mount', lambda: call(429, 0, b'', 0, b'', 4))
attempt('fsopen', lambda: call(430, b'no-such-type', 0))
attempt('mount_setattr', lambda: call(442, -100, b'/', 0, bytes(32), 32))
attempt('open_by_handle_at', lambda: call(304, 0, bytes(64), 0))
"""), "EPERM")


@attack(15)
def test_dangerous_calls(island):
    """io_uring, userfaultfd, bpf, perf, keys, modules, kexec and the like: known, and refused."""
    assert_refused(tries(island, """
for name, number in dict(io_uring_setup=425, io_uring_enter=426, userfaultfd=323, bpf=321,
                         perf_event_open=298, keyctl=250, add_key=248, request_key=249,
                         kexec_load=246, init_module=175, finit_module=313, delete_module=176,
                         fanotify_init=300, memfd_secret=447, modify_ldt=154, syslog=103, acct=163,
                         swapon=167, iopl=172, ioperm=173, kcmp=312, move_pages=279, quotactl=179,
                         name_to_handle_at=303, settimeofday=164, sethostname=170).items():
    attempt(name, lambda: call(number, 0, 0, 0, 0, 0, 0))
"""), "EPERM")


@attack(15)
def test_numbers_of_other_worlds(island):
    """x32 numbers and unknown ones are absent; int 0x80 is death."""
    results = tries(island, """
import mmap
for number in (0x40000000 | 39, 0x40000000 | 521, 520, 600, 0x7fffffff):
    attempt(f'{number:x}', lambda: call(number, 0, 0, 0, 0))
def int80():
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex('b814000000cd80c3'))
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
status = in_child(int80)
results['int80'] = f'signal {os.WTERMSIG(status)}' if os.WIFSIGNALED(status) else 'worked'
""")
    assert results.pop("int80") == "signal 31"
    assert_refused(results, "ENOSYS")


@attack(16)
def test_sockets(island):
    """Families and protocols that are not TCP, UDP, Unix or what getifaddrs needs."""
    results = tries(island, """
for name, (family, kind, protocol) in dict(
        vsock=(40, 1, 0), alg=(38, 5, 0), packet=(17, 3, 0), raw=(2, 3, 1), packet_by_inet=(2, 10, 0),
        ping=(2, 2, 1), sctp=(2, 1, 132), mptcp=(2, 1, 262), raw6=(10, 3, 58), audit=(16, 3, 9),
        xfrm=(16, 3, 6), netfilter=(16, 3, 12), uevent=(16, 3, 15), generic=(16, 3, 16), diag=(16, 3, 4),
        bluetooth=(31, 3, 1), can=(29, 3, 1), xdp=(44, 3, 0), tipc=(30, 1, 0), rds=(21, 5, 0)).items():
    attempt(name, lambda: call(41, family, kind, protocol))
attempt('alg, high bits', lambda: call(41, ctypes.c_long(1 << 32 | 38), 5, 0))
attempt('control', lambda: call(41, 16, 3, 0))
""")
    assert results.pop("control") == "worked"
    assert_refused(results, "EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT")


@attack(17)
def test_terminal_injection(island):
    """CVE-2017-5226: TIOCSTI and its like on a terminal of one's own and on fd 0, high bits too."""
    results = tries(island, """
import pty
master, slave = pty.openpty()
os.setsid() if os.getsid(0) != os.getpid() else None
fcntl.ioctl(slave, 0x540e, 0)
for name, request in dict(TIOCSTI=0x5412, TIOCLINUX=0x541c, TIOCCONS=0x541d, TIOCSETD=0x5423).items():
    for fd in (slave, master, 0):
        attempt(f'{name} {fd}', lambda: call(16, fd, ctypes.c_long(request), b'x' * 8))
        attempt(f'{name} {fd} high', lambda: call(16, fd, ctypes.c_long(request | 0xffffffff << 32), b'x' * 8))
attempt('control', lambda: fcntl.ioctl(slave, 0x5413, bytes(8)))
""")
    assert results.pop("control") == "worked"  # TIOCGWINSZ
    assert_refused(results, "EPERM")


@attack(12)
def test_privileges_do_not_come_back(island):
    """Ids, ambient capabilities, secure bits, limits, priorities, OOM score."""
    assert_refused(tries(island, """
import resource
attempt('setuid', lambda: os.setuid(0))
attempt('setresgid', lambda: os.setresgid(0, 0, 0))
attempt('setgroups', lambda: os.setgroups([0]))
attempt('ambient', lambda: call(157, 47, 2, 21, 0, 0))
attempt('securebits', lambda: call(157, 28, 0, 0, 0, 0))
attempt('personality', lambda: call(135, 0x0400000))
attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
attempt('realtime', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt('oom', lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000'))
attempt('uid_map', lambda: os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 0 1'))
attempt('nofile', lambda: call(302, 0, 7, struct.pack('2Q', 1 << 30, 1 << 30), 0))
attempt('nproc', lambda: call(302, 0, 6, struct.pack('2Q', 1 << 20, 1 << 20), 0))
"""), "EPERM", "EACCES", "EINVAL")


@attack(19)
def test_the_core_limit_stays(island):
    """The core limit is 1 and stays 1, whatever is asked: at no other value is a host's handler not started."""
    out = island.run("-c", """
import resource
for value in ((0, 0), (1, 1), (0, 1)):
    resource.setrlimit(resource.RLIMIT_CORE, value)
    print(resource.getrlimit(resource.RLIMIT_CORE))
""").ok().text
    assert out.splitlines() == ["(1, 1)"] * 3
