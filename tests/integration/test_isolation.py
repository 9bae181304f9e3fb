"""What a program on an island sees of the machine, and what it can do to it: nothing."""

import os
import pty
import socket
import time

import pytest

from support import must_work


def attempt(cay, code, *options):
    """The error's name when code is run on an island, or "worked"."""
    indented = code.replace("\n", "\n    ")
    return cay.python(f"""
import errno, os, socket, ctypes
try:
    {indented}
    print('worked')
except OSError as e:
    print(errno.errorcode[e.errno])
""", *options).strip()


# Network

@pytest.mark.parametrize("address", ["1.1.1.1", "169.254.169.254", "10.0.0.1"])
def test_no_network(cay, address):
    began = time.monotonic()
    assert attempt(cay, f"socket.create_connection(('{address}', 80), 5)") == "ENETUNREACH"
    assert time.monotonic() - began < 2


def test_no_udp_and_no_ipv6(cay):
    send = "socket.socket(socket.{}, socket.SOCK_DGRAM).sendto(b'x', ('{}', 53))"
    assert attempt(cay, send.format("AF_INET", "8.8.8.8")) == "ENETUNREACH"
    assert attempt(cay, send.format("AF_INET6", "2606:4700::1111")) in ("ENETUNREACH", "EADDRNOTAVAIL")


def test_no_names_are_resolved(cay):
    code = ("import socket\ntry: socket.getaddrinfo('example.com', 80)\n"
            "except socket.gaierror: print('no')\n"
            "print(socket.getaddrinfo('localhost', 80, socket.AF_INET)[0][4][0])")
    assert cay.python(code) == "no\n127.0.0.1\n"


def test_only_loopback(cay):
    assert cay.inside("[n for _, n in socket.if_nameindex()]", modules="socket") == ["lo"]


def test_loopback_works_inside(cay):
    code = ("import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
            "c = socket.create_connection(s.getsockname()); a, _ = s.accept()\n"
            "c.sendall(b'hi'); print(a.recv(2))")
    assert cay.python(code) == "b'hi'\n"


def test_hosts_loopback_is_another(cay):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()  # it does listen
        assert attempt(cay, f"socket.create_connection(('127.0.0.1', {port}), 5)") == "ECONNREFUSED"


def test_hosts_abstract_sockets_are_not_seen(cay):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0cay-e2e")
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0cay-e2e")
        assert attempt(cay, "socket.socket(socket.AF_UNIX).connect('\\0cay-e2e')") == "ECONNREFUSED"


# Files

@pytest.mark.parametrize("path", ["/x", "/usr/x", "/usr/bin/x", "/etc/x", "/dev/x", "/run/x",
                                  "/var/x", "/bin/x", "/etc/ssl/x"])
def test_root_is_read_only(cay, path):
    assert attempt(cay, f"open('{path}', 'x'); os.unlink('{path}')") in ("EROFS", "EACCES")


def test_read_only_is_by_mount_and_not_only_by_owner(cay):
    for path in ("/", "/usr", "/etc/alternatives"):
        assert cay.inside(f"os.statvfs('{path}').f_flag & os.ST_RDONLY") == os.ST_RDONLY


@pytest.mark.parametrize("path", ["/tmp/x", "/workspace/x", "/dev/shm/x", "/var/tmp/x"])
def test_writable_places(cay, path):
    assert cay.python(f"open('{path}', 'w').write('x'); print(open('{path}').read())") == "x\n"


def test_root_directory(cay):
    names = set(cay.inside("os.listdir('/')"))
    assert {"usr", "etc", "dev", "proc", "tmp", "workspace", "bin", "lib"} <= names
    assert names <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin",
                     "sys", "tmp", "usr", "var", "workspace"}


@pytest.mark.parametrize("path", ["/root", "/home", "/srv", "/mnt", "/media", "/opt", "/sys/class", "/boot",
                                  "/run", "/var/log", "/var/lib", "/work"])
def test_host_directories_are_absent_or_empty(cay, path):
    assert cay.inside(f"os.listdir('{path}') if os.path.exists('{path}') else []") == []


def test_sys_is_the_islands_own(cay):
    """A few files of ours, and where there is cgroup v2 alone the island's own cgroup; all read-only."""
    files = cay.inside("[os.path.join(d, n) for d, _, names in os.walk('/sys') for n in names]")
    assert "/sys/devices/system/cpu/online" in files
    assert not [f for f in files if f != "/sys/devices/system/cpu/online"
                and not f.startswith("/sys/fs/cgroup/")]
    assert cay.inside("os.statvfs('/sys').f_flag & os.ST_RDONLY") == 1
    assert cay.inside("[m.split()[5].split(',')[0] for m in open('/proc/self/mountinfo') "
                      "if m.split()[4].startswith('/sys')]") in (["ro"], ["ro", "ro"])


def test_passwd_is_synthetic(cay):
    users = cay.inside("[p.pw_name for p in pwd.getpwall()]", modules="pwd")
    assert users == ["root", "cay", "nobody"]


def test_etc_has_no_secrets(cay):
    names = set(cay.inside("os.listdir('/etc')"))
    assert not names & {"shadow", "gshadow", "sudoers", "sudoers.d", "ssh", "machine-id", "cay",
                        "hostid", "krb5.conf", "fstab", "crontab", "environment"}
    assert cay.inside("open('/etc/hostname').read()") == "cay\n"


def test_ssl_private_keys_are_not_there(cay):
    assert "private" not in cay.inside("os.listdir('/etc/ssl')")


def test_dev_is_its_own(cay):
    assert set(cay.inside("os.listdir('/dev')")) == {
        "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
        "stdout", "stderr"}
    assert cay.python("open('/dev/null', 'w').write('x'); print(len(open('/dev/urandom', 'rb').read(9)),"
                      "open('/dev/zero', 'rb').read(1))") == "9 b'\\x00'\n"


def test_devices_can_not_be_made(cay):
    assert attempt(cay, "os.mknod('/tmp/d', 0o20666, os.makedev(1, 3))") == "EPERM"


def test_terminals_work(cay):
    code = "import pty, os; print(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', 'tty; exit 3'])))"
    out = cay.python(code)
    assert "/dev/pts/0" in out and out.endswith("3\n")


def test_hosts_terminals_are_not_seen(cay):
    master, slave = pty.openpty()
    try:
        assert os.path.exists(os.ttyname(slave))
        assert cay.inside("os.listdir('/dev/pts')") == ["ptmx"]
    finally:
        os.close(master)
        os.close(slave)


def test_shm_is_private(cay):
    p = cay.start("run", "-c", "import time; open('/dev/shm/mine', 'w'); open('/tmp/mine', 'w');"
                               "print('up', flush=True); time.sleep(30)")
    assert p.stdout.readline() == b"up\n"
    assert cay.inside("os.listdir('/dev/shm') + os.listdir('/tmp')") == []
    assert not os.path.exists("/dev/shm/mine") and not os.path.exists("/tmp/mine")
    p.terminate()
    p.communicate(timeout=5)


def test_shared_memory_works(cay):
    cay.python("from multiprocessing import shared_memory as s\n"
               "m = s.SharedMemory(create=True, size=100); m.close(); m.unlink()\n"
               "import multiprocessing; multiprocessing.Semaphore()")


# Privileges

def test_status_of_the_program(cay):
    text = cay.python("print(open('/proc/self/status').read())")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Uid"].split() == ["1000"] * 4 and status["Gid"].split() == ["1000"] * 4
    assert status["Pid"] == "2" and status["PPid"] == "1"


def test_init_has_no_privileges_either(cay):
    text = cay.python("print(open('/proc/1/status').read())")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert all(int(status[n], 16) == 0 for n in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"))
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"


@pytest.mark.parametrize("what", ["exe", "root", "cwd", "fd/3"])
def test_init_can_not_be_looked_into(cay, what):
    assert attempt(cay, f"os.readlink('/proc/1/{what}')") in ("EACCES", "EPERM", "ENOENT")


def test_init_can_not_be_killed(cay):
    cay.python("import os, time\n"
               "assert os.getpid() == 2\n"
               "for s in (9, 19, 15, 11):\n  try: os.kill(1, s)\n  except PermissionError: pass\n"
               "time.sleep(0.05); print('alive')")


def test_only_standard_fds(cay):
    r, w = os.pipe()
    try:
        done = cay.run("-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))",
                       pass_fds=[r, w]).ok()
    finally:
        os.close(r)
        os.close(w)
    # The one above two is listdir's own.
    assert done.text == "[0, 1, 2, 3]\n"


def test_no_process_but_its_own(cay):
    assert cay.inside("sorted(int(n) for n in os.listdir('/proc') if n.isdigit())") == [1, 2]
    assert attempt(cay, f"os.kill({os.getpid() + 100000}, 0)") == "ESRCH"


@pytest.mark.parametrize("flag", ["0x10000000", "0x20000", "0x40000000", "0x08000000", "0x04000000",
                                  "0x20000000", "0x02000000", "0x80"],
                         ids=["user", "mount", "net", "ipc", "uts", "pid", "cgroup", "time"])
def test_unshare_is_refused(cay, flag):
    code = ("l = ctypes.CDLL(None, use_errno=True)\n"
            f"if l.unshare({flag}) < 0: raise OSError(ctypes.get_errno(), '')")
    assert attempt(cay, code) == "EPERM"


def test_mount_is_refused(cay):
    # Of a type that does not exist: whoever may mount gets ENODEV, and no harm is done.
    code = ("l = ctypes.CDLL(None, use_errno=True)\n"
            "if l.mount(b'x', b'/tmp', b'no-such-type', 0, None) < 0: raise OSError(ctypes.get_errno(), '')")
    assert attempt(cay, code) == "EPERM"


def test_set_id_programs_gain_nothing(cay):
    found = [p for p in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount") if os.path.exists(p)]
    assert found and os.stat(found[0]).st_mode & 0o4000
    assert cay.inside("os.statvfs('/usr').f_flag & os.ST_NOSUID") == os.ST_NOSUID


@pytest.mark.parametrize("path", ["/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/timer_list",
                                  "/proc/vmallocinfo", "/proc/kpagecount", "/proc/sched_debug"])
def test_proc_tells_nothing_of_the_kernel(cay, path):
    if not os.path.exists(path):
        assert attempt(cay, f"open('{path}')") == "ENOENT"
        return
    assert attempt(cay, f"assert open('{path}', 'rb').read(100) == b''") in ("worked", "EACCES", "EPERM")


@pytest.mark.parametrize("path", ["/proc/acpi", "/proc/scsi", "/proc/asound", "/proc/bus"])
def test_proc_directories_are_empty(cay, path):
    assert cay.inside(f"os.listdir('{path}') if os.path.exists('{path}') else []") == []


@pytest.mark.parametrize("path", ["/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
                                  "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/core_pattern",
                                  "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
                                  "/proc/fs/nfsd/threads", "/proc/1/oom_score_adj"])
def test_proc_sys_is_not_writable(cay, path):
    assert attempt(cay, f"open('{path}', 'w')") in ("EROFS", "EACCES", "EPERM", "ENOENT")


def test_oom_score_can_not_be_lowered(cay):
    assert attempt(cay, "f = open('/proc/self/oom_score_adj', 'w'); f.write('-1000'); f.close()") \
        in ("EACCES", "EPERM")


def test_cgroups_of_the_host_are_not_seen(cay):
    for line in cay.inside("open('/proc/self/cgroup').read()").splitlines():
        assert line.endswith(":/"), line


def test_mounts_of_the_host_are_not_seen(cay):
    points = {line.split()[4] for line in cay.inside("open('/proc/self/mountinfo').read()").splitlines()}
    assert not [p for p in points if p.startswith(("/root", "/home", "/sys/k", "/sys/d", "/work/", "/mnt"))]


def test_own_session_and_keyring(cay):
    assert cay.inside("[os.getsid(0), os.getpgid(0)]") == [2, 2]


# What the result says of it

def test_isolation_in_the_result(cay):
    isolation = cay.run("--json", "-c", "1").ok().json["isolation"]
    assert isolation["user"] == "userns" and isolation["disk"] == "tmpfs"
    assert isolation["seccomp"] == "allowlist" and isolation["network"] == "none"
    assert isolation["capabilities"] == "none"
    assert isolation["no_new_privs"] is True and isolation["read_only_root"] is True
    assert set(isolation["namespaces"]) == {"user", "pid", "mount", "net", "ipc", "uts", "cgroup", "time"}
    for limit in ("memory", "pids", "cpu"):
        assert isolation[limit] in ("cgroup1", "cgroup2")
    assert isolation["degraded"] == []
    assert isinstance(isolation["landlock"], int)


def test_namespaces_are_really_others(cay):
    names = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time"]
    inside = cay.inside(f"[os.readlink('/proc/self/ns/' + n) for n in {names}]")
    assert not set(inside) & {os.readlink(f"/proc/self/ns/{n}") for n in names}


def test_host_ids_differ_between_runs(cay):
    """As root each island has a range of ids of its own, and none is anybody's."""
    if os.geteuid() != 0:
        must_work("without root there is one id only")
    maps = []
    started = [cay.start("run", "-c", "import time; print(open('/proc/self/uid_map').read(), flush=True);"
                                      "time.sleep(30)") for _ in range(2)]
    for p in started:
        maps.append(p.stdout.readline().split())
    for p in started:
        p.terminate()
        p.communicate(timeout=5)
    assert maps[0][1] != maps[1][1]
    assert all(int(m[1]) >= 100000 and int(m[2]) > 1000 for m in maps)
