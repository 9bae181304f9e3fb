"""Sandboxes with files, in daemons of both kinds."""
import pytest

from serve_support import Client


@pytest.fixture(scope="module")
def daemon(daemon):
    """The one of the directory above, as these tests talk to it."""
    return Client(daemon)


@pytest.fixture
def sandbox(daemon):
    with daemon.sandbox() as s:
        yield s
