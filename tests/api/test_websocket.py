"""WebSockets: the handshake, messages both ways, and clients that do it wrong."""
import base64
import hashlib
import os
import socket
import struct
import time

import pytest

from api_support import get, server  # noqa: F401

KEY = base64.b64encode(b"0123456789abcdef").decode()
HEADERS = {"Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": KEY}
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def hello(**changed):
    headers = {**HEADERS, **{k.replace("_", "-"): v for k, v in changed.items()}}
    return get("/ws", *[f"{k}: {v}" for k, v in headers.items() if v is not None])


def frame(opcode, data=b"", fin=True, masked=True, rsv=0):
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    mask = os.urandom(4)
    bit = 0x80 if masked else 0
    if len(data) < 126:
        head += bytes([bit | len(data)])
    elif len(data) < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", len(data))
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", len(data))
    if not masked:
        return head + data
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def receive(c):
    first, second = c.exactly(2)
    assert first & 0x70 == 0 and not second & 0x80
    size = second
    if second == 126:
        size, = struct.unpack(">H", c.exactly(2))
    elif second == 127:
        size, = struct.unpack(">Q", c.exactly(8))
    return first & 15, c.exactly(size)


def opened(client):
    status, headers = client.ask(hello()).status, None
    assert status == 101
    return client


def test_handshake(server):
    with server.client() as c:
        answer = c.ask(hello())
        proof = hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        assert answer.status == 101 and answer.headers["upgrade"] == "websocket"
        assert answer.headers["connection"] == "Upgrade"
        assert answer.headers["sec-websocket-accept"] == base64.b64encode(proof).decode()
        assert "content-length" not in answer.headers and "transfer-encoding" not in answer.headers


@pytest.mark.parametrize("changed, status", [
    ({"Upgrade": None}, 426), ({"Upgrade": "h2c"}, 426), ({"Connection": "keep-alive"}, 426),
    ({"Sec_WebSocket_Version": "8"}, 426), ({"Sec_WebSocket_Version": None}, 426),
    ({"Sec_WebSocket_Key": None}, 400), ({"Sec_WebSocket_Key": "short"}, 400),
    ({"Sec_WebSocket_Key": "!" * 22 + "=="}, 400), ({"Content_Length": "5"}, 400)])
def test_bad_handshakes(server, changed, status):
    with server.client() as c:
        c.send(hello(**changed) + (b"hello" if "Content_Length" in changed else b""))
        answer = c.answer()
        assert (answer.status, answer.code) == (status, "invalid_request")
        assert (answer.headers.get("sec-websocket-version") == "13") == (status == 426)


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65535, 65536, 1 << 20])
def test_messages(server, size):
    data = os.urandom(size)
    with server.client() as c:
        opened(c).send(frame(BINARY, data))
        assert receive(c) == (BINARY, data)


def test_message_behind_the_handshake(server):
    """Bytes that were read together with the request are not lost."""
    with server.local() as c:
        c.send(hello() + frame(TEXT, "ä".encode()) + frame(BINARY, b"\0"))
        assert c.answer().status == 101
        assert receive(c) == (TEXT, "ä".encode()) and receive(c) == (BINARY, b"\0")


def test_fragments_and_pings(server):
    with opened(server.client()) as c:
        c.send(frame(TEXT, b"a", fin=False) + frame(PING, b"here?") + frame(0, b"b", fin=False)
               + frame(0, b"c"))
        assert receive(c) == (PONG, b"here?") and receive(c) == (TEXT, b"abc")


def test_byte_by_byte(server):
    with opened(server.client()) as c:
        for byte in frame(TEXT, b"slowly"):
            c.send(bytes([byte]))
        assert receive(c) == (TEXT, b"slowly")


def test_client_closes(server):
    done = server.count("done")
    with opened(server.client()) as c:
        c.send(frame(CLOSE, struct.pack(">H", 1000) + b"bye"))
        opcode, data = receive(c)
        assert opcode == CLOSE and data[:2] == struct.pack(">H", 1000) and c.closed()
    assert server.wait("done", done + 1)


def test_server_closes(server):
    with opened(server.client()) as c:
        c.send(frame(TEXT, b"close"))
        assert receive(c) == (CLOSE, struct.pack(">H", 1000) + b"as you wish")
        c.send(frame(CLOSE, struct.pack(">H", 1000)))
        assert c.closed()


@pytest.mark.parametrize("wrong, code", [
    (frame(TEXT, b"x", masked=False), 1002), (frame(TEXT, b"x", rsv=4), 1002), (frame(3, b"x"), 1002),
    (frame(0, b"x"), 1002), (frame(PING, b"x" * 126), None), (frame(PING, b"x", fin=False), None),
    (frame(TEXT, b"\xff"), 1007), (b"\x82\xff" + struct.pack(">Q", 1 << 40) + b"mask and more", 1009),
    (b"\x82\xff" + struct.pack(">Q", (1 << 20) + 1) + b"mask and more", 1009),
    (b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"mask", None)],
    ids=["not masked", "reserved bit", "unknown opcode", "continues nothing", "long ping", "ping in pieces",
         "not UTF-8", "huge", "one byte too large", "negative"])
def test_protocol_errors(server, wrong, code):
    with opened(server.client()) as c:
        c.send(wrong)
        assert receive(c) == (CLOSE, struct.pack(">H", code) if code else b"") and c.closed()
    assert server.ask(get("/v1/health")).status == 200


def test_many_fragments_are_one_message(server):
    """Each is small, all together are too much."""
    with opened(server.client()) as c:
        c.send(frame(BINARY, b"x" * 1000, fin=False))
        with pytest.raises((AssertionError, ConnectionError, EOFError)):
            for _ in range(1100):
                c.send(frame(0, b"x" * 1000, fin=False))
            assert receive(c) != (CLOSE, struct.pack(">H", 1009))


@pytest.mark.parametrize("how", ["unix", "tcp", "reset", "half"])
def test_client_that_vanishes(server, how):
    gone = server.count("gone")
    c = opened(server.local() if how == "unix" else server.client())
    if how == "reset":
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.socket.shutdown(socket.SHUT_WR) if how == "half" else c.socket.close()
    assert server.wait("gone", gone + 1)
    c.socket.close()


def test_slow_reader(server):
    """16 MiB that are not read stay unsent, not in memory; then they come."""
    before = server.status("VmRSS")
    with opened(server.client(rcvbuf=4096)) as c:
        drained = server.count("drained")
        c.send(frame(TEXT, b"flood"))
        time.sleep(0.5)
        assert server.status("VmRSS") - before < 10 * 1024
        total = 0
        while total < 16 << 20:
            opcode, data = receive(c)
            assert opcode == BINARY
            total += len(data)
        assert server.count("drained") > drained
