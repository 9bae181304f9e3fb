"""Attacks on PID 1 of the island: it is our own program, and was once the host's process."""

import fcntl
import hashlib
import os
import pathlib

import pytest

from attack import assert_refused, attack, compile_c, told, tries
from support import CAY, OURS


@attack(1)
def test_own_binary_can_not_be_reached(island):
    """CVE-2019-5736: /proc/1/exe is shut, read or write, and the binary stays as it is."""
    before = hashlib.sha256(pathlib.Path(CAY).read_bytes()).digest()
    assert_refused(tries(island, """
for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
    attempt(f'exe {mode}', lambda: os.open('/proc/1/exe', mode))
attempt('exec', lambda: os.execv('/proc/1/exe', ['cay']))
attempt('chmod', lambda: os.chmod('/proc/1/exe', 0o777))
attempt('truncate', lambda: os.truncate('/proc/1/exe', 0))
attempt('times', lambda: os.utime('/proc/1/exe'))
attempt('link', lambda: os.link('/proc/1/exe', '/tmp/cay', follow_symlinks=True))
attempt('map_files', lambda: os.listdir('/proc/1/map_files'))
"""), "EACCES", "EPERM", "EXDEV")
    # The control: one's own is open, to read.
    assert tries(island, "attempt('own', lambda: os.open('/proc/self/exe', os.O_RDONLY))") == {"own": "worked"}
    assert hashlib.sha256(pathlib.Path(CAY).read_bytes()).digest() == before


@attack(13)
def test_init_is_shut(island):
    """Memory, fds, root, environment, namespaces, tracing of PID 1: all refused."""
    assert_refused(tries(island, """
for name in ('mem', 'environ', 'maps', 'auxv', 'stack', 'syscall', 'pagemap'):
    attempt(name, lambda: os.read(os.open(f'/proc/1/{name}', os.O_RDONLY), 1))
for name in ('root', 'cwd', 'fd/0', 'fd/3', 'ns/mnt', 'ns/user'):
    attempt(name, lambda: os.readlink(f'/proc/1/{name}'))
for name in ('mem', 'oom_score_adj', 'uid_map', 'gid_map', 'setgroups', 'clear_refs'):
    attempt('write ' + name, lambda: os.write(os.open(f'/proc/1/{name}', os.O_WRONLY), b'0'))
attempt('attach', lambda: call(101, 16, 1, 0, 0))
attempt('seize', lambda: call(101, 0x4206, 1, 0, 0))
pidfd = os.pidfd_open(1)
for fd in range(8):
    attempt(f'pidfd_getfd {fd}', lambda: call(438, pidfd, fd, 0))
"""), "EACCES", "EPERM")


EARLY = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
    char link[99];
    int got = 0;

    for (int i = 0; i < 1000; i++) {
        int init = (int)syscall(SYS_pidfd_open, 1, 0);

        got |= (open("/proc/1/exe", O_RDONLY) >= 0) << 0;
        got |= (open("/proc/1/mem", O_RDWR) >= 0) << 1;
        got |= (readlink("/proc/1/root", link, sizeof(link)) >= 0) << 2;
        got |= (readlink("/proc/1/fd/0", link, sizeof(link)) >= 0) << 3;
        got |= (ptrace(PTRACE_SEIZE, 1, 0, 0) == 0) << 4;
        for (int fd = 0; fd < 16; fd++)
            got |= (syscall(438, init, fd, 0) >= 0) << 5;
        close(init);
    }
    printf("%d\n", got);
    return 0;
}
"""


@attack(1)
def test_init_is_shut_from_the_first_moment(island, place):
    """The program execs before init has dropped its privileges: not a moment to look into it."""
    compile_c(place, "early", EARLY)
    for _ in range(10):
        assert island.run("--workspace", ".", "--", "./early").ok().text == "0\n"


@attack(20)
def test_init_outlives_signals(island):
    """Every signal there is, at PID 1 and at everybody: the run goes on."""
    assert island.run("-c", """
import os, signal
for s in range(1, 65):
    try: os.kill(1, s)
    except OSError: pass
for s in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
try: os.kill(-1, signal.SIGTERM)
except OSError: pass
print('alive')""").ok().text == "alive\n"


@attack(2)
def test_command_line_of_the_host_is_not_seen(island, place):
    """/proc/1/cmdline must not tell how cay was called: host paths, destinations."""
    (place / "secret-name").write_text("x")
    out = island.run("--put", f"{place}/secret-name:x", "--", "cat", "/proc/1/cmdline").ok().out
    assert b"secret-name" not in out


@attack(25)
def test_traced_by_init(island):
    """PTRACE_TRACEME makes init the tracer: a stop is not an exit."""
    done = island.run("--json", "--timeout", "1", "-c", """
import ctypes, os
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), 19)""")
    assert done.json["status"] != "failed" and done.json["exit_code"] is None


@attack(2)
def test_only_standard_fds_and_no_environment(island):
    """Fds and variables of the caller stay with the caller."""
    fd = os.open("/etc/shadow" if os.geteuid() == 0 else "/etc/passwd", os.O_RDONLY)
    try:
        out = island.run("--", "sh", "-c", "ls /proc/self/fd; env", env={"CAY_SECRET": "hidden"},
                         pass_fds=[fd]).ok().text
    finally:
        os.close(fd)
    assert out.split()[:4] == ["0", "1", "2", "3"] and "hidden" not in out  # 3 is ls's own
    assert {line.split("=")[0] for line in out.splitlines()[4:]} <= {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "PWD",
        "GOMEMLIMIT"}


WAYS_OUT = ["/proc/self/fd/{fd}", "/proc/thread-self/fd/{fd}", "/dev/fd/{fd}", "/proc/1/cwd", "/proc/1/root",
            "/proc/1/fd/3", "/proc/2/fd/{fd}", "/proc/self/fd/{fd}/..", "/proc/self/fd/0"]


@attack(2)
@pytest.mark.parametrize("linked", [False, True], ids=["named", "linked"])
def test_working_directory(island, place, linked):
    """CVE-2024-21626: a working directory that is an fd of cay's or of its caller's, named or by a link."""
    host = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    fd = fcntl.fcntl(host, fcntl.F_DUPFD, 60)
    os.close(host)
    for n, way in enumerate(way.format(fd=fd) for way in WAYS_OUT):
        (place / f"way{n}").symlink_to(way)
        done = island.run("--workspace", ".", "-w", f"/workspace/way{n}" if linked else way, "--", "ls", pass_fds=[fd])
        assert done.rc == OURS and done.out == b"" and "working directory" in done.errors, done
        told("refused")
    os.close(fd)


@attack(2)
def test_working_directory_past_the_root(island, place):
    """A link to ../../.. or to /proc/self/root leads to the island's own root; the control: it is taken."""
    for target in ("../../../..", "/proc/self/root", "/"):
        (place / "way").unlink(missing_ok=True)
        (place / "way").symlink_to(target)
        names = island.run("--workspace", ".", "-w", "/workspace/way", "--", "ls", "/proc/self/cwd/").ok().text.split()
        assert "workspace" in names and "root" not in names
        told("the island's own root")
