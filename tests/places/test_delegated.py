"""The attacks on the limits, once more: by an ordinary user whose cgroup was delegated to them, and
who therefore owns the files outside that hold their islands. On v1 here, on v2 in tests/vm."""

import errno
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "escape"))
pytest.register_assert_rewrite("test_limit_attacks")

from test_limit_attacks import *  # noqa: E402, F401, F403


@pytest.fixture
def cay(delegated):
    return delegated


@pytest.fixture
def island(delegated):
    return delegated


def test_default_run_is_fully_limited(delegated):
    isolation = delegated.run("--json", "--", "true").ok().json["isolation"]
    assert isolation["degraded"] == [] and isolation["memory"] == isolation["cpu"] == isolation["pids"]
    assert isolation["memory"] in ("cgroup1", "cgroup2")


def test_doctor_is_content(delegated):
    assert delegated("doctor").ok()


def test_processes(delegated):
    n, why = map(int, delegated.python("""
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError as e: print(n, e.errno)""", "--pids-limit", "10").split())
    assert why == errno.EAGAIN and n == 9


def test_one_cpu(delegated):
    """Two busy processes get half a processor together, if that is the limit."""
    share = float(delegated.python("""
import os, time
r, w = os.pipe()
for _ in range(2):
    if os.fork() == 0:
        start, used = time.monotonic(), time.process_time()
        while time.monotonic() - start < 2: pass
        os.write(w, b'%f ' % (time.process_time() - used))
        os._exit(0)
os.wait(); os.wait()
print(sum(map(float, os.read(r, 99).split())) / 2)""", "--cpus", "0.5"))
    assert share < 0.7


# The files belong to the user, and the island's user is the user: only mounts are in the way.
RAISE = """
import json, os
def refused(f):
    try: f(); return 'worked'
    except OSError as e: return e.errno
found = {}
for top, names, files in os.walk('/sys/fs'):
    for name in files:
        path = os.path.join(top, name)
        found[path] = refused(lambda: os.write(os.open(path, os.O_WRONLY), b'max'))
    found[top + '/new'] = refused(lambda: os.mkdir(top + '/new'))
for path in ('/proc/self/root/../sys/fs/cgroup', '/proc/1/root/sys/fs/cgroup'):
    found[path] = refused(lambda: os.mkdir(path + '/new'))
print(json.dumps(found))
"""


def test_the_island_can_not_raise_its_own_limits(delegated):
    found = json.loads(delegated.python(RAISE))
    assert found
    assert set(found.values()) <= {errno.EROFS, errno.EACCES, errno.ENOENT, errno.EPERM}, found
