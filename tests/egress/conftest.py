"""The world as a fixture, and cay in it: by root and by an ordinary user."""

import pathlib
import shutil
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "serve")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from world import World  # noqa: E402


@pytest.fixture(scope="session")
def one_world(scratch):
    place = pathlib.Path(tempfile.mkdtemp(prefix="w-", dir=scratch))
    place.chmod(0o755)
    made = World(place)
    yield made
    made.end()
    shutil.rmtree(place)


@pytest.fixture
def world(one_world):
    """The session's, as if nothing had happened in it yet."""
    one_world.reset()
    return one_world
