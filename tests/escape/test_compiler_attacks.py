"""Attacks by what a compiler was made to run: it is there while init still takes orders."""

import hashlib
import json
import pathlib

import pytest

from attack import PRELUDE, assert_refused, attack, told
from support import CAY, SLOWNESS


@pytest.fixture
def compiler(island, place, config):
    """Runs Python code as the compiler of a C program; returns the result."""
    bin_dir = place / "toolchain" / "bin"
    bin_dir.mkdir(parents=True)
    conf = config(f"[language c]\npath = {bin_dir.parent}\n")

    def run(code, *options, main="#!/bin/sh\necho program"):
        program = bin_dir / "gcc-20"
        program.write_text(f"#!/usr/bin/python3\n{PRELUDE}\n{code}\n"
                           f"open('/tmp/cay-build/main', 'w').write({main!r})\n"
                           "os.chmod('/tmp/cay-build/main', 0o755)\nprint(json.dumps(results))\n")
        program.chmod(0o755)
        return island.run("--json", *options, "-l", "c", "-c", "int main;", config=conf).json

    return run


def results_of(result):
    assert result["stdout"] == "program\n", result  # the control: it went on as it should
    return json.loads(result["compile"]["output"].splitlines()[-1])


@attack(1)
def test_the_waiting_process_is_shut(compiler):
    """Init waits for the compiler's end and the next order: it has the control socket, and its rights left."""
    results = results_of(compiler("""
for pid in (1,):
    for name in ('mem', 'environ', 'maps', 'auxv', 'stack', 'syscall', 'pagemap'):
        attempt(f'{pid} {name}', lambda: os.read(os.open(f'/proc/{pid}/{name}', os.O_RDONLY), 1))
    for name in ('root', 'cwd', 'exe', 'fd/0', 'fd/3', 'ns/mnt'):
        attempt(f'{pid} {name}', lambda: os.readlink(f'/proc/{pid}/{name}'))
    for name in ('mem', 'oom_score_adj', 'clear_refs'):
        attempt(f'{pid} write {name}',
                lambda: os.write(os.open(f'/proc/{pid}/{name}', os.O_WRONLY), b'0'))
    attempt(f'{pid} attach', lambda: call(101, 16, pid, 0, 0))
    attempt(f'{pid} seize', lambda: call(101, 0x4206, pid, 0, 0))
    pidfd = os.pidfd_open(pid)
    for fd in range(8):
        attempt(f'{pid} pidfd_getfd {fd}', lambda: call(438, pidfd, fd, 0))
assert os.getppid() == 1
"""))
    assert_refused(results, "EACCES", "EPERM")


@attack(2)
def test_no_socket_is_inherited(compiler):
    """A compiler has no fd but 0 to 2."""
    results = results_of(compiler("""
for fd in range(3, 64):
    attempt(str(fd), lambda: os.fstat(fd))
"""))
    assert_refused(results, "EBADF")


@attack(25)
@pytest.mark.parametrize("how", ["KILL", "TERM", "SEGV", "STOP", "CHLD"])
def test_the_waiting_process_minds_no_signal(compiler, how):
    """The compiler kills or stops the process that waits for it: nothing comes of it."""
    result = compiler(f"""
def signals():
    for _ in range(100): os.kill(os.getppid(), signal.SIG{how})
attempt('signals', signals)
child = os.fork()
if child == 0: time.sleep(60)
os.kill(child, signal.SIG{how} if '{how}' != 'CHLD' else signal.SIGKILL)  # the control
os.waitpid(child, os.WUNTRACED)
""")
    assert results_of(result)["signals"] in ("worked", "EPERM"), result
    assert result["status"] == "ok" and result["usage"]["wall_ms"] < 10000


@attack(25)
def test_a_compiler_that_never_ends_is_ended_by_time(compiler):
    """It can't stop init, but itself: the time limit holds."""
    result = compiler("os.kill(os.getpid(), signal.SIGSTOP)", "--timeout", "1s")
    assert result["status"] == "timeout" and result["stdout"] == ""


@attack(20)
def test_the_program_finds_room(compiler):
    """The compiler leaves as many processes as it may have: they are gone when the program needs one."""
    result = compiler("""
def forks():
    for _ in range(500):
        if os.fork() == 0:
            os.closerange(0, 3)  # nobody waits for the end of its pipes
            while True:  # its own place is taken as well, when it ends
                try: os.fork()
                except OSError: time.sleep(0.001)
attempt('forks', forks)
""", "-m", "400m")
    assert results_of(result) == {"forks": "EAGAIN"}


@attack(20)
def test_the_compilers_limits_are_the_runs(compiler):
    """Its processes, its memory and its files count as the program's do."""
    results = results_of(compiler("""
def forks():
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
attempt('forks', forks)
def writes():
    with open('/tmp/big', 'wb') as f:
        for _ in range(200): f.write(bytes(1 << 20))
attempt('writes', writes)
os.unlink('/tmp/big')
attempt('outside', lambda: open('/usr/x', 'w'))
attempt('network', lambda: socket.create_connection(('1.1.1.1', 53), 1))
""", "-m", "400m"))
    assert results == {"forks": "EAGAIN", "writes": "ENOSPC", "outside": "EROFS",
                       "network": "ENETUNREACH"}


@attack(20)
def test_nothing_of_the_compilers_lives_on(compiler):
    """A process that the compiler left running would be there when cay's own process execs the program."""
    result = compiler("""
for n in range(5):
    if os.fork() == 0:
        os.setsid()
        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)
        if n == 0: os.kill(os.getpid(), signal.SIGSTOP)
        while True: time.sleep(1)
""", main="#!/bin/sh\nsleep 0.1\necho $$ /proc/[0-9]*")
    own, *there = result["stdout"].split()
    assert there == ["/proc/1", f"/proc/{own}"], result
    assert result["compile"]["wall_ms"] < 2000 * SLOWNESS  # nor did anybody wait for its pipes
    told("killed")


@attack(1)
def test_own_binary_as_the_interpreter(island, place):
    """CVE-2019-5736: a program "#!/proc/self/exe", which is cay when it execs."""
    before = hashlib.sha256(pathlib.Path(CAY).read_bytes()).digest()
    for interpreter, ran in (("/proc/self/exe", None), ("/usr/bin/env echo", "./script\n")):
        (place / "script").write_text(f"#!{interpreter}\n")
        (place / "script").chmod(0o755)
        done = island.run("--workspace", ".", "--", "./script")
        if ran:
            assert done.ok().text == ran
        else:
            assert done.rc == 126 and "Permission denied" in done.errors
    assert hashlib.sha256(pathlib.Path(CAY).read_bytes()).digest() == before
    told("EACCES")
