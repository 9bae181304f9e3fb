"""What a cell took, as the kernel counts it for the interpreter's processes."""

import threading

import pytest

MIB = 1 << 20
BURN = ("import time\n"
        "def burn(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n")


def cell(sandbox, code, context="main", **more):
    return sandbox.request("POST", "/runs", {"context": context, "code": code, **more}).ok()


@pytest.fixture
def usage(sandbox):
    """usage(code): of a cell."""
    return lambda code, context="main", **more: cell(sandbox, code, context, **more)["usage"]


only_root = pytest.mark.parametrize("daemon", ["root"], indirect=True)


@pytest.mark.parametrize("daemon", ["user"], indirect=True)
def test_without_a_cgroup_it_is_not_known(usage):
    for _ in range(2):
        u = usage("1")
        assert u["cpu_ms"] is None and u["memory_peak_bytes"] is None and u["wall_ms"] > 0


@only_root
def test_cpu_time_is_each_cells_own(usage):
    usage(BURN)
    assert 300 <= usage("burn(0.3)")["cpu_ms"] < 600
    assert usage("1")["cpu_ms"] < 100
    assert usage("time.sleep(0.5)")["cpu_ms"] < 100
    assert 200 <= usage("burn(0.2); 1 / 0")["cpu_ms"] < 500


@only_root
def test_the_first_has_the_interpreters_start(usage):
    assert 1 < usage("1", "fresh")["cpu_ms"] < 5000


@only_root
@pytest.mark.parametrize("language, code", [("javascript", "let s = 0; for (let i = 0; i < 1e8; i++) s += i"),
                                            ("bash", "for ((i = 0; i < 200000; i++)); do :; done")])
def test_other_languages(usage, language, code):
    usage("1" if language != "bash" else ":", language, language=language)
    u = usage(code, language, language=language)
    assert 50 < u["cpu_ms"] < 1.2 * u["wall_ms"] + 100 and u["memory_peak_bytes"] > MIB


@only_root
def test_threads_and_programs_count(usage):
    usage(BURN + "import subprocess, sys, threading")
    u = usage("t = threading.Thread(target=burn, args=(0.3,)); t.start(); t.join()")
    assert 300 <= u["cpu_ms"] < 600
    u = usage(f"subprocess.run([sys.executable, '-c', {BURN + 'burn(0.3)'!r}])")
    assert 280 <= u["cpu_ms"] < 800
    u = usage("!bash -c 'for ((n = 0; n < 300000; n++)); do :; done'")
    assert 50 < u["cpu_ms"] < 1.2 * u["wall_ms"] + 100


@only_root
def test_what_goes_on_between_cells_is_the_next_ones(usage):
    usage(BURN + "import threading\nt = threading.Thread(target=burn, args=(0.3,)); t.start()")
    assert usage("t.join()")["cpu_ms"] + 50 >= 250


@only_root
def test_other_contexts_do_not_count(sandbox, usage):
    cell(sandbox, BURN, "other")
    busy = threading.Thread(target=cell, args=(sandbox, "burn(1)", "other"))
    busy.start()
    try:
        assert usage("import time; time.sleep(0.5)")["cpu_ms"] < 100
    finally:
        busy.join()


@only_root
def test_the_peak_of_memory_is_the_largest_processs(usage):
    before = usage("1")["memory_peak_bytes"]
    large = usage("b = bytearray(150 << 20); del b")["memory_peak_bytes"]
    assert before + 140 * MIB < large < before + 200 * MIB
    assert large <= usage("1")["memory_peak_bytes"] < large + 30 * MIB, "in its life"
    u = usage("import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', "
              "'import sys; b = bytearray(300 << 20); print(flush=True); sys.stdin.read()'], "
              "stdin=subprocess.PIPE, stdout=subprocess.PIPE); p.stdout.readline(); None")
    assert u["memory_peak_bytes"] > 300 * MIB
    usage("p.kill(); p.wait(); None")


@only_root
def test_what_a_cell_says_of_itself_is_not_asked(usage):
    u = usage(BURN + "import resource\nresource.getrusage = lambda who: None\nburn(0.3)\ntime.process_time = lambda: 0")
    assert u["cpu_ms"] >= 300


@only_root
@pytest.mark.parametrize("code, more", [("burn(0.3); import os; os._exit(3)", {}),
                                        ("import os; burn(0.3); os.kill(os.getpid(), 9)", {}),
                                        ("while True: pass", {"limits": {"timeout": 0.5}}),
                                        ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                                         "while True: pass", {"limits": {"timeout": 0.5}})], ids=str)
def test_cells_that_end_otherwise(usage, code, more):
    usage(BURN)
    u = usage(code, **more)
    assert 100 < u["cpu_ms"] and u["memory_peak_bytes"] > MIB
    assert usage("1")["cpu_ms"] < 5000
