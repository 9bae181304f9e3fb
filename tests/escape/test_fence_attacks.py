"""Attacks on the kernel's fences: namespaces, mounts, odd numbers, odd sockets, terminals."""

import json
import os
import pty

import pytest

from attack import PRELUDE, assert_refused, attack, told, tries, x86_64


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
    assert tries(island, "attempt('clone', lambda: os._exit(0) if call(56, 17, 0, 0, 0, 0) == 0 else None)") \
        == {"clone": "worked"}


@attack(12)
def test_doors_between_namespaces(island):
    """The parents and owners of one's namespaces, by ioctl; those of init, by its pidfd."""
    results = tries(island, """
pidfd = os.pidfd_open(1)
for name in ('user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup', 'time'):
    fd = os.open('/proc/self/ns/' + name, os.O_RDONLY)
    if name == 'user': attempt('type', lambda: fcntl.ioctl(fd, 0xb703))
    if name in ('user', 'pid'): attempt('parent of ' + name, lambda: fcntl.ioctl(fd, 0xb702))
    if name == 'user': attempt('owner of user', lambda: fcntl.ioctl(fd, 0xb701))
for request in range(0xff01, 0xff0b):
    attempt(f'pidfd {request:x}', lambda: fcntl.ioctl(pidfd, request, 0))
attempt('setns by pidfd', lambda: call(308, pidfd, 0x10000000))
""")
    assert results.pop("type") == "worked"
    assert_refused(results, "EPERM", "EACCES", "EINVAL", "ENOTTY")


@attack(12)
def test_capabilities_of_every_process(island):
    """All five sets of every process on the island, of threads and of init: empty, or what a root inside may have."""
    sets = island.inside("""[(p, line.split()[1]) for p in os.listdir('/proc') if p.isdigit()
        for t in os.listdir(f'/proc/{p}/task') for line in open(f'/proc/{p}/task/{t}/status') if line.startswith('Cap')]
        if subprocess.Popen(['sleep', '1']) and threading.Thread(target=time.sleep, args=[1]).start() is None else 0""",
                         modules="os, subprocess, threading, time")
    assert len(sets) == 5 * 4  # init, the program and its thread, its child
    assert {int(value, 16) for _, value in sets} == {0, island.capabilities}
    assert {int(value, 16) for pid, value in sets if pid == "1"} <= {0, island.capabilities}
    told("all empty" if not island.capabilities else "of the island's own")
    assert any(int(line.split()[1], 16) for line in open("/proc/self/status") if line.startswith("Cap"))  # the control


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
attempt('quotactl_fd', lambda: call(443, 0, 0, 0, 0))
"""), "EPERM")
    assert_refused(tries(island, """
for name, number in dict(statmount=457, listmount=458, open_tree_attr=467, file_setattr=469, listns=470).items():
    attempt(name, lambda: call(number, 0, 0, 0, 0, 0, 0))"""), "ENOSYS")


@attack(13)
def test_release_agent(island):
    """CVE-2022-0492: a cgroup to mount, or the island's own, with a release_agent, limits, or processes to move."""
    results = tries(island, """
for kind in ('cgroup', 'cgroup2'):
    for option in ('memory', 'rdma', 'none,name=x', ''):
        attempt(f'mount {kind} {option}', lambda: call(165, kind.encode(), b'/tmp', kind.encode(), 0, option.encode()))
for directory in ('/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/unified', '/tmp'):
    for name in ('release_agent', 'notify_on_release', 'cgroup.procs', 'tasks', 'memory.max', 'memory.limit_in_bytes',
                 'cgroup.subtree_control', 'devices.allow'):
        attempt(f'{directory}/{name}', lambda: os.open(f'{directory}/{name}', os.O_WRONLY))
    if directory != '/tmp': attempt(f'mkdir in {directory}', lambda: os.mkdir(f'{directory}/x'))
""")
    assert_refused(results, "EPERM", "EROFS", "EACCES", "ENOENT")


@attack(13)
def test_writes_to_the_machine(island):
    """/proc/sys, sysrq-trigger, IRQs, memory and OOM score of others, /dev/mem and its like."""
    results = tries(island, """
for path in ('sys/kernel/core_pattern', 'sys/kernel/modprobe', 'sys/kernel/hostname', 'sys/kernel/ns_last_pid',
             'sys/vm/overcommit_memory', 'sys/vm/drop_caches', 'sys/net/ipv4/ip_forward', 'sys/user/max_user_namespaces',
             'sys/user/max_inotify_instances', 'sys/fs/binfmt_misc/register', 'sysrq-trigger', 'irq/default_smp_affinity',
             'mtrr', 'timer_stats', '1/mem', '1/oom_score_adj', '1/oom_adj', '1/attr/current', '1/coredump_filter'):
    attempt(path, lambda: os.write(os.open('/proc/' + path, os.O_WRONLY), b'1'))
for path in ('mem', 'kmem', 'port', 'kmsg', 'fuse', 'kvm', 'net/tun', 'vsock', 'loop-control', 'mapper/control', 'sda', 'vda'):
    attempt('dev/' + path, lambda: os.open('/dev/' + path, os.O_RDWR))
attempt('control', lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'1000'))
""")
    assert results.pop("control") == "worked"
    assert_refused(results, "EROFS", "EACCES", "EPERM", "ENOENT")


@attack(14)
def test_secrets_of_the_kernel(island):
    """kcore, keys, kallsyms, timers, firmware, powercap, the kernel's log: absent, empty or refused."""
    results = tries(island, """
def read(path):
    if os.read(os.open(path, os.O_RDONLY), 64) == b'': raise OSError(errno.ENODATA, '')
for path in ('kcore', 'keys', 'kallsyms', 'timer_list', 'sched_debug', 'vmallocinfo', 'slabinfo', 'kpageflags',
             'kpagecount', 'kpagecgroup', 'kmsg', 'vmcore', 'pagetypeinfo', 'latency_stats', 'sys/kernel/cad_pid'):
    attempt('/proc/' + path, lambda: read('/proc/' + path))
for path in ('/sys/firmware/efi/efivars', '/sys/firmware/acpi/tables/DSDT', '/sys/firmware/dmi/tables/DMI',
             '/sys/class/powercap/intel-rapl:0/energy_uj', '/sys/class/dmi/id/product_uuid', '/sys/kernel/notes',
             '/sys/kernel/debug/x', '/sys/kernel/security/lsm', '/sys/module/kvm/parameters/nested', '/sys/block/vda/size',
             '/sys/devices/virtual/powercap', '/sys/hypervisor/uuid', '/boot/vmlinuz', '/dev/kmsg'):
    attempt(path, lambda: read(path))
for path in ('acpi', 'scsi', 'asound', 'bus'):
    if os.path.exists('/proc/' + path) and os.listdir('/proc/' + path) == []: results[path] = 'ENODATA'
attempt('syslog', lambda: call(103, 3, 0, 0))
attempt('control', lambda: read('/proc/version'))
""")
    assert results.pop("control") == "worked"
    assert_refused(results, "ENODATA", "EACCES", "EPERM", "ENOENT", "EIO")
    with open("/proc/kallsyms") as f:
        assert f.readline()  # the control: here it is not empty


@attack(14)
def test_addresses_of_the_kernel(island):
    """What is told of modules, sockets, processes and memory has no kernel address in it."""
    found = island.inside("""[(p, w) for p in ('/proc/modules', '/proc/net/unix', '/proc/net/tcp', '/proc/self/stat',
        '/proc/self/wchan', '/proc/iomem', '/proc/net/netlink', '/proc/net/ptype', '/proc/self/syscall')
        if os.access(p, os.R_OK) for w in re.findall(r'(?:0x)?ffff[89a-f][0-9a-f]{11}', open(p).read())]""",
                          modules="os, re")
    assert found == []
    told("none")

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
    assert tries(island, "attempt('getpid', lambda: call(39))") == {"getpid": "worked"}


@attack(15)
def test_tracing(island):
    """ptrace, process_vm_*, pidfd_getfd: of one's own processes yes, of init and of what is not there no."""
    results = tries(island, """
child = os.fork()
if child == 0: time.sleep(5); os._exit(0)
iov = ctypes.create_string_buffer(8)
def vm(number, pid):
    local = struct.pack('PN', ctypes.addressof(iov), 8)
    return call(number, pid, local, 1, local, 1, ctypes.c_long(0))
for pid, name in ((1, 'init'), (child, 'control'), (4000000, 'nobody')):
    attempt(name + ' read', lambda: vm(310, pid))
    attempt(name + ' write', lambda: vm(311, pid))
    attempt(name + ' seize', lambda: call(101, 0x4206, pid, 0, 0))
os.kill(child, 9)
other = os.fork()
if other == 0: time.sleep(5); os._exit(0)
attempt('without its filter', lambda: call(101, 0x4206, other, 0, ctypes.c_long(1 << 21)))
os.kill(other, 9)
""")
    assert {results.pop(f"control {how}") for how in ("read", "write", "seize")} == {"worked"}
    assert_refused(results, "EPERM", "ESRCH", "EINVAL")


@x86_64
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


@attack(16)
def test_netlink_gives_no_way_to_write(island):
    """What getifaddrs needs is there; links, addresses, routes and namespaces can't be changed by it."""
    results = tries(island, """
def ask(kind, flags, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(struct.pack('IHHII', 16 + len(body), kind, flags, 1, 0) + body)
        answer = s.recv(65536)
        error = struct.unpack_from('i', answer, 16)[0] if struct.unpack_from('H', answer, 4)[0] == 2 else 0
        if error: raise OSError(-error, '')
link = struct.pack('BBHiII', 0, 0, 0, 1, 0, 1)
dummy = struct.pack('BBHiII', 0, 0, 0, 0, 0, 0) + struct.pack('HH10sxx', 14, 3, b'dummy9') \\
    + struct.pack('HHHH8s', 16, 18, 10, 1, b'dummy')
attempt('link down', lambda: ask(16, 5, link))
attempt('new link', lambda: ask(16, 0x605, dummy))
attempt('delete link', lambda: ask(17, 5, link))
attempt('address', lambda: ask(20, 0x605, struct.pack('BBBBI', 2, 8, 0, 0, 1) + struct.pack('HH4B', 8, 2, 10, 0, 0, 1)))
attempt('route', lambda: ask(24, 0x605, struct.pack('8BI', 2, 0, 0, 0, 254, 3, 0, 1, 0)))
attempt('rule', lambda: ask(32, 0x605, struct.pack('8BI', 2, 0, 0, 0, 254, 3, 0, 1, 0)))
attempt('traffic control', lambda: ask(36, 0x605, struct.pack('BxxxiIII', 0, 1, 0, 0xffffffff, 0)))
attempt('control', lambda: ask(18, 0x301, struct.pack('BBHiII', 0, 0, 0, 0, 0, 0)))
""")
    assert results.pop("control") == "worked"
    assert_refused(results, "EPERM")


@attack(17)
def test_the_callers_terminal_is_silent(cay, place):
    """TIOCSTI and its like on 0, 1, 2 and /dev/tty of a run on a terminal: nothing is typed there."""
    (place / "sti.py").write_text(PRELUDE + """
for fd in (0, 1, 2):
    for request in (0x5412, 0x541c, 0x5412 | 1 << 32, 0x5412 | 0xffffffff << 32):
        attempt(f'{fd} {request:x}', lambda: call(16, fd, ctypes.c_long(request), b'x'))
attempt('/dev/tty', lambda: os.open('/dev/tty', os.O_RDWR))
print(json.dumps(results))
""")
    master, slave = pty.openpty()
    try:
        done = cay.run("sti.py", stdin=slave, stderr=slave).ok()
        os.set_blocking(master, False)
        os.set_blocking(slave, False)
        with pytest.raises(BlockingIOError):
            os.read(slave, 1)  # as if typed
        with pytest.raises(BlockingIOError):
            os.read(master, 1)  # as if shown
        os.write(master, b"typed\n")
        assert os.read(slave, 10) == b"typed\n"  # the control
    finally:
        os.close(master)
        os.close(slave)
    results = json.loads(done.text)
    assert results.pop("/dev/tty") == "ENXIO"
    assert_refused(results, "EPERM")


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
    results = tries(island, """
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
""")
    if island.uid == 0:  # the island's own ids are root's to have
        assert [results.pop(name) for name in ("setuid", "setresgid", "setgroups")] == ["worked"] * 3
    assert_refused(results, "EPERM", "EACCES", "EINVAL")


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
