"""Another kernel than this machine's: Debian's 6.1, emulated, on pure cgroup v2 (tests/vm/run).

What is tested there are the files in inside/: this only boots, and shows what they said.
"""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
UNAVAILABLE = 77  # tests/vm/run

pytestmark = pytest.mark.vm


def in_vm(name, *options):
    """Runs inside/NAME.py by the machine's pytest."""
    p = subprocess.run(
        [HERE / "run", "--timeout", "200", *options, "--",
         "python3", "-B", "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider",
         "--durations=5", f"tests/vm/inside/{name}.py"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False)
    print(p.stdout)
    if p.returncode == UNAVAILABLE:
        if os.environ.get("CAY_MUST_WORK") == "1":
            pytest.fail(f"must work here, but: {p.stdout}", pytrace=False)
        pytest.skip(p.stdout)
    if p.returncode != 0:
        pytest.fail(f"exit code {p.returncode}:\n{p.stdout}", pytrace=False)


def test_cgroup2():
    in_vm("cgroup2")


def test_systemd_session():
    in_vm("systemd", "--systemd")
