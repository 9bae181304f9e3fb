"""The end-to-end tests' own fixtures, and how the programs of this machine are asked for."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
