"""Every way a run can end, each by a real program: status, exit code and the one line about it."""

import glob
import json
import os
import signal

import pytest

from support import MIB, TIMEOUT, named, wait_until


def ended(cay, *args, **more):
    """A run with --json: the result, after what holds for all results was checked."""
    done = cay.run("--json", *args, **more)
    result = done.json
    assert "error" not in result, result
    assert result["success"] == (result["status"] == "ok")
    assert result["timed_out"] == (result["status"] == "timeout")
    # Whatever is not plain success is explained in exactly one line, in the result's words.
    assert done.errors == ("" if result["success"] else f"cay: {result['message']}\n")
    assert bool(result["message"]) != result["success"]
    result["rc"] = done.rc
    result["seconds"] = done.seconds
    return result


def brief(result):
    return result["status"], result["exit_code"], result["signal"], result["rc"]


def test_ok(cay):
    result = ended(cay, "-c", "print(42)")
    assert brief(result) == ("ok", 0, None, 0)
    assert (result["stdout"], result["stderr"]) == ("42\n", "")
    assert result["id"].startswith("run_")
    assert result["engine"] == "native" and result["image"] == "host"
    assert result["sandboxed"] is True and result["start"] == "cold"
    assert result["network"] == "none" and result["egress"] == [] and result["files"] == []
    assert result["language"] == "python" and result["version"].startswith("3.")
    assert "stdout_base64" not in result


def test_result_has_all_fields(cay):
    result = cay.run("--json", "--", "true").ok().json
    assert set(result) >= {
        "id", "success", "status", "message", "exit_code", "signal", "timed_out", "stdout",
        "stderr", "stdout_truncated", "stderr_truncated", "results", "notes", "exception", "context", "state_lost", "files",
        "usage", "engine", "engine_reason", "policy", "start", "image", "language", "version", "network",
        "egress", "sandboxed", "sandbox", "isolation"}
    assert result["language"] is None and result["version"] is None


def test_ids_differ(cay):
    assert len({ended(cay, "--", "true")["id"] for _ in range(5)}) == 5


@pytest.mark.parametrize("code", [1, 3, 124, 137, 255])
def test_failed(cay, code):
    result = ended(cay, "-c", f"print('x'); raise SystemExit({code})")
    assert brief(result) == ("failed", code, None, code)
    assert str(code) in result["message"] and result["stdout"] == "x\n"


def test_failed_without_json_says_one_line(cay):
    done = cay.run("--", "sh", "-c", "echo mine >&2; exit 3")
    assert done.rc == 3
    assert done.errors == "mine\ncay: exited with code 3\n"


def test_exception_comes_with_its_traceback(cay):
    result = ended(cay, "-c", "1 / 0")
    assert result["status"] == "failed" and "ZeroDivisionError" in result["stderr"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_signal(cay, number):
    result = ended(cay, "-c", f"import os, signal; signal.signal(13, signal.SIG_DFL);"
                              f"print('before', flush=True); os.kill(os.getpid(), {number})")
    assert brief(result) == ("signal", None, number, 128 + number)
    assert str(int(number)) in result["message"] and result["stdout"] == "before\n"


def test_segfault(cay):
    result = ended(cay, "-c", "import ctypes; ctypes.string_at(0)")
    assert brief(result) == ("signal", None, signal.SIGSEGV, 139)
    assert "Segmentation fault" in result["message"]


def test_abort(cay):
    result = ended(cay, "-c", "import os; os.abort()")
    assert brief(result) == ("signal", None, signal.SIGABRT, 134)


def test_bad_system_call_is_an_error_not_a_death(cay):
    result = ended(cay, "-c", "import ctypes; l = ctypes.CDLL(None, use_errno=True);"
                              "print(l.syscall(9999), ctypes.get_errno())")
    assert result["stdout"] == "-1 38\n"


def test_timeout(cay):
    result = ended(cay, "--timeout", "0.9", "--", "sh", "-c", "echo partial; sleep 60")
    assert brief(result)[:2] == ("timeout", None) and result["rc"] == TIMEOUT
    assert result["stdout"] == "partial\n"
    assert result["message"] == "time limit of 900 ms reached"
    assert 900 <= result["usage"]["wall_ms"] < 2000


def test_timeout_without_json(cay):
    done = cay.run("--timeout", "900ms", "--", "sh", "-c", "echo partial; sleep 60")
    assert done.rc == TIMEOUT and done.text == "partial\n"
    assert done.errors == "cay: time limit of 900 ms reached\n"


def test_timeout_of_a_program_that_resists(cay):
    result = ended(cay, "--timeout", "0.3", "-c", """
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            break
while True: time.sleep(60)
""")
    assert result["status"] == "timeout" and result["seconds"] < 2


def test_timeout_of_a_stopped_program(cay):
    result = ended(cay, "--timeout", "0.3", "-c", "import os; os.kill(os.getpid(), 19)")
    assert result["status"] == "timeout" and result["seconds"] < 2


def test_out_of_memory(cay):
    result = ended(cay, "-m", "64m", "-c", "print('before', flush=True); x = b'x' * (1 << 30)")
    assert brief(result)[:2] == ("out_of_memory", None) and result["rc"] == 137
    assert result["message"] == "memory limit of 64 MiB reached"
    assert result["stdout"] == "before\n"


def test_out_of_memory_of_a_grandchild_the_parent_ignores(cay):
    result = ended(cay, "-m", "64m", "--timeout", "20", "-c", """
import subprocess, sys, time
subprocess.Popen([sys.executable, '-c', '''
import subprocess, sys
subprocess.run([sys.executable, "-c", "x = b'x' * (1 << 30)"])
'''])
time.sleep(60)
""")
    assert result["status"] == "out_of_memory" and result["seconds"] < 15


def test_out_of_memory_of_many_small_ones(cay):
    result = ended(cay, "-m", "64m", "--timeout", "20", "-c", """
import os, time
for _ in range(10):
    if os.fork() == 0:
        x = bytearray(b'x') * (20 << 20)
        time.sleep(60)
time.sleep(60)
""")
    assert result["status"] == "out_of_memory" and result["seconds"] < 15


@pytest.mark.parametrize("where", ["/tmp", "/workspace", "/dev/shm"])
def test_out_of_memory_by_files(cay, where):
    result = ended(cay, "-m", "64m", "--disk", "300m", "-c", f"""
with open('{where}/x', 'wb') as f:
    for _ in range(200): f.write(b'x' * (1 << 20))
""")
    assert result["status"] == "out_of_memory"


def test_output_limit(cay):
    result = ended(cay, "--timeout", "30", "--", "yes")
    assert brief(result)[:2] == ("output_limit", None) and result["rc"] == 128 + signal.SIGXFSZ
    assert "64 MiB" in result["message"] and "output" in result["message"]
    assert result["stdout_truncated"] and not result["stderr_truncated"]
    assert len(result["stdout"]) == MIB


def test_output_limit_on_stderr(cay):
    result = ended(cay, "--timeout", "30", "--", "sh", "-c", "yes >&2")
    assert result["status"] == "output_limit" and result["stderr_truncated"]


def test_output_limit_without_json(cay):
    done = cay.run("--timeout", "30", "--output-limit", "1k", "--", "yes")
    assert done.rc == 128 + signal.SIGXFSZ and len(done.out) == 1024
    assert done.errors.splitlines()[-1].startswith("cay: 64 MiB of output past the limit")


def test_large_output_below_the_flood_goes_on(cay):
    result = ended(cay, "--", "sh", "-c", "yes | head -c 30000000; echo end")
    assert result["status"] == "ok" and result["stdout"].endswith("end\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_cancelled(cay, number):
    p = cay.start("run", "--json", "-c", """
import os
if os.fork() == 0: os.setsid()
print('up', flush=True); os.execlp('sleep', 'sleep', '60')""")
    # Nothing is told before the end: what they have become says that they have spoken.
    wait_until(lambda: named(p.pid, "sleep") == 2, 20, "the sleep of both")
    p.send_signal(number)
    out, err = p.communicate(timeout=5)
    result = json.loads(out)
    assert result["status"] == "cancelled" and result["success"] is False
    assert result["exit_code"] is None and result["signal"] == number
    assert p.returncode == 128 + number
    assert result["stdout"].startswith("up\n")
    assert err.decode() == f"cay: {result['message']}\n"
    assert signal.strsignal(number) in result["message"]


def test_cancelled_without_json(cay):
    p = cay.start("run", "--", "sh", "-c", "echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    p.terminate()
    out, err = p.communicate(timeout=5)
    assert p.returncode == 143 and out == b""
    assert err.startswith(b"cay: cancelled by ") and err.count(b"\n") == 1


def test_killed_cay_takes_its_island_along(cay):
    """kill -9 leaves no chance to tidy up: no process may live on, and the rest is swept up."""
    p = cay.start("run", "-c", "import os, time; os.fork(); print('up', flush=True); time.sleep(60)")
    assert p.stdout.readline() == b"up\n"
    left = glob.glob(f"/sys/fs/cgroup/**/cay-{p.pid}-*", recursive=True)
    p.kill()
    p.communicate(timeout=5)
    try:
        assert left
        wait_until(lambda: not any(open(f"{d}/cgroup.procs").read() for d in left if os.path.exists(d)),
                   1, "the end of all processes")
        cay("doctor", "--clean")
        assert not [d for d in left if os.path.exists(d)]
    finally:
        for directory in filter(os.path.exists, left):
            os.rmdir(directory)


def test_cpu_time_of_one_process(cay):
    result = ended(cay, "--cpu-time", "0.3", "--timeout", "20", "-c", "while True: pass")
    assert result["status"] == "timeout" and result["rc"] == TIMEOUT
    assert result["message"] == "CPU time limit of 300 ms reached"
    assert 250 <= result["usage"]["cpu_ms"] < 1500


def test_cpu_time_of_several_children(cay):
    result = ended(cay, "--cpu-time", "1", "--cpus", "2", "--timeout", "20", "-c", """
import os
for _ in range(4):
    if os.fork() == 0:
        while True: pass
os.wait()""")
    assert result["message"] == "CPU time limit of 1 s reached"
    assert 900 <= result["usage"]["cpu_ms"] < 2500


def test_cpu_time_does_not_count_sleep(cay):
    result = ended(cay, "--cpu-time", "0.4", "-c", "import time; time.sleep(0.8)")
    assert result["status"] == "ok"


def test_usage(cay):
    result = ended(cay, "-c", """
import os, time
x = bytearray(b'x') * (40 << 20)
end = time.process_time() + 0.3
while time.process_time() < end: pass
if os.fork() == 0: os._exit(0)
os.wait()
time.sleep(0.2)""")
    usage = result["usage"]
    assert 300 <= usage["cpu_ms"] <= 1500
    assert usage["wall_ms"] >= usage["cpu_ms"] * 0.9 and 500 <= usage["wall_ms"] < 5000
    assert 40 * MIB <= usage["memory_peak_bytes"] < 100 * MIB
    assert usage["processes_peak"] in (2, None)


def test_error_of_ours_is_never_a_result(cay):
    done = cay.run("--json", "--", "no-such-command")
    assert set(done.json) == {"error"}
