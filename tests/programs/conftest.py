"""The end-to-end tests' own fixtures, and how the programs of this machine are asked for."""

import importlib.util
import pathlib
import sys

INTEGRATION = pathlib.Path(__file__).resolve().parents[1] / "integration"
sys.path.insert(0, str(INTEGRATION))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

# By its path: "conftest" is also the name of this file.
_spec = importlib.util.spec_from_file_location("integration_conftest", INTEGRATION / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

scratch = _module.scratch
binary_runs = _module.binary_runs
nothing_left_at_the_end = _module.nothing_left_at_the_end
nothing_left = _module.nothing_left
place = _module.place
cay = _module.cay
config = _module.config
root = _module.root
