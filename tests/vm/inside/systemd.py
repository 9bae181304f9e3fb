"""An ordinary user in a session under systemd: fully limited at the first run, by a scope that
systemd is asked for. Run by tests/vm/test_vm.py, in a machine whose PID 1 is systemd."""

import json
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import sys
import time

import pytest

from support import CAY, OURS, STRANGER, Cay, wait_until

USER = pwd.getpwnam("vm")
RUNTIME = pathlib.Path(f"/run/user/{USER.pw_uid}")
MANAGER = pathlib.Path(f"/sys/fs/cgroup/user.slice/user-{USER.pw_uid}.slice/user@{USER.pw_uid}.service")
LIMITED = {"memory": "cgroup2", "pids": "cgroup2", "cpu": "cgroup2", "degraded": []}


def below(pattern):
    """The user's cgroups whose path ends so. Not by rglob(), which stumbles over what vanishes."""
    return [path for path in (pathlib.Path(d) for d, _, _ in os.walk(MANAGER)) if path.match(pattern)]


def scopes():
    return below("cay-*.scope")


def is_limited(result):
    return {key: result["isolation"][key] for key in LIMITED} == LIMITED


@pytest.fixture
def user(scratch, place):
    """cay, run by the user with what a session has in its environment; but not in a session."""
    os.chown(place, USER.pw_uid, USER.pw_gid)
    cay = Cay(place, USER.pw_dir, scratch / "tmp")
    cay.env["XDG_RUNTIME_DIR"] = str(RUNTIME)
    cay.prefix = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"]
    yield cay
    wait_until(lambda: not scopes(), 5, f"the end of {scopes()}")


@pytest.fixture
def copy(place):
    """Another cay, with what is given as cay-scope beside it; returns how to run it."""
    def make(helper=None, owner=USER.pw_uid, mode=0o755):
        directory = place / "copy"
        directory.mkdir()
        shutil.copy(CAY, directory / "cay")
        if helper:
            shutil.copy(helper, directory / "cay-scope")
            os.chown(directory / "cay-scope", owner, owner)
            (directory / "cay-scope").chmod(mode)
        return str(directory / "cay")
    return make


def run_copy(user, cay, *args, timeout=40):
    return subprocess.run([*user.prefix, cay, "run", *args], env=user.env, cwd=user.directory,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)


def test_logged_in(user):
    """A real session, as login and sshd make it: its cgroup is root's."""
    inside = "cat /proc/self/cgroup >&2; exec \"$0\" run --json -c 'print(42)'"
    done = subprocess.run(
        ["systemd-run", "--quiet", "--pipe", "--wait", "-p", "PAMName=login", "-p", f"User={USER.pw_name}",
         "sh", "-c", inside, CAY], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "/session-" in done.stderr
    result = json.loads(done.stdout)
    assert result["stdout"] == "42\n" and is_limited(result), result["isolation"]


def test_default_run(user):
    done = user.run("--json", "-c", "print(42)").ok()
    assert is_limited(done.json), done.json["isolation"]


def test_in_a_scope_of_its_own_that_ends(user):
    p = user.start("run", "--", "sh", "-c", "echo up; read x")
    assert p.stdout.readline() == b"up\n"
    scope, = scopes()
    assert scope.name == f"cay-{p.pid}.scope"
    names = {d.name for d in scope.iterdir() if d.is_dir()}
    island, = names - {"cay-self"}
    assert island.startswith(f"cay-{p.pid}-") and "cay-self" in names
    assert (scope / "cay-self" / "cgroup.procs").read_text() == f"{p.pid}\n"
    assert (scope / island / "memory.max").read_text() == f"{512 << 20}\n"
    p.communicate(b"\n", timeout=20)
    assert p.returncode == 0
    wait_until(lambda: not scopes(), 5, "the scope's end")


def test_killed(user):
    p = user.start("run", "--", "sh", "-c", "echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    scope, = scopes()
    p.kill()
    p.communicate(timeout=20)
    wait_until(lambda: not scope.exists(), 5, "the scope's end")


def test_memory(user):
    done = user.run("--json", "-m", "48m", "-c", "x = bytearray(200 << 20)")
    assert done.rc == 137 and done.json["status"] == "out_of_memory"


def test_two_at_once(user):
    both = [user.start("run", "--json", "-c", "print(42)") for _ in range(2)]
    for p in both:
        out, err = p.communicate(timeout=40)
        assert p.returncode == 0, err
        assert b'"degraded":[]' in out


def test_a_delegated_service_is_used(user):
    """A service of the system's, run by the user: where something was delegated, nothing is asked for."""
    done = subprocess.run(
        ["systemd-run", "--quiet", "--pipe", "--wait", "-p", f"User={USER.pw_name}", "-p", "Delegate=yes",
         "--unit=given", CAY, "run", "--json", "--", "true"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert is_limited(json.loads(done.stdout))


# Marks the scope it is in as delegated, as the user's systemd does from version 253 on.
MARK = """
import os, sys
path = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().split("::")[1]
os.setxattr(path, "user.delegate", b"1")
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("mark", [True, False], ids=["delegated", "not delegated"])
def test_in_a_scope_of_the_users(user, mark):
    """One that was not delegated is left alone: systemd may take its controllers back any time."""
    user.prefix += ["systemd-run", "--user", "--scope", "--quiet"]
    if mark:
        user.prefix += ["-p", "Delegate=yes", "python3", "-c", MARK]
    p = user.start("run", "--", "sh", "-c", "echo up; read x")
    up = p.stdout.readline()
    used = below("run-*.scope/cay-self"), scopes()
    _, err = p.communicate(b"\n", timeout=20)
    assert up == b"up\n" and p.returncode == 0, err
    assert [len(found) for found in used] == ([1, 0] if mark else [0, 1])


def test_doctor_is_content(user):
    done = user("doctor")
    assert done.rc == 0, done.text + done.errors


def test_as_docs_have_it(user):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "places"))
    from environments import look, recorded, save
    seen = look(user)
    save("user, session of systemd", seen)
    assert recorded().get("user, session of systemd") == seen, "make environments"


# All else ends as it would without systemd, and says why.


def refused(done, reason):
    assert done.returncode == OURS, done.stderr
    assert "the limit memory" in done.stderr and reason in done.stderr, done.stderr


def test_helper_not_there(user, copy):
    refused(run_copy(user, copy(), "--", "true"), "cay-scope is not installed")


@pytest.mark.parametrize("owner, mode", [(STRANGER, 0o755), (USER.pw_uid, 0o757), (USER.pw_uid, 0o775)])
def test_helper_of_a_stranger(user, copy, owner, mode):
    refused(run_copy(user, copy("/bin/ls", owner, mode), "--", "true"), "cay-scope is not installed")


def test_helper_that_fails(user, copy):
    """Its line is shown. Here it is ls, which takes the process id for a file."""
    refused(run_copy(user, copy("/bin/ls"), "--", "true"), "cannot access")


def test_helper_is_not_looked_for_by_path(user, copy, place):
    cay = copy()
    shutil.copy("/bin/ls", place / "cay-scope")
    user.env["PATH"] = f"{place}:{user.env['PATH']}"
    refused(run_copy(user, cay, "--", "true"), "cay-scope is not installed")


def test_root_asks_for_nothing(cay, copy, place):
    done = subprocess.run([copy("/bin/ls"), "run", "--json", "--", "true"], cwd=place, timeout=40,
                          env={**cay.env, "XDG_RUNTIME_DIR": str(RUNTIME)}, capture_output=True, text=True)
    assert done.returncode == 0 and "cannot access" not in done.stderr


@pytest.fixture
def deaf(place):
    """A runtime directory of the user's with a socket at which nobody ever answers."""
    directory = place / "deaf"
    (directory / "systemd").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(directory / "systemd" / "private"))
        s.listen()
        for path in (directory, directory / "systemd", directory / "systemd" / "private"):
            os.chown(path, USER.pw_uid, USER.pw_gid)
        yield directory


def test_no_answer(user, deaf):
    user.env["XDG_RUNTIME_DIR"] = str(deaf)
    began = time.monotonic()
    error = user.refused("--", "true")
    assert "cay-scope did not answer" in error["message"]
    assert 5 < time.monotonic() - began < 12


def test_dry_run_asks_for_nothing(user, deaf):
    """It would wait for the answer, as above."""
    user.env["XDG_RUNTIME_DIR"] = str(deaf)
    began = time.monotonic()
    user.run("--dry-run", "-c", "print(42)").ok()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("value", [None, "", "relative", "/nonexistent", "/run/user/0"])
def test_nobody_to_ask(user, value):
    user.env.pop("XDG_RUNTIME_DIR")
    error = user.refused("--", "true", env={} if value is None else {"XDG_RUNTIME_DIR": value})
    assert error["code"] == "not_enforceable" and "scope" not in error["message"]


def test_allow_degraded(user, copy):
    done = run_copy(user, copy(), "--json", "--allow-degraded", "--", "true")
    assert done.returncode == 0 and '"degraded":["memory","cpus"]' in done.stdout
