"""A daemon of its own for the tests of a module, and sandboxes in it."""
import pytest

from serve_support import Daemon, must_work, CAY
import os


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    if not os.access(CAY, os.X_OK):
        must_work(f"{CAY} is not built")
    with Daemon(tmp_path_factory.mktemp("serve")) as d:
        yield d


@pytest.fixture
def sandbox(daemon):
    with daemon.sandbox() as s:
        yield s
