"""--workspace SRC:overlay: what a program changes is in a layer, is shown by --diff, and comes back by --apply."""

import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from support import OURS, must_work

CHANGE = """
echo new > c; echo more >> a; rm -r dd; ln -sf keep link; touch keep; mkdir -p n/m; echo q > n/m/f; chmod 755 mode
rm -r sub; mkdir sub; echo 2 > sub/new; mkfifo pipe; rm -r asdir; echo file > asdir; rm asfile; mkdir asfile"""


@pytest.fixture
def tree(place):
    path = place / "tree"
    for name in ("sub", "dd", "asdir"):
        (path / name).mkdir(parents=True)
    for name, text in {"a": "hi\n", "keep": "k\n", "mode": "", "sub/b": "x\n", "dd/y": "y\n", "asfile": "",
                       "asdir/in": ""}.items():
        (path / name).write_text(text)
    (path / "link").symlink_to("a")
    return path


@pytest.fixture
def writable(config, tree):
    return config(f"[mounts]\nwrite = {tree}\n")


def contents(path):
    """Each path below, and what it is."""
    found = {}
    for p in sorted(path.rglob("*")):
        found[str(p.relative_to(path))] = os.readlink(p) if p.is_symlink() else p.read_text() if p.is_file() else None
    return found


def listed(errors):
    """What --diff says: {path: what became of it}."""
    rows = [line.split(None, 1) for line in errors.splitlines() if not line.startswith("cay: ")]
    return {rest[rest.index("  ") + 2:].strip() if rest.startswith("-") else rest.split("  ", 1)[1]: how
            for how, rest in rows}


def test_the_directory_stays_as_it_was(cay, tree):
    before = contents(tree)
    done = cay.run("--workspace", "tree:overlay", "--", "sh", "-c", CHANGE + "; cat a c asdir; ls n/m sub").ok()
    assert done.text == "hi\nmore\nnew\nfile\nn/m:\nf\n\nsub:\nnew\n"
    assert contents(tree) == before


def test_diff_lists_what_was_changed(cay, tree):
    done = cay.run("--workspace", "tree:overlay", "--diff", "--", "sh", "-c", CHANGE).ok()
    assert listed(done.errors) == {
        "a": "changed", "c": "added", "dd/": "deleted", "link -> keep": "changed", "n/": "added", "n/m/": "added",
        "n/m/f": "added", "mode": "changed", "sub/b": "deleted", "sub/new": "added", "asdir": "changed",
        "asfile/": "changed"}
    assert "1 left out" in done.errors


def test_apply_brings_all_back(cay, tree, writable):
    done = cay.run("--workspace", "tree:overlay", "--apply", "--", "sh", "-c", CHANGE, config=writable).ok()
    assert contents(tree) == {
        "a": "hi\nmore\n", "asdir": "file\n", "asfile": None, "c": "new\n", "keep": "k\n", "link": "keep", "mode": "",
        "n": None, "n/m": None, "n/m/f": "q\n", "sub": None, "sub/new": "2\n"}
    assert stat.S_IMODE((tree / "mode").stat().st_mode) == 0o755
    assert "12 changes brought back" in done.errors


def test_nothing_comes_back_of_a_failure(cay, tree, writable):
    before = contents(tree)
    done = cay.run("--workspace", "tree:overlay", "--apply", "--", "sh", "-c", "echo new > c; exit 3", config=writable)
    assert done.rc == 3 and "did not succeed" in done.errors
    assert contents(tree) == before


def test_files_go_in_and_out_of_the_layer(cay, tree, place):
    (place / "put").write_text("put")
    cay.run("--workspace", "tree:overlay", "--put", "put:in", "--get", "out", "--", "sh", "-c", "cat in a > out").ok()
    assert (place / "out").read_text() == "puthi\n" and "in" not in contents(tree)


def test_compiled_code_has_an_overlay_too(cay, tree):
    done = cay.run("--workspace", "tree:overlay", "--diff", "-l", "c", "-c",
                   '#include <stdio.h>\nint main(void) { fclose(fopen("made", "w")); puts("hi"); }').ok()
    assert done.text == "hi\n" and listed(done.errors)["made"] == "added"


def test_the_layer_counts_to_the_disk(cay, tree):
    done = cay.run("--workspace", "tree:overlay", "--disk", "5m", "--", "sh", "-c",
                   "head -c 9000000 /dev/zero > big || echo full; df -k . | tail -1").ok()
    assert "full" in done.text and " 5120 " in done.text


def test_only_what_may_be_read_can_be_below(cay, tree, place):
    error = cay.refused("--workspace", f"{place}:overlay", "--", "true", cwd=tree)
    assert error["code"] == "policy_denied" and "not allowed" in error["message"]


def test_apply_needs_what_the_operator_allows(cay, tree, config):
    """Reading is enough for an overlay, and not for what comes back."""
    conf = config(f"[mounts]\nread = {tree}\n")
    error = cay.refused("--workspace", "tree:overlay", "--apply", "--", "true", config=conf)
    assert error["code"] == "policy_denied" and "[mounts] write" in error["hint"]


@pytest.mark.parametrize("option", ["--diff", "--apply"])
def test_without_an_overlay_there_is_no_layer(cay, tree, option):
    for workspace in ((), ("--workspace", "tree"), ("--workspace", "tree:rw")):
        error = cay.refused(option, *workspace, "--", "true")
        assert error["code"] == "invalid_request" and "overlay" in error["hint"]


def test_only_a_workspace_is_an_overlay(cay, tree):
    assert cay.refused("-v", "tree:/data:overlay", "--", "true")["code"] == "invalid_request"
    for engine in ("direct", "docker", "podman"):
        error = cay.refused("--engine", engine, "--workspace", "tree:overlay", "--", "true")
        assert error["code"] == "unsupported" and "overlay" in error["message"], engine


def test_what_is_mounted_below_is_not_shown(cay, tree, root):
    """Overlayfs would show what such a mount covers."""
    subprocess.run(["mount", "-t", "tmpfs", "none", tree / "sub"], check=True)
    try:
        error = cay.refused("--workspace", "tree:overlay", "--", "true")
        assert error["code"] == "unsupported" and "mounted below" in error["message"]
    finally:
        subprocess.run(["umount", tree / "sub"], check=True)


def test_a_conflict_within_one_run(cay, tree, writable):
    """What changed on the host while the program ran stays."""
    program = cay.start("run", "--workspace", "tree:overlay", "--apply", "--", "sh", "-c",
                        "echo mine > a; echo other > c; echo ready; read line", config=writable)
    assert program.stdout.readline() == b"ready\n"
    (tree / "a").write_text("theirs\n")
    _, errors = program.communicate(b"\n", timeout=30)
    assert program.returncode == OURS and b"a: it was changed here since" in errors
    assert (tree / "a").read_text() == "theirs\n" and (tree / "c").read_text() == "other\n"


@pytest.fixture
def boxed(place, tree, root):
    """Settings with an image of busybox alone."""
    busybox = pathlib.Path("/bin/busybox")
    if not busybox.exists():
        must_work("busybox-static is not installed")
    image = place / "image"
    (image / "bin").mkdir(parents=True)
    shutil.copy(busybox, image / "bin/busybox")
    for name in ("sh", "cat", "rm", "mkdir", "ls"):
        (image / "bin" / name).symlink_to("busybox")
    subprocess.run(["tar", "-C", image, "-cf", place / "box.tar", "."], check=True)
    return f"[images]\nstore = {place / 'store'}\n[mounts]\nwrite = {tree}\n"


@pytest.mark.parametrize("options", [(), ("--writable",), ("--writable", "--user", "root")], ids=str)
def test_on_an_image_and_on_a_layer_over_it(cay, tree, place, config, boxed, options):
    conf = config(boxed)
    cay("image", "import", "box", place / "box.tar", config=conf).ok()
    done = cay.run("--image", "box", *options, "--workspace", "tree:overlay", "--diff", "--apply", "--", "/bin/sh", "-c",
                   "cat a; echo new > c; rm -r sub; mkdir sub; ls /tmp", config=conf).ok()
    assert done.text == "hi\n" and listed("\n".join(done.errors.splitlines()[:2])) == {"c": "added", "sub/b": "deleted"}
    assert (tree / "c").read_text() == "new\n" and not (tree / "sub/b").exists()
