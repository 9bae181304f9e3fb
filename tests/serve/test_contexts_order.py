"""Contexts, whatever comes when: runs that are on their way there, restarts, pauses, words between cells."""

import time

import pytest

from support import wait_until
from test_contexts import cell, context, contexts, say, under_way, value

LARGE = [{"path": "large", "text": "x" * (12 << 20)}]
SLEEP = "import time; time.sleep(30)"  # should it have got there all the same


def begin(sandbox, code, context="main", **more):
    """In the background: with a large file, it has not got there when this returns."""
    return cell(sandbox, code, context, background=True, **more).ok(202)["id"]


def result(sandbox, run):
    with sandbox.daemon.events("GET", f"/v1/runs/{run}/events") as events:
        return list(events)[-1][1]


def test_a_context_that_is_deleted_before_its_run_gets_there(make_daemon):
    with make_daemon().sandbox() as sandbox:
        for _ in range(3):
            run = begin(sandbox, SLEEP, files=LARGE)
            sandbox.request("DELETE", "/contexts/main").ok()
            r = result(sandbox, run)
            assert r["status"] == "cancelled" and r["state_lost"] and r["context"] == "main", r
            assert contexts(sandbox) == {} and value(sandbox, "1 + 1", "other") == "2"
            sandbox.request("DELETE", "/contexts/other").ok()


def test_a_run_on_its_way_keeps_its_context(make_daemon):
    with make_daemon().sandbox(limits={"pids": 100}) as sandbox:
        for n in range(15):
            cell(sandbox, "1", f"c{n}").ok()
        run = begin(sandbox, "6 * 7", "late", files=LARGE)
        assert cell(sandbox, "1", "one-more").status == 409
        assert result(sandbox, run)["results"] == [{"text/plain": "42"}]


@pytest.mark.parametrize("end", ["cancel", "restart", "delete the sandbox"])
def test_other_ends_of_a_run_on_its_way(make_daemon, end):
    daemon = make_daemon()
    with daemon.sandbox() as sandbox:
        cell(sandbox, "x = 1").ok()
        run = begin(sandbox, SLEEP, files=LARGE)
        waits = begin(sandbox, "x")
        if end == "cancel":
            daemon.delete(f"/v1/runs/{run}").ok(202)
            r = result(sandbox, run)
            assert r["status"] == "cancelled" and not r["state_lost"]
            assert result(sandbox, waits)["results"] == [{"text/plain": "1"}]
        elif end == "restart":
            say(sandbox, "restart").ok()
            assert [(r["status"], r["state_lost"]) for r in (result(sandbox, run), result(sandbox, waits))] == [
                ("cancelled", True)] * 2
            assert cell(sandbox, "x").ok()["exception"]["name"] == "NameError"
        else:
            sandbox.request("DELETE").ok()
            r = result(sandbox, run)
            assert r.get("status") == "cancelled" or "files agent ended" in r["error"]["message"]
            assert result(sandbox, waits)["status"] == "cancelled"
        assert daemon.get("/v1/health").status == 200


def test_runs_that_are_sent_one_after_the_other_run_so(sandbox):
    cell(sandbox, "seen = []").ok()
    first = begin(sandbox, "seen.append(1)", files=LARGE)
    assert value(sandbox, "seen") == "[1]"
    assert result(sandbox, first)["status"] == "ok"


def test_the_first_run_decides_what_a_context_is(sandbox):
    """Also while its files are still on their way."""
    first = begin(sandbox, "6 * 7", files=LARGE)
    refused = cell(sandbox, "echo $((6 * 7))", language="bash")
    assert refused.status == 409 and "another language" in refused.json["error"]["message"]
    assert cell(sandbox, "1", env={"A": "b"}).status == 409
    assert result(sandbox, first)["results"] == [{"text/plain": "42"}]


def test_a_start_that_hangs_ends_in_time(make_daemon):
    """After a restart there is a process before there is a cell."""
    hangs = {"language": "node", "env": {"NODE_OPTIONS": "--require /workspace/h.js"}}
    daemon = make_daemon()
    with daemon.sandbox() as sandbox:
        sandbox.sh("echo 'if (require(\"fs\").existsSync(\"/workspace/hang\")) for (;;);' >h.js")
        for name in "with", "without":
            cell(sandbox, "1", name, **hangs).ok()
        sandbox.sh("touch hang")
        began = time.monotonic()
        for name in "with", "without":
            assert say(sandbox, "restart", name).ok()["state"] == "starting"
        run = begin(sandbox, "1", "with", limits={"timeout": "1s"}, **hangs)
        wait_until(lambda: daemon.get(f"/v1/runs/{run}").ok()["status"] != "running", 15, "the cell's time-out")
        assert result(sandbox, run)["status"] == "timeout"
        wait_until(lambda: context(sandbox, "without")["state"] == "ended", 60, "the end of what nobody waits for")
        assert time.monotonic() - began > 25
        sandbox.sh("rm hang")
        assert value(sandbox, "6 * 7", "without", **hangs) == "42"


def test_an_interrupt_waits_for_the_end_of_a_pause(make_daemon):
    daemon = make_daemon()
    with daemon.sandbox() as sandbox:
        cell(sandbox, "x = 1").ok()
        with under_way(sandbox, "import time; time.sleep(60)") as answers:
            sandbox.request("POST", "/pause").ok()
            refused = say(sandbox, "interrupt")
            assert refused.status == 409 and "paused" in refused.json["error"]["message"]
            daemon.delete("/v1/runs/" + context(sandbox)["run"]).ok(202)
            time.sleep(4)  # more than the grace
            assert not answers
            sandbox.request("POST", "/resume").ok()
        assert answers[0].ok()["status"] == "cancelled" and not answers[0].json["state_lost"]
        assert value(sandbox, "x") == "1"


def test_a_flood_between_cells_waits_for_the_next(make_daemon):
    """Whoever prints is held up when nobody has read for a while, and goes on with the next cell."""
    with make_daemon().sandbox() as sandbox:
        cell(sandbox, "import os, threading\ndef flood():\n    for n in range(3200):\n        os.write(1, b'x' * 65536)\n"
                      "        open('n', 'w').write(str(n))\n    open('all', 'w')\n"
                      "threading.Timer(0.5, flood).start()").ok()

        def stands():
            before = sandbox.sh("cat n 2>&1")["stdout"]
            time.sleep(1)
            return before == sandbox.sh("cat n 2>&1")["stdout"] != ""
        wait_until(stands, 60, "the pipe's end")
        assert 1000 < int(sandbox.sh("cat n")["stdout"]) < 1100  # 64 MiB, and what a pipe holds
        assert cell(sandbox, "1").ok()["stdout"].startswith("xxx") and context(sandbox)["state"] == "idle"
