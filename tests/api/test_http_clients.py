"""The server and clients that are slow, go away, come in masses, or take and send more than they should (attack 31)."""
import os
import resource
import socket
import struct
import time

import pytest

from api_support import SANITIZED, get, hasty, healthy, post, request, server, serving  # noqa: F401


# Attack 31: slow ones

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
