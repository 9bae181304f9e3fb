"""A dockerd of the tests' own, which touches no network and no other daemon."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from support import must_work, wait_until


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
