"""The daemon of tests/serve/files, and the events and terminals of tests/serve/terminal."""
import pathlib
import sys

for folder in ("files", "terminal"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))

import pytest  # noqa: E402

from serve_support import Daemon  # noqa: E402


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    place = tmp_path_factory.mktemp("serve")
    with Daemon(place) as d:
        yield d
    words = (place / "log").read_text(errors="replace")
    assert "Sanitizer" not in words and "runtime error" not in words, words
