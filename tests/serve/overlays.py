"""A daemon with a directory that may be mounted, and what the API says of an overlay over it."""

import pytest

from maker import Maker


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
