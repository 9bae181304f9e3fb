"""What the tests of faults share: a run in which one system call fails, and what was in force on it."""

import dataclasses
import errno
import glob
import itertools
import os
import pathlib
import re
import subprocess
import tempfile

SECONDS = 15

# Of /proc/PID/status: what a process may do. The rest changes from run to run.
STATUS = ("Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
          "Seccomp", "Seccomp_filters", "SigBlk", "SigIgn", "SigCgt")
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time")
LIMITS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes", "pids.max",
          "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.max", "memory.oom.group", "memory.swap.max", "cpu.max")


def _read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError as e:
        return f"({errno.errorcode[e.errno]})"


def _link(path):
    try:
        return re.sub(r"\d{3,}", "N", os.readlink(path))
    except OSError as e:
        return f"({errno.errorcode[e.errno]})"


def _status(pid):
    rows = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines() if ":" in line)
    row = {name: rows.get(name, "").split() for name in STATUS}
    for name in ("Uid", "Gid"):  # within the island's range of ids, which is any
        row[name] = [int(v) & 0xffff if int(v) >= 0x70000000 else int(v) for v in row[name]]
    return row


def _mounts(pid):
    """Root, place, flags and file system: not the numbers."""
    found = []
    for line in _read(f"/proc/{pid}/mountinfo").splitlines():
        fields = line.split(" ")
        end = fields.index("-")
        found.append((re.sub(r"/tmp\w{8}$|\d{4,}", "N", fields[3]), *fields[4:6], fields[end + 1],
                      re.sub(r"(uid|gid)=\d+", r"\1", fields[end + 3])))
    return found


def _cgroups(pid):
    """Which there are, and what they allow."""
    found = {}
    for line in _read(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        last = path.rsplit("/", 1)[-1]
        if not last.startswith("cay-"):
            continue
        directory = f"/sys/fs/cgroup/{names.split(',')[0] or 'unified'}{path}"
        found[names] = {name: _read(f"{directory}/{name}") for name in LIMITS if os.path.exists(f"{directory}/{name}")}
    return found


def _fds(pid):
    try:
        return {n: _link(f"/proc/{pid}/fd/{n}") for n in sorted(os.listdir(f"/proc/{pid}/fd"))}
    except OSError:
        return {}


def _environment(pid):
    """Without the run's id."""
    return sorted(re.sub("=.*run_.*", "", v) for v in _read(f"/proc/{pid}/environ").split("\0"))


def facts(program, init):
    """What is in force on an island, seen from outside when the program has not begun yet; OSError if it is killed."""
    def own(pid):
        return {"status": _status(pid), "fds": _fds(pid), "limits": _read(f"/proc/{pid}/limits"),
                "cgroups": _cgroups(pid), "cpus": len(os.sched_getaffinity(pid)),
                "shared namespaces": [n for n in NAMESPACES
                                      if os.readlink(f"/proc/{pid}/ns/{n}") == os.readlink(f"/proc/self/ns/{n}")]}
    found = {"program": own(program), "init": own(init), "mounts": _mounts(program),
             "environment": _environment(program), "cwd": _link(f"/proc/{program}/cwd"),
             "root": _link(f"/proc/{program}/root"), "init's title": _read(f"/proc/{init}/cmdline"),
             # What is not dumpable belongs to the host's root.
             "init is shut": os.stat(f"/proc/{init}/fd").st_uid == 0}
    # What dies loses its memory first, and its program with it: who still has that had all of it.
    for pid in (program, init):
        os.readlink(f"/proc/{pid}/exe")
    return found


def differences(a, b, path=""):
    """Where two trees of facts differ, as words."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for k in sorted(a.keys() | b.keys(), key=str)
                for d in differences(a.get(k), b.get(k), f"{path}/{k}")]
    if isinstance(a, list) and isinstance(b, list):
        a, b = [v for v in a if v not in b], [v for v in b if v not in a]
    return [] if a == b else [f"{path}: {a!r} instead of {b!r}"]


@dataclasses.dataclass
class Run:
    """How a run ended in which a call failed, or none."""

    rc: int
    out: str
    err: str
    pid: int
    facts: list
    lines: list

    def said(self, word):
        return [line.split()[1:] for line in self.lines if line.split()[0] == word]

    @property
    def failed(self):
        """"name a b" of the call that failed, or "" if it was never made."""
        return " ".join(self.said("failed")[0][2:]) if self.said("failed") else ""

    @property
    def ours(self):
        return [line for line in self.err.splitlines()
                if line.startswith("cay: ") and not line.startswith("cay: degraded: ")]

    @property
    def calls(self):
        """(role, n, name) of every call that was made; of a program that calls alarm(), from there on."""
        made = [(int(role), int(n), name) for role, n, name, *_ in self.said("call")]
        begun = [n for role, n, name in made if role == 0 and name == "alarm"]
        return [(role, n, name) for role, n, name in sorted(made) if role != 0 or n > (begun or [0])[0]]

    @property
    def different_calls(self):
        """The same, but of many in a row that are alike (each signal, each capability) only some."""
        rows = [list(row) for _, row in itertools.groupby(self.calls, lambda call: (call[0], call[2]))]
        return [call for row in rows for call in (row if len(row) < 8 else [*row[:3], row[-1]])]


class Faults:
    """Runs a command again and again, each time with another call that fails."""

    def __init__(self, tool, directory, env, user=None):
        self.tool, self.directory, self.env = tool, directory, env
        self.user = {} if user is None else {"user": user, "group": user, "extra_groups": []}

    def run(self, argv, role=0, n=0, number=0):
        report, report_in = os.pipe()
        answer_out, answer = os.pipe()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            p = subprocess.Popen(
                [self.tool, str(report_in), str(answer_out), str(SECONDS), str(role), str(n), str(number),
                 *map(str, argv)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=(report_in, answer_out),
                cwd=self.directory, env=self.env, **self.user)
            os.close(report_in)
            os.close(answer_out)
            seen, lines = [], []
            with os.fdopen(report) as told:
                for line in told:
                    lines.append(line.rstrip())
                    if line.startswith("ready"):
                        try:
                            seen.append(facts(*map(int, line.split()[1:])))
                        except (OSError, ValueError):
                            pass  # killed meanwhile
                        os.write(answer, b"\n")
            os.close(answer)
            assert p.wait() == 0 and lines[-1].startswith("ended"), lines[-3:]
            out.seek(0)
            err.seek(0)
            pid, status = map(int, lines[-1].split()[1:])
            return Run(os.waitstatus_to_exitcode(status), out.read().decode(errors="replace"),
                       err.read().decode(errors="replace"), pid, seen, lines)


def cgroups_of(pid):
    """The directories of islands of that process: below the top of every tree, where root has them."""
    found = []
    for tree in ("/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")):
        try:
            found += [f"{tree}/{name}" for name in os.listdir(tree) if name.startswith(f"cay-{pid}-")]
        except FileNotFoundError:  # somebody else's, gone meanwhile
            pass
    return found


def left_of(pid, tmp):
    """What a run left: cgroups by its process's number, and whatever is in its own TMPDIR."""
    return cgroups_of(pid) + [str(p) for p in pathlib.Path(tmp).iterdir()]
