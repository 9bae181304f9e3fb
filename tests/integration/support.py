"""What the end-to-end tests share: how cay is run, and how to see that nothing is left of it."""

import contextlib
import dataclasses
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAY = os.environ.get("CAY_BIN", str(ROOT / "build" / "cay"))

# Exit codes that are cay's own.
TIMEOUT, OURS, CANNOT_EXECUTE, NOT_FOUND = 124, 125, 126, 127

MIB = 1 << 20

# An emulated processor is slow, and its host may be busy: how much of the time is not cay's.
SLOWNESS = 5 if os.environ.get("CAY_IN_VM") else 1

# Everything at length; under the sanitizers.
SOAK = os.environ.get("CAY_SOAK") == "1"
SANITIZED = os.environ.get("CAY_SANITIZED") == "1"

# Only cgroup v2, no v1 beside it.
PURE_V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()

# An ordinary user that no machine has. None is created: an id is all it takes. Tests that run beside
# others have one of their own, as the kernel counts for each user.
STRANGER = 54321

# From here on host ids are islands' (src/engine/native/ids.c).
ISLAND_IDS = 0x70000000


def must_work(reason):
    """This machine can't run the test: loud, and in CI a failure."""
    if os.environ.get("CAY_MUST_WORK") == "1":
        pytest.fail(f"must work here, but: {reason}", pytrace=False)
    pytest.skip(reason)


@dataclasses.dataclass
class Done:
    """How a run of cay ended."""

    rc: int
    out: bytes
    err: bytes
    seconds: float  # as it would be on a machine of its own

    @property
    def text(self):
        return self.out.decode()

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    @property
    def json(self):
        assert self.out, f"no JSON on stdout; stderr: {self.errors}"
        return json.loads(self.out)

    @property
    def error(self):
        """The error object of --json."""
        assert set(self.json) == {"error"}, self.json
        return self.json["error"]

    @property
    def said(self):
        """cay's own lines on stderr."""
        return [line for line in self.errors.splitlines() if line.startswith("cay: ")]

    def ok(self):
        assert self.rc == 0, f"exit {self.rc}: {self.errors}"
        return self


class Cay:
    """Runs the binary as a user would, in an environment that holds nothing of ours."""

    def __init__(self, directory, home, tmp):
        self.directory = directory
        self.env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "TMPDIR": str(tmp),
        }
        self.prefix = []
        self.uid, self.capabilities = 1000, 0  # what its programs have

    def _arguments(self, args, env, config):
        full = dict(self.env, **(env or {}))
        if config is not None:
            full["CAY_CONFIG"] = str(config)
        return [*self.prefix, CAY, *map(str, args)], full

    def start(self, *args, env=None, config=None, cwd=None, **more):
        """A running cay, for tests that talk to it. Pipes are the default."""
        argv, full = self._arguments(args, env, config)
        for name in ("stdin", "stdout", "stderr"):
            more.setdefault(name, subprocess.PIPE)
        return subprocess.Popen(argv, env=full, cwd=cwd or self.directory, **more)

    def __call__(self, *args, input=None, env=None, config=None, cwd=None, timeout=40, **more):
        argv, full = self._arguments(args, env, config)
        if input is None:
            more.setdefault("stdin", subprocess.DEVNULL)
        elif isinstance(input, str):
            input = input.encode()
        for name in ("stdout", "stderr"):
            more.setdefault(name, subprocess.PIPE)
        began = time.monotonic()
        p = subprocess.run(argv, input=input, env=full, cwd=cwd or self.directory,
                           timeout=timeout, **more)
        return Done(p.returncode, p.stdout, p.stderr, (time.monotonic() - began) / SLOWNESS)

    def run(self, *args, **more):
        return self("run", *args, **more)

    def python(self, code, *options, **more):
        """Runs code that must succeed; returns what it printed."""
        return self.run(*options, "-c", code, **more).ok().text

    def inside(self, expression, *options, modules="os", **more):
        """The value of a Python expression, evaluated on an island."""
        code = f"import json, {modules}\nprint(json.dumps({expression}))"
        return json.loads(self.python(code, *options, **more))

    def shell(self, line, **more):
        """A line of shell in which $CAY is the binary, for pipes and redirections."""
        argv, full = self._arguments([], more.pop("env", None), more.pop("config", None))
        full["CAY"] = CAY
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("timeout", 40)
        began = time.monotonic()
        p = subprocess.run([*argv[:-1], "/bin/sh", "-c", line], env=full,
                           cwd=more.pop("cwd", self.directory), capture_output=True, **more)
        return Done(p.returncode, p.stdout, p.stderr, (time.monotonic() - began) / SLOWNESS)

    def refused(self, *args, **more):
        """An error of ours, which must come before anything is run; returns the error object."""
        done = self.run("--json", *args, **more)
        assert done.rc == OURS, f"exit {done.rc}: {done.text} {done.errors}"
        assert len(done.said) == 1, done.errors
        assert done.error["message"].replace("\n", " ") in done.said[0]
        return done.error


def remove_cgroups(top):
    """The directory and those below it; what was in them may still be dying."""
    for directory, _, _ in os.walk(top, topdown=False):
        for _ in range(200):
            try:
                os.rmdir(directory)
                break
            except OSError:
                time.sleep(0.02)
        else:
            os.rmdir(directory)


def busy():
    """How many want each CPU, now or of late: everything takes as many times as long."""
    runnable = int(pathlib.Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return max(1, os.getloadavg()[0] / os.cpu_count(), runnable / os.cpu_count())


def wait_until(true, seconds=5.0, what="it"):
    end = time.monotonic() + seconds * SLOWNESS
    while not true():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)


def family(pid):
    """It and all below it."""
    found = {str(pid)}
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return found.union(*map(family, children))


def named(pid, name):
    """How many of it and all below it have that name."""
    found = 0
    for one in family(pid):
        with contextlib.suppress(OSError), open(f"/proc/{one}/comm") as comm:
            found += comm.read().strip() == name
    return found


def on_terminal(cay, *args, answer=b"", seconds=10, env=None):
    """What a terminal would be sent. The terminal is also cay's stdin."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(cay.directory)
        os.execve(CAY, [CAY, *args], dict(cay.env, **(env or {})))
    got, end = b"", time.monotonic() + seconds
    if answer:
        os.write(master, answer)
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(master, MIB)
        except OSError:
            break
        if not data:
            break
        got += data
    os.close(master)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), got.replace(b"\r\n", b"\n")


# What a run could leave behind. Others may be running cay on this machine at the same
# time: what belongs to a living cay that is not the one under test is not looked at.


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


# Every test looks at every process twice: what can be known once is.
_OURS = os.path.realpath(CAY)
_NAMESPACES = {kind: _link(f"/proc/self/ns/{kind}") for kind in ("pid", "user")}


def _program(pid):
    return _link(f"/proc/{pid}/exe").removesuffix(" (deleted)")


def _of_another_cay(name):
    """"cay-123-run_…" of a process 123 that lives (a dead one has no program) and is not the binary under test."""
    maker = re.match(r"cay-(\d+)-", name)
    return bool(maker) and _program(maker[1]) not in ("", _OURS)


def _is_of_an_island(pid):
    """In namespaces of its own, with an id that only islands have (or that the tests gave it)."""
    try:
        with open(f"/proc/{pid}/status", "rb") as f:
            uid = int(re.search(rb"^Uid:\s+(\d+)", f.read(), re.M)[1])
    except OSError:
        return False
    return (uid >= ISLAND_IDS or uid == STRANGER) and any(
        _link(f"/proc/{pid}/ns/{kind}") not in ("", own) for kind, own in _NAMESPACES.items())


def _is_cays(pid):
    program = _program(pid)
    # Another binary of that name is another's.
    return program == _OURS or (os.path.basename(program) != "cay" and _is_of_an_island(pid))


def _processes():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if not _is_cays(pid):
            continue
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            groups = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        name = stat[stat.index("(") + 1:stat.rindex(")")]
        if any(_of_another_cay(g.rsplit("/", 1)[-1]) for g in groups.splitlines()):
            continue
        state, parent, *fields = stat[stat.rindex(")") + 2:].split()
        # Nobody waited for the dead: that is cay's fault only if it is the parent. Who is PID 1 may not wait at all.
        if state == "Z" and _program(parent) != _OURS:
            continue
        started = fields[17]
        found.add(f"process {pid} ({name}, started {started})")
    return found


def _mounts():
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return {f"mount {fields[4]} of {fields[3]}" for fields in map(str.split, lines)}


def _cgroups():
    found = set()
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found |= {f"cgroup {directory}/{n}" for n in names
                  if n.startswith("cay-") and n != "cay-self" and not _of_another_cay(n)}
    return found


def _names(directory, keep=lambda name: True):
    try:
        return {f"file {directory}/{n}" for n in os.listdir(directory) if keep(n)}
    except OSError:
        return set()


def traces(tmp):
    """Everything that could be of cay, as a set of words."""
    # cay-test-…: the unit tests', which may be running beside us.
    return (_processes() | _mounts() | _cgroups() | _names(tmp)
            | _names("/tmp", lambda n: n.startswith("cay-") and not n.startswith("cay-test-"))
            | _names("/run/cay", lambda n: n != "ids"))


def new_traces(before, tmp, grace=2.0):
    """What is there now and was not; given a moment, as the kernel takes its time with the dead."""
    end = time.monotonic() + grace
    left = traces(tmp) - before
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left &= traces(tmp)
    return left
