"""A Docker of another Debian: its root is made by mmdebstrap, and entered in namespaces of its own.

Making it takes a minute or two and needs root and Debian's mirror; it is kept in build/containers. It is
entered by pivot_root, as under chroot what its containers run would land in the host's files.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading

from engines import Engine
from support import ROOT, must_work, wait_until

CACHE = ROOT / "build" / "containers"
SUITE = "trixie"
SMALL = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]

# $1: the root; $2: what of the host is there under its own name, beside /tmp: cay's own program.
ENTER = """
root=$1 ours=$2; shift 2
mount --bind "$root" "$root"
for d in proc sys dev tmp; do mount --rbind /$d "$root/$d"; done
for d in run var/lib/docker; do mkdir -p "$root/$d"; mount -t tmpfs none "$root/$d"; done
mkdir -p "$root$ours"
mount --bind "$ours" "$root$ours"
cd "$root"
pivot_root . .
busybox umount -l .
cd /
exec "$@"
"""


def root():
    """The path of the root."""
    if not shutil.which("mmdebstrap") or os.geteuid() != 0:
        must_work("another Debian's Docker needs mmdebstrap and root")
    recipe = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]
    made = CACHE / f"docker-{recipe}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in CACHE.glob("docker-*"):
                shutil.rmtree(old)
            making = CACHE / "making"
            shutil.rmtree(making, ignore_errors=True)
            done = subprocess.run(["unshare", "--mount", "nice", "mmdebstrap", "--quiet", "--variant=apt",
                                   "--include=docker.io,busybox-static", *SMALL, SUITE, making],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                must_work(f"mmdebstrap: {done.stderr.strip()[-500:]}")
            making.rename(made)
    return made


_making = []


def prepare():
    """It is made beside the tests before those that want it."""
    def make():
        with contextlib.suppress(BaseException):  # whoever wants it is told
            root()
    _making.append(threading.Thread(target=make, daemon=True))
    _making[0].start()


@contextlib.contextmanager
def newer_docker():
    for thread in _making:
        thread.join()
    place = pathlib.Path(tempfile.mkdtemp(prefix="cay-test-docker-", dir="/tmp"))
    socket = f"{place}/socket"
    with open(place / "log", "wb") as log:
        daemon = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", ENTER, "sh", root(), ROOT / "build", "dockerd", "-H", f"unix://{socket}",
             "--pidfile", "/run/docker.pid", "--iptables=false", "--ip6tables=false", "--bridge=none"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    engine = Engine("docker", socket, ["docker", "-H", f"unix://{socket}"])

    def is_up():
        assert daemon.poll() is None, (place / "log").read_text()
        return subprocess.run([*engine.client, "version"], capture_output=True, check=False).returncode == 0
    try:
        wait_until(is_up, 60, "the newer dockerd's start")
        yield engine
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        shutil.rmtree(place, ignore_errors=True)
