"""Sandboxes whose workspace is an overlay: what they changed, and how it comes back, by API and by cay diff and apply."""

import json
import os
import pathlib
import tempfile

import pytest

from sandbox import Sandbox, query
from support import OURS
from typed import cli  # noqa: F401: a fixture


@pytest.fixture(scope="module")
def trees(scratch):
    """Where directories are made that may be mounted and written to."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="o-", dir=scratch))
    path.chmod(0o777)
    return path


@pytest.fixture(scope="module", params=["root", "user"])
def daemon(request, scratch, trees, binary_runs):
    from maker import Maker
    maker = Maker(scratch)
    yield maker(request.param, f"[mounts]\nwrite = {trees}\n")
    maker.end()


@pytest.fixture
def tree(daemon, trees):
    path = pathlib.Path(tempfile.mkdtemp(prefix="t-", dir=trees))
    path.chmod(0o755)
    (path / "sub").mkdir()
    for name, text in {"a": "a\n", "b": "b\n", "sub/c": "c\n"}.items():
        (path / name).write_text(text)
    owner = os.stat(daemon.place)
    for p in (path, *path.rglob("*")):
        os.chown(p, owner.st_uid, owner.st_gid)
    return path


@pytest.fixture
def layered(daemon, tree):
    with daemon.sandbox(workspace={"source": str(tree), "access": "overlay"}) as box:
        yield box


def diff(box):
    answer = box.request("GET", "/workspace/diff").ok()
    return {c["path"]: c["change"] for c in answer["changes"]}


def changed(box, path, **params):
    return box.request("GET", f"/workspace/files{query(path=path, **params)}")


def test_the_diff_has_what_commands_changed(layered, tree):
    assert diff(layered) == {}
    layered.sh("echo more >> a; rm b; mkdir n; echo 1 > n/f; ln -s a l; touch sub/c")
    answer = layered.request("GET", "/workspace/diff").ok()
    assert answer["source"] == str(tree) and not answer["truncated"] and answer["unreadable"] == 0
    assert answer["since"] == layered.show()["created"]
    assert diff(layered) == {"a": "changed", "b": "deleted", "n": "added", "n/f": "added", "l": "added"}
    entry = {c["path"]: c for c in answer["changes"]}
    assert entry["a"]["size"] == 7 and entry["l"]["target"] == "a" and entry["n"]["type"] == "directory"
    assert (tree / "a").read_text() == "a\n" and (tree / "b").exists()


def test_changes_undone_are_none(layered):
    layered.sh("echo x > a; mkdir d; touch d/x")
    layered.sh("echo a > a; rm -r d")
    assert diff(layered) == {}


def test_a_directory_made_anew_has_what_it_has(layered):
    layered.sh("rm -r sub; mkdir sub; echo 2 > sub/d")
    assert diff(layered) == {"sub/c": "deleted", "sub/d": "added"}
    layered.sh("rm -r sub; echo file > sub")
    assert diff(layered) == {"sub": "changed"}


def test_a_changed_file_is_read_by_no_link(layered):
    layered.sh("echo new > a; ln -s a l; ln -s sub s; ln -s /etc e; echo d > sub/d")
    assert changed(layered, "a").body == b"new\n"
    assert changed(layered, "a", ).headers["x-cay-mode"] == "0644"
    assert changed(layered, "sub/d").body == b"d\n"
    for path in ("l", "s/d", "e/passwd", "../upper/a", "/etc/passwd", "sub/../a", "b", "sub"):
        assert changed(layered, path).status in (400, 404, 409), path


def test_without_an_overlay_there_is_no_diff(daemon):
    with daemon.sandbox() as box:
        assert box.request("GET", "/workspace/diff").error["code"] == "unsupported"
        assert changed(box, "a").error["code"] == "unsupported"


def test_a_layer_does_not_outlive_its_island(daemon, tree):
    answer = daemon.post("/v1/sandboxes", {"persistent": True,
                                           "workspace": {"source": str(tree), "access": "overlay"}})
    assert answer.error["code"] == "unsupported"


def test_others_find_nothing(daemon, tree, layered):
    key, _ = daemon.key("other")
    for path in ("diff", "files?path=a"):
        daemon.get(f"{layered.url}/workspace/{path}", key=key).refused(404, "not_found")


# The command line

@pytest.fixture
def named(daemon, cli, tree):
    """Of whoever types."""
    yield Sandbox(daemon, cli("create", "--name", "layered", "--workspace", f"{tree}:overlay").ok().text.strip())
    cli("rm", "layered").ok()


def test_cay_create_diff_and_apply(cli, tree):
    cli("create", "--name", "made", "--workspace", f"{tree}:overlay").ok()
    try:
        cli("exec", "made", "--", "sh", "-c", "echo more >> a; rm b; mkdir n; echo 1 > n/f; chmod 755 sub/c").ok()
        assert cli("diff", "made").ok().text.split() == [
            "changed", "7", "bytes", "a", "deleted", "-", "b", "added", "-", "n/", "added", "2", "bytes", "n/f",
            "changed", "2", "bytes", "sub/c"]
        assert len(json.loads(cli("diff", "--json", "made").ok().text)["changes"]) == 5
        done = cli("apply", "made", "a", "n/f").ok()
        assert "3 changes brought back" in done.errors
        assert (tree / "a").read_text() == "a\nmore\n" and (tree / "n/f").read_text() == "1\n" and (tree / "b").exists()
        assert "2 changes brought back" in cli("apply", "made").ok().errors
        assert cli("diff", "made").ok().text == "" and "nothing was changed" in cli("apply", "made").ok().errors
        assert not (tree / "b").exists() and (tree / "sub/c").stat().st_mode & 0o777 == 0o755
        assert (tree / "n/f").stat().st_uid == tree.stat().st_uid
    finally:
        cli("rm", "made").ok()


def test_conflicts_are_told_and_stay(cli, named, tree):
    named.sh("echo mine > a; rm b; rm -r sub; echo new > n; echo same > s")
    (tree / "a").write_text("theirs\n")
    (tree / "sub/c").write_text("theirs\n")
    (tree / "n").write_text("theirs\n")
    (tree / "s").write_text("same\n")
    (tree / "s").chmod(0o644)
    done = cli("apply", "layered")
    assert done.rc == OURS
    for path in ("a", "sub", "n"):
        assert any(line.startswith(f"cay: {path}: it was changed here since") for line in done.said), done.errors
    assert "3 of 4 changes were not brought back" in done.errors
    assert (tree / "a").read_text() == "theirs\n" and not (tree / "b").exists() and (tree / "sub/c").exists()
    cli("apply", "--force", "layered").ok()
    assert (tree / "a").read_text() == "mine\n" and (tree / "n").read_text() == "new\n" and not (tree / "sub").exists()


def test_apply_to_another_directory(cli, named, tree, trees):
    to = trees / "other"
    to.mkdir()
    owner = tree.stat()
    os.chown(to, owner.st_uid, owner.st_gid)
    named.sh("mkdir n; echo 1 > n/f; rm b")
    cli("apply", "--to", to, "layered").ok()
    assert (to / "n/f").read_text() == "1\n" and (tree / "b").exists() and not (tree / "n").exists()
    (to / "n/f").unlink()
    (to / "n").rmdir()
    to.rmdir()


def test_apply_is_the_operators_to_allow(daemon, cli, named, tree, scratch):
    """Where the settings of who applies do not let that directory be written to."""
    named.sh("echo x > a")
    strict = scratch / "strict.conf"
    strict.write_text(f"[mounts]\nread = {tree}\n")
    strict.chmod(0o644)
    done = daemon.cay("apply", "layered", env=cli.env, config=strict)
    assert done.rc == OURS and "may only be mounted read-only" in done.errors and (tree / "a").read_text() == "a\n"


def test_apply_names_what_is_not_there(cli, named):
    named.sh("echo x > a")
    assert "nothing was changed there" in cli("apply", "layered", "b").errors
    assert "which sandbox" in cli("apply").errors and "which sandbox" in cli("diff").errors
