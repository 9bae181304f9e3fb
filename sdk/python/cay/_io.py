"""Connections and programs of the ordinary classes: these calls wait."""

from __future__ import annotations

import errno
import select
import signal
import socket
import subprocess
import time
from typing import List, Optional, Tuple

from ._errors import SandboxTimeoutError
from ._place import CONNECT_SECONDS, Place


class Stream:
    """A connection. seconds: how long one call may wait; None: as long as it takes."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def connect(cls, place: Place) -> Stream:
        """OSError where nobody is there."""
        if place.path is None:
            made = socket.create_connection((place.host, place.port), CONNECT_SECONDS)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return cls(made)
        end = time.monotonic() + CONNECT_SECONDS
        while True:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(CONNECT_SECONDS)
            try:
                made.connect(place.path)
                return cls(made)
            except OSError as e:
                made.close()
                # A full backlog is no socket to wait on: only asking again helps.
                if e.errno != errno.EAGAIN or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def send(self, data: bytes, seconds: Optional[float]) -> None:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(data)
        except socket.timeout:
            raise SandboxTimeoutError("the daemon took nothing in time", code="timeout") from None

    def receive(self, seconds: Optional[float]) -> bytes:
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1 << 16)
        except socket.timeout:
            raise SandboxTimeoutError("nothing came of the daemon in time", code="timeout") from None

    def close(self) -> None:
        self._socket.close()


def run_program(words: List[str], stdin: int, fds: List[int], seconds: Optional[float]) -> Tuple[bytes, bytes]:
    """What it says on standard output and error. It is ended when its caller is interrupted."""
    with subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=fds) as process:
        try:
            return process.communicate(timeout=seconds)
        except BaseException as e:
            # What it says on its way out is read, or it would not get to clear up.
            process.send_signal(signal.SIGTERM)
            process.communicate()
            if isinstance(e, subprocess.TimeoutExpired):
                raise SandboxTimeoutError("the program did not end in time", code="timeout") from None
            raise


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)
