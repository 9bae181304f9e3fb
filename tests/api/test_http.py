"""The server by what it says on the wire: what it answers, and what it refuses (attack 31).

Each refusal is an exact status or a closed connection. healthy() behind it shows that the server is
none the worse for it; the requests that are refused differ in one thing from one that is not."""
import json
import os
import re
import socket
import time

import pytest

from api_support import SANITIZED, get, hasty, healthy, post, request, server  # noqa: F401


# What works

def test_health(server):
    for client in (server.client(), server.local()):
        with client as c:
            answer = c.ask(get("/v1/health"))
            assert (answer.status, answer.json["status"]) == (200, "ok")
            assert answer.headers["content-type"] == "application/json"
            assert set(answer.headers) == {"x-request-id", "content-type", "content-length"}


def test_keep_alive(server):
    with server.client() as c:
        ids = {c.ask(post("/echo", b"%d" % i)).headers["x-request-id"] for i in range(100)}
        assert len(ids) == 100


def test_http_1_0_is_closed_unless_it_asks(server):
    with server.client() as c:
        answer = c.ask(b"GET /v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert answer.status == 200 and answer.headers["connection"] == "close" and c.closed()
    with server.client() as c:
        for _ in range(2):
            assert c.ask(b"GET /v1/health HTTP/1.0\r\nHost: localhost\r\n"
                         b"Connection: keep-alive\r\n\r\n").status == 200


def test_http_1_0_gets_no_chunks(server):
    answer = server.ask(b"GET /flood?bytes=100000 HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert "transfer-encoding" not in answer.headers and len(answer.body) == 100000


def test_connection_close(server):
    with server.client() as c:
        answer = c.ask(get("/v1/health", "Connection: close"))
        assert answer.headers["connection"] == "close" and c.closed()


def test_head(server):
    with server.client() as c:
        answer = c.ask(request("HEAD", "/v1/health"), head=True)
        assert answer.status == 200 and int(answer.headers["content-length"]) > 10
        answer = c.ask(request("HEAD", "/flood?bytes=1000000"), head=True)
        assert answer.status == 200
        assert c.ask(get("/v1/health")).status == 200


def test_no_content(server):
    with server.client() as c:
        answer = c.ask(get("/nothing"))
        assert answer.status == 204 and "content-length" not in answer.headers
        assert c.ask(get("/v1/health")).status == 200


def test_request_id(server):
    assert server.ask(get("/v1/health", "X-Request-Id: my-Id_1")).headers["x-request-id"] == "my-Id_1"
    for bad in ("a b", "a\"b", "x" * 65, "\xe4", ""):
        answer = server.ask(get("/v1/health", f"X-Request-Id: {bad}"))
        assert re.fullmatch(r"req_[0-9a-z]{16}", answer.headers["x-request-id"])


def test_request_parts(server):
    answer = server.ask(get("/items/a%2Fb?q=%C3%A4+b", "X-Test:  two  words \t"))
    assert answer.json["id"] == "a/b" and answer.json["q"] == "ä b"
    assert answer.json["header"] == "two  words" and answer.json["path"] == "/items/a%2Fb"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", answer.json["address"]) and not answer.json["local"]


def test_peer_credentials(server):
    with server.local() as c:
        peer = c.ask(get("/items/x")).json
        assert (peer["local"], peer["uid"], peer["pid"]) == (True, os.getuid(), os.getpid())


def test_bodies(server):
    body = os.urandom(200000)
    with server.client() as c:
        assert c.ask(post("/echo", body)).body == body
        c.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (body[:1], body[1:70000], body[70000:]):
            c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        c.send(b"0\r\n\r\n")
        assert c.answer().body == body
        assert c.ask(post("/echo", b"")).body == b""


def test_streamed_body(server):
    body = os.urandom(3 << 20)
    with server.client() as c:
        assert c.ask(post("/upload", body)).json == {"bytes": len(body)}
        assert c.ask(post("/upload", b"")).json == {"bytes": 0}
        assert c.ask(post("/upload?pause=5", body[:500000])).json == {"bytes": 500000}


def test_body_that_stops_at_a_pause(server):
    """The end of the body needs no further byte, so nothing but resume can bring it."""
    with server.client() as c:
        c.send(post("/upload?pause=50", b""))
        assert c.answer().json == {"bytes": 0}
        assert c.ask(post("/upload?pause=50", b"x" * 10)).json == {"bytes": 10}


def test_answer_before_the_body(server):
    """Whole, though the body is still on its way, and then closed: nobody knows where it would end."""
    done = server.count("done")
    with server.client() as c:
        c.send(request("POST", "/early", [f"Content-Length: {8 << 20}"]))
        c.send(b"x" * (8 << 20))
        answer = c.answer()
        assert (answer.body, answer.headers["connection"]) == (b"early\n", "close")
        c.socket.shutdown(socket.SHUT_WR)
        assert c.closed()
    assert server.wait("done", done + 1)
    with server.client() as c:
        for _ in range(2):
            assert c.ask(post("/early", b"")).body == b"early\n"


def test_expect_continue(server):
    head = b"POST /%s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with server.client() as c:
        for path in (b"echo", b"upload"):
            assert c.ask(head % path).status == 100
            answer = c.ask(b"hello")
            assert answer.status == 200
        # Whoever does not wait gets no 100.
        assert c.ask(head % b"echo" + b"hello").body == b"hello"
    # What is refused is refused before the body.
    answer = server.ask(head % b"nothing-here")
    assert answer.status == 404 and answer.headers["connection"] == "close"
    answer = server.ask((head % b"echo").replace(b"100-continue", b"200-ok"))
    assert answer.status == 417


def test_not_found_and_not_allowed(server):
    with server.client() as c:
        answer = c.ask(get("/nope"))
        assert (answer.status, answer.code) == (404, "not_found")
        answer = c.ask(request("PATCH", "/items/x"))
        assert (answer.status, answer.code) == (405, "invalid_request")
        assert answer.headers["allow"] == "GET, HEAD, DELETE"
        assert c.ask(request("OPTIONS", "/echo")).headers["allow"] == "POST, PUT"
        assert c.ask(get("/v1/health")).status == 200


def test_authorization(server):
    answer = server.ask(post("/secret", b"x"))
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert server.ask(post("/secret", b"x", "Authorization: Bearer good")).body == b"x"


@pytest.mark.parametrize("code, status, name", [
    (1, 400, "invalid_request"), (12, 429, "rate_limited"), (13, 503, "at_capacity"), (15, 500, "internal")])
def test_errors(server, code, status, name):
    answer = server.ask(get(f"/fail?code={code}"))
    assert (answer.status, answer.code) == (status, name)
    assert ("retry-after" in answer.headers) == (status in (429, 503))


def test_answer_that_is_not_whole_is_seen(server):
    with server.client() as c:
        c.send(get("/broken"))
        assert not c.rest().endswith(b"half")
    assert healthy(server)


def test_pipelining(server):
    """In order, each answered before the next is looked at, slow ones too."""
    with server.client() as c:
        c.send(get("/slow?ms=100") + post("/echo", b"one") + get("/slow?ms=1") + post("/echo", b"two")
               + get("/items/last"))
        assert [c.answer().body for _ in range(4)] == [b"slow\n", b"one", b"slow\n", b"two"]
        assert c.answer().json["id"] == "last"


def test_pipelining_is_bounded(server):
    """Behind a slow request megabytes can be sent, which stay with the kernel; all are answered."""
    n = 100000 if not SANITIZED else 20000
    with server.client(timeout=60) as c:
        c.send(get("/slow?ms=300"))
        c.socket.setblocking(False)
        data = memoryview(get("/nothing") * n)
        sent = answers = 0
        size, biggest = len(get("/nothing")), 0
        begin = server.status("VmRSS")
        c.socket.setblocking(True)
        c.socket.settimeout(0.05)
        tail, slow = b"", False
        while answers < n:
            if sent < len(data):
                try:
                    sent += c.socket.send(data[sent:sent + 65536])
                except TimeoutError:
                    pass
            try:
                tail += c.socket.recv(1 << 20)
            except TimeoutError:
                pass
            biggest = max(biggest, server.status("VmRSS") - begin)
            answers += tail.count(b"204 No Content")
            tail = tail[-13:] if not tail.endswith(b"204 No Content") else b""
    assert biggest < 20000, f"{biggest} KiB for {n} requests of {size} bytes"


# Attack 31: one message, two readings

REFUSED = {
    "a length and chunks": (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n", 400),
    "chunks and a length": (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n", 400),
    "two lengths": (b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!", 400),
    "the same length twice": (b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello", 400),
    "a list of lengths": (b"Content-Length: 5, 5\r\n", b"hello", 400),
    "a negative length": (b"Content-Length: -1\r\n", b"", 400),
    "a length with a sign": (b"Content-Length: +5\r\n", b"hello", 400),
    "a length past 64 bits": (b"Content-Length: 18446744073709551621\r\n", b"hello", 400),
    "a hexadecimal length": (b"Content-Length: 0x5\r\n", b"hello", 400),
    "no length in a length": (b"Content-Length: \r\n", b"", 400),
    "another coding": (b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n", 400),
    "chunked not last": (b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n", 400),
    "chunked twice": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n", 400),
    "a coding that looks like chunked": (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n", 400),
    "a coding with a vertical tab": (b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n", 400),
    "a bare LF": (b"X: y\nContent-Length: 5\r\n", b"hello", 400),
    "a bare CR": (b"X: y\rContent-Length: 5\r\n", b"hello", 400),
    "a folded line": (b"X: y\r\n z\r\nContent-Length: 5\r\n", b"hello", 400),
    "a space before the colon": (b"Content-Length : 5\r\n", b"hello", 400),
    "a space in a name": (b"Content Length: 5\r\n", b"hello", 400),
    "no name": (b": 5\r\n", b"", 400),
    "no colon": (b"Content-Length\r\n", b"", 400),
    "a NUL in a value": (b"X: a\0b\r\n", b"", 400),
    "a NUL in a name": (b"X\0: a\r\n", b"", 400),
    "a control character": (b"X: a\x08b\r\n", b"", 400),
    "a second Host": (b"Host: localhost\r\n", b"", 400),
    "one header too many": (b"".join(b"H%d: x\r\n" % i for i in range(100)), b"", 431),
    "a huge header": (b"X: " + b"x" * 40000 + b"\r\n", b"", 431),
    "many large headers": (b"".join(b"H%d: %s\r\n" % (i, b"x" * 1000) for i in range(40)), b"", 431),
    "a body past the route's maximum": (b"Content-Length: 1048577\r\n", b"", 413),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_headers(server, what):
    headers, body, status = REFUSED[what]
    smuggled = get("/items/smuggled")
    with server.client() as c:
        answer = c.ask(b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body + smuggled)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert answer.code == ("invalid_request" if status == 400 else "too_large")
        assert c.closed()
    assert healthy(server)


def test_refused_headers_control(server):
    """The same request without what is wrong with it, and the limits just kept."""
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    with server.client() as c:
        assert c.ask(head % b"Content-Length: 5\r\n" + b"hello").body == b"hello"
        assert c.ask(head % b"Transfer-Encoding: chunked\r\n" + b"5\r\nhello\r\n0\r\n\r\n").body == b"hello"
        assert c.ask(head % b"".join(b"H%d: x\r\n" % i for i in range(99))).status == 200
        assert c.ask(head % (b"X: " + b"x" * 30000 + b"\r\n")).status == 200
        assert c.ask(head % b"Content-Length: 1048576\r\n" + b"x" * 1048576).status == 200


LINES = {
    "HTTP/0.9": (b"GET /v1/health\r\n\r\n", 400),
    "HTTP/0.9, spelt out": (b"GET /v1/health HTTP/0.9\r\nHost: localhost\r\n\r\n", 505),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/2 by name": (b"GET /v1/health HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    "HTTP/1.2": (b"GET /v1/health HTTP/1.2\r\nHost: localhost\r\n\r\n", 400),
    "a bare LF": (b"GET /v1/health HTTP/1.1\nHost: localhost\n\n", 400),
    "two spaces": (b"GET  /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a space in front": (b" GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a tab": (b"GET\t/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "an unknown method": (b"BREW /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a method in lower case": (b"get /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 100, 400),
    "a NUL": (b"GET /v1/health\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a high byte": (b"GET /v1/health\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a long URL": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
    "a line of no words": (b"x" * 1000, 400),
    "a URL without end": (b"GET /" + b"x" * 100000, 414),
    "no Host": (b"GET /v1/health HTTP/1.1\r\n\r\n", 400),
    "absolute form": (b"GET http://localhost/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "asterisk form": (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "authority form": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a bad escape": (get("/items/%zz"), 400),
    "an escaped NUL": (get("/items/a%00b"), 400),
    "a parameter twice": (get("/items/a?q=1&q=2"), 400),
    "a fragment": (get("/items/a#b"), 400),
}


@pytest.mark.parametrize("what", LINES)
def test_refused_lines(server, what):
    data, status = LINES[what]
    for client in (server.client(), server.local()):
        with client as c:
            answer = c.ask(data)
            assert answer.status == status and answer.json["error"]["message"]
    assert healthy(server)


CHUNKS = {
    "an extension": b"5;a=b\r\nhello\r\n0\r\n\r\n",
    "a huge extension": b"5;" + b"a" * 1000000 + b"\r\nhello\r\n0\r\n\r\n",
    "an empty extension": b"5;\r\nhello\r\n0\r\n\r\n",
    "an extension of the last": b"5\r\nhello\r\n0;a\r\n\r\n",
    "a trailer": b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    "a trailer with a length": b"5\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "a size that is none": b"z\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "a size with a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size and a space": b"5 \r\nhello\r\n0\r\n\r\n",
    "a size past 64 bits": b"1" + b"0" * 16 + b"\r\nhello\r\n0\r\n\r\n",
    "a bare LF behind the size": b"5\nhello\r\n0\r\n\r\n",
    "a bare LF behind the data": b"5\r\nhello\n0\r\n\r\n",
    "more than its size": b"4\r\nhello\r\n0\r\n\r\n",
    "less than its size": b"6\r\nhello\r\n0\r\n\r\n",
    "a bare LF at the end": b"5\r\nhello\r\n0\r\n\n",
}


@pytest.mark.parametrize("path", ["/echo", "/upload"])
@pytest.mark.parametrize("what", CHUNKS)
def test_refused_chunks(server, what, path):
    with server.client() as c:
        c.send(request("POST", path, ["Transfer-Encoding: chunked"]))
        try:
            c.send(CHUNKS[what])
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = c.answer()
        assert (answer.status, answer.code) == (400, "invalid_request") and c.closed()
    assert healthy(server)


def test_chunked_body_past_the_maximum(server):
    with server.client() as c:
        c.send(request("PUT", "/echo", ["Transfer-Encoding: chunked"]) + b"a\r\n0123456789\r\n")
        c.send(b"1\r\nx\r\n0\r\n\r\n")
        answer = c.answer()
        assert (answer.status, answer.code) == (413, "too_large") and c.closed()
    with server.client() as c:
        c.send(request("PUT", "/echo", ["Transfer-Encoding: chunked"]) + b"a\r\n0123456789\r\n")
        assert c.ask(b"0\r\n\r\n").body == b"0123456789"


def test_refusal_reaches_one_who_is_still_sending(server):
    """The answer must not be lost in the reset that comes of unread bytes."""
    body = b"x" * (8 << 20)
    with server.client() as c:
        c.send(request("POST", "/echo", [f"Content-Length: {len(body)}"]))
        c.send(body)
        assert c.answer().status == 413


# Server-sent events

def test_events(server):
    with server.client() as c:
        answer = c.ask(get("/events?n=2"))
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store" and answer.headers["x-accel-buffering"] == "no"
        blocks = answer.body.decode().split("\n\n")
        assert blocks.pop() == "" and len(blocks) == 2
        for left, block in zip((2, 1), blocks):
            event, data = block.split("\n")
            assert event == "event: tick" and json.loads(data.removeprefix("data: ")) == {
                "text": "a\nb", "left": left}
        assert c.ask(get("/v1/health")).status == 200


def test_heartbeat(hasty):
    with hasty.client() as c:
        c.send(get("/events?n=0&hold=1"))
        c.head()
        begin = time.monotonic()
        assert [c.chunk() for _ in range(5)] == [b":\n\n"] * 5
        assert 0.4 < time.monotonic() - begin < 3
