"""`cay serve` as a fixture: by root and by an ordinary user, on private paths, with nothing left of it."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "warm")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from maker import Maker  # noqa: E402
from support import must_work  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_left():
    """A daemon keeps islands ready, which come and go: what is left is looked at when it has ended."""


@pytest.fixture
def make_daemon(scratch):
    """For tests that need one of their own: make_daemon(who="root", settings="")."""
    maker = Maker(scratch)
    yield maker
    maker.end()


@pytest.fixture(scope="module", params=["root", "user"])
def daemon(request, scratch, binary_runs):
    """One for all tests of a file, by root and by an ordinary user."""
    if os.geteuid() != 0 and request.param == "user":
        must_work("only root can be another user")
    maker = Maker(scratch)
    yield maker(request.param)
    maker.end()


@pytest.fixture
def sandbox(daemon):
    with daemon.sandbox() as made:
        yield made
