"""A network that floods cay-egress in every way there is does not slow the others."""

import os
import selectors
import socket
import statistics
import struct
import time

import pytest
from stage import PUBLIC, dial, echo, fork, on_stage, query, talk
from support import SLOWNESS, SOAK

SECONDS = 20 if SOAK else 1


def flood_connections(until):
    """SYNs as fast as they can be sent, of which each is refused or leads nowhere."""
    n = 0
    while time.monotonic() < until:
        socks = []
        for k in range(200):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((f"8.8.{k}.8", 80) if k % 2 else ("198.18.1.0", 81))
            socks.append(s)
            n += 1
        for s in socks:
            s.close()
    return n


def flood_questions(until):
    """Names that are denied, that nobody answers for, that do not exist, and what is no question."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("198.18.0.1", 53))
    n = 0
    while time.monotonic() < until:
        for name in (b"\4mute\3org\0", b"\5n%05d\3org\0" % (n % 99999), b"\4evil\4test\0", b"\xff" * 20):
            try:
                s.send(struct.pack(">HHHHHH", n & 0xffff, 256, 1, 0, 0, 0) + name + b"\0\1\0\1")
            except OSError:
                pass
            n += 1
    return n


def flood_bytes(until):
    n = 0
    with dial("a.org", 81) as s:
        while time.monotonic() < until:
            n += s.send(b"x" * 262144)
    return n


def flood_datagrams(until):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    n = 0
    while time.monotonic() < until:
        try:
            s.sendto(b"x", (PUBLIC, n % 60000 + 1))
        except OSError:
            pass
        n += 1
    return n


def swallow(sock):
    """All that comes, on all connections at once."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(sock, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is sock:
                    waiting.register(sock.accept()[0], selectors.EVENT_READ)
                    continue
                try:
                    data = key.fileobj.recv(1 << 18)
                except ConnectionResetError:
                    data = b""
                if not data:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()


FLOODS = [flood_connections, flood_questions, flood_bytes, flood_datagrams]


def ask_and_talk(until):
    """How long a question, a connection and a few bytes back take, again and again."""
    times = []
    while time.monotonic() < until or len(times) < 5:
        begin = time.monotonic()
        assert talk("b.org", 80) == b"hello"
        times.append(time.monotonic() - begin)
    return times


@pytest.mark.parametrize("flood", FLOODS)
def test_others_are_not_slowed(flood, tmp_path):
    # How long a connection takes is measured by making one after the other.
    @on_stage("[network]\nconnection_rate = 0\n")
    def test(stage):
        stage.serve(echo, 80)
        stage.serve(swallow, 81)
        calm = stage.open("allowlist", "+b.org")
        wild = stage.open("allowlist", "+*.org", "+a.org:81")
        assert wild.do(query, "a.org")[0] == 0
        until = time.monotonic() + SECONDS
        flooding = [wild.start(flood, until) for _ in range(2)]
        times = calm.do(ask_and_talk, until)
        assert sum(wild.finish(f) for f in flooding) > 100
        print(flood.__name__, len(times), "median", statistics.median(times), "worst", max(times))
        assert statistics.median(times) < 0.3 * SLOWNESS
        assert calm.do(talk, "b.org", 80) == b"hello"
    test(tmp_path)


def hoard(n):
    """Connections that stay as they are, half of them with bytes that nobody reads."""
    _, found = query("a.org")
    kept = []
    for k in range(n):
        try:
            s = socket.create_connection((found[0], 81), timeout=10)
        except OSError:
            break
        s.setblocking(False)
        if k % 2:
            try:
                s.send(b"x" * (1 << 20))
            except OSError:
                pass
        kept.append(s)
    return len(kept)


def never_read(sock):
    kept = []
    while True:
        kept.append(sock.accept()[0])


@on_stage("[network]\nconnections = 1000\nconnection_rate = 0\n")
def test_a_thousand_connections_at_once(stage):
    stage.serve(never_read, 81)
    stage.serve(echo, 80)
    many, other = stage.open("allowlist", "+a.org:81"), stage.open("allowlist", "+b.org")
    hold = os.pipe()

    def hoard_and_wait():
        n = hoard(1000)
        os.write(hold[1], b"%d" % n)
        time.sleep(600)
    pid = fork(lambda: many.do(hoard_and_wait))
    assert os.read(hold[0], 10) == b"1000"
    assert other.do(talk, "b.org", 80) == b"hello"
    assert stage.report(many)[0]["times"] == 1000
    os.kill(pid, 9)
