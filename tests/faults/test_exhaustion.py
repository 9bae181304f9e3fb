"""cay itself has no memory, processes, files or disk, or may not write: a clear error, and nothing is left."""

import os
import pathlib
import resource
import subprocess
import tempfile

import pytest

from faults import cgroups_of
from support import CAY, OURS, SOAK

KILLED = -9

# Each step further up; the last one is enough for a run.
FILES = [*range(3, 40, 1 if SOAK else 3), 64]
MEMORY_KIB = [256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 65536]


class Ended:
    def __init__(self, p, err):
        self.pid, self.rc, self.err = p.pid, p.returncode, err.decode(errors="replace")

    @property
    def said(self):
        return [line for line in self.err.splitlines()
                if line.startswith("cay: ") and not line.startswith("cay: degraded")]


def start(cay, *args, limits=(), **more):
    """cay with rlimits of its own, which the island inherits."""
    def lower():
        for kind, value in limits:
            resource.setrlimit(kind, (value, value))
    p = cay.start("run", *args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=lower, **more)
    _, err = p.communicate(timeout=20)
    return Ended(p, err)


def assert_well_or_told(ended, *more):
    """All is well, or one line says what is missing; nothing is left in either case."""
    assert ended.rc in (0, OURS, *more), (ended.rc, ended.err)
    assert ended.rc != OURS or len(ended.said) == 1, ended.err
    assert not cgroups_of(ended.pid)
    return ended.rc == 0


RUNS = {
    "command": ["--", "/bin/true"],
    "files": ["--put", "input", "--get", "input:output", "--", "/bin/true"],
    "code": ["-l", "bash", "-c", ":"],
}


@pytest.fixture(params=RUNS)
def args(request, place):
    (place / "input").write_text("input\n")
    return RUNS[request.param]


def test_no_files(cay, args):
    assert [assert_well_or_told(start(cay, *args, limits=[(resource.RLIMIT_NOFILE, n)])) for n in FILES][-1]


def test_no_address_space(cay, args):
    """The program inherits the limit, and needs more than cay: what it says is its own."""
    for kib in MEMORY_KIB:
        ended = start(cay, *args, limits=[(resource.RLIMIT_AS, kib << 10)])
        assert ended.rc in (0, OURS, 1, 126, 127, 139, 137, KILLED, -11), (kib, ended.rc, ended.err)
        assert ended.rc != OURS or len(ended.said) == 1, ended.err
        assert not cgroups_of(ended.pid)
    assert ended.rc == 0


@pytest.fixture
def cgroup(root):
    """A directory of a v1 or v2 controller that the next cay is started in."""
    made = []

    def make(controller, file1, file2, value):
        tree = pathlib.Path("/sys/fs/cgroup") / controller
        v1 = tree.is_dir()
        path = pathlib.Path(tempfile.mkdtemp(prefix="faults-", dir=tree if v1 else tree.parent))
        made.append(path)
        (path / (file1 if v1 else file2)).write_text(str(value))
        return lambda: (path / "cgroup.procs").write_text(str(os.getpid()))

    yield make
    for path in made:
        path.rmdir()


def start_in(cay, join, *args):
    p = cay.start("run", *args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=join)
    _, err = p.communicate(timeout=30)
    return Ended(p, err)


def test_no_memory(cay, cgroup, args):
    """Out of memory is the kernel's to end: what it leaves is for cay doctor --clean."""
    for kib in MEMORY_KIB[2:]:
        ended = start_in(cay, cgroup("memory", "memory.limit_in_bytes", "memory.max", kib << 10), *args)
        if ended.rc == KILLED:
            cay("doctor", "--clean").ok()
        assert assert_well_or_told(ended, KILLED) or kib < MEMORY_KIB[-1]


def test_no_processes(cay, cgroup, args):
    """Islands have cgroups of their own: only the birth of one counts here."""
    told = start_in(cay, cgroup("pids", "pids.max", "pids.max", 1), *args)
    assert told.rc == OURS and not assert_well_or_told(told)


def test_no_processes_of_a_user(stranger, place):
    # Three are cay, init and the program; whoever makes the network may still be there beside them.
    for n in (0, 1, 2, 4):
        user = 54398 + n  # another each time: the kernel counts those of the last a moment longer
        p = subprocess.Popen(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "prlimit", f"--nproc={n}",
             CAY, "run", "--allow-degraded", "--", "/bin/true"],
            env=stranger.env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        ended = Ended(p, p.communicate(timeout=20)[1])
        assert assert_well_or_told(ended) == (n > 2), (n, ended.rc, ended.err)


def in_namespace(cay, prepare, *args, **more):
    """In a mount namespace where a line of shell was run first."""
    return cay.shell(f"exec unshare -m sh -ec '{prepare}; exec \"$0\" \"$@\"' $CAY run {' '.join(args)}", **more)


READ_ONLY = "mount --bind {0} {0}; mount -o remount,bind,ro {0}"
FULL = "mount -t tmpfs -o size=4k,nr_inodes=1 none {0}"


@pytest.mark.parametrize("prepare, word", [(READ_ONLY, "Read-only"), (FULL, "No space")], ids=["read-only", "full"])
def test_no_place_for_locks(cay, root, prepare, word):
    """Without the lock two islands could have the same users."""
    pathlib.Path("/run/cay").mkdir(exist_ok=True)
    done = in_namespace(cay, prepare.format("/run/cay"), "--", "/bin/true")
    assert done.rc == OURS and len(done.said) == 1 and "/run/cay" in done.said[0] and word in done.said[0], done.errors


@pytest.mark.parametrize("prepare", [READ_ONLY, FULL], ids=["read-only", "full"])
@pytest.mark.parametrize("kind", ["home", "tmp"])
def test_no_place_for_notes(cay, root, place, prepare, kind):
    """What is kept to be fast may be missing: the run is the same."""
    env = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "XDG_CACHE_HOME": str(place / "home")}
    for name in ("home", "tmp"):
        (place / name).mkdir()
    done = in_namespace(cay, prepare.format(place / kind), "-l", "bash", "-c", "true", env=env)
    assert done.rc == 0 and not done.said, done.errors
    assert not list((place / kind).iterdir())


def test_no_place_for_what_comes_out(cay, root, place):
    """--get to a full disk: an error, and no half of a file that looks like a whole one."""
    (place / "out").mkdir()
    done = cay.shell("""unshare -m sh -c 'mount -t tmpfs -o size=64k none out
$CAY run --get big:out/ -- sh -c "head -c 1000000 /dev/zero > big"
code=$?; ls out; exit $code'""")
    assert done.rc == OURS and len(done.said) == 1 and "No space" in done.said[0], done.errors
    assert done.text == ""
