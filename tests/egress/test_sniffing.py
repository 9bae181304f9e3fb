"""Hosts that programs name in TLS and HTTP: only the one they are connected to."""

import socket
import ssl
import time

from stage import PUBLIC, PUBLIC6, dial, echo, on_stage

ZONE = {"a.org": [PUBLIC], "b.org": [PUBLIC]}
GOOD = b"GET / HTTP/1.1\r\nHost: a.org\r\n\r\n"
EVIL = b"GET / HTTP/1.1\r\nHost: b.org\r\n\r\n"
SLOW = "in small pieces"


def hello(name):
    """What python sends first, to a server of that name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake with nobody")


def everything(s):
    """All that comes until the end; b"reset" behind it where that is one."""
    out = b""
    try:
        while data := s.recv(1 << 16):
            out += data
    except ConnectionResetError:
        out += b"reset"
    return out


def exchange(s, *pieces, slow=False):
    with s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                for at in range(0, len(piece), 1 if slow else len(piece)):
                    s.sendall(piece[at:at + (1 if slow else len(piece))])
                if piece != pieces[-1]:
                    time.sleep(0.2)
            s.shutdown(socket.SHUT_WR)
        except OSError:  # it was reset before all was sent
            return b"reset"
        return everything(s)


def send(name, port, *pieces, slow=False):
    return exchange(dial(name, port), *pieces, slow=slow)


def send_to(address, port, *pieces):
    return exchange(socket.create_connection((address, port), timeout=15), *pieces)


def whys(stage, net, name="a.org"):
    return {(e["port"], e["verdict"], e["why"]) for e in stage.report(net) if e["name"] == name and e["port"]}


def keep(path):
    """A server that keeps what it hears in a file."""
    def serve(sock):
        while True:
            c, _ = sock.accept()
            while True:
                try:
                    data = c.recv(1 << 16)
                except ConnectionResetError:
                    break
                if not data:
                    break
                with open(path, "ab") as f:
                    f.write(data)
            c.close()
    open(path, "wb").close()
    return serve


@on_stage(zone=ZONE)
def test_the_right_name_goes(stage):
    stage.serve(echo, 80)
    stage.serve(echo, 443)
    net = stage.open("allowlist", "+a.org")
    for text in (GOOD, GOOD * 3, b"POST / HTTP/1.1\r\nHost: A.ORG.:80\r\nContent-Length: 5\r\n\r\nhello\r\n" + GOOD,
                 b"GET / HTTP/1.0\r\n\r\n", b"hello", b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", b"\0\1\2", hello("a.org"),
                 hello(None)):
        for port in (80, 443):
            assert net.do(send, "a.org", port, text) == text, text
            assert net.do(lambda t=text, p=port: send("a.org", p, t, slow=SLOW)) == text, text
    assert whys(stage, net) == {(80, "allowed", ""), (443, "allowed", "")}


@on_stage(zone=ZONE)
def test_another_name_does_not(stage):
    heard = stage.dir + "/heard"
    stage.serve(keep(heard), 80)
    stage.serve(keep(heard), 443)
    net = stage.open("allowlist", "+a.org", "+b.org")
    refused = [EVIL, hello("b.org"), b"GET / HTTP/1.1\r\n\r\n", b"GET http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
               b"get / HTTP/1.1\r\nHost: b.org\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a.org\r\nHost: b.org\r\n\r\n",
               b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost: " + PUBLIC.encode() + b"\r\n\r\n"]
    for n, text in enumerate(refused, 1):
        for port in (80, 443):
            assert net.do(send, "a.org", port, text) == b"reset", text
            assert net.do(lambda t=text, p=port: send("a.org", p, t, slow=SLOW)) == b"reset", text
        denied = [e for e in stage.report(net) if e["why"] == "name_differs"]
        assert [(e["name"], e["verdict"], e["times"]) for e in denied] == [("a.org", "denied", 2 * n)] * 2
    assert open(heard, "rb").read() == b""


def with_cookie(size):
    return GOOD[:-2] + b"Cookie: " + b"c" * size + b"\r\n\r\n"


@on_stage(zone=ZONE)
def test_long_heads(stage):
    """A cookie of 12 KiB is not too long, one of 16 is; and so is a ClientHello."""
    stage.serve(echo, 80)
    stage.serve(echo, 443)
    net = stage.open("allowlist", "+a.org")
    fine = with_cookie(12 << 10) * 2
    assert net.do(send, "a.org", 80, fine) == fine
    assert net.do(lambda: send("a.org", 80, fine, slow=SLOW)) == fine
    for port, text in ((80, with_cookie(16 << 10)), (80, b"x" * (17 << 10)), (443, b"\x16\3\1\x3f\xfc\1\0\x3f\xf8" + bytes(16 << 10))):
        assert net.do(send, "a.org", port, text) == b"reset", text[:20]
    assert {(e["port"], e["why"]): e["times"] for e in stage.report(net) if e["why"]} == {(80, "head"): 2, (443, "head"): 1}


@on_stage(zone=ZONE)
def test_every_request_is_looked_at(stage):
    heard = stage.dir + "/heard"
    stage.serve(keep(heard), 80)
    net = stage.open("allowlist", "+a.org")
    assert net.do(send, "a.org", 80, GOOD, EVIL) == b"reset"
    assert open(heard, "rb").read() == GOOD
    upgrade = GOOD[:-2] + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n"
    assert net.do(send, "a.org", 80, upgrade, EVIL) == b"reset"
    assert open(heard, "rb").read() == GOOD + upgrade


@on_stage(zone=ZONE)
def test_a_body_does_not_wait_for_the_next_request(stage):
    """Though they come together and fill the buffer."""
    heard = stage.dir + "/heard"
    stage.serve(keep(heard), 80)
    net = stage.open("allowlist", "+a.org")
    body = b"POST / HTTP/1.1\r\nHost: a.org\r\nContent-Length: 500000\r\n\r\n" + b"x" * 500000

    def half():
        with dial("a.org", 80) as s:
            s.sendall(body + GOOD[:10])
            deadline = time.monotonic() + 10
            while len(open(heard, "rb").read()) < len(body) and time.monotonic() < deadline:
                time.sleep(0.01)
            before = open(heard, "rb").read()
            s.sendall(GOOD[10:])
            s.shutdown(socket.SHUT_WR)
            return before == body, everything(s)
    assert net.do(half) == (True, b"")
    assert open(heard, "rb").read() == body + GOOD


@on_stage(zone=ZONE, settings="[network]\ncheck_names = no\n")
def test_it_can_be_switched_off(stage):
    stage.serve(echo, 80)
    net = stage.open("allowlist", "+a.org")
    assert net.do(send, "a.org", 80, EVIL) == EVIL


@on_stage(zone=ZONE)
def test_other_ports_are_not_looked_at(stage):
    stage.serve(echo, 8080)
    net = stage.open("allowlist", "+a.org:8080")
    assert net.do(send, "a.org", 8080, EVIL) == EVIL


@on_stage(zone=ZONE)
def test_addresses_may_have_any_name_that_is_not_blocked(stage):
    stage.serve(keep(stage.dir + "/heard"), 80)
    stage.serve(echo, 443)
    net = stage.open("full", "-b.org")
    literal = b"GET / HTTP/1.1\r\nHost: " + PUBLIC.encode() + b"\r\n\r\n"
    for text in (GOOD, literal, hello("a.org"), hello("c.org")):
        assert net.do(send_to, PUBLIC, 443, text) == text
    for text in (EVIL, hello("b.org"), GOOD + EVIL, literal.replace(b"93.", b"94."),
                 b"GET / HTTP/1.1\r\nHost: [" + PUBLIC6.encode() + b"]\r\n\r\n"):
        assert net.do(send_to, PUBLIC, 80, text) == b"reset"
    assert whys(stage, net, PUBLIC) == {(443, "allowed", ""), (80, "allowed", ""), (80, "denied", "name_differs")}
