"""The fixtures of tests/integration, for the tests of this directory too; and engines."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("places", "images", "integration"))]

from engines import docker_engine, podman_engine, with_usr  # noqa: E402: by the path above
import newer  # noqa: E402
from fixtures import *  # noqa: E402, F401, F403: by the path above


@pytest.fixture(scope="session")
def docker():
    with docker_engine() as engine:
        yield with_usr(engine)


@pytest.fixture(scope="session")
def podman():
    with podman_engine() as engine:
        yield with_usr(engine)


@pytest.fixture(scope="session")
def newer_docker():
    """Of the next Debian."""
    with newer.newer_docker() as engine:
        yield with_usr(engine)


def pytest_collection_finish(session):
    if not session.config.option.collectonly and any("newer_docker" in item.fixturenames for item in session.items):
        newer.prepare()


@pytest.fixture(params=["docker", "podman"])
def engine(request):
    return request.getfixturevalue(request.param)
