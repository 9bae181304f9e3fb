"""What commands of a sandbox printed: GET /v1/sandboxes/{id}/logs."""
import base64
import threading
import time

import pytest

from memory import Memory
from support import wait_until

pytestmark = pytest.mark.parametrize("daemon", ["root"], indirect=True)


def logs(sandbox, query=""):
    return sandbox.request("GET", f"/logs{query}").ok()["logs"]


def follow(sandbox, query="", **more):
    return sandbox.daemon.events("GET", f"{sandbox.url}/logs?follow=1{query}", timeout=30, **more)


def bytes_of(entries, stream="stdout"):
    return b"".join(e["text"].encode() if "text" in e else base64.b64decode(e["base64"])
                    for e in entries if e.get("stream", stream) == stream)


def test_empty(sandbox):
    assert logs(sandbox) == []


def test_what_was_printed(sandbox):
    began = time.time() * 1000
    run = sandbox.sh("echo out; sleep 0.1; echo err >&2")["id"]
    first, second = logs(sandbox)
    assert first == {"run": run, "stream": "stdout", "time": first["time"], "text": "out\n"}
    assert second == {"run": run, "stream": "stderr", "time": second["time"], "text": "err\n"}
    assert began - 1000 < first["time"] <= second["time"] < time.time() * 1000 + 1000


def test_of_one_run(sandbox):
    sandbox.sh("echo one")
    run = sandbox.sh("echo two")["id"]
    assert [e["text"] for e in logs(sandbox)] == ["one\n", "two\n"]
    assert [e["text"] for e in logs(sandbox, f"?run={run}")] == ["two\n"]
    assert logs(sandbox, "?run=run_0000000000000000") == []


def test_bytes_that_are_no_text(sandbox):
    sandbox.sh(r"printf '\377\376\000'")
    assert logs(sandbox)[0]["base64"] == base64.b64encode(b"\xff\xfe\0").decode()


def test_characters_are_not_cut(sandbox):
    sandbox.sh(r"printf '\342\202'; sleep 0.2; printf '\254.'; printf '\342' >&2")
    entries = logs(sandbox)
    assert [e["text"] for e in entries if e["stream"] == "stdout"] == ["€."]
    assert [e["base64"] for e in entries if e["stream"] == "stderr"] == ["4g=="]


def test_only_the_last_is_kept(sandbox):
    sandbox.sh("seq 1 400000; echo fin")
    data = bytes_of(logs(sandbox))
    assert data.endswith(b"400000\nfin\n") and len(data) <= 1 << 20


@pytest.mark.parametrize("query", ["?follow=2", "?run=x", "?run=", "?lines=3", "?follow="])
def test_bad_queries(sandbox, query):
    sandbox.request("GET", f"/logs{query}").refused(400, "invalid_request")


def test_what_is_not_there(daemon):
    assert daemon.get("/v1/sandboxes/sbx_0000000000000000/logs").status == 404


# Following

def test_follow(daemon, sandbox):
    first = sandbox.sh("echo before")["id"]
    with follow(sandbox) as events:
        name, data = next(events)
        assert (name, data["run"], data["text"]) == ("stdout", first, "before\n") and data["time"] > 0
        second = sandbox.sh("echo live >&2")["id"]
        name, data = next(events)
        assert (name, data["run"], data["text"]) == ("stderr", second, "live\n")
        daemon.delete(sandbox.url)
        assert next(events) == ("end", {})
        with pytest.raises(StopIteration):
            next(events)


def test_it_comes_as_it_is_printed(daemon, sandbox):
    with follow(sandbox) as events:
        worker = threading.Thread(target=sandbox.sh, args=("echo now; sleep 2; echo then",))
        began = time.monotonic()
        worker.start()
        assert next(events)[1]["text"] == "now\n" and time.monotonic() - began < 1.5
        assert next(events)[1]["text"] == "then\n"
        worker.join(10)


def test_follow_one_run(daemon, sandbox):
    old = sandbox.sh("echo mine")["id"]
    sandbox.sh("echo other")
    with follow(sandbox, f"&run={old}") as events:
        sandbox.sh("echo another")
        daemon.delete(sandbox.url)
        assert [(n, d.get("text")) for n, d in events.until("end")] == \
            [("stdout", "mine\n"), ("end", None)]


def test_two_follow(daemon, sandbox):
    with follow(sandbox) as a, follow(sandbox) as b:
        sandbox.sh("echo both")
        assert next(a)[1]["text"] == next(b)[1]["text"] == "both\n"


def test_not_too_many_follow(daemon, sandbox):
    held = [follow(sandbox) for _ in range(16)]
    with follow(sandbox) as one_more:
        assert one_more.status == 503
    for events in held:
        events.close()


def test_a_slow_follower_is_left_behind(daemon, sandbox):
    memory = Memory(daemon)
    with follow(sandbox, receive_buffer=4096) as events:
        began = time.monotonic()
        for _ in range(8):
            result = sandbox.sh("seq 1 300000")
            assert result["exit_code"] == 0
        assert time.monotonic() - began < 20  # nobody waited for it
        assert memory.grown() < 32 << 20
        found = events.until("lost")
        assert found[-1] == ("lost", {})
        with pytest.raises(StopIteration):
            next(events)


def test_followers_that_vanish(daemon, sandbox):
    fds = daemon.fds()
    for _ in range(40):
        follow(sandbox).close()
    sandbox.sh("echo nobody")
    wait_until(lambda: daemon.fds() <= fds + 1, 5, "the end of their connections")
