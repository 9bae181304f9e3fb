"""Images made from nothing: trees, layers, configurations, manifests and indexes, as OCI and Docker have them.

    busybox()                     a root that has a shell and no more
    Image(busybox(), user="ann")  an image of these layers
    Index(one, other)             several, one for each platform
    layout(path, {"tag": image})  an OCI layout, which skopeo pushes

The Python root is Debian's, made by mmdebstrap and kept in build/images (see debian.py).
"""

import functools
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import subprocess
import tarfile

from support import must_work

OCI, DOCKER = "application/vnd.oci.image", "application/vnd.docker"
MANIFEST = {False: f"{OCI}.manifest.v1+json", True: f"{DOCKER}.distribution.manifest.v2+json"}
INDEX = {False: f"{OCI}.index.v1+json", True: f"{DOCKER}.distribution.manifest.list.v2+json"}
CONFIG = {False: f"{OCI}.config.v1+json", True: f"{DOCKER}.container.image.v1+json"}
LAYER = {False: f"{OCI}.layer.v1.tar+gzip", True: f"{DOCKER}.image.rootfs.diff.tar.gzip"}

HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
ELSEWHERE = "arm64" if HERE == "amd64" else "amd64"
BUSYBOX = "/bin/busybox"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


@functools.lru_cache(16)
def compressed(layer):
    """Most images begin with the same one."""
    return gzip.compress(layer, 1, mtime=0)


class Tree:
    """A tar archive in the making. What is owned by whom is told by numbers alone."""

    def __init__(self):
        self.out = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.out, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, kind, mode=0o755, owner=0, data=None, xattrs=None, **fields):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner, owner
        entry.mtime = 1_000_000_000
        entry.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in (xattrs or {}).items()}
        for key, value in fields.items():
            setattr(entry, key, value)
        if data is not None:
            entry.size = len(data)
        self.tar.addfile(entry, io.BytesIO(data) if data is not None else None)
        return self

    def directory(self, name, mode=0o755, owner=0):
        return self.add(name, tarfile.DIRTYPE, mode, owner)

    def file(self, name, data=b"", mode=0o644, owner=0, xattrs=None):
        return self.add(name, tarfile.REGTYPE, mode, owner, data.encode() if isinstance(data, str) else data, xattrs)

    def symlink(self, name, target):
        return self.add(name, tarfile.SYMTYPE, 0o777, linkname=str(target))

    def link(self, name, target):
        return self.add(name, tarfile.LNKTYPE, linkname=target)

    def device(self, name, major, minor):
        return self.add(name, tarfile.CHRTYPE, 0o666, devmajor=major, devminor=minor)

    def program(self, name, path, mode=0o755, **more):
        return self.file(name, pathlib.Path(path).read_bytes(), mode, **more)

    @functools.cached_property
    def data(self):
        self.tar.close()
        return self.out.getvalue()


@functools.cache
def busybox():
    """The lowest layer of most: a shell, its tools, and root in passwd."""
    if not os.access(BUSYBOX, os.X_OK):
        must_work(f"{BUSYBOX} is not there (busybox-static)")
    tree = Tree()
    for name in ("bin", "etc", "root", "usr", "var"):
        tree.directory(name, 0o700 if name == "root" else 0o755)
    tree.directory("tmp", 0o1777)
    tree.program("bin/busybox", BUSYBOX)
    for name in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            tree.symlink(f"bin/{name}", "busybox")
    tree.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    tree.file("etc/group", "root:x:0:\n")
    return tree.data


def ann():
    """A user who owns a home that nobody else may enter. For Image(busybox(), ann(), user="ann")."""
    tree = Tree()
    tree.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nann:x:1234:1235:Ann:/home/ann:/bin/sh\n")
    tree.file("etc/group", "root:x:0:\nann:x:1235:\n")
    tree.directory("home")
    tree.add("home/ann", tarfile.DIRTYPE, 0o700, 1234, gid=1235)
    tree.add("home/ann/secret", tarfile.REGTYPE, 0o600, 1234, b"of Ann\n", gid=1235)
    return tree.data


def layers_with_whiteouts():
    """Three layers, and what of theirs is there in the end: {name: content, None of a directory}."""
    first, second, third = Tree(), Tree(), Tree()
    for name in ("w", "w/a", "w/b", "w/b/deep", "w/d"):
        first.directory(name)
    for name in ("w/a/keep", "w/a/gone", "w/a/back", "w/b/old", "w/b/deep/old", "w/c", "w/e"):
        first.file(name, f"first {name}")
    first.link("w/hard", "w/a/keep")
    second.file("w/a/.wh.gone").file("w/a/.wh.back").file("w/.wh.d")
    second.directory("w/b").file("w/b/.wh..wh..opq").file("w/b/new", "second w/b/new")
    second.file("w/.wh.c").directory("w/e").file("w/e/inside", "second w/e/inside")
    third.file("w/a/back", "third w/a/back").file("w/c", "third w/c")
    return [first.data, second.data, third.data], {
        "w": None, "w/a": None, "w/b": None, "w/e": None,
        "w/a/keep": "first w/a/keep", "w/a/back": "third w/a/back", "w/hard": "first w/a/keep",
        "w/b/new": "second w/b/new", "w/c": "third w/c", "w/e/inside": "second w/e/inside"}


class Image:
    """Layers, a configuration and a manifest. Fields may be changed by `lie` before anything is hashed."""

    def __init__(self, *layers, docker=False, architecture=HERE, variant=None, compress=True, lie=None, **config):
        """config: env, user, workdir, entrypoint, cmd, labels as Docker has them."""
        self.docker = docker
        self.platform = {"os": "linux", "architecture": architecture, **({"variant": variant} if variant else {})}
        names = {"env": "Env", "user": "User", "workdir": "WorkingDir", "entrypoint": "Entrypoint", "cmd": "Cmd",
                 "labels": "Labels"}
        self.fields = {
            **self.platform, "created": "2020-01-01T00:00:00Z",
            "config": {names[key]: value for key, value in config.items()},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
            "history": [{"created_by": "makers.py"} for _ in layers]}
        packed = [compressed(layer) if compress else layer for layer in layers]
        self.manifest_fields = {
            "schemaVersion": 2, "mediaType": MANIFEST[docker],
            "layers": [self._part(LAYER[docker] if compress else LAYER[docker].rpartition("+" if not docker else ".")[0],
                                  data) for data in packed]}
        if lie:
            lie(self)
        self.config = compact(self.fields)
        self.manifest_fields.setdefault("config", self._part(CONFIG[docker], self.config))
        self.manifest = compact(self.manifest_fields)
        self.blobs = {digest(data): data for data in (*packed, self.config)}

    @staticmethod
    def _part(kind, data):
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    @property
    def id(self):
        return digest(self.config).partition(":")[2]

    @property
    def digest(self):
        return digest(self.manifest)

    @property
    def layers(self):
        """Digests as they are transferred, lowest first."""
        return [layer["digest"] for layer in self.manifest_fields["layers"]]

    @property
    def kind(self):
        return MANIFEST[self.docker]

    @property
    def manifests(self):
        """All that a registry has to know by digest: {digest: (media type, bytes)}."""
        return {self.digest: (self.kind, self.manifest)}


class Index:
    """Images of one name, one for each platform."""

    def __init__(self, *images, docker=False):
        self.kind, self.images = INDEX[docker], images
        self.manifest = compact({"schemaVersion": 2, "mediaType": self.kind, "manifests": [
            {**Image._part(image.kind, image.manifest), "platform": image.platform} for image in images]})
        self.blobs = {name: data for image in images for name, data in image.blobs.items()}

    @property
    def digest(self):
        return digest(self.manifest)

    @property
    def manifests(self):
        return {self.digest: (self.kind, self.manifest)} | {
            name: entry for image in self.images for name, entry in image.manifests.items()}


def layout(path, images):
    """An OCI layout of {tag: Image or Index}, as skopeo, umoci and podman read it."""
    blobs = pathlib.Path(path) / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    for image in images.values():
        data = image.blobs | {name: text for name, (_, text) in image.manifests.items()}
        for name, content in data.items():
            (blobs / name.partition(":")[2]).write_bytes(content)
    (path / "index.json").write_bytes(compact({"schemaVersion": 2, "manifests": [
        {**Image._part(image.kind, image.manifest), "annotations": {"org.opencontainers.image.ref.name": tag}}
        for tag, image in images.items()]}))
    return path
