"""The fixtures of tests/integration, for the tests of this directory too."""

import importlib.util
import pathlib
import sys

_INTEGRATION = pathlib.Path(__file__).resolve().parents[2] / "integration"

sys.path.insert(0, str(_INTEGRATION))
_spec = importlib.util.spec_from_file_location("integration_fixtures", _INTEGRATION / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
globals().update({name: thing for name, thing in vars(_fixtures).items() if name[0] != "_"})
