"""Attack 37: an interpreter that was cloned, against the next clone, against others, and against where it came from."""

import concurrent.futures
import json
import os
import pathlib

import pytest

from attack import assert_refused, attack, told, tries
from support import ISLAND_IDS, must_work, wait_until
from zygotes import status, warm_up, zygotes

# Each leaves a mark of its own: NAME: what leaves it, and an expression that is true where it is seen.
MARKS = {
    "builtins": ("builtins.evil = 1", "hasattr(builtins, 'evil')"),
    "a builtin": ("builtins.open = builtins.print", "builtins.open is builtins.print"),
    "a module": ("json.dump = 1", "json.dump == 1"),
    "a class": ("collections.UserDict.evil = 1", "hasattr(collections.UserDict, 'evil')"),
    "sys.modules": ("sys.modules['evil'] = json", "'evil' in sys.modules"),
    "sys.path": ("sys.path.append('/evil')", "'/evil' in sys.path"),
    "sys.meta_path": ("sys.meta_path.append(None)", "None in sys.meta_path"),
    "sys.argv": ("sys.argv.append('evil')", "'evil' in sys.argv"),
    "a hook": ("sys.excepthook = print", "sys.excepthook is print"),
    "the environment": ("os.environ['EVIL'] = '1'", "'EVIL' in os.environ"),
    "the C library's environment": ("libc.setenv(b'EVIL2', b'1', 1)", "libc.getenv(b'EVIL2')"),
    "a global of main": ("evil_global = 1", "'evil_global' in globals()"),
    "a seed": ("random.seed(1)", "random.getstate() == random.Random(1).getstate()"),
    "a thread": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "threading.active_count() > 1"),
    "a signal's handler": ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
                           "signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN"),
    "a timer": ("signal.setitimer(signal.ITIMER_REAL, 50)", "signal.getitimer(signal.ITIMER_REAL)[0] > 0"),
    "a file mode mask": ("os.umask(0o77)", "os.umask(0o77) == 0o77"),
    "a limit": ("resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))",
                "resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 99"),
    "a nice value": ("os.nice(1)", "os.nice(0) != os.getpriority(os.PRIO_PROCESS, 1)"),
    "a recursion limit": ("sys.setrecursionlimit(777)", "sys.getrecursionlimit() == 777"),
    "a socket's time": ("socket.setdefaulttimeout(7)", "socket.getdefaulttimeout() == 7"),
    "a warning's filter": ("warnings.filterwarnings('ignore', 'evil')", "'evil' in str(warnings.filters)"),
    "a logger": ("logging.getLogger('evil')", "'evil' in logging.root.manager.loggerDict"),
    "a regular expression": ("re._cache['evil'] = 1", "'evil' in re._cache"),
    "/tmp": ("write('/tmp/evil')", "os.path.exists('/tmp/evil')"),
    "/dev/shm": ("write('/dev/shm/evil')", "os.path.exists('/dev/shm/evil')"),
    "the workspace": ("write('/workspace/evil')", "os.path.exists('/workspace/evil')"),
    "the home": ("write(os.path.expanduser('~/evil'))", "os.path.exists(os.path.expanduser('~/evil'))"),
    "an abstract socket": ("bind('\\0evil')", "not free('\\0evil')"),
    "a port": ("bind(('127.0.0.1', 4242))", "not free(('127.0.0.1', 4242))"),
    "a process": ("child()", "len([p for p in os.listdir('/proc') if p.isdigit()]) > 2"),
    "shared memory": ("assert libc.shmget(4242, 4096, 0o1666) >= 0", "libc.shmget(4242, 0, 0) >= 0"),
    "a semaphore": ("assert libc.semget(4242, 1, 0o1666) >= 0", "libc.semget(4242, 0, 0) >= 0"),
    "a queue": ("assert libc.msgget(4242, 0o1666) >= 0", "libc.msgget(4242, 0) >= 0"),
    "a lock": ("hold('/tmp')", "locked('/tmp')"),
    "a host's name": ("keep.append(socket.gethostname())", "socket.gethostname() == 'evil'"),
}

LOOKS = """
import atexit, builtins, collections, ctypes, fcntl, json, logging, os, random, re, resource, signal, socket, sys
import threading, time, warnings
libc, keep, real_open = ctypes.CDLL(None), [], os.open
def write(path): os.close(real_open(path, os.O_CREAT | os.O_WRONLY))
def bind(address):
    s = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    s.bind(address)
    keep.append(s)
def free(address):
    try: bind(address)
    except OSError: return False
    return True
def child():
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
def hold(path):
    fd = real_open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    keep.append(fd)
def locked(path):
    fd = real_open(path, os.O_RDONLY)
    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: return True
    finally: os.close(fd)
    return False
def look():
    return [name for name, (_, seen) in MARKS.items() if eval(seen, globals())]
"""
# What nobody can set, and no run can have set: it is looked for all the same.
NOT_SET = {"a host's name"}


def marks_seen(cay, leave):
    code = f"MARKS = {MARKS!r}\n{LOOKS}\n"
    if leave:
        # atexit: as late as can be, when nobody looks any more.
        code += ("for how, _ in MARKS.values(): exec(how, globals())\n"
                 "atexit.register(lambda: (write('/tmp/late'), setattr(collections.UserList, 'evil', 1)))\n")
    return json.loads(cay.run("-c", code + "print(json.dumps(look()))").ok().text)


@attack(37)
def test_nothing_is_left_for_the_next_run(warm):
    """Changes all that an interpreter and an island have, for the next one."""
    assert marks_seen(warm, leave=False) == []
    assert set(marks_seen(warm, leave=True)) == set(MARKS) - NOT_SET
    for _ in range(3):
        assert marks_seen(warm, leave=False) == []
    told(f"{len(MARKS)} ways: none is seen")


@attack(37)
def test_the_zygote_can_not_be_reached(warm):
    """Looks for the process that it was cloned from, signals, traces and reads it, and its own init."""
    results = tries(warm, """
others = [1, *range(3, 400), -1]
for pid in others:
    attempt(f'pidfd {pid}', lambda: os.close(os.pidfd_open(pid)) or (pid == 1 and call(424, os.pidfd_open(1), 9, 0, 0)))
    if pid > 2:
        attempt(f'kill {pid}', lambda: os.kill(pid, 0))
        attempt(f'group {pid}', lambda: os.killpg(pid, 0))
    attempt(f'session {pid}', lambda: pid != 1 and os.getsid(pid) or call(101, 16, pid, 0, 0))
    attempt(f'read {pid}', lambda: call(310, pid, (ctypes.c_long * 2)(0, 8), 1, (ctypes.c_long * 2)(0x1000, 8), 1, 0))
    attempt(f'attach {pid}', lambda: call(101, 16, pid, 0, 0))
    attempt(f'seize {pid}', lambda: call(101, 0x4206, pid, 0, 0))
    for name in 'mem', 'environ', 'maps', 'fd/0', 'cwd', 'root', 'exe', 'ns/user', 'map_files':
        attempt(f'{name} {pid}', lambda: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY)))
del results['pidfd 1']  # its own init has a pidfd, which is good for nothing: PID 1 heeds no signal from inside
""")
    assert_refused(results, "ESRCH", "ENOENT", "EPERM", "EACCES", "EINVAL")


@attack(37)
def test_nothing_of_the_zygote_is_in_sight(warm):
    """Lists processes, fds, sockets, mounts and mappings."""
    seen = json.loads(warm.run("-c", """
import json, os
read = lambda path: open(path).read()
print(json.dumps(dict(
    processes=sorted(int(p) for p in os.listdir('/proc') if p.isdigit()),
    fds=[fd for fd in range(4096) if os.path.lexists(f'/proc/self/fd/{fd}')],
    init_fds=os.access('/proc/1/fd', os.R_OK),
    unix=read('/proc/net/unix').splitlines()[1:],
    mounts=read('/proc/self/mountinfo'),
    maps=read('/proc/self/maps'),
    init=read('/proc/1/cmdline'), own=read('/proc/self/cmdline').split('\\0')[0],
    parent=os.getppid(), tracer=[l for l in read('/proc/self/status').splitlines() if 'TracerPid' in l],
    modules=[name for name in __import__('sys').modules if 'cay' in name],
    named=[m for m in __import__('gc').get_objects() if type(m).__name__ == 'module' and 'cay' in m.__name__] != [],
)))
""").ok().text)
    assert seen["processes"] == [1, 2] and seen["parent"] == 1
    assert seen["fds"] == [0, 1, 2] and not seen["init_fds"]
    assert seen["unix"] == [] and seen["modules"] == [] and not seen["named"]
    assert seen["tracer"] == ["TracerPid:\t0"] and "python" in seen["own"] and seen["init"].rstrip("\0") == "cay: init"
    # The host's own paths: the daemon's, the object's that the zygote has loaded, the tests'.
    for name in "cay", str(warm.daemon.place), str(warm.directory), str(pathlib.Path(__file__).resolve().parents[2]):
        assert name not in seen["maps"] and name not in seen["mounts"], name


@attack(37)
def test_no_memory_is_shared(warm):
    """What one clone writes could be read by the next, were there a mapping that is not its own."""
    assert warm.inside("[line for line in open('/proc/self/maps') if line.split()[1][1] == 'w' and line.split()[1][3] == 's']") == []


FINDS = """
import os, re
found, pattern = [], re.compile(b'se' + b'cret-of-the-run-before')
memory = os.open('/proc/self/mem', os.O_RDONLY)
for line in open('/proc/self/maps'):
    span, mode = line.split()[:2]
    if mode[:2] == 'rw':
        start, end = (int(x, 16) for x in span.split('-'))
        found += pattern.findall(os.pread(memory, end - start, start))
print(len(found))
"""


@attack(37)
def test_nothing_of_the_program_before_is_in_memory(warm):
    """Code, arguments and environment of others, in the memory that clones are copies of: of runs, also of many at once."""
    secret = "se" + "cret-of-the-run-before"
    control = warm.run("-e", f"X={secret}", "-c", FINDS).ok().text
    without = warm.run("-c", FINDS).ok().text  # what it has of the pattern itself
    assert int(control) > int(without)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            list(pool.map(lambda _: warm.run("-e", f"SECRET={secret}" + "x" * 20000, "-c", "import time; time.sleep(0.05)",
                                             secret * 50).ok(), range(16)))
            for _ in range(4):
                assert warm.run("-c", FINDS).ok().text == without
    told("found nothing")


def of_islands(daemon):
    """{its PID namespace: PID 2 of it, by the host's number} of all islands that were borne and run."""
    found = {}
    for zygote in zygotes(daemon):
        for pid in zygote.borne():
            if (status(pid, "NSpid") or "").split()[-1:] == ["2"]:
                found[os.readlink(f"/proc/{pid}/ns/pid")] = pid
    return found


def sleepers(daemon, count):
    ids = [daemon.post("/v1/runs", {"code": "import time\ntime.sleep(60)", "background": True}).ok(202)["id"]
           for _ in range(count)]
    wait_until(lambda: len(of_islands(daemon)) == count, 10, "their start")
    return ids


@attack(37)
def test_clones_share_no_ids_and_no_namespaces(warm):
    """Runs beside others of the same zygote: as whom, and in which namespaces."""
    daemon = warm.daemon
    runs = sleepers(daemon, 4)
    try:
        [zygote] = [z for z in zygotes(daemon) if z.borne()]
        islands = list(of_islands(daemon).values())
        users = [{int(n) for n in status(pid, "Uid").split() + status(pid, "Gid").split()} for pid in islands]
        # One id each, of which none is another's, the zygote's, or one of the machine's.
        assert all(len(u) == 1 for u in users) and len(set.union(*users)) == len(islands)
        own = {int(n) for n in status(zygote.pid, "Uid").split() + status(zygote.init, "Uid").split()}
        ranges = [range(min(u) - 1000, min(u) - 1000 + 65536) for u in users]
        assert min(set.union(*users)) >= ISLAND_IDS and not any(n in r for n in own for r in ranges)
        assert not any(a != b and set(a) & set(b) for a in ranges for b in ranges)
        for kind in "user", "pid", "mnt", "ipc", "uts", "net", "cgroup", "time":
            links = [os.readlink(f"/proc/{pid}/ns/{kind}") for pid in islands]
            others = {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in (zygote.pid, "self")}
            assert len(set(links)) == len(links) and not others.intersection(links), (kind, links, others)
        told("all of their own")
    finally:
        for run in runs:
            daemon.delete(f"/v1/runs/{run}")


@attack(37)
def test_clones_are_confined_as_others(warm):
    """Looks for capabilities, a privilege to gain, and a filter that is missing."""
    daemon = warm.daemon
    [run] = sleepers(daemon, 1)
    try:
        [zygote] = [z for z in zygotes(daemon) if z.borne()]
        fields = {"CapInh": "0" * 16, "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "CapAmb": "0" * 16,
                  "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1"}
        for pid in zygote.borne():
            assert {name: status(pid, name) for name in fields} == fields, (pid, status(pid, "NSpid"))
    finally:
        daemon.delete(f"/v1/runs/{run}")


@attack(37)
def test_ids_of_the_zygote_and_of_others(warm):
    """Becomes the zygote's root or a neighbour, by name, by number and by files."""
    results = tries(warm, """
for n in 0, 1, 65535, 65536, 66536, 131072, 1 << 24, 0x70000000, 0x70010000:
    attempt(f'setuid {n}', lambda: os.setuid(n))
    attempt(f'setresuid {n}', lambda: os.setresuid(-1, -1, n))
    attempt(f'setgid {n}', lambda: os.setgid(n))
    attempt(f'setgroups {n}', lambda: os.setgroups([n]))
    os.close(os.open('/tmp/f', os.O_CREAT | os.O_WRONLY))
    attempt(f'chown {n}', lambda: os.chown('/tmp/f', n, -1))
    attempt(f'chgrp {n}', lambda: os.chown('/tmp/f', -1, n))
for name in 'uid_map', 'gid_map', 'setgroups':
    attempt(name, lambda: os.write(os.open(f'/proc/self/{name}', os.O_WRONLY), b'0 0 1'))
attempt('unshare', lambda: call(272, 0x10000000))
attempt('setns', lambda: call(308, os.open('/proc/self/ns/user', os.O_RDONLY), 0x10000000))
attempt('setns of init', lambda: call(308, os.open('/proc/1/ns/user', os.O_RDONLY), 0x10000000))
attempt('parent', lambda: fcntl.ioctl(os.open('/proc/self/ns/user', os.O_RDONLY), 0xb701))  # NS_GET_USERNS
attempt('parent of the processes', lambda: fcntl.ioctl(os.open('/proc/self/ns/pid', os.O_RDONLY), 0xb702))
""")
    assert_refused(results, "EPERM", "EINVAL", "EACCES", "ENOSYS", "ENOTTY")


ENDS = {
    "kills all": "import os\nos.kill(-1, 9)",
    "kills init": "import os\nos.kill(1, 9)\nos.kill(os.getppid(), 15)",
    "kills itself": "import os\nos.kill(os.getpid(), 9)",
    "kills its group": "import os\nos.killpg(0, 9)",
    "ends in a thread": "import os, threading, time\nthreading.Thread(target=os._exit, args=(3,)).start()\ntime.sleep(60)",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "closes all": "import os\nos.closerange(0, 65536)",
    "crashes": "import ctypes\nctypes.string_at(8)",
    "aborts": "import os\nos.abort()",
    "becomes another": "import os\nos.execv('/bin/true', ['python3'])",
    "fails at the end": "import atexit, os\natexit.register(os.abort)",
    "never ends at the end": "import atexit, time\natexit.register(time.sleep, 60)",
    "takes the exit functions": "import atexit\natexit._clear()\natexit._run_exitfuncs()",
    "takes the modules": "import sys\nsys.modules.clear()",
    "takes the interpreter's own": "import builtins\nbuiltins.__dict__.clear()",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "processes": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "threads": "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(60,)).start()\n"
               "    except RuntimeError: pass",
    "memory": "keep = []\nwhile True: keep.append(bytearray(1 << 24))",
    "memory of what was there": "import gc, sys\nfor o in gc.get_objects() + list(sys.modules.values()): id(o)\ngc.unfreeze()\n"
                                "gc.collect()\nkeep = []\nwhile True: keep.append(bytearray(1 << 20))",
    "disk": "f = open('/tmp/f', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "orphans": "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)",
}


@attack(37)
@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_strange_ends(warm, code):
    """Ends in ways that nobody expects: kills, crashes, stops, exhausts."""
    before = zygotes(warm.daemon)
    warm.run("--timeout", "2s", "--memory", "64m", "--pids", "32", "--disk", "8m", "-c", code)
    for _ in range(2):
        done = warm.run("--json", "-c", "print(sum(range(10)))").ok().json
        assert (done["stdout"], done["start"]) == ("45\n", "warm:default")
    assert zygotes(warm.daemon) == before


CHANCES = {
    "default": """
import json, os, random, secrets, ssl, tempfile, uuid
print(json.dumps([random.random(), random.SystemRandom().random(), random.getrandbits(64), secrets.token_hex(8),
                  str(uuid.uuid4()), str(uuid.uuid1()), ssl.RAND_bytes(16).hex(), tempfile.mktemp(), tempfile.mkdtemp(),
                  os.urandom(16).hex(), random.sample(range(1 << 60), 1), random.Random().random()]))
""",
    "science": """
import json
import numpy, pandas
print(json.dumps([numpy.random.random(), numpy.random.default_rng().random(), int(numpy.random.randint(1 << 62)),
                  numpy.random.bytes(8).hex(), numpy.random.RandomState().rand(),
                  pandas.Series(range(1 << 16)).sample(4).tolist()]))
""",
}


@attack(37)
@pytest.mark.parametrize("modules", CHANCES)
def test_chance_is_not_shared(warm_daemon, modules):
    """Guesses the random numbers of the next run by those of its own."""
    daemon, code = warm_daemon, CHANCES[modules]
    if daemon.run(code, cold=True)["exit_code"] != 0:
        must_work(f"{modules}: its modules are not installed")
    warm_up(daemon, code)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(daemon.run, [code] * 12))
    assert all(r["start"].startswith("warm:") for r in done)
    drawn = [json.loads(r["stdout"]) for r in done]
    for n, one in enumerate(zip(*drawn)):
        assert len({str(v) for v in one}) == len(drawn), (n, one)
    told("all differ")
