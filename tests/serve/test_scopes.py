"""Scopes: the sandbox of a session, an agent, or of all; whose it is, what it is made of, and its end."""

import concurrent.futures
import itertools
import urllib.parse

import pytest

from maker import Maker
from support import wait_until

SETTINGS = """[serve]
max_sandboxes = 40
[network]
allow = *.example.org
[mounts]
read = /usr/share
[scope session]
memory = 256m
timeout = 60
[scope agent]
disk = 20m
network = allowlist
[scope shared]
memory = 200m
everybody = yes
"""
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def daemon(scratch, binary_runs):
    maker = Maker(scratch)
    yield maker(settings=SETTINGS)
    maker.end()


@pytest.fixture
def scope():
    """A new one."""
    return lambda kind="session": f"{kind}:t{next(NUMBERS)}"


@pytest.fixture(autouse=True)
def ended(daemon):
    yield
    for s in scopes(daemon):
        daemon.delete(f"/v1/sandboxes/{s['id']}").ok()


def scopes(daemon, key=None):
    return daemon.get("/v1/scopes", key=key).ok()["scopes"]


def in_scope(daemon, scope, command="true", key=None, **more):
    return daemon.post("/v1/runs", dict(more, scope=scope, command=command), key=key)


def ran(*args, **more):
    return in_scope(*args, **more).ok()


def end(daemon, scope, key=None):
    return daemon.delete(f"/v1/scopes/{urllib.parse.quote(scope, safe='')}", key=key)


def key(daemon, **more):
    return daemon.key(f"s{next(NUMBERS)}", **more)[0]


def test_later_runs_find_what_the_first_made(daemon, scope):
    name = scope()
    first = ran(daemon, name, "echo here >f; (sleep 600 &)")
    assert first["policy"]["scope"] == name and first["sandbox"] and first["sandboxed"]
    second = ran(daemon, name, "cat f")
    assert second["stdout"] == "here\n" and second["sandbox"] == first["sandbox"]
    other = ran(daemon, scope(), "ls")
    assert other["stdout"] == "" and other["sandbox"] != first["sandbox"]
    shown = daemon.get(f"/v1/sandboxes/{first['sandbox']}").ok()
    assert shown["scope"] == name and shown["limits"]["memory"] == 256 << 20 and not shown["persistent"]


def test_interpreters_remember_in_a_scope(daemon, scope):
    name = scope()
    daemon.run("x = 41", scope=name, context="main")
    assert daemon.run("x + 1", scope=name, context="main")["results"][0]["text/plain"] == "42"
    assert daemon.post("/v1/runs", {"code": "1", "context": "main"}).failure == (400, "invalid_request")


def test_two_at_once_get_the_same_one(daemon, scope):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for name in (scope(), scope("agent")):
            results = list(pool.map(lambda n: ran(daemon, name, f"echo {n} >>f"), range(8)))
            assert len({r["sandbox"] for r in results}) == 1
            assert sorted(ran(daemon, name, "cat f")["stdout"].split()) == [str(n) for n in range(8)]


def test_ending_a_session_resets_it(daemon, scope):
    name = scope()
    first = ran(daemon, name, "echo old >f")
    assert end(daemon, name).ok() == {"scope": name, "sandbox": first["sandbox"], "state": "gone"}
    assert end(daemon, name).failure == (404, "not_found")
    second = ran(daemon, name, "cat f || echo new")
    assert second["stdout"] == "new\n" and second["sandbox"] != first["sandbox"]


def test_a_session_idles_out(make_daemon):
    daemon = make_daemon(settings="[scope session]\nidle_timeout = 1s\n[scope agent]\nidle_timeout = 1s\n")
    first, agent = ran(daemon, "session:a", "echo old >f"), ran(daemon, "agent:a", "echo old >f")
    wait_until(lambda: [s["state"] for s in scopes(daemon)] == ["stopped"], 30, "the idle ones' end")
    second = ran(daemon, "session:a", "cat f || echo new")
    assert second["stdout"] == "new\n" and second["sandbox"] != first["sandbox"]
    again = ran(daemon, "agent:a", "cat f")
    assert again["stdout"] == "old\n" and again["sandbox"] == agent["sandbox"]


def test_idling_out_under_way(make_daemon):
    """Whoever comes in that moment gets the old one or a new one, never an error."""
    daemon = make_daemon(settings="[scope session]\nidle_timeout = 1s\n")
    for pause in (0.8, 0.9, 0.95, 1, 1.05, 1.1):
        ran(daemon, "session:a")
        ran(daemon, "session:other", f"sleep {pause}")
    wait_until(lambda: not scopes(daemon), 30, "its end")


def test_agents_outlive_the_daemon(make_daemon):
    daemon = make_daemon(settings="[scope agent]\ndisk = 20m\n")
    agent, session = ran(daemon, "agent:a", "echo kept >f"), ran(daemon, "session:a", "echo lost >f")
    owned = key(daemon)
    ran(daemon, "agent:a", "echo theirs >f", key=owned)
    daemon.restart()
    assert ran(daemon, "agent:a", "cat f")["stdout"] == "kept\n"
    again = ran(daemon, "agent:a", "cat f", key=owned)
    assert again["stdout"] == "theirs\n" and again["sandbox"] != agent["sandbox"]
    assert ran(daemon, "agent:a")["sandbox"] == agent["sandbox"]
    assert ran(daemon, "session:a", "ls")["stdout"] == "" and session["sandbox"]
    daemon.kill9("serve")
    daemon.start()
    assert ran(daemon, "agent:a", "cat f")["stdout"] == "kept\n"
    assert end(daemon, "agent:a").status == 200
    assert ran(daemon, "agent:a", "ls")["stdout"] == ""


# Whose it is

def test_ids_are_each_owners_own(daemon, scope):
    name, one, other = scope(), key(daemon), key(daemon)
    mine = ran(daemon, name, "echo secret >f", key=one)
    theirs = ran(daemon, name, "ls", key=other)
    assert theirs["stdout"] == "" and theirs["sandbox"] != mine["sandbox"]
    ours = ran(daemon, name, "ls")
    assert ours["sandbox"] not in (mine["sandbox"], theirs["sandbox"])
    for path in (mine["sandbox"], name):
        found = daemon.get(f"/v1/sandboxes/{path}", key=other)
        assert found.status == 404 or found.ok()["id"] == theirs["sandbox"]
    assert [s["id"] for s in scopes(daemon, other)] == [theirs["sandbox"]]
    end(daemon, name, key=other).ok()
    assert end(daemon, name, key=other).failure == (404, "not_found")
    assert ran(daemon, name, "cat f", key=one)["stdout"] == "secret\n"


def test_shared_by_everybody(daemon):
    one, other = key(daemon), key(daemon)
    ran(daemon, "shared", "echo hello >f", key=one)
    assert ran(daemon, "shared", "cat f", key=other)["stdout"] == "hello\n" == ran(daemon, "shared", "cat f")["stdout"]
    assert end(daemon, "shared", key=one).failure == (404, "not_found")
    # Its first caller has no say in what it is, and its later ones are bound by what they may have.
    small = key(daemon, bounds={"limits": {"memory": "100m"}})
    error = in_scope(daemon, "shared", key=small).refused(403, "policy_denied")
    assert "memory" in error["message"]
    end(daemon, "shared").ok()
    error = in_scope(daemon, "shared", key=one, limits={"memory": "100m"}).refused(409, "conflict")
    assert "200 MiB" in error["message"]
    assert daemon.get(f"/v1/sandboxes/{ran(daemon, 'shared', key=one)['sandbox']}", key=one).status == 404


def test_shared_is_each_owners_unless_settings_say_so(make_daemon):
    daemon = make_daemon()
    one = key(daemon)
    ran(daemon, "shared", "echo mine >f", key=one)
    assert ran(daemon, "shared", "ls")["stdout"] == "" and ran(daemon, "shared", "cat f", key=one)["stdout"] == "mine\n"


def test_quotas_count(daemon, scope):
    one = key(daemon, quotas={"live_sandboxes": 2})
    names = [scope(), scope()]
    for name in names:
        ran(daemon, name, key=one)
    assert in_scope(daemon, scope(), key=one).failure == (429, "rate_limited")
    ran(daemon, names[0], key=one)
    end(daemon, names[1], key=one).ok()
    ran(daemon, scope(), key=one)


def test_as_many_as_there_may_be(daemon, scope):
    """Thousands of ids are no thousands of sandboxes, and those that are there can still be used."""
    first = scope()
    ran(daemon, first)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: in_scope(daemon, scope()).status, range(120)))
    assert statuses.count(200) == 39 and statuses.count(503) == 81
    assert len(scopes(daemon)) == 40
    ran(daemon, first)


# What it is made of, and what a request can ask for

@pytest.mark.parametrize("first, then", [
    ({"limits": {"memory": "64m"}}, {"limits": {"memory": "65m"}}),
    ({}, {"limits": {"pids": 20}}),
    ({"network": {"allow": ["a.example.org"]}}, {"network": {"allow": ["a.example.org", "b.example.org"]}}),
    ({"network": {"allow": ["a.example.org", "b.example.org"]}}, {"network": {"allow": ["a.example.org"]}}),
    ({"network": {"allow": ["a.example.org"]}}, {"network": {"mode": "none"}}),
    ({"network": {"allow": ["a.example.org"]}}, {"network": {"block": ["b.example.org"]}}),
    ({}, {"network": {"mode": "full"}}),
    ({}, {"mounts": [{"source": "/usr/share", "target": "/data"}]}),
    ({}, {"workspace": {"source": "/usr/share"}}),
    ({"tier": "standard"}, {"tier": "elevated"}),
    ({"tier": "standard"}, {"tier": "sandbox"}),
    ({}, {"user": "root"}),
    ({}, {"image": "no-such:image"}),
    ({"allow_degraded": True}, {}),
], ids=str)
def test_what_contradicts_is_refused(daemon, scope, first, then):
    name = scope()
    made = ran(daemon, name, **first)
    assert in_scope(daemon, name, **first).ok()["sandbox"] == made["sandbox"]
    error = in_scope(daemon, name, **then).refused(409, "conflict")
    assert "the scope's sandbox" in error["message"] and error["hint"]
    assert ran(daemon, name, **({"allow_degraded": True} if "allow_degraded" in first else {}))["sandbox"] == made["sandbox"]


def test_what_the_first_asks_for_it_has(daemon, scope):
    name = scope()
    made = ran(daemon, name, "cat /data/doc/nothing; ls / | grep data", limits={"memory": "64m", "timeout": 9},
               mounts=[{"source": "/usr/share", "target": "/data"}], network={"allow": ["a.example.org"]})
    assert made["stdout"] == "data\n" and made["network"] == "allowlist"
    shown = daemon.get(f"/v1/sandboxes/{made['sandbox']}").ok()
    assert shown["limits"]["memory"] == 64 << 20 and shown["limits"]["timeout"] == 60


@pytest.mark.parametrize("more, says", [({"limits": {"memory": "257m"}}, "memory"), ({"limits": {"timeout": 61}}, "timeout")])
def test_more_than_the_settings_have(daemon, scope, more, says):
    error = in_scope(daemon, scope(), **more).refused(403, "policy_denied")
    assert says in error["message"] and "[scope session]" in error["hint"]
    assert not scopes(daemon)


def test_settings_are_held_to_what_a_key_may_have(daemon, scope):
    none = key(daemon)  # of the tier sandbox: no network
    assert ran(daemon, scope("agent"), key=none)["network"] == "none"
    some = key(daemon, tier="standard", bounds={"limits": {"memory": "100m"}})
    made = ran(daemon, scope("agent"), key=some)
    assert made["network"] == "allowlist" and made["network_rules"]["allow"] == ["*.example.org"]
    made = ran(daemon, scope(), key=some)
    assert daemon.get(f"/v1/sandboxes/{made['sandbox']}").ok()["limits"]["memory"] == 100 << 20
    error = in_scope(daemon, scope(), key=none, network={"mode": "full"}).refused(403, "policy_denied")
    assert "sandbox" in error["message"]


@pytest.mark.parametrize("more", [{"engine": "direct"}, {"mode": "off"}, {"mode": "selective", "trusted": True}])
def test_no_way_out_of_the_sandbox(daemon, scope, more):
    name = scope()
    in_scope(daemon, name, **more).refused(403, "policy_denied")
    ran(daemon, name)
    in_scope(daemon, name, **more).refused(403, "policy_denied")


def test_a_scope_is_a_sandbox_in_any_mode(make_daemon):
    daemon = make_daemon(settings="[serve]\nmode = off\n")
    result = ran(daemon, "session:a", trusted=True)
    assert result["sandboxed"] and result["engine"] == "native"
    assert result["policy"] == {"mode": "off", "tier": None, "scope": "session:a", "why": "a scope is a sandbox"}
    in_scope(daemon, "session:a", engine="direct").refused(403, "policy_denied")


@pytest.mark.parametrize("name", [
    "", "session", "session:", "agent:", "shared:x", "global", "Session:x", "session:-x", "session:.x", "session: x",
    "session:a/b", "session:a\\b", "session:a%2fb", "session:ä", "session:a\nb", "session:a\u0000b", "session:" + "x" * 129,
    "session:a'b", "session:$(id)", "sbx_0000000000000000"])
def test_no_scope(daemon, name):
    assert in_scope(daemon, name).failure == (400, "invalid_request")
    if name and "\0" not in name:
        assert end(daemon, name).failure == (400, "invalid_request")


@pytest.mark.parametrize("id", ["0", "me@example.org", "a:b:c", "x" * 128, "A.b_c~d+e=f-g", "session:a"])
def test_ids(daemon, id):
    name = f"session:{id}"
    made = ran(daemon, name)
    assert made["policy"]["scope"] == name and ran(daemon, name)["sandbox"] == made["sandbox"]
    assert daemon.get(f"/v1/sandboxes/{urllib.parse.quote(name, safe='')}").ok()["id"] == made["sandbox"]
    end(daemon, name).ok()


# Other ways

def test_dry_runs_make_nothing(daemon, scope):
    name = scope()
    plan = ran(daemon, name, dry_run=True, limits={"memory": "64m"})["dry_run"]
    assert plan["policy"]["scope"] == name and plan["limits"]["memory"] == 64 << 20 and plan["sandboxed"]
    assert not scopes(daemon)
    ran(daemon, name)
    plan = ran(daemon, name, dry_run=True)["dry_run"]
    assert plan["policy"]["scope"] == name and plan["limits"]["memory"] == 256 << 20
    in_scope(daemon, name, dry_run=True, limits={"memory": "64m"}).refused(409, "conflict")


def test_batches_and_background(daemon, scope):
    name = scope()
    lines = daemon.post("/v1/batches", {"runs": [{"command": "echo x >>f", "scope": name}] * 3}).lines
    assert len({line["result"]["sandbox"] for line in lines}) == 1
    begun = daemon.post("/v1/runs", {"command": "cat f", "scope": name, "background": True}).ok(202)
    wait_until(lambda: daemon.get(f"/v1/runs/{begun['id']}").ok()["status"] != "running", 20, "its end")
    assert daemon.get(f"/v1/runs/{begun['id']}").ok()["stdout"] == "x\n" * 3


def test_only_runs_have_scopes(daemon, scope):
    assert "goes with a run" in daemon.post("/v1/sandboxes", {"scope": scope()}).refused(400, "invalid_request")["message"]
    made = ran(daemon, scope())
    assert daemon.post(f"/v1/sandboxes/{made['sandbox']}/runs", {"command": "true", "scope": scope()}).status == 400


def test_by_command(daemon, scope):
    host, name, cay = {"CAY_HOST": f"unix:{daemon.socket}"}, scope(), daemon.cay
    cay.run("--scope", name, "--", "sh", "-c", "echo kept >f", env=host).ok()
    assert cay.run("--scope", name, "--", "cat", "f", env=host).ok().text == "kept\n"
    line = next(line for line in cay("ps", env=host).ok().text.splitlines() if name in line)
    assert line.startswith("sbx_")
    assert cay("exec", name, "--", "cat", "f", env=host).ok().text == "kept\n"
    cay("rm", name, env=host).ok()
    assert not scopes(daemon)
    assert cay.run("--scope", "session", "--", "true", env=host).rc == 125
    assert cay.run("--scope", name, "--sandbox", "x", "--", "true", env=host).rc == 125
    done = cay.run("--scope", name, "--", "true", env={"CAY_HOST": f"unix:{daemon.socket}.none"})
    assert done.rc == 125 and done.errors.startswith("cay: ")


def test_cay_run_alone_has_none(cay):
    done = cay.run("--scope", "session:a", "-c", "1")
    assert done.rc == 125 and "daemon" in done.errors


# What there is no way around

NARROW = """[network]
allow = *.example.org
allow = other.net
[scope session]
network = none
timeout = 60
output = 1m
[scope agent]
disk = 20m
network = allowlist
allow = *.a.example.org
[scope shared]
everybody = yes
timeout = 60
network = allowlist
allow = *.a.example.org
"""


@pytest.fixture(scope="module")
def narrow(scratch, binary_runs):
    maker = Maker(scratch)
    yield maker(settings=NARROW)
    maker.end()


@pytest.fixture
def clean(narrow):
    yield
    for s in scopes(narrow):
        narrow.delete(f"/v1/sandboxes/{s['id']}").ok()


@pytest.mark.usefixtures("clean")
class TestNarrow:
    @pytest.mark.parametrize("allow", [["other.net"], ["*.example.org"], ["x.a.example.org", "other.net"], ["x.a.example.org:22"]], ids=str)
    def test_other_domains(self, narrow, scope, allow):
        error = in_scope(narrow, scope("agent"), network={"allow": allow}).refused(403, "policy_denied")
        assert "network.allow" in error["message"] and "[scope agent]" in error["hint"]
        assert not scopes(narrow)

    @pytest.mark.parametrize("network, allow, block", [
        ({"mode": "allowlist"}, ["*.a.example.org"], []),
        ({"mode": "allowlist", "block": ["b.a.example.org"]}, ["*.a.example.org"], ["b.a.example.org"]),
        ({"allow": ["x.a.example.org"]}, ["x.a.example.org"], []),
        ({}, ["*.a.example.org"], []),
        ({"allow": []}, ["*.a.example.org"], []),
        ({"block": ["b.a.example.org"]}, ["*.a.example.org"], ["b.a.example.org"]),
    ], ids=str)
    def test_domains_of_the_scopes(self, narrow, scope, network, allow, block):
        name = scope("agent")
        made = ran(narrow, name, network=network)
        assert made["network"] == "allowlist"
        assert made["network_rules"]["allow"] == allow and made["network_rules"]["block"] == block
        assert ran(narrow, name, network=network)["sandbox"] == made["sandbox"]

    @pytest.mark.parametrize("network", [{}, {"allow": []}, {"block": ["b.example.org"]}], ids=str)
    def test_no_network_by_a_tier(self, narrow, scope, network):
        name = scope()
        assert ran(narrow, name, tier="elevated", network=network)["network"] == "none"
        assert ran(narrow, name, tier="elevated", network=network)["network"] == "none"

    @pytest.mark.parametrize("limits", [{"timeout": 61}, {"output": "2m"}], ids=str)
    def test_each_runs_limits(self, narrow, scope, limits):
        what = next(iter(limits))
        for name in (scope(), "shared") if what == "timeout" else (scope(),):
            for made in (False, True):
                for dry in (False, True):
                    error = in_scope(narrow, name, limits=limits, dry_run=dry).refused(403, "policy_denied")
                    assert what in error["message"] and "[scope " in error["hint"]
                if not made:
                    assert ran(narrow, name, limits={"timeout": 60})["sandbox"]
            path = f"/v1/sandboxes/{ran(narrow, name)['sandbox']}/runs"
            narrow.post(path, {"command": "true", "limits": limits}).refused(403, "policy_denied")
            narrow.post(path, {"command": "true", "limits": {"timeout": 60}}).ok()

    def test_changed_rules(self, narrow, scope):
        path = f"/v1/sandboxes/{ran(narrow, scope('agent'), network={'allow': ['x.a.example.org']})['sandbox']}"

        def patched(**network):
            return narrow.request("PATCH", path, {"network": network})
        error = patched(allow=["y.a.example.org", "other.net"]).refused(403, "policy_denied")
        assert "network.allow" in error["message"]
        assert narrow.get(path).ok()["network"]["allow"] == ["x.a.example.org"]
        assert patched(allow=["y.a.example.org"]).ok()["network"]["allow"] == ["y.a.example.org"]
        assert patched(block=["b.a.example.org"]).ok()["network"]["allow"] == ["y.a.example.org"]
        assert patched(allow=[]).ok()["network"]["allow"] == ["*.a.example.org"]

    def test_what_a_key_blocks_is_blocked_in_everybodys(self, narrow):
        one = key(narrow, tier="standard", bounds={"block": ["x.a.example.org"]})
        path = f"/v1/sandboxes/{ran(narrow, 'shared', key=key(narrow, tier='standard'))['sandbox']}"
        error = in_scope(narrow, "shared", key=one).refused(403, "policy_denied")
        assert "x.a.example.org" in error["message"] and "block" in error["hint"]
        narrow.request("PATCH", path, {"network": {"block": ["*.a.example.org"]}}).ok()
        assert ran(narrow, "shared", key=one)["network"] == "allowlist"


@pytest.mark.parametrize("restart", [False, True])
def test_a_shared_of_ones_own_is_never_everybodys(make_daemon, restart):
    daemon = make_daemon(settings="[scope shared]\nkeep = yes\ndisk = 20m\n")
    host, one = {"CAY_HOST": f"unix:{daemon.socket}"}, key(daemon)
    mine = ran(daemon, "shared", "echo secret >f")
    daemon.request("PUT", "/v1/settings", {"set": {"scope shared.everybody": "yes"}}).ok()
    if restart:
        daemon.restart()
    theirs = ran(daemon, "shared", "ls; echo ours >g", key=one)
    assert theirs["stdout"] == "" and theirs["sandbox"] != mine["sandbox"]
    assert ran(daemon, "shared", "cat g")["sandbox"] == theirs["sandbox"]
    assert sorted(s["id"] for s in scopes(daemon)) == sorted([mine["sandbox"], theirs["sandbox"]])
    assert scopes(daemon, one) == []
    if restart:
        daemon.restart()
        assert ran(daemon, "shared", "cat g", key=one)["stdout"] == "ours\n"
    listed = daemon.cay("ps", env=host).ok().text
    assert mine["sandbox"] in listed and theirs["sandbox"] in listed
    # One's own comes first.
    assert end(daemon, "shared").ok()["sandbox"] == mine["sandbox"]
    assert daemon.cay("exec", "shared", "--", "cat", "g", env=host).ok().text == "ours\n"
    assert daemon.get("/v1/sandboxes/shared", key=one).status == 404
    assert end(daemon, "shared").ok()["sandbox"] == theirs["sandbox"]
    assert end(daemon, "shared").failure == (404, "not_found")
