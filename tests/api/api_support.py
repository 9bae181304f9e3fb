"""A server to talk to (tests/api/api_server.c), and a client that says exactly what it is told."""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = os.environ.get("CAY_API_SERVER", str(ROOT / "build-test" / "tests" / "api_server"))
SANITIZED = os.environ.get("CAY_SANITIZED") == "1"


class Answer:
    def __init__(self, status, headers, body, rest=b""):
        self.status, self.headers, self.body, self.rest = status, headers, body, rest

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The code of an error object, which must be whole."""
        error = self.json["error"]
        assert set(error) == {"code", "message", "hint", "details", "request_id"}
        assert error["request_id"] == self.headers["x-request-id"]
        return error["code"]


class Client:
    """One connection; what was read too much of stays for the next answer."""

    def __init__(self, address, timeout=10, rcvbuf=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        if rcvbuf:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(1 << 16)
        self.pending += data
        return data

    def until(self, mark):
        while mark not in self.pending:
            if not self.more():
                raise EOFError(self.pending)
        before, _, self.pending = self.pending.partition(mark)
        return before

    def exactly(self, n):
        while len(self.pending) < n:
            if not self.more():
                raise EOFError(self.pending)
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def chunk(self):
        size = int(self.until(b"\r\n"), 16)
        data = self.exactly(size)
        assert self.exactly(2) == b"\r\n"
        return data

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Za-z ]*", lines[0])[1])
        headers = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            assert name.lower() not in headers
            headers[name.lower()] = value
        return status, headers

    def answer(self, head=False):
        status, headers = self.head()
        body = b""
        if head or status in (204, 304) or status < 200:
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while piece := self.chunk():
                body += piece
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            body = self.rest()
        return Answer(status, headers, body)

    def rest(self):
        """Everything up to the end."""
        with contextlib.suppress(ConnectionResetError):
            while self.more():
                pass
        data, self.pending = self.pending, b""
        return data

    def closed(self):
        """That the server has nothing more to say, and has said so."""
        return self.rest() == b""

    def ask(self, data, **kwargs):
        self.send(data)
        return self.answer(**kwargs)


class Server:
    def __init__(self, **limits):
        self.dir = tempfile.TemporaryDirectory(prefix="cay-api-")
        self.unix = self.dir.name + "/s"
        args = [f"{name}={value}" for name, value in limits.items()]
        # What the sanitizer holds back of freed memory is not what is measured here.
        env = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}
        self.process = subprocess.Popen([SERVER, self.unix, *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.tcp = ("127.0.0.1", int(line))

    def client(self, **kwargs):
        return Client(self.tcp, **kwargs)

    def local(self, **kwargs):
        return Client(self.unix, **kwargs)

    def ask(self, data, **kwargs):
        with self.client() as c:
            return c.ask(data, **kwargs)

    def count(self, name):
        return self.ask(get("/count")).json[name]

    def wait(self, name, value, seconds=5):
        """Until a count is that, or it is clear that it will not be."""
        end = time.monotonic() + seconds
        while (found := self.count(name)) != value and time.monotonic() < end:
            time.sleep(0.02)
        return found == value

    def status(self, field):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.M)[1])

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """It must have lived until now, and end without a word: no leak, no bad access."""
        assert self.process.poll() is None, self.process.stderr.read()
        self.process.terminate()
        _, errors = self.process.communicate(timeout=30)
        self.dir.cleanup()
        assert (self.process.returncode, errors) == (0, "")


@contextlib.contextmanager
def serving(**limits):
    server = Server(**limits)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def request(method, path, headers=(), body=b"", host="localhost"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def get(path, *headers, **kwargs):
    return request("GET", path, headers, **kwargs)


def post(path, body, *headers, **kwargs):
    return request("POST", path, headers, body, **kwargs)


@pytest.fixture(scope="module")
def server():
    if not os.access(SERVER, os.X_OK):
        if os.environ.get("CAY_MUST_WORK") == "1":
            pytest.fail(f"{SERVER} is not built", pytrace=False)
        pytest.skip(f"{SERVER} is not built")
    with serving() as s:
        yield s


def healthy(server):
    answer = server.ask(get("/v1/health"))
    return answer.status == 200 and answer.json["status"] == "ok"


@pytest.fixture(scope="module")
def hasty():
    with serving(head_ms=300, body_idle_ms=300, keep_alive_ms=300, write_stall_ms=500, linger_ms=300,
                 heartbeat_ms=100) as s:
        yield s
