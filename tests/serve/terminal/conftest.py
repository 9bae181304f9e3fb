"""The daemon and sandboxes of tests/serve/files."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "files"))

import pytest  # noqa: E402

from serve_support import Daemon  # noqa: E402


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("serve")) as d:
        yield d


@pytest.fixture
def sandbox(daemon):
    with daemon.sandbox() as s:
        yield s
