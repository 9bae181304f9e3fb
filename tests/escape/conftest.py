"""The end-to-end tests' own fixtures, and an island as root makes it and as an ordinary user does."""

import dataclasses
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

# chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service: of the island alone.
ROOT_CAPABILITIES = 0x4fb

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("integration", "egress", "serve", "images", "places"))]

from fixtures import *  # noqa: E402, F401, F403: by the path above
from image_fixtures import *  # noqa: E402, F401, F403
from world_fixtures import *  # noqa: E402, F401, F403
from maker import Maker, left_behind  # noqa: E402
from attack import ATTACKS, rounds, take_told  # noqa: E402: after the paths are set
from support import STRANGER, must_work, traces  # noqa: E402
from table import Outcome, lines, write_table  # noqa: E402
from warm import WarmCay, arrange  # noqa: E402
from zygotes import warm_up  # noqa: E402


@pytest.fixture(params=["root", "user", "root inside", "warm"])
def island(request):
    """cay as whoever runs the tests, and as an ordinary user with nothing delegated; with a root inside; and where
    a daemon clones interpreters."""
    if request.param == "root":
        return request.getfixturevalue("cay")
    if request.param == "warm":
        return request.getfixturevalue("warm")
    if request.param == "root inside":
        inside = with_options(request.getfixturevalue("cay"), "--user", "root")
        inside.uid, inside.capabilities = 0, ROOT_CAPABILITIES
        return inside
    if os.geteuid() != 0:
        must_work("the other one is an ordinary user already")
    return with_options(request.getfixturevalue("stranger"), "--allow-degraded")


def with_options(cay, *options):
    run, start = cay.run, cay.start
    cay.run = lambda *args, **more: run(*options, *args, **more)
    cay.start = lambda first, *args, **more: start(first, *options, *args, **more)
    return cay


@pytest.fixture(scope="session")
def warm_daemon(scratch, nothing_left_at_the_end):
    """With a zygote that bears."""
    maker = Maker(scratch)
    yield warm_up(maker())
    maker.end()


@pytest.fixture
def warm(warm_daemon, scratch, place):
    """cay whose runs are that daemon's, and warm wherever they can be."""
    cay = WarmCay(warm_daemon, place, scratch / "home", scratch / "tmp")
    yield cay
    cay.check()


@pytest.fixture(autouse=True)
def nothing_left(scratch, nothing_left_at_the_end):
    """A daemon that is warm keeps islands ready, which come and go: those are looked at when it has ended."""
    before = traces(scratch / "tmp")
    yield
    left = left_behind(before, scratch / "tmp")
    assert not left, f"left behind: {left}"


@pytest.fixture
def shared(scratch, config, root):
    """A host directory of somebody's that two islands may write to; with the settings for it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="s-", dir=scratch))
    path.chmod(0o755)
    os.chown(path, 1234, 1234)
    path_config = config(f"[mounts]\nwrite = {path}\n")
    yield path, path_config
    shutil.rmtree(path)


@pytest.fixture
def workspace(island, shared):
    """A directory that the island may write to, and the options and settings that mount it there."""
    path, path_config = shared
    if island.prefix:
        os.chown(path, STRANGER, STRANGER)
    return Workspace(path, path.stat().st_uid, ("--workspace", f"{path}:rw"), path_config)


@pytest.fixture
def race_rounds():
    return rounds()


@dataclasses.dataclass
class Workspace:
    path: pathlib.Path
    owner: int
    options: tuple
    config: pathlib.Path


# One line for each attack at the end, and README's table.

outcomes = {}


def pytest_configure(config):
    config.addinivalue_line("markers", "attack(number): a test of the attack with that number")


def pytest_addoption(parser):
    parser.addoption("--write-table", action="store_true",
                     help="write README's table of attacks, if all of them were refused")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=arrange(items))


@pytest.fixture(autouse=True)
def told_afresh():
    take_told()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    mark = item.get_closest_marker("attack")
    if mark is None or (report.when != "call" and report.passed):
        return
    key = mark.args[0], item.function.__module__, item.function.__name__
    outcome = outcomes.setdefault(key, Outcome(mark.args[0], item.function.__doc__))
    outcome.add("limit" if hasattr(report, "wasxfail") else report.outcome, take_told())


def pytest_terminal_summary(terminalreporter, config):
    if not outcomes:
        return
    terminalreporter.section("attacks")
    for line in lines(outcomes.values()):
        terminalreporter.write_line(line)
    if config.getoption("--write-table"):
        terminalreporter.write_line(write_table(ATTACKS, outcomes.values()))
