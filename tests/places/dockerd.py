"""A dockerd of the tests' own, which touches no network and no other daemon."""

import contextlib
import io
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile

from support import must_work, wait_until

# Where nothing is installed: the host's /usr is mounted.
DIRECTORIES = ["etc", "tmp", "usr", "var", "proc", "sys", "dev", "run", "root", "cay"]
LINKS = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}


def image():
    """A tar for `docker import`; -v /usr:/usr:ro brings the programs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name, target in LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


@contextlib.contextmanager
def dockerd():
    """The words of a docker that calls it."""
    if not shutil.which("dockerd") or not shutil.which("docker") or os.geteuid() != 0:
        must_work("not tested with Docker: needs root and dockerd (tools/setup docker)")
    place = pathlib.Path(tempfile.mkdtemp(prefix="cay-test-docker-", dir="/tmp"))
    socket = f"unix://{place}/socket"
    log = open(place / "log", "wb")
    daemon = subprocess.Popen(
        ["unshare", "-m", "dockerd", "--data-root", place / "data", "--exec-root", place / "exec", "-H", socket,
         "--pidfile", place / "pid", "--iptables=false", "--ip6tables=false", "--bridge=none"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    call = ["docker", "-H", socket]

    def is_up():
        assert daemon.poll() is None, (place / "log").read_text()
        return subprocess.run([*call, "version"], capture_output=True, check=False).returncode == 0
    try:
        wait_until(is_up, 60, "dockerd's start")
        yield call
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        log.close()
        shutil.rmtree(place, ignore_errors=True)
