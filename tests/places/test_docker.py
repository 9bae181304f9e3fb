"""In a container of Docker's own, as test_container.py makes one by hand: refused by name, and with
the flags that doctor names it works. Only where dockerd is installed (Debian: docker.io)."""

import pathlib
import shlex
import subprocess

import pytest

from dockerd import dockerd, image
from support import CAY, OURS, MIB, Cay
from test_container import doctor, failing, flags_of

IMAGE = "cay-test:1"


@pytest.fixture(scope="module")
def docker():
    """How to call a daemon of the test's own, which has the image."""
    with dockerd() as call:
        subprocess.run([*call, "import", "-", IMAGE], input=image(), capture_output=True, check=True)
        yield call


@pytest.fixture
def contained(docker, scratch, place):
    """cay in a container that was started with these flags."""
    def make(flags=""):
        cay = Cay(place, scratch / "home", scratch / "tmp")
        cay.prefix = [*docker, "run", "--rm", "--network", "none", "-v", "/usr:/usr:ro", "-v",
                      f"{pathlib.Path(CAY).resolve().parent}:{pathlib.Path(CAY).resolve().parent}:ro",
                      *shlex.split(flags), IMAGE]
        return cay
    return make


@pytest.mark.parametrize("user", ["", "--user 1000"], ids=["root", "user"])
def test_default_container(contained, user):
    cay = contained(user)
    _, rows = doctor(cay)
    assert {"user namespace", "/proc of its own", "memory limit", "cpu limit"} <= failing(rows)
    for option in ([], ["--allow-degraded"]):
        done = cay.run(*option, "--", "echo", "ran")
        assert done.rc == OURS and done.out == b"" and "cay doctor" in done.errors
    for flag in ("seccomp=unconfined", "systempaths=unconfined", "-v /sys/fs/cgroup:/sys/fs/cgroup:rw"):
        assert flag in flags_of(rows)


def test_the_flags_that_doctor_names_are_enough(contained):
    _, rows = doctor(contained())
    cay = contained(flags_of(rows))
    ok, rows = doctor(cay)
    assert ok and rows["host directories"]["ok"] is False
    assert "--cap-add SYS_ADMIN" in rows["host directories"]["todo"]
    result = cay.run("--json", "-m", "64m", "-c", f"x = bytearray({300 * MIB})").json
    assert result["status"] == "out_of_memory" and result["isolation"]["degraded"] == []


def test_a_user_gets_all_but_limits(contained):
    _, rows = doctor(contained("--user 1000"))
    cay = contained("--user 1000 " + flags_of(rows))
    result = cay.run("--json", "--allow-degraded", "-c", "print(42)").ok().json
    assert result["stdout"] == "42\n" and result["isolation"]["degraded"] == ["memory", "cpus"]


def test_host_directories_with_the_capability(contained, place):
    """What --cap-add SYS_ADMIN is for: a volume, on an island in the container."""
    (place / "f").write_text("here")
    _, rows = doctor(contained())
    flags = f"{flags_of(rows)} -v {place}:{place} -w {place}"
    done = contained(flags).run("--workspace", ".", "--", "cat", "f")
    assert done.rc == OURS and done.out == b""
    assert contained(f"{flags} --cap-add SYS_ADMIN").run("--workspace", ".", "--", "cat", "f").ok().text == "here"
