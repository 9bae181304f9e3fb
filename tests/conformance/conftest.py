"""All ways to ask, ready to be asked: daemons and directories of their own, with nothing left of them."""

import os
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in (
    "serve", "containers", "places", "images", "integration"))]

from in_containers import IMAGE  # noqa: E402: by the path above
from debian import python_root  # noqa: E402
from engines import docker_engine, podman_engine  # noqa: E402
from fixtures import *  # noqa: E402, F401, F403: by the path above
from maker import Maker  # noqa: E402
from support import Cay, STRANGER, must_work  # noqa: E402
from ways import Places, SETTINGS, ways_of  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_left():
    """A daemon keeps islands ready, which come and go: what is left is looked at when it has ended."""


@pytest.fixture(scope="module")
def engines():
    with docker_engine() as docker, podman_engine() as podman:
        for engine in (docker, podman):
            engine.bring(IMAGE, python_root().read_bytes())
        yield docker, podman
        for engine in (docker, podman):
            assert engine.containers() == []


@pytest.fixture(scope="module")
def ways(scratch, binary_runs, engines):
    if os.geteuid() != 0:
        must_work("only root can be another user, without a sandbox")
    # What whoever started us ignores would be ignored by programs without a sandbox.
    for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGQUIT, signal.SIG_DFL),
                            (signal.SIGINT, signal.default_int_handler)):
        signal.signal(number, handler)
    maker = Maker(scratch)
    stranger = Cay(scratch, scratch / "home", scratch / "tmp")
    stranger.prefix = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    own = scratch / "home" / ".config" / "cay" / "cay.conf"
    own.parent.mkdir(parents=True)
    own.write_text(SETTINGS)
    yield ways_of(Cay(scratch, scratch / "home", scratch / "tmp"), stranger, Places(scratch), maker(settings=SETTINGS),
                  maker(settings=f"{SETTINGS}[serve]\nmode = off\ndirect_user = {STRANGER}\n"), engines)
    own.unlink()
    maker.end()
