"""One request and its answer, on a connection of its own: closing it cancels what it began."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.parse
from typing import Any, Iterator, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from .._io import Stream
from .._errors import SandboxTimeoutError, error_of
from .._place import Place
from .._wire import ANSWER_MAX, Response, ServerEvents, broken, parse_json, request_head

Body = Union[bytes, Iterable[bytes]]
Query = Mapping[str, Union[str, int, bool, None]]


def target_of(path: str, query: Optional[Query] = None) -> str:
    pairs = {name: ("1" if value is True else str(value)) for name, value in (query or {}).items()
             if value is not None and value is not False}
    # A path that is no UTF-8 has surrogates here, as os.fsdecode() makes them.
    encoded = urllib.parse.urlencode(pairs, errors="surrogateescape")
    return f"{path}?{encoded}" if encoded else path


class Exchange:
    """send() once, then head(), then the body in one of its ways; close() in any case."""

    def __init__(self, stream: Stream, place: Place, idle: Optional[float], deadline: Optional[float]) -> None:
        """idle: seconds without a byte; deadline: of all of it."""
        self._stream, self._place, self._idle = stream, place, idle
        self._end = None if deadline is None else time.monotonic() + deadline
        self._gone = False
        self.response = Response()

    def _patience(self) -> Optional[float]:
        if self._end is None:
            return self._idle
        left = self._end - time.monotonic()
        if left <= 0:
            raise SandboxTimeoutError("the deadline was reached", code="timeout")
        return left if self._idle is None else min(left, self._idle)

    def send(self, method: str, target: str, headers: Dict[str, str], body: Optional[Body] = None) -> None:
        headers.setdefault("Connection", "close")
        pieces: Iterable[bytes] = ()
        whole = b""
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
            whole = body
        elif body is not None:
            headers["Transfer-Encoding"] = "chunked"
            pieces = _chunks(body)
        elif method in ("POST", "PUT"):
            headers["Content-Length"] = "0"
        try:
            head = request_head(method, target, self._place.header, headers)
            self._stream.send(head + whole, self._patience())
            for piece in pieces:
                self._stream.send(piece, self._patience())
        except (BrokenPipeError, ConnectionResetError):
            self._gone = True  # it may have said why before

    def _more(self) -> None:
        try:
            self.response.feed(self._stream.receive(self._patience()))
        except ConnectionError:
            self.response.feed(b"")

    def head(self) -> Response:
        """An error of the daemon's is raised."""
        while not self.response.status:
            self._more()
        if self.response.status >= 400:
            raise error_of(parse_json(self.all()), self.response.status,
                           self.response.headers.get("retry-after"))
        if self._gone:
            raise broken("it took only a part of the request")
        return self.response

    def pieces(self) -> Iterator[bytes]:
        while True:
            data = self.response.take()
            if data:
                yield data
            elif self.response.ended:
                return
            else:
                self._more()

    def all(self) -> bytes:
        found: List[bytes] = []
        size = 0
        for data in self.pieces():
            found.append(data)
            size += len(data)
            if size > ANSWER_MAX:
                raise broken("it is too long")
        return b"".join(found)

    def json(self) -> Any:
        data = self.all()
        return parse_json(data) if data else None

    def events(self) -> Iterator[Tuple[str, Any]]:
        """Those of a text/event-stream."""
        parser = ServerEvents()
        for data in self.pieces():
            for event in parser.feed(data):
                yield event

    def rest(self) -> bytes:
        return self.response.rest()

    def send_raw(self, data: bytes) -> None:
        self._stream.send(data, self._idle)

    def receive_raw(self, seconds: Optional[float]) -> bytes:
        return self._stream.receive(seconds)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()


def _chunks(pieces: Iterable[bytes]) -> Iterable[bytes]:
    for piece in pieces:
        if piece:
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def json_body(value: Any) -> bytes:
    return json.dumps(value).encode()
