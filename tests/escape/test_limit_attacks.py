"""Attacks on the limits: past the memory limit, past the end, past the death of cay."""

import os
import pathlib
import random
import time

import pytest

from attack import assert_refused, attack, tries, x86_64
from support import TIMEOUT


def _is_out_of_memory(done):
    assert done.json["status"] == "out_of_memory", done.json


@attack(21)
@pytest.mark.parametrize("code", [
    "while True: r, w = os.pipe(); os.set_blocking(w, False); os.write(w, bytes(65536)); keep.append((r, w))",
    "while True: f = os.memfd_create('x'); os.write(f, bytes(4 << 20))",
    "while True: m = mmap.mmap(-1, 4 << 20); m[0] = 1; keep.append(m)",
    "while True: a, b = socket.socketpair(); a.setblocking(False); fill(a); keep.append((a, b))",
    "f = open('/dev/shm/x', 'wb', 0)\nwhile True: f.write(bytes(1 << 20))",
], ids=["pipes", "memfd", "page tables", "unix sockets", "shm"])
def test_memory_of_every_kind_counts(cay, root, code):
    """Kernel memory that a program holds is its own: out_of_memory for the whole run."""
    _is_out_of_memory(cay.run("--json", "-m", "24m", "--timeout", "10", "-c", f"""
import mmap, os, socket
keep = []
def fill(s):
    try:
        while True: s.send(bytes(65536))
    except BlockingIOError: pass
{code}"""))


@attack(21)
def test_memory_of_network_buffers_counts(cay, root):
    """Loopback connections nobody reads from: bounded by the memory limit too."""
    out = cay.run("-m", "16m", "--timeout", "10", "-c", """
import socket
server, keep, total = socket.create_server(('127.0.0.1', 0)), [], 0
while total < 48 << 20 and len(keep) < 60:
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    c.connect(server.getsockname())
    keep.append((c, server.accept()))
    c.setblocking(False)
    try:
        while True: total += c.send(bytes(65536))
    except BlockingIOError: pass
print(total >> 20)""")
    assert out.rc != 0 or int(out.text) <= 32


@attack(20)
def test_nothing_outlives_the_end(island):
    """Sessions of their own, closed stdio, signals ignored, stopped: all gone when the program ends."""
    done = island.run("-c", """
import os, signal, time
for n in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)
            os.closerange(0, 3)
            if n % 2: os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)
        os._exit(0)
time.sleep(0.1)
print('end')""").ok()
    assert done.text == "end\n" and done.seconds < 3


@attack(25)
@pytest.mark.parametrize("code", [
    "os.kill(os.getpid(), signal.SIGSTOP)",
    "os.closerange(0, 3)\nwhile True: signal.pause()",
    "for s in set(range(1, 65)) - {9, 19, 32, 33}: signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
    "r, w = os.pipe(); os.read(r, 1)",
    "os.posix_spawn('/bin/sh', ['sh', '-c', 'f() { f | f & }; f'], {}); signal.pause()",
], ids=["stopped", "without stdio", "ignores all", "waits for itself", "fork bomb"])
def test_deadline(island, code):
    """Whatever it does, it ends on time, and the next run works."""
    done = island.run("--timeout", "500ms", "-c", f"import os, signal\n{code}")
    assert done.rc == TIMEOUT and done.seconds < 2, done
    assert island.run("--", "echo", "on").ok().text == "on\n"


def _with_mark(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if mark in line and int(pid) != os.getpid() and state not in "ZX":
            found.append(pid)
    return found


@attack(20)
def test_cay_is_killed_at_any_moment(island, cay):
    """kill -9 of cay, 50 times: nothing lives 100 ms longer; doctor --clean removes the rest."""
    mark = f"cay-mark-{os.getpid()}"
    chance = random.Random(7)
    for _ in range(50):
        p = island.start("run", "--", "sh", "-c", f"setsid sleep 60 & (trap '' TERM; sleep 60) & sleep 60; : {mark}")
        time.sleep(chance.random() ** 2 * 0.03)
        p.kill()
        p.communicate()
        end = time.monotonic() + 0.1
        while (left := _with_mark(mark.encode())) and time.monotonic() < end:
            pass
        assert not left, [pathlib.Path(f'/proc/{pid}/{name}').read_bytes() for pid in left
                          for name in ('cmdline', 'status') if os.path.exists(f'/proc/{pid}/{name}')]
    cay("doctor", "--clean").ok()


@attack(26)
@x86_64
def test_aio_contexts_of_the_host(island):
    """65536 AIO events are all that host and islands have together: none for islands."""
    assert_refused(tries(island, "attempt('io_setup', lambda: call(206, 1, ctypes.byref(ctypes.c_ulong())))"),
                   "EPERM", "ENOSYS")


@attack(26)
def test_inotify_instances_of_the_host(island):
    """An island that takes all it gets must leave some of its user's on the host."""
    most = int(pathlib.Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    got = int(island.run("-c", f"""
import ctypes
init = ctypes.CDLL(None).inotify_init
print(sum(init() >= 0 for _ in range({min(most, 500)})))""").ok().text)
    assert got <= most // 2


@attack(26)
def test_terminals_of_other_islands(island):
    """One island can't take all pseudo-terminals there are."""
    got = int(island.run("-c", """
import os
n = 0
try:
    while n < 300: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); n += 1
except OSError: pass
print(n)""").ok().text)
    assert got <= 256


@attack(24)
def test_cpu_time_of_a_tree(stranger):
    """Many short processes: the CPU time limit holds for all together, or is said to be degraded."""
    done = stranger.run("--allow-degraded", "--json", "--cpu-time", "1", "--timeout", "3", "--", "sh", "-c",
                        "while :; do timeout 0.3 sh -c 'while :; do :; done'; done")
    assert "CPU time" in done.json["message"] or "cpu_time" in done.json["isolation"]["degraded"]


HUGE_PAGES = """
attempt('mmap', lambda: call(9, 0, 2 << 20, 3, 0x40022, -1, 0))
attempt('mmap of 1 GiB pages', lambda: call(9, 0, 1 << 30, 3, 0x40022 | 30 << 26, -1, 0))
attempt('shmget', lambda: call(29, 0, 2 << 20, 0o5600))
"""


@attack(21)
@x86_64
def test_huge_pages_of_the_host(island):
    """They are of a pool of the whole machine, and count to no memory limit: none for islands."""
    assert_refused(tries(island, HUGE_PAGES), "ENOMEM")
    # As from a kernel that knows no such memfds. Chromium asks with all bits set, and aborts
    # unless it hears this.
    assert_refused(tries(island, """
for flags in (4, 5, 4 | 21 << 26, 0xffffffff):
    attempt(hex(flags), lambda: call(319, b'x', ctypes.c_uint(flags)))"""), "EINVAL")
    assert tries(island, "attempt('memfd', lambda: call(319, b'x', 1))") == {"memfd": "worked"}
