"""A driver that lies: what a cell can write to its own control channel ends its context, and nothing else."""

import time

import pytest

from support import wait_until

# The channel is a socket that only the driver has, by its number: a cell finds it all the same.
FIND = """
import os, stat, json, threading, time
channel = next(fd for fd in range(3, 1024)
               if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISSOCK(os.fstat(fd).st_mode))
def raw(data):
    while data:
        data = data[os.write(channel, data):]
def say(**message):
    raw(json.dumps(message).encode() + b"\\0")
"""
DONE = "say(type='done', exit_code=0, exception=None)"


def cell(sandbox, code, context="liar", **more):
    return sandbox.request("POST", "/runs", {"context": context, "code": code, **more}).ok()


def state(sandbox, context="liar"):
    return sandbox.request("GET", f"/contexts/{context}").ok()["state"]


@pytest.fixture
def both(sandbox):
    """A sandbox with a context that must come to no harm."""
    cell(sandbox, "x = 5", "honest")
    yield sandbox
    assert cell(sandbox, "x", "honest")["results"] == [{"text/plain": "5"}]
    assert cell(sandbox, "1 + 1")["results"] == [{"text/plain": "2"}]
    assert sandbox.daemon.get("/v1/health").status == 200


@pytest.mark.parametrize("lie, why", [
    ("raw(b'{nonsense\\0')", "no JSON"),
    ("raw(b'\\xff\\xfe\\0')", "no JSON"),
    ("raw(b'[]\\0')", "without a type"),
    ("raw(b'[' * 100000 + b'\\0')", "no JSON"),
    ("say(type='surprise')", "unknown type"),
    ("say(type='ready', pid=1)", "unknown type"),
    ("say(kind='done')", "without a type"),
    ("say(type='result')", "without data"),
    ("say(type='result', data={})", "without data"),
    ("say(type='result', data={'nonsense': 'x'})", "MIME"),
    ("say(type='result', data={'text/plain': 1})", "no text"),
    ("say(type='result', data={'text/plain': 'x' * (5 << 20)})", "4 MiB"),
    ("say(type='result', data={'application/json': ['x' * 1024] * 5000})", "4 MiB"),
    ("say(type='result', data={f'text/{n}': 'x' for n in range(33)})", "without data"),
    ("[say(type='result', data={'text/plain': 'x'}) for _ in range(65)]", "64 results"),
    ("[say(type='result', data={'text/plain': 'x' * (4 << 20)}) for _ in range(5)]", "16 MiB together"),
    ("[say(type='note', text='x') for _ in range(65)]", "64 notes"),
    ("say(type='note')", "note without text"),
    ("say(type='done')", "exit code"),
    ("say(type='done', exit_code='0')", "exit code"),
    ("say(type='done', exit_code=0, exception='x')", "exception"),
    ("say(type='done', exit_code=0, exception={'name': 'x'})", "exception"),
    ("say(type='done', exit_code=0, exception={'name': 1, 'value': '', 'traceback': ''})", "exception"),
    ("raw(b'x' * (17 << 20))", "more than 16 MiB"),
])
def test_lies_end_the_context(both, lie, why):
    r = cell(both, FIND + lie + "\ntime.sleep(60)", limits={"timeout": "50s"})
    assert r["status"] == "failed" and r["state_lost"] and r["exit_code"] is None
    assert "the interpreter sent" in r["message"] and why in r["message"]
    assert state(both) == "ended"


@pytest.mark.parametrize("lie", [
    DONE + "; " + DONE, DONE + "; say(type='result', data={'text/plain': 'x'})", DONE + "; raw(b'x\\0')",
    f"threading.Timer(0.3, lambda: {DONE}).start()",
    "threading.Timer(0.3, raw, [b'x' * (5 << 20) + b'\\0']).start()",
    "threading.Timer(0.3, say, [], dict(type='input', prompt='')).start()"])
def test_what_comes_when_no_cell_runs_is_dropped(both, lie):
    """Done twice, results after it, words between cells."""
    r = cell(both, FIND + lie)
    assert r["status"] == "ok" and r["results"] == []
    time.sleep(1)
    assert state(both) == "idle"
    r = cell(both, "1")
    assert r["results"] == [{"text/plain": "1"}] and r["start"] == "kept"


def test_a_message_may_end_in_the_next_cell(both):
    """Its end is dropped as its beginning was."""
    cell(both, FIND + "threading.Timer(0.2, raw, [b'{nonsense']).start()")
    time.sleep(0.5)
    assert cell(both, "raw(b' and more'); raw(b'\\0'); 1")["results"] == [{"text/plain": "1"}]
    r = cell(both, "raw(b'{nonsense' + b'\\0'); time.sleep(60)")
    assert "no JSON" in r["message"]


def test_too_much_between_cells_ends_it(both):
    cell(both, FIND + "threading.Timer(0.2, raw, [b'x' * (40 << 20)]).start()")
    wait_until(lambda: state(both) == "ended", 20, "the liar's end")
    assert "no cell ran" in cell(both, "1")["notes"][0]


def test_a_thread_that_shows_more_than_its_cell(both):
    cell(both, "import threading, time\ndef show():\n    for n in range(9):\n        display(n, 'x' * 100_000)\n"
               "        time.sleep(0.1)\nthreading.Timer(0.3, show).start()\nkept = 1")
    time.sleep(2)
    assert state(both) == "idle"
    assert cell(both, "kept")["results"] == [{"text/plain": "1"}]


def test_a_forged_result_is_the_cells_own_alone(both):
    r = cell(both, FIND + "say(type='result', data={'text/html': '<b>forged</b>'})")
    assert r["results"] == [{"text/html": "<b>forged</b>"}] and r["status"] == "ok"
    assert cell(both, "1")["results"] == [{"text/plain": "1"}]


def test_a_forged_end_leaves_the_next_cell_waiting_for_its_own_time(both):
    """The interpreter is still at the first: what comes next is not read before its time is up."""
    r = cell(both, FIND + DONE + "\ntime.sleep(60)")
    assert r["status"] == "ok"
    r = cell(both, "2", limits={"timeout": "1s"})
    assert r["status"] in ("timeout", "failed")
    both.request("DELETE", "/contexts/liar")


def test_a_flood_of_requests_for_input(both):
    code = FIND + "for n in range(100000): say(type='input', prompt='x' * 1000)"
    r = cell(both, code, limits={"timeout": "20s"})
    assert r["state_lost"] or r["status"] == "timeout"
    assert r["status"] in ("failed", "timeout")


def test_requests_for_input_before_an_answer(both):
    with both.daemon.events("POST", both.url + "/runs", {
            "context": "liar", "code": FIND + "say(type='input', prompt='a'); say(type='input', prompt='b')\ntime.sleep(9)"
    }) as events:
        r = dict(events)["result"]
    assert r["status"] == "failed" and "before the last was answered" in r["message"]


def test_a_prompt_and_a_note_are_cut(both):
    code = FIND + "say(type='note', text='ä' * 100000)"
    assert 1000 < len(cell(both, code)["notes"][0].encode()) < 4100


def test_one_that_never_reads(both):
    """Its answers and its next code wait in a bounded place, until its time is up."""
    before = both.daemon.rss()["api"]
    cell(both, FIND + DONE + "\ntime.sleep(60)")
    r = cell(both, "#" + "x" * (8 << 20), limits={"timeout": "1s"})
    assert r["status"] in ("timeout", "failed")
    assert both.daemon.rss()["api"] - before < 200 << 20
    both.request("DELETE", "/contexts/liar")  # it has got one end behind, which harms itself alone


def test_values_are_counted_as_what_they_take(both):
    """Text of three bytes is a value of some 250."""
    before = both.daemon.rss()["api"]
    code = FIND + "m = b'{\"type\":\"result\",\"data\":{\"application/json\":[' + b'{},' * 50_000 + b'{}]}}\\0'\n"
    cell(both, code + "raw(m)")
    r = cell(both, "for _ in range(21): raw(m)\ntime.sleep(60)", limits={"timeout": "50s"})
    assert "16 MiB together" in r["message"]
    r = cell(both, code.replace("50_000", "250_000") + "raw(m)\ntime.sleep(60)", limits={"timeout": "50s"})
    assert "16 MiB together" in r["message"]
    assert both.daemon.rss()["api"] - before < 150 << 20


def test_an_honest_driver_leaves_out_what_is_too_much(both):
    code = "for n in range(3): display({'application/json': [{}] * 50_000}, raw=True)"
    r = cell(both, code)
    assert r["status"] == "ok" and len(r["results"]) == 1 and "16 MiB" in r["notes"][0]
    assert len(cell(both, "display({'application/json': [1.5] * 200_000}, raw=True)")["results"]) == 1
    r = cell(both, "for (let n = 0; n < 3; n++) display(Array(50_000).fill({}), 'application/json')", "js", language="node")
    assert r["status"] == "ok" and len(r["results"]) == 1 and "16" in r["notes"][0]


def test_one_that_closes_the_channel(both):
    r = cell(both, FIND + "os.close(channel)\ntime.sleep(60)")
    assert r["state_lost"] and r["status"] in ("signal", "failed")


def test_descriptors_sent_along_are_dropped(both):
    fds = both.daemon.fds()
    code = FIND + """
import socket, array
s = socket.socket(fileno=os.dup(channel))
text = json.dumps(dict(type='note', text='x')).encode() + b"\\0"
for n in range(20):
    s.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2]))])
"""
    assert cell(both, code)["notes"] == ["x"] * 20
    assert both.daemon.fds() <= fds + 4


def test_a_child_that_writes_on_after_the_end(both):
    """The driver is gone, its channel is not."""
    code = FIND + """
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            raw(b'x' * 4096)
        except OSError:
            os._exit(0)
time.sleep(0.2)
os._exit(1)
"""
    r = cell(both, code, limits={"timeout": "20s"})
    assert r["state_lost"]


def test_lies_of_a_rich_run(daemon):
    r = daemon.run(FIND + "raw(b'{nonsense\\0'); time.sleep(60)", rich=True)
    assert r["status"] == "failed" and "no JSON" in r["message"] and not r["state_lost"]
    r = daemon.run(FIND + DONE + "; " + DONE + "\ntime.sleep(0.2)", rich=True)
    assert r["status"] in ("ok", "failed")
    began = time.monotonic()
    r = daemon.run(FIND + "raw(b'x' * (17 << 20))", rich=True)
    assert "more than 16 MiB" in r["message"] and time.monotonic() - began < 30
