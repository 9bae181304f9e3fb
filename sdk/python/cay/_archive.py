"""Trees as tar archives. What comes out of a sandbox is foreign: it becomes files and directories, nothing else."""

from __future__ import annotations

import os
import pathlib
import shutil
import tarfile
import tempfile
from typing import IO, List, Optional

from ._errors import SandboxError

FILES_MAX = 1_000_000
BYTES_MAX = 64 << 30


def _plain(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    if not (member.isreg() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def pack(directory: pathlib.Path, archive: IO[bytes]) -> None:
    """What is in it; links and whatever is neither file nor directory are left out."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(directory.iterdir()):
            tar.add(entry, arcname=entry.name, filter=_plain)


def _parts(name: str) -> List[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise SandboxError(f"the archive leads out of its directory: {name[:200]!r}")
    return parts


def _take(tar: tarfile.TarFile, top: pathlib.Path) -> None:
    size = 0
    for n, member in enumerate(tar):
        parts = _parts(member.name)
        size += member.size
        if n >= FILES_MAX or size > BYTES_MAX:
            raise SandboxError("the archive is too large", code="too_large")
        where = top.joinpath(*parts)
        if member.isdir():
            where.mkdir(parents=True, exist_ok=True)
            continue
        source = tar.extractfile(member) if member.isreg() else None
        if source is None:
            continue
        where.parent.mkdir(parents=True, exist_ok=True)
        # There are no links below top, which is ours and new, so no path leads out of it.
        mode = 0o755 if member.mode & 0o100 else 0o644
        fd = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(fd, "wb") as file:
            shutil.copyfileobj(source, file)


def unpack(archive: IO[bytes], directory: pathlib.Path) -> None:
    """Into a directory that is new: all of it, or none."""
    top = pathlib.Path(tempfile.mkdtemp(prefix=".cay-", dir=directory.parent))
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            _take(tar, top)
        os.chmod(top, 0o755)
        os.rename(top, directory)
    except BaseException:
        shutil.rmtree(top, ignore_errors=True)
        raise
