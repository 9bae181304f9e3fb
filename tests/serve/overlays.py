"""A daemon with a directory that may be mounted, and what the API says of an overlay over it."""

import pytest

from maker import Maker
from support import wait_until


@pytest.fixture(scope="module")
def below(scratch):
    """A directory that may be mounted."""
    path = scratch / "below"
    path.mkdir()
    (path / "f").write_text("f\n")
    return path


@pytest.fixture(scope="module")
def daemon(request, scratch, below, binary_runs):
    maker = Maker(scratch)
    yield maker(request.param, f"[mounts]\nread = {below}\n")
    maker.end()


def workspace(api):
    below = api.daemon.place.parent / "below"
    id = api("sandbox.create", {"workspace": {"source": str(below), "access": "overlay"}}, status=201).json["id"]
    api("file.write", b"new", id=id, path="f")
    assert api("workspace.diff", id=id).json["changes"][0]["change"] == "changed"
    assert api("workspace.read", id=id, path="f").body == b"new"
    assert api("workspace.read", id=id, path="f", headers={"Range": "bytes=1-1"}, status=206).body == b"e"
    api("workspace.read", id=id, path="nosuch", status=404)
    api("workspace.read", id=id, path="../f", status=400)
    api("sandbox.delete", id=id)


NAMED = ("workspace.list", "workspace.create", "workspace.get", "workspace.remove", "workspace.reset",
         "workspace.snapshot", "workspace.forget", "workspace.restore", "workspace.archive")


def named(api):
    def unused():
        wait_until(lambda: api("workspace.get", name="w").json["sandbox"] is None, 20, "the end of its sandbox")
    api("workspace.create", {"name": "w", "size": "10m"}, status=201)
    api("workspace.create", {"name": "w"}, status=409)
    id = api("sandbox.create", {"workspace": {"name": "w"}}, status=201).json["id"]
    assert api("workspace.list").json["workspaces"][0]["sandbox"] == id
    api("workspace.reset", name="w", status=409)
    api("file.write", b"x", id=id, path="f", status=201)
    assert b"f" in api("workspace.archive", name="w", format="tar").body
    api("sandbox.delete", id=id)
    unused()
    assert api("workspace.snapshot", {"name": "s"}, name="w", status=201).json["name"] == "s"
    api("workspace.restore", {"snapshot": "s"}, name="w")
    api("workspace.forget", name="w", snapshot="s", status=204)
    api("workspace.reset", name="w")
    api("workspace.remove", name="w", status=204)
    api("workspace.get", name="w", status=404)
