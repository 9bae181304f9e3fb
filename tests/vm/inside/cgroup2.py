"""Limits by cgroup v2 alone. Run by tests/vm/test_vm.py in its machine, with the fixtures of
tests/integration; the time limits are generous, as an emulated processor is slow."""

import errno
import json
import os
import pathlib
import time

import pytest

from support import OURS, STRANGER, remove_cgroups

TOP = pathlib.Path("/sys/fs/cgroup")
LIMITED = {"memory": "cgroup2", "pids": "cgroup2", "cpu": "cgroup2", "degraded": []}

FORK_UNTIL_REFUSED = """
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError as e:
    print(n, e.errno)
"""

# The share of a processor that a busy loop gets, start-up not counted.
SHARE = """
import time
start, used = time.monotonic(), time.process_time()
while time.monotonic() - start < 2: pass
print((time.process_time() - used) / (time.monotonic() - start))
"""


def is_limited(result):
    isolation = result["isolation"]
    return {key: isolation[key] for key in LIMITED} == LIMITED


def test_this_is_pure_cgroup2():
    assert (TOP / "cgroup.controllers").exists()
    assert pathlib.Path("/proc/self/cgroup").read_text().startswith("0::/")


def test_default_run(cay):
    done = cay.run("--json", "-c", "print(42)").ok()
    assert done.json["stdout"] == "42\n" and done.json["status"] == "ok"
    assert is_limited(done.json), done.json["isolation"]
    assert done.json["usage"]["memory_peak_bytes"] > 1 << 20


def test_island_sees_only_its_own_cgroup(cay):
    assert cay.python("print(open('/proc/self/cgroup').read())").split() == ["0::/"]


# Whoever hits the limit, the whole group goes, and the result says why.
@pytest.mark.parametrize("code", [
    "x = bytearray(200 << 20)",
    "import os, time\nif os.fork() == 0:\n  if os.fork() == 0:\n    x = bytearray(200 << 20)\n"
    "time.sleep(60)",
    "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
], ids=["one process", "grandchild", "files in memory"])
def test_memory(cay, code):
    done = cay.run("--json", "-m", "48m", "--disk", "500m", "--timeout", "40", "-c", code)
    assert done.rc == 137, done.errors
    assert done.json["status"] == "out_of_memory"
    assert done.json["message"] == "memory limit of 48 MiB reached"
    assert done.seconds < 30


def test_processes(cay):
    n, why = map(int, cay.python(FORK_UNTIL_REFUSED, "--pids-limit", "10").split())
    assert why == errno.EAGAIN and n == 9


def test_cpus(cay):
    assert float(cay.python(SHARE, "--cpus", "0.25")) < 0.4
    assert float(cay.python(SHARE, "--cpus", "1")) > 0.6


# The second spreads over processes none of which reaches the limit alone.
@pytest.mark.parametrize("code", [
    "while True: pass",
    "import os\nwhile True:\n  if os.fork() == 0:\n    for _ in range(300000): pass\n    os._exit(0)\n"
    "  os.wait()",
], ids=["one process", "many"])
def test_cpu_time(cay, code):
    done = cay.run("--json", "--cpu-time", "2", "--timeout", "35", "-c", code)
    assert done.json["status"] == "timeout" and "CPU time" in done.json["message"]
    assert 1500 < done.json["usage"]["cpu_ms"] < 8000


def test_timeout_kills_all(cay):
    code = ("import os, time\nprint('begun', flush=True)\nif os.fork() == 0:\n  os.setsid()\n"
            "  os.fork()\ntime.sleep(60)")
    done = cay.run("--json", "--timeout", "4", "-c", code)
    assert done.rc == 124 and done.json["status"] == "timeout" and done.json["stdout"] == "begun\n"


LIMITS_IN_SIGHT = """
import json, os
top = '/sys/fs/cgroup'
def refused(f):
    try: f()
    except OSError as e: return e.errno
print(json.dumps({
    'memory': open(f'{top}/memory.max').read().strip(), 'cpu': open(f'{top}/cpu.max').read().split(),
    'cgroups': sorted(n for n in os.listdir(top) if os.path.isdir(f'{top}/{n}')),
    'mine': open('/proc/self/cgroup').read().strip(),
    'writes': sorted({refused(lambda: open(f'{top}/{n}', 'w'))
                      for n in ('memory.max', 'cgroup.procs', 'cgroup.subtree_control', 'cgroup.kill')}),
    'makes': refused(lambda: os.mkdir(f'{top}/x')),
    'chmods': refused(lambda: os.chmod(f'{top}/memory.max', 0o666)),
}))
"""


def sees_its_limits_and_nothing_more(cay):
    seen = json.loads(cay.python(LIMITS_IN_SIGHT, "-m", "64m", "--cpus", "0.5"))
    assert seen == {"memory": str(64 << 20), "cpu": ["50000", "100000"], "cgroups": [], "mine": "0::/",
                    "writes": [errno.EROFS], "makes": errno.EROFS, "chmods": errno.EROFS}


def test_limits_are_in_sight(cay):
    """As java and others look for them: the island's own cgroup, read-only."""
    sees_its_limits_and_nothing_more(cay)


def test_limits_are_in_sight_of_a_user(delegated):
    """Who owns the files of that cgroup outside, and still can't change them from inside."""
    sees_its_limits_and_nothing_more(delegated)


def test_nothing_left(cay):
    cay.run("--", "true").ok()
    assert not [d for d, _, _ in os.walk(TOP) if "cay-" in d and "cay-self" not in d]


def test_read_only_and_writable_mounts(cay, place, config):
    """The mount calls of an older kernel, with a directory of the host."""
    (place / "in").write_text("in")
    allow = config(f"[mounts]\nread = {place}\nwrite = {place}\n")
    line = "cat in; echo out >out"
    done = cay.run("--workspace", f"{place}:rw", "--", "sh", "-c", line, config=allow)
    assert done.ok().text == "in" and (place / "out").read_text() == "out\n"
    assert (place / "out").stat().st_uid == place.stat().st_uid
    done = cay.run("--workspace", f"{place}:ro", "--", "sh", "-c", line, config=allow)
    assert done.rc != 0 and "Read-only" in done.errors


def test_put_and_get(cay, place):
    (place / "a").write_text("a")
    cay.run("--put", "a", "--get", "b", "--", "sh", "-c", "tr a b <a >b").ok()
    assert (place / "b").read_text() == "b"


def test_user_without_delegation(stranger):
    error = stranger.refused("-c", "print('ran')")
    assert error["code"] == "not_enforceable"
    assert "the limit memory" in error["message"] and "delegated" in error["message"]


def test_user_without_delegation_degraded(stranger):
    result = stranger.run("--json", "--allow-degraded", "-c", "print(42)").ok().json
    assert result["stdout"] == "42\n"
    assert result["isolation"]["degraded"] == ["memory", "cpus"]
    assert result["isolation"]["pids"] == "rlimit" and result["isolation"]["memory"] == "none"


def give(directory, owner):
    directory.mkdir()
    for path in [directory, *(directory / f"cgroup.{f}" for f in ("procs", "subtree_control", "threads"))]:
        os.chown(path, owner, owner)


@pytest.fixture
def delegated(stranger):
    """The stranger, in a cgroup that was given to them."""
    (TOP / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    top = TOP / "given"
    give(top, STRANGER)
    stranger.prefix = ["sh", "-c", f"echo $$ >{top}/cgroup.procs && exec \"$@\"", "sh", *stranger.prefix]
    yield stranger
    remove_cgroups(top)


def test_user_with_delegation(delegated):
    done = delegated.run("--json", "-c", "print(42)").ok()
    assert done.json["stdout"] == "42\n" and is_limited(done.json), done.json["isolation"]
    assert sorted(p.name for p in (TOP / "given").iterdir() if p.is_dir()) == ["cay-self"]


def test_user_with_delegation_memory(delegated):
    done = delegated.run("--json", "-m", "48m", "-c", "x = bytearray(200 << 20)")
    assert done.rc == 137 and done.json["status"] == "out_of_memory"


def test_user_with_delegation_processes(delegated):
    n, why = map(int, delegated.python(FORK_UNTIL_REFUSED, "--pids-limit", "10").split())
    assert why == errno.EAGAIN and n == 9


def test_user_with_delegation_not_alone(delegated):
    """Another process sits where we are: it is not ours to move, and nothing is given."""
    delegated.prefix[2] = delegated.prefix[2].replace(" && exec", "; sleep 60 & p=$!; ")
    delegated.prefix[2] += "; r=$?; kill $p; exit $r"
    done = delegated.run("--json", "--", "true")
    assert done.rc == OURS and done.error["code"] == "not_enforceable"
