"""kill -9 of cay, of an island's init, of a resident launcher, at any moment of a run."""

import os
import pathlib
import pty
import random
import re
import signal
import subprocess
import tempfile
import time

import pytest

from faults import cgroups_of
from support import CAY, OURS, SOAK, busy

ROUNDS = 20 * (50 if SOAK else 1)

# Nothing of a user's may live longer.
SECONDS = 0.1

KILL = 1 << signal.SIGKILL - 1

# Processes that would outlive a careless end.
LIVELY = "setsid sleep 60 & (trap '' TERM HUP; sleep 60) & sleep 60; : MARK"

# A user of this test's own: whatever runs as him is of the run at hand.
UID = 54400 + os.getpid() % 1000

# What is run, and within which time its end comes (ms).
KINDS = {
    "command": (["--", "sh", "-c", LIVELY], 30),
    "files": (["--put", "input", "--get", "*", "--", "sh", "-c", LIVELY], 30),
    "compiler": (["-l", "c", "input.c", "MARK"], 150),
    "script": (["script.sh", "MARK"], 40),
    "watch": (["--watch", "script.sh", "MARK"], 60),
}


class Place:
    """Where a run is started, and by whom."""

    def __init__(self, path, env, uid):
        self.path, self.uid = path, uid
        self.env = dict(env, TMPDIR=str(path / "tmp"), HOME=str(path))
        self.user = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
        (path / "tmp").mkdir()
        (path / "input").write_text("input\n")
        (path / "input.c").write_text("#include <unistd.h>\n#include <stdio.h>\nint main(void) { return pause(); }\n")
        (path / "script.sh").write_text("#!/bin/sh\n" + LIVELY + "\n")
        for p in (path, *path.iterdir()):
            os.chown(p, uid, uid)

    def argv(self, options, mark):
        degraded = ["--allow-degraded"] if self.uid else []
        return [CAY, "run", *degraded, *(word.replace("MARK", mark) for word in options)]

    def start(self, argv):
        return subprocess.Popen(argv, cwd=self.path, env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **self.user)


@pytest.fixture(params=["root", "user"])
def run_place(request, cay, root, scratch):
    with tempfile.TemporaryDirectory(dir=scratch) as path:
        os.chmod(path, 0o755)
        yield Place(pathlib.Path(path), cay.env, 0 if request.param == "root" else UID)


def _read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def _is_dead(status):
    """Gone, or on the way: without memory, or with a SIGKILL to come, it runs no instruction more."""
    state = re.search(r"^State:\s+(\S)", status, re.M)
    pending = [int(v, 16) for v in re.findall(r"^S[hi][dg]Pnd:\s+(\w+)", status, re.M)]
    return not state or state[1] in "ZX" or "VmSize:" not in status or any(v & KILL for v in pending)


def _is_users(name):
    """Not cay's own code, which ends when it comes to notice that the launcher is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{name}/exe")) not in ("cay", "resident")
    except OSError:
        return False


def survivors(mark, pid, dead=_is_dead, wanted=_is_users):
    """Who is alive with the mark in his arguments, as the user, or in the run's cgroup."""
    grouped = {line for path in cgroups_of(pid) for line in _read(f"{path}/cgroup.procs").decode().split()}
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        status = _read(f"/proc/{name}/status").decode()
        if dead(status) or not wanted(name) or int(name) == os.getpid():
            continue
        uid = re.search(r"^Uid:\s+(\d+)", status, re.M)[1]
        if name in grouped or int(uid) == UID or mark.encode() in _read(f"/proc/{name}/cmdline"):
            found.append(f"{name} {_read(f'/proc/{name}/cmdline')} {status}")
    return found


def assert_all_dead(mark, pid):
    began = time.monotonic()
    end, took, last = began + 5, 0, []
    while (left := survivors(mark, pid)):
        took, last = time.monotonic() - began, left
        assert took < 5, left
    assert took < SECONDS * busy(), (took, busy(), last)
    while (left := survivors(mark, pid, lambda status: not status or "State:\tZ" in status, lambda name: True)):
        assert time.monotonic() < end, left


def assert_clean(pids, place):
    """After `cay doctor --clean`, which also other users' runs may go on beside."""
    subprocess.run([CAY, "doctor", "--clean"], check=True, capture_output=True, env=place.env)
    left = [path for pid in pids for path in cgroups_of(pid)]
    assert not left and not list((place.path / "tmp").iterdir())


def moment(chance, most_ms):
    """Early ones are likelier: set-up is where things are half done."""
    time.sleep(chance.random() ** 2 * most_ms / 1000)


def children(pid):
    return [int(n) for n in _read(f"/proc/{pid}/task/{pid}/children").split()]


@pytest.mark.parametrize("kind", KINDS)
def test_cay_is_killed(run_place, kind):
    options, most_ms = KINDS[kind]
    chance, pids = random.Random(kind), []
    for n in range(ROUNDS):
        mark = f"cay-mark-{os.getpid()}-{n}"
        with run_place.start(run_place.argv(options, mark)) as p:
            moment(chance, most_ms)
            pids += [p.pid, *children(p.pid)]
            p.kill()
            p.communicate()
        assert_all_dead(mark, p.pid)
    assert_clean(pids, run_place)


def test_cay_is_killed_on_a_terminal(run_place):
    chance, pids = random.Random(1), []
    for n in range(ROUNDS):
        mark = f"cay-mark-{os.getpid()}-{n}"
        argv = run_place.argv(KINDS["command"][0], mark)
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(run_place.path)
            if run_place.uid:
                os.setgroups([])
                os.setgid(UID)
                os.setuid(UID)
            os.execve(argv[0], argv, run_place.env)
        moment(chance, 30)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
        pids.append(pid)
        assert_all_dead(mark, pid)
    assert_clean(pids, run_place)


def _is_init(pid):
    """Whether it is PID 1 of a namespace: the process that makes a network is not."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return any(line.startswith("NSpid:") and line.endswith("\t1") for line in status.splitlines())


def _kill_init(p, chance):
    """One of the inits of cay's islands; whether there was one."""
    inits = [pid for pid in children(p.pid) if _is_init(pid)]
    if not inits:
        return False
    try:
        os.kill(chance.choice(inits), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("kind", ["command", "files", "compiler"])
def test_init_is_killed(run_place, kind):
    """cay says so, and has cleaned up itself when it ends."""
    options, most_ms = KINDS[kind]
    chance, killed = random.Random(kind), 0
    for n in range(ROUNDS):
        mark = f"cay-mark-{os.getpid()}-{n}"
        with run_place.start(run_place.argv(options, mark)) as p:
            moment(chance, most_ms)
            end = time.monotonic() + 2
            while not _kill_init(p, chance) and time.monotonic() < end:
                pass
            _, err = p.communicate(timeout=5)
        said = [line for line in err.splitlines() if line.startswith(b"cay: ") and b"degraded" not in line]
        assert p.returncode == OURS and said, (p.returncode, err)
        killed += 1
        assert_all_dead(mark, p.pid)
        assert not cgroups_of(p.pid)
    assert killed == ROUNDS and not list((run_place.path / "tmp").iterdir())


@pytest.mark.parametrize("run_place", ["root"], indirect=True)
@pytest.mark.parametrize("mode", ["networks", "ahead"])
def test_a_resident_launcher_is_killed(run_place, resident, mode):
    chance, pids = random.Random(mode), []
    for n in range(ROUNDS):
        mark = f"cay-mark-{os.getpid()}-{n}"
        with run_place.start([resident, mode, "9", "/bin/sh", "-c", LIVELY.replace("MARK", mark)]) as p:
            moment(chance, 40)
            p.kill()
            p.communicate()
        pids.append(p.pid)
        assert_all_dead(mark, p.pid)
    assert_clean(pids, run_place)


@pytest.mark.parametrize("run_place", ["root"], indirect=True)
def test_a_resident_launchers_islands_are_killed(run_place, resident):
    """Those that wait for a program, too: the next round works, and nothing is left in the end."""
    chance, killed = random.Random(3), 0
    for n in range(ROUNDS):
        mark = f"cay-mark-{os.getpid()}-{n}"
        with run_place.start([resident, "ahead", "3", "/bin/sh", "-c", f"sleep 0.02; : {mark}"]) as p:
            moment(chance, 60)
            killed += _kill_init(p, chance)
            _, err = p.communicate(timeout=10)
        assert p.returncode in (0, OURS) and err.count(b"cay: ") <= 1, (p.returncode, err)
        assert_all_dead(mark, p.pid)
        assert not cgroups_of(p.pid)
    assert killed > ROUNDS / 4
