"""`cay run --engine docker|podman`: what it promises, and what of it the engine itself says."""

import json
import pathlib
import signal
import subprocess
import time

import pytest

from debian import python_root
from support import CANNOT_EXECUTE, NOT_FOUND, MIB, OURS, wait_until

IMAGE = "localhost/cay-test:python"


@pytest.fixture(scope="session")
def with_python(request):
    """Engines that have the image already, by name."""
    have = set()

    def bring(engine):
        if engine.name not in have and not engine.call("images", "-q", IMAGE):
            engine.bring(IMAGE, python_root().read_bytes())
            have.add(engine.name)
        return engine
    return bring


@pytest.fixture
def run(cay, engine, with_python):
    """cay run there; nothing may be left."""
    with_python(engine)
    cay.env.update(engine.environment)

    def call(*words, image=IMAGE, **more):
        return cay.run("--engine", engine.name, "--image", image, *words, **more)
    call.cay, call.engine = cay, engine
    yield call
    assert engine.containers("label=cay") == []
    engine.settle()


def result(done):
    return json.loads(done.out)


def test_result(run):
    r = result(run("--json", "-c", "import os; print(os.getuid(), os.getcwd(), os.environ['HOME'])"))
    assert r["stdout"] == "1000 /workspace /workspace\n" and r["status"] == "ok"
    assert (r["engine"], r["image"], r["sandboxed"]) == (run.engine.name, IMAGE, True)
    held = r["isolation"]
    assert held["memory"].startswith("cgroup") and held["pids"].startswith("cgroup")
    assert (held["disk"], held["seccomp"], held["network"]) == ("tmpfs", "allowlist", "none")
    assert held["no_new_privs"] and held["read_only_root"] and held["capabilities"] == "none"
    assert held["degraded"] == [] and {"pid", "mount", "net", "ipc", "uts"} <= set(held["namespaces"])


def test_streams_and_codes(run):
    done = run("-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.rc, done.out) == (3, b"out\n") and b"err\n" in done.err
    assert run("--", "cat", input="typed").ok().text == "typed"
    assert run("--", "no-such-program").rc == NOT_FOUND
    assert run("--", "/etc/passwd").rc == CANNOT_EXECUTE
    assert run("-c", "import os; os.kill(os.getpid(), 11)").rc == 128 + 11
    assert len(run("--", "head", "-c", "9000000", "/dev/zero").ok().out) == 9_000_000


def test_ends_for_a_reason(run):
    r = result(run("--json", "--timeout", "1", "-c", "import os, time\nos.system('sleep 1000 &')\n"
                   "print('part', flush=True)\ntime.sleep(1000)"))
    assert (r["status"], r["stdout"]) == ("timeout", "part\n")
    assert result(run("--json", "-m", "64m", "-c", f"x = bytearray({200 * MIB})"))["status"] == "out_of_memory"
    assert result(run("--json", "--cpu-time", "1", "-c", "while True: pass"))["status"] == "timeout"
    r = result(run("--json", "--output-limit", "1k", "--", "head", "-c", "100000", "/dev/zero"))
    assert r["stdout_truncated"] and r["status"] == "ok"
    r = result(run("--json", "-c", "import os\nos.kill(os.getpid(), 9)"))
    assert (r["status"], r["signal"]) == ("signal", 9)


def test_limits(run):
    code = ("import subprocess\nfor n in range(30):\n try: subprocess.Popen(['sleep', '9'])\n"
            " except OSError: print(n < 12); break")
    assert run("--pids-limit", "12", "-c", code).ok().text == "True\n"
    code = """
import os
def fill(path):
    fd, n = os.open(path, os.O_CREAT | os.O_WRONLY), 0
    try:
        while True: n += os.write(fd, bytes(65536))
    except OSError as e: return e.errno, n
got = [fill(f'{p}/f') for p in ('/workspace', '/tmp', '/dev/shm')]
print({e for e, _ in got}, 12 << 20 < sum(n for _, n in got) <= 16 << 20)
"""
    assert run("--disk", "16m", "-c", code).ok().text == "{28} True\n"


def test_what_is_denied(run):
    code = """
import os, signal, socket
def tried(what):
    try: what()
    except OSError as e: return e.errno
    return 0
print(tried(lambda: open('/x', 'w')), tried(lambda: os.kill(1, signal.SIGKILL)), end=' ')
print(tried(lambda: os.listdir('/proc/1/fd')), tried(lambda: open('/proc/1/mem')), end=' ')
names = 'CapPrm', 'CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp:'
print([n for _, n in socket.if_nameindex()],
      {int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith(names[:3])},
      [line.split()[1] for line in open('/proc/self/status') if line.startswith(names[3:])])
"""
    assert run("-c", code).ok().text == "30 1 13 13 ['lo'] {0} ['1', '2']\n"


def test_as_the_engine_has_it(run):
    """Read back by the engine's own client, while it runs."""
    with run.cay.start("run", "--engine", run.engine.name, "--image", IMAGE, "-m", "64m", "--cpus", "0.5",
                       "--pids-limit", "20", "--", "sleep", "60") as program:
        wait_until(lambda: run.engine.containers("label=cay", "status=running"), 30, "the container")
        [there] = run.engine.containers("label=cay")
        it = run.engine.inspect(there)
        host = it["HostConfig"]
        assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"]) == ("none", True, False)
        assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (64 * MIB, 64 * MIB, 21)
        assert host["NanoCpus"] == 500_000_000 or host["CpuQuota"] * 2 == host["CpuPeriod"]
        assert it["Config"]["User"] == "1000:1000" and not host["PortBindings"]
        assert not it.get("EffectiveCaps") and not host["CapAdd"] and host["CapDrop"]
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 128 + signal.SIGINT


def test_files(run, place):
    (place / "in").mkdir()
    (place / "in" / "a.txt").write_text("a")
    (place / "b.txt").write_text("b")
    code = ("import os\nos.mkdir('out')\nos.symlink('/etc/passwd', 'out/link.txt')\n"
            "open('out/c.txt', 'w').write(open('in/a.txt').read() + open('b.txt').read())")
    (place / "main.py").write_text(code)
    run("--put", "in", "--put", "b.txt", "--get", "out/*.txt", "main.py").ok()
    assert (place / "out" / "c.txt").read_text() == "ab" and not (place / "out" / "link.txt").exists()


def test_compiled_in_steps(run, place):
    """What an image lacks is told as it is: there is no compiler in this one."""
    (place / "main.go").write_text("package main\nfunc main() {}\n")
    done = run("main.go")
    assert done.rc == NOT_FOUND and "go" in done.errors


def test_mounts(run, place):
    (place / "ro").mkdir()
    (place / "ro" / "f").write_text("here")
    (place / "rw").mkdir(mode=0o777)
    (place / "rw").chmod(0o777)
    conf = place / "cay.conf"
    conf.write_text(f"[mounts]\nread = {place}\nwrite = {place}/rw\n")
    conf.chmod(0o644)
    code = ("open('/rw/new', 'w').write(open('/ro/f').read())\n"
            "try: open('/ro/f', 'w')\nexcept OSError as e: print(e.errno)")
    done = run("-v", f"{place}/ro:/ro", "-v", f"{place}/rw:/rw:rw", "-c", code, config=conf)
    assert done.ok().text == "30\n" and (place / "rw" / "new").read_text() == "here"
    done = run("-v", "/etc/shadow:/s", "-c", "1", config=conf)
    assert done.rc == OURS and "forbidden" in done.errors


def test_mounts_that_can_not_be_had(run, place):
    conf = place / "cay.conf"
    conf.write_text(f"[mounts]\nread = {place}\n")
    conf.chmod(0o644)
    (place / "d").mkdir()
    (place / "a,b").mkdir()
    for words, code in (
            ((f"{place}/d:/ro", "--user", "root"), "not_enforceable"),  # it would be root over the directory
            ((f"{place}/cay.conf:/ro",), "invalid_request"),  # a file
            (("/proc/self/cwd/d:/ro",), "policy_denied"),
            ((f"{place}/a,b:/ro",), "unsupported"),  # Podman would read options in these
            ((f"{place}/d:/ro,source={place},U=true",), "unsupported")):
        done = run("--json", "-v", *words, "-c", "print(1)", config=conf)
        assert done.rc == OURS and result(done)["error"]["code"] == code, (words, done)
    assert run("--user", "root", "-c", "import os; print(os.getuid())", config=conf).ok().text == "0\n"


def test_another_name_of_a_forbidden_directory(run, place):
    """A bind mount shows it where reading is allowed: it is what it is."""
    (place / "shown").mkdir()
    conf = place / "cay.conf"
    conf.write_text(f"[mounts]\nread = {place}/shown\n")
    conf.chmod(0o644)
    subprocess.run(["mount", "--bind", "/etc", place / "shown"], check=True)
    try:
        done = run("--json", "-v", f"{place}/shown:/ro", "-c", "print(1)", config=conf)
    finally:
        subprocess.run(["umount", place / "shown"], check=True)
    assert done.rc == OURS and result(done)["error"]["code"] == "policy_denied"


def test_another_registrys_image(run, config):
    """What is allowed is what is run: not an image whose name only ends like it."""
    conf = config("[images]\npull = never\nallow = other:*\nallow = local:*\n")
    names = "example.org/other:1", "example.org/docker.io/library/other:1", "local:1"
    for name in names:
        run.engine.call("tag", IMAGE, name)
    try:
        done = run("--json", "-c", "1", image="other:1", config=conf)
        assert done.rc == OURS and result(done)["error"]["code"] == "image_not_found"
        assert run("-c", "print(1)", image="local:1", config=conf).ok().text == "1\n"
    finally:
        run.engine.call("rmi", *names)


def test_no_engine(cay, place):
    for engine, variable in (("docker", "DOCKER_HOST"), ("podman", "CONTAINER_HOST")):
        done = cay.run("--engine", engine, "--json", "-c", "1", env={variable: f"unix://{place}/nobody"})
        assert done.rc == OURS and json.loads(done.out)["error"]["code"] == "engine_unavailable"


def test_no_image(run, config):
    done = run("--json", "-c", "1", image="localhost/no-such:1", config=config("[images]\npull = never\n"))
    assert done.rc == OURS and result(done)["error"]["code"] == "image_not_found"


def test_killed(run):
    """Whatever dies: nothing of the program lives on, and nothing is left but what is stopped."""
    before = time.monotonic()
    with run.cay.start("run", "--engine", run.engine.name, "--image", IMAGE, "--", "sleep", "4242") as program:
        wait_until(lambda: run.engine.containers("label=cay", "status=running"), 30, "the container")
        program.kill()
    wait_until(lambda: not run.engine.containers("label=cay"), 30, "the end of the container")
    assert time.monotonic() - before < 600
    assert not any(b"\0004242\0" in p.read_bytes() for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if p.exists())
