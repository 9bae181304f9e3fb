"""Persistent sandboxes: a workspace with a limit of its own, kept through every end of the daemon."""

import os
import pathlib
import stat
import time
import urllib.parse

import pytest

from support import SOAK, must_work, wait_until

MIB = 1 << 20


class Box:
    """A sandbox by its id: what is done to it must work."""

    def __init__(self, daemon, **more):
        self.daemon = daemon
        self.made = daemon.post("/v1/sandboxes", dict({"persistent": True}, **more)).ok(201)
        self.id = self.made["id"]
        self.path = f"/v1/sandboxes/{self.id}"

    def sh(self, line, **more):
        return self.daemon.post(f"{self.path}/runs", dict({"command": line}, **more)).ok()

    def out(self, line):
        done = self.sh(line)
        assert done["status"] == "ok", done
        return done["stdout"]

    def file(self, name):
        return f"{self.path}/files?path={urllib.parse.quote(name)}"

    def put(self, name, data):
        answer = self.daemon.request("PUT", self.file(name), body=data)
        assert answer.status < 300, answer.body

    def get(self, name):
        answer = self.daemon.get(self.file(name))
        assert answer.status == 200, answer.body
        return answer.body

    @property
    def state(self):
        return self.daemon.get(self.path).ok()["state"]

    def delete(self):
        self.daemon.delete(self.path).ok()


def workspaces(daemon):
    return sorted(p.name for p in (daemon.state / "workspaces").iterdir())


def loops(daemon):
    """Loop devices with a file of the daemon's."""
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it went away meanwhile
        if str(daemon.state) in text:
            found.append(path)
    return found


def mounts(daemon):
    """Of any process, that has to do with the daemon's directory."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            found += [line for line in path.read_text().splitlines() if "/dev/loop" in line]
        except OSError:
            continue
    return found


def nothing_mounted(daemon):
    wait_until(lambda: not loops(daemon), 10, "the end of the loop devices")


def no_workspaces(daemon):
    wait_until(lambda: workspaces(daemon) == [], 10, "the workspaces' end")


@pytest.fixture
def root_daemon(make_daemon):
    if os.geteuid() != 0:
        must_work("workspaces that are kept need root")
    return make_daemon()


def test_it_says_what_it_is(root_daemon):
    box = Box(root_daemon, limits={"disk": "16m"}, name="kept")
    assert box.made["persistent"] and box.made["state"] == "live"
    assert box.made["isolation"]["disk"] == "loop" and box.made["isolation"]["degraded"] == []
    assert box.made["limits"]["disk"] == 16 * MIB
    assert box.out("ls -A; stat -c '%u %g %a' .; echo $HOME; pwd") == "1000 1000 755\n/workspace\n/workspace\n"
    assert workspaces(root_daemon) == [f"{box.id}.img"] and len(loops(root_daemon)) == 1
    # The launcher's own mounts, and the host's, have nothing of it.
    assert not [m for pid in root_daemon.pids().values()
                for m in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if "/dev/loop" in m]
    box.delete()
    nothing_mounted(root_daemon)
    no_workspaces(root_daemon)
    root_daemon.get(box.path).refused(410, "expired")


def test_bytes_are_limited(root_daemon):
    box = Box(root_daemon, limits={"disk": "16m"})
    said = box.sh("cat /dev/zero >big; stat -c %s big")
    assert "No space left on device" in said["stderr"]
    assert 15 * MIB < int(said["stdout"]) <= 16 * MIB
    assert box.out("rm big; head -c 10m /dev/zero >small; stat -c %s small") == f"{10 * MIB}\n"
    answer = root_daemon.request("PUT", box.file("more"), body=b"\0" * (8 * MIB))
    assert answer.status >= 400 and "space" in answer.error["message"]
    # /tmp has its own.
    assert box.out("head -c 10m /dev/zero >/tmp/x; stat -c %s /tmp/x") == f"{10 * MIB}\n"


def test_files_are_limited(root_daemon):
    box = Box(root_daemon, limits={"disk": "16m"})
    said = box.sh("mkdir d; i=0; while true >d/$i; do i=$((i+1)); done; ls d | wc -l", limits={"timeout": 60})
    assert "No space left on device" in said["stderr"]
    assert 4000 < int(said["stdout"]) <= 16 * 256
    assert box.out("rm -r d; touch again; ls") == "again\n"


def test_deleted_bytes_are_given_back(root_daemon):
    """The image is sparse, and stays so."""
    box = Box(root_daemon, limits={"disk": "64m"})
    image = root_daemon.state / "workspaces" / f"{box.id}.img"
    assert image.stat().st_blocks * 512 < 8 * MIB
    box.out("head -c 50m /dev/urandom >big; sync big")
    assert image.stat().st_blocks * 512 > 50 * MIB
    box.out("rm big; sync")
    wait_until(lambda: image.stat().st_blocks * 512 < 16 * MIB, 20, "the holes")


def test_restarts_in_order(root_daemon):
    daemon = root_daemon
    box = Box(daemon, name="mine", labels={"a": "1"}, env={"WHO": "me"}, limits={"memory": "200m", "pids": 20})
    other = Box(daemon, persistent=False)
    box.out("echo one >file; chmod 600 file; ln -s file link; mkdir -p .local/bin")
    daemon.request("PATCH", box.path, json={"labels": {"b": "2"}, "idle_timeout": 77}).ok()
    for n in range(2):
        daemon.restart()
        assert loops(daemon) == []
        found = daemon.get("/v1/sandboxes").ok()["sandboxes"]
        assert [s["id"] for s in found] == [box.id]
        assert found[0]["state"] == "stopped" and found[0]["isolation"] is None
        assert found[0]["name"] == "mine" and found[0]["labels"] == {"b": "2"} and found[0]["idle_timeout"] == 77
        assert found[0]["limits"] == box.made["limits"] and found[0]["created"] == box.made["created"]
        assert box.out("cat link; stat -c '%U %a' file; echo $WHO; cat /proc/sys/kernel/hostname").startswith(
            "one\n")
        assert box.state == "live"
        # By its name, too.
        assert daemon.post("/v1/sandboxes/mine/runs", {"command": "echo $WHO"}).ok()["stdout"] == "me\n"
    daemon.get(other.path).refused(410, "expired")
    assert daemon.post("/v1/sandboxes", {"name": "mine"}).refused(409, "conflict")
    box.delete()
    daemon.restart()
    daemon.get(box.path).refused(410, "expired")
    assert workspaces(daemon) == []


@pytest.mark.parametrize("use", ["run", "file", "resume", "list", "code"])
def test_any_use_starts_it(root_daemon, use):
    daemon = root_daemon
    box = Box(daemon)
    box.put("file", b"bytes")
    daemon.restart()
    assert box.state == "stopped"
    if use == "run":
        done = box.sh("cat file")
        assert done["stdout"] == "bytes" and done["isolation"]["disk"] == "loop"
    elif use == "file":
        assert box.get("file") == b"bytes"
    elif use == "resume":
        told = daemon.post(f"{box.path}/resume").ok()
        assert told["state"] == "live" and told["isolation"]["disk"] == "loop"
        daemon.post(f"{box.path}/resume").refused(409, "conflict")
    elif use == "list":
        assert "file" in str(daemon.get(f"{box.path}/files/list?path=.").ok())
    else:
        with daemon.events("POST", f"{box.path}/runs", {"code": "print(open('file').read())"}) as events:
            names = [name for name, _ in events]
        assert names[0] == "start" and names[-1] == "result"
    assert box.state == "live"


def test_many_at_once_start_it_once(root_daemon):
    daemon = root_daemon
    box = Box(daemon)
    daemon.restart()
    streams = [daemon.events("POST", f"{box.path}/runs", {"command": f"echo {n} >>all; sleep 0.1"}) for n in range(8)]
    for stream in streams:
        assert dict(list(stream))["result"]["status"] == "ok"
        stream.close()
    assert sorted(box.out("cat all").split()) == [str(n) for n in range(8)]
    assert len(loops(daemon)) == 1


def test_idle_ones_are_stopped(root_daemon):
    box = Box(root_daemon, idle_timeout=1)
    box.out("echo here >file; (sleep 1000 >/dev/null 2>&1 &)")
    wait_until(lambda: box.state == "stopped", 10, "the idle time-out")
    nothing_mounted(root_daemon)
    assert box.out("cat file; pgrep -c sleep || true") == "here\n0\n"
    wait_until(lambda: box.state == "stopped", 10, "the idle time-out")
    # At once again, while its last island may be ending.
    for n in range(3 if SOAK else 1):
        assert box.out("cat file") == "here\n"
        wait_until(lambda: box.state == "stopped", 10, "the idle time-out")
    # A stopped one is deleted as any other.
    box.delete()
    no_workspaces(root_daemon)


def test_a_paused_one_is_stopped_with_the_daemon(root_daemon):
    box = Box(root_daemon)
    paused = root_daemon.post(f"{box.path}/pause")
    if paused.status == 422:
        must_work("no freezer here")
    paused.ok()
    box.daemon.restart()
    assert box.state == "stopped" and box.out("echo on") == "on\n"


def test_one_that_can_not_be_started(root_daemon):
    """Its image was damaged: everybody is told, it stays as it is, and can be deleted."""
    daemon = root_daemon
    box = Box(daemon)
    box.put("file", b"x")
    daemon.stop()
    image = daemon.state / "workspaces" / f"{box.id}.img"
    with open(image, "r+b") as f:
        f.write(b"\0" * MIB)
    daemon.start()
    for _ in range(2):
        assert "workspace" in daemon.post(f"{box.path}/runs", {"command": "true"}).refused(
            503, "engine_unavailable")["message"]
        daemon.post(f"{box.path}/resume").refused(503, "engine_unavailable")
        assert daemon.get(box.file("file")).status >= 400
        assert box.state == "stopped"
    assert loops(daemon) == []
    box.delete()
    no_workspaces(daemon)


def test_time_to_live_ends_them(root_daemon):
    box = Box(root_daemon, ttl=2, idle_timeout=1)
    wait_until(lambda: root_daemon.get(box.path).status == 410, 15, "the time to live")
    no_workspaces(root_daemon)


def test_deleting_while_it_starts(root_daemon):
    daemon = root_daemon
    for n in range(5):
        box = Box(daemon)
        daemon.restart()
        with daemon.events("POST", f"{box.path}/runs", {"command": "sleep 5"}):
            box.delete()
    nothing_mounted(daemon)
    no_workspaces(daemon)


def writer(box):
    """Runs in the sandbox until it is killed with it."""
    box.daemon.post(f"{box.path}/runs", {"command": "i=0; while :; do echo $i >busy-$((i%50)); i=$((i+1)); done",
                                         "background": True})


@pytest.mark.parametrize("which", ["serve", "launcher", "api"])
def test_kill_9(root_daemon, which):
    """What was written by the files API before is there after; and nothing else is left."""
    daemon = root_daemon
    box = Box(daemon, limits={"disk": "32m"})
    rounds = int(os.environ.get("CAY_CRASHES", "4"))
    for n in range(rounds):
        writer(box)
        box.put(f"kept-{n}", f"round {n}".encode() * 1000)
        box.out("until [ -e busy-0 ]; do sleep 0.01; done")
        daemon.kill9(which)
        if which == "serve":
            nothing_mounted(daemon)
            daemon.start()
        assert box.state == "stopped"
        nothing_mounted(daemon)
        for k in range(n + 1):
            assert box.get(f"kept-{k}") == f"round {k}".encode() * 1000
        assert "busy-0" in box.out("ls; rm busy-*")
        assert workspaces(daemon) == [f"{box.id}.img"]
        if which != "serve" and n % 3 == 2:
            daemon.restart()  # five crashes within a minute end it
    box.delete()
    nothing_mounted(daemon)
    assert not mounts(daemon)


def test_kill_9_while_it_is_made(root_daemon):
    """Half-made images are removed; one that nobody was told of is, too."""
    daemon = root_daemon
    for n in range(3):
        connection = daemon.begin("POST", "/v1/sandboxes", {"persistent": True})
        time.sleep(0.004 * n)
        daemon.kill9("launcher")
        connection.close()
    daemon.restart()
    nothing_mounted(daemon)
    known = {s["id"] + ".img" for s in daemon.get("/v1/sandboxes").ok()["sandboxes"]}
    assert set(workspaces(daemon)) <= known


def test_nobodys_workspaces_are_removed(root_daemon):
    daemon = root_daemon
    box = Box(daemon)
    daemon.stop()
    place = daemon.state / "workspaces"
    for name in ("sbx_0000000000000000.img", "sbx_1111111111111111.new", "strange"):
        (place / name).write_bytes(b"")
    (place / "sbx_2222222222222222").mkdir()
    (place / "sbx_2222222222222222" / "file").write_bytes(b"x")
    daemon.start()
    wait_until(lambda: workspaces(daemon) == sorted([f"{box.id}.img", "strange"]), 10, "the sweep")


def test_no_room(root_daemon):
    error = root_daemon.post("/v1/sandboxes", {"persistent": True, "limits": {"disk": "8t"}}).refused(
        503, "at_capacity")
    assert "8." in error["message"] and "disk" in error["hint"]
    assert workspaces(root_daemon) == []
    assert root_daemon.get("/v1/sandboxes").ok()["sandboxes"] == []


def test_host_directories_stay_by_themselves(make_daemon, scratch):
    shared = scratch / "shared"
    shared.mkdir(exist_ok=True)
    os.chown(shared, 12345, 12345)
    daemon = make_daemon(settings=f"[mounts]\nwrite = {shared}\n")
    box = Box(daemon, workspace={"source": str(shared), "access": "rw"})
    box.out("echo x >file")
    daemon.restart()
    assert box.out("cat file") == "x\n" and workspaces(daemon) == []


def test_what_is_the_daemons_own_is_never_mounted(make_daemon, scratch):
    daemon = make_daemon(settings=f"[mounts]\nread = {scratch}\n")
    beside, link = daemon.place / "beside", daemon.place / "link"
    beside.mkdir()
    link.symlink_to("state")
    for own in (daemon.state, daemon.state / "workspaces", link, daemon.place, scratch):
        mounts = [{"source": str(own), "target": "/own"}]
        error = daemon.post("/v1/runs", {"argv": ["ls", "/own"], "mounts": mounts}).error
        assert error["code"] == "policy_denied" and "forbidden" in error["message"], own
    mounts = [{"source": str(beside), "target": "/own"}]
    assert daemon.post("/v1/runs", {"argv": ["ls", "/own"], "mounts": mounts}).ok()["status"] == "ok"


def test_only_root_can_touch_the_images(root_daemon):
    """What the api could write, it could have the kernel mount."""
    box = Box(root_daemon)
    place = root_daemon.state / "workspaces"
    for path in (place, place / f"{box.id}.img"):
        told = path.stat()
        assert told.st_uid == 0 and not stat.S_IMODE(told.st_mode) & 0o77, path
    api = root_daemon.pids()["api"]
    held = [os.readlink(f"/proc/{api}/fd/{fd}") for fd in os.listdir(f"/proc/{api}/fd")]
    assert not [h for h in held if "workspaces" in h or "loop" in h]


@pytest.mark.parametrize("trick", ["symlink", "own"])
def test_another_directory_in_its_place(root_daemon, trick):
    """The state directory is the api's user's, who may rename what is in it."""
    daemon = root_daemon
    daemon.stop()
    place = daemon.state / "workspaces"
    owner = daemon.state.stat().st_uid
    place.rename(daemon.state / "away")
    if trick == "symlink":
        place.symlink_to("away")
    else:
        place.mkdir(mode=0o700)
        os.chown(place, owner, owner)
    done = daemon.cay.start("serve", "--socket", daemon.socket, "--state", daemon.state, config=daemon.config)
    _, errors = done.communicate(timeout=20)
    assert done.returncode == 125 and b"workspaces" in errors


def test_no_rights_by_what_lies_there(root_daemon):
    daemon = root_daemon
    box = Box(daemon)
    assert box.out("cp /usr/bin/id id; chmod 6755 id; ./id -u") == "1000\n"
    assert "not permitted" in box.sh("mknod d b 7 0")["stderr"]
    box.out("ln -s /etc/shadow shadow; ln -s / root; ln -s /proc/1/root/etc/passwd deep")
    daemon.restart()
    assert box.out("./id -u; id -u") == "1000\n1000\n"
    for name in ("shadow", "root/etc/shadow", "deep"):
        answer = daemon.get(box.file(name))
        assert answer.status != 200 or b"root:" not in answer.body, name
    assert "not permitted" in box.sh("mknod d c 1 3")["stderr"]
    flags = box.out("grep ' /workspace ' /proc/self/mountinfo | cut -d' ' -f6").strip().split(",")
    assert {"nosuid", "nodev"} <= set(flags)


def test_an_ordinary_user_has_no_limit_and_is_told(make_daemon):
    daemon = make_daemon("user")
    box = Box(daemon, allow_degraded=True)
    assert box.made["isolation"]["disk"] == "none" and "disk" in box.made["isolation"]["degraded"]
    box.out("echo here >file; mkdir -p a/b/c; ln -s / root; chmod 0 a/b a")
    assert workspaces(daemon) == [box.id]
    daemon.restart()
    assert box.out("cat file") == "here\n"
    daemon.kill9("api")
    assert box.get("file") == b"here\n"
    box.delete()
    no_workspaces(daemon)


def test_an_ordinary_user_without_consent(make_daemon, tmp_path):
    daemon = make_daemon("user")
    daemon.stop()
    daemon.config.write_text("")
    daemon.start()
    error = daemon.post("/v1/sandboxes", {"persistent": True}).refused(422, "not_enforceable")
    assert "disk" in error["message"] and "root" in error["hint"]
    assert workspaces(daemon) == []
