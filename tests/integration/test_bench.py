"""cay bench: who is compared, what is said of those who are absent, and that it ends cleanly."""

import os
import re
import signal
import time

import pytest

from support import CAY, OURS, on_terminal, wait_until

NAMES = ["bare", "cay", "bubblewrap", "podman", "docker"]
FIGURES = {"name", "absent", "what", "runs", "min_ms", "median_ms", "over_bare_ms", "times_bare"}

# An engine of containers that has none: notes what it is called with, and runs the program.
ENGINE = """#!/bin/sh
echo "$@" >> {log}
case "$1 $2" in
"image ls") {ls} ;;
"run "*) while [ "$1" != --name ]; do shift; done; shift 2
  [ "$1" != -v ] || shift 2
  image=$1; shift; {run} ;;
esac
"""


@pytest.fixture
def engine(cay, place):
    """Makes a program called podman that answers as told; returns the file of its calls."""
    def make(ls="echo some/python:1", run='exec "$@"'):
        (place / "bin").mkdir()
        program = place / "bin" / "podman"
        program.write_text(ENGINE.format(log=place / "calls", ls=ls, run=run))
        program.chmod(0o755)
        cay.env["PATH"] = f"{place}/bin:/usr/bin:/bin"
        return place / "calls"
    return make


@pytest.fixture(autouse=True)
def no_engines(cay):
    """None but those that a test brings."""
    cay.env["PATH"] = "/usr/bin:/bin"
    cay.env["DOCKER_HOST"] = "unix:///nowhere/docker.sock"


def rows(cay, *args):
    result = cay("bench", "--json", *args).ok().json
    assert [r["name"] for r in result["rows"]] == NAMES
    return {r["name"]: r for r in result["rows"]}


def test_json(cay):
    done = cay("bench", "--json", "-n", "3").ok()
    result = done.json
    assert set(result) == {"language", "version", "code", "file", "rows"} and done.err == b""
    assert (result["language"], result["code"], result["file"]) == ("python", "print(42)", None)
    bare, cays = result["rows"][:2]
    assert set(bare) == set(cays) == FIGURES
    assert bare["runs"] == cays["runs"] == 3 and bare["absent"] is None
    assert bare["over_bare_ms"] == 0 and bare["times_bare"] == 1
    assert 0 < bare["min_ms"] <= bare["median_ms"]
    assert abs(cays["over_bare_ms"] - (cays["median_ms"] - bare["median_ms"])) < 0.001
    for row in result["rows"][2:]:
        assert set(row) == FIGURES if row["absent"] is None else row["absent"]


def test_table(cay):
    done = cay("bench", "-n", "2").ok()
    assert done.err == b""
    lines = done.text.splitlines()
    assert "print(42)" in lines[0] and lines[2].split() == ["median", "over", "bare", "times", "bare", "runs"]
    assert re.fullmatch(r"bare +[\d.]+ ms +2", lines[3])
    assert re.fullmatch(r"cay +[\d.]+ ms +[+-][\d.]+ ms +[\d.]+ +2", lines[4])
    assert re.search(r"^podman +absent: (not installed|no local image.*)$", done.text, re.M)


def test_own_code_and_file(cay, place):
    (place / "x.sh").write_text("exit 0\n")
    assert rows(cay, "-n", "1", "x.sh")["cay"]["runs"] == 1
    assert rows(cay, "-n", "1", "-l", "sh", "-c", "true")["bare"]["runs"] == 1
    assert rows(cay, "-n", "1", "-c", "import json")["cay"]["runs"] == 1


def test_bubblewrap_sees_the_file(cay, place):
    (place / "x.py").write_text("import os; assert os.getcwd() in ('/', '/workspace')")
    wrapped = rows(cay, "-n", "1", "x.py")["bubblewrap"]
    assert wrapped["absent"] is None or "not installed" in wrapped["absent"]


@pytest.mark.parametrize("words, said", [(("-c", "raise SystemExit('no luck')"), "no luck"),
                                         (("-c", "1", "x.py"), "not both"), (("-n", "0"), "--rounds"),
                                         (("-n", "x"), "--rounds"), (("-l", "sh"), "what code of sh"),
                                         (("nowhere.py",), "nowhere.py"), (("-l", "pyhton"), "did you mean"),
                                         (("a", "b"), "too many"), (("-l", "c", "-c", "1"), "compiled")], ids=str)
def test_errors(cay, words, said):
    done = cay("bench", "--json", *words)
    assert done.rc == OURS and len(done.said) == 1 and said in done.errors and done.error["code"]


def test_program_that_fails_on_an_island_alone(cay):
    done = cay("bench", "-c", "import socket; assert socket.gethostname() != 'cay', 'an island'")
    assert done.rc == OURS and "an island" in done.errors and "cay doctor" in done.errors


def test_bare_does_not_look_where_others_write(cay):
    """Interpreters load modules from the working directory and from the home."""
    code = "import os; d = [os.getcwd(), os.environ['HOME']]; assert '/tmp' not in d, d"
    assert rows(cay, "-n", "1", "-c", code)["bare"]["runs"] == 1


# Container engines

def test_container(cay, engine):
    calls = engine()
    found = rows(cay, "-n", "2")["podman"]
    assert found["runs"] == 2 and "some/python:1" in found["what"]
    first, *runs = calls.read_text().splitlines()
    assert first.startswith("image ls") and len(runs) == 3
    for line in runs:
        assert line.startswith("run --rm --pull=never --network none") and line.endswith("python3 -c print(42)")


def test_container_of_the_likely_image(cay, engine):
    calls = engine(ls="printf 'a:1\\nb:1\\n<none>:<none>\\nmy-python:3\\n'")
    assert "my-python:3" in rows(cay, "-n", "1")["podman"]["what"]
    assert " a:1 " not in calls.read_text()


def test_container_gets_the_file(cay, place, engine):
    (place / "x.py").write_text("")
    calls = engine(run="exit 0")
    assert rows(cay, "-n", "1", "x.py")["podman"]["runs"] == 1
    assert f"-v {place}/x.py:/workspace/x.py:ro some/python:1 python3 /workspace/x.py" in calls.read_text()


@pytest.mark.parametrize("answers, why", [
    ({"ls": "true"}, "no local image"), ({"run": "exit 127"}, "no local image"),
    ({"ls": "echo 'cannot connect' >&2; exit 1"}, "cannot connect"), ({"ls": "sleep 30"}, "no answer within 3 s")],
    ids=["no image", "no python", "no daemon", "no answer"])
def test_absent_container(cay, engine, answers, why):
    engine(**answers)
    assert why in rows(cay, "-n", "1")["podman"]["absent"]


# The end

@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_signal(cay, sig):
    p = cay.start("bench", "-n", "1000")
    time.sleep(0.7)
    p.send_signal(sig)
    out, err = p.communicate(timeout=8)
    assert p.returncode == 128 + sig and out == b"" and err.startswith(b"cay: cancelled by ")


def test_signal_stops_the_program(cay):
    """Also what it started, and the container."""
    p = cay.start("bench", "-l", "sh", "-c", "sleep 71 & sleep 72")
    wait_until(lambda: b"sleep\x0071\0" in commands(), what="its start")
    p.send_signal(signal.SIGINT)
    assert p.wait(8) == 130
    p.communicate()
    wait_until(lambda: not {b"sleep\x0071\0", b"sleep\x0072\0"} & commands(), what="its end")


def commands():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                found.add(f.read())
        except OSError:
            pass
    return found


def test_signal_removes_the_container(cay, engine):
    calls = engine(run="sleep 73")
    p = cay.start("bench")
    wait_until(lambda: calls.exists() and "run --rm" in calls.read_text(), what="the container")
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130
    p.communicate()
    assert re.search(rf"^rm -f cay-bench-{p.pid}$", calls.read_text(), re.M)


def test_on_a_terminal_it_says_that_it_works(cay):
    rc, seen = on_terminal(cay, "bench", "-n", "1")
    assert rc == 0 and seen.startswith(b"cay: timing ") and os.path.basename(CAY).encode() in seen
