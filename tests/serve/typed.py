"""cay as a user types it, who has a daemon."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pytest

from support import CAY


@pytest.fixture
def cli(daemon):
    """cay with a daemon: cli("ps"), or cli.local("run", …) for the same without."""
    class Cli:
        env = {"CAY_HOST": f"unix:{daemon.socket}"}

        def __call__(self, *args, **more):
            more["env"] = dict(self.env, **more.get("env", {}))
            return daemon.cay(*args, config=daemon.config, cwd=daemon.place, **more)

        def local(self, *args, **more):
            return daemon.cay(*args, config=daemon.config, cwd=daemon.place, **more)

        def start(self, *args, **more):
            return daemon.cay.start(*args, env=self.env, config=daemon.config, cwd=daemon.place, **more)
    return Cli()


@pytest.fixture
def box(cli):
    """The name of a sandbox that is removed at the end."""
    cli("create", "--name", "box", "--label", "a=b").ok()
    yield "box"
    cli("rm", "-f", "box").ok()


class Terminal:
    """cay on a terminal of 100 by 30."""

    def __init__(self, daemon, *args, pixels=(0, 0), **variables):
        env = dict(daemon.cay.env, **{"CAY_HOST": f"unix:{daemon.socket}", "TERM": "xterm", **variables})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, *pixels))
                os.chdir(daemon.place)
                argv = [*daemon.cay.prefix, CAY, *args]
                os.execvpe(argv[0], argv, env)
            finally:
                os._exit(99)
        self.seen = b""

    def until(self, text, seconds=10):
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, self.seen
            self.seen += data
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, data):
        os.write(self.fd, data)

    def end(self, seconds=10):
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                if not select.select([self.fd], [], [], 0.2)[0]:
                    continue
                data = os.read(self.fd, 65536)
                if not data:
                    break
                self.seen += data
        except OSError:
            pass
        os.close(self.fd)
        if time.monotonic() >= end:
            os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
