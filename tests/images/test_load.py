"""cay image load of what others saved: a real dockerd, podman, skopeo; and import of roots."""

import gzip
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import pytest

import makers
from dockerd import dockerd
from makers import Image, Index, Tree, ann, busybox, layers_with_whiteouts, layout
from podman import podman
from registry import Registry, need
from support import OURS, must_work, on_terminal

NAME = "localhost/tests/thing:1"


def call(*argv, **more):
    done = subprocess.run([str(word) for word in argv], capture_output=True, timeout=120, **more)
    assert done.returncode == 0, (argv, done.stderr.decode(errors="replace"))
    return done.stdout


def thing():
    """Two users, layers with whiteouts, and all of what a configuration says."""
    layers, expected = layers_with_whiteouts()
    return Image(busybox(), ann(), *layers, user="ann", env=["A=1", "B=two words"], workdir="/home",
                 entrypoint=["/bin/sh"], cmd=["-c", "true"]), expected


def is_thing(stock, name=NAME):
    """All of thing() is there under that name."""
    _, expected = thing()
    stock.check()
    record = stock.record(name)
    assert (record["user"], record["uid"], record["home"], record["workdir"]) == ("ann", 1234, "/home/ann", "/home")
    assert {"A=1", "B=two words"} <= set(record["env"])
    assert record["entrypoint"] == ["/bin/sh"] and record["cmd"] == ["-c", "true"]
    assert stock.files(name, "w") == expected
    assert (stock.root(name) / "home/ann/secret").read_text() == "of Ann\n"


@pytest.fixture(scope="module")
def saved(scratch):
    """A directory with thing() as an OCI layout, and for what others save of it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="saved-", dir=scratch))
    path.chmod(0o755)
    layout(path / "layout", {"it": thing()[0]})
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def skopeo_saved(saved):
    """{how: path}"""
    need("skopeo", "skopeo")
    for how, name in (("docker-archive", f":{NAME}"), ("oci-archive", f":{NAME}"), ("oci", f":{NAME}")):
        Registry.copy(f"oci:{saved}/layout:it", f"{how}:{saved}/{how}{name}")
    call("gzip", "--keep", saved / "docker-archive")
    return {path.name: path for path in saved.iterdir()}


@pytest.mark.parametrize("how", ["docker-archive", "oci-archive", "oci", "docker-archive.gz"])
def test_saved_by_skopeo(stock, skopeo_saved, how):
    stock.image("load", skopeo_saved[how]).ok()
    is_thing(stock)


def test_from_standard_input(stock, skopeo_saved):
    with open(skopeo_saved["docker-archive"], "rb") as archive:
        stock.image("load", "-", stdin=archive).ok()
    is_thing(stock)


def test_by_another_name(root_stock, saved):
    """A layout whose tag is no whole reference."""
    root_stock.image("load", saved / "layout", "mine/thing:2").ok()
    is_thing(root_stock, "docker.io/mine/thing:2")


@pytest.fixture(scope="module")
def podman_saved(saved, skopeo_saved):
    need("podman", "podman")
    if os.geteuid() != 0:
        must_work("podman's own store needs root")
    own = podman(saved / "podman", saved / "run", "vfs")
    call(*own, "load", "--quiet", "--input", skopeo_saved["docker-archive"])
    for how in ("docker-archive", "oci-archive", "oci-dir"):
        call(*own, "save", "--quiet", "--format", how, "-o", saved / f"podman-{how}", NAME)
    yield {how: saved / f"podman-{how}" for how in ("docker-archive", "oci-archive", "oci-dir")}
    shutil.rmtree(saved / "podman")


@pytest.mark.parametrize("how", ["docker-archive", "oci-archive", "oci-dir"])
def test_saved_by_podman(stock, podman_saved, how):
    stock.image("load", podman_saved[how]).ok()
    is_thing(stock)


@pytest.fixture(scope="module")
def docker_saved(saved, skopeo_saved):
    """By a daemon of the test's own."""
    path = saved / "docker"
    with dockerd() as docker:
        call(*docker, "load", "--input", skopeo_saved["docker-archive"])
        call(*docker, "import", "--change", "USER 7:8", "--change", "ENV C=3", "-", "tests/flat:1", input=busybox())
        call(*docker, "save", "--output", path, NAME, "tests/flat:1")
    path.chmod(0o644)
    return path


def test_saved_by_docker(stock, docker_saved):
    """Two images in one archive."""
    stock.image("load", docker_saved).ok()
    is_thing(stock)
    flat = stock.record("docker.io/tests/flat:1")
    assert (flat["uid"], flat["gid"]) == (7, 8) and "C=3" in flat["env"]
    stock.check(images=2)


# What is no image

def test_lies_in_a_layout(root_stock, place):
    """A blob that is not what it is called."""
    path, image = place / "layout", thing()[0]
    layout(path, {NAME: image})
    blob = path / "blobs/sha256" / image.layers[-1].partition(":")[2]
    blob.write_bytes(blob.read_bytes()[::-1])
    done = root_stock.image("load", path)
    assert done.rc == OURS and "digest" in done.errors
    root_stock.nothing()


@pytest.mark.parametrize("data", [b"", b"no archive" * 100, Tree().file("x", "y").data,
                                  Tree().file("manifest.json", "[]").data, Tree().file("manifest.json", "{").data,
                                  Tree().file("manifest.json", '[{"Config":"../x","Layers":["/etc/passwd"]}]').data,
                                  Tree().symlink("manifest.json", "/etc/passwd").data], ids=range(7))
def test_no_image(root_stock, place, data):
    (place / "file").write_bytes(data)
    done = root_stock.image("load", place / "file")
    assert done.rc == OURS and len(done.said) == 1 and "root:" not in done.errors, done.errors
    root_stock.nothing()


def test_archive_that_is_cut_off(root_stock, skopeo_saved, place):
    whole = skopeo_saved["docker-archive"].read_bytes()
    (place / "file").write_bytes(whole[:len(whole) // 2])
    assert root_stock.image("load", place / "file").rc == OURS
    root_stock.nothing()


def test_layout_that_leads_out(root_stock, place):
    """A blob that is a symlink to a file of the host's."""
    path, image = place / "layout", thing()[0]
    layout(path, {NAME: image})
    blob = path / "blobs/sha256" / image.layers[0].partition(":")[2]
    blob.rename(place / "outside")
    blob.symlink_to(place / "outside")
    done = root_stock.image("load", path)
    assert done.rc == OURS, "the same bytes, but not the layout's own"
    root_stock.nothing()


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "\x9b2J", "\u202egnp.exe", "\x1b[31m"], ids=ascii)
@pytest.mark.parametrize("where", ["name", "user"])
def test_says_nothing_to_the_terminal(root_stock, place, hostile, where, options):
    """What an image is called, and whose it is, is shown where it is wrong, and does nothing there."""
    name, user = (f"tests/a{hostile}b:1", None) if where == "name" else (NAME, f"a{hostile}b")
    layout(place / "layout", {name: Image(busybox(), **({"user": user} if user else {}))})
    done = root_stock.image("load", *options, place / "layout")
    assert done.rc == OURS and "a" in done.errors
    shown = done.errors + done.text
    assert not [c for c in shown if c in hostile and not c.isascii() or ord(c) < 32 and c != "\n"], ascii(shown)
    root_stock.nothing()


@pytest.mark.parametrize("how", ["layout", "archive", "import", "import of a directory"])
def test_progress_on_a_terminal(root_stock, place, how):
    """One line that is written over, and gone at the end; elsewhere none."""
    big = Tree().file("big", os.urandom(8 << 20)).data
    path = layout(place / "layout", {NAME: Image(busybox(), big)})
    if how == "archive":
        subprocess.run(["tar", "-C", path, "-cf", place / "it.tar", "."], check=True)
        path = place / "it.tar"
    elif how == "import":
        path = place / "root.tar"
        path.write_bytes(big)
    elif how.startswith("import"):
        path = tree_of_busybox(place / "root")
    words = ["import", NAME, str(path)] if how.startswith("import") else ["load", str(path)]
    code, shown = on_terminal(root_stock.cay, "image", *words, env={"CAY_CONFIG": str(root_stock.config)}, seconds=60)
    assert code == 0, shown
    *lines, last = shown.split(b"\r\x1b[K")
    assert lines and all(b"[" in line and b"/s" in line for line in lines if line), shown
    assert b"[" not in last and (b"imported" if how.startswith("import") else b"loaded") in last
    root_stock.image("rm", NAME).ok()
    assert root_stock.image(*words).ok().errors == ""


def test_platform_of_a_layout(root_stock, place):
    mine, other = Image(busybox()), Image(busybox(), architecture=makers.ELSEWHERE)
    layout(place / "layout", {NAME: Index(other, mine)})
    root_stock.image("load", place / "layout").ok()
    assert root_stock.id(NAME) == mine.id


# A root without an image around it

def tree_of_busybox(path):
    path.mkdir()
    with tarfile.open(fileobj=io.BytesIO(busybox())) as tar:
        tar.extractall(path)
    for name in (".", "root"):  # an ordinary user is to read it, too
        (path / name).chmod(0o755)
    return path


@pytest.mark.parametrize("form", ["directory", "tar", "tar.gz", "tar.zst"])
def test_import(stock, place, form):
    path = place / f"root.{form}"
    if form == "directory":
        tree_of_busybox(path)
    else:
        path.write_bytes({"tar": bytes, "tar.gz": gzip.compress, "tar.zst": zstd}[form](busybox()))
    stock.image("import", "mine/root:1", path).ok()
    stock.check(images=1)
    assert os.access(stock.root("docker.io/mine/root:1") / "bin/busybox", os.X_OK)
    assert stock.sh("mine/root:1", "echo $((6 * 7))") == "42\n"


def zstd(data):
    return call("zstd", "-c", input=data)


def test_import_does_not_follow_links_out(root_stock, place):
    path = tree_of_busybox(place / "root")
    (place / "outside").mkdir()
    (place / "outside" / "secret").write_text("of the host")
    (path / "link").symlink_to(place / "outside")
    root_stock.image("import", "mine/root:1", path).ok()
    made = root_stock.root("mine/root:1")
    assert (made / "link").is_symlink() and not list(made.rglob("secret"))
    assert (place / "outside" / "secret").read_text() == "of the host"


def test_import_leaves_the_directory_alone(root_stock, place):
    path = tree_of_busybox(place / "root")

    def state():
        return {str(p): (p.lstat().st_mode, p.lstat().st_uid, p.lstat().st_mtime, p.lstat().st_nlink)
                for p in path.rglob("*")}
    before = state()
    root_stock.image("import", "mine/root:1", path).ok()
    assert state() == before
