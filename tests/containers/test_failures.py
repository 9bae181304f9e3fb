"""What goes wrong with engines: an error that says what and what to do, and nothing left behind."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import tarfile

import pytest

from broken import answering, breakable_docker
from debian import python_root
from engines import IMAGE
from registry import Registry
from support import MIB, NOT_FOUND, OURS, wait_until

PYTHON = "localhost/cay-test:python"
SLEEPER = "6061"  # seconds: by which its process is found


def refused(cay, *words, name="docker", **more):
    """The error object of a run that was not begun."""
    return cay.refused("--engine", name, "--image", IMAGE, *words, "--", "/cay-none", timeout=120, **more)


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_nobody_listens(cay, place, name):
    where = f"unix://{place}/none"
    error = refused(cay, name=name, env={"DOCKER_HOST": where, "CONTAINER_HOST": where})
    assert error["code"] == "engine_unavailable" and f"{place}/none" in error["message"] and "start" in error["hint"]


def test_elsewhere(cay):
    error = refused(cay, env={"DOCKER_HOST": "tcp://127.0.0.1:2375"})
    assert error["code"] == "unsupported" and "tcp://127.0.0.1:2375" in error["message"]


def test_no_permission(stranger, docker):
    error = refused(stranger, "--allow-degraded", env=docker.environment)
    assert error["code"] == "engine_unavailable" and "group docker" in error["hint"]


def test_switched_off(cay, config, docker):
    error = refused(cay, env=docker.environment, config=config("[docker]\nenabled = no\n"))
    assert error["code"] == "policy_denied"


def test_too_old(cay, place):
    with answering(place / "socket", {"/_ping": (200, {"Api-Version": "1.40"}, b"OK")}) as env:
        error = refused(cay, env=env)
    assert error["code"] == "engine_unavailable" and "1.40" in error["message"] and "20.10" in error["hint"]


def test_ends_in_the_middle_of_an_answer(cay, place):
    answers = {"/_ping": (200, {"Api-Version": "1.41"}, b"OK"), "/json": (200, {}, b'{"Id": "sha256:')}
    with answering(place / "socket", answers) as env:
        error = refused(cay, env=env)
    assert error["code"] == "engine_unavailable"


def test_no_such_image(cay, config, engine):
    error = cay.refused("--engine", engine.name, "--image", "cay.invalid/none:1", "--", "true", env=engine.environment,
                        config=config("[images]\npull = never\n"))
    assert error["code"] == "image_not_found" and "pull" in error["hint"]


def test_no_such_registry(cay, engine):
    error = cay.refused("--engine", engine.name, "--image", "localhost:1/none:1", "--", "true", env=engine.environment,
                        timeout=120)
    assert error["code"] == "image_not_found" and "localhost:1" in error["message"]


def test_pull_denied(cay, docker, place):
    registry = Registry(place / "registry", auth="basic")
    try:
        error = cay.refused("--engine", "docker", "--image", f"127.0.0.1:{registry.port}/shut:1", "--", "true",
                            env=docker.environment, timeout=120)
    finally:
        registry.stop()
    assert error["code"] == "image_not_found" and "login" in error["hint"]


def test_not_an_allowed_image(cay, config, docker):
    error = refused(cay, env=docker.environment, config=config("[images]\nallow = python:*\n"))
    assert error["code"] == "policy_denied"


def test_disk_full(cay):
    with breakable_docker(600 * MIB) as broken:
        broken.engine.bring(PYTHON, python_root().read_bytes())
        broken.fill(leave=0)
        error = cay.refused("--engine", "docker", "--image", PYTHON, "--", "true",
                            env=broken.engine.environment, timeout=120)
        assert error["code"] == "at_capacity" and "no space left" in error["message"], error
        assert broken.engine.containers("label=cay") == []


def test_a_mount_that_would_land_elsewhere(cay, config, engine, place):
    """An image's symbolic links lead no mount to another path, nor over PID 1's program."""
    link = tarfile.TarInfo("data")
    link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
    guest = tarfile.TarInfo("cay-guest")
    guest.type, guest.linkname = tarfile.SYMTYPE, "data"
    image = io.BytesIO()
    with tarfile.open(fileobj=image, mode="w") as tar:
        for name in ("elsewhere", "etc", "tmp", "workspace", "proc", "sys", "dev"):
            inside = tarfile.TarInfo(name)
            inside.type, inside.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(inside)
        tar.addfile(link)
        tar.addfile(guest)
    engine.bring("localhost/cay-test:linked", image.getvalue())
    words = ["--engine", engine.name, "--image", "localhost/cay-test:linked"]
    conf = config(f"[mounts]\nread = {place}\n")
    error = cay.refused(*words, "-v", f"{place}:/data", "--", "/none", env=engine.environment, config=conf, timeout=120)
    assert error["code"] == "not_enforceable" and "/data did not land there" in error["message"], error["message"]
    done = cay("run", *words, "-v", f"{place}:/other", "--", "/none", env=engine.environment, config=conf, timeout=120)
    assert done.rc == NOT_FOUND, done
    assert engine.containers("label=cay") == []


def sleepers():
    found = []
    for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if cmdline.read_bytes().split(b"\0")[:2] == [b"sleep", SLEEPER.encode()]:
                found.append(cmdline.parent.name)
    return found


def sleep_in(cay, engine):
    return cay.start("run", "--json", "--engine", engine.name, "--image", PYTHON, "--", "sleep", SLEEPER,
                     env=engine.environment)


def test_the_daemon_dies(cay):
    """Killed in the middle of a run: that is an error. What is left over is gone once it is back."""
    with breakable_docker(600 * MIB) as broken:
        broken.engine.bring(PYTHON, python_root().read_bytes())
        with sleep_in(cay, broken.engine) as program:
            wait_until(sleepers, 60, "the program's start")
            broken.kill()
            out, _ = program.communicate(timeout=60)
            assert b"engine_unavailable" in out and program.returncode == OURS, (out, program.returncode)
        broken.start()
        assert len(broken.engine.containers("label=cay")) == 1
        assert cay("doctor", "--clean", env=broken.engine.environment, timeout=60).ok().text == "removed 1 leftover\n"
        assert broken.engine.containers() == [] and not sleepers()


def test_all_of_ours_dies(cay, engine):
    """Nobody is left who could remove the container: the next one to clean does, and touches no other."""
    engine.bring(PYTHON, python_root().read_bytes())
    other = engine.call("create", "--network", "none", "--name", "cay-run_looksalike", "--label", "cay-not=ours",
                        "--label", "cay.owner=1-1-1", IMAGE, "/bin/true", text=True).strip()
    with sleep_in(cay, engine) as program:
        wait_until(sleepers, 60, "the program's start")
        keepers = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        for pid in (*keepers, program.pid):
            os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: not sleepers(), 30, "the program's end")  # PID 1's connection has ended
    assert len(engine.containers("label=cay")) == 1
    assert cay("doctor", "--clean", env=engine.environment, timeout=60).ok().text == "removed 1 leftover\n"
    assert engine.containers() == [other]
    engine.call("rm", other)
    engine.settle()


def test_an_image_can_not_have_others_removed(cay, engine):
    """Its labels are its containers', who made them or not; their names are not its own to give."""
    ours = os.stat("/proc/self/ns/pid").st_ino
    labels = "--label", "cay=run_0123456789abcdef", "--label", f"cay.owner={ours}-4194304-1"
    other = engine.call("create", "--network", "none", "--name", "cay-run_0123456789abcde", *labels, IMAGE, "/bin/true",
                        text=True).strip()
    left = engine.call("create", "--network", "none", "--name", "cay-run_0123456789abcdef", *labels, IMAGE, "/bin/true",
                       text=True).strip()
    assert set(engine.containers("label=cay")) == {other, left}
    assert cay("doctor", "--clean", env=engine.environment, timeout=60).ok().text == "removed 1 leftover\n"
    assert engine.containers() == [other]
    engine.call("rm", other)


def test_those_that_run_are_left_alone(cay, engine):
    engine.bring(PYTHON, python_root().read_bytes())
    with sleep_in(cay, engine) as program:
        wait_until(sleepers, 60, "the program's start")
        assert cay("doctor", "--clean", env=engine.environment, timeout=60).ok().text == "removed 0 leftovers\n"
        assert sleepers()
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=60)
    engine.settle()


def test_cancelled_while_it_is_made(cay, engine):
    """A signal at any moment: nothing is left."""
    engine.bring(PYTHON, python_root().read_bytes())
    for after in (0.03, 0.1, 0.2, 0.4):
        with sleep_in(cay, engine) as program:
            with pytest.raises(subprocess.TimeoutExpired):
                program.communicate(timeout=after)
            program.send_signal(signal.SIGTERM)
            out, _ = program.communicate(timeout=60)
        assert program.returncode == 128 + signal.SIGTERM, (after, out)
        assert engine.containers("label=cay") == []
    engine.settle()
    assert not sleepers()
