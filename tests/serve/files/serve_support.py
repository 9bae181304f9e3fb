"""What the tests of files need beside a daemon: a client that streams, and sandboxes."""
import contextlib
import json
import os
import pathlib
import re
import socket
import threading
import time
import urllib.parse

import daemon as serve
from support import Cay

SOAK = os.environ.get("CAY_SOAK") == "1"
SANITIZED = os.environ.get("CAY_SANITIZED") == "1"
TIMEOUT = 60
Connection = serve.Unix
# What the daemon may take more for a transfer of any size, in bytes. The sanitizer holds back what was freed.
GROWTH_MAX = (320 if SANITIZED else 4) << 20


class Answer(serve.Answer):
    @property
    def failure(self):
        return self.status, self.error["code"]


class Client:
    def __init__(self, daemon):
        self.daemon, self.socket = daemon, str(daemon.socket)

    def pids(self):
        return self.daemon.pids()

    def rss(self):
        """Resident memory of launcher and api in bytes."""
        def one(pid):
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            return int(re.search(r"^VmRSS:\s+(\d+)", text, re.M)[1]) * 1024
        pids = self.pids()
        return {name: one(pids[name]) for name in ("launcher", "api")}

    def connect(self, timeout=TIMEOUT):
        return self.daemon.connection(timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=TIMEOUT):
        with contextlib.closing(self.connect(timeout)) as c:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())

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
            with contextlib.suppress(OSError):
                self.ask("DELETE", s.url)


class Daemon(Client):
    """One of root's, from `with` to its end, for tests that need no other."""

    def __init__(self, place):
        super().__init__(serve.Daemon(Cay(place, place, place), place))

    def __enter__(self):
        self.daemon.start()
        return self

    def __exit__(self, *_):
        self.daemon.stop()


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


class Watch:
    """Those who watch, for 20 seconds."""

    def __init__(self, sandbox, path, **params):
        self.connection = sandbox.daemon.connect(timeout=15)
        self.connection.request("GET", f"{sandbox.url}/files/watch{query(path=path, **params)}")
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200 and self.answer.headers["content-type"] == "text/event-stream"
        # Heartbeats would keep a time-out of the socket's from ever coming.
        self.timer = threading.Timer(20, self.connection.sock.shutdown, [socket.SHUT_RDWR])
        self.timer.start()

    def next(self):
        """The next event, or None at the end."""
        name = None
        while line := self.answer.readline().decode().rstrip("\n"):
            if line.startswith(":"):
                assert self.answer.readline() == b"\n"
            elif line.startswith("event: "):
                name = line[7:]
            else:
                data = json.loads(line.removeprefix("data: "))
                assert self.answer.readline() == b"\n"
                return name, data
        return None

    def close(self):
        self.timer.cancel()
        self.connection.close()
