"""Real engines for tests: daemons of the tests' own, with private directories, and how to ask them.

An Engine has a name ("docker", "podman"), the socket of its service and the words of its own client, by
which tests look at what cay left there, and make it what cay should not touch.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from dockerd import dockerd, image
from podman import podman
from support import must_work, wait_until

IMAGE = "cay-test:usr"  # nothing is installed there: the host's /usr is mounted


@dataclasses.dataclass
class Engine:
    name: str
    socket: str
    client: list  # docker -H …
    brought: set = dataclasses.field(default_factory=set)

    def call(self, *words, **more):
        return subprocess.run([*self.client, *words], capture_output=True, check=True, **more).stdout

    def inspect(self, container):
        return json.loads(self.call("inspect", container))[0]

    def containers(self, *filters):
        """Ids of all there are."""
        return self.call("ps", "-aq", "--no-trunc", *(f"--filter={f}" for f in filters), text=True).split()

    @property
    def environment(self):
        """By which cay finds it."""
        variable = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}[self.name]
        return {variable: f"unix://{self.socket}"}

    def settle(self):
        """Podman keeps a process for each command in a container, for five minutes after its end."""
        for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = cmdline.read_bytes()
                if words.startswith(b"/usr/bin/conmon") and os.path.dirname(self.socket).encode() in words:
                    os.kill(int(cmdline.parent.name), signal.SIGKILL)

    def bring(self, name, tar):
        """An image out of a root's tar, once."""
        if name not in self.brought:
            self.call("import", "-", name, input=tar)
            self.brought.add(name)


@contextlib.contextmanager
def docker_engine():
    with dockerd() as client:
        yield Engine("docker", client[2].removeprefix("unix://"), client)


@contextlib.contextmanager
def podman_engine():
    """podman's service, as root, with a root of its own."""
    if not shutil.which("podman") or not shutil.which("runc") or os.geteuid() != 0:
        must_work("not tested with Podman: needs root, podman and runc (tools/setup test)")
    place = pathlib.Path(tempfile.mkdtemp(prefix="cay-test-podman-", dir="/tmp"))
    socket = place / "socket"
    words = podman(place / "root", place / "run", "overlay")
    with open(place / "log", "wb") as log:
        service = subprocess.Popen([*words, "--events-backend", "file", "system", "service", "--time=0", f"unix://{socket}"],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_up():
        assert service.poll() is None, (place / "log").read_text()
        return socket.exists() and subprocess.run([*client, "version"], capture_output=True,
                                                  check=False).returncode == 0
    client = ["podman", "--remote", "--url", f"unix://{socket}"]
    engine = Engine("podman", str(socket), client)
    try:
        wait_until(is_up, 60, "podman's start")
        yield engine
    finally:
        subprocess.run([*client, "rm", "-fa", "-t0"], capture_output=True, check=False)
        service.send_signal(signal.SIGTERM)
        service.wait(30)
        engine.settle()
        shutil.rmtree(place, ignore_errors=True)


def with_usr(engine):
    """The engine, with the image that the host's /usr is mounted into."""
    engine.bring(IMAGE, image())
    return engine
