"""The fixtures of tests/integration, and those of images: stores, registries and Debian's Python."""

import contextlib
import pathlib
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("integration", "egress", "serve", "places"))]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from image_fixtures import *  # noqa: E402, F401, F403
from world_fixtures import *  # noqa: E402, F401, F403
import debian  # noqa: E402


def make_root():
    with contextlib.suppress(pytest.fail.Exception, pytest.skip.Exception):  # whoever wants it is told
        debian.python_root()


def pytest_collection_finish(session):
    """Debian's root takes a minute, once: it is made beside the tests before those that want it."""
    if not session.config.option.collectonly and any("library" in item.fixturenames for item in session.items):
        threading.Thread(target=make_root, daemon=True).start()
