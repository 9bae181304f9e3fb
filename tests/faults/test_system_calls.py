"""Each system call of a run's set-up fails once: the run ends in an error, or its island is as strong as always."""

import concurrent.futures
import errno
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

from faults import Faults, differences, left_of
from support import CAY, CANNOT_EXECUTE, NOT_FOUND, OURS, SOAK, STRANGER

# ENOMEM can come from nearly every call, and no code takes it for an answer.
ERRORS = ["ENOMEM"] + ["EPERM", "EINVAL", "EINTR", "ENOENT", "ENOSYS", "EMFILE", "EIO", "EAGAIN"] * SOAK

BASES = 20  # runs at most until one shows how things are without a fault

# What an island hides, and what is its own.
READ = ["/proc/sys/kernel/hostname", "/proc/keys", "/proc/kallsyms", "/proc/timer_list",
        "/proc/sys/user/max_inotify_instances", "/proc/sys/user/max_inotify_watches"]

RUNS = {
    "plain": ["--", "/bin/cat", *READ],
    "files": ["--put", "input", "--get", "output", "--", "/bin/cp", "input", "output"],
    "compiled": ["-l", "c", "-c", "int main(void) { return 0; }"],
    "mounts": ["-v", ".:/data", "--workspace", ".", "--", "/bin/cat", *READ],
    "timeout": ["--timeout", "50ms", "--", "/bin/sleep", "60"],
    "script": ["script.py"],
}

# What may be otherwise on an island because of a call that failed, and why that is no weaker one:
# (the call, the error, the fact, the reason).
ALLOWED = [
    ("fstat 0 ", ".*", "/(program|init)/fds/0", "input that is not known to be /dev/null is pumped"),
    ("rt_sigaction", ".*", "/(program|init)/status/SigIgn", "what the caller ignored stays ignored"),
    ("(openat|mkdirat|write|fcntl|faccessat2)", ".*", "/(program|init)/cgroups/pids", "counted by RLIMIT_NPROC too; reported"),
    ("(openat|fstatfs|faccessat2)", ".*", "/(program|init)/cgroups/:", "cgroup.kill is a second way to kill; no limit is there"),
    ("rt_sigprocmask", ".*", "/init/status/SigBlk", "the C library's fork() looks at no answer; the program's are reset"),
    # The answers by which a kernel says that it has no such thing.
    ("(openat|open_tree|access|readlink)", "ENOENT|EACCES|ENOTDIR", "/mounts", "the host has no such file"),
    ("readlink", "EINVAL", "/mounts", "a directory instead of a link, as on hosts with a /bin of their own"),
    ("(openat|write)", "ENOENT", "out", "the kernel has no such counter"),
    ("(openat|write)", "ENOENT|EOPNOTSUPP", "/(program|init)/cgroups/memory/memory.(memsw|kmem.tcp)",
     "the kernel does not count it apart; without swap that is no loss"),
    ("keyctl", "ENOSYS", "out", "the kernel has no keyrings"),
]

# Where nothing can be said any more. Before cay's main() the C library ends by a crash; who can't
# become himself again after acting as another user, or in other namespaces, aborts.
CRASHES = ("arch_prctl", "setfsuid", "setfsgid", "setns")


def is_allowed(call, error, difference):
    return any(re.match(c, call) and re.fullmatch(e, error) and re.match(d, difference)
               for c, e, d, _ in ALLOWED)


def ending(run, base, error):
    """What is wrong with how it ended, as words."""
    wrong = [" ".join([word, *words]) for word in ("late", "left", "crashed") for words in run.said(word)
             if not run.failed.startswith(CRASHES)]
    if run.rc == OURS and not run.failed.startswith("write 2 "):
        # Two, where a file could not be fetched from a run that had failed.
        wrong += [] if len(run.ours) in (1, 2) and len(run.ours[0]) > 15 else [f"said {run.err!r}"]
    elif run.rc == base.rc:
        wrong += [d for d in differences({"out": run.out}, {"out": base.out}) if not is_allowed(run.failed, error, d[1:])]
    elif run.rc not in (CANNOT_EXECUTE, NOT_FOUND) or len(run.ours) != 1:
        told = f"exit {run.rc}, {run.err!r}"
        wrong += [] if run.failed.startswith(CRASHES) or is_allowed(run.failed, error, told) else [told]
    return wrong


def judge(run, base, error, tmp):
    """All that is wrong. Whatever ran must have had all that it always has, also if it failed in the end."""
    wrong = ending(run, base, error)
    for had, always in zip(run.facts, base.facts):
        wrong += [d for d in differences(had, always) if not is_allowed(run.failed, error, d)]
    left = left_of(run.pid, tmp)
    if left and run.failed.startswith(("unlinkat", "rmdir", "wait4", *CRASHES)):
        subprocess.run([CAY, "doctor", "--clean"], check=True, capture_output=True)
        left = left_of(run.pid, tmp)
    return wrong + [f"left {path}" for path in left]


@pytest.fixture
def faults(who, fault, scratch, place):
    """One for each thread: a directory and a TMPDIR of its own."""
    cay, name = who
    user = STRANGER if name == "user" else None

    def make():
        directory = pathlib.Path(tempfile.mkdtemp(dir=place))
        (directory / "tmp").mkdir()
        (directory / "input").write_text("input\n")
        (directory / "script.py").write_text("print(1)\n")
        for path in (directory, *directory.iterdir()):
            os.chown(path, user or 0, user or 0)
        return Faults(fault, directory, dict(cay.env, TMPDIR=str(directory / "tmp")), user)

    def argv(kind):
        return [CAY, "run", *(["--allow-degraded"] if user else []), *RUNS[kind]]

    return make, argv


def sweep(make, argv, error, clean, only=None):
    """Every call of the command, or those of one name, fails once; returns what is wrong, by call, and how many failed."""
    # A busy machine may need all the time that a run has before its program begins.
    base = next((run for run in (make().run(argv) for _ in range(BASES)) if run.facts), None)
    assert base, "no program began"
    number = getattr(errno, error)

    def some(part):
        tool, found, failed = make(), {}, 0
        calls = [call for call in (base.calls if SOAK else base.different_calls) if only in (None, call[2])]
        for role, n, name in calls[part::2]:
            # What waits fails at once, and when what it waited for is there.
            for fails in (number, -number) if name == "poll" else (number,):
                run = tool.run(argv, role, n, fails)
                clean(tool)
                failed += bool(run.failed)
                wrong = judge(run, base, error, tool.directory / "tmp")
                if wrong:
                    found[f"{error} role {role} call {n}: {run.failed}{' at its end' * (fails < 0)}"] = wrong
        return found, failed

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        (a, n), (b, m) = pool.map(some, range(2))
    return {**a, **b}, n + m


CASES = [(who, kind, error) for error in ERRORS for who in ("root", "user") for kind in RUNS
         if SOAK or (who, kind) in (("root", "plain"), ("root", "files"), ("user", "plain"))]


@pytest.mark.parametrize("who, kind, error", CASES, indirect=["who"])
def test_each_system_call(faults, who, kind, error, config):
    make, argv = faults

    def clean(tool):
        (tool.directory / "output").unlink(missing_ok=True)

    wrong, failed = sweep(make, argv(kind), error, clean)
    assert not wrong, "\n".join(f"{call}: {'; '.join(what)[:300]}" for call, what in wrong.items())
    assert failed > 200


@pytest.mark.parametrize("who", ["root"], indirect=True)
@pytest.mark.parametrize("kind, name, error", [
    # When the compiler's end is told: nobody waits for that end after it.
    ("compiled", "poll", "EPERM"),
    # What is to be covered and is there is not taken for something that this kernel lacks.
    ("plain", "move_mount", "ENOENT"),
    # What could not be sent at once is sent before its answer is waited for.
    ("compiled", "sendmsg", "EAGAIN"),
])
def test_what_was_wrong_once(faults, who, kind, name, error):
    make, argv = faults
    wrong, failed = sweep(make, argv(kind), error, lambda tool: None, name)
    assert not wrong, "\n".join(f"{call}: {'; '.join(what)[:300]}" for call, what in wrong.items())
    assert failed > 10


@pytest.mark.parametrize("who", ["root"], indirect=True)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("mode", ["networks", "ahead"] + ["template"] * SOAK)
def test_each_system_call_of_a_resident_launcher(faults, resident, mode, error):
    """It fails once, and works in the next round."""
    make, _ = faults
    wrong, failed = sweep(make, [resident, mode, "2" if SOAK else "1", "/bin/cat", *READ], error, lambda tool: None)
    assert not wrong, "\n".join(f"{call}: {'; '.join(what)[:300]}" for call, what in wrong.items())
    assert failed > 200
