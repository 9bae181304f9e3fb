"""Runs: plain, by events, in the background, dry, again, many at once; and what is refused."""

import base64
import json
import socket
import time

import pytest

from support import MIB, SOAK, wait_until

SLOW = "import time\ntime.sleep(60)"
LARGE = 1000 if SOAK else 200


def active(daemon):
    return daemon.metric("cay_runs_active")


def idle(daemon):
    wait_until(lambda: active(daemon) == 0, 10, "the end of all runs")


def test_result_is_that_of_the_command(daemon):
    ours = daemon.run("print(42)")
    theirs = daemon.cay.run("--json", "--allow-degraded", "-c", "print(42)").ok().json
    assert set(ours) == set(theirs)
    assert ours["stdout"] == "42\n" and ours["success"] and ours["exit_code"] == 0
    for name in ("status", "language", "version", "engine", "image", "network", "sandboxed"):
        assert ours[name] == theirs[name], name
    assert {k: v for k, v in ours["isolation"].items() if k != "degraded"} == {
        k: v for k, v in theirs["isolation"].items() if k != "degraded"}


def test_input_files_environment(daemon):
    result = daemon.run("import os,sys\nprint(sys.stdin.read(), os.environ['A'], open('in.txt').read())\n"
                        "open('out.bin','wb').write(bytes(range(256)))",
                        stdin="hello", env={"A": "ü"}, files=[{"path": "in.txt", "text": "from a file"}],
                        get=["*.bin"])
    assert result["stdout"] == "hello ü from a file\n"
    assert base64.b64decode(result["files"][0]["data"]) == bytes(range(256))


@pytest.mark.parametrize("code, status, exit_code", [
    ("raise SystemExit(3)", "failed", 3), ("import os\nos.kill(os.getpid(), 9)", "signal", None)])
def test_how_programs_end(daemon, code, status, exit_code):
    result = daemon.run(code)
    assert (result["status"], result["exit_code"], result["success"]) == (status, exit_code, False)


def test_limits(daemon):
    result = daemon.run(SLOW, limits={"timeout": 0.3})
    assert result["status"] == "timeout" and result["timed_out"]
    result = daemon.run("print('x' * 100000)", limits={"output": 1000})
    assert result["stdout_truncated"] and len(result["stdout"]) < 1100


FOUR_AT_WORK = """import os, time
for n in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
for n in range(4): os.wait()
"""
# Nobody waits for the one that works.
LEFT_AT_WORK = """import os, time
if os.fork() == 0:
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        open("done", "w").close()
    os._exit(0)
while not os.path.exists("done"): time.sleep(0.01)
"""
WAYS = [{}, {"files": [{"path": "a", "text": "x"}]}, {"cold": True}]


@pytest.mark.parametrize("way", WAYS)
def test_cpu_time_is_that_of_all_processes(daemon, way):
    if daemon.who == "user":
        return  # without a cgroup each process has its own
    result = daemon.run(FOUR_AT_WORK, limits={"cpu_time": 0.5}, **way)
    assert (result["status"], result["message"]) == ("timeout", "CPU time limit of 500 ms reached")
    assert daemon.run(FOUR_AT_WORK, limits={"cpu_time": 30}, **way)["usage"]["cpu_ms"] > 1000
    assert daemon.run(LEFT_AT_WORK, **way)["usage"]["cpu_ms"] > 270


def test_usage_is_that_of_the_whole_island(daemon):
    if daemon.who == "user":
        return  # without a cgroup only the largest process is known
    code = ("import os, time\nfor n in range(2):\n    if os.fork() == 0:\n"
            "        b = b'x' * (30 << 20); time.sleep(0.3); os._exit(0)\nfor n in range(2): os.wait()")
    for way in WAYS:
        usage = daemon.run(code, **way)["usage"]
        assert usage["memory_peak_bytes"] > 60 * MIB and usage["processes_peak"] in (3, None), (way, usage)


def test_what_a_compiler_leaves_running_ends_with_it(daemon):
    """And what a program leaves, before files are fetched."""
    result = daemon.run("import os, time\nif os.fork() == 0:\n    os.setsid()\n    for n in (0, 1, 2): os.close(n)\n"
                        "    time.sleep(1)\n    open('late', 'w').close()\n    os._exit(0)\nopen('f', 'w').close()",
                        get=["*"])
    assert [f["path"] for f in result["files"]] == ["f"]


def test_memory_limit(daemon):
    if daemon.who == "user":
        return  # nothing limits it there, and the result says so
    result = daemon.run("x = bytearray(200 << 20)", limits={"memory": "64m"})
    assert result["status"] == "out_of_memory"


def test_bytes_are_exact(daemon):
    data = bytes(range(256)) * 3
    result = daemon.run(f"import sys\nsys.stdout.buffer.write({data!r})")
    assert base64.b64decode(result["stdout_base64"]) == data
    text = "ü€😀\u202e\x1b]52;c;x\x07\n"
    assert daemon.run(f"print({text!r}, end='')")["stdout"] == text


def test_events(daemon):
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)"
    with daemon.events("POST", "/v1/runs", {"code": code}) as events:
        got = list(events)
    assert [name for name, _ in got if name not in ("stdout", "stderr")] == ["start", "result"]
    assert "".join(d["text"] for n, d in got if n == "stdout") == "out\n"
    assert "".join(d["text"] for n, d in got if n == "stderr") == "err\n"
    start, result = got[0][1], got[-1][1]
    assert start["id"] == result["id"] and start["isolation"]["seccomp"] == "allowlist"
    assert result["stdout"] == "out\n"


def test_events_come_as_they_happen(daemon):
    code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.3)"
    times = []
    with daemon.events("POST", "/v1/runs", {"code": code}) as events:
        for name, _ in events:
            if name == "stdout":
                times.append(time.monotonic())
    assert len(times) == 3 and times[2] - times[0] > 0.4


def test_events_never_cut_a_character(daemon):
    code = ("import sys,time\nb='😀'.encode()\nfor i in range(20):\n    for c in b:\n"
            "        sys.stdout.buffer.write(bytes([c])); sys.stdout.flush(); time.sleep(0.002)")
    with daemon.events("POST", "/v1/runs", {"code": code}) as events:
        got = list(events)
    assert "".join(d["text"] for n, d in got if n == "stdout") == "😀" * 20
    with daemon.events("POST", "/v1/runs", {"code": "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe')"}) as events:
        got = list(events)
    assert b"".join(base64.b64decode(d["base64"]) for n, d in got if n == "stdout") == b"\xff\xfe"


def test_events_of_what_can_not_be_run(daemon):
    with daemon.events("POST", "/v1/runs", {"language": "klingon", "code": "x"}) as events:
        assert events.status == 404
        assert json.loads(events.response.read())["error"]["code"] == "runtime_not_found"


def test_background(daemon):
    begun = daemon.post("/v1/runs", {"code": "import time\ntime.sleep(0.3)\nprint('late')", "background": True})
    run = begun.ok(202)
    assert run["status"] == "running" and run["background"]
    assert daemon.get(f"/v1/runs/{run['id']}").ok()["status"] == "running"
    assert run["id"] in [r["id"] for r in daemon.get("/v1/runs").ok()["runs"]]
    with daemon.events("GET", f"/v1/runs/{run['id']}/events") as events:
        got = events.until("result")
    assert got[-1][1]["stdout"] == "late\n"
    kept = daemon.get(f"/v1/runs/{run['id']}").ok()
    assert kept == got[-1][1]
    # Those who come after the end are told, too.
    with daemon.events("GET", f"/v1/runs/{run['id']}/events") as events:
        assert list(events) == [("result", kept)]


def test_background_run_with_much_output_is_kept(daemon):
    run = daemon.post("/v1/runs", {"code": "print('ü' * 500000)", "background": True}).ok(202)
    idle(daemon)
    assert daemon.get(f"/v1/runs/{run['id']}").ok()["stdout"] == "ü" * 500000 + "\n"


def test_background_result_that_is_too_long_is_said(daemon):
    run = daemon.post("/v1/runs", {"code": "print('x' * (5 << 20))", "limits": {"output": "6m"},
                                   "background": True}).ok(202)
    idle(daemon)
    kept = daemon.get(f"/v1/runs/{run['id']}").ok()
    assert kept["status"] == "ok" and kept["result_kept"] is False and "stdout" not in kept
    assert kept["message"] == "its result is not kept: it has more than 4 MiB"


def test_followers_of_a_silent_run_are_answered_at_once(daemon):
    run = daemon.post("/v1/runs", {"argv": ["sleep", "20"], "background": True}).ok(202)
    time.sleep(1)  # who comes before its start is told of that
    began = time.monotonic()
    with daemon.events("GET", f"/v1/runs/{run['id']}/events") as events:
        assert events.status == 200 and time.monotonic() - began < 10
        daemon.delete(f"/v1/runs/{run['id']}").ok(202)
        assert events.until("result")[-1][1]["status"] == "cancelled"


def test_old_results_make_room(make_daemon):
    daemon = make_daemon(settings="[serve]\nhistory_size = 1m\n")
    runs = []
    for _ in range(3):
        runs.append(daemon.post("/v1/runs", {"code": "print('x' * 400000)", "background": True}).ok(202)["id"])
        idle(daemon)
    first, second, third = (daemon.get(f"/v1/runs/{run}").ok() for run in runs)
    assert first["status"] == "ok" and first["result_kept"] is False and "stdout" not in first
    assert second["stdout"] == third["stdout"] == "x" * 400000 + "\n"
    listed = {run["id"]: run["result_kept"] for run in daemon.get("/v1/runs").ok()["runs"]}
    assert listed == dict(zip(runs, [False, True, True]))
    with daemon.events("GET", f"/v1/runs/{runs[0]}/events") as events:
        assert list(events) == [("result", first)]


def test_background_run_that_could_not_begin(daemon):
    body = {"argv": ["/nowhere"], "background": True}
    run = daemon.post("/v1/runs", body).ok(202)
    idle(daemon)
    kept = daemon.get(f"/v1/runs/{run['id']}").ok()
    assert kept["status"] in ("failed", "sandbox_error")
    assert daemon.delete(f"/v1/runs/{run['id']}").ok() == kept


def test_cancel(daemon):
    run = daemon.post("/v1/runs", {"code": SLOW, "background": True}).ok(202)
    daemon.delete(f"/v1/runs/{run['id']}").ok(202)
    idle(daemon)
    assert daemon.get(f"/v1/runs/{run['id']}").ok()["status"] == "cancelled"
    # Again, when there is nothing to cancel any more: what became of it.
    assert daemon.delete(f"/v1/runs/{run['id']}").ok()["status"] == "cancelled"


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("events", [False, True])
def test_a_client_that_goes_away_cancels_its_run(daemon, events, tcp):
    key = daemon.key(f"leaver-{events}")[0] if tcp else None
    headers = {"Accept": "text/event-stream"} if events else {}
    connection = daemon.begin("POST", "/v1/runs", {"code": SLOW}, key=key, headers=headers)
    wait_until(lambda: active(daemon) == 1, 5, "the start")
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    began = time.monotonic()
    idle(daemon)
    assert time.monotonic() - began < 5
    for k in daemon.get("/v1/keys").ok()["keys"]:
        daemon.delete(f"/v1/keys/{k['id']}")


def test_a_follower_that_goes_away_cancels_nothing(daemon):
    run = daemon.post("/v1/runs", {"code": "import time\ntime.sleep(1)\nprint('done')", "background": True}).ok(202)
    with daemon.events("GET", f"/v1/runs/{run['id']}/events"):
        pass
    idle(daemon)
    assert daemon.get(f"/v1/runs/{run['id']}").ok()["status"] == "ok"


def test_dry_run(daemon):
    dry = daemon.run("print(42)", dry_run=True, limits={"memory": "64m"})["dry_run"]
    theirs = daemon.cay.run("--json", "--dry-run", "-m", "64m", "-c", "print(42)").ok().json["dry_run"]
    assert set(dry) == set(theirs) and dry["limits"]["memory"] == 64 * MIB
    for name in ("argv", "env", "enforced", "denied", "language", "version"):
        assert dry[name] == theirs[name], name
    assert active(daemon) == 0


def test_history(daemon):
    ids = [daemon.run("pass")["id"] for _ in range(5)]
    first = daemon.get("/v1/runs?limit=2").ok()
    assert [r["id"] for r in first["runs"]] == ids[:2:-1] and first["cursor"]
    second = daemon.get(f"/v1/runs?limit=3&cursor={first['cursor']}").ok()
    assert [r["id"] for r in second["runs"]] == ids[2::-1]
    one = daemon.get(f"/v1/runs/{ids[0]}").ok()
    assert (one["status"], one["exit_code"], one["language"]) == ("ok", 0, "python")
    assert one["started"] <= one["ended"] and one["usage"]["wall_ms"] > 0
    assert "stdout" not in one
    assert daemon.get("/v1/runs?sandbox=sbx_0123456789abcdef").ok()["runs"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=" + "1" * 100])
def test_wrong_pages(daemon, query):
    daemon.get(f"/v1/runs?{query}").refused(400, "invalid_request")


@pytest.mark.parametrize("body, status, code", [
    ({}, 400, "invalid_request"),
    ({"code": "x", "cod": 1}, 400, "invalid_request"),
    ({"code": 3}, 400, "invalid_request"),
    ({"code": "x", "language": "klingon"}, 404, "runtime_not_found"),
    ({"code": "x", "language": "python", "version": "99"}, 404, "runtime_not_found"),
    ({"code": "x", "limits": {"memory": "lots"}}, 400, "invalid_request"),
    ({"code": "x", "engine": "direct"}, 403, "policy_denied"),
    ({"code": "x", "mode": "off"}, 403, "policy_denied"),
    ({"code": "x", "mounts": [{"source": "/etc", "target": "/x"}]}, 403, "policy_denied"),
])
def test_refused(daemon, body, status, code):
    assert daemon.post("/v1/runs", body).refused(status, code)["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"code":"x","code":"y"}', b'{"code":NaN}', b"\xff",
                                  b"[" * 100000])
def test_no_json(daemon, body):
    daemon.request("POST", "/v1/runs", body=body).refused(400, "invalid_request")


def test_unknown_runs(daemon):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/events")):
        for run in ("run_0123456789abcdef", "x", "%00", "a%0ab", "-" * 500):
            answer = daemon.request(method, f"/v1/runs/{run}{path}")
            assert answer.status in (400, 404), (method, run, answer.body)


# Idempotency

def test_idempotency(daemon):
    headers, body = {"Idempotency-Key": "one"}, {"code": "import os\nprint(os.urandom(8).hex())"}
    first = daemon.post("/v1/runs", body, headers=headers)
    again = daemon.post("/v1/runs", body, headers=headers)
    assert first.ok() == again.ok()
    assert again.headers["idempotency-replayed"] == "true" and "idempotency-replayed" not in first.headers
    daemon.post("/v1/runs", {"code": "print(1)"}, headers=headers).refused(409, "conflict")
    assert daemon.post("/v1/runs", body).ok()["stdout"] != first.json["stdout"]


def test_idempotency_of_refusals(daemon):
    headers = {"Idempotency-Key": "refused"}
    assert daemon.post("/v1/runs", {"cod": 1}, headers=headers).status == 400
    again = daemon.post("/v1/runs", {"cod": 1}, headers=headers)
    assert again.status == 400 and again.headers["idempotency-replayed"] == "true"


def test_idempotency_in_the_background(daemon):
    headers, body = {"Idempotency-Key": "behind"}, {"code": "pass", "background": True}
    first, again = (daemon.post("/v1/runs", body, headers=headers).ok(202) for _ in range(2))
    assert first == again
    idle(daemon)


def test_idempotency_while_the_first_is_under_way(daemon):
    headers, body = {"Idempotency-Key": "slow"}, {"code": SLOW}
    connection = daemon.begin("POST", "/v1/runs", body, headers=headers)
    wait_until(lambda: active(daemon) == 1, 5, "the start")
    refused = daemon.post("/v1/runs", body, headers=headers).refused(409, "conflict")
    assert "under way" in refused["message"] and refused["hint"]
    connection.close()
    idle(daemon)
    # Nobody got an answer: the key may be used again.
    assert daemon.post("/v1/runs", {"code": "print(7)"}, headers=headers).ok()["stdout"] == "7\n"


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_wrong_idempotency_keys(daemon, key):
    daemon.post("/v1/runs", {"code": "x"}, headers={"Idempotency-Key": key}).refused(400, "invalid_request")


def test_no_idempotency_for_streams(daemon):
    headers = {"Idempotency-Key": "stream"}
    with daemon.events("POST", "/v1/runs", {"code": "x"}, headers=headers) as events:
        assert events.status == 400
    daemon.post("/v1/batches", {"runs": []}, headers=headers).refused(400, "invalid_request")


# Batches

def test_batch(daemon):
    runs = [{"code": f"print({i})"} for i in range(20)] + [{"cod": 1}, {"code": "raise SystemExit(2)"}]
    answer = daemon.post("/v1/batches", {"runs": runs, "parallel": 4})
    assert answer.status == 200 and answer.headers["content-type"] == "application/x-ndjson"
    by_index = {line["index"]: line for line in answer.lines}
    assert len(by_index) == len(answer.lines) == 22
    assert [by_index[i]["result"]["stdout"] for i in range(20)] == [f"{i}\n" for i in range(20)]
    assert by_index[20]["error"]["code"] == "invalid_request"
    assert by_index[21]["result"]["exit_code"] == 2


def test_batch_by_events(daemon):
    with daemon.events("POST", "/v1/batches", {"runs": [{"argv": ["true"]}] * 5}) as events:
        got = list(events)
    assert [name for name, _ in got] == ["result"] * 5
    assert sorted(data["index"] for _, data in got) == list(range(5))


def test_large_batch(daemon):
    runs = [{"argv": ["echo", str(i)]} for i in range(LARGE)]
    lines = daemon.post("/v1/batches", {"runs": runs, "parallel": 8}, timeout=240).lines
    assert sorted((line["index"], line["result"]["stdout"]) for line in lines) == [
        (i, f"{i}\n") for i in range(LARGE)]
    idle(daemon)


def test_results_of_a_batch_come_as_they_finish(daemon):
    runs = [{"argv": ["sleep", "1"]}, {"argv": ["true"]}]
    lines = daemon.post("/v1/batches", {"runs": runs}).lines
    assert [line["index"] for line in lines] == [1, 0]


def test_a_client_that_goes_away_cancels_its_batch(daemon):
    connection = daemon.begin("POST", "/v1/batches", {"runs": [{"code": SLOW}] * 10, "parallel": 3})
    wait_until(lambda: active(daemon) == 3, 5, "the start")
    connection.close()
    idle(daemon)


@pytest.mark.parametrize("body", [{}, {"runs": 1}, {"runs": [], "paralel": 1}, {"runs": [], "parallel": 0},
                                  {"runs": [{}] * 10001}])
def test_wrong_batches(daemon, body):
    daemon.post("/v1/batches", body).refused(400, "invalid_request")


def test_empty_batch(daemon):
    assert daemon.post("/v1/batches", {"runs": []}).lines == []


def test_batch_has_no_background(daemon):
    lines = daemon.post("/v1/batches", {"runs": [{"code": "x", "background": True}, {"code": "x", "dry_run": True}]}).lines
    assert [line["error"]["code"] for line in lines] == ["invalid_request"] * 2


# At once

def test_no_more_at_once_than_allowed(make_daemon):
    daemon = make_daemon(settings="[serve]\nmax_runs = 2\n")
    ids = [daemon.post("/v1/runs", {"code": SLOW, "background": True}).ok(202)["id"] for _ in range(2)]
    answer = daemon.post("/v1/runs", {"code": "x", "wait": 0})
    answer.refused(503, "at_capacity")
    assert answer.headers["retry-after"] == "1"
    for run in ids:
        daemon.delete(f"/v1/runs/{run}").ok(202)
    idle(daemon)
    # A batch waits for room instead.
    lines = daemon.post("/v1/batches", {"runs": [{"argv": ["true"]}] * 6, "parallel": 6}).lines
    assert [line["result"]["status"] for line in lines] == ["ok"] * 6


# After the end

def test_history_outlives_the_daemon(make_daemon):
    daemon = make_daemon()
    done = daemon.post("/v1/runs", {"code": "print('kept')", "background": True}).ok(202)
    plain = daemon.run("pass")["id"]
    idle(daemon)
    daemon.restart()
    assert daemon.get(f"/v1/runs/{done['id']}").ok()["stdout"] == "kept\n"
    assert daemon.get(f"/v1/runs/{plain}").ok()["status"] == "ok"


@pytest.mark.parametrize("which", ["api", "launcher", "serve"])
def test_killed_daemons_tell_no_lies(make_daemon, which):
    daemon = make_daemon()
    run = daemon.post("/v1/runs", {"code": SLOW, "background": True}).ok(202)
    daemon.kill9(which)
    if which == "serve":
        daemon.start()
    kept = daemon.get(f"/v1/runs/{run['id']}").ok()
    assert kept["status"] == "interrupted" and kept["ended"] >= kept["started"]
    assert daemon.run("print(1)")["stdout"] == "1\n"


def test_a_daemon_that_ends_finishes_what_runs(make_daemon):
    daemon = make_daemon()
    connection = daemon.begin("POST", "/v1/runs", {"code": "import time\ntime.sleep(1)\nprint('done')"})
    wait_until(lambda: active(daemon) == 1, 5, "the start")
    daemon.ask_to_end()
    assert json.loads(connection.getresponse().read())["stdout"] == "done\n"
    connection.close()
    daemon.stop()
