"""Networks by the API: what keys and tiers bring and bound, and the rules of sandboxes. Decided, not carried."""

import itertools

import pytest

from maker import Maker

SETTINGS = "[network]\nallow = *.example.org\nallow = *.example.com:*\nblock = ads.example.org\n"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def daemon(scratch, binary_runs):
    maker = Maker(scratch)
    yield maker(settings=SETTINGS)
    maker.end()


@pytest.fixture
def key(daemon):
    made = []

    def make(**more):
        text, id = daemon.key(f"n{next(NUMBERS)}", **more)
        made.append(id)
        return text
    yield make
    for id in made:
        daemon.delete(f"/v1/keys/{id}")


def plan(daemon, key=None, **asked):
    return daemon.post("/v1/runs", dict(asked, command="true", dry_run=True), key=key)


def decided(daemon, key=None, **asked):
    made = plan(daemon, key, **asked).ok()["dry_run"]
    return made["network"], made["network_rules"]["allow"], made["network_rules"]["block"]


def test_peers_have_no_tier(daemon):
    assert decided(daemon) == ("none", [], [])
    assert decided(daemon, network={"mode": "full"}) == ("full", [], ["ads.example.org"])
    assert decided(daemon, tier="standard") == (
        "allowlist", ["*.example.org", "*.example.com:*"], ["ads.example.org"])
    assert decided(daemon, tier="restricted") == ("none", [], [])
    plan(daemon, network={"allow": ["other.test"]}).refused(403, "policy_denied")


def test_a_keys_tier_is_the_most_there_is(daemon, key):
    low, middle, high = key(), key(tier="standard"), key(tier="elevated")
    assert decided(daemon, low) == decided(daemon, high) == ("none", [], [])
    error = plan(daemon, low, network={"allow": ["a.example.org"]}).refused(403, "policy_denied")
    assert "sandbox" in error["message"]
    assert decided(daemon, middle, network={"allow": ["a.example.org"]})[:2] == ("allowlist", ["a.example.org"])
    assert "standard" in plan(daemon, middle, network={"mode": "full"}).refused(403, "policy_denied")["message"]
    assert "elevated" in plan(daemon, middle, tier="elevated").refused(403, "policy_denied")["message"]
    assert decided(daemon, high, tier="elevated")[0] == "full"


def test_a_keys_bounds(daemon, key):
    narrow = key(tier="elevated", bounds={"networks": ["allowlist"], "allow": ["git.example.com:22", "other.test"],
                                          "block": ["x.example.com"]})
    # Of the key's own list what the operator's has.
    assert decided(daemon, narrow, network={"mode": "allowlist"}) == (
        "allowlist", ["git.example.com:22"], ["x.example.com", "ads.example.org"])
    assert decided(daemon, narrow, tier="elevated")[0] == "allowlist"
    plan(daemon, narrow, network={"mode": "full"}).refused(403, "policy_denied")
    for rule in ("git.example.com:443", "www.example.org", "other.test"):
        assert rule in plan(daemon, narrow, network={"allow": [rule]}).refused(403, "policy_denied")["message"]


@pytest.mark.parametrize("bounds", [{"allow": ["10.0.0.1"]}, {"block": "x"}, {"allow": [""]}])
def test_wrong_bounds(daemon, bounds):
    daemon.post("/v1/keys", {"name": "wrong", "bounds": bounds}).refused(400, "invalid_request")


def test_a_sandbox_says_what_it_has(daemon):
    made = daemon.post("/v1/sandboxes", {}).ok(201)
    assert made["network"] == {"mode": "none", "allow": [], "block": []}
    url = f"/v1/sandboxes/{made['id']}"
    daemon.request("PATCH", url, {"network": {"allow": ["a.example.org"]}}).refused(409, "conflict")
    daemon.request("PATCH", url, {"network": {"mode": "full"}}).refused(400, "invalid_request")
    daemon.post(f"{url}/runs", {"command": "true", "network": {"allow": []}}).refused(400, "invalid_request")
    assert daemon.post(f"{url}/runs", {"command": "true"}).ok()["network_rules"] == {"allow": [], "block": []}
    daemon.delete(url)


def test_a_sandbox_that_may_not_be(daemon):
    error = daemon.post("/v1/sandboxes", {"network": {"allow": ["other.test"]}}).refused(403, "policy_denied")
    assert "other.test" in error["message"]
    made = daemon.post("/v1/sandboxes", {"network": {"allow": ["a.example.org"]}, "dry_run": True}).ok()["dry_run"]
    assert made["network"] == "allowlist" and made["network_rules"]["allow"] == ["a.example.org"]
