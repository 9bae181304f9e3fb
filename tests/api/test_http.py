"""The server by what it says on the wire: what it answers, and what it refuses (attack 31).

Each refusal is an exact status or a closed connection. healthy() behind it shows that the server is
none the worse for it; the requests that are refused differ in one thing from one that is not."""
import json
import os
import re
import resource
import socket
import struct
import time

import pytest

from api_support import SANITIZED, get, post, request, server, serving  # noqa: F401


def healthy(server):
    answer = server.ask(get("/v1/health"))
    return answer.status == 200 and answer.json["status"] == "ok"


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


# Attack 31: slow ones

@pytest.fixture(scope="module")
def hasty():
    with serving(head_ms=300, body_idle_ms=300, keep_alive_ms=300, write_stall_ms=500, linger_ms=300,
                 heartbeat_ms=100) as s:
        yield s


def slowly(client, data, step, seconds):
    """Bytes one by one, until the other side has enough."""
    begin = time.monotonic()
    client.socket.settimeout(step)
    for byte in data:
        try:
            client.send(bytes([byte]))
            if not client.more():
                break
        except TimeoutError:
            pass
        except ConnectionError:
            break
        if client.pending or time.monotonic() - begin > seconds:
            break
    client.socket.settimeout(5)
    return time.monotonic() - begin


def test_slow_head(hasty):
    with hasty.client() as c:
        taken = slowly(c, get("/v1/health"), 0.05, 3)
        assert c.answer().status == 408 and c.closed() and 0.25 < taken < 2


def test_slow_head_control(hasty):
    with hasty.client() as c:
        slowly(c, get("/v1/health"), 0.001, 3)
        assert c.answer().status == 200


def test_silence(hasty):
    """One who never says anything, and one who has no more to say."""
    with hasty.client() as c:
        begin = time.monotonic()
        assert c.closed() and 0.25 < time.monotonic() - begin < 2
    with hasty.client() as c:
        assert c.ask(get("/v1/health")).status == 200
        begin = time.monotonic()
        assert c.closed() and 0.25 < time.monotonic() - begin < 2


@pytest.mark.parametrize("path", ["/echo", "/upload"])
def test_slow_body(hasty, path):
    gone = hasty.count("gone")
    with hasty.client() as c:
        c.send(request("POST", path, ["Content-Length: 1000"]))
        taken = slowly(c, b"x" * 1000, 0.05, 3)
        answer = c.answer()
        assert (answer.status, answer.code) == (408, "invalid_request") and c.closed()
        assert 0.25 < taken < 2
    assert hasty.wait("gone", gone + (path == "/upload"))


def test_slow_body_control(hasty):
    """Longer than the time-out in all, but never idle for so long; and where it is us who pause."""
    with hasty.client() as c:
        c.send(request("POST", "/echo", ["Content-Length: 10240"]))
        for _ in range(10):
            c.send(b"x" * 1024)
            time.sleep(0.1)
        assert len(c.answer().body) == 10240
        assert c.ask(post("/upload?pause=600", b"x" * 10)).json == {"bytes": 10}


def test_slow_answer_is_no_reason_to_close(hasty):
    with hasty.client() as c:
        assert c.ask(get("/slow?ms=1000")).body == b"slow\n"


def test_reader_who_stops(hasty):
    gone = hasty.count("gone")
    with hasty.client(rcvbuf=4096) as c:
        c.send(get("/flood?bytes=100000000"))
        assert hasty.wait("gone", gone + 1)
        assert len(c.rest()) < 50000000
    assert healthy(hasty)


# Attack 31: clients that go away

def hard_close(client):
    """With a reset instead of a FIN."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


@pytest.mark.parametrize("how", ["unix", "reset", "fin of a run"])
def test_client_that_vanishes_before_its_answer(server, how):
    gone = server.count("gone")
    client = server.local() if how == "unix" else server.client()
    client.send(get("/run?ms=20000" if how == "fin of a run" else "/slow?ms=20000"))
    time.sleep(0.1)
    hard_close(client) if how == "reset" else client.socket.close()
    assert server.wait("gone", gone + 1)


@pytest.mark.parametrize("how", ["unix", "tcp"])
def test_half_closed_client_gets_its_answer(server, how):
    with server.local() if how == "unix" else server.client() as c:
        c.send(get("/slow?ms=200"))
        c.socket.shutdown(socket.SHUT_WR)
        assert c.answer().body == b"slow\n" and c.closed()
    with server.local() if how == "unix" else server.client() as c:
        c.send(post("/echo", b"one") + get("/slow?ms=100") + post("/echo", b"two"))
        c.socket.shutdown(socket.SHUT_WR)
        assert [c.answer().body for _ in range(3)] == [b"one", b"slow\n", b"two"] and c.closed()


def test_half_closed_run_over_unix_gets_its_answer(server):
    """There the kernel can tell who is gone and who has only finished sending."""
    with server.local() as c:
        c.send(get("/run?ms=200"))
        c.socket.shutdown(socket.SHUT_WR)
        assert c.answer().body == b"slow\n"


def test_half_closed_client_costs_nothing(server):
    """What can't be unseen must not be waited for."""
    with server.client() as c:
        c.send(get("/slow?ms=1500"))
        c.socket.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
        before = server.cpu()
        time.sleep(1)
        assert server.cpu() - before < 0.2
        assert c.answer().body == b"slow\n"


@pytest.mark.parametrize("path", ["/flood?bytes=1000000000000", "/events?n=0&hold=1", "/events?n=1000000&ms=1"])
@pytest.mark.parametrize("how", ["unix", "tcp"])
def test_client_that_vanishes_mid_stream(server, how, path):
    gone = server.count("gone")
    client = server.local() if how == "unix" else server.client()
    client.send(get(path))
    assert client.head()[0] == 200
    hard_close(client)
    assert server.wait("gone", gone + 1)


def test_client_that_vanishes_mid_body(server):
    gone = server.count("gone")
    for end in (lambda c: c.socket.close(), hard_close):
        client = server.client()
        client.send(request("POST", "/upload", ["Content-Length: 1000"]) + b"x" * 10)
        time.sleep(0.05)
        end(client)
    assert server.wait("gone", gone + 2)


def test_request_that_is_cut_short(server):
    for data in (b"GET / HT", get("/v1/health")[:-2], post("/echo", b"hello")[:-1]):
        with server.client() as c:
            c.send(data)
            c.socket.shutdown(socket.SHUT_WR)
            assert c.answer().status == 400 and c.closed()


# Attack 31: many, and much

def test_slow_reader_costs_no_memory(server):
    """50 who ask for a gigabyte each and read nothing; then one who reads all of a large one."""
    before = server.status("VmRSS")
    clients = [server.client(rcvbuf=4096) for _ in range(50)]
    for c in clients:
        c.send(get("/flood?bytes=1000000000"))
    time.sleep(1)
    used = server.status("VmRSS") - before
    cpu = server.cpu()
    time.sleep(0.5)
    assert server.cpu() - cpu < 0.2
    assert healthy(server)
    for c in clients:
        hard_close(c)
    assert used < 50 * 1024 * (2 if SANITIZED else 1), f"{used} KiB"
    with server.client() as c:
        size = 100 << 20
        c.send(get(f"/flood?bytes={size}&sized=1"))
        status, headers = c.head()
        seen, peak = len(c.pending), 0
        while seen < size:
            seen += len(c.socket.recv(1 << 20))
            peak = max(peak, server.status("VmRSS"))
        assert seen == size and int(headers["content-length"]) == size
        assert peak - before < 100 * 1024


def test_writer_without_restraint_is_cut_off():
    with serving(output_bytes=4 << 20) as s:
        with s.client(rcvbuf=4096) as c:
            c.send(get("/flood?bytes=1000000000", "X-Test: 1"))
            assert s.wait("gone", 1)
        assert s.status("VmHWM") < (400 if SANITIZED else 60) * 1024


def test_fast_sender_is_held_back(server):
    """A body that is echoed and not read: our side stops reading."""
    before = server.status("VmRSS")
    with server.client(rcvbuf=4096) as c:
        c.send(request("POST", "/pipe", ["Content-Length: 500000000"]))
        c.socket.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while True:
                sent += c.socket.send(b"x" * 65536)
        assert sent < 50 << 20
        assert server.status("VmRSS") - before < 30 * 1024
    assert healthy(server)


def test_pipe_gives_all_back(server):
    body = os.urandom(5 << 20)
    with server.client() as c:
        c.send(request("POST", "/pipe", [f"Content-Length: {len(body)}"]))
        got, at = b"", 0
        c.head()
        while len(got) < len(body):
            if at < len(body):
                c.send(body[at:at + 65536])
                at += 65536
            got += c.chunk()
        assert got == body and c.chunk() == b""


def test_too_many_connections():
    with serving(connections=20, listener_connections=10) as s:
        clients = [s.client() for _ in range(10)]
        for c in clients:
            assert c.ask(get("/v1/health")).status == 200
        for _ in range(3):
            with s.client() as c:
                answer = c.answer()
                assert (answer.status, answer.code) == (503, "at_capacity")
                assert answer.headers["connection"] == "close" and "retry-after" in answer.headers
                assert c.closed()
        # The other listener still has room, until the server has not.
        locals_ = [s.local() for _ in range(10)]
        for c in locals_:
            assert c.ask(get("/v1/health")).status == 200
        with s.local() as c:
            assert c.answer().status == 503
        for c in clients + locals_:
            assert c.ask(get("/v1/health")).status == 200
        for c in clients + locals_:
            c.socket.close()
        time.sleep(0.2)
        assert healthy(s)


def test_refusals_are_bounded():
    """Only so many are told at one time; the others are closed, or they would be the next flood."""
    with serving(connections=1, linger_ms=60000) as s:
        with s.client() as first:
            assert first.ask(get("/v1/health")).status == 200
            clients = [s.client() for _ in range(200)]
            assert [c.rest()[9:12] for c in clients] == [b"503"] * 64 + [b""] * 136
            assert len(os.listdir(f"/proc/{s.process.pid}/fd")) < 64 + 20
            for c in clients:
                c.socket.close()
            assert first.ask(get("/v1/health")).status == 200


def raise_files(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted <= hard or (soft < wanted and hard == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def test_10000_connections():
    """Or as many as may be open here: most are refused or wait, and the server lives on."""
    n = min(10000, raise_files(10500) - 500)
    with serving(linger_ms=500, head_ms=60000) as s:
        early = s.client()
        assert early.ask(get("/v1/health")).status == 200
        clients = []
        for i in range(n):
            c = socket.socket()
            c.setblocking(False)
            c.connect_ex(s.tcp)
            clients.append(c)
            if i % 100 == 0:
                time.sleep(0.005)
        assert early.ask(get("/v1/health")).status == 200
        assert s.status("VmRSS") < (1500 if SANITIZED else 100) * 1024
        for c in clients:
            c.close()
        end = time.monotonic() + 20
        while time.monotonic() < end and early.ask(get("/count")).json["connections"] > 1:
            time.sleep(0.1)
        assert early.ask(get("/count")).json["connections"] == 1
        assert healthy(s)
        early.socket.close()


def test_no_more_fds():
    """accept() fails with EMFILE: the clients wait, nobody spins, and then they are served."""
    with serving() as s:
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (20, 20))
        clients = [s.client(timeout=10) for _ in range(30)]
        for c in clients:
            c.send(get("/v1/health"))
        time.sleep(0.3)
        before = s.cpu()
        time.sleep(1)
        assert s.cpu() - before < 0.2
        for c in clients:
            assert c.answer().status == 200
            c.socket.close()


def test_connections_that_come_and_go(server):
    for _ in range(1000 if not SANITIZED else 300):
        server.client().socket.close()
    assert healthy(server) and server.wait("connections", 1)


def test_drain():
    """No new connection, idle ones closed, and what is under way comes to its end."""
    with serving() as s:
        idle, slow, half, last = [s.client() for _ in range(4)]
        assert idle.ask(get("/v1/health")).status == 200
        slow.send(get("/slow?ms=500"))
        half.send(post("/echo", b"hello")[:-1])
        time.sleep(0.1)
        assert last.ask(post("/drain", b"")).body == b"bye\n"
        assert last.closed() and idle.closed()
        with pytest.raises(ConnectionRefusedError):
            s.client()
        assert half.ask(b"o").body == b"hello" and half.closed()
        assert slow.answer().body == b"slow\n" and slow.closed()
        for c in (idle, slow, half, last):
            c.socket.close()


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
