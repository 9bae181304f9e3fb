"""The process that talks to clients: none of our rights, none of our files, no way to more."""

import contextlib
import os
import pathlib
import re
import stat

import pytest

from support import SANITIZED, must_work


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(re.findall(r"^(\w+):\t(.*)$", text, re.M))


def test_it_has_no_rights(daemon):
    for _ in range(2):
        pids = daemon.pids()
        assert set(pids) == {"serve", "launcher", "containers", "api", "egress", "images"}
        for name in ("api", "egress"):
            one = status(pids[name])
            assert one["NoNewPrivs"] == "1" and one["Seccomp"] == "2" and one["Threads"] == "1"
            sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"] + (["CapBnd"] if daemon.who == "root" else [])
            assert {int(one[name], 16) for name in sets} == {0}
            assert "0" not in one["Uid"].split() and "0" not in one["Gid"].split()
            assert one["Groups"].strip() in ("", one["Gid"].split()[0])
        if daemon.who == "root":
            assert status(pids["launcher"])["Uid"].split()[0] == "0"
        daemon.run("pass")


def test_it_does_not_fork(daemon):
    api = daemon.pids()["api"]
    with daemon.events("POST", "/v1/runs", {"code": "import time\ntime.sleep(0.3)"}) as events:
        events.until("start")
        assert pathlib.Path(f"/proc/{api}/task/{api}/children").read_text() == ""
        list(events)


def test_it_can_not_be_looked_into(daemon):
    """Not dumpable: its /proc is root's, whoever it runs as. (Leaks could not be looked for then.)"""
    api = daemon.pids()["api"]
    assert os.stat(f"/proc/{api}/mem").st_uid == 0 or SANITIZED
    assert "0" in re.search(r"^Max core file size\s+(\d+)\s+(\d+)",
                            pathlib.Path(f"/proc/{api}/limits").read_text(), re.M).groups()


def test_what_it_holds(daemon):
    """No directory but its state's, no file of the host's."""
    daemon.run("pass")
    api = daemon.pids()["api"]
    held = []
    for fd in os.listdir(f"/proc/{api}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.append(os.readlink(f"/proc/{api}/fd/{fd}"))
    paths = [p for p in held if p.startswith("/") and not p.startswith(("/dev/null", "/memfd:"))]
    assert not [p for p in paths if not p.startswith((str(daemon.state), str(daemon.log_file)))]


def test_its_environment_is_its_own(daemon):
    api = daemon.pids()["api"]
    names = {v.split(b"=")[0] for v in pathlib.Path(f"/proc/{api}/environ").read_bytes().split(b"\0") if v}
    assert names <= {b"PATH", b"LANG"}


def test_state_is_private(daemon):
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.state.stat().st_mode) == 0o700
    assert stat.S_IMODE((daemon.state / "cay.db").stat().st_mode) == 0o600


def test_a_state_directory_that_others_can_not_reach(make_daemon, scratch):
    """The api has no rights on the way there, and needs none."""
    daemon = make_daemon()
    daemon.stop()
    daemon.state = daemon.place / "private" / "state"
    daemon.state.parent.mkdir(mode=0o700)
    daemon.start()
    assert daemon.run("console.log(1)", language="javascript")["stdout"] == "1\n"
    assert (daemon.state / "cay.db").exists() and (daemon.state / "cay" / "runtimes").exists()


def test_runtimes_of_settings_can_be_read(make_daemon, scratch):
    """A directory that an operator names is the only one beyond /usr that it may look at."""
    place = scratch / "opt-python"
    (place / "bin").mkdir(parents=True)
    for name in ("python3", "python3.11"):
        (place / "bin" / name).symlink_to("/usr/bin/python3")
    try:
        daemon = make_daemon(settings=f"[language python]\npath = {place}\n")
        theirs = daemon.cay("runtimes", "--json", "python", config=daemon.config).ok().json
        ours = daemon.get("/v1/runtimes?language=python").ok()
        for runtimes in (ours, theirs):  # which file's line it was is not known there
            assert runtimes["runtimes"][0]["root"] == str(place)
            runtimes["runtimes"][0].pop("source")
        assert ours == theirs
    finally:
        for path in (place / "bin").iterdir():
            path.unlink()
        (place / "bin").rmdir()
        place.rmdir()


@pytest.mark.parametrize("language, code", [
    ("javascript", "console.log(6*7)"), ("bash", "echo $((6*7))"), ("ruby", "puts 6*7"), ("perl", "print 6*7, qq(\\n)")])
def test_languages_are_found(daemon, language, code):
    """Runtime detection works from within the confinement, and what it found is remembered."""
    answer = daemon.post("/v1/runs", {"language": language, "code": code})
    if answer.status == 404 and answer.error["code"] == "runtime_not_found":
        must_work(f"no {language} here")
    assert answer.ok()["stdout"] == "42\n"
    assert answer.json["version"]
