"""Runs by a node that had waited, started, on its island: which are, what holds them, and what becomes of those that wait."""

import base64
import os
import pathlib
import shutil
import signal
import time

import pytest

from support import must_work, wait_until
from zygotes import run_waited, status, waiters

WARM = "warm:node"
NODE = shutil.which("node")


def body(code, **more):
    return {"language": "javascript", "code": code, **more}


def stock(daemon, count=1):
    """Until so many wait; what is asked for twice gets a shelf."""
    if not NODE:
        must_work("node is not installed")
    run_waited(daemon, body("0"))
    wait_until(lambda: len(waiters(daemon)) >= count, 20, "one that waits")
    return daemon


@pytest.fixture
def warm(daemon):
    """As root and as an ordinary user: both have those that wait."""
    return stock(daemon)


# Which are

def test_code(warm):
    done = run_waited(warm, body("console.log(process.argv.slice(1), process.env.MINE)", args=["a", "b c"], env={"MINE": "1"}))
    assert (done["stdout"], done["stderr"]) == ("[ 'main.js', 'a', 'b c' ] 1\n", ""), done


def test_files_and_input(warm):
    code = "const fs = require('fs'); fs.writeFileSync('out', fs.readFileSync('in/a') + fs.readFileSync(0))"
    done = run_waited(warm, body(code, files=[{"path": "in/a", "text": "abc"}], get=["out"], stdin="typed"))
    assert [(f["path"], base64.b64decode(f["data"])) for f in done["files"]] == [("out", b"abctyped")], done


def test_a_file(warm):
    done = run_waited(warm, {"language": "javascript", "file": "x/main.mjs", "args": ["1"],
                             "files": [{"path": "x/main.mjs", "text": "console.log(import.meta.url, process.argv.slice(1))"}]})
    assert done["stdout"] == "file:///workspace/x/main.mjs [ '/workspace/x/main.mjs', '1' ]\n", done


@pytest.mark.parametrize("more", [
    {"cold": True}, {"env": {"NODE_OPTIONS": "--no-warnings"}}, {"env": {"TZ": "Asia/Tokyo"}}, {"env": {"LC_ALL": "C"}},
    {"user": "root"}, {"limits": {"pids": 16}}, {"code": None, "argv": [NODE, "-e", "0"], "language": None},
    {"workdir": "/tmp"}], ids=str)
def test_others_are_cold(warm, more):
    for _ in range(3):
        asked = {name: value for name, value in {**body("0"), **more}.items() if value is not None}
        assert warm.post("/v1/runs", asked).ok()["start"] == "cold"


def test_by_the_command_line(warm):
    env = {"CAY_HOST": f"unix:{warm.socket}"}
    wait_until(lambda: warm.cay.run("--json", "-l", "js", "-c", "0", env=env).ok().json["start"] == WARM, 20, "a warm start")
    assert warm.cay.run("--json", "--cold", "-l", "js", "-c", "0", env=env).ok().json["start"] == "cold"


@pytest.mark.parametrize("settings", ["[warm]\nenabled = no\n", "[warm]\nmemory = 12m\n"])
def test_without(make_daemon, settings):
    """Not wanted; and no room for one."""
    daemon = make_daemon(settings=settings)
    for _ in range(4):
        assert daemon.run(**body("0"))["start"] == "cold"
        time.sleep(0.3)
    assert not waiters(daemon)


# What holds them

LIMITS = {
    "an exit code": dict(code="process.exit(7)"),
    "an error": dict(code="null.x"),
    "a signal": dict(code="process.kill(process.pid, 'SIGSEGV')"),
    "time": dict(code="setTimeout(() => {}, 60000)", limits={"timeout": "400ms"}),
    "output": dict(code="for (;;) require('fs').writeSync(1, 'x'.repeat(1000))", limits={"output": 100000}),
    "disk": dict(code="const fs = require('fs'); const f = fs.openSync('/tmp/f', 'w')\n"
                      "try { for (;;) fs.writeSync(f, Buffer.alloc(1 << 20)) } catch (e) { console.log(e.code) }", limits={"disk": "8m"}),
}
OF_ROOT = {
    "CPU time": dict(code="for (;;);", limits={"cpu_time": "300ms"}),
    "memory": dict(code="const keep = []; for (;;) keep.push(Buffer.alloc(1 << 22, 1))", limits={"memory": "128m"}),
    "processes": dict(code="const { spawn } = require('child_process')\n"
                           "for (let n = 0; n < 40; n++) spawn('sleep', ['9']).on('error', (e) => { console.log(e.code); process.exit() })",
                      limits={"pids": 32}),
}


def assert_alike(daemon, asked):
    one, other = run_waited(daemon, asked), daemon.post("/v1/runs", {**asked, "cold": True}).ok()
    for name in one.keys() - {"id", "usage", "start"}:
        assert one[name] == other[name], name
    return one


@pytest.mark.parametrize("more", LIMITS.values(), ids=LIMITS)
def test_it_comes_out_as_cold(warm, more):
    assert_alike(warm, body(**more))


def test_limits_come_out_as_cold(make_daemon, root):
    """Those of cgroups, of which an ordinary user has none."""
    daemon = make_daemon()
    assert assert_alike(daemon, body(**OF_ROOT["CPU time"]))["timed_out"]
    assert assert_alike(daemon, body(**OF_ROOT["memory"]))["status"] == "out_of_memory"
    assert assert_alike(daemon, body(**OF_ROOT["processes"]))["stdout"]


def test_what_waits_is_held_already(make_daemon, root):
    """Before it has a program it is what every program is."""
    daemon = stock(make_daemon())
    for pid, init in waiters(daemon).items():
        fields = {"CapInh": "0" * 16, "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "CapAmb": "0" * 16,
                  "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1"}
        assert {name: status(pid, name) for name in fields} == fields
        assert int(status(pid, "Uid").split()[0]) >= 0x70000000 + 1000
        for kind in "user", "pid", "mnt", "ipc", "uts", "net", "cgroup", "time":
            assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind
        assert pathlib.Path(f"/proc/{pid}/cgroup").read_text() == pathlib.Path(f"/proc/{init}/cgroup").read_text()


def test_waiting_is_nobodys_time(make_daemon, root):
    """Neither the wall's nor the CPU's: it had both before the run was there."""
    daemon = stock(make_daemon())
    time.sleep(3)
    uptime = run_waited(daemon, body("console.log(process.uptime())"))
    assert float(uptime["stdout"]) > 3 > uptime["usage"]["wall_ms"] / 1e3, uptime
    cpu = [min(one["usage"]["cpu_ms"] for one in runs) for runs in zip(*(
        (stock(daemon) and run_waited(daemon, body("0")), daemon.run(**body("0"), cold=True)) for _ in range(3)))]
    assert cpu[0] < 0.7 * cpu[1], cpu
    used = run_waited(daemon, body("const used = () => { const u = process.cpuUsage(); return u.user + u.system }\n"
                                   "const end = used() + 3e5; while (used() < end);"))["usage"]
    assert used["cpu_ms"] >= 290, used


# What becomes of them

def test_each_is_used_once(make_daemon):
    daemon = make_daemon()
    for n in range(6):
        before = waiters(stock(daemon))
        assert len(before) <= 2
        done = run_waited(daemon, body(f"console.log({n}, globalThis.left, require('fs').readdirSync('/tmp')); globalThis.left = 1\n"
                                       "require('fs').writeFileSync('/tmp/left', '')"))
        assert done["stdout"] == f"{n} undefined []\n"
        gone = before.keys() - waiters(daemon).keys()
        assert gone and not any(os.path.exists(f"/proc/{pid}/exe") for pid in gone)


def test_one_is_killed(make_daemon):
    """Its island goes, and another is made; no run is lost."""
    daemon = stock(make_daemon(), 2)
    before = waiters(daemon)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(status(pid, "State") in (None, "Z (zombie)") for pid in before), 5, "their death")
    for n in range(4):
        assert daemon.run(**body(f"console.log({n})"))["stdout"] == f"{n}\n"
    wait_until(lambda: not any(os.path.exists(f"/proc/{init}") for init in before.values()), 10, "their islands' end")
    run_waited(daemon, body("0"))


def test_the_program_was_replaced(make_daemon, root):
    """Its file is not what it was: what waits is not used any more."""
    daemon = stock(make_daemon(), 2)
    before = waiters(daemon)
    os.chmod(NODE, os.stat(NODE).st_mode & 0o7777)  # that changes when it was changed, and nothing else
    assert daemon.run(**body("console.log(1)"))["start"] == "cold"
    assert not before.keys() & waiters(daemon).keys()
    run_waited(daemon, body("0"))


@pytest.mark.parametrize("which", ["launcher", "serve"])
def test_a_death_ends_them(make_daemon, which):
    daemon = stock(make_daemon(), 2)
    daemon.post("/v1/runs", body("setInterval(() => {}, 1000)", background=True)).ok(202)
    before = waiters(daemon)
    assert before
    daemon.kill9(which)
    wait_until(lambda: all(status(pid, "State") in (None, "Z (zombie)") for pid in [*before, *before.values()]), 5, "their end")
    if which == "serve":
        daemon.start()
    stock(daemon)


def test_sandboxes_that_live_have_none(make_daemon):
    """Nobody knows whether they will ever run one."""
    daemon = stock(make_daemon(), 2)
    before = waiters(daemon)
    with daemon.sandbox() as made:
        assert made.run("javascript", "console.log(1)")["stdout"] == "1\n"
        assert before.keys() <= waiters(daemon).keys()
