"""What `cay run` makes of --network, --allow-domain and --block-domain, by dry runs; and what it refuses."""

import pytest

from support import OURS

PROXY = "http://198.18.0.1:3128"


def plan(cay, *options, **more):
    return cay.run("--dry-run", "--json", *options, "--", "true", **more).ok().json["dry_run"]


def test_none_by_default(cay):
    made = plan(cay)
    assert made["network"] == "none" and made["network_rules"] == {"allow": [], "block": []}
    assert not any("proxy" in line.lower() for line in made["env"])
    assert "network: only a loopback of its own" in made["denied"]


def test_domains_mean_allowlist(cay):
    made = plan(cay, "--allow-domain", "Example.ORG", "--allow-domain", "*.example.com:22", "--block-domain", "x.y")
    assert made["network"] == "allowlist"
    assert made["network_rules"] == {"allow": ["example.org", "*.example.com:22"], "block": ["x.y"]}
    assert {f"{name}={PROXY}" for name in ("http_proxy", "HTTPS_PROXY")} < set(made["env"])
    assert "no_proxy=localhost,127.0.0.1,::1" in made["env"]


def test_own_proxy_variables_win(cay):
    env = plan(cay, "--network", "full", "-e", "http_proxy=http://other", "-e", "NO_PROXY=")["env"]
    assert "http_proxy=http://other" in env and "NO_PROXY=" in env and f"https_proxy={PROXY}" in env


def test_for_people(cay):
    rows = [line.split(None, 1) for line in
            cay.run("--dry-run", "--allow-domain", "a.b", "--block-domain", "c.d", "--", "true").ok().text.splitlines()]
    assert ["network", "allowlist"] in rows and ["rule", "+a.b"] in rows and ["rule", "-c.d"] in rows


def test_operators_list_is_what_is_allowed(cay, config):
    settings = config("[network]\nmode = allowlist\nallow = *.example.org\nblock = ads.example.org\n")
    rules = plan(cay, "--network", "allowlist", "--block-domain", "x.example.org", config=settings)["network_rules"]
    assert rules == {"allow": ["*.example.org"], "block": ["x.example.org", "ads.example.org"]}
    rules = plan(cay, "--allow-domain", "www.example.org", config=settings)["network_rules"]
    assert rules == {"allow": ["www.example.org"], "block": ["ads.example.org"]}


@pytest.mark.parametrize("words, code, names", [
    (("--network", "full"), "policy_denied", "full"),
    (("--allow-domain", "example.com"), "policy_denied", "example.com"),
    (("--allow-domain", "*"), "policy_denied", "*"),
    (("--allow-domain", "www.example.org:22"), "policy_denied", "www.example.org:22"),
    (("--network", "none", "--allow-domain", "www.example.org"), "invalid_request", "none"),
    (("--network", "some"), "invalid_request", "some"),
    (("--allow-domain", "127.0.0.1"), "invalid_request", "--allow-domain"),
    (("--block-domain", "a b"), "invalid_request", "--block-domain"),
], ids=lambda v: " ".join(v) if isinstance(v, tuple) else None)
def test_refused(cay, config, words, code, names):
    settings = config("[network]\nmode = allowlist\nallow = *.example.org\n")
    error = cay.refused("--dry-run", *words, "--", "true", config=settings)
    assert error["code"] == code and names in error["message"] and error["hint"]


def test_allowlist_needs_a_list(cay):
    error = cay.refused("--network", "allowlist", "--", "true")
    assert error["code"] == "invalid_request" and "--allow-domain" in error["hint"]


@pytest.mark.parametrize("words", [("--network", "none"), ("--network", "full"), ("--block-domain", "a.b")],
                         ids=" ".join)
def test_not_without_a_sandbox(cay, words):
    error = cay.refused("--engine", "direct", *words, "--", "true")
    assert error["code"] == "unsupported" and "network" in error["message"]
    assert cay.run("--engine", "direct", *words, "--", "true").rc == OURS
