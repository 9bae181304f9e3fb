"""Debian with Python and apt as a root to import: made by mmdebstrap, and kept in build/images.

Making it takes half a minute and needs root and Debian's mirror.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

from support import ROOT, must_work

CACHE = ROOT / "build" / "images"
SUITE = "bookworm"
SMALL = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]


def python_root():
    """The path of its tar."""
    if not shutil.which("mmdebstrap") or os.geteuid() != 0:
        must_work("a root of Debian's needs mmdebstrap and root")
    recipe = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]
    made = CACHE / f"python-{recipe}.tar"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in CACHE.glob("python-*"):
                old.unlink()
            making = CACHE / "making.tar"
            # Its mounts are nobody else's to see.
            done = subprocess.run(["unshare", "--mount", "mmdebstrap", "--quiet", "--variant=apt", "--include=python3",
                                   *SMALL, SUITE, making], capture_output=True, text=True)
            if done.returncode:
                must_work(f"mmdebstrap: {done.stderr.strip()[-500:]}")
            making.rename(made)
            made.chmod(0o644)
    return made
