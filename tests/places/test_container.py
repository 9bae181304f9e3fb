"""In a container, which takes away what an island is made of: cay says so, by name, and what flags
of the container bring it back; and those flags do. Runs on this machine, and in tests/vm on cgroup v2."""

import os
import pathlib
import signal
import sys

import pytest

from support import OURS, Cay

CONTAINER = pathlib.Path(__file__).resolve().with_name("container.py")
DEFAULT = ("filter", "proc", "cgroups")

# What a flag of docker's takes away again.
PARTS = {"--security-opt seccomp=unconfined": "filter",
         "--security-opt systempaths=unconfined": "proc",
         "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw": "cgroups"}



@pytest.fixture
def contained(scratch, place, root):
    """cay in a container with these parts."""
    def make(*parts):
        cay = Cay(place, scratch / "home", scratch / "tmp")
        cay.prefix = [sys.executable, str(CONTAINER), *parts, "--"]
        return cay
    return make


def doctor(cay):
    done = cay("doctor", "--json")
    rows = {row["control"]: row for row in done.json["controls"]}
    assert done.json["ok"] == (done.rc == 0)
    return done.json["ok"], rows


def failing(rows):
    return {name for name, row in rows.items() if not row["ok"] and row["required"]}


def flags_of(rows):
    """The flags that doctor names in the end."""
    text = rows["default run"]["todo"]
    assert text.startswith("start the container with: "), text
    return text.removeprefix("start the container with: ").split(" ; ")[0]


def without(parts, flags):
    left = set(parts)
    for flag, part in PARTS.items():
        if flag in flags:
            flags = flags.replace(flag, "")
            left.discard(part)
    assert flags.strip() == "", f"unknown flags: {flags}"
    return sorted(left)


def test_the_container_itself(contained):
    """The control: nothing is taken away but capabilities, and an island needs none."""
    ok, rows = doctor(contained())
    assert ok, rows
    assert contained().python("print(42)") == "42\n"


@pytest.mark.parametrize("user", [(), ("user",)], ids=["root", "user"])
def test_default_container(contained, user):
    ok, rows = doctor(contained(*DEFAULT, *user))
    assert not ok
    namespaces = {name for name in rows if name.endswith("namespace")}
    assert len(namespaces) == 8
    assert failing(rows) == namespaces | {"/proc of its own", "memory limit", "cpu limit", "default run"}
    for name in namespaces:
        assert "--security-opt seccomp=unconfined" in rows[name]["todo"]
    assert "--security-opt systempaths=unconfined" in rows["/proc of its own"]["todo"]
    assert "-v /sys/fs/cgroup:/sys/fs/cgroup:rw" in rows["memory limit"]["todo"]
    assert rows["seccomp"]["ok"]  # which needs no namespace to be tried


@pytest.mark.parametrize("part, lost", [
    ("filter", "user namespace"), ("proc", "/proc of its own"), ("cgroups", "memory limit")])
def test_each_part_alone(contained, part, lost):
    _, rows = doctor(contained(part))
    assert lost in failing(rows) and rows[lost]["reason"]
    assert without([part], flags_of(rows)) == []


@pytest.mark.parametrize("parts", [("filter",), ("proc",), ("cgroups",), DEFAULT, (*DEFAULT, "user")], ids="+".join)
def test_run_fails_closed(contained, place, parts):
    """One line, and nothing runs; with --allow-degraded neither, unless limits are all that is lacking."""
    cay = contained(*parts)
    done = cay.run("--", "echo", "ran")
    assert done.rc == OURS and done.out == b"" and len(done.said) == 1
    assert "cay doctor" in done.errors
    done = cay.run("--allow-degraded", "--", "echo", "ran")
    if parts == ("cgroups",):
        assert done.rc == 0 and done.out == b"ran\n" and "memory was not enforced" in done.errors
    else:
        assert done.rc == OURS and done.out == b"" and "cay doctor" in done.errors


def test_the_flags_that_doctor_names_are_enough(contained):
    _, rows = doctor(contained(*DEFAULT))
    cay = contained(*without(DEFAULT, flags_of(rows)))
    assert doctor(cay)[0]
    result = cay.run("--json", "-m", "64m", "-c", "x = bytearray(300 << 20)").json
    assert result["status"] == "out_of_memory" and result["isolation"]["degraded"] == []


def test_a_user_gets_all_but_limits(contained):
    _, rows = doctor(contained(*DEFAULT, "user"))
    assert "as root of the container, or with --allow-degraded" in rows["default run"]["todo"]
    cay = contained(*without(DEFAULT, flags_of(rows)), "user")
    result = cay.run("--json", "--allow-degraded", "-c", "print(42)").ok().json
    assert result["stdout"] == "42\n" and result["isolation"]["degraded"] == ["memory", "cpus"]


@pytest.mark.cgroups("v2")
def test_private_cgroup(contained):
    """Writable, but the container's own processes are in it: v2 gives no limits below such."""
    cay = contained("private", "proc")
    _, rows = doctor(cay)
    assert "memory limit" in failing(rows) and "-v /sys/fs/cgroup:/sys/fs/cgroup:rw" in flags_of(rows)
    assert cay.run("--", "echo", "ran").rc == OURS


def test_doctor_names_a_cause_once(contained):
    """Eight namespaces, one filter."""
    text = contained(*DEFAULT)("doctor").text
    assert text.count("-> a system call filter that cay was started under forbids it") == 1


def test_two_containers_at_once(contained):
    """Both have the machine's cgroups, and in both cay has the same process id."""
    first = contained().start("run", "--", "sh", "-c", "echo up; read x; echo end")
    assert first.stdout.readline() == b"up\n"
    try:
        assert contained().python("print(42)") == "42\n"
    finally:
        out, err = first.communicate(b"\n", timeout=20)
    assert out == b"end\n" and first.returncode == 0, err


def test_what_a_killed_run_left_is_in_nobodys_way(contained):
    """In a container process ids come again soon."""
    killed = contained().start("run", "--", "sh", "-c", "echo up; sleep 60", start_new_session=True)
    assert killed.stdout.readline() == b"up\n"
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert contained().python("print(42)") == "42\n"
    # An empty directory, which only a sweep that knows the container's process ids could tell from
    # one in use.
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            if name.startswith("cay-2-") and not pathlib.Path(directory, name, "cgroup.procs").read_text():
                os.rmdir(pathlib.Path(directory, name))
