"""The end-to-end tests' own fixtures, and the tool that makes system calls fail."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from support import must_work  # noqa: E402


def built(name):
    """A program of the build with tests."""
    path = HERE.parents[1] / "build-test" / "tests" / name
    if not os.access(path, os.X_OK):
        must_work(f"{path} is not there: `make integration` builds it")
    return path


@pytest.fixture(scope="session")
def fault():
    return built("fault")


@pytest.fixture(scope="session")
def resident():
    return built("resident")


@pytest.fixture(params=["root", "user"])
def who(request):
    """cay as whoever runs the tests, and as an ordinary user with nothing delegated."""
    return request.getfixturevalue("cay" if request.param == "root" else "stranger"), request.param
