"""The world as a fixture, and cay in it: by root and by an ordinary user."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "serve")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from world_fixtures import *  # noqa: E402, F401, F403
