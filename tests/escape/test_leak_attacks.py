"""What an island can learn of the host and of its neighbours."""

import ctypes
import fcntl
import os
import pathlib
import socket
import subprocess
import time

import pytest

from attack import assert_refused, attack, told, tries
from support import must_work


SPY = """
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK)
if fd < 0 or libc.inotify_add_watch(fd, b'/usr/bin', 0x21) < 0:
    print('refused', flush=True); sys.exit()
print('watching', flush=True)
names, end = set(), time.monotonic() + 1
while time.monotonic() < end:
    try: data = os.read(fd, 65536)
    except BlockingIOError: time.sleep(0.01); continue
    while data:
        n = struct.unpack_from('I', data, 12)[0]
        names.add(data[16:16 + n].rstrip(bytes(1)).decode())
        data = data[16 + n:]
print(' '.join(names))
"""


@attack(18)
@pytest.mark.xfail(strict=True, reason="a known limit, said in SECURITY.md: inotify sees who opens the host's own files in /usr")
def test_programs_of_the_host_are_not_watched(island):
    """inotify on /usr/bin must not tell which programs the host and other islands start."""
    p = island.start("run", "-c", SPY)
    p.stdout.readline()
    time.sleep(0.2)
    with open("/usr/bin/tac", "rb") as f:
        f.read(1)
    out, _ = p.communicate(timeout=10)
    assert b"tac" not in out.split()


@attack(18)
@pytest.mark.xfail(strict=True, reason="a known limit, said in SECURITY.md: flock works on the host's own files in /usr")
def test_file_locks_are_not_shared(island, cay):
    """A lock on a file of /usr: neither the host nor another island meets it."""
    p = island.start("run", "-c", "import fcntl, time\nf = open('/usr/bin/env')\n"
                                  "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('held', flush=True)\n"
                                  "time.sleep(20)")
    p.stdout.readline()
    try:
        with open("/usr/bin/env") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        p.terminate()
        p.communicate(timeout=5)


@attack(18)
def test_neighbours_share_nothing(island, cay):
    """System V memory, abstract sockets, loopback, /dev/shm, /tmp, locks of a neighbour: not there."""
    p = island.start("run", "-c", """
import ctypes, fcntl, socket, struct, time
libc = ctypes.CDLL(None)
libc.shmget(0x636179, 4096, 0o1666); libc.msgget(0x636179, 0o1666); libc.semget(0x636179, 1, 0o1666)
a = socket.socket(socket.AF_UNIX); a.bind('\\0cay-neighbour'); a.listen()
t = socket.create_server(('127.0.0.1', 4321))
f = open('/tmp/locked', 'w'); fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
open('/dev/shm/neighbour', 'w')
print(libc.shmget(0x636179, 4096, 0) >= 0, flush=True)
time.sleep(20)""")
    try:
        assert p.stdout.readline() == b"True\n"  # the control: there it is
        assert "OFDLCK" in pathlib.Path("/proc/locks").read_text()  # and on the host the lock is seen
        assert cay.inside("""[
            ctypes.CDLL(None).shmget(0x636179, 4096, 0), ctypes.CDLL(None).msgget(0x636179, 0),
            ctypes.CDLL(None).semget(0x636179, 1, 0), os.listdir('/dev/shm'),
            socket.socket(socket.AF_UNIX).connect_ex('\\0cay-neighbour'),
            socket.socket().connect_ex(('127.0.0.1', 4321)),
            open('/proc/locks').read(), os.listdir('/tmp')]""",
                          modules="ctypes, os, socket") \
            == [-1, -1, -1, [], 111, 111, "", []]
        told("none of them")
    finally:
        p.terminate()
        p.communicate(timeout=5)


@attack(18)
def test_ipc_of_the_host(island):
    """System V memory, a POSIX queue, an abstract socket, a key, a lock and processes of the host's."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x63617900 | os.getpid() & 0xff
    shm = libc.shmget(key, 4096, 0o1666)
    queue = libc.mq_open(f"/cay-{key:x}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    with socket.socket(socket.AF_UNIX) as server, open("/dev/shm/cay-host", "w") as f:
        server.bind(f"\0cay-{key:x}")
        server.listen()
        fcntl.flock(f, fcntl.LOCK_EX)
        assert shm >= 0 and queue >= 0
        try:
            results = tries(island, f"""
def found(value):
    if value < 0: raise OSError(ctypes.get_errno(), '')
attempt('shm', lambda: call(29, {key}, 4096, 0))
attempt('queue', lambda: found(libc.mq_open(b'/cay-{key:x}', 2)))
attempt('socket', lambda: socket.socket(socket.AF_UNIX).connect('\\0cay-{key:x}'))
attempt('shm file', lambda: os.stat('/dev/shm/cay-host'))
attempt('process', lambda: os.kill({os.getpid()}, 0))
attempt('pidfd', lambda: os.pidfd_open({os.getpid()}))
attempt('session keyring', lambda: call(250, 0, -3, 0))
attempt('user keyring', lambda: call(250, 0, -4, 0))
attempt('join', lambda: call(250, 1, b'_ses'))
attempt('key', lambda: call(249, b'user', b'x', 0, -3))
if open('/proc/locks').read() == '' == open('/proc/keys').read(): results['locks, keys'] = 'ENOENT'
""")
        finally:
            libc.shmctl(shm, 0, None)
            libc.mq_unlink(f"/cay-{key:x}".encode())
            os.unlink("/dev/shm/cay-host")
    assert_refused(results, "ENOENT", "ECONNREFUSED", "ESRCH", "EPERM")


@attack(19)
def test_core_dump(island, workspace):
    """A crash with much memory in a writable host directory: no core file, no handler, prompt."""
    before = set(os.listdir(workspace.path))
    huge = 2 << 30
    done = island.run("--json", "--timeout", "20", *workspace.options, "-c", f"""
import ctypes, mmap, os, resource
for limits in ((resource.RLIM_INFINITY,) * 2, (1 << 40, 1 << 40)):
    try: resource.setrlimit(resource.RLIMIT_CORE, limits)
    except (OSError, ValueError): pass
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable
noreserve = 0x4000  # also where there is less memory than that
m = mmap.mmap(-1, {huge}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | noreserve)
for n in range(0, 64 << 20, 4096): m[n] = 1
os.abort()""", config=workspace.config)
    assert done.json["status"] == "signal" and done.json["signal"] in (6, "SIGABRT"), done.json
    assert done.seconds < 10 and set(os.listdir(workspace.path)) == before
    told("no file")


def test_control_core_dump(place):
    """The control: on the host the same crash leaves a core, where the kernel is told to write files."""
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core":
        must_work("cores go elsewhere on this machine")
    subprocess.run(["sh", "-c", "ulimit -c unlimited; exec python3 -c 'import os; os.abort()'"], cwd=place,
                   stderr=subprocess.DEVNULL)
    assert [f.name for f in place.iterdir()][0].startswith("core")


@attack(18)
def test_times_of_devices(island):
    """The host's device nodes as a place to leave a mark in: their times, also of /dev/null at fd 0."""
    names = ("null", "zero", "full", "random", "urandom", "tty")
    before = [os.stat(f"/dev/{name}").st_mtime for name in names]
    results = tries(island, f"""
for name in {names}:
    attempt(f'times of {{name}}', lambda: os.utime('/dev/' + name))
    attempt(f'mode of {{name}}', lambda: os.chmod('/dev/' + name, 0o666))
attempt('times of fd 0', lambda: os.utime(0))
attempt('control: write', lambda: open('/dev/null', 'w').write('x'))
attempt('control: times', lambda: os.utime('/tmp'))
""")
    assert (results.pop("control: write"), results.pop("control: times")) == ("worked", "worked")
    assert_refused(results, "EROFS", "EPERM", "EACCES")
    assert [os.stat(f"/dev/{name}").st_mtime for name in names] == before


@attack(13)
def test_proc_gives_no_way_to_write(island):
    """Of all of /proc outside one's own processes nothing can be opened for writing but empty masks."""
    writable = island.inside("""[
        os.path.join(d, f) for d, names, files in os.walk('/proc') for f in files
        if not d.split('/')[2:3] or not d.split('/')[2].isdigit()
        if not d.startswith(('/proc/self', '/proc/thread-self', '/proc/pressure'))
        if not os.path.realpath(os.path.join(d, f)).startswith('/proc/%d/' % os.getpid())
        if os.access(os.path.join(d, f), os.W_OK) and os.stat(os.path.join(d, f)).st_rdev != os.makedev(1, 3)]""")
    assert writable == []
