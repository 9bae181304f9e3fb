"""The files of a sandbox. Relative paths count from its workspace."""

from __future__ import annotations

import os
import pathlib
import tarfile
import tempfile
from typing import Any, AsyncIterator, IO, Iterator, List, Optional, Union

from .._archive import pack, unpack
from .._errors import SandboxError
from .._result import FileEntry
from .client import AsyncClient
from .runs import AsyncEvents

Path = Union[str, "os.PathLike[str]"]
_PIECE = 1 << 18


class AsyncFiles:
    def __init__(self, client: AsyncClient, sandbox: str) -> None:
        self._client, self._path = client, f"{sandbox}/files"

    async def read(self, path: Path) -> bytes:
        exchange = await self._client._ask("GET", self._path, query={"path": os.fspath(path)})
        try:
            return await exchange.all()
        finally:
            await exchange.close()

    async def read_text(self, path: Path, encoding: str = "utf-8") -> str:
        return (await self.read(path)).decode(encoding)

    async def read_pieces(self, path: Path) -> AsyncIterator[bytes]:
        """Of a file of any size."""
        exchange = await self._client._ask("GET", self._path, query={"path": os.fspath(path)})
        try:
            async for data in exchange.pieces():
                yield data
        finally:
            await exchange.close()

    async def write(self, path: Path, data: Union[str, bytes], *, mode: Optional[int] = None, append: bool = False,
                    overwrite: bool = True) -> FileEntry:
        """All of it or nothing; directories on the way are made."""
        return await self._put(path, data.encode() if isinstance(data, str) else bytes(data), mode, append, overwrite)

    async def _put(self, path: Path, body: Any, mode: Optional[int], append: bool, overwrite: bool) -> FileEntry:
        exchange = await self._client._ask(
            "PUT", self._path, body, headers={"Content-Type": "application/octet-stream"}, query={
                "path": os.fspath(path), "mode": None if mode is None else f"{mode:03o}", "append": append,
                "overwrite": None if overwrite else "0"})
        try:
            return FileEntry.of(await exchange.json())
        finally:
            await exchange.close()

    async def list(self, path: Path = ".", *, depth: int = 1) -> List[FileEntry]:
        """What is in a directory, by name; depth: how many levels."""
        found: List[FileEntry] = []
        cursor = None
        while True:
            page = await self._client.call("GET", f"{self._path}/list", query={
                "path": os.fspath(path), "depth": depth, "limit": 10000, "cursor": cursor})
            found += [FileEntry.of(entry) for entry in page["entries"]]
            cursor = page["cursor"]
            if not cursor:
                return found

    async def stat(self, path: Path, *, follow: bool = False) -> FileEntry:
        return FileEntry.of(await self._client.call("GET", f"{self._path}/stat", query={
            "path": os.fspath(path), "follow": follow}))

    async def exists(self, path: Path) -> bool:
        try:
            await self.stat(path)
        except SandboxError as error:
            if error.code != "not_found":
                raise
            return False
        return True

    async def mkdir(self, path: Path, *, mode: Optional[int] = None) -> FileEntry:
        """And those on the way."""
        body = {"path": os.fspath(path), **({} if mode is None else {"mode": f"{mode:03o}"})}
        return FileEntry.of(await self._client.call("POST", f"{self._path}/mkdir", body))

    async def move(self, source: Path, target: Path, *, overwrite: bool = False) -> FileEntry:
        return FileEntry.of(await self._client.call("POST", f"{self._path}/move", {
            "from": os.fspath(source), "to": os.fspath(target), "overwrite": overwrite}))

    async def remove(self, path: Path, *, recursive: bool = False) -> int:
        """How many entries are gone."""
        answer = await self._client.call("DELETE", self._path, query={
            "path": os.fspath(path), "recursive": recursive})
        return int(answer["removed"])

    async def upload(self, source: Path, target: Optional[Path] = None) -> None:
        """A file or a directory of this machine; links in a directory are left out."""
        here = pathlib.Path(source)
        there = here.name if target is None else os.fspath(target)
        if here.is_dir():
            with tempfile.TemporaryFile() as archive:
                pack(here, archive)
                await self.mkdir(there)
                await self.unpack(_pieces(archive), there)
            return
        with here.open("rb") as file:
            mode = 0o755 if os.access(here, os.X_OK) else 0o644
            await self._put(there, _pieces(file), mode, False, True)

    async def unpack(self, archive: Any, path: Path = ".") -> None:
        """An archive (tar, plain or in gzip or zstd, or zip) as bytes or pieces of them, into a directory."""
        exchange = await self._client._ask("POST", f"{self._path}/archive", archive, headers={
            "Content-Type": "application/x-tar"}, query={"path": os.fspath(path)})
        try:
            await exchange.all()
        finally:
            await exchange.close()

    async def download(self, source: Path, target: Optional[Path] = None) -> pathlib.Path:
        """A file or a directory to this machine, where target must not be there yet.

        Only files and directories are made of what a sandbox says, and only below target.
        """
        there = os.fspath(source)
        here = pathlib.Path(target if target is not None else pathlib.PurePosixPath(there).name or "download")
        if os.path.lexists(here):
            raise FileExistsError(f"{here} is there already")
        if (await self.stat(source, follow=True)).is_dir:
            with tempfile.TemporaryFile() as archive:
                async for data in self.pack(source):
                    archive.write(data)
                archive.seek(0)
                try:
                    unpack(archive, here)
                except tarfile.TarError as e:
                    raise SandboxError(f"the archive of {there} makes no sense: {e}") from None
            return here
        with here.open("xb") as file:
            try:
                async for data in self.read_pieces(source):
                    file.write(data)
            except BaseException:
                here.unlink()
                raise
        return here

    async def pack(self, path: Path = ".", *, format: str = "tar") -> AsyncIterator[bytes]:
        """A tree as an archive: tar, tar.gz or tar.zst."""
        exchange = await self._client._ask("GET", f"{self._path}/archive", query={
            "path": os.fspath(path), "format": format})
        try:
            async for data in exchange.pieces():
                yield data
        finally:
            await exchange.close()

    def watch(self, path: Path = ".", *, recursive: bool = False) -> AsyncEvents:
        """What changes below a directory: events called "change", and "end"."""
        return AsyncEvents(self._client, "GET", f"{self._path}/watch", None, query={
            "path": os.fspath(path), "recursive": recursive}, last="end")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while True:
        data = file.read(_PIECE)
        if not data:
            return
        yield data
