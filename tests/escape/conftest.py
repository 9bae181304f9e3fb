"""The end-to-end tests' own fixtures, and an island as root makes it and as an ordinary user does."""

import importlib.util
import os
import pathlib
import sys

import pytest

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
stranger = _module.stranger


@pytest.fixture(params=["root", "user"])
def island(request):
    """cay as whoever runs the tests, and as an ordinary user with nothing delegated."""
    if request.param == "root":
        return request.getfixturevalue("cay")
    if os.geteuid() != 0:
        _module.must_work("the other one is an ordinary user already")
    user = request.getfixturevalue("stranger")
    run, start = user.run, user.start
    user.run = lambda *args, **more: run("--allow-degraded", *args, **more)
    user.start = lambda first, *args, **more: start(first, "--allow-degraded", *args, **more)
    return user


@pytest.fixture
def shared(scratch, config, root):
    """A host directory of somebody's that two islands may write to; with the settings for it."""
    import shutil
    import tempfile
    path = pathlib.Path(tempfile.mkdtemp(prefix="s-", dir=scratch))
    path.chmod(0o755)
    os.chown(path, 1234, 1234)
    path_config = config(f"[mounts]\nwrite = {path}\n")
    yield path, path_config
    shutil.rmtree(path)
