"""HTTP/1.1, server-sent events and WebSockets, as bytes in and out. What comes is foreign: all has a bound."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._errors import SandboxError

HEAD_MAX = 64 << 10
ANSWER_MAX = 192 << 20  # a result with its files in base64
MESSAGE_MAX = 16 << 20  # of a WebSocket

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def broken(what: str) -> SandboxError:
    return SandboxError(f"the daemon's answer makes no sense: {what}")


def parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise broken("no JSON") from None


def request_head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "User-Agent: cay-python",
             *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    if any("\r" in line or "\n" in line for line in lines):
        raise SandboxError("a header can't have line breaks", code="invalid_request")
    return "\r\n".join(lines).encode()


class Response:
    """An answer: feed() what comes, take() what there is of its body."""

    def __init__(self) -> None:
        self.status = 0  # until the head is there
        self.headers: Dict[str, str] = {}
        self.ended = False
        self._pending, self._body = bytearray(), bytearray()
        self._left: Optional[int] = None  # of the body or the chunk; None: up to the end of the connection
        self._chunked, self._trailer = False, False

    def feed(self, data: bytes) -> None:
        """b"" is the end of the connection."""
        self._pending += data
        if not self.status:
            while not self.status and self._head():
                pass
            if not self.status and not data:
                raise broken("it ended in the middle")
        if self.status:
            self._take_body()
            if not data and not self.ended:
                if self._chunked or self._left is not None:
                    raise broken("it ended in the middle")
                self.ended = True

    def take(self) -> bytes:
        data = bytes(self._body)
        self._body.clear()
        return data

    def rest(self) -> bytes:
        """What came behind the head of a 101."""
        return bytes(self._pending)

    def _head(self) -> bool:
        head, found, rest = bytes(self._pending).partition(b"\r\n\r\n")
        if len(head) > HEAD_MAX:
            raise broken("its head has no end")
        if not found:
            return False
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not (words[1].isdigit() and len(words[1]) == 3):
            raise broken("no HTTP")
        self._pending = bytearray(rest)
        status = int(words[1])
        if status < 200 and status != 101:
            return True  # the real one follows
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.status = status
        self._begin_body()
        return False

    def _begin_body(self) -> None:
        if self.status in (101, 204, 304):
            self.ended = True
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked, self._left = True, 0
        elif "content-length" in self.headers:
            length = self.headers["content-length"]
            if not length.isdigit() or len(length) > 18:
                raise broken("its length")
            self._left = int(length)

    def _take_body(self) -> None:
        while not self.ended:
            if self._chunked and self._left == 0:
                if not self._chunk_size():
                    return
                continue
            n = len(self._pending) if self._left is None else min(self._left, len(self._pending))
            self._body += self._pending[:n]
            del self._pending[:n]
            if self._left is not None:
                self._left -= n
                self.ended = self._left == 0 and not self._chunked
            if n == 0:
                return

    def _chunk_size(self) -> bool:
        """One line: a size, the end of a chunk, or of what follows the last one."""
        line, found, _ = bytes(self._pending[:HEAD_MAX]).partition(b"\r\n")
        if not found:
            if len(self._pending) >= HEAD_MAX:
                raise broken("a chunk's size")
            return False
        del self._pending[:len(line) + 2]
        if self._trailer:
            self.ended = not line
        elif line:
            try:
                self._left = int(line.split(b";")[0], 16)
            except ValueError:
                raise broken("a chunk's size") from None
            self._trailer = self._left == 0
        return True


class Lines:
    """Newline-separated text out of pieces."""

    def __init__(self) -> None:
        self._pieces: List[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> List[bytes]:
        head, found, rest = data.rpartition(b"\n")
        if not found:
            self._keep(data)
            return []
        lines = b"".join([*self._pieces, head]).split(b"\n")
        self._pieces, self._size = [], 0
        self._keep(rest)
        return lines

    def _keep(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > ANSWER_MAX:
            raise broken("a line has no end")


class ServerEvents:
    """(name, object) each, out of a text/event-stream."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._name, self._data = "", b""

    def feed(self, data: bytes) -> List[Tuple[str, Any]]:
        events = []
        for line in self._lines.feed(data):
            line = line.rstrip(b"\r")
            if line.startswith(b"event:"):
                self._name = line[6:].strip().decode(errors="replace")
            elif line.startswith(b"data:"):
                self._data += line[5:].strip()
            elif not line and self._name:
                events.append((self._name, parse_json(self._data or b"{}")))
                self._name, self._data = "", b""
        return events


# WebSockets, the client's side of RFC 6455


def websocket_headers() -> Tuple[Dict[str, str], str]:
    """What asks for one, and what the answer must carry."""
    nonce = base64.b64encode(os.urandom(16))
    accept = base64.b64encode(hashlib.sha1(nonce + _WEBSOCKET_GUID).digest()).decode()
    return {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": nonce.decode()}, accept


def frame(opcode: int, data: bytes = b"") -> bytes:
    mask, size = os.urandom(4), len(data)
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    spread = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(spread, "big")
    return head + mask + masked.to_bytes(size, "big")


class Frames:
    """Whole messages out of pieces."""

    def __init__(self) -> None:
        self._pending, self._message, self._opcode = bytearray(), bytearray(), 0

    def feed(self, data: bytes) -> List[Tuple[int, bytes]]:
        self._pending += data
        messages: List[Tuple[int, bytes]] = []
        while True:
            one = self._frame()
            if one is None:
                return messages
            last, opcode, payload = one
            if opcode >= CLOSE:
                messages.append((opcode, payload))
                continue
            if bool(opcode) == bool(self._opcode):
                raise broken("a WebSocket's message begins in another")
            self._opcode = opcode or self._opcode
            self._message += payload
            if len(self._message) > MESSAGE_MAX:
                raise broken("a WebSocket's message is too long")
            if last:
                messages.append((self._opcode, bytes(self._message)))
                self._opcode = 0
                self._message.clear()

    def _frame(self) -> Optional[Tuple[bool, int, bytes]]:
        p = self._pending
        if len(p) < 2:
            return None
        size, at = p[1], 2
        if p[0] & 0x70 or size & 0x80:
            raise broken("a WebSocket's frame")
        if size >= 126:
            at = 4 if size == 126 else 10
            if len(p) < at:
                return None
            size = int.from_bytes(p[2:at], "big")
        if size > MESSAGE_MAX:
            raise broken("a WebSocket's message is too long")
        if len(p) < at + size:
            return None
        payload = bytes(p[at:at + size])
        first = p[0]
        del p[:at + size]
        return bool(first & 0x80), first & 15, payload
