"""A daemon to test: `cay serve` with a socket and a state directory of its own."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

import wire

ROOT = pathlib.Path(__file__).resolve().parents[3]
CAY = os.environ.get("CAY_BIN", str(ROOT / "build" / "cay"))


class Daemon:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.socket = str(self.folder / "cay.sock")
        self.log = open(self.folder / "log", "w+b")
        self.process = subprocess.Popen(
            [CAY, "serve", "--socket", self.socket, "--state", str(self.folder / "state")],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self._wait()

    def _wait(self):
        end = time.monotonic() + 30
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.call("GET", "/v1/health").status == 200:
                    return
            except OSError:
                time.sleep(0.02)
        pytest.fail("the daemon did not start: " + self.said())

    def said(self):
        return (self.folder / "log").read_text(errors="replace")

    def call(self, method, url, body=None, headers=(), timeout=30):
        return wire.call(self.socket, method, url, body, headers, timeout)

    def sandbox(self, **request):
        answer = self.call("POST", "/v1/sandboxes", request)
        assert answer.status == 201, answer.body
        return answer.json["id"]

    def run(self, sandbox, **request):
        answer = self.call("POST", f"/v1/sandboxes/{sandbox}/runs", request)
        assert answer.status == 200, answer.body
        return answer.json

    def terminal(self, sandbox, **options):
        return wire.Terminal(self.socket, sandbox, **options)

    def events(self, url, **options):
        return wire.Events(self.socket, url, **options)

    def api_pid(self):
        """cay-api's."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid), "-f", "cay-api"],
                                  capture_output=True, text=True, timeout=10)
        return int(children.stdout.split()[0])

    def memory(self):
        """Bytes that the api has in memory."""
        text = pathlib.Path(f"/proc/{self.api_pid()}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in text.splitlines()
                    if line.startswith("VmRSS"))

    def fds(self):
        return len(os.listdir(f"/proc/{self.api_pid()}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self.log.close()


@pytest.fixture(scope="module")
def daemon():
    with tempfile.TemporaryDirectory(prefix="cay-serve-") as folder:
        d = Daemon(folder)
        yield d
        alive = d.process.poll() is None
        d.stop()
        assert alive and "rror" not in d.said(), d.said()


@pytest.fixture
def sandbox(daemon):
    id = daemon.sandbox()
    yield id
    daemon.call("DELETE", f"/v1/sandboxes/{id}")
