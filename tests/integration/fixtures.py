"""Fixtures of all tests that drive the built program: `from fixtures import *` in a conftest."""

import os
import pathlib
import shutil
import tempfile

import pytest

from support import CAY, Cay, STRANGER, must_work, new_traces, traces


@pytest.fixture(scope="session")
def scratch():
    """A directory with a short name that everybody may enter; pytest's own are for its user only."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="e2e-", dir="/tmp"))
    path.chmod(0o755)
    (path / "home").mkdir()
    (path / "tmp").mkdir()
    (path / "tmp").chmod(0o1777)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session", autouse=True)
def binary_runs(scratch):
    if not os.access(CAY, os.X_OK):
        pytest.exit(f"{CAY} is not there: build it, or set CAY_BIN", 2)
    probe = Cay(scratch, scratch / "home", scratch / "tmp").run("--", "sh", "-c", "echo $$; id -u")
    if probe.rc != 0 and os.geteuid() != 0:
        must_work(f"no full sandbox without root here: {probe.errors}")
    # What follows forks without end, mounts, and signals PID 1. Without an island
    # around it all that would happen to this machine.
    if probe.rc != 0 or probe.text.split() != ["2", "1000"]:
        pytest.exit(f"{CAY} makes no island, the tests would harm this machine: {probe}", 2)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_at_the_end(scratch, binary_runs):
    before = traces(scratch / "tmp")
    yield
    left = new_traces(before, scratch / "tmp")
    assert not left, f"left behind: {sorted(left)}"


@pytest.fixture(autouse=True)
def nothing_left(scratch, nothing_left_at_the_end):
    before = traces(scratch / "tmp")
    yield
    left = new_traces(before, scratch / "tmp")
    assert not left, f"left behind: {sorted(left)}"


@pytest.fixture
def place(scratch):
    """An empty directory of the test's own, where cay is started."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="t-", dir=scratch))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def cay(scratch, place):
    return Cay(place, scratch / "home", scratch / "tmp")


@pytest.fixture
def config(place):
    """Writes a settings file and returns its path, for CAY_CONFIG."""
    def write(text):
        path = place / "cay.conf"
        path.write_text(text)
        path.chmod(0o644)
        return path
    return write


@pytest.fixture
def root():
    if os.geteuid() != 0:
        must_work("only root can prepare this")


@pytest.fixture
def stranger(scratch, place, root):
    """cay, run by an ordinary user who owns the directory it is started in."""
    if not shutil.which("setpriv"):
        must_work("setpriv (util-linux) is not there")
    os.chown(place, STRANGER, STRANGER)
    # Not below place, or a mount of that would be one of a home.
    home = scratch / "stranger"
    home.mkdir(exist_ok=True)
    os.chown(home, STRANGER, STRANGER)
    cay = Cay(place, home, scratch / "tmp")
    cay.prefix = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    return cay
