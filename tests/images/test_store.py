"""The store itself: what of layers is kept, who may use it at once, what a crash leaves, and how things go."""

import fcntl
import json
import os
import pathlib
import random
import signal
import stat
import subprocess
import tarfile
import time

import pytest

from makers import Image, Tree, busybox, layers_with_whiteouts, layout
from support import CAY, OURS, SOAK

NAME = "localhost/tests/it:1"


def load(stock, place, *images, names=(NAME,), **more):
    """Loads images as one layout, each by its name."""
    path = layout(place / f"layout-{random.getrandbits(32):08x}", dict(zip(names, images)))
    return stock.image("load", path, **more)


def sizes(stock):
    """What the store takes on disk, each file once."""
    seen = {}
    for directory, _, files in os.walk(stock.store):
        for name in files:
            found = os.lstat(os.path.join(directory, name))
            seen[found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


# What of a layer is kept

def test_whiteouts(stock, place):
    layers, expected = layers_with_whiteouts()
    load(stock, place, Image(busybox(), *layers)).ok()
    assert stock.files(NAME, "w") == expected
    stock.check(1)


def test_layers_keep_what_upper_ones_took(stock, place):
    """The root is links: what is whiteouted in one image is there for another."""
    layers, expected = layers_with_whiteouts()
    load(stock, place, Image(busybox(), *layers), Image(busybox(), layers[0]),
         names=(NAME, "localhost/tests/low:1")).ok()
    assert stock.files(NAME, "w") == expected
    assert stock.files("tests/low", "w")["w/a/gone"] == "first w/a/gone"
    assert len(stock.entries("layers")) == 4


def test_a_directory_that_is_only_implied(stock, place):
    """A layer that says nothing of /tmp but a file in it leaves its mode alone; also its time."""
    tree = Tree().file("tmp/x", "x").file("new/x", "x").data
    load(stock, place, Image(busybox(), tree)).ok()
    root = stock.root(NAME)
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert (root / "tmp").stat().st_mtime == 1_000_000_000
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o755
    assert not list(root.rglob(".wh.*"))


def test_an_implied_directory_where_a_lower_layer_has_a_link(stock, place):
    """bin -> usr/bin below, and bin/x above: it is where the link leads. With an entry of its own, bin is replaced."""
    lower = (Tree().directory("usr/bin", 0o711).file("usr/bin/old", "old").file("usr/bin/gone", "")
             .symlink("sbin", "usr/bin").symlink("opt/it", "/usr/bin")).data
    upper = Tree().file("sbin/x", "x").file("sbin/.wh.gone").file("opt/it/y", "y").data
    load(stock, place, Image(busybox(), lower, upper)).ok()
    root = stock.root(NAME)
    assert stock.files(NAME, "usr/bin") == {
        "usr/bin": None, "usr/bin/old": "old", "usr/bin/x": "x", "usr/bin/y": "y"}
    assert os.readlink(root / "sbin") == "usr/bin" and os.readlink(root / "opt/it") == "/usr/bin"
    assert stat.S_IMODE((root / "usr/bin").stat().st_mode) == 0o711
    assert stock.sh(NAME, "cat /sbin/x /opt/it/y") == "xy"
    named = Tree().directory("sbin").file("sbin/x", "x").data
    load(stock, place, Image(busybox(), lower, named)).ok()
    assert stock.files(NAME, "sbin") == {"sbin": None, "sbin/x": "x"} and "usr/bin/gone" in stock.files(NAME, "usr/bin")


def test_directory_and_its_entry_the_wrong_way_round(stock, place):
    tree = Tree().file("late/x", "x").directory("late", 0o750).file("other", "y").data
    load(stock, place, Image(busybox(), tree)).ok()
    late = (stock.root(NAME) / "late").stat()
    assert stat.S_IMODE(late.st_mode) == 0o750 and late.st_mtime == 1_000_000_000


def test_hard_links(stock, place):
    tree = Tree().file("a", "one").link("b", "a").link("d/c", "./a").data
    load(stock, place, Image(busybox(), tree)).ok()
    root = stock.root(NAME)
    assert len({(root / name).stat().st_ino for name in ("a", "b", "d/c")}) == 1
    # Three names in the layer, three in the root.
    assert (root / "a").stat().st_nlink == 6


def sparse_tar(place):
    path = place / "sparse"
    with open(path, "wb") as f:
        f.truncate(1 << 30)
        f.seek(512 << 20)
        f.write(b"middle")
    subprocess.run(["tar", "-C", place, "--sparse", "-cf", place / "sparse.tar", "sparse"], check=True)
    return (place / "sparse.tar").read_bytes()


def test_sparse_files_stay_sparse(stock, place):
    load(stock, place, Image(busybox(), sparse_tar(place))).ok()
    found = stock.root(NAME) / "sparse"
    assert found.stat().st_size == 1 << 30 and found.stat().st_blocks * 512 < 1 << 20
    with open(found, "rb") as f:
        f.seek(512 << 20)
        assert f.read(6) == b"middle"


def test_attributes(stock, place):
    tree = Tree().file("x", "x", xattrs={"user.note": "hello", "user.overlay.opaque": "y", "trusted.x": "1"}).data
    load(stock, place, Image(busybox(), tree)).ok()
    assert os.listxattr(stock.root(NAME) / "x") == ["user.note"]
    assert os.getxattr(stock.root(NAME) / "x", "user.note") == b"hello"


def test_attributes_of_what_nobody_may_write_to(stock, place):
    tree = Tree().file("x", "x", 0o444, xattrs={"user.note": "hello"}).data
    load(stock, place, Image(busybox(), tree)).ok()
    assert stat.S_IMODE((stock.root(NAME) / "x").stat().st_mode) == 0o444
    assert os.getxattr(stock.root(NAME) / "x", "user.note") == b"hello"


def test_attributes_that_do_not_fit(stock, place):
    """More than the file system has room for: the file is there all the same."""
    tree = Tree().file("x", "x", xattrs={f"user.{n}": "v" * 60000 for n in range(8)}).data
    load(stock, place, Image(busybox(), tree)).ok()
    assert (stock.root(NAME) / "x").read_text() == "x"


def test_names_of_one_file(root_stock, place):
    """A merge would copy what has more names than a file can have, and copies are nobody's room."""
    tree = Tree().file("0", "x")
    for n in range(1, 16001):
        tree.link(str(n), "0")
    done = load(root_stock, place, Image(tree.data))
    assert done.rc == OURS and "too many" in done.errors, done.errors
    root_stock.nothing()


def test_owners_are_of_the_fixed_range(root_stock, place):
    tree = Tree().file("a", owner=0).file("b", owner=1234).directory("c", owner=65535).symlink("d", "a").data
    load(root_stock, place, Image(busybox(), tree)).ok()
    assert [root_stock.owner(NAME, name)[0] for name in "abc"] == [0, 1234, 65535]
    top = os.lstat(root_stock.root(NAME)).st_uid
    assert all(top <= os.lstat(p).st_uid < top + 65536 for p in root_stock.root(NAME).rglob("*"))


def test_what_islands_need_is_there(stock, place):
    tree = (Tree().file("etc/hosts", "10.0.0.1 theirs\n").symlink("etc/resolv.conf", "/proc/self/environ")
            .file("dev/null", "full").directory("var/tmp").file("etc/passwd", "x:x:7:7::/:/bin/sh")).data
    load(stock, place, Image(busybox(), tree)).ok()
    root = stock.root(NAME)
    for name in ("proc", "sys", "dev", "tmp", "workspace", "run", "etc", "var"):
        assert stat.S_ISDIR(os.lstat(root / name).st_mode), name
    assert not list((root / "dev").iterdir())
    assert os.readlink(root / "var/tmp") == "../tmp" and os.readlink(root / "etc/mtab") == "../proc/self/mounts"
    assert "localhost" in (root / "etc/hosts").read_text() and not (root / "etc/resolv.conf").is_symlink()
    assert (root / "etc/passwd").read_text().splitlines() == [
        "x:x:7:7::/:/bin/sh", "cay:x:1000:1000:cay:/workspace:/bin/sh"]
    # Never through the link, into the layer.
    kept = [p.read_text() for p in stock.store.glob("layers/*/etc/hosts")]
    assert kept == ["10.0.0.1 theirs\n"]


def test_someone_with_1000_keeps_it(stock, place):
    tree = Tree().file("etc/passwd", "me:x:1000:1000::/home/me:/bin/sh\n").data
    load(stock, place, Image(busybox(), tree, user="me")).ok()
    assert "cay" not in (stock.root(NAME) / "etc/passwd").read_text()
    record = stock.record(NAME)
    assert (record["uid"], record["home"]) == (1000, "/home/me")


@pytest.mark.parametrize("name", ["proc", "sys", "dev", "tmp", "workspace", "run", "etc", "var"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_no_directory_where_one_must_be(root_stock, place, name, kind):
    tree = Tree().file("etc2/x").file(f".wh.{name}")
    upper = Tree().symlink(name, "/etc2") if kind == "link" else Tree().file(name)
    done = load(root_stock, place, Image(busybox(), tree.data, upper.data))
    assert done.rc == OURS and f"/{name} of the image is no directory" in done.errors
    root_stock.nothing()


def test_interpreters_are_found_behind_absolute_links(stock, place):
    tree = (Tree().program("opt/it/bin/bash", "/bin/bash").symlink("usr/bin/bash", "/opt/it/bin/bash")
            .symlink("usr/bin/perl", "/etc/shadow").symlink("usr/bin/python3", "/no/such")).data
    load(stock, place, Image(busybox(), tree, env=["PATH=/usr/bin:/bin"])).ok()
    found = {r["language"]: r["program"] for r in stock.record(NAME)["runtimes"]}
    assert found["bash"] == "/usr/bin/bash" and "perl" not in found and "python" not in found


# Room

def test_budget(stock, place):
    stock.configure("budget = 4m\n")
    done = load(stock, place, Image(Tree().file("big", os.urandom(8 << 20)).data))
    assert done.rc == OURS and "room" in done.errors and "budget" in done.errors
    stock.nothing()
    assert stock.entries("layers") == []
    load(stock, place, Image(Tree().file("small", os.urandom(1 << 20)).data)).ok()
    stock.check(1)


def test_budget_of_two_at_once(stock):
    """Each fits alone: both are unpacking before either is in the store."""
    stock.configure("budget = 4m\n")
    trees = [Tree().file("big", os.urandom(3 << 20)).data for _ in range(2)]
    both = [stock.start("image", "import", f"localhost/{n}:1", "-") for n in range(2)]
    for cay, tree in zip(both, trees):
        cay.stdin.write(tree[:2 << 20])
        cay.stdin.flush()
    done = []
    for cay, tree in zip(both, trees):
        _, errors = cay.communicate(tree[2 << 20:], timeout=60)
        done.append((cay.returncode, errors))
    assert sorted(rc for rc, _ in done) == [0, OURS], done
    assert any(b"room" in errors and b"budget" in errors for _, errors in done), done
    assert len(stock.entries("layers")) == 1
    stock.check(1)


def test_as_many_as_can_be_listed(root_stock, place):
    root_stock.image("prune").ok()
    for n in range(4096):
        (root_stock.store / "records" / f"{n:064x}.json").write_text("{}")
    done = load(root_stock, place, Image(busybox()))
    assert done.rc == OURS and "no more fit" in done.errors and "prune" in done.errors, done.errors


def test_a_damaged_record(stock, place):
    """The others are listed, and it comes back with the image."""
    good, bad = Image(busybox()), Image(busybox(), Tree().file("x", "x").data)
    load(stock, place, good, bad, names=("localhost/good:1", "localhost/bad:1")).ok()
    record = stock.store / "records" / f"{stock.id('bad')}.json"
    record.write_text('{"id": 1}')
    done = stock.image("list").ok()
    assert "localhost/good:1" in done.text and "localhost/bad" not in done.text
    assert record.name in done.errors and "again" in done.errors, done.errors
    stock.image("prune").ok()
    load(stock, place, bad, names=("localhost/bad:1",)).ok()
    assert "localhost/bad:1" in stock.image("list").ok().text
    stock.check(2)


@pytest.mark.parametrize("by", ["name", "id", "json"])
def test_rm_of_a_damaged_record(stock, place, by):
    """It goes with all its names, is said to have been damaged, and the others stay."""
    good, bad = Image(busybox()), Image(busybox(), Tree().file("x", "x").data)
    load(stock, place, good, bad, bad, names=("localhost/good:1", "localhost/bad:1", "localhost/bad:2")).ok()
    (stock.store / "records" / f"{bad.id}.json").write_text('{"id": 1}')
    if by == "json":
        done = stock.image("rm", "--json", "localhost/bad:1").ok()
        events = [json.loads(line) for line in done.text.splitlines()]
        assert [e["event"] for e in events] == ["warning", "removed"] and "damaged" in events[0]["message"]
        assert events[1]["id"] == bad.id
    else:
        done = stock.image("rm", "localhost/bad:1" if by == "name" else bad.id[:12]).ok()
        assert "damaged" in done.errors and bad.id[:12] in done.text, (done.errors, done.text)
    assert list(stock.names()) == ["localhost/good:1"] and stock.entries("records") == [f"{good.id}.json"]
    assert stock.entries("roots") == [good.id] and len(stock.entries("layers")) == 1
    stock.check(1)


def test_rm_of_a_damaged_name(stock, place):
    load(stock, place, Image(busybox()), names=("localhost/good:1",)).ok()
    name = stock.store / "names" / "localhost%2Fbad:1"
    name.write_text("no id\n")
    done = stock.image("rm", "localhost/bad:1").ok()
    assert "damaged" in done.errors
    stock.check(1)


def test_a_damaged_one_in_use_stays(root_stock, place):
    load(root_stock, place, Image(busybox())).ok()
    record = root_stock.store / "records" / f"{root_stock.id(NAME)}.json"
    root = os.open(root_stock.root(NAME), os.O_RDONLY)
    fcntl.flock(root, fcntl.LOCK_SH)
    record.write_text("{")
    done = root_stock.image("rm", NAME)
    assert done.rc == OURS and "sandboxes are made of image" in done.errors and record.exists()
    os.close(root)
    root_stock.image("rm", NAME).ok()
    root_stock.nothing()


def test_rm_gives_back_the_room(stock, place):
    stock.image("prune").ok()
    before = sizes(stock)
    shared = Tree().file("shared", os.urandom(1 << 20)).data
    load(stock, place, Image(shared), Image(shared, Tree().file("more", os.urandom(1 << 20)).data),
         names=("localhost/a:1", "localhost/b:1")).ok()
    stock.image("rm", "localhost/b:1").ok()
    assert list(stock.names()) == ["localhost/a:1"] and len(stock.entries("layers")) == 1
    stock.check(1)
    done = stock.image("rm", "localhost/a:1").ok()
    assert "1.1 MiB" in done.text
    stock.nothing()
    assert stock.entries("layers") == stock.entries("configs") == stock.entries("manifests") == []
    assert sizes(stock) == before


def test_rm_of_one_of_two_names(stock, place):
    image = Image(busybox())
    load(stock, place, image, image, names=("localhost/a:1", "localhost/b:1")).ok()
    stock.image("rm", "localhost/a:1").ok()
    assert list(stock.names()) == ["localhost/b:1"]
    stock.check(1)
    stock.image("rm", image.id[:12]).ok()
    stock.nothing()


def test_image_in_use_stays(stock, place):
    load(stock, place, Image(busybox())).ok()
    root = os.open(stock.root(NAME), os.O_RDONLY)
    fcntl.flock(root, fcntl.LOCK_SH)
    done = stock.image("rm", NAME)
    assert done.rc == OURS and "sandboxes are made of image" in done.errors
    stock.image("prune", "--all").ok()
    stock.check(1)
    os.close(root)
    stock.image("rm", NAME).ok()
    stock.nothing()


def test_prune(stock, place):
    first, second = Image(Tree().file("a", "1").data), Image(Tree().file("a", "2").data)
    load(stock, place, first).ok()
    load(stock, place, second).ok()
    old, new = stock.store / "partial/old", stock.store / "partial/new"
    for path in (old, new):
        path.write_bytes(bytes(1 << 20))
    os.utime(old, (0, 0))
    stock.image("prune").ok()
    assert len(stock.entries("records")) == 2 and stock.entries("partial") == ["new"]
    done = stock.image("prune", "--all").ok()
    assert first.id[:12] in done.text and "1.1 MiB" in done.text
    assert stock.entries("records") == [f"{second.id}.json"] == [f"{i}.json" for i in stock.entries("roots")]
    assert len(stock.entries("layers")) == 1 and stock.entries("partial") == []
    stock.check(1)


def test_a_store_of_others_is_not_used(root_stock, root):
    root_stock.store.mkdir()
    os.chown(root_stock.store, 4321, 4321)
    done = root_stock.image("prune")
    assert done.rc == OURS and "not ours" in done.errors


# Several at once, and crashes

def test_at_once_with_shared_layers(stock, place):
    """Six that share their lowest layers, and two of them are the same."""
    shared = [busybox(), Tree().file("big", os.urandom(4 << 20)).data]
    images = [Image(*shared, Tree().file("own", str(n)).data) for n in range(5)]
    paths = [layout(place / f"l{n}", {f"localhost/n{n}:1": image}) for n, image in enumerate([*images, images[0]])]
    running = [stock.start("image", "load", path) for path in paths]
    for process in running:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    stock.check(6)
    assert len(stock.entries("layers")) == 7


def test_rm_and_prune_beside_loads(stock, place):
    """What a load has found to be there stays until it is done."""
    shared = Tree().file("big", os.urandom(1 << 20)).data
    paths = [layout(place / f"l{n}", {f"localhost/n{n}:1": Image(shared, Tree().file("own", str(n)).data)})
             for n in range(3)]
    for _ in range(20 if SOAK else 4):
        running = [stock.start("image", "load", path) for path in paths]
        running += [stock.start("image", "prune", "--all") for _ in range(3)]
        for process in running:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
        stock.check(3)
        for n in range(3):
            stock.image("rm", f"localhost/n{n}:1").ok()
        stock.nothing()
        assert stock.entries("layers") == []


def consistent(stock):
    """At any moment: what has a name is whole. (staging/ and partial/ may have anything.)"""
    for name, i in stock.names().items():
        assert f"{i}.json" in stock.entries("records"), name
    for record in stock.entries("records"):
        assert record.removesuffix(".json") in stock.entries("roots"), record
    for layer in stock.entries("layers"):
        assert (stock.store / "layers" / layer / ".wh..wh..facts").exists()


def test_killed_at_any_moment(stock, place):
    """kill -9 in the middle of a load, of an rm, or of a prune: what has a name is whole, and the next load works."""
    program = pathlib.Path(CAY).parent / "cay-image"
    layers, expected = layers_with_whiteouts()
    image = Image(busybox(), *layers, Tree().file("big", os.urandom(2 << 20)).data)
    path = layout(place / "layout", {NAME: image})
    env = dict(stock.cay.env, CAY_CONFIG=str(stock.config))
    began = time.monotonic()
    load(stock, place, image).ok()
    whole = time.monotonic() - began
    rng, ended = random.Random(7), 0
    for n in range(500 if SOAK else 50):
        verb = [["rm", NAME], ["load", path], ["prune", "--all"]][n % 3]
        process = subprocess.Popen([*stock.cay.prefix, program, *verb], env=env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(rng.random() * whole * (1.2 if verb[0] == "load" else 0.3))
        ended += process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        consistent(stock)
    # Not all of them were too late.
    assert ended < (n + 1) * 0.9
    load(stock, place, image).ok()
    assert stock.files(NAME, "w") == expected
    stock.image("prune", "--all").ok()
    stock.check(1)
    stock.image("rm", NAME).ok()
    stock.nothing()
    assert stock.entries("layers") == []
