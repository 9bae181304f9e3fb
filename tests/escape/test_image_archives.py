"""Layers are archives that strangers made. Each of these would write, remove or read outside of where it is unpacked,
were it unpacked as it says; the control does just that, with Python's own tarfile."""

import gzip
import io
import os
import pathlib
import stat
import tarfile
import time

import pytest

from attack import attack, told
from makers import HERE, Image, Tree, compact, digest, layout
from support import MIB, OURS

NAME = "tests/archive:1"
UP = "../../../../"  # from where a layer is unpacked: store/staging/NAME/tree


@pytest.fixture
def outside(place):
    """What must stay as it is, beside the store."""
    path = place / "outside"
    path.mkdir()
    (path / "mark").write_text("untouched")
    path.chmod(0o777)
    (path / "mark").chmod(0o666)
    return path


def state(path):
    """All that could be changed about it."""
    found = {}
    for p in [path, *sorted(path.rglob("*"))]:
        s = p.lstat()
        found[str(p)] = (s.st_mode, s.st_uid, s.st_gid, s.st_nlink, p.read_bytes() if p.is_file() else None)
    return found


def load(stock, place, image, **more):
    return stock.image("load", layout(place / "layout", {NAME: image}), **more)


def file_through(tree):
    return tree.file("way/made", "attacked")


# name: (layers of an outside directory, what cay says; None: it goes in, and stays inside)
ARCHIVES = {
    "up": (lambda o: [Tree().file(f"{UP}outside/made", "attacked")], "leads out of it"),
    "up by a part": (lambda o: [Tree().directory("a").file(f"a/../{UP}outside/made", "attacked")], "leads out of it"),
    "absolute": (lambda o: [Tree().file(f"{o}/made", "attacked")], None),
    "through a link": (lambda o: [file_through(Tree().symlink("way", o))], "below what is no directory"),
    "through a relative link": (lambda o: [file_through(Tree().symlink("way", f"{UP}outside"))],
                                "below what is no directory"),
    "over a link": (lambda o: [Tree().symlink("x", o / "mark").file("x", "attacked")], None),
    "over a link to what is not there": (lambda o: [Tree().symlink("x", o / "made").file("x", "attacked")], None),
    "a directory over a link": (lambda o: [Tree().symlink("way", o).add("way", tarfile.DIRTYPE, 0o700)
                                           .file("way/made", "attacked")], None),
    "a hard link through a link": (lambda o: [Tree().symlink("way", o).link("x", "way/mark")],
                                   "hard link to what is no file of the layer"),
    "a hard link out": (lambda o: [Tree().link("x", f"{UP}outside/mark")], "hard link to what is no file"),
    "an absolute hard link": (lambda o: [Tree().link("x", f"{o}/mark")], "hard link to what is no file"),
    "a hard link to a link, and over it": (lambda o: [Tree().symlink("s", o / "mark").link("x", "s")
                                                      .file("x", "attacked")], None),
    "through a link of a lower layer": (lambda o: [Tree().symlink("way", o), file_through(Tree())], None),
    "through a link up of a lower layer": (lambda o: [Tree().symlink("way", f"{UP}../outside"), file_through(Tree())],
                                           None),
    "through a lower link to what the image has, too": (
        lambda o: [Tree().directory(f".{o}").symlink("way", f"{UP * 8}{str(o)[1:]}"), file_through(Tree())], None),
    "through two lower links": (lambda o: [Tree().symlink("way", "on/made").symlink("on", o.parent),
                                           Tree().file("way/made/outside/made", "attacked")], None),
    "a whiteout through a link": (lambda o: [Tree().symlink("way", o).file("way/.wh.mark")],
                                  "below what is no directory"),
    "a whiteout through a lower link": (lambda o: [Tree().symlink("way", o), Tree().file("way/.wh.mark")], None),
    "all whiteouted through a lower link": (lambda o: [Tree().symlink("way", o), Tree().file("way/.wh..wh..opq")],
                                            None),
    "a whiteout of the directory above": (lambda o: [Tree().file("a/.wh...")], "is no whiteout"),
    "a whiteout of the directory itself": (lambda o: [Tree().file("a/.wh..")], "is no whiteout"),
    "a whiteout of nothing": (lambda o: [Tree().file("a/.wh.")], "is no whiteout"),
    "a whiteout that is a link": (lambda o: [Tree().symlink("a/.wh.x", o)], "is no whiteout"),
    "below a whiteout": (lambda o: [Tree().file("a/.wh.x/y")], "below a whiteout"),
    "a name of ours": (lambda o: [Tree().file("a/.wh..wh..implied").file(".wh..wh..facts", "0 0 0")], None),
    "a directory, then a file": (lambda o: [Tree().file("a/b").file("a", "attacked")], "and then something else"),
    "an owner beyond the range": (lambda o: [Tree().file("a", owner=65536)], "id above 65535"),
    "a name of 5,000 bytes": (lambda o: [Tree().file("a/" * 2500 + "x")], "too long"),
    "10,000 levels": (lambda o: [Tree().directory("/".join(["d"] * 1000))], "too long"),
}


@attack(8)
@pytest.mark.parametrize("name", ARCHIVES)
def test_layers_stay_inside(stock, place, outside, name):
    """Layers with .., absolute names, links, whiteouts through links and names that can't be."""
    make, says = ARCHIVES[name]
    before = state(outside)
    done = load(stock, place, Image(*(tree.data for tree in make(outside))))
    assert state(outside) == before
    assert stock.entries("staging") == []
    if says:
        assert done.rc == OURS and says in done.errors, done.errors
        stock.nothing()
    else:
        done.ok()
        stock.check(1)
    told("refused" if says else "kept inside")


@attack(8)
def test_directories_take_room(stock, place):
    """Images that share their one layer, of which each has directories of its own: they count to the budget."""
    stock.configure("budget = 8m\n")
    tree = Tree()
    for n in range(500):
        tree.directory(f"d{n}")
    done = [stock.image("load", layout(place / f"l{n}", {f"tests/n{n}:1": Image(tree.data, labels={"n": str(n)})}))
            for n in range(5)]
    assert [d.rc for d in done[:2]] == [0, 0] and done[-1].rc == OURS and "room" in done[-1].errors, done[-1].errors
    # Beside those: the store's own, and what large directories take beyond a block.
    assert len(stock.entries("layers")) == 1 and used(stock.store) < 9 * MIB
    told("refused")


@attack(8)
def test_names_with_many_directories(stock, place):
    """Directories that no entry names, hundreds in the name of one file."""
    stock.configure("budget = 4m\n")
    tree = Tree()
    for n in range(20):
        tree.file(f"{n}/" + "d/" * 200 + "x")
    done = load(stock, place, Image(tree.data))
    assert done.rc == OURS and "room" in done.errors, done.errors
    stock.nothing()
    told("refused")


# Those that tarfile itself would carry out; the others are whiteouts and limits.
NAIVE = ["up", "up by a part", "through a link", "through a relative link", "a hard link out"]


@pytest.mark.parametrize("name", NAIVE)
def test_control_layers_get_out_elsewhere(place, outside, name):
    """As they say, they change what is outside."""
    before = state(outside)
    where = place / "a/b/c/d"
    where.mkdir(parents=True)
    for tree in ARCHIVES[name][0](outside):
        os.chdir(where)
        with tarfile.open(fileobj=io.BytesIO(tree.data)) as tar:
            tar.extractall(where)
    os.chdir("/")
    assert state(outside) != before


@attack(8)
def test_devices_and_bits_are_left_out(stock, place, root):
    """Device nodes, set-id bits and file capabilities in layers."""
    tree = (Tree().device("dev0", 1, 3).device("sub/dev1", 8, 0).file("suid", "x", 0o4755).file("sgid", "x", 0o2755)
            .add("dir", tarfile.DIRTYPE, 0o6755).add("pipe", tarfile.FIFOTYPE, 0o644)
            .file("caps", "x", 0o755, xattrs={"security.capability": "\x01\x00\x00\x02"}).link("again", "suid")).data
    load(stock, place, Image(tree)).ok()
    for path in [p for top in ("roots", "layers") for p in (stock.store / top).rglob("*")]:
        mode = path.lstat().st_mode
        assert not stat.S_ISCHR(mode) and not stat.S_ISBLK(mode), path
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
        assert "security.capability" not in os.listxattr(path, follow_symlinks=False), path
    assert stat.S_ISFIFO((stock.root(NAME) / "pipe").lstat().st_mode)
    told("left out")


def test_control_devices_and_bits_elsewhere(place, root):
    """Root, with tarfile, gets all of that."""
    tree = Tree().device("dev0", 1, 3).file("suid", "x", 0o4755).data
    with tarfile.open(fileobj=io.BytesIO(tree)) as tar:
        tar.extractall(place)
    assert stat.S_ISCHR((place / "dev0").lstat().st_mode) and (place / "suid").stat().st_mode & stat.S_ISUID
    os.unlink(place / "dev0")


def packed(*members):
    """An image whose one layer is these pieces, of which each is (bytes, how often), compressed piece by piece."""
    class Packed(Image):
        def __init__(self):
            super().__init__(b"")
            data = b"".join(gzip.compress(piece, 1) * n for piece, n in members)
            self.manifest_fields["layers"] = [self._part("application/vnd.oci.image.layer.v1.tar+gzip", data)]
            # Of the tar nobody gets to the end.
            self.fields["rootfs"]["diff_ids"] = [digest(b"?")]
            self.config = compact(self.fields)
            self.manifest_fields["config"] = self._part("application/vnd.oci.image.config.v1+json", self.config)
            self.manifest = compact(self.manifest_fields)
            self.blobs = {digest(d): d for d in (data, self.config)}
    return Packed()


def header(**fields):
    entry = tarfile.TarInfo("x")
    for key, value in fields.items():
        setattr(entry, key, value)
    return entry.tobuf(tarfile.GNU_FORMAT)


def used(path):
    return sum(p.lstat().st_blocks * 512 for p in path.rglob("*")) if path.exists() else 0


@attack(8)
def test_ten_million_entries(stock, place):
    """A layer of ten million entries, in a hundred kilobytes or so."""
    device = header(type=tarfile.CHRTYPE)
    began = time.monotonic()
    done = load(stock, place, packed((device * 100_000, 100)), timeout=120)
    assert done.rc == OURS and "too many entries" in done.errors, done.errors
    assert stock.entries("staging") == stock.entries("layers") == []
    told("refused")
    assert time.monotonic() - began < 60


@attack(8)
@pytest.mark.parametrize("kind", ["a file", "a device", "the end"])
def test_gzip_bomb(stock, place, kind):
    """A terabyte of zeros in a small layer: in a file, in what is not kept, and behind the archive's end."""
    stock.configure("budget = 16m\n")
    first = {"a file": header(size=1 << 40), "a device": header(size=1 << 40, name=".wh..wh.plnk"),
             "the end": header() + bytes(1024)}[kind]
    began = time.monotonic()
    done = load(stock, place, packed((first, 1), (bytes(64 * MIB), 100)), timeout=120)
    assert done.rc == OURS and "than there is room for" in done.errors, done.errors
    assert time.monotonic() - began < 60 and used(stock.store) < 2 * MIB
    assert stock.entries("staging") == stock.entries("layers") == []
    told("refused")


def test_control_a_large_layer_is_fine(stock, place):
    """As large as the budget lets it be, and compressed as well."""
    stock.configure("budget = 80m\n")
    load(stock, place, Image(Tree().file("x", bytes(64 * MIB)).data)).ok()
    assert (stock.root(NAME) / "x").stat().st_size == 64 * MIB
    stock.check(1)


@attack(8)
@pytest.mark.parametrize("what", ["manifest.json", "layer", "config"])
def test_saved_archives_lead_nowhere(stock, place, outside, what):
    """An archive of images whose files are links out, or names with .. in its list."""
    layer = Tree().file("x").data
    config = compact({"architecture": HERE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}})
    (outside / "config").write_bytes(config)
    (outside / "layer.tar").write_bytes(layer)
    listed = {"Config": "config", "RepoTags": [NAME], "Layers": ["layer.tar"]}
    (outside / "manifest.json").write_bytes(compact([listed]))
    tree = Tree()
    if what == "manifest.json":
        tree.symlink("manifest.json", outside / "manifest.json").file("config", config).file("layer.tar", layer)
    elif what == "layer":
        tree.file("manifest.json", compact([listed])).file("config", config)
        tree.symlink("layer.tar", f"{UP}outside/layer.tar")
    else:
        listed["Config"] = f"{UP}outside/config"
        tree.file("manifest.json", compact([listed])).file("layer.tar", layer)
    path = place / "saved.tar"
    path.write_bytes(tree.data)
    done = stock.image("load", path)
    assert done.rc == OURS and "can't be read" in done.errors, done.errors
    stock.nothing()
    told("refused")


def test_control_saved_archive(stock, place):
    """The same without the links."""
    layer = Tree().file("x").data
    config = compact({"architecture": HERE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}})
    listed = {"Config": "config", "RepoTags": [NAME], "Layers": ["a/layer.tar"]}
    tree = Tree().file("manifest.json", compact([listed])).file("config", config).file("b/layer.tar", layer)
    path = pathlib.Path(place / "saved.tar")
    path.write_bytes(tree.symlink("a/layer.tar", "../b/layer.tar").data)
    stock.image("load", path).ok()
    stock.check(1)
