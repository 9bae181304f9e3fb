"""Keys: who gets in, what a key may have, and that no key sees another's things."""

import contextlib
import hashlib
import http.client
import re
import sqlite3
import time

import pytest

from sandbox import Sandbox
from support import wait_until
from terminal import Terminal
from websocket import Refused

SLOW = "import time\ntime.sleep(60)"


@pytest.fixture
def key(daemon, request):
    """Makes keys that are revoked at the end."""
    made = []

    def make(**more):
        text, key_id = daemon.key(f"k{len(made)}", **more)
        made.append(key_id)
        return text, key_id
    yield make
    for key_id in made:
        daemon.delete(f"/v1/keys/{key_id}")


def idle(daemon):
    wait_until(lambda: daemon.metric("cay_runs_active") == 0, 10, "the end of all runs")


# Who gets in

def test_a_key_is_made_listed_and_revoked(daemon):
    quotas = {"parallel_runs": 3, "runs_per_minute": 60, "live_sandboxes": 2, "cpu_seconds_per_day": 100}
    made = daemon.post("/v1/keys", {"name": "ci", "tier": "standard", "quotas": quotas,
                                    "bounds": {"limits": {"memory": "1g"}}}).ok(201)
    assert re.fullmatch(r"cay_[A-Za-z0-9_-]{43}", made["key"])
    assert made["key"].startswith(made["shown"]) and made["quotas"] == quotas
    listed = [k for k in daemon.get("/v1/keys").ok()["keys"] if k["id"] == made["id"]]
    assert listed == [{k: v for k, v in made.items() if k != "key"}]
    assert daemon.run("print(1)", key=made["key"])["stdout"] == "1\n"
    assert [k for k in daemon.get("/v1/keys").ok()["keys"] if k["id"] == made["id"]][0]["last_used"]
    daemon.delete(f"/v1/keys/{made['id']}").ok(204)
    answer = daemon.post("/v1/runs", {"code": "x"}, key=made["key"])
    answer.refused(401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert made["id"] not in [k["id"] for k in daemon.get("/v1/keys").ok()["keys"]]
    gone = [k for k in daemon.get("/v1/keys?revoked=true").ok()["keys"] if k["id"] == made["id"]]
    assert gone[0]["revoked"]
    daemon.delete(f"/v1/keys/{made['id']}").refused(404, "not_found")


def test_names_are_unique(daemon, key):
    key()
    daemon.post("/v1/keys", {"name": "k0"}).refused(409, "conflict")


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x", "tier": "god"}, {"name": "x", "quotas": {"runs": 1}},
                                  {"name": "x", "bounds": {"engines": ["x"]}}, {"name": "x\ny"}, {"nam": "x"}])
def test_wrong_keys(daemon, body):
    daemon.post("/v1/keys", body).refused(400, "invalid_request")


@pytest.mark.parametrize("value", [
    None, "", "Bearer", "Bearer ", "Bearer x", "Basic Y2F5OmNheQ==", "Bearer cay_" + "A" * 43,
    "cay_" + "A" * 43, "Bearer cay_" + "A" * 5000, "Bearer cay_%00", "Bearer " + "é" * 20])
def test_nobody_gets_in_without_a_key(daemon, value):
    headers = {} if value is None else {"Authorization": value}
    for method, path in (("GET", "/v1/runs"), ("POST", "/v1/runs"), ("GET", "/metrics"), ("GET", "/v1/audit"),
                         ("GET", "/v1/events"), ("GET", "/v1/keys"), ("GET", "/v1/runtimes")):
        answer = daemon.request(method, path, headers=headers, tcp=True)
        answer.refused(401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert daemon.get("/v1/health", headers=headers, tcp=True).ok()["status"] == "ok"


def test_two_keys_in_one_request(daemon, key):
    text, _ = key()
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=10)
    connection.putrequest("GET", "/v1/runs")
    connection.putheader("Authorization", f"Bearer {text}")
    connection.putheader("Authorization", "Bearer cay_" + "A" * 43)
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_the_scheme_is_read_in_any_case(daemon, key):
    text, _ = key()
    assert daemon.get("/v1/runs", headers={"Authorization": f"bEARER   {text}"}, tcp=True).status == 200


def test_unknown_and_revoked_look_the_same(daemon, key):
    text, key_id = key()
    daemon.delete(f"/v1/keys/{key_id}").ok(204)
    revoked = daemon.get("/v1/runs", key=text).refused(401, "unauthorized")
    unknown = daemon.get("/v1/runs", key="cay_" + "B" * 43).refused(401, "unauthorized")
    assert revoked["message"] == unknown["message"]


def test_wrong_keys_cost_the_same_time(daemon, key):
    """No byte of a key can be found by measuring: it is looked up by its hash."""
    text, _ = key()
    connection = daemon.connection(tcp=True)

    def measure(candidate):
        times = []
        for _ in range(60):
            began = time.perf_counter()
            connection.request("GET", "/v1/runs", headers={"Authorization": f"Bearer {candidate}"})
            connection.getresponse().read()
            times.append(time.perf_counter() - began)
        return sorted(times)[10]
    near, far = text[:-2] + ("AA" if not text.endswith("AA") else "BB"), "cay_" + "Z" * 43
    assert 0.4 < measure(near) / measure(far) < 2.5
    connection.close()


def test_a_key_counts_at_the_socket_as_well(daemon, key):
    """Whoever shows one is its holder, and no operator."""
    text, key_id = key()
    run = daemon.post("/v1/runs", {"code": "pass"}, key=text, tcp=False).ok()["id"]
    assert daemon.get(f"/v1/runs/{run}").ok()["owner"] == key_id
    daemon.get("/v1/keys", key=text, tcp=False).refused(403, "policy_denied")
    daemon.get("/v1/runs", key="cay_" + "A" * 43, tcp=False).refused(401, "unauthorized")


def test_only_operators_manage(daemon, key):
    text, key_id = key(tier="unrestricted")
    for method, path, body in (("GET", "/v1/keys", None), ("POST", "/v1/keys", {"name": "mine"}),
                               ("DELETE", f"/v1/keys/{key_id}", None), ("GET", "/v1/audit", None)):
        daemon.request(method, path, json=body, key=text).refused(403, "policy_denied")
    assert daemon.get("/v1/runs", key=text).status == 200


def test_operators_are_known_by_the_kernel(daemon):
    assert daemon.get("/v1/keys").status == 200
    owner = daemon.get(f"/v1/runs/{daemon.run('pass')['id']}").ok()["owner"]
    assert owner == "uid:0"


# Secrets

def test_keys_are_nowhere_in_clear(daemon, key):
    text, _ = key()
    daemon.run("pass", key=text)
    daemon.post("/v1/runs", {"cod": 1}, key=text)
    daemon.get("/v1/runs", key=text[:-1] + "!")
    daemon.get("/v1/" + text)
    time.sleep(0.3)  # it is in the database
    secret = text[8:].encode()
    shown = b"".join(daemon.get(p).body for p in ("/metrics", "/v1/keys", "/v1/audit", "/v1/runs"))
    assert secret not in shown and secret not in daemon.log.encode()
    for path in daemon.state.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path
    with sqlite3.connect(f"file:{daemon.state}/cay.db?mode=ro", uri=True) as db:
        hashes = [row[0] for row in db.execute("SELECT hash FROM keys")]
    assert hashlib.sha256(text.encode()).digest() in hashes
    for pid in daemon.pids().values():
        assert secret not in open(f"/proc/{pid}/cmdline", "rb").read()


def test_a_key_is_not_kept_for_idempotency(daemon):
    daemon.post("/v1/keys", {"name": "once"}, headers={"Idempotency-Key": "k"}).refused(400, "invalid_request")


# One never sees another's

def test_keys_do_not_see_each_other(daemon, key):
    """ATTACKS 33."""
    (alice, alice_id), (bob, _) = key(), key()
    done = daemon.run("pass", key=alice)["id"]
    slow = daemon.post("/v1/runs", {"code": SLOW, "background": True}, key=alice).ok(202)["id"]
    operators = daemon.post("/v1/runs", {"code": SLOW, "background": True}).ok(202)["id"]
    for run in (done, slow, operators):
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/events")):
            hidden = daemon.request(method, f"/v1/runs/{run}{path}", key=bob).refused(404, "not_found")
            none = daemon.request(method, f"/v1/runs/run_0123456789abcdef{path}", key=bob).refused(404, "not_found")
            assert hidden["message"].replace(run, "X") == none["message"].replace("run_0123456789abcdef", "X")
    assert daemon.get("/v1/runs", key=bob).ok()["runs"] == []
    assert {r["id"] for r in daemon.get("/v1/runs", key=alice).ok()["runs"]} == {done, slow}
    everything = {r["id"]: r["owner"] for r in daemon.get("/v1/runs").ok()["runs"]}
    assert everything[done] == everything[slow] == alice_id and everything[operators].startswith("uid:")
    assert daemon.get(f"/v1/runs/{slow}").ok()["status"] == "running"  # nobody cancelled it
    daemon.delete(f"/v1/runs/{slow}", key=alice).ok(202)
    daemon.delete(f"/v1/runs/{operators}").ok(202)
    idle(daemon)


def refusal(daemon, name, key, headers=None, **params):
    """The status with which a terminal is refused."""
    with pytest.raises(Refused) as refused:
        Terminal(Sandbox(daemon, name, key), headers=headers, **params)
    return refused.value.status


def test_sandboxes_of_others_are_not_there_for_any_operation(daemon, key):
    """By id and by name, also the terminal whose id is known."""
    mine, theirs = key()[0], key()[0]
    made = daemon.post("/v1/sandboxes", {"name": "hidden"}, key=mine).ok(201)
    path = f"/v1/sandboxes/{made['id']}"
    daemon.request("PUT", f"{path}/files?path=f", body=b"x", key=mine).ok(201)
    terminal = Terminal(Sandbox(daemon, made["id"], mine))
    for name in (made["id"], "hidden"):
        at = f"/v1/sandboxes/{name}"
        for method, rest, body in (
                ("GET", "", None), ("PATCH", "", {"ttl": 60}), ("POST", "/runs", {"command": "true"}),
                ("POST", "/pause", None), ("POST", "/resume", None), ("GET", "/logs", None), ("GET", "/logs?follow=1", None),
                ("GET", "/files?path=f", None), ("GET", "/files/list?path=.", None), ("GET", "/files/stat?path=f", None),
                ("GET", "/files/archive?path=.", None), ("GET", "/files/watch?path=.", None),
                ("POST", "/files/mkdir", {"path": "d"}), ("POST", "/files/move", {"from": "f", "to": "g"}),
                ("DELETE", "/files?path=f", None), ("DELETE", "", None)):
            daemon.request(method, at + rest, json=body, key=theirs).refused(404, "not_found")
        for rest in ("/files?path=f", "/files/archive?path=."):
            method = "PUT" if "archive" not in rest else "POST"
            daemon.request(method, at + rest, body=b"y", key=theirs).refused(404, "not_found")
        assert refusal(daemon, name, theirs) == 404
        assert refusal(daemon, name, theirs, terminal=terminal.id) == 404
    # The controls: it is there for its owner, whole, and so is the terminal.
    assert daemon.get(f"{path}/files?path=f", key=mine).body == b"x"
    with terminal, Terminal(Sandbox(daemon, made["id"], mine), terminal=terminal.id) as again:
        assert again.id == terminal.id
    daemon.delete(path, key=mine).ok()


def test_a_terminal_from_another_site_is_refused(daemon, key):
    text, _ = key()
    name = daemon.post("/v1/sandboxes", {}, key=text).ok(201)["id"]
    assert refusal(daemon, name, text, {"Origin": "http://evil.example"}) == 403
    assert refusal(daemon, name, text, {"Host": "evil.example"}) in (400, 403, 421)
    sandbox = Sandbox(daemon, name, text)
    Terminal(sandbox).socket.close()
    sandbox.request("DELETE").ok()


def test_nothing_of_a_revoked_key_goes_on(daemon, key):
    (text, key_id), (other, _) = key(), key()
    box = daemon.post("/v1/sandboxes", {}, key=text).ok(201)["id"]
    kept = daemon.post("/v1/sandboxes", {"persistent": True}, key=text).ok(201)["id"]
    daemon.post(f"/v1/sandboxes/{kept}/runs", {"command": "echo 1 >f"}, key=text).ok()
    theirs = daemon.post("/v1/runs", {"code": SLOW, "background": True}, key=other).ok(202)["id"]
    printing = "while true; do echo more; sleep 0.1; done"  # so that there is an event to follow
    behind = [daemon.post(f"/v1{on}/runs", {"command": printing, "background": True}, key=text).ok(202)["id"]
              for on in ("", f"/sandboxes/{box}", f"/sandboxes/{kept}")]
    terminal = Terminal(Sandbox(daemon, box, text))
    streams = [daemon.events("GET", path, key=text)
               for path in ("/v1/events", f"/v1/sandboxes/{box}/logs?follow=true", f"/v1/runs/{behind[0]}/events",
                            f"/v1/sandboxes/{kept}/files/watch?path=.")]
    streams.append(daemon.events("POST", "/v1/runs", {"code": SLOW}, key=text))
    assert [s.status for s in streams] == [200] * 5
    daemon.delete(f"/v1/keys/{key_id}").ok(204)
    for stream in streams:
        stream.socket.settimeout(10)
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            while stream.response.read(1):  # up to its end
                pass
        stream.close()
    terminal.socket.settimeout(10)
    with contextlib.suppress(ConnectionError):
        while terminal.socket.recv(4096):
            pass
    terminal.socket.close()
    for run in behind:
        wait_until(lambda: daemon.get(f"/v1/runs/{run}").ok()["status"] == "cancelled", 10, "the end of its run")
    assert "key was revoked" in daemon.get(f"/v1/sandboxes/{box}").refused(410, "expired")["message"]
    wait_until(lambda: daemon.get(f"/v1/sandboxes/{kept}").ok()["state"] == "stopped", 10, "its stop")
    assert daemon.post(f"/v1/sandboxes/{kept}/runs", {"command": "cat f"}).ok()["stdout"] == "1\n"
    daemon.delete(f"/v1/sandboxes/{kept}").ok()
    assert daemon.get(f"/v1/runs/{theirs}").ok()["status"] == "running"
    daemon.delete(f"/v1/runs/{theirs}").ok(202)


def test_events_do_not_show_others(daemon, key):
    (alice, _), (bob, _) = key(), key()
    with daemon.events("GET", "/v1/events", key=bob) as events, daemon.events("GET", "/v1/events") as all_events:
        theirs = daemon.run("pass", key=alice)["id"]
        own = daemon.run("pass", key=bob)["id"]
        seen = [data["id"] for name, data in events.until("run.ended")]
        assert seen == [own, own]
        got = []
        for name, data in all_events:
            got.append((name, data["id"]))
            if (name, data["id"]) == ("run.ended", own):
                break
        assert ("run.started", theirs) in got and ("run.ended", theirs) in got


def test_idempotency_keys_are_each_callers_own(daemon, key):
    (alice, _), (bob, _) = key(), key()
    headers, body = {"Idempotency-Key": "same"}, {"code": "import os\nprint(os.urandom(8).hex())"}
    ours = daemon.post("/v1/runs", body, key=alice, headers=headers).ok()
    theirs = daemon.post("/v1/runs", body, key=bob, headers=headers)
    assert theirs.ok()["stdout"] != ours["stdout"] and "idempotency-replayed" not in theirs.headers


# Quotas

def test_parallel_runs(daemon, key):
    text, _ = key(quotas={"parallel_runs": 1})
    run = daemon.post("/v1/runs", {"code": SLOW, "background": True}, key=text).ok(202)["id"]
    answer = daemon.post("/v1/runs", {"code": "x", "wait": 0}, key=text)
    assert "parallel_runs" in answer.refused(429, "rate_limited")["message"]
    assert int(answer.headers["retry-after"]) >= 1
    daemon.run("pass")  # others have theirs
    daemon.delete(f"/v1/runs/{run}", key=text).ok(202)
    idle(daemon)
    assert daemon.run("print(1)", key=text)["stdout"] == "1\n"
    lines = daemon.post("/v1/batches", {"runs": [{"argv": ["true"]}] * 5, "parallel": 5}, key=text).lines
    assert [line["result"]["status"] for line in lines] == ["ok"] * 5


def test_runs_per_minute(daemon, key):
    text, _ = key(quotas={"runs_per_minute": 3})
    for _ in range(3):
        daemon.run("pass", key=text)
    answer = daemon.post("/v1/runs", {"code": "x"}, key=text)
    assert "runs_per_minute" in answer.refused(429, "rate_limited")["message"]
    assert 1 < int(answer.headers["retry-after"]) <= 61
    lines = daemon.post("/v1/batches", {"runs": [{"argv": ["true"]}]}, key=text).lines
    assert lines[0]["error"]["code"] == "rate_limited"


def test_what_is_refused_is_not_counted(daemon, key):
    text, _ = key(quotas={"runs_per_minute": 2, "parallel_runs": 1})
    for _ in range(5):
        daemon.post("/v1/runs", {"cod": 1}, key=text).refused(400, "invalid_request")
    daemon.run("pass", key=text)


def test_cpu_a_day(make_daemon):
    daemon = make_daemon()
    text, _ = daemon.key("cpu", quotas={"cpu_seconds_per_day": 1})
    spin = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    result = daemon.run(spin, key=text)
    assert not result["success"] and 500 < result["usage"]["cpu_ms"] < 4000
    for _ in range(3):  # the kernel's clock and ours may differ by a last few milliseconds
        answer = daemon.post("/v1/runs", {"code": spin}, key=text)
        if answer.status == 429:
            break
    assert "cpu_seconds_per_day" in answer.refused(429, "rate_limited")["message"]
    assert int(answer.headers["retry-after"]) > 3600
    daemon.restart()  # which is no way to more
    daemon.post("/v1/runs", {"code": "x"}, key=text).refused(429, "rate_limited")


def test_cpu_a_day_of_what_sandboxes_leave_running(make_daemon):
    daemon = make_daemon()
    text, _ = daemon.key("cpu", quotas={"cpu_seconds_per_day": 2})
    path = f"/v1/sandboxes/{daemon.post('/v1/sandboxes', {}, key=text).ok(201)['id']}"
    spin = "while :; do :; done >/dev/null 2>&1 </dev/null &"
    assert daemon.post(f"{path}/runs", {"command": spin}, key=text).ok()["usage"]["cpu_ms"] < 1000
    wait_until(lambda: daemon.post(f"{path}/runs", {"command": "true"}, key=text).status == 429, 60, "the quota's end")
    daemon.delete(path, key=text).ok()


# Bounds

@pytest.mark.parametrize("bounds, body", [
    ({"limits": {"memory": "64m"}}, {"limits": {"memory": "65m"}}),
    ({"limits": {"timeout": 5}}, {"limits": {"timeout": 6}}),
    ({"mounts": "none"}, {"mounts": [{"source": "/srv", "target": "/x"}]}),
    ({"mounts": "ro"}, {"mounts": [{"source": "/srv", "target": "/x", "access": "rw"}]}),
    ({"engines": []}, {}),
    ({"images": ["debian:12"]}, {}),
])
def test_bounds_refuse(daemon, key, bounds, body):
    text, _ = key(bounds=bounds)
    daemon.post("/v1/runs", dict(body, code="x"), key=text).refused(403, "policy_denied")
    daemon.post("/v1/runs", dict(body, code="x", dry_run=True), key=text).refused(403, "policy_denied")
    lines = daemon.post("/v1/batches", {"runs": [dict(body, code="x")]}, key=text).lines
    assert lines[0]["error"]["code"] == "policy_denied"


def test_bounds_lower_what_is_not_asked_for(daemon, key):
    text, _ = key(bounds={"limits": {"memory": "64m", "timeout": 5, "pids": 10}})
    limits = daemon.run("x", key=text, dry_run=True)["dry_run"]["limits"]
    assert (limits["memory"], limits["timeout"], limits["pids"]) == (64 << 20, 5, 10)
    began = time.monotonic()
    short, _ = key(bounds={"limits": {"timeout": 0.5}})
    assert daemon.run(SLOW, key=short)["status"] == "timeout" and time.monotonic() - began < 10


# Pages of others' sites

@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"])
def test_names_that_are_not_ours(daemon, key, host):
    text, _ = key()
    answer = daemon.get("/v1/runs", key=text, headers={"Host": host})
    assert answer.status in (400, 403)


def test_names_that_the_operator_gave(make_daemon):
    daemon = make_daemon(settings="[serve]\nhost = cay.example.org\n")
    text, _ = daemon.key("x")
    assert daemon.get("/v1/runs", key=text, headers={"Host": "cay.example.org:8600"}).status == 200
    assert daemon.get("/v1/runs", key=text, headers={"Host": "other.example.org"}).status == 403


def test_keys_outlive_the_daemon(make_daemon):
    daemon = make_daemon()
    text, key_id = daemon.key("stays")
    gone, gone_id = daemon.key("goes")
    daemon.delete(f"/v1/keys/{gone_id}").ok(204)
    daemon.kill9("api")
    assert daemon.run("print(1)", key=text)["stdout"] == "1\n"
    daemon.get("/v1/runs", key=gone).refused(401, "unauthorized")
    daemon.restart()
    assert [k["id"] for k in daemon.get("/v1/keys").ok()["keys"]] == [key_id]
