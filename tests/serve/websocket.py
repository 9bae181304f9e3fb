"""WebSockets of the daemon's."""

import base64
import json
import os
import struct

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


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

    def __init__(self, daemon, url, headers=None, **more):
        """More as Daemon.begin() takes it."""
        nonce = base64.b64encode(os.urandom(16)).decode()
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": nonce}
        # What comes back is HTTP no longer: it is read here, from the first byte on.
        self.socket = daemon.begin("GET", url, headers={**upgrade, **(headers or {})}, **more).sock
        self.pending = b""
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
