"""Runs by an interpreter that was cloned: which are, that they come out as others do, and what becomes of zygotes."""

import base64
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

import pytest

from support import SOAK, family, must_work, wait_until
from memory import rollup
from zygotes import held_ready, started, status, wait_for_rest, warm_up, zygotes

WARM = "warm:default"
SITE = pathlib.Path(f"/usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}/dist-packages")


@pytest.fixture
def warm(daemon):
    """As root and as an ordinary user: both have zygotes."""
    return warm_up(daemon)


def start(daemon, code="pass", **more):
    return daemon.run(code, **more)["start"]


# Which are

def test_code_is_warm(warm):
    assert start(warm) == WARM == start(warm, language="python")


def test_files_and_arguments_are_no_hindrance(warm):
    done = warm.run("import sys\nopen('out.txt', 'w').write(open('in/a.txt').read().upper())\nprint(sys.argv[1:], input())",
                    files=[{"path": "in/a.txt", "text": "abc"}], get=["out.txt"], args=["x", "y z"], stdin="typed\n", env={"MINE": "1"})
    assert (done["start"], done["stdout"]) == (WARM, "['x', 'y z'] typed\n"), done
    assert [(f["path"], base64.b64decode(f["data"])) for f in done["files"]] == [("out.txt", b"ABC")]


@pytest.mark.parametrize("more", [
    {"cold": True}, {"env": {"PYTHONHASHSEED": "0"}}, {"env": {"PYTHONPATH": "/workspace"}}, {"env": {"LD_PRELOAD": "/x.so"}},
    {"env": {"LC_ALL": "C"}}, {"env": {"OMP_NUM_THREADS": "2"}}, {"user": "root"}, {"language": "sh", "code": "true"},
    {"argv": ["python3", "-c", "pass"], "code": None}], ids=str)
def test_others_are_cold(warm, more):
    body = {name: value for name, value in {"code": "pass", **more}.items() if value is not None}
    assert warm.post("/v1/runs", body).ok()["start"] == "cold"


def test_by_the_command_line(warm):
    env = {"CAY_HOST": f"unix:{warm.socket}"}
    assert warm.cay.run("--json", "-c", "pass", env=env).ok().json["start"] == WARM
    assert warm.cay.run("--json", "--cold", "-c", "pass", env=env).ok().json["start"] == "cold"


@pytest.mark.parametrize("module", ["numpy", "pandas", "matplotlib.pyplot"])
def test_a_set_of_its_own(warm, module):
    """A zygote for it is started when it is first asked for."""
    code = f"import {module}\nprint({module.split('.')[0]}.__name__)"
    if warm.run(code, cold=True)["exit_code"] != 0:
        must_work(f"{module} is not installed")
    done = warm.run(code)
    assert done["start"] in ("cold", "warm:science") and done["exit_code"] == 0  # cold, the first time
    warm_up(warm, code, "warm:science")
    done = warm.run(code)
    assert (done["start"], done["stdout"]) == ("warm:science", f"{module.split('.')[0]}\n"), done
    assert {z.set for z in zygotes(warm)} == {"default", "science"}


@pytest.fixture
def own_runtime(root):
    """A python that settings name: its directory is a mount of every island. (Not below /tmp, which a zygote gives up.)"""
    place = pathlib.Path(f"/opt/python-{uuid.uuid4().hex[:8]}")
    (place / "bin").mkdir(parents=True)
    # By its name it is a newer one, and so it is what runs get.
    shutil.copy(os.path.realpath("/usr/bin/python3"), place / "bin" / "python3.13")
    yield place
    shutil.rmtree(place)


def test_a_runtime_of_settings(make_daemon, own_runtime):
    """Its islands stand ready as well: what a run begins on waited before."""
    daemon = warm_up(make_daemon(settings=f"[language python]\npath = {own_runtime}\n"))

    def own():
        return next((z for z in zygotes(daemon) if z.program == f"{own_runtime}/bin/python3.13"), None)
    wait_until(lambda: own() and len(own().waiting()) >= 4, 10, "islands that wait")
    before = own().waiting()
    with daemon.events("POST", "/v1/runs", {"code": "import sys\nprint(sys.executable, flush=True)\nimport time\ntime.sleep(2)"}) as events:
        [_, (_, printed)] = events.until("stdout")[-2:]
        assert printed["text"] == f"{own_runtime}/bin/python3.13\n"
        assert own().borne() and own().borne() < before


def test_without(make_daemon):
    daemon = make_daemon(settings="[warm]\nenabled = no\n")
    for _ in range(3):
        assert start(daemon) == "cold"
    assert zygotes(daemon) == []


# As others

ALIKE = {
    "an exit code": dict(code="raise SystemExit(7)"),
    "an error": dict(code="1 / 0"),
    "a syntax error": dict(code="def"),
    "a signal": dict(code="import os\nos.kill(os.getpid(), 11)"),
    "a killed one": dict(code="import os\nos.kill(os.getpid(), 9)"),
    "time": dict(code="import time\ntime.sleep(60)", limits={"timeout": "300ms"}),
    "output": dict(code="while True: print('x' * 1000)", limits={"output": 100000}),
    "both streams": dict(code="import sys\nprint(1)\nprint(2, file=sys.stderr)"),
    "no input": dict(code="import sys\nprint(repr(sys.stdin.read()))"),
    "a directory": dict(code="import os\nprint(os.getcwd(), sorted(os.listdir()))", files=[{"path": "a", "text": ""}]),
    "bytes that are no text": dict(code="import os\nos.write(1, bytes(range(256)))"),
}
OF_ROOT = {
    "CPU time": dict(code="while True: pass", limits={"cpu_time": "300ms"}),
    "memory": dict(code="keep = []\nwhile True: keep.append(bytearray(1 << 22))", limits={"memory": "64m"}),
    "processes": dict(code="import os\ntry:\n    while os.fork(): pass\nexcept OSError as e: print(e.errno)", limits={"pids": 8}),
}


def told(result):
    """What must be the same of both."""
    return {name: value for name, value in result.items() if name not in ("id", "usage", "start", "isolation")}


def assert_alike(daemon, body):
    one, other = daemon.run(**body), daemon.run(**body, cold=True)
    assert (one["start"], other["start"]) == (WARM, "cold")
    assert told(one) == told(other)
    assert one["isolation"] == other["isolation"]
    return one


@pytest.mark.parametrize("body", ALIKE.values(), ids=ALIKE)
def test_it_comes_out_as_cold(warm, body):
    assert_alike(warm, body)


def test_limits_come_out_as_cold(make_daemon, root):
    """Those of cgroups, of which an ordinary user has none."""
    daemon = warm_up(make_daemon())
    assert assert_alike(daemon, OF_ROOT["CPU time"])["timed_out"]
    assert assert_alike(daemon, OF_ROOT["memory"])["status"] == "out_of_memory"
    assert assert_alike(daemon, OF_ROOT["processes"])["stdout"]


def test_usage(warm):
    used = warm.run("x = bytearray(50 << 20)\nwhile __import__('time').process_time() < 0.2: pass")["usage"]
    assert used["cpu_ms"] >= 150 and used["memory_peak_bytes"] >= 50 << 20, used


def test_cancelled_in_the_background(warm):
    run = warm.post("/v1/runs", {"code": "import time\nprint(1, flush=True)\ntime.sleep(60)", "background": True}).ok(202)["id"]
    wait_until(lambda: any(z.borne() for z in zygotes(warm)), 5, "its start")
    warm.delete(f"/v1/runs/{run}")
    wait_until(lambda: warm.get(f"/v1/runs/{run}").ok()["status"] != "running", 5, "its end")
    assert warm.get(f"/v1/runs/{run}").ok()["status"] == "cancelled"
    wait_for_rest(warm)


def test_events(warm):
    before = started(warm, WARM)
    with warm.events("POST", "/v1/runs", {"code": "print('a', flush=True)\nimport sys\nprint('b', file=sys.stderr)"}) as events:
        got = events.until("result")
    assert {"stdout", "stderr"} < {name for name, _ in got} and got[-1][1]["start"] == WARM and got[-1][1]["status"] == "ok"
    assert started(warm, WARM) == before + 1


def test_a_batch(warm):
    runs = [{"code": f"print({n})"} for n in range(30)]
    answer = warm.post("/v1/batches", {"runs": runs, "parallel": 8})
    results = [line["result"] for line in answer.lines if "result" in line]
    assert len(results) == 30 and {r["start"] for r in results} == {WARM}, answer.body[:500]


def test_many_at_once(warm):
    before = started(warm, WARM)
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        done = list(pool.map(lambda n: warm.run(f"import time\ntime.sleep(0.5)\nprint({n})"), range(40)))
    assert [r["stdout"] for r in done] == [f"{n}\n" for n in range(40)]
    assert started(warm, WARM) == before + 40
    wait_for_rest(warm)


def use(daemon):
    """What its processes hold when nothing runs, in KiB, and what else could grow."""
    wait_for_rest(daemon)
    zygote = max(zygotes(daemon), key=lambda z: z.init)  # the last that was started
    pids = {**{name: daemon.pids()[name] for name in ("launcher", "api")}, "zygote": zygote.pid}
    found = {f"{name} {field}": rollup(pid)[field] for name, pid in pids.items() for field in ("Rss", "Pss")}
    found.update({f"{name} fds": len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()})
    own = f"cay-{pids['launcher']}-"
    found["cgroups"] = sum(name.startswith(own) for _, names, _ in os.walk("/sys/fs/cgroup") for name in names)
    found["mounts"] = len(pathlib.Path(f"/proc/{pids['launcher']}/mountinfo").read_text().splitlines())
    return found


def places_of_modules():
    """When something was last put into a directory that modules are looked for in."""
    path = subprocess.run(["/usr/bin/python3", "-c", "import sys\nprint(*sys.path[1:], sep='\\n')"], capture_output=True, text=True)
    return [os.stat(place).st_mtime_ns for place in path.stdout.split() if os.path.isdir(place)]


# What may be more in the end: pools of islands, networks and cgroups are fuller at one time than at another.
MAY_GROW = {"Rss": 2048, "Pss": 2048, "fds": 48, "cgroups": 16, "mounts": 0}


def test_many_in_a_row(make_daemon):
    """All of them warm, also while another zygote takes over; nothing grows, and what each had is given back."""
    daemon = warm_up(make_daemon())
    first, *later = (1000, 10000, 30000) if SOAK else (100, 500)
    seen, done = {}, 0
    for count in (first, *later):
        before = places_of_modules()
        cold = [n for n in range(done, count) if start(daemon) != WARM]
        # Who installs a module meanwhile has zygotes replaced.
        assert not cold or places_of_modules() != before, f"runs {cold} were not warm"
        seen[count], done = {"cold": len(cold), **use(daemon)}, count
        print(f"\nafter {count}: {seen[count]}", flush=True)
    for count in later:
        more = {name: value - seen[first][name] for name, value in seen[count].items() if name != "cold"}
        assert all(value <= MAY_GROW[name.split()[-1]] for name, value in more.items()), more


SCIENCE = "import pandas"


def science_warm_up(daemon):
    if daemon.run(SCIENCE, cold=True)["exit_code"] != 0:
        must_work("pandas is not installed")
    return warm_up(daemon, SCIENCE, "warm:science")


def test_what_is_ready_fits_into_its_memory(make_daemon, root):
    """Interpreters, and islands, each with what it holds: some MB with pandas loaded."""
    daemon = science_warm_up(warm_up(make_daemon(settings="[warm]\nmemory = 130m\n")))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(daemon.run, [SCIENCE] * 32))
    wait_for_rest(daemon)
    time.sleep(2)  # as many are made as were wanted, if there is room
    assert held_ready(daemon) <= 130 << 20
    assert any(z.waiting() for z in zygotes(daemon) if z.set == "science")


def test_an_interpreter_without_room(make_daemon, root):
    """It is started once, to know; its runs start cold, and others have not suffered."""
    daemon = warm_up(make_daemon(settings="[warm]\nmemory = 24m\n"))
    until = time.monotonic() + 6
    while time.monotonic() < until:
        assert start(daemon, SCIENCE) == "cold"
    assert {z.set for z in zygotes(daemon)} == {"default"} and start(daemon) == WARM
    assert daemon.log.count("has no room for an interpreter") == 1


# What becomes of zygotes

def test_a_zygote_is_killed(make_daemon):
    """Runs go on, cold and then warm; those that it bore live to their end."""
    daemon = warm_up(make_daemon())
    daemon.expect_errors = True
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        lasting = [pool.submit(daemon.run, f"import time\ntime.sleep(4)\nprint({n})") for n in range(2)]
        [zygote] = zygotes(daemon)
        wait_until(lambda: len(zygote.borne()) >= 4, 5, "their start")
        os.kill(zygote.pid, signal.SIGKILL)
        for _ in range(3):
            assert daemon.run("print(1)")["stdout"] == "1\n"
        wait_until(lambda: [z for z in zygotes(daemon) if z != zygote], 20, "another zygote")
        [after] = [z for z in zygotes(daemon) if z != zygote]
        assert after.init != zygote.init
        assert [f.result()["stdout"] for f in lasting] == ["0\n", "1\n"]
    # The old one's island goes with its last.
    wait_until(lambda: not os.path.exists(f"/proc/{zygote.init}"), 5, "the old island's end")


def test_a_stopped_zygote_holds_nobody_up(make_daemon):
    """One that does not answer is given up."""
    daemon = warm_up(make_daemon())
    daemon.expect_errors = True
    [zygote] = zygotes(daemon)
    os.kill(zygote.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert daemon.run("print(1)")["stdout"] == "1\n" and time.monotonic() - began < 10
    warm_up(daemon)
    wait_until(lambda: not os.path.exists(f"/proc/{zygote.pid}"), 10, "its end")


def test_one_that_does_not_die_holds_nobody_up(make_daemon, root):
    """Killed, and not dead: as where it waits for a disk."""
    freezer = pathlib.Path("/sys/fs/cgroup/freezer")
    if not freezer.is_dir():
        return  # what is frozen on cgroup v2 can be killed
    daemon = warm_up(make_daemon())
    daemon.expect_errors = True
    [zygote] = zygotes(daemon)
    place = freezer / f"warm-{uuid.uuid4().hex[:8]}"
    place.mkdir()
    try:
        (place / "cgroup.procs").write_text(str(zygote.init))
        (place / "freezer.state").write_text("FROZEN")
        os.kill(zygote.pid, signal.SIGKILL)
        until = time.monotonic() + 5  # it is looked at each two seconds
        while time.monotonic() < until:
            assert daemon.post("/v1/runs", {"code": "print(1)"}, timeout=4).ok()["stdout"] == "1\n"
        warm_up(daemon)
        assert os.path.exists(f"/proc/{zygote.init}")
    finally:
        (place / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (place / "cgroup.procs").read_text(), 10, "its end")
        place.rmdir()


@pytest.mark.parametrize("which", ["launcher", "serve"])
def test_a_death_ends_zygotes_and_what_they_bore(make_daemon, which):
    daemon = warm_up(make_daemon())
    daemon.post("/v1/runs", {"code": "import os, time\nos.fork()\ntime.sleep(60)", "background": True}).ok(202)
    [zygote] = zygotes(daemon)
    wait_until(lambda: len(zygote.borne()) == 3, 5, "its start")
    pids = family(zygote.init)
    daemon.kill9(which)
    # Its processes are dead; the dead may be waited for by whoever is PID 1 here.
    wait_until(lambda: all(status(pid, "State") in (None, "Z (zombie)") for pid in pids), 5, "their end")
    if which == "serve":
        daemon.start()
    warm_up(daemon)


def test_another_content_of_a_module(make_daemon, root):
    """A module that was loaded has changed: so have the next runs, and in time all of them."""
    SITE.mkdir(parents=True, exist_ok=True)
    name = f"warm_{uuid.uuid4().hex[:8]}"
    path = SITE / f"{name}.py"
    with contextlib.ExitStack() as undo:
        undo.callback(lambda: [p.unlink() for p in SITE.rglob(f"{name}*")])
        path.write_text("VALUE = 1\n")
        path.chmod(0o644)
        daemon = warm_up(make_daemon(settings=f"[warm]\nset = default=json,{name}\n"))
        code = f"import {name}\nprint({name}.VALUE)"
        assert (daemon.run(code)["stdout"], start(daemon, code)) == ("1\n", WARM)
        [zygote] = zygotes(daemon)
        path.write_text("VALUE = 22\n")
        wait_until(lambda: daemon.run(code)["stdout"] == "22\n", 10, "the new content")  # looked at each two seconds
        wait_until(lambda: start(daemon, code) == WARM, 20, "a new zygote")
        assert daemon.run(code)["stdout"] == "22\n" and zygotes(daemon) != [zygote]


def test_ids_are_given_back(make_daemon):
    """More runs than a zygote has ids."""
    daemon = warm_up(make_daemon())
    seen = set()
    for _ in range(300):
        run = daemon.run("print(open('/proc/self/uid_map').read())")
        assert run["start"] == WARM
        seen.add(re.split(r"\s+", run["stdout"].strip())[1])
    assert len(seen) < 255
