"""The daemon as a service of systemd: the units as they are installed, the system's and a user's.
Run by tests/vm/test_vm.py, in a machine whose PID 1 is systemd."""

import datetime
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from support import CAY, ISLAND_IDS, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "serve"))
from daemon import Daemon  # noqa: E402: by the path above

BUILD, PREFIX = pathlib.Path(CAY).parent, pathlib.Path("/usr/local")
TOP = pathlib.Path("/sys/fs/cgroup")
UNIFIED = TOP if (TOP / "cgroup.controllers").exists() else TOP / "unified"
USER = pwd.getpwnam("vm")
LIMITED = {"memory", "pids", "cpu"}

# The capabilities that islands' making takes, and no others: by their numbers.
SYS_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_TIME = 21, 16, 17, 25


def call(*argv, check=True, timeout=90):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def mounts():
    return set(pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def cgroups(top=TOP):
    """Those of islands. Not by rglob(), which stumbles over what vanishes."""
    return {f"{d}/{n}" for d, names, _ in os.walk(top) for n in names if re.match(r"cay-\d+-", n)}


def is_of_daemon(pid):
    try:
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        uid = os.stat(f"/proc/{pid}").st_uid
        in_unit = "/cay.service" in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False
    return in_unit or uid >= ISLAND_IDS or program.startswith(str(PREFIX))


def processes():
    return {pid for pid in filter(str.isdigit, os.listdir("/proc")) if is_of_daemon(pid)}


@pytest.fixture(autouse=True)
def nothing_left():
    """Looked at when a service has ended: it keeps islands ready, which come and go."""


class Service(Daemon):
    """A unit that is installed; asked for what it is by systemctl, spoken to at its default place."""

    def __init__(self, *prefix, who, socket, cgroup):
        self.prefix, self.who, self.socket, self.cgroup = prefix, who, pathlib.Path(socket), pathlib.Path(cgroup)
        self.mounts = mounts()

    def ctl(self, *words, **more):
        manager = ["--user"] if self.who == "user" else []
        return call(*self.prefix, "systemctl", *manager, *words, **more)

    def forget(self):
        """The starts there were, of which systemd allows five in ten seconds."""
        self.ctl("reset-failed", "cay", check=False)

    def start(self):
        self.forget()
        self.ctl("start", "cay")

    def restart(self):
        self.forget()
        self.ctl("restart", "cay")

    def stop(self):
        self.ctl("stop", "cay")

    def has_all_cgroups(self):
        """All of islands', and there are some."""
        unit = str(self.cgroup).removeprefix(str(UNIFIED))
        return cgroups() != set() and all(unit in path for path in cgroups())

    def show(self, name):
        return self.ctl("show", "cay", "--property", name, "--value").strip()

    @property
    def main(self):
        return int(self.show("MainPID"))

    def verb(self, *words):
        return call(*self.prefix, PREFIX / "bin/cay", *words)

    def log(self):
        """What it said in its life, line by line."""
        unit = "USER_UNIT" if self.who == "user" else "UNIT"
        lines = call("journalctl", "-o", "cat", f"_SYSTEMD_{unit}=cay.service", "_TRANSPORT=stdout").splitlines()
        return [json.loads(line) for line in lines]

    def served(self):
        return [line for line in self.log() if line["message"] == "serving"]

    def leaves_nothing(self):
        def left():
            return processes() | cgroups() | mounts() - self.mounts | {
                str(path) for path in (self.socket, self.cgroup) if path.exists()}
        end = time.monotonic() + 10
        while left() and time.monotonic() < end:
            time.sleep(0.05)
        assert not left()


@pytest.fixture(scope="module")
def installed():
    """What `make install` does, of what was built."""
    for source, target in {"cay": "bin/cay", "cay-api": "libexec/cay/cay-api",
                           "cay-egress": "libexec/cay/cay-egress", "cay-scope": "libexec/cay/cay-scope",
                           "packaging/cay.service": "lib/systemd/system/cay.service",
                           "packaging/cay-user.service": "lib/systemd/user/cay.service"}.items():
        (PREFIX / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BUILD / source, PREFIX / target)
    call("systemctl", "daemon-reload")


@pytest.fixture(scope="module")
def given():
    """A directory that the settings let runs write to, where the unit must not be in the way."""
    path = pathlib.Path("/srv/given")
    path.mkdir(parents=True)
    settings = pathlib.Path("/etc/cay/cay.conf")
    settings.parent.mkdir()
    settings.write_text(f"[mounts]\nread = {path}\nwrite = {path}\n")
    yield path
    shutil.rmtree(settings.parent)
    shutil.rmtree(path)


def system_service():
    return Service(who="root", socket="/run/cay/cay.sock", cgroup=UNIFIED / "system.slice/cay.service")


def user_service():
    runtime = f"/run/user/{USER.pw_uid}"
    manager = UNIFIED / f"user.slice/user-{USER.pw_uid}.slice/user@{USER.pw_uid}.service"
    service = Service("setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups",
                      "env", f"XDG_RUNTIME_DIR={runtime}", f"HOME={USER.pw_dir}", who="user",
                      socket=f"{runtime}/cay.sock", cgroup=manager / "app.slice/cay.service")
    service.ctl("daemon-reload")
    return service


@pytest.fixture(scope="module", params=["root", "user"])
def service(request, installed, given):
    """One for all tests, by the system's manager and by a user's; each test leaves it running."""
    service = system_service() if request.param == "root" else user_service()
    service.start()
    service.answered = service.get("/v1/health", timeout=5).status  # at once, or not at all
    yield service
    service.stop()
    service.leaves_nothing()


def only(who):
    return pytest.mark.parametrize("service", [who], indirect=True)


def test_start_returns_when_it_serves(service):
    assert service.answered == 200
    assert (service.show("ActiveState"), service.show("SubState")) == ("active", "running")
    assert service.show("StatusErrno") == "0"
    line, = service.served()
    said = datetime.datetime.fromisoformat(line["time"]).timestamp() - (time.time() - time.monotonic())
    assert said <= int(service.show("ActiveEnterTimestampMonotonic")) / 1e6 + 0.005


def test_run(service):
    done = service.run("print(6 * 7)")
    assert done["stdout"] == "42\n"
    assert done["isolation"]["degraded"] == []
    assert {done["isolation"][k] for k in LIMITED} == {"cgroup2" if UNIFIED == TOP else "cgroup1"}


def test_live_sandbox(service):
    service.verb("create", "--name", "live")
    service.verb("exec", "live", "--", "sh", "-c", "echo 1 >kept; sleep 1000 &")
    assert service.verb("exec", "live", "-c", "print(open('kept').read(), end='')") == "1\n"
    assert "live" in service.verb("ps")

    # All of it is in the unit's cgroup, which has no processes itself where it has limits.
    assert service.has_all_cgroups(), cgroups()
    if UNIFIED == TOP:
        assert (service.cgroup / "cgroup.procs").read_text() == ""
        own = (service.cgroup / "cay-self/cgroup.procs").read_text().split()
        assert str(service.main) in own and len(own) == 6  # with the launcher, the api, egress, images and containers
    assert not [d for d, _, _ in os.walk(UNIFIED) if d.endswith(".scope") and "/cay-" in d]  # nor elsewhere
    service.verb("rm", "live")


def test_out_of_memory_is_the_islands_alone(service):
    """Not the unit's: systemd stops a service of whose processes one was killed for memory."""
    done = service.post("/v1/runs", {"code": "x = bytearray(200 << 20)", "limits": {"memory": "48m"}}).ok()
    assert done["status"] == "out_of_memory"
    time.sleep(0.5)
    assert service.show("ActiveState") == "active" and service.run("print(1)")["stdout"] == "1\n"


def test_launcher_that_dies_comes_back_in_the_unit(service):
    main = service.main
    children = pathlib.Path(f"/proc/{main}/task/{main}/children").read_text().split()
    launcher, = [pid for pid in children
                 if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == b"cay: launcher"]
    os.kill(int(launcher), signal.SIGKILL)
    wait_until(lambda: len(service.served()) == 2, 20, "its second start")
    test_run(service)
    service.verb("create", "--name", "second")
    assert service.main == main and service.has_all_cgroups(), cgroups()
    service.verb("rm", "second")


@only("root")
def test_hardening(service):
    status = pathlib.Path(f"/proc/{service.main}/status").read_text()
    bounding = int(re.search(r"^CapBnd:\s+(\S+)", status, re.M)[1], 16)
    assert bounding >> SYS_ADMIN & 1
    assert not any(bounding >> cap & 1 for cap in (SYS_MODULE, SYS_RAWIO, SYS_TIME))
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    options = {line.split()[4]: line.split()[5].split(",")
               for line in pathlib.Path(f"/proc/{service.main}/mountinfo").read_text().splitlines()}
    assert "ro" in options["/usr"] and "ro" in options["/etc"] and "rw" in options["/"]


@only("root")
def test_island_is_as_good_as_outside_the_unit(service):
    outside = json.loads(call(PREFIX / "bin/cay", "run", "--json", "-c", "print(42)"))
    assert service.run("print(42)")["isolation"] == outside["isolation"]


@only("root")
def test_directories_that_settings_allow(service, given):
    (given / "in").write_text("in")
    done = service.run(command="cat in; echo out >out", workspace={"source": str(given), "access": "rw"})
    assert done["stdout"] == "in" and (given / "out").read_text() == "out\n"
    (given / "out").unlink()


@only("root")
def test_state_outlives_a_restart_and_is_closed(service):
    name = service.key("kept")[1]
    service.restart()
    assert name in [key["id"] for key in service.get("/v1/keys").ok()["keys"]]
    state = pathlib.Path("/var/lib/cay")
    assert state.stat().st_mode & 0o777 == 0o700


@only("root")
def test_locks_of_other_runs_outlive_it(service):
    """/run/cay/ids: two islands could have the same ids otherwise."""
    ids = pathlib.Path("/run/cay/ids")
    before = ids.stat().st_ino
    service.restart()
    assert ids.stat().st_ino == before


def is_running(*argv):
    def words(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        except OSError:
            return []
    return any(words(pid) == list(argv) for pid in processes())


def run_beside(service, seconds):
    """Starts a run that sleeps, and waits until it does; returns how to get the answer."""
    got = {}

    def ask():
        got["answer"] = service.post("/v1/runs", {"command": f"sleep {seconds}; echo done"}, timeout=90)

    def finish():
        thread.join(60)
        return got["answer"]
    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: is_running("sleep", seconds), 20, f"sleep {seconds}")
    return finish


@pytest.mark.parametrize("seconds, least, most", [("3.25", 0, 25), ("300.25", 25, 44)],
                         ids=["short", "half a minute"])
def test_stop_waits_for_what_runs(service, seconds, least, most):
    finish = run_beside(service, seconds)
    service.verb("create", "--name", "left")
    began = time.monotonic()
    service.stop()
    assert least < time.monotonic() - began < most
    if least:
        assert finish().ok()["status"] == "cancelled"
    else:
        assert finish().ok()["stdout"] == "done\n"
    assert (service.show("ActiveState"), service.show("Result")) == ("inactive", "success")
    service.leaves_nothing()
    service.start()


@pytest.mark.parametrize("who", ["all", "main"])
def test_killed(service, who):
    """With all its processes, or alone: systemd starts it again, and nothing is left of what ran."""
    service.verb("create", "--name", "victim")
    service.verb("exec", "victim", "--", "sh", "-c", "sleep 1000.25 &")
    main, running, made = service.main, processes(), cgroups()
    assert made and len(running) > 4
    service.forget()
    service.ctl("kill", f"--kill-who={who}", "-s", "KILL", "cay")
    wait_until(lambda: service.show("NRestarts") == "1" and service.show("ActiveState") == "active",
               30, "the unit's next start")
    assert service.main != main
    wait_until(lambda: not running & processes(), 5, "the end of all that ran")
    wait_until(lambda: not made & cgroups(), 5, "the end of its cgroups")
    wait_until(lambda: mounts() == service.mounts, 5, "the end of its mounts")
    assert "victim" not in service.verb("ps")
    assert service.run("print(42)")["stdout"] == "42\n"


def test_journal_is_json(service):
    lines = service.log()
    assert all({"time", "level", "process", "message"} <= set(line) for line in lines)
    assert {"serving", "ending: waiting for what runs"} <= {line["message"] for line in lines}


@only("root")
def test_journal_is_json_also_of_a_start_that_fails(service, given):
    settings = pathlib.Path("/etc/cay/cay.conf")
    good, lines_before = settings.read_text(), len(service.log())
    service.stop()
    settings.write_text("[limits]\nmemory = much\n")
    try:
        done = subprocess.run(["systemctl", "start", "cay"], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        last = service.log()[-1]
        assert len(service.log()) > lines_before
        assert last["level"] == "error" and "memory" in last["message"], last
    finally:
        settings.write_text(good)
        service.stop()  # it is about to be tried again
        service.start()
