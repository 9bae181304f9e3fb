"""Settings at run time: laid over the files' as one more, version by version, and never past what they allow."""
import os

import pytest

from maker import Maker
from support import wait_until

FILE = "[limits]\nmemory = 128m\n[maximum]\nmemory = 1g\ntimeout = 100\n[network]\nmode = allowlist\nallow = example.org\n"


@pytest.fixture(scope="module")
def shared(scratch):
    maker = Maker(scratch)
    yield maker(settings=FILE)
    maker.end()


@pytest.fixture
def daemon(shared):
    yield shared
    shared.request("PUT", "/v1/settings", {"version": 0}).ok()


def put(daemon, **body):
    return daemon.request("PUT", "/v1/settings", body)


def value(answer, section, key):
    """All of a key's, each with its origin."""
    return [(s["value"], s["origin"]) for s in answer["settings"] if (s["section"], s["key"]) == (section, key)]


def config(daemon, *words):
    return daemon.cay("config", *words, env={"CAY_HOST": f"unix:{daemon.socket}"})


# What is in force

def test_both_and_which_won(daemon):
    now = daemon.get("/v1/settings").ok()
    assert value(now, "limits", "memory") == [("128m", f"{daemon.config}:4")]
    assert value(now, "limits", "pids") == [("50", "default")]
    assert now["may"] == "narrow" and now["problem"] is None
    answer = put(daemon, set={"limits.memory": "64m", "limits.pids": 20})
    changed = answer.ok()
    assert changed["version"] > now["version"] and answer.headers["etag"] == f'"{changed["version"]}"'
    origin = f"run time, version {changed['version']}"
    assert value(changed, "limits", "memory") == [("64m", origin)] and value(changed, "limits", "pids") == [("20", origin)]
    assert changed["by"] == "uid:0" and changed["text"] == "[limits]\nmemory = 64m\npids = 20\n"
    assert daemon.get("/v1/settings").ok() == changed


def test_what_begins_then_goes_by_it(daemon):
    def limit():
        return daemon.post("/v1/runs", {"argv": ["true"], "dry_run": True}).ok()["dry_run"]["limits"]["memory"]
    assert limit() == 128 << 20
    put(daemon, set={"limits.memory": "64m", "maximum.memory": "96m"}).ok()
    assert limit() == 64 << 20
    answer = daemon.post("/v1/runs", {"argv": ["true"], "limits": {"memory": "100m"}})
    assert "memory" in answer.refused(403, "policy_denied")["message"]
    put(daemon, set={"limits.memory": None, "maximum.memory": None}).ok()
    assert limit() == 128 << 20


def test_rooms_and_queues(daemon):
    with daemon.events("POST", "/v1/runs", {"code": "import time; time.sleep(60)"}) as stream:
        stream.until("start")
        put(daemon, set={"serve.max_runs": 1, "serve.wait": 0}).ok()
        daemon.post("/v1/runs", {"argv": ["true"]}).refused(503, "at_capacity")
        put(daemon, set={"serve.wait": 60}).ok()
        with daemon.events("POST", "/v1/runs", {"argv": ["true"]}) as waits:
            assert next(waits)[0] == "queued"
            put(daemon, set={"serve.max_runs": 2}).ok()  # there is room now
            assert waits.until("result")[-1][1]["status"] == "ok"
    wait_until(lambda: daemon.metric("cay_runs_active") == 0, 30, "the end of what ran")


def test_networks(daemon):
    body = {"argv": ["true"], "network": {"allow": ["example.org"]}, "dry_run": True}
    daemon.post("/v1/runs", body).ok()
    put(daemon, set={"network.block": ["example.org"]}).ok()
    assert "example.org" in str(daemon.post("/v1/runs", body).ok()["dry_run"]["network_rules"]["block"])
    put(daemon, set={"network.mode": "none"}).ok()
    daemon.post("/v1/runs", body).refused(403, "policy_denied")
    put(daemon, set={"network.mode": "full"}).refused(403, "policy_denied")


# What can't be said

@pytest.mark.parametrize("text, status, words", [
    ("[limits]\nmemroy = 1g\n", 400, "run-time settings:2: unknown key 'memroy' in [limits]"),
    ("[limits\n", 400, "run-time settings:1: "),
    ("[limits]\nmemory = lots\n", 400, "run-time settings:2: "),
    ("[maximum]\nmemory = 2g\n", 403, "run-time settings:2: memory in [maximum] can only be narrowed at run time: the files say 1g"),
    ("[maximum]\nmemory = 0\n", 403, "can only be narrowed"),
    ("[network]\nmode = full\n", 403, "the files say allowlist"),
    ("[network]\nallow = example.com\n", 403, "allow in [network] can't be changed at run time"),
    ("[network]\naddress = 10.0.0.1\n", 403, "can't be changed"),
    ("[mounts]\nread = /srv\n", 403, "read in [mounts] can't be changed"),
    ("[serve]\nmode = off\n", 403, "the files say all"),
    ("[serve]\nsettings = off\n", 403, "settings in [serve] can't be changed"),
    ("[serve]\ndirect_user = nobody\n", 403, "can't be changed"),
    ("[isolation]\nallow_degraded = yes\n", 403, "the files say no"),
    ("[tier sandbox]\nnetwork = full\n", 403, "network in [tier] can only be narrowed"),
    ("[language python]\npath = /opt\n", 403, "can't be changed"),
    ("[images]\nallow = *\n", 403, "can't be changed"),
    ("[limits]\nmemory = 64m\n[warm]\nmemory = 1g\n", 403, "run-time settings:4: memory in [warm] can't be changed"),
])
def test_refused(daemon, text, status, words):
    before = daemon.get("/v1/settings").ok()
    answer = put(daemon, text=text)
    assert answer.status == status and words in answer.error["message"], answer.body
    assert daemon.get("/v1/settings").ok() == before


@pytest.mark.parametrize("body", [{}, {"text": "", "version": 0}, {"set": 1}, {"set": {"memory": 1}}, {"txt": ""},
                                  {"set": {"limits.memory": {}}}, {"set": {"limits.memory": "1g\n[serve]"}},
                                  {"set": {"limits.x]\n[y.z": "1"}}, {"version": -1}, {"text": "#" * 70000}])
def test_requests_that_are_none(daemon, body):
    assert put(daemon, **body).status in (400, 413)


def test_only_operators(daemon):
    key, key_id = daemon.key("nobody")
    for method, path in [("GET", "/v1/settings"), ("PUT", "/v1/settings"), ("GET", "/v1/settings/history")]:
        body = {"version": 0} if method == "PUT" else None
        daemon.request(method, path, body, key=key).refused(403, "policy_denied")
    daemon.delete(f"/v1/keys/{key_id}").ok(204)


# Versions

def test_history_and_back(daemon):
    first = put(daemon, set={"limits.memory": "64m", "network.block": ["a.example", "b.example"]}).ok()["version"]
    second = put(daemon, set={"limits.memory": "32m", "network.block": "b.example"}).ok()["version"]
    back = put(daemon, version=first).ok()
    assert back["version"] == second + 1 and back["restored"] == first
    assert value(back, "limits", "memory") == [("64m", f"run time, version {second + 1}")]
    listed = daemon.get("/v1/settings/history?limit=2").ok()
    third, other = listed["versions"]
    assert (third["version"], third["restored"], third["by"]) == (second + 1, first, "uid:0") and third["time"]
    assert third["text"] == back["text"]
    assert other["changes"] == [{"key": "limits.memory", "was": ["64m"], "is": ["32m"]},
                                {"key": "network.block", "was": ["a.example", "b.example"], "is": ["b.example"]}]
    assert daemon.get(f"/v1/settings/history?cursor={listed['cursor']}").ok()["versions"][0]["version"] == first
    put(daemon, version=9999).refused(404, "not_found")
    noted = [a for a in daemon.get("/v1/audit?operation=settings.put").ok()["audit"] if a["status"] == 200]
    assert (noted[0]["target"], noted[0]["actor"]) == (f"version {second + 1}", "uid:0")


def test_two_at_once(daemon):
    known = daemon.get("/v1/settings").ok()["version"]
    put(daemon, set={"limits.memory": "64m"}, if_version=known).ok()
    put(daemon, set={"limits.memory": "32m"}, if_version=known).refused(409, "conflict")
    body = {"set": {"limits.memory": "32m"}}
    daemon.request("PUT", "/v1/settings", body, headers={"If-Match": f'"{known}"'}).refused(409, "conflict")
    daemon.request("PUT", "/v1/settings", body, headers={"If-Match": f'"{known + 1}"'}).ok()
    daemon.request("PUT", "/v1/settings", body, headers={"If-Match": "*"}).ok()
    daemon.request("PUT", "/v1/settings", body, headers={"If-Match": "x"}).refused(400, "invalid_request")


def test_a_dry_run_changes_nothing(daemon):
    before = daemon.get("/v1/settings").ok()
    would = put(daemon, set={"limits.memory": "64m"}, dry_run=True).ok()
    assert value(would, "limits", "memory")[0][0] == "64m" and would["text"] == "[limits]\nmemory = 64m\n"
    put(daemon, text="[limits]\nmemory = x\n", dry_run=True).refused(400, "invalid_request")
    assert daemon.get("/v1/settings").ok() == before


def test_who_listens_hears_of_it(daemon):
    with daemon.events("GET", "/v1/events") as stream:
        version = put(daemon, set={"limits.memory": "64m"}).ok()["version"]
        assert next(e for e in stream if e[0] == "settings.changed")[1] == {"version": version, "by": "uid:0"}


@pytest.mark.parametrize("which", ["api", "serve"])
def test_they_outlive_the_daemon(make_daemon, which):
    daemon = make_daemon(settings=FILE)
    put(daemon, set={"limits.memory": "64m"}).ok()
    daemon.kill9(which)
    if which == "serve":
        daemon.start()
    assert value(daemon.get("/v1/settings").ok(), "limits", "memory") == [("64m", "run time, version 1")]


def test_files_that_they_do_not_fit_any_more(make_daemon):
    daemon = make_daemon(settings=FILE)
    put(daemon, set={"maximum.memory": "512m", "limits.memory": "64m"}).ok()
    daemon.stop()
    daemon.config.write_text(daemon.config.read_text().replace("memory = 1g", "memory = 256m"))
    daemon.start()
    assert "does not fit" in daemon.log
    now = daemon.get("/v1/settings").ok()
    assert "narrowed" in now["problem"] and value(now, "limits", "memory") == [("128m", f"{daemon.config}:4")]
    daemon.run("pass")
    put(daemon, set={"limits.pids": 20}).refused(403, "policy_denied")  # the whole does not fit
    fixed = put(daemon, set={"maximum.memory": "200m"}).ok()
    assert fixed["problem"] is None and value(fixed, "limits", "memory") == [("64m", "run time, version 2")]


def test_where_the_files_forbid_it(make_daemon):
    daemon = make_daemon(settings="[serve]\nsettings = off\n")
    assert daemon.get("/v1/settings").ok()["may"] == "off"
    answer = put(daemon, set={"limits.memory": "64m"})
    assert "can't be changed" in answer.refused(403, "policy_denied")["message"]


# Where the files let it widen what they say

@pytest.fixture(scope="module")
def full(scratch):
    maker = Maker(scratch)
    yield maker(settings=FILE + "[serve]\nsettings = full\n")
    maker.end()


@pytest.fixture
def wide(full):
    yield full
    full.request("PUT", "/v1/settings", {"version": 0}).ok()


def can_mount(daemon, path, access="ro"):
    """Whether the launcher takes it: the api has no say in that."""
    answer = daemon.post("/v1/runs", {"argv": ["ls", "/data"], "mounts": [
        {"source": str(path), "target": "/data", "access": access}]})
    if answer.status != 200:
        assert answer.failure == (403, "policy_denied"), answer.body
    return answer.status == 200


def test_mounts_in_full(wide, scratch):
    """As the launcher has them from its supervisor."""
    place = scratch / "mounted"
    place.mkdir(exist_ok=True)
    assert wide.get("/v1/settings").ok()["may"] == "full"
    assert not can_mount(wide, place)
    put(wide, set={"mounts.read": str(place)}).ok()
    assert can_mount(wide, place) and not can_mount(wide, place, "rw")
    put(wide, set={"mounts.write": str(place)}).ok()
    assert can_mount(wide, place, "rw")
    put(wide, set={"mounts.forbid": str(place)}).ok()
    assert not can_mount(wide, place)
    put(wide, set={"mounts.read": str(wide.place), "mounts.forbid": None}).ok()
    assert not can_mount(wide, wide.state)  # the daemon's own never is
    put(wide, version=0).ok()
    assert not can_mount(wide, place)


def test_maxima_in_full(wide):
    body = {"argv": ["true"], "limits": {"timeout": 200}}
    wide.post("/v1/runs", body).refused(403, "policy_denied")
    put(wide, set={"maximum.timeout": 300}).ok()
    assert wide.post("/v1/runs", body).ok()["success"]
    put(wide, set={"maximum.timeout": None}).ok()
    wide.post("/v1/runs", body).refused(403, "policy_denied")


def test_networks_in_full(wide):
    """As cay-egress has them: the name is asked for by a program that was let loose by the api."""
    put(wide, set={"network.allow": ["*.invalid"]}).ok()
    look = "import socket\ntry: socket.create_connection(('a.invalid', 80), 5)\nexcept OSError as e: print(type(e).__name__)"
    body = {"code": look, "network": {"allow": ["a.invalid"]}}
    why = [e["verdict"] for e in wide.post("/v1/runs", body).ok()["egress"]]
    assert why and "denied" not in why, why  # it was allowed, and nobody has the name
    put(wide, set={"network.allow": None, "network.mode": "full"}).ok()
    wide.post("/v1/runs", body).refused(403, "policy_denied")  # not among what the files allow


@pytest.mark.parametrize("text", ["[serve]\nhost = a\n", "[warm]\nenabled = no\n", "[serve]\nsettings = narrow\n",
                                  "[network]\ntotal_connections = 5\n", "[images]\nstore = /x\n"])
def test_what_only_a_start_changes_in_full(wide, text):
    put(wide, text=text).refused(403, "policy_denied")


@pytest.mark.parametrize("which", ["api", "launcher", "egress", "serve"])
def test_full_ones_outlive_processes(make_daemon, which, scratch):
    daemon = make_daemon(settings="[serve]\nsettings = full\n")
    place = scratch / "kept"
    place.mkdir(exist_ok=True)
    put(daemon, set={"mounts.read": str(place)}).ok()
    if which == "egress":
        daemon.expect_errors = True
        os.kill(daemon.pids()["egress"], 9)
    else:
        daemon.kill9(which)
    if which == "serve":
        daemon.start()
    assert can_mount(daemon, place)
    put(daemon, version=0).ok()
    assert not can_mount(daemon, place)


# By the command line

def test_the_command_line(daemon):
    config(daemon, "set", "limits.memory", "64m").ok()
    made = config(daemon, "set", "network.block", "a.example", "b.example").ok()
    version = int(made.text.split()[1])
    shown = config(daemon, "show").ok().text.splitlines()
    assert any(line.startswith("limits.memory") and line.endswith(f"= 64m  # run time, version {version}") or
               "64m" in line and f"# run time, version {version}" in line for line in shown)
    assert any("maximum.memory" in line and f"# {daemon.config}:6" in line for line in shown)
    history = config(daemon, "history").ok().text.splitlines()
    assert history[0].split() == ["VERSION", "AGE", "BY", "WHAT"]
    assert history[1].endswith("network.block: - -> a.example, b.example") and history[1].startswith(str(version))
    config(daemon, "unset", "network.block").ok()
    assert "a.example" not in config(daemon, "show").text
    config(daemon, "rollback", str(version)).ok()
    assert "a.example" in config(daemon, "show").text
    refused = config(daemon, "set", "maximum.memory", "4g")
    assert refused.rc == 125 and "can only be narrowed" in refused.errors
    for words in (["set"], ["set", "limits.memory"], ["rollback"], ["rollback", "x"], ["history", "x"], ["unset"]):
        assert config(daemon, *words).rc == 125
    assert f"limits.memory" in config(daemon, "show", "--files").text
