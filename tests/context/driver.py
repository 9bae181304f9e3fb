"""Starts a context's driver bare, without cay, and speaks to it as the daemon does.

    with Driver(["python3", "-c", text]) as d:
        cell = d.run("1 + 1")          # cell.results, .stdout, .stderr, .exception, .exit_code, .notes
        d.begin("input()"); d.wait("input"); d.answer("x"); d.end()
"""

import dataclasses
import json
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 60


@dataclasses.dataclass
class Cell:
    stdout: str = ""
    stderr: str = ""
    results: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    exception: dict = None
    exit_code: int = None

    @property
    def text(self):
        """text/plain of the one result."""
        assert len(self.results) == 1, self
        return self.results[0]["text/plain"]


class Ended(Exception):
    """The driver is gone; its wait status is returncode."""


class Driver:
    given, given_at_once = "", 1 << 16

    def __init__(self, argv, plain=False, env=None, cwd=None):
        """plain: cells are sent as they are, not as JSON (bash)."""
        self.plain, self.pending, self.cell, self.messages = plain, b"", Cell(), []
        self.control, theirs = socket.socketpair()
        # Close to what an island gives: nothing of the caller's environment.
        env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **(env or {})}
        pipes = [os.pipe(), os.pipe()]
        self.streams = {name: open(pipe[0], "rb", buffering=0) for name, pipe in zip(("stdout", "stderr"), pipes)}
        self.process = self.start([os.fspath(a) for a in argv], env, cwd, [theirs.fileno(), pipes[0][1], pipes[1][1]])
        theirs.close()
        for _, end in pipes:
            os.close(end)
        self.raw = {"stdout": b"", "stderr": b""}
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.control, selectors.EVENT_READ, None)
        for name, stream in self.streams.items():
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_READ, name)
        self.ready = self.wait("ready")

    def start(self, argv, env, cwd, fds):
        return subprocess.Popen(argv, stdin=fds[0], stdout=fds[1], stderr=fds[2], env=env, cwd=cwd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends it, with what it has started: its process group."""
        self.control.close()
        try:
            if self.process.poll() is None:
                os.killpg(self.ready["pid"], signal.SIGKILL)
        except (AttributeError, ProcessLookupError):
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        self.selector.close()
        for stream in self.streams.values():
            stream.close()

    def send(self, message):
        self.control.sendall(json.dumps(message).encode() + b"\0")

    def begin(self, code, rich=True, given=""):
        """given: what sys.stdin reads."""
        self.cell, self.messages, self.given = Cell(), [], given
        for name in self.raw:
            self.raw[name] = b""
        if self.plain:
            self.control.sendall(code.encode() + b"\0")
        else:
            self.send({"type": "run", "code": code, "rich": rich})

    def answer(self, text):
        self.send({"type": "input", "text": text})

    def refuse(self, error):
        self.send({"type": "input", "error": error})

    def interrupt(self):
        os.killpg(self.ready["pid"], signal.SIGINT)

    def _read(self, name):
        """All that is in a pipe now."""
        while True:
            try:
                data = os.read(self.streams[name].fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                if self.streams[name] in self.selector.get_map():
                    self.selector.unregister(self.streams[name])
                return
            self.raw[name] += data

    def _take(self, message):
        kind = message["type"]
        self.messages.append(message)
        if kind == "result":
            self.cell.results.append(message["data"])
        elif kind == "note":
            self.cell.notes.append(message["text"])
        elif kind == "input" and message.get("stream"):
            some, self.given = self.given[:self.given_at_once], self.given[self.given_at_once:]
            self.answer(some) if some else self.refuse("the input has ended")
            return None
        elif kind == "done":
            self.cell.exception, self.cell.exit_code = message["exception"], message["exit_code"]
        return kind

    def wait(self, kind, timeout=TIMEOUT_S):
        """Until a message of that kind comes, which is returned; everything before it is taken in."""
        deadline = time.monotonic() + timeout
        while True:
            head, end, rest = self.pending.partition(b"\0")
            if end:
                self.pending = rest
                message = json.loads(head.decode())
                if self._take(message) == kind:
                    return message
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no {kind!r} within {timeout} s: {self.raw}, {self.messages}")
            for key, _ in self.selector.select(left):
                if key.data:
                    self._read(key.data)
                    continue
                data = self.control.recv(1 << 20)
                if not data:
                    self._read("stdout"), self._read("stderr")
                    status = self.process.wait(TIMEOUT_S)
                    raise Ended(f"status {status}, stderr {self.raw['stderr'].decode(errors='replace')}")
                self.pending += data

    def output(self, name, text, timeout=TIMEOUT_S):
        """Until that text is in what the cell has written to stdout or stderr."""
        deadline = time.monotonic() + timeout
        while text.encode() not in self.raw[name]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} is not in {self.raw[name]!r}")
            time.sleep(0.01)
            self._read(name)

    def end(self, timeout=TIMEOUT_S):
        """Until the cell has ended. What it has written must be in the pipes by then."""
        self.wait("done", timeout)
        for name in self.streams:
            self._read(name)
            setattr(self.cell, name, self.raw[name].decode(errors="replace"))
        return self.cell

    def run(self, code, timeout=TIMEOUT_S, given=""):
        self.begin(code, given=given)
        return self.end(timeout)


def python_text(directory):
    """The Python driver as it is built in: its parts joined."""
    joined = pathlib.Path(directory) / "python-driver.py"
    context = ROOT / "src/context"
    subprocess.run([sys.executable, ROOT / "tools/driver", joined, context / "python.py",
                    *sorted(context.glob("python_*.py"))], check=True)
    return joined.read_text()
