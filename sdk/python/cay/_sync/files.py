"""The files of a sandbox. Relative paths count from its workspace."""

from __future__ import annotations

import os
import pathlib
import tarfile
import tempfile
from typing import Any, Iterator, IO, Iterator, List, Optional, Union

from .._archive import pack, unpack
from .._errors import SandboxError
from .._result import FileEntry
from .client import Client
from .runs import Events

Path = Union[str, "os.PathLike[str]"]
_PIECE = 1 << 18


class Files:
    def __init__(self, client: Client, sandbox: str) -> None:
        self._client, self._path = client, f"{sandbox}/files"

    def read(self, path: Path) -> bytes:
        exchange = self._client._ask("GET", self._path, query={"path": os.fspath(path)})
        try:
            return exchange.all()
        finally:
            exchange.close()

    def read_text(self, path: Path, encoding: str = "utf-8") -> str:
        return (self.read(path)).decode(encoding)

    def read_pieces(self, path: Path) -> Iterator[bytes]:
        """Of a file of any size."""
        exchange = self._client._ask("GET", self._path, query={"path": os.fspath(path)})
        try:
            for data in exchange.pieces():
                yield data
        finally:
            exchange.close()

    def write(self, path: Path, data: Union[str, bytes], *, mode: Optional[int] = None, append: bool = False,
                    overwrite: bool = True) -> FileEntry:
        """All of it or nothing; directories on the way are made."""
        return self._put(path, data.encode() if isinstance(data, str) else bytes(data), mode, append, overwrite)

    def _put(self, path: Path, body: Any, mode: Optional[int], append: bool, overwrite: bool) -> FileEntry:
        exchange = self._client._ask(
            "PUT", self._path, body, headers={"Content-Type": "application/octet-stream"}, query={
                "path": os.fspath(path), "mode": None if mode is None else f"{mode:03o}", "append": append,
                "overwrite": None if overwrite else "0"})
        try:
            return FileEntry.of(exchange.json())
        finally:
            exchange.close()

    def list(self, path: Path = ".", *, depth: int = 1) -> List[FileEntry]:
        """What is in a directory, by name; depth: how many levels."""
        found: List[FileEntry] = []
        cursor = None
        while True:
            page = self._client.call("GET", f"{self._path}/list", query={
                "path": os.fspath(path), "depth": depth, "limit": 10000, "cursor": cursor})
            found += [FileEntry.of(entry) for entry in page["entries"]]
            cursor = page["cursor"]
            if not cursor:
                return found

    def stat(self, path: Path, *, follow: bool = False) -> FileEntry:
        return FileEntry.of(self._client.call("GET", f"{self._path}/stat", query={
            "path": os.fspath(path), "follow": follow}))

    def exists(self, path: Path) -> bool:
        try:
            self.stat(path)
        except SandboxError as error:
            if error.code != "not_found":
                raise
            return False
        return True

    def mkdir(self, path: Path, *, mode: Optional[int] = None) -> FileEntry:
        """And those on the way."""
        body = {"path": os.fspath(path), **({} if mode is None else {"mode": f"{mode:03o}"})}
        return FileEntry.of(self._client.call("POST", f"{self._path}/mkdir", body))

    def move(self, source: Path, target: Path, *, overwrite: bool = False) -> FileEntry:
        return FileEntry.of(self._client.call("POST", f"{self._path}/move", {
            "from": os.fspath(source), "to": os.fspath(target), "overwrite": overwrite}))

    def remove(self, path: Path, *, recursive: bool = False) -> int:
        """How many entries are gone."""
        answer = self._client.call("DELETE", self._path, query={
            "path": os.fspath(path), "recursive": recursive})
        return int(answer["removed"])

    def upload(self, source: Path, target: Optional[Path] = None) -> None:
        """A file or a directory of this machine; links in a directory are left out."""
        here = pathlib.Path(source)
        there = here.name if target is None else os.fspath(target)
        if here.is_dir():
            with tempfile.TemporaryFile() as archive:
                pack(here, archive)
                self.mkdir(there)
                self.unpack(_pieces(archive), there)
            return
        with here.open("rb") as file:
            mode = 0o755 if os.access(here, os.X_OK) else 0o644
            self._put(there, _pieces(file), mode, False, True)

    def unpack(self, archive: Any, path: Path = ".") -> None:
        """An archive (tar, plain or in gzip or zstd, or zip) as bytes or pieces of them, into a directory."""
        exchange = self._client._ask("POST", f"{self._path}/archive", archive, headers={
            "Content-Type": "application/x-tar"}, query={"path": os.fspath(path)})
        try:
            exchange.all()
        finally:
            exchange.close()

    def download(self, source: Path, target: Optional[Path] = None) -> pathlib.Path:
        """A file or a directory to this machine, where target must not be there yet.

        Only files and directories are made of what a sandbox says, and only below target.
        """
        there = os.fspath(source)
        here = pathlib.Path(target if target is not None else pathlib.PurePosixPath(there).name or "download")
        if os.path.lexists(here):
            raise FileExistsError(f"{here} is there already")
        if (self.stat(source, follow=True)).is_dir:
            with tempfile.TemporaryFile() as archive:
                for data in self.pack(source):
                    archive.write(data)
                archive.seek(0)
                try:
                    unpack(archive, here)
                except tarfile.TarError as e:
                    raise SandboxError(f"the archive of {there} makes no sense: {e}") from None
            return here
        with here.open("xb") as file:
            try:
                for data in self.read_pieces(source):
                    file.write(data)
            except BaseException:
                here.unlink()
                raise
        return here

    def pack(self, path: Path = ".", *, format: str = "tar") -> Iterator[bytes]:
        """A tree as an archive: tar, tar.gz or tar.zst."""
        exchange = self._client._ask("GET", f"{self._path}/archive", query={
            "path": os.fspath(path), "format": format})
        try:
            for data in exchange.pieces():
                yield data
        finally:
            exchange.close()

    def watch(self, path: Path = ".", *, recursive: bool = False) -> Events:
        """What changes below a directory: events called "change", and "end"."""
        return Events(self._client, "GET", f"{self._path}/watch", None, query={
            "path": os.fspath(path), "recursive": recursive}, last="end")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while True:
        data = file.read(_PIECE)
        if not data:
            return
        yield data
