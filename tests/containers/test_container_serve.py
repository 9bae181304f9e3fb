"""Containers of a daemon: runs and sandboxes by `"engine"`, with all that sandboxes have."""

import sys
import pathlib

import pytest

from test_container_run import IMAGE
from debian import python_root
from support import wait_until

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "serve")]

from maker import Maker  # noqa: E402: by the path above


@pytest.fixture(scope="module")
def engines(docker, podman):
    """By name, with the image."""
    for engine in (docker, podman):
        if not engine.call("images", "-q", IMAGE):
            engine.bring(IMAGE, python_root().read_bytes())
    return {engine.name: engine for engine in (docker, podman)}


@pytest.fixture(scope="module")
def daemon(engines, scratch, binary_runs):
    maker = Maker(scratch)
    settings = "".join(f"[{e.name}]\nsocket = {e.socket}\n" for e in engines.values())
    yield maker("root", settings)
    maker.end()
    for engine in engines.values():
        assert engine.containers("label=cay") == []
        engine.settle()


@pytest.fixture(autouse=True)
def nothing_left():
    """It is looked at when the daemon has ended."""


@pytest.fixture(params=["docker", "podman"])
def name(request):
    return request.param


@pytest.fixture
def sandbox(daemon, name):
    with daemon.sandbox(engine=name, image=IMAGE) as made:
        yield made


def test_run(daemon, name):
    r = daemon.run("print(open('in').read()); open('out', 'w').write('o')", engine=name, image=IMAGE,
                   files=[{"path": "in", "text": "i"}], get=["out"])
    assert (r["stdout"], r["engine"], r["status"]) == ("i\n", name, "ok")
    assert [f["path"] for f in r["files"]] == ["out"] and r["isolation"]["memory"].startswith("cgroup")
    r = daemon.run("import time; print(1, flush=True); time.sleep(99)", engine=name, image=IMAGE, limits={"timeout": 1})
    assert (r["status"], r["stdout"]) == ("timeout", "1\n")
    r = daemon.run("x = bytearray(200 << 20)", engine=name, image=IMAGE, limits={"memory": "64m"})
    assert r["status"] == "out_of_memory"


def test_sandbox(daemon, sandbox, name):
    shown = sandbox.show()
    assert (shown["engine"], shown["state"]) == (name, "live")
    assert sandbox.python("open('f', 'w').write('kept')")["status"] == "ok"
    assert sandbox.sh("cat f; echo err >&2; exit 3")["stdout"] == "kept"
    assert sandbox.read("f").body == b"kept"
    sandbox.write("g", b"put")
    r = sandbox.sh("cat g; sleep 999 & sleep 999", limits={"timeout": 1})
    assert (r["status"], r["stdout"]) == ("timeout", "put")
    assert sandbox.sh("echo on")["stdout"] == "on\n"
    assert sorted(sandbox.names()) == ["f", "g"]


def test_context(sandbox):
    for code, shown in (("y = 41", None), ("print('a' * 100000); y + 1", "42")):
        r = sandbox.run("python", code, context="c")
        assert r["status"] == "ok" and [v["text/plain"] for v in r["results"]] == ([shown] if shown else [])
    assert len(r["stdout"]) == 100001, "what it printed before it was done"
    r = sandbox.run("python", "import time\ntime.sleep(99)", context="c", limits={"timeout": 1})
    assert r["status"] == "timeout"


def test_pause(sandbox):
    assert sandbox.request("POST", "/pause").ok()["state"] == "paused"
    sandbox.request("POST", "/runs", {"argv": ["true"]}).refused(409, "conflict")
    assert sandbox.request("POST", "/resume").ok()["state"] == "live"
    assert sandbox.sh("echo on")["stdout"] == "on\n"


def test_what_can_not_be_had(daemon, name):
    for more in ({"network": {"mode": "full"}}, {"image": "host"}):
        answer = daemon.post("/v1/runs", dict({"code": "1", "engine": name, "image": IMAGE}, **more))
        assert answer.error["code"] == "unsupported", more


def test_left_by_one_that_was_killed(daemon, engines, name):
    """Its containers end with it; those that are left are removed by the next, and no others."""
    engine = engines[name]
    other = engine.call("create", "--label", "cay=other", "--label", "cay.owner=other", IMAGE, "true", text=True).strip()
    try:
        with daemon.sandbox(engine=name, image=IMAGE):
            assert len(engine.containers("label=cay")) == 2
            daemon.kill9("serve")
            daemon.process.wait(30)
            daemon.start()
        wait_until(lambda: engine.containers("label=cay") == [other], 30, "the end of what it left")
    finally:
        engine.call("rm", "-f", other)
