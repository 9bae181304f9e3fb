"""A daemon of the tests' own, and a client that talks to it."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

from events import Events
from sandbox import Sandbox
from support import wait_until

TIMEOUT = 60  # s, of a read or write


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def lines(self):
        """Of newline-separated JSON."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def error(self):
        """The error object, which must be whole."""
        error = self.json["error"]
        assert set(error) == {"code", "message", "hint", "details", "request_id"}, error
        assert error["request_id"] == self.headers["x-request-id"]
        return error

    @property
    def failure(self):
        return self.status, self.error["code"]

    def refused(self, status, code):
        assert self.failure == (status, code), self.body
        return self.error

    def ok(self, status=200):
        assert self.status == status, (self.status, self.body[:2000])
        return self.json if self.body else None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    """`cay serve` on paths of its own, until stop()."""

    def __init__(self, cay, place, settings="", who="root"):
        self.cay, self.place, self.who = cay, pathlib.Path(place), who
        self.socket, self.state = self.place / "s.sock", self.place / "state"
        self.log_file, self.config = self.place / "log", self.place / "cay.conf"
        # Images are this one's alone: a machine that has some would change what runs get.
        self.config.write_text(f"[images]\nstore = {self.place}/images\n{settings}")
        self.config.chmod(0o644)
        self.port = free_port()
        self.process = None
        self.expect_errors = False  # in its log

    # Its life

    def start(self):
        self.asked = False
        with open(self.log_file, "ab") as log:
            began = log.tell()
            self.process = self.cay.start(
                "serve", "--socket", self.socket, "--state", self.state, "--listen",
                f"127.0.0.1:{self.port}", config=self.config, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log)
        wait_until(lambda: self._serves(began) or self.process.poll() is not None, 15,
                   "the daemon's start")
        assert self.process.poll() is None, self.log
        return self

    def _serves(self, began=0):
        return '"message":"serving"' in self.log_file.read_bytes()[began:].decode()

    @property
    def log(self):
        return self.log_file.read_text()

    def ask_to_end(self):
        """Once: a second time would end it at once."""
        if self.process.poll() is None and not self.asked:
            self.process.send_signal(signal.SIGTERM)
        self.asked = True

    def stop(self, seconds=40):
        """It ends in order when asked to, and had nothing to complain about."""
        self.ask_to_end()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        assert code == 0, (code, self.log)
        assert self.expect_errors or '"level":"error"' not in self.log, self.log
        assert "Sanitizer" not in self.log and "runtime error" not in self.log, self.log
        wait_until(lambda: not self.socket.exists(), 5, f"the end of {self.who}'s socket")

    def restart(self):
        self.stop()
        return self.start()

    def pids(self):
        """Of its processes, by name."""
        found = {"serve": self.process.pid}
        task = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in map(int, task.read_text().split()):
            try:
                name = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
            except (FileNotFoundError, ProcessLookupError):
                continue  # it was ended meanwhile
            found[{b"cay-api": "api", b"cay-egress": "egress", b"cay: images": "images",
                   b"cay: containers": "containers"}.get(name, "launcher")] = pid
        return found

    def kill9(self, which):
        """One of serve, launcher, api. All but serve come back by themselves: waits for that."""
        self.expect_errors = True
        began, pids = len(self.log_file.read_bytes()), self.pids()
        os.kill(pids[which], signal.SIGKILL)
        if which == "serve":
            self.process.wait(10)
            # The others follow it; the socket is theirs until then. The dead have no exe, waited for or not.
            wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids.values()), 10, "their end")
        else:
            wait_until(lambda: self._serves(began), 15, "the daemon's second start")

    def rss(self):
        """Resident memory of launcher and api in bytes."""
        def one(pid):
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            return int(re.search(r"^VmRSS:\s+(\d+)", text, re.M)[1]) * 1024
        pids = self.pids()
        return {name: one(pids[name]) for name in ("launcher", "api")}

    def fds(self):
        """How many the api has open."""
        return len(os.listdir(f"/proc/{self.pids()['api']}/fd"))

    # Talking to it

    def connection(self, tcp=False, timeout=TIMEOUT):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        return Unix(self.socket, timeout)

    def begin(self, method, path, json_body=None, body=None, key=None, headers=None, tcp=None, timeout=TIMEOUT,
              receive_buffer=None):
        """A connection with the request on its way; with a key by TCP, else by the socket, unless tcp says otherwise."""
        headers = dict(headers or {})
        if json_body is not None:
            body = json.dumps(json_body).encode()
            headers.setdefault("Content-Type", "application/json")
        if key:
            headers["Authorization"] = f"Bearer {key}"
        connection = self.connection(bool(key) if tcp is None else tcp, timeout)
        connection.connect()
        if receive_buffer:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.request(method, path, body=body, headers=headers)
        return connection

    def request(self, method, path, json=None, **more):
        """More as begin() takes it."""
        with contextlib.closing(self.begin(method, path, json, **more)) as connection:
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, json=None, **more):
        return self.request("POST", path, json=json, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    def run(self, code=None, key=None, **more):
        """The result of a run that must be one."""
        body = dict(more, **({"code": code} if code is not None else {}))
        return self.post("/v1/runs", body, key=key).ok()

    def events(self, method, path, json=None, headers=None, timeout=TIMEOUT, **more):
        """More as begin() takes it."""
        headers = dict(headers or {}, Accept="text/event-stream")
        return Events(self.begin(method, path, json, headers=headers, timeout=timeout, **more), timeout)

    @contextlib.contextmanager
    def sandbox(self, **spec):
        """A new one, until the end."""
        made = Sandbox(self, self.post("/v1/sandboxes", spec).ok(201)["id"])
        try:
            yield made
        finally:
            with contextlib.suppress(OSError):  # the daemon may have ended before it
                self.delete(made.url)

    def key(self, name, **more):
        """A new key's text and id."""
        made = self.post("/v1/keys", dict(more, name=name)).ok(201)
        return made["key"], made["id"]

    def metric(self, line):
        """The value of a line of /metrics, 0 where there is none."""
        text = self.get("/metrics").body.decode()
        found = re.search(rf"^{re.escape(line)} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0
