"""A program of a sandbox on a terminal."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple, Union

from .._errors import error_of
from .._wire import BINARY, CLOSE, PING, PONG, TEXT, Frames, broken, frame, parse_json, websocket_headers
from .client import Client
from .exchange import Exchange, Query


class Terminal:
    """Iterate for what it prints, as bytes, up to its end; then exit_code or signal says how it ended.

    close() leaves it: a terminal goes on for five minutes, and can be opened again by its id.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._frames = exchange, Frames()
        self._messages: List[Tuple[int, bytes]] = []
        self._closed = False
        self.hello: Dict[str, Any] = {}
        self.exit_code: Optional[int] = None
        self.signal: Optional[int] = None

    @classmethod
    def open(cls, client: Client, path: str, query: Query) -> Terminal:
        headers, accept = websocket_headers()
        exchange = client._ask("GET", path, query=query, headers=headers)
        made = cls(exchange)
        try:
            if exchange.response.status != 101 or exchange.response.headers.get("sec-websocket-accept") != accept:
                raise broken("no WebSocket")
            made._messages += made._frames.feed(exchange.rest())
            opcode, data = made._message(client.timeout)
            if opcode != TEXT:
                raise broken("a terminal without a name")
            made.hello = parse_json(data)
        except BaseException:
            exchange.close()
            raise
        return made

    @property
    def id(self) -> str:
        return str(self.hello["terminal"])

    def send(self, data: Union[str, bytes]) -> None:
        """As if it was typed; "\\n" is the Enter key of most programs."""
        self._exchange.send_raw(frame(BINARY, data.encode() if isinstance(data, str) else data))

    def resize(self, cols: int, rows: int) -> None:
        self._say({"resize": [cols, rows]})

    def kill(self, signal: str = "KILL") -> None:
        """INT, QUIT and TSTP go to the foreground; HUP hangs up; TERM and KILL kill."""
        self._say({"signal": signal})

    def read(self, timeout: Optional[float] = None) -> bytes:
        """What it printed next; b"" at its end."""
        while not self._closed:
            opcode, data = self._message(timeout)
            if opcode == BINARY and data:
                return data
            if opcode == TEXT:
                self._hear(parse_json(data))
        return b""

    def read_until(self, mark: Union[str, bytes], timeout: Optional[float] = None) -> bytes:
        """All up to and with mark; what comes behind it in the same breath, too. Less if it ends before."""
        wanted = mark.encode() if isinstance(mark, str) else mark
        seen = b""
        while wanted not in seen:
            data = self.read(timeout)
            if not data:
                break
            seen += data
        return seen

    def __iter__(self) -> Terminal:
        return self

    def __next__(self) -> bytes:
        data = self.read()
        if not data:
            raise StopIteration
        return data

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        self._exchange.close()

    def _say(self, message: Dict[str, Any]) -> None:
        self._exchange.send_raw(frame(TEXT, json.dumps(message).encode()))

    def _hear(self, message: Any) -> None:
        if isinstance(message, dict) and "error" in message:
            raise error_of(message)
        if isinstance(message, dict) and isinstance(message.get("exit"), dict):
            self.exit_code, self.signal = message["exit"].get("exit_code"), message["exit"].get("signal")

    def _message(self, timeout: Optional[float]) -> Tuple[int, bytes]:
        while True:
            while not self._messages:
                data = self._exchange.receive_raw(timeout)
                if not data:
                    self.close()
                    return CLOSE, b""
                self._messages += self._frames.feed(data)
            opcode, data = self._messages.pop(0)
            if opcode == PING:
                self._exchange.send_raw(frame(PONG, data))
            elif opcode == CLOSE:
                self.close()
                return opcode, data
            elif opcode != PONG:
                return opcode, data
