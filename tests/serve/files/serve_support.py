"""The daemon as its clients meet it: over its socket, with a time-out on everything."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import time
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CAY = os.environ.get("CAY_BIN", str(ROOT / "build" / "cay"))
SOAK = os.environ.get("CAY_SOAK") == "1"
SANITIZED = os.environ.get("CAY_SANITIZED") == "1"
TIMEOUT = 60


def must_work(reason):
    if os.environ.get("CAY_MUST_WORK") == "1":
        pytest.fail(f"must work here, but: {reason}", pytrace=False)
    pytest.skip(reason)


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout=TIMEOUT):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, answer, body):
        self.status, self.headers, self.body = answer.status, answer.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, which must be whole."""
        error = self.json["error"]
        assert set(error) == {"code", "message", "hint", "details", "request_id"}
        return error

    @property
    def failure(self):
        return self.status, self.error["code"]


class Daemon:
    def __init__(self, place):
        self.socket = str(place / "s")
        self.place = place
        self.log = open(place / "log", "w+b")
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen([CAY, "serve", "--socket", self.socket, "--state",
                                         self.place / "state"], stderr=self.log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                if self.ask("GET", "/v1/health").status == 200:
                    return self
            assert self.process.poll() is None and time.monotonic() < end, self.words()
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def words(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def pids(self):
        """Of the daemon's own processes: launcher and cay-api, by name."""
        found = {}
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            exe = os.readlink(f"/proc/{pid}/exe")
            found["api" if exe.endswith("cay-api") else "launcher"] = int(pid)
        return found

    def rss(self):
        """Resident memory of both in bytes."""
        def one(pid):
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            return int(re.search(r"^VmRSS:\s+(\d+)", text, re.M)[1]) * 1024
        return {name: one(pid) for name, pid in self.pids().items()}

    def connect(self, timeout=TIMEOUT):
        return Connection(self.socket, timeout)

    def ask(self, method, path, body=None, headers=None, timeout=TIMEOUT):
        with contextlib.closing(self.connect(timeout)) as c:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            return Answer(answer, answer.read())

    def json(self, method, path, body, **kwargs):
        return self.ask(method, path, json.dumps(body), {"Content-Type": "application/json"}, **kwargs)

    @contextlib.contextmanager
    def sandbox(self, **spec):
        made = self.json("POST", "/v1/sandboxes", spec)
        assert made.status == 201, made.body
        s = Sandbox(self, made.json["id"])
        try:
            yield s
        finally:
            self.ask("DELETE", s.url)


def query(**params):
    """Paths may be bytes."""
    pairs = [f"{name}={urllib.parse.quote(value if isinstance(value, bytes) else str(value), safe='')}"
             for name, value in params.items()]
    return "?" + "&".join(pairs) if pairs else ""


class Sandbox:
    def __init__(self, daemon, name):
        self.daemon, self.id = daemon, name
        self.url = f"/v1/sandboxes/{name}"

    def files(self, method, what="", body=None, headers=None, timeout=TIMEOUT, **params):
        return self.daemon.ask(method, f"{self.url}/files{what}{query(**params)}", body, headers, timeout)

    def read(self, path, headers=None, **params):
        return self.files("GET", path=path, headers=headers, **params)

    def write(self, path, data, **params):
        return self.files("PUT", body=data, path=path, **params)

    def list(self, path=".", **params):
        answer = self.files("GET", "/list", path=path, **params)
        assert answer.status == 200, answer.body
        return answer.json

    def names(self, path="."):
        return [e["name"] for e in self.list(path)["entries"]]

    def stat(self, path, **params):
        return self.files("GET", "/stat", path=path, **params)

    def post(self, what, body):
        return self.daemon.json("POST", f"{self.url}/files/{what}", body)

    def sh(self, code, timeout=TIMEOUT, **more):
        answer = self.daemon.json("POST", f"{self.url}/runs", {"language": "sh", "code": code, **more},
                                  timeout=timeout)
        assert answer.status == 200, answer.body
        return answer.json

    def python(self, code, timeout=TIMEOUT, **more):
        answer = self.daemon.json("POST", f"{self.url}/runs", {"language": "python", "code": code, **more},
                                  timeout=timeout)
        assert answer.status == 200, answer.body
        return answer.json

    def show(self):
        return self.daemon.ask("GET", self.url).json

    def wait_idle(self, seconds=10):
        """Until nothing holds it any more."""
        end = time.monotonic() + seconds
        while (busy := self.show()["busy"]) and time.monotonic() < end:
            time.sleep(0.05)
        return busy == 0
