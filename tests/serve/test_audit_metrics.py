"""What is written down of calls, what is counted, and what can be followed."""

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import wait_until


@pytest.fixture
def audit(daemon):
    """What was added since the test began, oldest first."""
    before = {row["id"] for row in daemon.get("/v1/audit").ok()["audit"]}

    def added(query=""):
        rows = daemon.get(f"/v1/audit?{query}").ok()["audit"]
        return [row for row in reversed(rows) if row["id"] not in before]
    return added


def test_every_call_that_changes_something_is_noted(daemon, audit):
    run = daemon.post("/v1/runs", {"code": "pass"}, headers={"X-Request-Id": "my-own-id"}).ok()["id"]
    daemon.post("/v1/runs", {"cod": 1})
    daemon.delete("/v1/runs/run_0123456789abcdef")
    text, key_id = daemon.key("noted")
    daemon.run("pass", key=text)
    daemon.post("/v1/keys", {"name": "x"}, key=text)
    daemon.delete(f"/v1/keys/{key_id}")
    daemon.get("/v1/runs")
    daemon.post("/v1/batches", {"runs": []})
    daemon.post("/v1/nowhere", {})
    daemon.post("/v1/runs", {"code": "x"}, tcp=True)  # nobody's
    rows = [(r["operation"], r["method"], r["status"], r["code"]) for r in audit()]
    assert rows == [
        ("run.create", "POST", 200, None), ("run.create", "POST", 400, "invalid_request"),
        ("run.cancel", "DELETE", 404, "not_found"), ("key.create", "POST", 201, None),
        ("run.create", "POST", 200, None), ("key.create", "POST", 403, "policy_denied"),
        ("key.revoke", "DELETE", 204, None), ("batch.create", "POST", 200, None)]
    first, by_key, revoked = audit()[0], audit()[4], audit()[6]
    assert (first["request_id"], first["target"], first["actor"]) == ("my-own-id", run, "uid:0")
    assert re.fullmatch(r"pid \d+", first["peer"]) and abs(first["time"] / 1000 - time.time()) < 30
    assert by_key["actor"] == key_id and re.fullmatch(r"127\.0\.0\.1:\d+", by_key["peer"])
    assert revoked["target"] == key_id


def test_a_call_whose_client_left_is_noted(daemon, audit):
    connection = daemon.begin("POST", "/v1/runs", {"code": "import time\ntime.sleep(60)"})
    wait_until(lambda: daemon.metric("cay_runs_active") == 1, 5, "the start")
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    wait_until(lambda: audit(), 5, "the note")
    assert [(r["operation"], r["status"]) for r in audit()] == [("run.create", 0)]
    wait_until(lambda: daemon.metric("cay_runs_active") == 0, 5, "the end")


def test_filters_and_pages(daemon, audit):
    began = int(time.time() * 1000) - 1
    text, key_id = daemon.key("filter")
    for _ in range(3):
        daemon.run("pass", key=text)
    time.sleep(0.002)
    middle = int(time.time() * 1000)
    time.sleep(0.002)
    daemon.delete(f"/v1/keys/{key_id}")
    assert [r["operation"] for r in audit(f"actor={key_id}")] == ["run.create"] * 3
    assert [r["target"] for r in audit("operation=key.create")] == [key_id]
    assert [r["operation"] for r in audit(f"since={middle}")] == ["key.revoke"]
    assert [r["operation"] for r in audit(f"since={began}&until={middle}")] == ["key.create"] + ["run.create"] * 3
    page = daemon.get(f"/v1/audit?limit=2&actor={key_id}").ok()
    rest = daemon.get(f"/v1/audit?limit=2&actor={key_id}&cursor={page['cursor']}").ok()
    assert len(page["audit"]) == 2 and len(rest["audit"]) == 1 and rest["cursor"] is None


@pytest.mark.parametrize("query", ["since=x", "until=-1", "limit=0", "cursor=x"])
def test_wrong_questions(daemon, query):
    daemon.get(f"/v1/audit?{query}").refused(400, "invalid_request")


def test_what_a_page_says_is_no_path_or_secret(daemon, audit):
    """Names in a path are data: they are shown as they are, in JSON."""
    daemon.delete("/v1/runs/%22%3B%20DROP%20TABLE%20audit%3B--?token=secret")
    assert "secret" not in str(audit()) and audit()[0]["operation"] == "run.cancel"


def test_the_log_outlives_the_daemon(make_daemon):
    daemon = make_daemon()
    daemon.run("pass")
    time.sleep(0.3)  # it is committed
    daemon.kill9("api")
    assert [r["operation"] for r in daemon.get("/v1/audit").ok()["audit"]] == ["run.create"]


# Metrics

def parse(text):
    values = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .+|TYPE \w+ (counter|gauge|histogram))", line), line
            continue
        name, value = re.fullmatch(r'(\w+(?:\{(?:\w+="[^"]*",?)*\})?) (\S+)', line).groups()
        assert name not in values
        values[name] = float(value)
    return values


def test_metrics(daemon):
    before = parse(daemon.get("/metrics").body.decode())
    daemon.run("pass")
    daemon.run("raise SystemExit(1)")
    daemon.run(argv=["true"])
    daemon.post("/v1/runs", {"cod": 1})
    daemon.get("/v1/runs", tcp=True)
    answer = daemon.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    after = parse(answer.body.decode())

    def grew(name):
        return after.get(name, 0) - before.get(name, 0)
    assert grew('cay_runs_total{status="ok",language="python"}') == 1
    assert grew('cay_runs_total{status="failed",language="python"}') == 1
    assert grew('cay_runs_total{status="ok",language="none"}') == 1
    started = [grew(name) for name in after if name.startswith("cay_runs_started_total{")]
    assert sum(started) == 3 and grew('cay_runs_started_total{start="cold"}') >= 1
    assert grew("cay_run_seconds_count{}") == 3 == grew('cay_run_seconds_bucket{le="+Inf"}')
    assert 0 < grew("cay_run_seconds_sum{}") < 30
    assert grew('cay_http_requests_total{operation="run.create",status="2xx"}') == 3
    assert grew('cay_http_requests_total{operation="run.create",status="4xx"}') == 1
    assert grew('cay_http_request_seconds_count{operation="run.create"}') == 4
    assert grew('cay_rejected_total{code="invalid_request"}') == 1
    assert grew('cay_rejected_total{code="unauthorized"}') == 1
    assert after["cay_runs_active"] == 0 and after["cay_http_connections"] >= 1
    assert 1e6 < after["process_resident_memory_bytes"] < 1e9 and 5 < after["process_open_fds"] < 200
    buckets = [v for k, v in after.items() if k.startswith("cay_run_seconds_bucket")]
    assert buckets == sorted(buckets)


def test_starts_are_counted(daemon):
    def count(start):
        return daemon.metric(f'cay_runs_started_total{{start="{start}"}}')
    wait_until(lambda: daemon.run("pass")["start"] == "warm:default", 10, "a warm start")
    before = count("cold"), count("warm:default")
    daemon.run("pass", cold=True)
    assert (count("cold"), count("warm:default")) == (before[0] + 1, before[1])
    daemon.run("pass")
    assert (count("cold"), count("warm:default")) == (before[0] + 1, before[1] + 1)


def test_pools(daemon):
    """What stands ready is used, and made again."""
    if daemon.who != "root":
        assert daemon.metric('cay_pool_size{pool="networks"}') == 0
        return
    wait_until(lambda: daemon.metric('cay_pool_size{pool="islands"}') > 0, 10, "islands ahead")
    full = daemon.metric('cay_pool_size{pool="islands"}')
    with daemon.events("POST", "/v1/runs", {"code": "input()"}) as events:
        events.until("start")
    daemon.run("pass")
    wait_until(lambda: daemon.metric('cay_pool_size{pool="islands"}') >= full, 10, "islands made again")
    assert daemon.metric('cay_pool_size{pool="cgroups"}') > 0


@pytest.mark.parametrize("who", ["root", "user"])
def test_pools_follow_demand(make_daemon, who):
    """Many at once find too few, so there are more; when nobody asks any more, they go."""
    daemon = make_daemon(who, settings="[warm]\nenabled = no\n")

    def size():
        return daemon.metric('cay_pool_size{pool="islands"}')
    wait_until(lambda: size() == 4, 10, "islands ahead")
    with ThreadPoolExecutor(12) as several:
        assert all(r["success"] for r in several.map(lambda _: daemon.run(argv=["true"]), range(24)))
    wait_until(lambda: size() > 4, 10, "more islands ahead")
    wait_until(lambda: size() == 4, 40, "as many as there were")


def test_no_memory_for_pools(make_daemon):
    daemon = make_daemon(settings="[warm]\nmemory = 1m\n")
    wait_until(lambda: daemon.metric('cay_pool_size{pool="islands"}') == 2, 10, "as many as fit")
    daemon = make_daemon(settings="[warm]\nmemory = 0\n")
    for _ in range(3):
        assert daemon.run("print(1)")["stdout"] == "1\n"
    assert daemon.metric('cay_pool_size{pool="islands"}') == 0


def test_labels_are_bounded(daemon):
    def names():
        return set(parse(daemon.get("/metrics").body.decode()))
    for warm in range(2):  # all that there can be is there after the first round
        before = names()
        for i in range(20):
            daemon.get(f"/v1/runs/run_{i:016d}")
            daemon.get(f"/nowhere/{i}")
            daemon.request(f"M{i}", "/v1/runs")
            daemon.post("/v1/runs", {"code": "x", "language": f"l{i}"})
    assert names() == before


def test_metrics_by_key(daemon):
    text, key_id = daemon.key("prometheus")
    assert daemon.get("/metrics", key=text).status == 200
    daemon.delete(f"/v1/keys/{key_id}")


# Events

def test_events(daemon):
    with daemon.events("GET", "/v1/events") as events:
        run = daemon.run("raise SystemExit(4)")["id"]
        got = events.until("run.ended")
    assert [(name, data["id"], data["status"]) for name, data in got] == [
        ("run.started", run, "running"), ("run.ended", run, "failed")]
    assert got[1][1]["exit_code"] == 4


def test_a_daemon_that_ends_does_not_wait_for_listeners(make_daemon):
    daemon = make_daemon()
    with daemon.events("GET", "/v1/events") as events:
        began = time.monotonic()
        daemon.stop()
        assert time.monotonic() - began < 5
        assert list(events) == []


def test_a_slow_listener_is_told_what_it_missed(daemon):
    if daemon.who == "user":
        return  # thousands of runs, for what is the same whoever it is
    with daemon.events("GET", "/v1/events", timeout=60) as events:
        for _ in range(2):
            daemon.post("/v1/batches", {"runs": [{"argv": ["true"]}] * 1000, "parallel": 8}, timeout=120)
        got = events.until("lost")
    # Each run begins and ends; nobody read before all had.
    assert 0 < got[-1][1]["count"] < 4000
    assert len(got) - 1 + got[-1][1]["count"] == 4000
    assert daemon.metric("process_resident_memory_bytes") < 300e6


def test_runtimes(daemon):
    theirs = daemon.cay("runtimes", "--json").ok().json
    assert daemon.get("/v1/runtimes").ok() == theirs
    only = daemon.get("/v1/runtimes?language=python").ok()
    assert {r["language"] for r in only["runtimes"]} == {"python"}
    daemon.get("/v1/runtimes?language=klingon").refused(400, "invalid_request")
