"""Events, WebSockets and terminals, over the daemon's unix socket."""
import base64
import json
import os
import socket
import struct
import time
import urllib.parse

from serve_support import Connection, SANITIZED

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Events:
    """Server-sent events as they come: (name, object)."""

    def __init__(self, daemon, url, timeout=30, method="GET", body=None, rcvbuf=None):
        self.connection = Connection(daemon.socket, timeout)
        self.connection.connect()
        if rcvbuf:
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        body = None if body is None else json.dumps(body).encode()
        self.connection.request(method, url, body, {"Accept": "text/event-stream"})
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        return self

    def __next__(self):
        name = data = None
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif line == "" and name:
                return name, data
            elif line == "" and self.response.isclosed():
                raise StopIteration


class Closed(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status, self.body = status, body


class WebSocket:
    """A client by RFC 6455: as much of it as tests need."""

    def __init__(self, daemon, url, timeout=15, rcvbuf=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        if rcvbuf:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.socket.connect(daemon.socket)
        self.pending = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {url} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                             f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.pending:
            self._more()
        head, _, self.pending = self.pending.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status != 101:
            size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length"))
            raise Refused(status, json.loads(self._exactly(size)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError
        self.pending += data

    def _exactly(self, n):
        while len(self.pending) < n:
            self._more()
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def send(self, opcode, data=b""):
        mask = os.urandom(4)
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        spread = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(spread, "big")).to_bytes(size, "big")
        self.socket.sendall(head + mask + masked)

    def type(self, data):
        self.send(BINARY, data if isinstance(data, bytes) else data.encode())

    def say(self, **message):
        self.send(TEXT, json.dumps(message).encode())

    def receive(self):
        """The next message: (opcode, bytes). Pings are answered; a goodbye is raised."""
        while True:
            first, second = self._exactly(2)
            assert first & 0xf0 == 0x80 and not second & 0x80
            size = second
            if second == 126:
                size, = struct.unpack(">H", self._exactly(2))
            elif second == 127:
                size, = struct.unpack(">Q", self._exactly(8))
            data = self._exactly(size)
            opcode = first & 15
            if opcode == PING:
                self.send(PONG, data)
            elif opcode == CLOSE:
                code = struct.unpack(">H", data[:2])[0] if data else 1005
                self.send(CLOSE, data[:2])
                raise Closed(code, data[2:].decode())
            else:
                return opcode, data


class Terminal(WebSocket):
    """One of /v1/sandboxes/{id}/terminal, with what came by it so far."""

    def __init__(self, sandbox, timeout=15, rcvbuf=None, **query):
        url = f"{sandbox.url}/terminal"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        super().__init__(sandbox.daemon, url, timeout, rcvbuf)
        opcode, data = self.receive()
        assert opcode == TEXT
        self.hello = json.loads(data)
        self.id = self.hello["terminal"]
        self.seen, self.said = b"", []

    def step(self):
        opcode, data = self.receive()
        if opcode == BINARY:
            self.seen += data
        else:
            self.said.append(json.loads(data))

    def until(self, mark, seconds=15):
        """Reads on until mark was printed; what came before it, and forgets both."""
        mark = mark if isinstance(mark, bytes) else mark.encode()
        end = time.monotonic() + seconds
        while mark not in self.seen:
            assert time.monotonic() < end, (mark, self.seen[-2000:])
            self.step()
        before, _, self.seen = self.seen.partition(mark)
        return before

    def end(self):
        """Reads to the goodbye, and returns it; what the program ended with is in said."""
        while True:
            try:
                self.step()
            except Closed as goodbye:
                return goodbye


class Memory:
    """How much more the api has than when this was made; the sanitizers' own is nobody's fault."""

    def __init__(self, daemon):
        self.daemon, self.before = daemon, daemon.rss()["api"]

    def grown(self):
        return 0 if SANITIZED else self.daemon.rss()["api"] - self.before


def fds(daemon):
    """How many the api has open."""
    return len(os.listdir(f"/proc/{daemon.pids()['api']}/fd"))
