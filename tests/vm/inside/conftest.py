"""The fixtures of tests/integration, for the tests of this directory too."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))

from fixtures import *  # noqa: E402, F401, F403: by the path above
