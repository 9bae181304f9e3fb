"""Interpreters that remember: contexts of a sandbox, and code whose values are shown."""

import base64
import contextlib
import json
import shlex
import threading
import time

import pytest

from support import wait_until


def cell(sandbox, code, context="main", **more):
    return sandbox.request("POST", "/runs", {"context": context, "code": code, **more})


def value(sandbox, code, context="main", **more):
    """What the last expression was, as text."""
    r = cell(sandbox, code, context, **more).ok()
    assert r["status"] == "ok", r
    return r["results"][-1]["text/plain"]


def contexts(sandbox):
    return {c["name"]: c for c in sandbox.request("GET", "/contexts").ok()["contexts"]}


def context(sandbox, name="main"):
    return sandbox.request("GET", f"/contexts/{name}").ok()


def say(sandbox, what, name="main", body=None):
    return sandbox.request("POST", f"/contexts/{name}/{what}", body)


def stream(sandbox, code, context="main", **more):
    return sandbox.daemon.events("POST", sandbox.url + "/runs", {"context": context, "code": code, **more})


@contextlib.contextmanager
def under_way(sandbox, code, context="main", **more):
    """A cell that runs meanwhile; its answer is in the list at the end."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(cell(sandbox, code, context, **more)))
    thread.start()
    wait_until(lambda: contexts(sandbox).get(context, {}).get("state") == "busy", 20, "the cell's begin")
    yield answers
    thread.join(60)
    assert answers


# What is remembered

def test_state_is_kept_between_cells(sandbox):
    first = cell(sandbox, "x = 20\nprint('made')").ok()
    assert (first["stdout"], first["results"], first["exception"]) == ("made\n", [], None)
    assert first["context"] == "main" and not first["state_lost"] and first["status"] == "ok"
    second = cell(sandbox, "x + 22").ok()
    assert second["results"] == [{"text/plain": "42"}] and second["stdout"] == ""
    assert second["start"] == "kept" != first["start"]
    assert second["sandbox"] == sandbox.id and second["language"] == "python"


def test_contexts_are_apart(sandbox):
    cell(sandbox, "x = 1", "a").ok()
    r = cell(sandbox, "x", "b").ok()
    assert r["status"] == "failed" and r["exception"]["name"] == "NameError" and r["exit_code"] == 1
    assert "NameError" in r["exception"]["traceback"] and "NameError" in r["message"]
    assert value(sandbox, "x", "a") == "1"


def test_many_contexts_at_once(sandbox):
    names = [f"c{n}" for n in range(4)]
    for name in names:
        cell(sandbox, f"me = {name!r}", name).ok()
    began = time.monotonic()
    with contextlib.ExitStack() as all_of_them:
        answers = [all_of_them.enter_context(under_way(sandbox, "import time; time.sleep(1.5); me", name))
                   for name in names]
    assert [a[0].ok()["results"][0]["text/plain"] for a in answers] == [repr(n) for n in names]
    assert time.monotonic() - began < 5


def test_cells_of_one_context_run_in_order(sandbox):
    cell(sandbox, "seen = []").ok()
    with under_way(sandbox, "import time; time.sleep(1); seen.append(1); list(seen)") as first:
        with_second = []
        thread = threading.Thread(target=lambda: with_second.append(cell(sandbox, "seen.append(2); list(seen)")))
        thread.start()
        wait_until(lambda: context(sandbox)["queued"] == 1, 10, "the second cell")
        thread.join(30)
    assert first[0].ok()["results"] == [{"text/plain": "[1]"}]
    assert with_second[0].ok()["results"] == [{"text/plain": "[1, 2]"}]
    assert with_second[0].json["usage"]["wall_ms"] < 900  # without its time in the queue


def test_no_more_than_sixteen_wait(sandbox):
    with under_way(sandbox, "import time; time.sleep(3)"):
        waiting = [sandbox.daemon.begin("POST", sandbox.url + "/runs", {"context": "main", "code": str(n)})
                   for n in range(15)]
        wait_until(lambda: context(sandbox)["queued"] == 15, 10, "the queue")
        assert cell(sandbox, "1").status == 429
        results = [c.getresponse() for c in waiting]
        assert [r.status for r in results] == [200] * 15


def test_no_more_than_sixteen_contexts(daemon):
    with daemon.sandbox(limits={"pids": 100}) as sandbox:
        for n in range(16):
            assert cell(sandbox, "1", f"c{n}").ok()["status"] == "ok"
        refused = cell(sandbox, "1", "one-more")
        assert refused.status == 409 and "16 contexts" in refused.json["error"]["message"]
        # One whose interpreter has ended gives way.
        assert cell(sandbox, "import os; os._exit(1)", "c3").ok()["state_lost"]
        assert cell(sandbox, "1", "one-more").ok()["status"] == "ok"
        assert "c3" not in contexts(sandbox)


# What is shown, and by whom it is asked

def test_events_come_as_things_happen(sandbox):
    code = "import time\nprint('a', flush=True)\ntime.sleep(0.3)\ndisplay(1)\ntime.sleep(0.3)\nprint('b', flush=True)\n5"
    with stream(sandbox, code) as events:
        got = list(events)
    names = [name for name, _ in got]
    assert names == ["start", "stdout", "display", "stdout", "display", "result"]
    assert got[2][1] == {"text/plain": "1"} and got[4][1] == {"text/plain": "5"}
    result = got[-1][1]
    assert result["results"] == [{"text/plain": "1"}, {"text/plain": "5"}] and result["stdout"] == "a\nb\n"
    assert got[0][1]["id"] == result["id"]


def test_stdin_is_read_as_a_whole(sandbox, daemon):
    text = "one\nZo\u00eb\n" + "x\u4e2d" * 300_000
    assert value(sandbox, "import sys; s = sys.stdin.read(); s[:8], len(s)", stdin=text) == str((text[:8], len(text)))
    assert value(sandbox, "sys.stdin.readline(), input(), sys.stdin.read()", stdin="1\n2\n3") == "('1\\n', '2', '3')"
    assert value(sandbox, "sys.stdin.read(), sys.stdin.read()", stdin="") == "('', '')"
    # Without it nobody is asked, also where somebody could answer.
    name, last = list(stream(sandbox, "sys.stdin.read()"))[-1]
    assert (name, last["results"]) == ("result", [{"text/plain": "''"}])
    assert daemon.run("import sys; sorted(sys.stdin)", rich=True, stdin="b\na\n")["results"] == [
        {"text/plain": "['a\\n', 'b\\n']"}]


def test_input_is_answered_by_stdin_line_by_line(sandbox):
    r = cell(sandbox, "[input('a'), input()]", stdin="one\ntwo").ok()
    assert r["results"] == [{"text/plain": "['one', 'two']"}]
    r = cell(sandbox, "input(), input()", stdin="one\n").ok()
    assert r["exception"]["name"] == "EOFError" and "has ended" in r["exception"]["value"]


def test_input_fails_at_once_where_nobody_can_answer(sandbox):
    began = time.monotonic()
    r = cell(sandbox, "input('name? ')").ok()
    assert r["exception"]["name"] == "EOFError" and "stdin" in r["exception"]["value"]
    assert time.monotonic() - began < 5


def test_input_is_answered_by_the_api(sandbox):
    assert say(sandbox, "input", body={"text": "x"}).status == 404
    with stream(sandbox, "input('name? ')") as events:
        assert events.until("input")[-1] == ("input", {"prompt": "name? ", "password": False})
        assert context(sandbox)["waiting_for_input"] == {"prompt": "name? ", "password": False}
        assert say(sandbox, "input", body={"nonsense": 1}).status == 400
        assert say(sandbox, "input", body={"text": "Zoë"}).ok()["waiting_for_input"] is None
        assert dict(events)["result"]["results"] == [{"text/plain": "'Zoë'"}]
    assert say(sandbox, "input", body={"text": "x"}).status == 409


def test_what_waits_for_input_ends_in_time(sandbox):
    cell(sandbox, "x = 1").ok()
    with stream(sandbox, "input()", limits={"timeout": "1s"}) as events:
        r = dict(events)["result"]
    assert r["status"] == "timeout" and not r["state_lost"] and value(sandbox, "x") == "1"


# Ends

def test_interrupt_keeps_what_is_remembered(sandbox):
    cell(sandbox, "x = 7").ok()
    assert say(sandbox, "interrupt").status == 409
    with under_way(sandbox, "import time\nwhile True: time.sleep(0.05)") as answers:
        assert say(sandbox, "interrupt").ok(202)["state"] == "busy"
    r = answers[0].ok()
    assert r["status"] == "failed" and r["exception"]["name"] == "KeyboardInterrupt" and not r["state_lost"]
    assert value(sandbox, "x") == "7"


def test_an_interrupt_reaches_what_the_cell_started(sandbox):
    code = "import subprocess; subprocess.run(['sleep', '100'])"
    with under_way(sandbox, code) as answers:
        time.sleep(0.3)
        say(sandbox, "interrupt").ok(202)
    assert answers[0].ok()["exception"]["name"] == "KeyboardInterrupt"
    assert "sleep" not in sandbox.sh("cat /proc/[0-9]*/comm")["stdout"]


def test_time_out_keeps_what_is_remembered(sandbox):
    cell(sandbox, "x = 3").ok()
    r = cell(sandbox, "import time; time.sleep(60)", limits={"timeout": "1s"}).ok()
    assert r["status"] == "timeout" and r["timed_out"] and not r["state_lost"]
    assert r["exception"]["name"] == "KeyboardInterrupt"
    assert value(sandbox, "x") == "3"


def test_time_out_of_what_hears_no_interrupt(sandbox):
    cell(sandbox, "x = 3").ok()
    cell(sandbox, "y = 4", "other").ok()
    deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)"
    began = time.monotonic()
    r = cell(sandbox, deaf, limits={"timeout": "1s"}).ok()
    assert r["status"] == "timeout" and r["state_lost"]
    assert 2.5 < time.monotonic() - began < 15
    assert contexts(sandbox)["main"]["state"] == "ended"
    fresh = cell(sandbox, "x").ok()
    assert fresh["exception"]["name"] == "NameError" and fresh["start"] != "kept" and fresh["notes"] == []
    assert value(sandbox, "y", "other") == "4"


def test_cancel_is_an_interrupt(sandbox):
    cell(sandbox, "x = 3").ok()
    with under_way(sandbox, "import time; time.sleep(60)") as answers:
        sandbox.daemon.delete("/v1/runs/" + context(sandbox)["run"]).ok(202)
    r = answers[0].ok()
    assert r["status"] == "cancelled" and not r["state_lost"] and value(sandbox, "x") == "3"


def test_cancel_of_one_that_waits_leaves_the_others(sandbox):
    with under_way(sandbox, "import time; time.sleep(1); 'ran'") as answers:
        background = cell(sandbox, "ran = True", background=True).ok(202)
        wait_until(lambda: context(sandbox)["queued"] == 1, 10, "the second cell")
        sandbox.daemon.delete(f"/v1/runs/{background['id']}").ok(202)
        wait_until(lambda: context(sandbox)["queued"] == 0, 10, "its end")
    assert answers[0].ok()["status"] == "ok"
    assert cell(sandbox, "ran").ok()["exception"]["name"] == "NameError"


def test_who_goes_away_ends_the_cell(sandbox):
    cell(sandbox, "x = 3").ok()
    with stream(sandbox, "import time; time.sleep(60)") as events:
        events.until("start")
    wait_until(lambda: context(sandbox)["state"] == "idle", 10, "the cell's end")
    assert value(sandbox, "x") == "3"


@pytest.mark.parametrize("code, status, signal", [
    ("import os; os._exit(7)", "failed", None), ("import os; os._exit(0)", "failed", None),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal", 11)])
def test_a_crash_is_of_one_context(sandbox, code, status, signal):
    cell(sandbox, "x = 1", "other").ok()
    r = cell(sandbox, "print('last words', flush=True)\n" + code).ok()
    assert (r["status"], r["signal"], r["state_lost"]) == (status, signal, True)
    assert r["stdout"] == "last words\n"
    assert value(sandbox, "1 + 1") == "2" and value(sandbox, "x", "other") == "1"


def test_cells_that_wait_for_a_crash_are_told(sandbox):
    with under_way(sandbox, "import os, time; time.sleep(1); os._exit(1)") as answers:
        later = sandbox.daemon.begin("POST", sandbox.url + "/runs", {"context": "main", "code": "1"})
        wait_until(lambda: context(sandbox)["queued"] == 1, 10, "the second cell")
    assert answers[0].ok()["state_lost"]
    r = json.loads(later.getresponse().read())
    assert r["status"] == "cancelled" and r["state_lost"]


def test_the_end_between_cells_is_told_to_the_next(sandbox):
    cell(sandbox, "import threading, os; threading.Timer(0.2, os._exit, [3]).start()").ok()
    wait_until(lambda: context(sandbox)["state"] == "ended", 10, "its end")
    r = cell(sandbox, "1").ok()
    assert r["results"] and "lost" in r["notes"][0] and r["start"] != "kept"
    assert cell(sandbox, "1").ok()["notes"] == []


def test_restart_and_delete(sandbox):
    cell(sandbox, "x = 1").ok()
    with under_way(sandbox, "import time; time.sleep(60)") as answers:
        assert say(sandbox, "restart").ok()["state"] == "starting"
    assert answers[0].ok()["status"] == "cancelled" and answers[0].json["state_lost"]
    assert cell(sandbox, "x").ok()["exception"]["name"] == "NameError"
    assert sandbox.request("DELETE", "/contexts/main").ok() == {"name": "main", "state": "gone"}
    assert contexts(sandbox) == {} and sandbox.request("GET", "/contexts/main").status == 404
    assert say(sandbox, "restart").status == 404
    wait_until(lambda: sandbox.show()["usage"]["processes"] <= 1, 10, "the interpreter's end")


def test_output_between_cells_is_the_next_ones(sandbox):
    cell(sandbox, "import threading; threading.Timer(0.2, lambda: print('late', flush=True)).start()").ok()
    wait_until(lambda: "late" in sandbox.request("GET", "/logs").body.decode(), 10, "the line in the logs")
    assert cell(sandbox, "1").ok()["stdout"] == "late\n"


def test_a_flood_ends_it(sandbox):
    r = cell(sandbox, "while True: print('x' * 65000)", limits={"timeout": "60s"}).ok()
    assert r["status"] == "output_limit" and r["state_lost"] and r["stdout_truncated"]
    assert value(sandbox, "1") == "1"


def test_sandbox_deletion_ends_its_cells(daemon):
    with daemon.sandbox() as sandbox:
        with under_way(sandbox, "import time; time.sleep(60)") as answers:
            sandbox.request("DELETE").ok()
        r = answers[0].ok()
        assert r["status"] == "cancelled" and r["state_lost"]


def test_what_only_waits_is_not_busy(daemon):
    with daemon.sandbox(idle_timeout="1s") as sandbox:
        cell(sandbox, "x = 1").ok()
        assert sandbox.show()["busy"] == 0
        wait_until(lambda: sandbox.request("GET").status == 410, 10, "the end of the idle sandbox")


# The sandbox around it

@contextlib.contextmanager
def borne(daemon, **spec):
    """A sandbox whose PID 1 is a clone of the science set's zygote, which the first sandbox has started."""
    def is_warm():
        with daemon.sandbox(language="python", **spec) as sandbox:
            return cell(sandbox, "1").ok()["start"] == "warm:science"
    wait_until(is_warm, 30, "a sandbox that is borne")
    with daemon.sandbox(language="python", **spec) as sandbox:
        yield sandbox


def cold(daemon, **spec):
    return daemon.sandbox(cold=True, **spec)


EAT = "set -o pipefail; head -c 400000000 /dev/zero | tail | wc -c"


@pytest.mark.parametrize("made", [cold, borne])
def test_out_of_memory_is_of_one_context(make_daemon, made):
    with made(make_daemon(), limits={"memory": "300m"}) as sandbox:
        cell(sandbox, "x = 1", "other").ok()
        r = cell(sandbox, "a = []\nwhile True: a.append(bytearray(10_000_000))").ok()
        assert r["status"] == "out_of_memory" and r["state_lost"] and "memory limit" in r["message"]
        assert value(sandbox, "x", "other") == "1"
        assert cell(sandbox, "a").ok()["exception"]["name"] == "NameError"
        # A program that a cell starts is not the cell.
        eat = f"import subprocess; subprocess.run(['bash', '-c', {EAT!r}]).returncode"
        assert value(sandbox, "y = 1; " + eat) == "137" and value(sandbox, "x", "other") == "1"
        # Nor is what another command eats.
        assert not sandbox.run("bash", EAT)["success"]
        assert value(sandbox, "y") == "1" and value(sandbox, "x", "other") == "1"
        # Nor what an earlier one left in the background.
        sandbox.sh(f"(sleep 0.2; bash -c {EAT!r}) >/dev/null 2>&1 &")
        time.sleep(2)
        assert value(sandbox, "y") == "1" and value(sandbox, "x", "other") == "1"


@pytest.mark.parametrize("made", [cold, borne])
def test_many_small_programs_out_of_memory(make_daemon, made):
    """PID 1, which may be an interpreter and larger than each of them, is none of those that go."""
    with made(make_daemon(), limits={"memory": "300m", "pids": 200}) as sandbox:
        eater = "import time\na = b'x' * 12_000_000\nprint(len(a), flush=True)\ntime.sleep(3)"
        code = f"for i in $(seq 40); do python3 -S -c {shlex.quote(eater)} & done; wait"
        r = sandbox.run("bash", code, limits={"timeout": "60s"})
        assert r["stdout"].count("12000000") < 40 and not r["success"]  # there was not enough for all
        assert sandbox.show()["state"] == "live" and sandbox.sh("echo here")["stdout"] == "here\n"


def test_pause_holds_a_cell_and_its_time(make_daemon):
    daemon = make_daemon()
    with daemon.sandbox() as sandbox:
        cell(sandbox, "x = 1").ok()
        with under_way(sandbox, "import time\nfor _ in range(300): time.sleep(0.01)\n'slept'") as answers:
            sandbox.request("POST", "/pause").ok()
            assert cell(sandbox, "1").status == 409 and say(sandbox, "restart").status == 409
            time.sleep(1)
            sandbox.request("POST", "/resume").ok()
        assert answers[0].ok()["results"] == [{"text/plain": "'slept'"}] and value(sandbox, "x") == "1"
        with under_way(sandbox, "import time; time.sleep(60)", limits={"timeout": "2s"}) as answers:
            sandbox.request("POST", "/pause").ok()
            time.sleep(5)  # past its time, and its grace
            assert not answers
            sandbox.request("POST", "/resume").ok()
        assert answers[0].ok()["status"] == "timeout" and not answers[0].json["state_lost"]
        assert value(sandbox, "x") == "1"


def test_a_persistent_sandbox_forgets_and_says_so(make_daemon):
    daemon = make_daemon()
    with daemon.sandbox(persistent=True, idle_timeout="2s") as sandbox:
        cell(sandbox, "x = 1; open('kept', 'w').write('here')").ok()
        wait_until(lambda: sandbox.show()["state"] == "stopped", 15, "its stop")
        assert context(sandbox)["state"] == "ended"
        r = cell(sandbox, "open('kept').read()").ok()
        assert r["results"] == [{"text/plain": "'here'"}] and "stopped (idle)" in r["notes"][0]
        assert cell(sandbox, "x").ok()["exception"]["name"] == "NameError"
        wait_until(lambda: sandbox.show()["state"] == "stopped", 15, "its stop")
        assert say(sandbox, "restart").ok()["state"] == "starting"  # which wakes it
        assert value(sandbox, "1") == "1"
        daemon.restart()
        assert contexts(sandbox) == {}
        assert value(sandbox, "open('kept').read()") == "'here'"


def test_the_launchers_end_is_a_cells(make_daemon):
    daemon = make_daemon()
    with daemon.sandbox() as sandbox:
        with stream(sandbox, "import time; time.sleep(600)", limits={"timeout": "500s"}) as events:
            events.until("start")
            daemon.expect_errors = True
            daemon.kill9("launcher")
            got = list(events)
        assert not got or got[-1][0] in ("result", "error")


def test_warm_contexts(make_daemon):
    """From the zygote of the science set, by a sandbox that is borne by it."""
    daemon = make_daemon()
    with borne(daemon) as sandbox:
        r = cell(sandbox, "import pandas as pd\npd.DataFrame({'a': [1, 2]})").ok()
        assert r["start"] == "warm:science" and context(sandbox)["start"] == "warm:science"
        assert "<table" in r["results"][0]["text/html"] and "a" in r["results"][0]["text/plain"]
        r = cell(sandbox, "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()").ok()
        assert base64.b64decode(r["results"][0]["image/png"]).startswith(b"\x89PNG")
        # A fork of PID 1 is no relative of other contexts, nor of its parent's memory.
        assert value(sandbox, "import os; os.getppid()") == "1"
        assert cell(sandbox, "pd", "other").ok()["exception"]["name"] == "NameError"
        assert sandbox.sh("cat /proc/1/comm; cat /proc/1/maps 2>&1 | head -c 60")["stdout"].startswith("cay\n")
        # Other languages start as ever.
        assert sandbox.sh("echo $0")["start"] == "cold" and sandbox.python("1")["start"] == "warm:science"
        assert cell(sandbox, "1", "js", language="node").ok()["start"] == "cold"
    with daemon.sandbox() as sandbox:
        assert cell(sandbox, "1").ok()["start"] == "warm:default"
    with daemon.sandbox(cold=True) as sandbox:
        assert cell(sandbox, "1").ok()["start"] == "cold"
    with daemon.sandbox(language="node") as sandbox:
        assert cell(sandbox, "1").ok()["start"] == "cold"
    answer = daemon.post("/v1/sandboxes", {"language": "python@3.4"})
    assert answer.status == 404 and answer.error["code"] == "runtime_not_found"
    with daemon.sandbox(limits={"memory": "128m"}) as sandbox:
        assert cell(sandbox, "1").ok()["start"] == "cold"
    r = daemon.run("import pandas as pd; pd.DataFrame({'a': [1]})", rich=True)
    assert "text/html" in r["results"][0] and r["start"] in ("cold", "warm:science")


# Other languages

def test_node_remembers(sandbox):
    js = {"language": "node", "context": "js"}
    assert cell(sandbox, "const a = 20; console.log('made')", **js).ok()["stdout"] == "made\n"
    assert value(sandbox, "const b = await Promise.resolve(22); a + b", **js) == "42"
    r = cell(sandbox, "throw new TypeError('no')", **js).ok()
    assert r["exception"]["name"] == "TypeError" and r["status"] == "failed" and not r["state_lost"]
    with under_way(sandbox, "for (;;);", **js) as answers:
        say(sandbox, "interrupt", "js").ok(202)
    assert answers[0].ok()["status"] == "failed" and value(sandbox, "a", **js) == "20"
    r = cell(sandbox, "for (;;);", limits={"timeout": "1s"}, **js).ok()
    assert r["status"] == "timeout" and not r["state_lost"]
    assert cell(sandbox, "process.reallyExit(3)", **js).ok()["state_lost"]
    assert cell(sandbox, "a", **js).ok()["exception"]["name"] == "ReferenceError"


def test_bash_remembers(sandbox):
    sh = {"language": "bash", "context": "sh"}
    cell(sandbox, "cd /tmp; x=1; f() { echo $x; }; export Y=2", **sh).ok()
    r = cell(sandbox, "pwd; f; printenv Y; echo oops >&2; false", **sh).ok()
    assert r["stdout"] == "/tmp\n1\n2\n" and r["stderr"] == "oops\n"
    assert r["exit_code"] == 1 and r["status"] == "failed" and r["exception"] is None
    with under_way(sandbox, "sleep 60", **sh) as answers:
        time.sleep(0.3)
        say(sandbox, "interrupt", "sh").ok(202)
    assert answers[0].ok()["exit_code"] == 130 and not answers[0].json["state_lost"]
    assert cell(sandbox, "f", **sh).ok()["stdout"] == "1\n"
    r = cell(sandbox, "sleep 60", limits={"timeout": "1s"}, **sh).ok()
    assert r["status"] == "timeout" and not r["state_lost"]
    r = cell(sandbox, "kill -9 $$", **sh).ok()
    assert r["status"] == "signal" and r["signal"] == 9 and r["state_lost"]
    assert cell(sandbox, "echo [$x]", **sh).ok()["stdout"] == "[]\n"


# What is asked for

def test_a_context_has_one_language_and_environment(sandbox):
    cell(sandbox, "x = 1").ok()
    refused = cell(sandbox, "1", language="bash")
    assert refused.status == 409 and "another language" in refused.json["error"]["message"]
    assert cell(sandbox, "1", env={"A": "b"}).status == 409


def test_environment_and_directory_are_its_starts(sandbox):
    asked = {"env": {"A": "b"}, "workdir": "/tmp"}
    assert value(sandbox, "import os; (os.environ['A'], os.getcwd())", **asked) == "('b', '/tmp')"
    assert value(sandbox, "os.getcwd()", **asked) == "'/tmp'"


def test_files_go_in_and_out_with_a_cell(sandbox):
    r = cell(sandbox, "open('out.txt', 'w').write(open('in.txt').read().upper())",
             files=[{"path": "in.txt", "text": "abc"}], get=["out.*"]).ok()
    assert [(f["path"], f["data"]) for f in r["files"]] == [("out.txt", "QUJD")]


def test_everything_new_comes_back(sandbox, daemon):
    """By "*": what was made or changed since the run began, wherever in the workspace, and nothing else."""
    make = "import os; os.makedirs('d/e', exist_ok=True); open('d/e/new', 'w').write('n'); open('old', 'a').write('+')"
    for _ in range(5):
        sandbox.sh("rm -rf *; echo -n old >old; echo kept >kept; mkdir -p d; echo kept >d/kept")
        for way in ({}, {"context": "main"}, {"rich": True}):
            r = sandbox.python(make, files=[{"path": "put", "text": "p"}], get=["*"], **way)
            assert sorted(f["path"] for f in r["files"]) == ["d/e/new", "old"], way
    r = sandbox.python("1", files=[{"path": "put", "text": "p"}], get=["*", "kep?"])
    assert [f["path"] for f in r["files"]] == ["kept"]
    for way in ({}, {"rich": True}):
        r = daemon.run(make, files=[{"path": "put", "text": "p"}], get=["*"], **way)
        assert sorted(f["path"] for f in r["files"]) == ["d/e/new", "old"]


def test_what_is_new_is_bounded(sandbox):
    answer = cell(sandbox, "open('a', 'w').truncate(70_000_000)", get=["*"])
    assert answer.status == 413 and value(sandbox, "1") == "1"


@pytest.mark.parametrize("body, status, word", [
    ({"context": "main", "argv": ["true"]}, 400, "code alone"),
    ({"context": "main", "code": "1", "args": ["a"]}, 400, "arguments"),
    ({"context": "main", "code": "1", "filename": "a.py"}, 400, "filename"),
    ({"context": "../x", "code": "1"}, 400, "name"),
    ({"context": "", "code": "1"}, 400, "name"),
    ({"context": "main", "code": "1", "language": "ruby"}, 422, "ruby"),
    ({"context": "main", "code": "\0", "language": "bash"}, 400, "NUL"),
    ({"rich": True, "code": "1", "language": "ruby"}, 422, "ruby"),
])
def test_what_a_context_is_not_for(sandbox, body, status, word):
    answer = sandbox.request("POST", "/runs", body)
    assert answer.status == status and word in answer.json["error"]["message"]


def test_a_run_of_its_own_has_no_context(daemon):
    error = daemon.post("/v1/runs", {"context": "main", "code": "1"})
    assert error.status == 400 and "sandbox" in error.json["error"]["hint"]


# One-shot runs whose values are shown

def test_rich_runs(daemon):
    r = daemon.run("print('out')\ndisplay(1)\n6 * 7", rich=True)
    assert r["results"] == [{"text/plain": "1"}, {"text/plain": "42"}] and r["stdout"] == "out\n"
    assert r["status"] == "ok" and r["context"] is None and not r["state_lost"] and r["exit_code"] == 0
    r = daemon.run("1 / 0", rich=True)
    assert r["exception"]["name"] == "ZeroDivisionError" and r["status"] == "failed" and r["exit_code"] == 1
    assert daemon.run("input() + input()", rich=True, stdin="a\nb\n")["results"] == [{"text/plain": "'ab'"}]
    assert "stdin" in daemon.run("input()", rich=True)["exception"]["value"]
    assert daemon.run("import os; os._exit(5)", rich=True)["exit_code"] == 5
    r = daemon.run("open('a.txt', 'w').write('abc')", rich=True, get=["*.txt"])
    assert r["results"] == [{"text/plain": "3"}] and r["files"][0]["path"] == "a.txt"
    r = daemon.run("import time; time.sleep(60)", rich=True, limits={"timeout": "1s"})
    assert r["status"] == "timeout"


def test_rich_commands_of_a_sandbox(sandbox):
    r = sandbox.python("x = 1\nx", rich=True)
    assert r["results"] == [{"text/plain": "1"}] and contexts(sandbox) == {}
