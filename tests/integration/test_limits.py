"""Limits: each one holds, is seen by the program, and refuses nonsense."""

import os

import pytest

from support import MIB, OURS


# Memory

def test_memory_up_to_the_limit_is_usable(cay):
    cay.python("x = bytearray(b'x') * (80 << 20)", "-m", "100m")


def test_memory_past_the_limit_is_not(cay):
    assert cay.run("-m", "100m", "-c", "x = bytearray(b'x') * (110 << 20)").rc == 137


def test_default_memory_is_512_mib(cay):
    done = cay.run("--json", "-c", "x = bytearray(b'x') * (520 << 20)")
    assert done.json["message"] == "memory limit of 512 MiB reached"
    cay.python("x = bytearray(b'x') * (450 << 20)")


def test_memory_counts_all_processes_together(cay):
    code = ("import os, sys, time\nif os.fork() == 0:\n  x = bytearray(b'x') * (60 << 20)\n"
            "  time.sleep(5)\n  os._exit(0)\nx = bytearray(b'x') * (60 << 20)\nos.wait()")
    assert cay.run("-m", "100m", "-c", code).rc == 137


def test_memory_too_small_to_start(cay):
    error = cay.refused("-m", "1m", "--", "true")
    assert "4 MiB" in error["message"]


def test_small_memory_is_enough_for_small_programs(cay):
    cay.run("-m", "8m", "--", "true").ok()


# Processes

FORKS = """
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        n += 1
except OSError as e:
    print(n, e.errno == 11)
"""


@pytest.mark.parametrize("limit", [2, 10, 50, 200])
def test_processes(cay, limit):
    words = cay.python(FORKS, "--pids-limit", limit, "--cpus", "2").split()
    # The program itself is one of them.
    assert words[1] == "True" and limit - 2 <= int(words[0]) <= limit


def test_default_process_limit_is_50(cay):
    assert 48 <= int(cay.python(FORKS).split()[0]) <= 50


def test_threads_count(cay):
    code = ("import threading, time\nn = 0\ntry:\n"
            "  while n < 1000:\n    t = threading.Thread(target=time.sleep, args=(30,), daemon=True)\n"
            "    t.start(); n += 1\nexcept RuntimeError: print(n, flush=True); import os; os._exit(0)")
    assert 18 <= int(cay.python(code, "--pids-limit", "20")) <= 20


def test_fork_bomb_is_contained(cay):
    # Three at once: limits are each island's own.
    bombs = [cay.start("run", "--timeout", "1.5", "--pids-limit", "50", "--", "sh", "-c",
                       "bomb() { bomb | bomb & }; bomb; sleep 30") for _ in range(3)]
    done = cay.run("-c", "print('well')").ok()
    assert done.text == "well\n" and done.seconds < 5
    for p in bombs:
        p.communicate(timeout=15)
        assert p.returncode in (124, 2)


def test_processes_limit_is_not_shared_between_runs(cay):
    p = cay.start("run", "--pids-limit", "10", "-c", FORKS.replace("print", "print('up', flush=True); time.sleep(30); print"))
    assert p.stdout.readline() == b"up\n"
    assert int(cay.python(FORKS, "--pids-limit", "10").split()[0]) >= 8
    p.terminate()
    p.communicate(timeout=5)


# Disk

FILL = """
import errno
try:
    with open('{path}', 'wb') as f:
        for n in range(10000):
            f.write(b'x' * 65536); f.flush()
except OSError as e:
    print(n * 65536, e.errno == errno.ENOSPC)
"""


@pytest.mark.parametrize("path", ["/tmp/x", "/workspace/x", "/dev/shm/x"])
def test_disk(cay, path):
    words = cay.python(FILL.format(path=path), "--disk", "10m").split()
    assert words[1] == "True" and 9 * MIB <= int(words[0]) <= 10 * MIB


def test_disk_is_one_for_all(cay):
    code = "open('/dev/shm/y', 'wb').write(b'x' * (6 << 20))" + FILL.format(path="/tmp/x")
    assert int(cay.python(code, "--disk", "10m").split()[0]) <= 4 * MIB


def test_default_disk_is_100_mib(cay):
    assert cay.inside("(lambda s: s.f_blocks * s.f_frsize)(os.statvfs('/workspace'))") == 100 * MIB


def test_inodes(cay):
    code = ("import errno\ntry:\n  for n in range(100000): open(f'{n}', 'w').close()\n"
            "except OSError as e: print(n, e.errno == errno.ENOSPC)")
    words = cay.python(code, "--disk", "8m").split()
    assert words[1] == "True" and 1000 <= int(words[0]) <= 2048


# Open files, file size

def test_open_files(cay, config):
    code = "import os\ntry:\n  while True: n = os.open('/dev/null', 0)\nexcept OSError as e: print(n, e.errno)"
    assert cay.python(code) == "1023 24\n"
    assert cay.python(code, config=config("[limits]\nopen_files = 100\n")) == "99 24\n"


def test_open_files_can_not_be_raised(cay):
    code = ("import resource\ntry: resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))\n"
            "except (ValueError, OSError): print('refused')")
    assert cay.python(code) == "refused\n"


def test_file_size(cay, config):
    code = ("import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "try: open('x', 'wb').write(b'x' * (3 << 20))\nexcept OSError as e: print(e.errno)")
    assert cay.python(code) == ""
    assert cay.python(code, config=config("[limits]\nfile_size = 1m\n")) == "27\n"


def test_no_core_dumps(cay):
    """1, not 0: only then does the kernel start no core handler either."""
    assert cay.inside("resource.getrlimit(resource.RLIMIT_CORE)", modules="resource") == [1, 1]


# CPUs

def test_cpus_in_sight(cay):
    have = len(os.sched_getaffinity(0))
    for asked, seen in (("0.5", 1), ("1", 1), ("1.5", min(2, have)), ("2", min(2, have)),
                        ("1000", have)):
        assert cay.inside("len(os.sched_getaffinity(0))", "--cpus", asked) == seen
    assert cay.run("--", "nproc").ok().text == "1\n"


def test_cpus_hold(cay):
    """Half a CPU: half a second of work takes a second or so."""
    code = ("import time\nbegan = time.monotonic()\n"
            "while time.process_time() < 0.5: pass\nprint(time.monotonic() - began)")
    assert 0.8 <= float(cay.python(code, "--cpus", "0.5")) < 3


def test_cpus_hold_for_many(cay):
    code = ("import os, time\nfor _ in range(3): os.fork()\n"
            "end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
            "try:\n  while True: os.wait()\nexcept ChildProcessError: pass")
    usage = cay.run("--json", "--cpus", "0.5", "-c", code).ok().json["usage"]
    assert 300 <= usage["cpu_ms"] <= 0.75 * usage["wall_ms"]


# Values

GOOD = [("--memory", "65536k"), ("-m", "64M"), ("-m", "67108864"), ("-m", "0.5g"), ("-m", "64MiB"),
        ("--cpus", "1"), ("--cpus", "0.25"), ("--pids-limit", "10"),
        ("--disk", "1m"), ("--timeout", "5"), ("--timeout", "5s"), ("--timeout", "5000ms"),
        ("--timeout", "1m"), ("--timeout", "1h"), ("--timeout", "2.5"), ("--cpu-time", "2s"),
        ("--output-limit", "1k")]


@pytest.mark.parametrize("option, value", GOOD)
def test_value_is_understood(cay, option, value):
    cay.run(option, value, "--", "true").ok()
    cay.run(f"--{dict(m='memory').get(option[1:], option[2:])}={value}", "--", "true").ok()


EXPECTED = {
    "--memory": "a size such as 512m", "--disk": "a size such as 512m",
    "--output-limit": "a size such as 512m", "--cpus": "a number such as 0.5",
    "--pids-limit": "a whole number", "--timeout": "seconds", "--cpu-time": "seconds",
}
BAD = ["", "x", "-1", "0", "1x", "1 2", "0x10", "1e9999", "nan", "inf", "99999999999999999999999",
       "1m1", "½", "1\n", " 1"]


@pytest.mark.parametrize("option", EXPECTED)
@pytest.mark.parametrize("value", BAD)
def test_value_is_refused(cay, option, value):
    error = cay.refused(option, value, "--", "true")
    assert error["code"] == "invalid_request"
    assert option in error["message"] and EXPECTED[option] in error["message"]
    assert " from " in error["message"] and " to " in error["message"]


@pytest.mark.parametrize("option", EXPECTED)
def test_value_is_missing(cay, option):
    done = cay.run(option)
    assert done.rc == OURS and "needs a value" in done.errors and option in done.errors


# Settings

def test_defaults_come_from_settings(cay, config):
    conf = config("[limits]\nmemory = 64m\npids = 7\ndisk = 5m\ntimeout = 3s\ncpu_time = 2\n")
    limits = cay.run("--dry-run", "--json", "-c", "1", config=conf).ok().json["dry_run"]["limits"]
    assert (limits["memory"], limits["pids"], limits["disk"], limits["timeout"], limits["cpu_time"]) \
        == (64 * MIB, 7, 5 * MIB, 3, 2)
    assert cay.run("-c", "x = b'x' * (100 << 20)", config=conf).rc == 137
    cay.run("-m", "200m", "-c", "x = b'x' * (100 << 20)", config=conf).ok()


MAXIMA = [("--memory", "memory", "64m", "65m", "64 MiB"), ("--cpus", "cpus", "1", "1.5", "1"),
          ("--pids-limit", "pids", "20", "21", "20"), ("--disk", "disk", "10m", "11m", "10 MiB"),
          ("--timeout", "timeout", "5s", "6", "5 s"), ("--cpu-time", "cpu_time", "5", "6", "5 s"),
          ("--output-limit", "output", "1k", "2k", "1 KiB")]


@pytest.mark.parametrize("option, key, maximum, more, said", MAXIMA, ids=[m[1] for m in MAXIMA])
def test_maximum(cay, config, option, key, maximum, more, said):
    conf = config(f"[maximum]\n{key} = {maximum}\n")
    error = cay.refused(option, more, "--", "true", config=conf)
    assert error["code"] == "policy_denied"
    assert key in error["message"] and "maximum" in error["message"]
    assert error["message"].endswith(said)
    cay.run(option, maximum, "--", "true", config=conf).ok()


def test_maximum_lowers_the_default(cay, config):
    conf = config("[maximum]\nmemory = 64m\ncpu_time = 9\n")
    limits = cay.run("--dry-run", "--json", "-c", "1", config=conf).ok().json["dry_run"]["limits"]
    assert limits["memory"] == 64 * MIB and limits["cpu_time"] == 9
    assert cay.run("-c", "x = b'x' * (100 << 20)", config=conf).rc == 137
