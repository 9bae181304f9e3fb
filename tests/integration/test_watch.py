"""cay run --watch: runs again after each save, and ends cleanly."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import pytest

from support import CAY, OURS, wait_until

AGAIN = "cay: --- x.py changed, running again\n"


class Watching:
    """A cay run --watch, its stdout and stderr in one pipe."""

    def __init__(self, cay, *args, **more):
        self.process = cay.start("run", "--watch", *args, stdin=subprocess.DEVNULL,
                                 stderr=subprocess.STDOUT, **more)
        self.seen = ""

    def wait_for(self, text, seconds=8):
        """Reads up to and including text; returns all since the last time."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                data = os.read(self.process.stdout.fileno(), 65536)
                assert data, f"ended: {self.seen!r}"
                self.seen += data.decode()
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def quiet_for(self, seconds):
        assert not select.select([self.process.stdout], [], [], seconds)[0], os.read(
            self.process.stdout.fileno(), 65536)

    def wait_for_the_run(self):
        """Until no run is going on."""
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        wait_until(lambda: not children.read_text(), what="the end of the run")

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        out = self.seen + self.process.communicate(timeout=10)[0].decode()
        return self.process.returncode, out


@pytest.fixture
def watch(cay, place):
    running = []

    def begin(text, *args, file="x.py", **more):
        if text is not None:
            (place / file).write_text(text)
        running.append(Watching(cay, *args, file, **more))
        return running[-1]

    yield begin
    for w in running:
        if w.process.poll() is None:
            w.end()


def test_runs_again_after_each_save(watch, place):
    w = watch("print('one')")
    assert w.wait_for("one\n") == "one\n"
    for word in ("two", "three"):
        (place / "x.py").write_text(f"print('{word}')")
        assert w.wait_for(f"{word}\n") == f"{AGAIN}{word}\n"
    assert w.end() == (128 + signal.SIGTERM, "")


def test_arguments_and_failures(cay, place):
    (place / "x.py").write_text("import sys; print(sys.argv[1:]); raise SystemExit(3)")
    w = Watching(cay, "x.py", "a", "--json")
    assert w.wait_for("code 3\n") == "['a', '--json']\ncay: exited with code 3\n"
    (place / "x.py").write_text("syntax error")
    assert "SyntaxError" in w.wait_for("code 1\n")
    assert w.end()[0] == 128 + signal.SIGTERM


def test_save_by_rename(watch, place):
    w = watch("print('one')")
    w.wait_for("one\n")
    (place / "x.py.tmp").write_text("print('two')")
    w.quiet_for(0.2)  # not our file, yet
    (place / "x.py.tmp").rename(place / "x.py")
    assert w.wait_for("two\n") == f"{AGAIN}two\n"


def test_other_files_do_not_matter(watch, place):
    w = watch("print('one')")
    w.wait_for("one\n")
    (place / "y.py").write_text("print('other')")
    w.quiet_for(0.3)


def test_save_through_a_link(watch, place):
    (place / "d").mkdir()
    (place / "d" / "real.py").write_text("print('one')")
    (place / "x.py").symlink_to("d/real.py")
    w = watch(None)
    w.wait_for("one\n")
    (place / "d" / "real.py").write_text("print('two')")
    w.wait_for("two\n")


def test_change_while_running_cancels(watch, place):
    w = watch("import time; print('up', flush=True); time.sleep(30); print('late')")
    w.wait_for("up\n")
    (place / "x.py").write_text("print('two')")
    assert w.wait_for("two\n", seconds=5) == f"{AGAIN}two\n"


def test_deleted_and_made_again(watch, place):
    w = watch("print('one')")
    w.wait_for("one\n")
    (place / "x.py").unlink()
    w.quiet_for(0.3)
    (place / "x.py").write_text("print('two')")
    w.wait_for("two\n")


def test_file_that_comes_later(watch, place):
    w = watch(None)
    assert "No such file" in w.wait_for("\n")
    (place / "x.py").write_text("print('now')")
    w.wait_for("now\n")


def test_put_files(watch, place):
    (place / "data").write_text("1")
    w = watch("print('data', open('data').read())", "--put", "data")
    w.wait_for("data 1\n")
    w.wait_for_the_run()
    (place / "data").write_text("2")
    w.wait_for("data 2\n")


def test_get_does_not_run_in_circles(watch, place):
    (place / "data").write_text("1")
    w = watch("n = int(open('data').read()); print('n', n); open('data', 'w').write(str(n + 1))",
              "--put", "data", "--get", "data")
    w.wait_for("n 1\n")
    w.quiet_for(0.6)
    assert (place / "data").read_text() == "2"


def test_first_line_may_change(watch, place):
    w = watch("#!/bin/sh\necho $0\n", file="tool")
    w.wait_for("/tool\n")
    (place / "tool").write_text("#!/usr/bin/env python3\nprint(6 * 7)\n")
    w.wait_for("42\n")


@pytest.mark.parametrize("words", [("-c", "print(1)"), ("-",), ("--", "true"), ()], ids=" ".join)
def test_only_a_file_can_be_watched(cay, words):
    error = cay.refused("--watch", *words)
    assert error["code"] == "invalid_request" and "--watch" in error["message"] and "FILE" in error["hint"]


def test_directory_that_is_not_there(cay):
    assert cay.refused("--watch", "nowhere/x.py")["code"] == "not_found"


def test_directory_that_goes(watch, place):
    (place / "d").mkdir()
    w = watch("print('one')", file="d/x.py")
    w.wait_for("one\n")
    (place / "d" / "x.py").unlink()
    (place / "d").rmdir()
    w.wait_for("is gone\n")
    assert w.process.wait(5) == OURS


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_cay_alone_ends_the_run(watch, sig):
    w = watch("import time; print('up', flush=True); time.sleep(30)")
    w.wait_for("up\n")
    assert w.end(sig)[0] == 128 + sig


def test_killed_leaves_nothing(watch):
    w = watch("import time; print('up', flush=True); time.sleep(30)")
    w.wait_for("up\n")
    w.process.kill()  # what is left of it is looked for after each test
    assert w.process.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize("code, seen", [("import time; print('up', flush=True); time.sleep(30)", b"up"),
                                        ("print('up')", b"up")], ids=["running", "waiting"])
def test_ctrl_c_on_a_terminal(cay, place, code, seen):
    (place / "x.py").write_text(code)
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(place)
        os.execve(CAY, [CAY, "run", "--watch", "x.py"], cay.env)
    got = b""
    while seen not in got:
        got += os.read(master, 1000)
    time.sleep(0.2)
    os.write(master, b"\x03")
    ended = []
    wait_until(lambda: ended or ended.extend(s for p, s in [os.waitpid(pid, os.WNOHANG)] if p), 5, "the end")
    os.close(master)
    assert os.waitstatus_to_exitcode(ended[0]) == 128 + signal.SIGINT
