"""What a daemon that lies could send: errors of ours, in bounded memory, however it is cut into pieces."""

import json
import random
import socket
import threading

import pytest

import cay
from cay import _archive, _wire

RESULT = json.dumps({"success": True, "status": "ok", "stdout": "x" * 3000}).encode()


def chunked(body):
    return b"".join(b"%x\r\n%b\r\n" % (len(body[n:n + 700]), body[n:n + 700])
                    for n in range(0, len(body), 700)) + b"0\r\nTrailer: x\r\n\r\n"


ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(RESULT), RESULT),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(RESULT),
    b"HTTP/1.1 200 OK\r\n\r\n" + RESULT,
]


def fed(answer, rnd):
    response, body, at = _wire.Response(), b"", 0
    while not response.ended:
        size = rnd.randrange(1, 900)
        response.feed(answer[at:at + size])
        at += size
        body += response.take()
    return response, body


@pytest.mark.parametrize("answer", ANSWERS, ids=["length", "chunks", "to the end"])
def test_answers_in_pieces(answer):
    for seed in range(50):
        response, body = fed(answer, random.Random(seed))
        assert (response.status, body) == (200, RESULT)


@pytest.mark.parametrize("answer", [
    b"", b"nonsense\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nX: " + b"x" * (70 << 10),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (70 << 10)],
    ids=range(9))
def test_answers_that_make_no_sense(answer):
    response = _wire.Response()
    with pytest.raises(cay.SandboxError, match="makes no sense"):
        for at in range(0, len(answer) + 5000, 5000):
            response.feed(answer[at:at + 5000])
        response.feed(b"")


def test_noise_is_an_error_or_an_answer():
    rnd = random.Random(1)
    for answer in ANSWERS * 100:
        noisy = bytearray(answer)
        for _ in range(rnd.randrange(1, 6)):
            noisy[rnd.randrange(len(noisy))] = rnd.randrange(256)
        try:
            response = _wire.Response()
            response.feed(bytes(noisy))
            response.feed(b"")
            _wire.parse_json(response.take())
        except cay.SandboxError:
            pass


def test_events_in_pieces():
    text = b": beat\n\n" + b"".join(b"event: stdout\ndata: {\"text\":\"%d\"}\n\n" % n for n in range(50))
    for seed in range(20):
        rnd, parser, found, at = random.Random(seed), _wire.ServerEvents(), [], 0
        while at < len(text):
            size = rnd.randrange(1, 60)
            found += parser.feed(text[at:at + size])
            at += size
        assert found == [("stdout", {"text": str(n)}) for n in range(50)]


def server_frame(opcode, data, last=True, mask=False):
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    return bytes([(0x80 if last else 0) | opcode, length[0] | (0x80 if mask else 0)]) + length[1:] + data


def test_websocket_messages():
    parts = (server_frame(2, b"a" * 300, last=False) + server_frame(9, b"ping") + server_frame(0, b"b") +
             server_frame(1, b"{}") + server_frame(8, b"\x03\xe8"))
    for step in (1, 7, 1000):
        frames, found = _wire.Frames(), []
        for at in range(0, len(parts), step):
            found += frames.feed(parts[at:at + step])
        assert found == [(9, b"ping"), (2, b"a" * 300 + b"b"), (1, b"{}"), (8, b"\x03\xe8")]
    for bad in (server_frame(2, b"x", mask=True), b"\xf2\x00", server_frame(0, b"x"),
                server_frame(2, b"x", last=False) + server_frame(1, b"y"),
                b"\x82\x7f" + (1 << 40).to_bytes(8, "big")):
        with pytest.raises(cay.SandboxError):
            _wire.Frames().feed(bad)


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/../../x", "a/b/../c"])
def test_archives_that_lead_out(name, tmp_path):
    import io
    import tarfile

    def make(*members):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for member, kind, link in members:
                info = tarfile.TarInfo(member)
                info.type, info.linkname = kind, link
                tar.addfile(info)
        data.seek(0)
        return data

    with pytest.raises(cay.SandboxError, match="leads out"):
        _archive.unpack(make((name, tarfile.REGTYPE, "")), tmp_path / "new")
    assert not list(tmp_path.iterdir())
    _archive.unpack(make(("link", tarfile.SYMTYPE, str(tmp_path)), ("link/x", tarfile.REGTYPE, ""),
                         ("hard", tarfile.LNKTYPE, "/etc/passwd")), tmp_path / "new")
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")} == {"new", "new/link", "new/link/x"}


@pytest.fixture
def liar(tmp_path, monkeypatch):
    """A daemon that answers with what it is told: say(bytes)."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "liar"))
    server.listen()
    monkeypatch.setenv("CAY_HOST", f"unix:{tmp_path}/liar")
    threads = []

    def say(answer):
        def answer_one():
            connection = server.accept()[0]
            with connection:
                request = b""
                while b"\r\n\r\n" not in request or not request.endswith(b"}"):
                    request += connection.recv(1 << 16)
                connection.sendall(answer)
        threads.append(threading.Thread(target=answer_one))
        threads[-1].start()
    yield say
    for thread in threads:
        thread.join(10)
    server.close()


@pytest.mark.parametrize("body", [b"[1]", b"{}", b"no json", b"[" * 100000, b'{"success":1,"status":{},"files":3}'],
                         ids=["list", "nothing", "no json", "deep", "files"])
def test_results_that_are_none(liar, body):
    liar(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    with pytest.raises(cay.SandboxError):
        cay.run("1")


def test_errors_that_are_none(liar):
    liar(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}")
    with pytest.raises(cay.SandboxError, match="500"):
        cay.run("1")
    liar(b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 60\r\n\r\n"
         b'{"error":{"code":"at_capacity","message":"full","hint":""}}  ')
    with pytest.raises(cay.SandboxResourceError) as caught:
        cay.run("1")
    assert caught.value.retry_after == 7


def test_streams_that_break_off(liar):
    liar(b"HTTP/1.1 200 OK\r\n\r\nevent: stdout\ndata: {\"text\":\"x\"}\n\n")
    with pytest.raises(cay.SandboxError, match="no end"):
        list(cay.stream("1"))
