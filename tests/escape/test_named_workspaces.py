"""Attacks through workspaces that have a name: another key's, and copies of one that is in use."""

import os

import pytest

from attack import attack, told
from maker import Maker
from support import must_work, wait_until


@pytest.fixture(scope="module")
def daemon(scratch, binary_runs):
    if os.geteuid() != 0:
        must_work("only root has loop devices")
    maker = Maker(scratch)
    yield maker("root", "[workspaces]\nsize = 10m\n")
    maker.end()


@pytest.fixture(autouse=True)
def nothing_left():
    """What the daemon keeps ready comes and goes: what is left is looked at when it has ended."""


@pytest.fixture(scope="module")
def keys(daemon):
    return daemon.key("one")[0], daemon.key("two")[0]


OPERATIONS = (("GET", "", None), ("DELETE", "", None), ("POST", "/reset", None), ("POST", "/snapshots", {"name": "t"}),
              ("POST", "/restore", {"snapshot": "s"}), ("DELETE", "/snapshots/s", None), ("GET", "/archive", None))


@attack(39)
def test_another_keys_workspace(daemon, keys):
    """By its name and by its id, in every operation and as a sandbox's: there is none."""
    mine, other = keys
    made = daemon.post("/v1/workspaces", {"name": "mine"}, key=mine).ok(201)
    for which in ("mine", made["id"]):
        for method, what, body in OPERATIONS:
            daemon.request(method, f"/v1/workspaces/{which}{what}", body, key=other).refused(404, "not_found")
        daemon.post("/v1/sandboxes", {"workspace": {"name": which}}, key=other).refused(404, "not_found")
        told("not found")
    assert daemon.get("/v1/workspaces", key=other).ok()["workspaces"] == []
    # The control: the holder does find it, and another one of that name is another one.
    assert daemon.get("/v1/workspaces/mine", key=mine).ok()["id"] == made["id"]
    assert daemon.post("/v1/workspaces", {"name": "mine"}, key=other).ok(201)["id"] != made["id"]
    for key in keys:
        assert daemon.request("DELETE", "/v1/workspaces/mine", key=key).status == 204


@attack(39)
@pytest.mark.parametrize("name", ["..", "../cay.db", "/etc", "a/../../b", "wsp_0000000000000000.img", "sbx_0000000000000000"])
def test_names_that_are_paths(daemon, keys, name):
    """Names with slashes, dots and suffixes lead to no file: they are none, or not there."""
    before = sorted(p.name for p in (daemon.state / "workspaces").iterdir())
    for body in ({"name": name}, {"name": name, "size": "1m"}):
        assert daemon.post("/v1/workspaces", body, key=keys[0]).status == 400
    assert daemon.post("/v1/sandboxes", {"workspace": {"name": name}}, key=keys[0]).status in (400, 404)
    assert sorted(p.name for p in (daemon.state / "workspaces").iterdir()) == before
    told("no name")


@attack(39)
def test_a_copy_of_what_is_in_use(daemon, keys):
    """Snapshots, resets and deletion while a sandbox has it: refused, and what is there stays whole."""
    key = keys[0]
    daemon.post("/v1/workspaces", {"name": "used"}, key=key).ok(201)
    box = daemon.post("/v1/sandboxes", {"workspace": {"name": "used"}}, key=key).ok(201)["id"]
    run = daemon.post(f"/v1/sandboxes/{box}/runs", {"command": "echo 1 > f; sync"}, key=key).ok()
    assert run["status"] == "ok"
    for _ in range(3):
        daemon.post("/v1/workspaces/used/snapshots", {"name": "s"}, key=key).refused(409, "conflict")
        daemon.post("/v1/workspaces/used/reset", key=key).refused(409, "conflict")
        daemon.request("DELETE", "/v1/workspaces/used", key=key).refused(409, "conflict")
    told("refused")
    daemon.request("DELETE", f"/v1/sandboxes/{box}", key=key)
    wait_until(lambda: daemon.get("/v1/workspaces/used", key=key).ok()["sandbox"] is None, 20, "its end")
    # The control: now it can be.
    daemon.post("/v1/workspaces/used/snapshots", {"name": "s"}, key=key).ok(201)
    assert daemon.request("DELETE", "/v1/workspaces/used", key=key).status == 204
