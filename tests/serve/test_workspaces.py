"""Workspaces with a name: kept by the daemon, one sandbox's at a time, with snapshots; by API and by cay workspace."""

import contextlib
import io
import os
import signal
import sqlite3
import tarfile

import pytest

from sandbox import Sandbox
from support import OURS, must_work, wait_until
from typed import cli  # noqa: F401: a fixture

SIZE = 20 << 20


@pytest.fixture(scope="module")
def daemon(request, scratch, binary_runs):
    from maker import Maker
    if os.geteuid() != 0:
        must_work("only root has loop devices")
    maker = Maker(scratch)
    yield maker("root", "[workspaces]\nmax = 4\nsize = 20m\nmax_size = 100m\n")
    maker.end()


def images(daemon):
    return sorted(p.name for p in (daemon.state / "workspaces").iterdir())


@contextlib.contextmanager
def workspace(daemon, name="w", key=None, **more):
    made = daemon.post("/v1/workspaces", {"name": name, **more}, key=key).ok(201)
    try:
        yield made
    finally:
        for box in daemon.get("/v1/sandboxes").ok()["sandboxes"]:
            daemon.delete(f"/v1/sandboxes/{box['id']}")
        wait_until(lambda: daemon.delete(f"/v1/workspaces/{made['id']}").status in (204, 404), 20, "its end")
        wait_until(lambda: not images(daemon), 20, "the end of its images")


@pytest.fixture
def made(daemon):
    with workspace(daemon) as found:
        yield found


def using(daemon, name="w", **more):
    return daemon.sandbox(workspace={"name": name}, **more)


def url(what="", name="w"):
    return f"/v1/workspaces/{name}{what}"


def wait_unused(daemon, name="w"):
    wait_until(lambda: daemon.get(url(name=name)).ok()["sandbox"] is None, 20, "the end of its sandbox")


def fill(daemon, line, name="w"):
    with using(daemon, name) as box:
        done = box.sh(line)
        assert done["status"] == "ok", done
    wait_unused(daemon, name)
    return done["stdout"]


def test_it_outlives_its_sandboxes(daemon, made):
    assert made["size"] == SIZE and made["sandbox"] is None and made["snapshots"] == []
    fill(daemon, "echo 1 > f; id -u; mkdir d; ln -s f l")
    assert fill(daemon, "cat f; stat -c %U f l d") == "1\ncay\ncay\ncay\n"
    shown = daemon.get(url()).ok()
    assert shown["last_used"] >= made["created"] and shown["id"] == made["id"]
    assert [w["name"] for w in daemon.get("/v1/workspaces").ok()["workspaces"]] == ["w"]


def test_it_has_a_size(daemon, made):
    assert "No space" in fill(daemon, "head -c 30000000 /dev/zero > f 2>/tmp/e; cat /tmp/e; rm f")
    daemon.post("/v1/sandboxes", {"workspace": {"name": "w"}, "limits": {"disk": "50m"}}).refused(400, "invalid_request")
    daemon.post("/v1/workspaces", {"name": "x", "size": "200m"}).refused(403, "policy_denied")
    daemon.post("/v1/workspaces", {"name": "x", "size": "1k"}).refused(400, "invalid_request")


def test_one_sandbox_at_a_time(daemon, made):
    with using(daemon) as box:
        error = daemon.post("/v1/sandboxes", {"workspace": {"name": "w"}}).refused(409, "conflict")
        assert box.id in error["message"]
        assert daemon.get(url()).ok()["sandbox"] == box.id
        for method, what, body in (("POST", "/snapshots", {"name": "s"}), ("POST", "/restore", {"snapshot": "s"}),
                                   ("POST", "/reset", None), ("DELETE", "", None)):
            assert daemon.request(method, url(what), body).failure == (409, "conflict"), what


def test_snapshots_bring_back_what_was(daemon, made):
    daemon.post(url("/snapshots"), {"name": "s"}).refused(409, "conflict")  # nothing was ever there
    fill(daemon, "echo 1 > f")
    daemon.post(url("/snapshots"), {"name": "s"}).ok(201)
    daemon.post(url("/snapshots"), {"name": "s"}).refused(409, "conflict")
    fill(daemon, "echo 2 > f; echo 2 > g")
    assert daemon.post(url("/restore"), {"snapshot": "s"}).ok()["snapshots"][0]["name"] == "s"
    assert fill(daemon, "cat f; ls; echo 3 > f") == "1\nf\n"
    daemon.post(url("/restore"), {"snapshot": "s"}).ok()
    assert fill(daemon, "cat f") == "1\n"
    daemon.post(url("/restore"), {"snapshot": "other"}).refused(404, "not_found")
    assert daemon.delete(url("/snapshots/s")).status == 204
    assert daemon.get(url()).ok()["snapshots"] == []
    wait_until(lambda: len(images(daemon)) == 1, 20, "the end of the snapshot")


def test_reset_empties_it(daemon, made):
    fill(daemon, "echo 1 > f")
    daemon.post(url("/reset")).ok()
    assert fill(daemon, "ls") == ""


def test_download_as_an_archive(daemon, made):
    fill(daemon, "mkdir d; echo 1 > d/f")

    def names():
        answer = daemon.get(url("/archive"))
        assert answer.status == 200, answer.body
        return sorted(m.name.rstrip("/") for m in tarfile.open(fileobj=io.BytesIO(answer.body)))
    assert names() == ["d", "d/f"]
    wait_unused(daemon)
    with using(daemon) as box:
        box.sh("echo 2 > g")
        assert names() == ["d", "d/f", "g"] and box.show()["state"] == "live"
    daemon.get(url("/archive?format=rar")).refused(400, "invalid_request")


def test_quotas(daemon, made):
    for name in ("a", "b", "c"):
        daemon.post("/v1/workspaces", {"name": name}).ok(201)
    daemon.post("/v1/workspaces", {"name": "d"}).refused(429, "rate_limited")
    assert {w["name"] for w in daemon.get("/v1/workspaces").ok()["workspaces"]} == {"w", "a", "b", "c"}
    for name in ("a", "b", "c"):
        assert daemon.delete(url(name=name)).status == 204
    daemon.post("/v1/workspaces", {"name": "w"}).refused(409, "conflict")


@pytest.mark.parametrize("name", ["", "a/b", "..", "wsp_0000000000000000", "sbx_0000000000000000", "x" * 100, 5])
def test_names_are_no_paths(daemon, name):
    assert daemon.post("/v1/workspaces", {"name": name}).failure == (400, "invalid_request")


def test_what_a_sandbox_can_not_ask_for(daemon, made):
    for bad in ({"name": "w", "source": "/tmp"}, {"name": "w", "access": "ro"}, {"name": "w", "access": "overlay"}):
        assert daemon.post("/v1/sandboxes", {"workspace": bad}).failure == (400, "invalid_request"), bad
    assert daemon.post("/v1/runs", {"code": "1", "workspace": {"name": "w"}}).failure == (400, "invalid_request")
    daemon.post("/v1/sandboxes", {"workspace": {"name": "nosuch"}}).refused(404, "not_found")


def test_a_persistent_sandbox_keeps_it(daemon, made):
    with using(daemon, persistent=True) as box:
        box.sh("echo 1 > f")
        daemon.post("/v1/sandboxes", {"workspace": {"name": "w"}}).refused(409, "conflict")
    wait_unused(daemon)
    assert fill(daemon, "cat f") == "1\n"


def test_they_are_there_after_a_crash(daemon, made):
    """kill -9 of all of it: what counts is there, and what does not is swept."""
    fill(daemon, "echo 1 > f")
    daemon.post(url("/snapshots"), {"name": "s"}).ok(201)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    (daemon.state / "workspaces" / "wsp_0000000000000000.new").write_bytes(b"half")
    (daemon.state / "workspaces" / "wsp_1111111111111111.img").write_bytes(b"nobody's")
    daemon.start()
    wait_until(lambda: len(images(daemon)) == 2, 20, "the sweep")
    assert fill(daemon, "cat f") == "1\n"
    daemon.post(url("/restore"), {"snapshot": "s"}).ok()


# The command line

def test_cay_workspace(cli, daemon, tmp_path):
    cli("workspace", "create", "--size", "30m", "typed").ok()
    try:
        name = cli("create", "--workspace-name", "typed").ok().text.strip()
        cli("exec", name, "--", "sh", "-c", "echo 1 > f").ok()
        assert name in cli("workspace", "list").ok().text and "in use" in cli("workspace", "reset", "typed").errors
        cli("rm", name).ok()
        wait_unused(daemon, "typed")
        cli("workspace", "snapshot", "typed", "before").ok()
        assert "before" in cli("workspace", "list").ok().text
        cli("workspace", "reset", "typed").ok()
        cli("workspace", "restore", "typed", "before").ok()
        cli("workspace", "download", "typed", tmp_path / "w.tar").ok()
        assert tarfile.open(tmp_path / "w.tar").extractfile("f").read() == b"1\n"
        wait_unused(daemon, "typed")
        cli("workspace", "rm", "typed", "before").ok()
        assert cli("workspace", "list", "--json").ok().out.count(b'"snapshots"') == 1
    finally:
        wait_until(lambda: cli("workspace", "rm", "typed").rc == 0, 20, "its end")
    for args in ((), ("nosuch",), ("rm",), ("snapshot", "typed"), ("list", "x"), ("create", "a", "b")):
        assert cli("workspace", *args).rc == OURS, args


# How long, and by whom

def test_those_that_nobody_uses_go(make_daemon):
    """[workspaces] keep_days: by when a sandbox last had it."""
    daemon = make_daemon("root", "[workspaces]\nkeep_days = 2\nsize = 10m\n")
    for name in ("old", "new"):
        daemon.post("/v1/workspaces", {"name": name}).ok(201)
        fill(daemon, "echo 1 > f", name)
    daemon.post(url("/snapshots", "old"), {"name": "s"}).ok(201)
    daemon.stop()
    with contextlib.closing(sqlite3.connect(next(daemon.state.rglob("*.db")))) as db, db:
        assert db.execute("UPDATE workspaces SET last_used = last_used - 3 * 86400000 WHERE name = 'old'").rowcount == 1
    daemon.start()
    wait_until(lambda: [w["name"] for w in daemon.get("/v1/workspaces").ok()["workspaces"]] == ["new"], 30, "its end")
    wait_until(lambda: len(images(daemon)) == 1, 20, "the end of its images")


def test_an_ordinary_users_are_directories(make_daemon):
    daemon = make_daemon("user", "[workspaces]\nsize = 10m\n")
    daemon.post("/v1/workspaces", {"name": "w"}).ok(201)
    fill(daemon, "echo 1 > f")
    assert fill(daemon, "cat f") == "1\n"
    daemon.post(url("/snapshots"), {"name": "s"}).refused(422, "unsupported")
    daemon.post(url("/reset")).ok()
    assert fill(daemon, "ls") == ""
    assert daemon.delete(url()).status == 204
