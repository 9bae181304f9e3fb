"""The SDKs against one daemon of root's, and without any."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "serve"), str(HERE.parent / "integration"),
                str(HERE.parent / "warm"), str(ROOT / "sdk" / "python")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from maker import Maker  # noqa: E402
from support import CAY, must_work  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_left():
    """A daemon keeps islands ready, which come and go: what is left is looked at when it has ended."""


@pytest.fixture(scope="module")
def daemon(scratch, nothing_left_at_the_end):
    """One for all tests of a file."""
    if os.geteuid() != 0:
        must_work("only root has a daemon with all limits")
    maker = Maker(scratch)
    (scratch / "mounted").mkdir(exist_ok=True)
    (scratch / "mounted" / "old").write_text("old")
    yield maker(settings=f"[mounts]\nread = {scratch}/mounted\n")
    maker.end()


@pytest.fixture
def here(daemon, monkeypatch, tmp_path):
    """In a directory of its own, with the daemon where CAY_HOST says."""
    monkeypatch.setenv("CAY_HOST", f"unix:{daemon.socket}")
    monkeypatch.delenv("CAY_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return daemon


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """The environment of a program that has the binary and no daemon."""
    monkeypatch.delenv("CAY_HOST", raising=False)
    monkeypatch.setenv("CAY_CONFIG", str(tmp_path / "cay.conf"))
    (tmp_path / "cay.conf").write_text("")
    monkeypatch.chdir(tmp_path)
    return CAY
