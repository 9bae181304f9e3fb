"""A daemon's zygotes, and what waits, as the host sees them: each the child of its island's init, which is the launcher's."""

import collections
import dataclasses
import os
import pathlib
import re

from support import family, wait_until

SYS_ADMIN = 1 << 21  # what no program has, not even an island's root


def children(pid):
    try:
        return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:  # it ended meanwhile
        return []


def status(pid, field):
    """A line of /proc/PID/status; None where there is none (any more)."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return re.search(rf"^{field}:\s+(.*)$", text, re.M)[1]


def _waits(command_lines):
    """Whether an island has its two processes, and the second is no program yet."""
    return [line.rstrip(b"\0") for line in command_lines] == [b"cay: init"] * 2


@dataclasses.dataclass(frozen=True)
class Zygote:
    init: int  # PID 1 of its island
    pid: int  # the interpreter

    def _islands(self):
        """The command lines of all processes on islands that it bore, by island."""
        islands = collections.defaultdict(dict)
        for pid in {int(pid) for pid in family(self.init)} - {self.init, self.pid}:
            try:
                islands[os.readlink(f"/proc/{pid}/ns/pid")][pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:  # it ended meanwhile
                continue
        return islands.values()

    def borne(self):
        """All that runs on islands that it bore, also when it is dead; but not those that wait for a program."""
        return {pid for island in self._islands() if not _waits(island.values()) for pid in island}

    def waiting(self):
        """The processes of those that wait for one."""
        return {pid for island in self._islands() if _waits(island.values()) for pid in island}

    def rss(self):
        return int(status(self.pid, "VmRSS").split()[0]) * 1024

    def _words(self):
        return pathlib.Path(f"/proc/{self.pid}/cmdline").read_text().split("\0")

    @property
    def program(self):
        return self._words()[0]

    @property
    def set(self):
        """What its island's modules say it is for: science has more of them."""
        return "science" if "pandas" in self._words() else "default"


def _is_zygote(pid):
    capabilities = status(pid, "CapEff")
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return "python" in program and capabilities is not None and bool(int(capabilities, 16) & SYS_ADMIN)


def zygotes(daemon):
    """Those that live."""
    inits = children(daemon.pids()["launcher"])
    return [Zygote(init, pid) for init in inits for pid in children(init) if _is_zygote(pid)]


def waiters(daemon):
    """{pid: PID 1 of its island} of interpreters that wait, started, for their program (waiter.h)."""
    found = {}
    for init in children(daemon.pids()["launcher"]):
        for pid in children(init):
            try:
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                waits = b"/sys/start.js" in line and os.readlink(f"/proc/{pid}/fd/1").startswith("/memfd:node")
            except OSError:  # it ended meanwhile
                continue
            if waits:
                found[pid] = init
    return found


def run_waited(daemon, body, start="warm:node"):
    """Islands on which one waits are few, and made when nothing else is to be done."""
    result = {}

    def is_warm():
        result.update(daemon.post("/v1/runs", body).ok())
        return result["start"] == start
    wait_until(is_warm, 30, f"a start that is {start}")
    return result


def held(pid):
    """What the memory cgroup that it is in has in use."""
    lines = [line.split(":", 2) for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return int(pathlib.Path(f"/sys/fs/cgroup/memory{path}/memory.usage_in_bytes").read_text())
    [path] = [path for _, controllers, path in lines if not controllers]
    return int(pathlib.Path(f"/sys/fs/cgroup{path}/memory.current").read_text())


def held_ready(daemon):
    """By zygotes and by what waits on islands of theirs: init and the interpreter are in one cgroup each time."""
    return sum(held(z.pid) + sum(map(held, z.waiting())) // 2 for z in zygotes(daemon))


def started(daemon, start):
    """How many runs began so."""
    return daemon.metric(f'cay_runs_started_total{{start="{start}"}}')


def warm_up(daemon, code="pass", start="warm:"):
    """start: or how it begins."""
    wait_until(lambda: daemon.run(code)["start"].startswith(start), 20, f"a start that is {start}")
    return daemon


def wait_for_rest(daemon):
    """Until nothing runs, and nothing is left of what ran."""
    wait_until(lambda: daemon.metric("cay_runs_active") == 0, 10, "the end of all runs")
    wait_until(lambda: not any(z.borne() for z in zygotes(daemon)), 5, "the end of all that was borne")
