"""Engines that something is wrong with."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer

from engines import Engine
from support import wait_until


class Breakable:
    """A dockerd whose images and containers have a file system of their own, and which may be killed."""

    def __init__(self, place, size):
        self.place, self.size = place, size
        self.engine = Engine("docker", f"{place}/socket", ["docker", "-H", f"unix://{place}/socket"])
        self.holder = subprocess.Popen(  # keeps the mount where dockerd may end
            ["unshare", "--mount", "sh", "-ec", 'mkdir "$1/data"; mount -t tmpfs -o "size=$2" none "$1/data"; echo; exec sleep 3600',
             "sh", place, str(size)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.start()

    def within(self):
        return ["nsenter", "--mount", "--target", str(self.holder.pid)]

    def start(self):
        # Of one that died with its daemon; by its number it may be taken for somebody who lives.
        (self.place / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.within(), "dockerd", "--data-root", self.place / "data", "--exec-root", self.place / "exec",
                 "-H", f"unix://{self.engine.socket}", "--pidfile", self.place / "pid", "--iptables=false",
                 "--ip6tables=false", "--bridge=none"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.is_up, 60, "dockerd's start")

    def is_up(self):
        assert self.process.poll() is None, (self.place / "log").read_text()
        return subprocess.run([*self.engine.client, "version"], capture_output=True, check=False).returncode == 0

    def kill(self):
        """Its containerd, and what that has started, live on."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def fill(self, leave):
        """All but so many bytes of its disk are taken."""
        script = 'cd "$1"; free=$(df -k --output=avail . | tail -1); head -c "$((free - $2))k" /dev/zero >fill'
        subprocess.run([*self.within(), "sh", "-ec", script, "sh", self.place / "data", str(leave >> 10)], check=True)

    def end(self):
        """And all that is left of it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.place).encode() in cmdline.read_bytes():
                    os.kill(int(cmdline.parent.name), signal.SIGKILL)
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


@contextlib.contextmanager
def breakable_docker(size):
    place = pathlib.Path(tempfile.mkdtemp(prefix="cay-test-docker-", dir="/tmp"))
    docker = Breakable(place, size)
    try:
        yield docker
    finally:
        docker.end()
        shutil.rmtree(place, ignore_errors=True)


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextlib.contextmanager
def answering(socket, answers):
    """What says of itself that it is an engine: {path's end: (status, headers, body)}, else 500."""
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path = self.path.split("?", maxsplit=1)[0]
            status, headers, body = next((answer for end, answer in answers.items() if path.endswith(end)), (500, {}, b""))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_):
            pass

        def address_string(self):
            return ""
    server = _Server(str(socket), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {"DOCKER_HOST": f"unix://{socket}"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
