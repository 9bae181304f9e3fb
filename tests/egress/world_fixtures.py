"""Fixtures of tests in the world: `from world_fixtures import *` in a conftest that has fixtures.py's too."""

import os
import pathlib
import shutil
import tempfile

import pytest

from support import STRANGER
from traveller import Traveller
from world import World


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


@pytest.fixture
def root_traveller(world, place, scratch):
    return Traveller(world, place, scratch, "root")


@pytest.fixture(params=["root", "user"])
def traveller(request, world, place, scratch):
    """Root's, and an ordinary user's."""
    if request.param == "user":
        home = scratch / "stranger"
        home.mkdir(exist_ok=True)
        for path in (home, place):
            os.chown(path, STRANGER, STRANGER)
    return Traveller(world, place, scratch, request.param)
