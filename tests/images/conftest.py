"""The fixtures of tests/integration, and those of images: stores, registries and Debian's Python."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("integration", "egress", "serve", "places"))]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from image_fixtures import *  # noqa: E402, F401, F403
from world_fixtures import *  # noqa: E402, F401, F403
