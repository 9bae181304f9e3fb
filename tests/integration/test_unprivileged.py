"""An ordinary user without a delegated cgroup: refused by name, or degraded and honest about it."""

import json
import os
import pathlib

import pytest

from support import OURS, STRANGER, must_work


@pytest.fixture
def user(stranger):
    done = stranger.run("--json", "--", "true")
    if done.rc == 0:
        must_work("this user has a delegated cgroup: nothing is degraded here")
    if "namespaces" in done.errors:
        must_work(f"no user namespaces for ordinary users here: {done.errors}")
    return stranger


@pytest.fixture
def degraded(user):
    """Every run of it allows degraded."""
    run = user.run
    user.run = lambda *args, **more: run("--allow-degraded", *args, **more)
    return user


def test_refused_by_name(user):
    error = user.refused("-c", "print('ran')")
    assert error["code"] == "not_enforceable"
    assert "memory" in error["message"] and "512 MiB" in error["message"]
    assert "--allow-degraded" in error["hint"] and "doctor" in error["hint"]


def test_refused_runs_nothing(user):
    done = user.run("--", "echo", "ran")
    assert done.rc == OURS and done.out == b"" and len(done.said) == 1


def test_degraded_runs_and_says_what_is_lost(degraded):
    done = degraded.run("--json", "-c", "print(42)").ok()
    isolation = done.json["isolation"]
    assert done.json["stdout"] == "42\n"
    assert isolation["degraded"] == ["memory", "cpus"]
    assert isolation["memory"] == "none" and isolation["cpu"] == "none"
    assert isolation["pids"] == "rlimit"
    assert done.said == ["cay: degraded: the limit memory was not enforced",
                         "cay: degraded: the limit cpus was not enforced"]


def test_the_rest_of_isolation_is_the_same(degraded, cay):
    ours = cay.run("--json", "--", "true").json["isolation"]
    theirs = degraded.run("--json", "--", "true").json["isolation"]
    for key in set(ours) - {"memory", "cpu", "pids", "degraded"}:
        assert ours[key] == theirs[key], key


def test_processes_are_really_limited(degraded):
    code = ("import os, time\nn = 0\ntry:\n  while n < 500:\n    if os.fork() == 0: time.sleep(30); os._exit(0)\n"
            "    n += 1\nexcept OSError as e: print(n, e.errno)")
    for limit in (10, 50):
        words = degraded.python(code, "--pids-limit", limit).split()
        assert words[1] == "11" and limit - 3 <= int(words[0]) <= limit


def test_processes_limit_does_not_count_other_islands(degraded):
    p = degraded.start("run", "--allow-degraded", "--pids-limit", "20", "-c",
                       "import os, time\nfor _ in range(15):\n  if os.fork() == 0: time.sleep(30)\n"
                       "print('up', flush=True); time.sleep(30)")
    assert p.stdout.readline() == b"up\n"
    try:
        degraded.python("import os\nfor _ in range(15):\n  if os.fork() == 0: os._exit(0)",
                        "--pids-limit", "20")
    finally:
        p.terminate()
        p.communicate(timeout=5)


def test_inside_is_as_for_root(degraded):
    done = degraded.run("--", "sh", "-c", "id -u; id -un; hostname; pwd; ls -A").ok()
    assert done.text.split() == ["1000", "cay", "cay", "/workspace"]
    text = degraded.python("print(open('/proc/self/status').read())")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert all(int(status[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and status["Pid"] == "2"


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/etc/x", "/dev/x", "/run/x"])
def test_root_is_read_only(degraded, path):
    done = degraded.run("-c", f"open('{path}', 'w')")
    assert done.rc == 1 and ("Read-only" in done.errors or "Permission denied" in done.errors)


@pytest.mark.parametrize("path", ["/workspace/x", "/tmp/x", "/dev/shm/x"])
def test_writable_places(degraded, path):
    degraded.python(f"open('{path}', 'w').write('x')")


def test_no_network_and_no_processes_of_others(degraded):
    code = ("import errno, os, socket\ntry: socket.create_connection(('1.1.1.1', 80), 3)\n"
            "except OSError as e: print(errno.errorcode[e.errno])\n"
            "print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))")
    assert degraded.python(code) == "ENETUNREACH\n[1, 2]\n"


def test_init_can_not_be_looked_into(degraded):
    code = ("import os\nfor f in (lambda: os.readlink('/proc/1/exe'), lambda: os.listdir('/proc/1/fd'),\n"
            "          lambda: open('/proc/1/mem', 'r+b')):\n"
            "  try: f(); print('worked')\n  except OSError: print('refused')")
    assert degraded.python(code).split() == ["refused"] * 3


def test_unshare_is_refused(degraded):
    code = ("import ctypes; l = ctypes.CDLL(None, use_errno=True)\n"
            "print(l.unshare(0x10000000), ctypes.get_errno())")
    assert degraded.python(code) == "-1 1\n"


def test_disk_limit_and_timeout_hold(degraded):
    code = ("try: open('x', 'wb').write(b'x' * (20 << 20))\nexcept OSError as e: print(e.errno)")
    assert degraded.python(code, "--disk", "10m") == "28\n"
    assert degraded.run("--timeout", "0.3", "--", "sleep", "60").rc == 124


def test_cpu_time_holds_for_one_process(degraded):
    """Without a cgroup there is the kernel's own limit of one process, in whole seconds."""
    done = degraded.run("--json", "--cpu-time", "1", "--timeout", "30", "-c", "while True: pass")
    assert done.rc == 124 and done.json["status"] == "timeout"
    assert done.json["message"] == "CPU time limit of 1 s reached"


def test_timeout_kills_everything(degraded):
    done = degraded.run("--timeout", "0.5", "-c", """
import os, time
for _ in range(10):
    if os.fork() == 0:
        os.setsid()
        while True: time.sleep(1)
time.sleep(60)""")
    assert done.rc == 124 and done.seconds < 3


def test_cancel(degraded):
    p = degraded.start("run", "--allow-degraded", "--", "sh", "-c", "echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    p.terminate()
    p.communicate(timeout=5)
    assert p.returncode == 143


def test_script_put_and_get(degraded, place):
    (place / "x.py").write_text("open('out', 'w').write(open('in').read().upper())")
    (place / "in").write_text("hello")
    degraded.run("--put", "in", "--get", "out", "x.py").ok()
    assert (place / "out").read_text() == "HELLO"
    assert (place / "out").stat().st_uid == STRANGER


def test_workspace(degraded, place):
    (place / "f").write_text("x")
    os.chown(place / "f", STRANGER, STRANGER)
    code = ("import os; print(open('f').read(), os.stat('f').st_uid)\n"
            "try: open('g', 'w')\nexcept OSError as e: print(e.strerror)")
    assert degraded.python(code, "--workspace", ".") == "x 1000\nRead-only file system\n"


def test_writable_workspace_by_own_settings(degraded, place):
    (place / "w").mkdir()
    os.chown(place / "w", STRANGER, STRANGER)
    conf = place / "own.conf"
    conf.write_text(f"[mounts]\nwrite = {place}/w\n")
    degraded.python("open('new', 'w').write('x')", "--workspace", f"{place}/w:rw", config=conf)
    assert (place / "w" / "new").stat().st_uid == STRANGER


def test_forbidden_stays_forbidden(degraded, place):
    conf = place / "own.conf"
    conf.write_text("[mounts]\nread = /\nwrite = /\n")
    for path in ("/etc", "/proc", "/", "/dev"):
        assert degraded.refused("-v", f"{path}:/data", "--", "true", config=conf)["code"] == "policy_denied"


def test_what_the_caller_can_not_read_stays_so(degraded, place, scratch):
    (scratch / "home" / "secret.py").write_text("print('secret')")
    (scratch / "home" / "secret.py").chmod(0o600)
    done = degraded.run(scratch / "home" / "secret.py")
    assert done.rc == OURS and "Permission denied" in done.errors


def test_settings_can_allow_degraded(user, place):
    conf = place / "own.conf"
    conf.write_text("[isolation]\nallow_degraded = yes\n")
    assert user.run("-c", "print(1)", config=conf).ok().text == "1\n"


def test_no_cache_where_there_is_no_home(degraded):
    degraded.run("-c", "1", env={"HOME": "/nonexistent"}).ok()


def test_doctor_is_not_content(user):
    done = user("doctor")
    assert done.rc != 0 and "memory" in done.text


@pytest.fixture
def delegated(stranger):
    """The user's own directory in each v1 hierarchy, with a shell in it that runs what it is given."""
    if os.geteuid() != 0 or not pathlib.Path("/sys/fs/cgroup/memory").is_dir():
        must_work("needs root and cgroup v1; for v2 there is tests/vm/inside/cgroup2.py")
    dirs = [pathlib.Path("/sys/fs/cgroup") / name / f"delegated-{os.getpid()}"
            for name in ("memory", "pids", "cpu", "unified")]
    for path in dirs:
        path.mkdir()
        for entry in (path, *path.iterdir()):
            os.chown(entry, STRANGER, STRANGER)
    start = stranger.start

    def start_inside(*args, preexec_fn=None, **more):
        def enter():
            for path in dirs:
                (path / "cgroup.procs").write_text("0")
            if preexec_fn:
                preexec_fn()
        return start(*args, preexec_fn=enter, **more)

    stranger.start = start_inside
    yield stranger
    for path in dirs:
        path.rmdir()


def test_delegated_cgroup_is_used(delegated):
    p = delegated.start("run", "--json", "-m", "64m", "-c", "print(42)")
    out, err = p.communicate()
    isolation = json.loads(out)["isolation"]
    assert (isolation["memory"], isolation["cpu"], isolation["pids"]) == ("cgroup1",) * 3
    assert isolation["degraded"] == [] and err == b""


def test_delegated_memory_limit_holds(delegated):
    p = delegated.start("run", "--json", "-m", "64m", "-c", "x = bytearray(300 << 20)")
    assert json.loads(p.communicate()[0])["status"] == "out_of_memory"
