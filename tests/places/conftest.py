"""The fixtures of tests/integration, for the tests of this directory too; and a delegated cgroup."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from support import PURE_V2, STRANGER, remove_cgroups  # noqa: E402

_CGROUPS = pathlib.Path("/sys/fs/cgroup")


def pytest_configure(config):
    config.addinivalue_line("markers", "cgroups(kind): is about v1 or v2; tests/vm runs those of v2")


def pytest_collection_modifyitems(config, items):
    """What is about the other kind of cgroups is left to where there is that."""
    here = "v2" if PURE_V2 else "v1"
    other = [i for i in items if (m := i.get_closest_marker("cgroups")) and m.args[0] != here]
    if other:
        config.hook.pytest_deselected(items=other)
        items[:] = [i for i in items if i not in other]


# As a service manager does it: for each run a directory of its own, given away. $1: the top.
_ENTER_V2 = f"""d=$1/$$; shift; mkdir $d && chown {STRANGER} $d $d/cgroup.procs $d/cgroup.subtree_control \
$d/cgroup.threads && echo $$ >$d/cgroup.procs && exec "$@" """
# One directory in each hierarchy is enough, which has been given away. $1: its name.
_ENTER_V1 = """n=$1; shift; for h in memory pids cpu unified; do
echo $$ >/sys/fs/cgroup/$h/$n/cgroup.procs || exit; done; exec "$@" """


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
        remove_cgroups(top)
