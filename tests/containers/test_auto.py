"""--engine auto: who names no engine gets one that can enforce it all, and is told which and why."""

import json
import os

import pytest

from debian import python_root

PYTHON = "localhost/cay-test:python"
USUAL = "python:3.12-slim"  # what Python has where no image is named


@pytest.fixture
def reached(engine):
    """The engine, as one whose socket an ordinary user may use; the usual image is Debian's."""
    engine.bring(PYTHON, python_root().read_bytes())
    engine.call("tag", PYTHON, USUAL)
    place = os.path.dirname(engine.socket)
    os.chmod(place, 0o755)
    os.chmod(engine.socket, 0o666)
    yield engine
    os.chmod(engine.socket, 0o600)
    os.chmod(place, 0o700)
    engine.call("rmi", USUAL)
    engine.settle()


def test_native_where_it_can(cay, reached):
    done = json.loads(cay.run("--json", "-c", "print(42)", env=reached.environment).ok().out)
    assert (done["engine"], done["engine_reason"]) == ("native", "")


def test_another_where_native_can_not(stranger, reached):
    """An ordinary user without cgroups: no limit would hold."""
    done = json.loads(stranger.run("--json", "-c", "print(42)", env=reached.environment, timeout=120).ok().out)
    assert (done["engine"], done["stdout"], done["isolation"]["degraded"]) == (reached.name, "42\n", [])
    assert done["engine_reason"].startswith("auto: not native, as ") and "memory" in done["engine_reason"]


def test_native_by_name(stranger, reached):
    error = stranger.refused("--engine", "native", "-c", "print(42)", env=reached.environment)
    assert error["code"] == "not_enforceable"


def test_nobody_can(stranger, place):
    none = {name: f"unix://{place}/none" for name in ("DOCKER_HOST", "CONTAINER_HOST")}
    error = stranger.refused("-c", "print(42)", env=none)
    assert error["code"] == "not_enforceable" and "--allow-degraded" in error["hint"]
