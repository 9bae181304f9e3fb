"""Connections and programs of the classes with Async in front: as _io.py, by asyncio and without threads."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import time
from typing import Any, Awaitable, List, Optional, Tuple, TypeVar

from ._errors import SandboxTimeoutError
from ._place import CONNECT_SECONDS, Place

T = TypeVar("T")


async def _within(seconds: Optional[float], waiting: Awaitable[T], what: str) -> T:
    try:
        return await asyncio.wait_for(waiting, seconds)
    except asyncio.TimeoutError:
        raise SandboxTimeoutError(what, code="timeout") from None


class AsyncStream:
    """A connection. seconds: how long one call may wait; None: as long as it takes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, place: Place) -> AsyncStream:
        """OSError where nobody is there."""
        if place.path is None:
            opening: Awaitable[Any] = asyncio.open_connection(place.host, place.port)
            try:
                reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
            except asyncio.TimeoutError:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return cls(reader, writer)
        end = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                return cls(*await asyncio.open_unix_connection(place.path))
            except OSError as e:
                # A full backlog is no socket to wait on: only asking again helps.
                if e.errno != errno.EAGAIN or time.monotonic() > end:
                    raise
                await asyncio.sleep(0.01)

    async def send(self, data: bytes, seconds: Optional[float]) -> None:
        self._writer.write(data)
        await _within(seconds, self._writer.drain(), "the daemon took nothing in time")

    async def receive(self, seconds: Optional[float]) -> bytes:
        return await _within(seconds, self._reader.read(1 << 16), "nothing came of the daemon in time")

    async def close(self) -> None:
        self._writer.close()


async def _read_all(pipe: Any) -> bytes:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return await reader.read()
    finally:
        transport.close()


async def _ended(pid: int) -> None:
    """asyncio's own way of waiting for a child is a thread, in some versions."""
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()
    fd = os.pidfd_open(pid)
    try:
        loop.add_reader(fd, gone.cancel)
        await asyncio.wait([gone])
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def run_program(words: List[str], stdin: int, fds: List[int], seconds: Optional[float]) -> Tuple[bytes, bytes]:
    """What it says on standard output and error. It is ended when its caller is cancelled."""
    process = subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=fds)
    reading = asyncio.gather(_read_all(process.stdout), _read_all(process.stderr))
    try:
        stdout, stderr = await _within(seconds, asyncio.shield(reading), "the program did not end in time")
        return stdout, stderr
    finally:
        if process.poll() is None and not reading.done():
            process.send_signal(signal.SIGTERM)
            # What it says on its way out is read, or it would not get to clear up.
            await reading
        if process.poll() is None:
            await _ended(process.pid)
        process.wait()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
