"""What code in a live sandbox tries against that which serves it: PID 1, commands that are being set
up, the files agent, other sandboxes. Each attack has a control beside it that works.
"""

import json
import threading
import time

import pytest

from memory import Memory
from sandbox import Sandbox
from support import wait_until
from terminal import Terminal

# Tries every way into a process; prints one JSON object: how: what came of it.
REACH = r"""
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(f):
    try:
        f()
        return "done"
    except OSError as e:
        return os.strerror(e.errno)
def syscall(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), "")
def ptrace(pid):
    if libc.ptrace(16, pid, 0, 0) < 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "")
    os.waitpid(pid, 0x40000000) if pid != 1 else None
    libc.ptrace(17, pid, 0, 0)
def read_memory(pid):
    with open(f"/proc/{pid}/maps") as f:
        if not f.read(1):
            raise OSError(13, "")
def getfd(pid):
    fd = libc.syscall(434, pid, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "")
    try:
        syscall(438, fd, 0, 0)
    finally:
        os.close(fd)
def reach(pid):
    return {
        "mem": call(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))),
        "maps": call(lambda: read_memory(pid)),
        "fd": call(lambda: os.listdir(f"/proc/{pid}/fd")),
        "exe": call(lambda: os.readlink(f"/proc/{pid}/exe")),
        "environ": call(lambda: open(f"/proc/{pid}/environ", "rb").read(1) or (_ for _ in ()).throw(OSError(13, ""))),
        "getfd": call(lambda: getfd(pid)),
        "ptrace": call(lambda: ptrace(pid)),
    }
"""

# Looks for processes that are cay's own code, as fast as it can, and tries each way into them. Says when
# it has seen one, and ends when it is told to.
HUNT = REACH + r"""
seen, got = set(), []
while not os.path.exists("stop"):
    for name in os.listdir("/proc"):
        if not name.isdigit() or name in ("1", str(os.getpid())):
            continue
        try:
            title = open(f"/proc/{name}/cmdline", "rb").read()
        except OSError:
            continue
        if not title.startswith(b"cay"):
            continue
        seen.add(name)
        open("seen", "w").close()
        for how, what in reach(int(name)).items():
            # It may have become the program meanwhile, which is the attacker's own to look into.
            if what == "done":
                try:
                    still = open(f"/proc/{name}/cmdline", "rb").read().startswith(b"cay")
                except OSError:
                    still = False
                if still:
                    got.append(how)
print(json.dumps({"seen": len(seen), "got": got}))
"""


@pytest.fixture
def box(daemon):
    id = daemon.request("POST", "/v1/sandboxes", json={"limits": {"pids": 100}}).ok(201)["id"]
    yield id
    daemon.request("DELETE", f"/v1/sandboxes/{id}")


def run(daemon, box, **body):
    return daemon.request("POST", f"/v1/sandboxes/{box}/runs", json=body).ok()


def test_pid_1_can_t_be_reached(daemon, box):
    code = REACH + r"""
import subprocess, signal
child = subprocess.Popen(["sleep", "60"])
print(json.dumps({"init": reach(1), "control": reach(child.pid), "kill": call(lambda: os.kill(1, 9))}))
child.kill()
"""
    result = run(daemon, box, code=code)
    assert result["status"] == "ok", result["stderr"]
    tried = json.loads(result["stdout"])
    assert set(tried["control"].values()) == {"done"}, tried
    assert "done" not in tried["init"].values(), tried
    assert run(daemon, box, command="echo well")["stdout"] == "well\n"


def test_commands_and_agents_can_t_be_reached_while_they_are_set_up(daemon, box):
    hunters = [threading.Thread(target=lambda: found.append(run(daemon, box, code=HUNT))) for _ in range(2)]
    found = []
    for hunter in hunters:
        hunter.start()
    file = f"/v1/sandboxes/{box}/files?path="
    began = time.monotonic()

    def hunted():
        """Long enough; and, as a slow processor may take longer to see one, until one was seen."""
        return time.monotonic() - began > 3.5 and daemon.get(file + "seen").status == 200
    while not hunted() and time.monotonic() - began < 30:
        assert run(daemon, box, command="true")["status"] == "ok"
        put = daemon.request("PUT", file + "f", body=b"x" * 200_000)
        assert put.status in (200, 201), put.body
        assert len(daemon.get(file + "f").body) == 200_000
    daemon.request("PUT", file + "stop", body=b"").ok(201)
    for hunter in hunters:
        hunter.join()
    for result in found:
        assert result["status"] == "ok", result["stderr"]
        told = json.loads(result["stdout"])
        assert told["got"] == [], told
    # The control: they were there to be seen.
    assert sum(json.loads(r["stdout"])["seen"] for r in found) > 0


def test_sandboxes_don_t_see_each_other(daemon, box):
    other = daemon.request("POST", "/v1/sandboxes", json={}).ok(201)["id"]
    run(daemon, other, command="echo secret >/tmp/s; (setsid sleep 7777 >/dev/null 2>&1 &)")
    assert run(daemon, other, command="pgrep -c -f 'sleep 7777'")["stdout"] != "0\n"
    result = run(daemon, box, command="ls /tmp; pgrep -f 'sleep 7[7]77'; ls /workspace; cat /proc/net/unix | wc -l")
    assert result["stdout"] == "1\n", result
    daemon.request("DELETE", f"/v1/sandboxes/{other}").ok()


def test_a_fork_bomb_takes_only_its_sandbox(daemon, box):
    daemon.request("POST", f"/v1/sandboxes/{box}/runs", json={
        "code": "import os, time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.01)",
        "background": True}).ok(202)
    time.sleep(1)
    answer = daemon.request("GET", f"/v1/sandboxes/{box}/files?path=f")
    assert answer.status in (404, 503, 500), answer.body  # served, or no process left for it
    assert daemon.request("POST", "/v1/runs", json={"command": "echo well"}).ok()["stdout"] == "well\n"
    daemon.request("DELETE", f"/v1/sandboxes/{box}").ok()


def test_what_a_sandbox_does_to_its_terminals_and_pipes(daemon, box):
    """Floods, closed pipes and signals: the daemon goes on, with as many fds as before."""
    before = daemon.fds()
    for line in ("yes | head -c 30000000", "exec >&- 2>&-; sleep 0.1", "kill -9 0", "kill -STOP $$ & sleep 0.1; kill -9 0",
                 "exec 0<&- 1>&- 2>&-", "cat /dev/urandom | head -c 1000000"):
        assert run(daemon, box, command=line, limits={"timeout": 2})["id"]
    wait_until(lambda: daemon.fds() <= before + 2, 10, "its fds are given back")


def test_killing_the_agent_is_an_error_and_no_more(daemon, box):
    """User code of the same id may kill it: the caller hears of it, and the next call works."""
    killer = threading.Thread(target=lambda: run(daemon, box, code=r"""
import os, time
until = time.monotonic() + 2
while time.monotonic() < until:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                if open(f"/proc/{name}/cmdline", "rb").read().startswith(b"cay"):
                    os.kill(int(name), 9)
            except OSError:
                pass
"""))
    killer.start()
    statuses = set()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        answer = daemon.request("PUT", f"/v1/sandboxes/{box}/files?path=g", body=b"y" * 3_000_000)
        statuses.add(answer.status)
        assert answer.status in (200, 201) or answer.error["code"], answer.body
    killer.join()
    assert daemon.request("PUT", f"/v1/sandboxes/{box}/files?path=g", body=b"z").status in (200, 201)
    assert run(daemon, box, command="cat g; ls -A | wc -l")["stdout"] == "z1\n"


# Writes to both its pipes without an end, after the command has ended.
FLOOD = r"""
import fcntl, os, time
for fd in (1, 2):
    fcntl.fcntl(fd, 1031, 1 << 20)  # F_SETPIPE_SZ
parent = os.getpid()
for n in range(6):
    if os.fork() == 0:
        while os.getppid() == parent: time.sleep(0.001)
        while True: os.write(1 + n % 2, b"x" * 65536)
"""


@pytest.mark.parametrize("events", [False, True])
def test_what_prints_without_an_end_holds_nobody_up(daemon, box, events):
    """A command's end is told, and the daemon goes on, while what it left behind prints."""
    memory = Memory(daemon)
    if events:
        with daemon.events("POST", f"/v1/sandboxes/{box}/runs", json={"code": FLOOD}) as stream:
            assert [name for name, _ in stream if name == "result"] == ["result"]
    else:
        assert run(daemon, box, code=FLOOD)["status"] == "ok"
    for _ in range(5):
        daemon.get("/v1/health").ok()
    assert run(daemon, box, command="echo on")["stdout"] == "on\n"
    assert memory.grown() < 64 << 20


def test_results_have_a_largest_size(daemon, box):
    for path in ("/v1/runs", f"/v1/sandboxes/{box}/runs"):
        daemon.post(path, {"command": "true", "limits": {"output": "9m"}}).refused(413, "too_large")
    result = run(daemon, box, command="head -c 8000000 /dev/urandom", limits={"output": "8m"})
    assert not result["stdout_truncated"] and len(result["stdout_base64"]) > 8000000


def test_a_terminal_that_is_never_read_piles_nothing_up(daemon, box):
    """Pings are answered only as far as the answers are taken."""
    memory = Memory(daemon)
    with Terminal(Sandbox(daemon, box)) as terminal:
        terminal.socket.settimeout(2)
        ping = b"\x89\xfd\0\0\0\0" + b"p" * 125
        sent = 0
        try:
            while sent < 256 << 20:
                sent += terminal.socket.send(ping * 500)
        except TimeoutError:
            pass  # nobody takes more of them: that is the point
        assert sent < 64 << 20, sent
        assert memory.grown() < 64 << 20
        daemon.get("/v1/health").ok()


def test_logs_of_single_bytes_stay_small(daemon, box):
    """What is printed byte by byte takes no more room than the same in one piece."""
    code = "import os, time\nfor n in range(20000):\n    os.write(1, b'x')\n    if n % 50 == 0: time.sleep(0.001)"
    assert run(daemon, box, code=code)["status"] == "ok"
    logs = daemon.get(f"/v1/sandboxes/{box}/logs").ok()["logs"]
    assert sum(len(entry["text"]) for entry in logs) == 20000 and len(logs) < 100


def test_a_starved_sandbox_holds_up_nobody_else(daemon):
    """Orders to a PID 1 that gets no CPU wait for it, and for it alone."""
    if daemon.who == "user":
        return  # nothing limits CPUs there
    box = daemon.post("/v1/sandboxes", {"limits": {"cpus": 0.01, "timeout": 60}}).ok(201)["id"]
    path = f"/v1/sandboxes/{box}/runs"
    daemon.post(path, {"command": "for n in $(seq 12); do (while :; do :; done) & done; wait", "background": True}).ok(202)
    wait_until(lambda: daemon.get(f"/v1/sandboxes/{box}").ok()["usage"]["processes"] > 8, 60, "the loops")
    for _ in range(12):  # more than its socket takes
        daemon.post(path, {"argv": ["true", "x" * 90000], "background": True}).ok(202)
    for _ in range(3):
        assert daemon.run("print(1)")["stdout"] == "1\n"
    assert daemon.get(f"/v1/sandboxes/{box}").ok()["state"] == "live"
    daemon.delete(f"/v1/sandboxes/{box}").ok()
