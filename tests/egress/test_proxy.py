"""The HTTP proxy at 198.18.0.1:3128, for programs that want one: the same rules, and HTTP's answers."""

import socket
import time

from stage import NOBODY, PUBLIC, PUBLIC6, ZONE, dial, echo, on_stage
from test_sniffing import EVIL, GOOD, everything, hello, keep, whys

PROXY = ("198.18.0.1", 3128)
ESTABLISHED = b"HTTP/1.1 200 Connection Established\r\n\r\n"


def by_proxy(*pieces, end=True):
    with socket.create_connection(PROXY, timeout=20) as s:
        try:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(0.1)
            if end:
                s.shutdown(socket.SHUT_WR)
        except OSError:  # it was reset before all was sent
            return everything(s).removesuffix(b"reset") + b"reset"
        return everything(s)


def connect(where):
    return b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (where.encode(), where.encode())


def tunnel(where, *pieces):
    """What comes back through it, or the proxy's answer."""
    out = by_proxy(connect(where), *pieces)
    return out[len(ESTABLISHED):] if out.startswith(ESTABLISHED) else out


def refused(out):
    """Status and line of an answer of the proxy's own, which is whole."""
    head, _, body = out.partition(b"\r\n\r\n")
    assert b"Content-Length: %d\r\n" % len(body) in head + b"\r\n" and b"Connection: close" in head, out
    return int(head.split()[1]), body.decode()


def answer_each(path):
    """A server that keeps what it hears and answers when a whole request has come."""
    def serve(sock):
        while True:
            c, _ = sock.accept()
            c.settimeout(10)
            heard = b""
            while not heard.endswith((b"\r\n\r\n", b"last")):
                heard += c.recv(1 << 16)
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n")
            # What comes behind the request has time to.
            c.settimeout(0.5)
            try:
                while more := c.recv(1 << 16):
                    heard += more
            except TimeoutError:
                heard += b"(and waits)"
            with open(path, "ab") as f:
                f.write(heard)
            c.sendall(b"yes")
            c.close()
    return serve


def heard_by(stage):
    with open(stage.dir + "/heard", "rb") as f:
        return f.read()


@on_stage()
def test_tunnels(stage):
    stage.serve(echo, 80)
    stage.serve(echo, 443)
    net = stage.open("allowlist", "+a.org")
    for port, text in ((80, GOOD), (443, hello("a.org")), (80, b"hello"), (443, b"SSH-2.0-x\r\n")):
        assert net.do(tunnel, f"a.org:{port}", text) == text
        assert net.do(tunnel, f"A.ORG.:{port}", text) == text
        # Together with the request.
        assert net.do(by_proxy, connect(f"a.org:{port}") + text) == ESTABLISHED + text
    head = connect("a.org:80")
    assert net.do(by_proxy, head[:1], head[1:9], head[9:-1], head[-1:] + GOOD[:9], GOOD[9:]) == ESTABLISHED + GOOD
    assert whys(stage, net) == {(80, "allowed", ""), (443, "allowed", "")}
    allowed = [e for e in stage.report(net) if e["name"] == "a.org" and e["port"] == 443]
    assert allowed[0]["times"] == 6 and allowed[0]["in"] == allowed[0]["out"] == 3 * (len(hello("a.org")) + 11)


@on_stage()
def test_tunnels_are_looked_into(stage):
    heard = stage.dir + "/heard"
    for port in (80, 443, 8080):
        stage.serve(keep(heard), port)
    net = stage.open("allowlist", "+a.org", "+a.org:8080", "+b.org")
    for port, text in ((80, EVIL), (443, hello("b.org"))):
        assert net.do(tunnel, f"a.org:{port}", text) == b"reset"
        assert net.do(by_proxy, connect(f"a.org:{port}") + text).endswith(b"reset")
    assert heard_by(stage) == b""
    assert net.do(tunnel, "a.org:80", GOOD, EVIL) == b"reset"
    assert heard_by(stage) == GOOD
    assert net.do(tunnel, "a.org:8080", EVIL) == b""
    assert heard_by(stage) == GOOD + EVIL
    assert {(80, "denied", "name_differs"), (443, "denied", "name_differs")} < whys(stage, net)


@on_stage()
def test_what_is_not_allowed_is_told(stage):
    net = stage.open("allowlist", "+a.org", "+private.org", "+nowhere.org", "-no.a.org")
    expected = [("b.org:443", 403, "not_listed"), ("no.a.org:80", 403, "blocked"), ("a.org:22", 403, "port"),
                (f"{PUBLIC}:443", 403, "literal"), (f"[{PUBLIC6}]:443", 403, "literal"),
                ("127.0.0.1:80", 403, "literal"), ("[::ffff:127.0.0.1]:80", 403, "literal"),
                ("198.18.0.1:53", 403, "literal"), ("private.org:80", 403, "not_public"),
                ("nowhere.org:80", 502, "no_such_name"), ("a.org:443", 502, "refused")]
    for where, status, why in expected:
        got, line = refused(net.do(tunnel, where))
        name, port = where.rsplit(":", 1)
        name = name.strip("[]").replace("::ffff:", "")
        assert got == status and line.startswith(f"cay: {name}:{port}: "), (where, got, line)
        found = [e for e in stage.report(net) if e["name"] == name and e["port"] == int(port)]
        assert [e["why"] for e in found][-1:] == [why], (where, found)
    url = b"GET http://b.org/x HTTP/1.1\r\n\r\n"
    assert refused(net.do(by_proxy, url)) == (403, "cay: b.org:80: not in allow list\n")
    # An answer is read though the program had much to say, and goes on waiting.
    assert refused(net.do(by_proxy, url.replace(b"\r\n\r\n", b"\r\nContent-Length: 300000\r\n\r\n") + bytes(300000)))[0] == 403
    assert refused(net.do(lambda: by_proxy(url, end=False)))[0] == 403
    assert not {"b.org", "no.a.org"} & set(stage.queries())


@on_stage()
def test_what_is_no_request(stage):
    net = stage.open("allowlist", "+a.org")
    for text, status in ((GOOD, 400), (b"hello\r\n\r\n", 400), (connect("a.org"), 400), (connect("127.1:80"), 400),
                         (connect("0x7f000001:80"), 400), (connect("a.org\0.b.org:80"), 400), (b"\x16\3\1\2\0", 400),
                         (b"GET https://a.org/ HTTP/1.1\r\n\r\n", 400), (b"TRACE http://a.org/ HTTP/1.1\r\n\r\n", 405),
                         (b"GET http://a.org/ HTTP/1.1\r\nX: " + b"x" * 70000, 431), (b"GET /" + b"x" * 70000, 431)):
        assert refused(net.do(by_proxy, text))[0] == status, text[:40]
    assert net.do(by_proxy, b"") == b""
    assert [e for e in stage.report(net) if e["port"]] == []


@on_stage()
def test_urls(stage):
    stage.serve(answer_each(stage.dir + "/heard"), 80)
    stage.serve(answer_each(stage.dir + "/heard"), 8080)
    net = stage.open("allowlist", "+a.org", "+a.org:8080")
    yes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes"
    ask = b"GET http://A.org:8080/x?y HTTP/1.1\r\nHost: b.org\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n"
    assert net.do(lambda: by_proxy(ask, end=False)) == yes
    got = b"GET /x?y HTTP/1.1\r\nHost: a.org:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n(and waits)"
    assert heard_by(stage) == got
    # What follows the request is not the host's, whatever it is.
    for rest in (ask, EVIL, b"x" * 200000):
        open(stage.dir + "/heard", "wb").close()
        assert net.do(lambda: by_proxy(ask + rest, rest, end=False)) == yes
        assert heard_by(stage) == got
    for framing, body in ((b"Content-Length: 100004", b"x" * 100000 + b"last"),
                          (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")):
        open(stage.dir + "/heard", "wb").close()
        ask = b"POST http://a.org HTTP/1.1\r\nConnection: content-length\r\n" + framing + b"\r\n\r\n"
        assert net.do(lambda: by_proxy(ask, body[:7], body[7:] + EVIL, EVIL, end=False)) == yes
        assert heard_by(stage) == (b"POST / HTTP/1.1\r\nHost: a.org\r\n" + framing + b"\r\nConnection: close\r\n\r\n" + body
                                   + b"(and waits)")
    assert whys(stage, net) == {(80, "allowed", ""), (8080, "allowed", "")}


@on_stage()
def test_addresses(stage):
    stage.serve(echo, 80)
    stage.serve(echo, 80, PUBLIC6)
    net = stage.open("full", "-b.org")
    for where in (f"{PUBLIC}:80", f"[{PUBLIC6}]:80", f"[::ffff:{PUBLIC}]:80", "six.org:80"):
        assert net.do(tunnel, where, b"hello\n") == b"hello\n", where
    assert refused(net.do(tunnel, "127.0.0.1:80"))[0] == 403
    assert refused(net.do(tunnel, "b.org:80"))[0] == 403

    def own_address():
        """A name's address in the island means the name, here as well."""
        with dial("a.org", 80) as s:
            address = s.getpeername()[0]
        return tunnel(f"{address}:80", b"hello\n")
    assert net.do(own_address) == b"hello\n"
    assert [e["times"] for e in stage.report(net) if e["name"] == "a.org" and e["port"]] == [2]
    assert refused(net.do(tunnel, "198.18.77.1:80"))[0] == 403


@on_stage("[network]\nconnect_timeout = 2\n")
def test_nobody_answers(stage):
    """Neither does who begins a request and does not go on."""
    net = stage.open("allowlist", "+nobody.org", "+a.org")
    slow = net.start(lambda: by_proxy(connect("a.org:80")[:10], end=False))
    status, line = refused(net.do(tunnel, "nobody.org:80"))
    assert refused(net.finish(slow))[0] == 408
    assert status == 504 and line.startswith("cay: nobody.org:80: ")
    assert whys(stage, net, "nobody.org") == {(80, "failed", "timed_out")} and NOBODY in ZONE["nobody.org"]


@on_stage()
def test_rules_that_change_end_tunnels(stage):
    stage.serve(echo, 80)
    net = stage.open("allowlist", "+a.org")
    started = net.start(lambda: by_proxy(connect("a.org:80"), b"hello", end=False))
    deadline = time.monotonic() + 10
    while (80, "allowed", "") not in whys(stage, net) and time.monotonic() < deadline:
        time.sleep(0.01)
    stage.rules(net, "allowlist", "+b.org")
    assert net.finish(started) == ESTABLISHED + b"reset"
    assert (80, "denied", "not_listed") in whys(stage, net)
    assert refused(net.do(tunnel, "a.org:80"))[0] == 403
