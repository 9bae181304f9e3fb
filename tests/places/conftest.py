"""The fixtures of tests/integration, for the tests of this directory too; and a delegated cgroup."""

import importlib.util
import os
import pathlib
import sys
import time

import pytest

_INTEGRATION = pathlib.Path(__file__).resolve().parents[1] / "integration"

sys.path.insert(0, str(_INTEGRATION))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
_spec = importlib.util.spec_from_file_location("integration_fixtures", _INTEGRATION / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
globals().update({name: thing for name, thing in vars(_fixtures).items() if name[0] != "_"})

from support import STRANGER  # noqa: E402, by the path above

_CGROUPS = pathlib.Path("/sys/fs/cgroup")
PURE_V2 = (_CGROUPS / "cgroup.controllers").exists()

# As a service manager does it: for each run a directory of its own, given away. $1: the top.
_ENTER_V2 = f"""d=$1/$$; shift; mkdir $d && chown {STRANGER} $d $d/cgroup.procs $d/cgroup.subtree_control \
$d/cgroup.threads && echo $$ >$d/cgroup.procs && exec "$@" """
# One directory in each hierarchy is enough, which has been given away. $1: its name.
_ENTER_V1 = """n=$1; shift; for h in memory pids cpu unified; do
echo $$ >/sys/fs/cgroup/$h/$n/cgroup.procs || exit; done; exec "$@" """


def _remove(top):
    for directory, _, _ in os.walk(top, topdown=False):
        for _ in range(200):
            try:
                os.rmdir(directory)
                break
            except OSError:
                time.sleep(0.02)
        else:
            os.rmdir(directory)


@pytest.fixture
def delegated(stranger):
    """The ordinary user, with a cgroup of their own: v2 where that is all there is, else v1."""
    name = f"delegated-{os.getpid()}"
    if PURE_V2:
        tops = [_CGROUPS / name]
        (_CGROUPS / "cgroup.subtree_control").write_text("+memory +pids +cpu")
        tops[0].mkdir()
        (tops[0] / "cgroup.subtree_control").write_text("+memory +pids +cpu")
        enter = [_ENTER_V2, "sh", str(tops[0])]
    else:
        tops = [_CGROUPS / h / name for h in ("memory", "pids", "cpu", "unified")]
        for top in tops:
            top.mkdir()
            for path in (top, *top.iterdir()):
                os.chown(path, STRANGER, STRANGER)
        enter = [_ENTER_V1, "sh", name]
    stranger.prefix = ["sh", "-c", *enter, *stranger.prefix]
    yield stranger
    for top in tops:
        _remove(top)
