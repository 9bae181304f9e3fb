"""The end-to-end tests' own fixtures, and the tool that makes system calls fail."""

import importlib.util
import os
import pathlib
import sys

import pytest

INTEGRATION = pathlib.Path(__file__).resolve().parents[1] / "integration"
sys.path.insert(0, str(INTEGRATION))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

# By its path: "conftest" is also the name of this file.
_spec = importlib.util.spec_from_file_location("integration_conftest", INTEGRATION / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

scratch = _module.scratch
binary_runs = _module.binary_runs
nothing_left_at_the_end = _module.nothing_left_at_the_end
nothing_left = _module.nothing_left
place = _module.place
cay = _module.cay
config = _module.config
root = _module.root
stranger = _module.stranger


def built(name):
    """A program of the build with tests."""
    path = _module.CAY and pathlib.Path(__file__).resolve().parents[2] / "build-test" / "tests" / name
    if not os.access(path, os.X_OK):
        _module.must_work(f"{path} is not there: `make integration` builds it")
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
