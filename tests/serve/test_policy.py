"""The operator's rules and tiers, as a daemon's callers meet them; by dry runs where nothing has to run."""

import itertools

import pytest

from maker import Maker

SETTINGS = """[serve]
mode = selective
direct_user = 60123
direct_over_tcp = yes
[selective]
sandbox = language:ruby
sandbox = label:origin=web
sandbox = key:outsider
sandbox = mounts
[tier standard]
memory = 300m
timeout = 20
[tier elevated]
memory = 2g
engines = all
[mounts]
read = /usr/share
write = /srv
"""
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def daemon(scratch, binary_runs):
    maker = Maker(scratch)
    yield maker(settings=SETTINGS)
    maker.end()


@pytest.fixture(scope="module")
def keys(daemon):
    """One of each tier, by its name."""
    return {tier: daemon.key(tier, tier=tier)[0]
            for tier in ("sandbox", "restricted", "standard", "elevated", "unrestricted")}


def plan(daemon, key=None, **asked):
    if not {"command", "argv", "code"} & set(asked):
        asked["code"] = "1"
    return daemon.post("/v1/runs", dict(asked, dry_run=True), key=key)


def decided(daemon, key=None, **asked):
    made = plan(daemon, key, **asked).ok()["dry_run"]
    assert made["sandboxed"] == (made["engine"] != "direct")
    return made["engine"], made["policy"]["why"]


def test_rules_sandbox_what_is_trusted(daemon):
    assert decided(daemon, trusted=True) == ("direct", "mode selective: marked as trusted")
    for rule, asked in {"language:ruby": {"language": "ruby"}, "label:origin=web": {"labels": {"origin": "web"}},
                        "mounts": {"mounts": [{"source": "/usr/share", "target": "/data"}]}}.items():
        assert decided(daemon, trusted=True, **asked) == ("native", f"mode selective: the operator's rule {rule}")
    assert decided(daemon, trusted=True, labels={"origin": "me"})[0] == "direct"
    error = plan(daemon, trusted=True, language="ruby", engine="direct").refused(403, "policy_denied")
    assert "language:ruby" in error["message"]


def test_a_key_by_its_name(daemon):
    outsider, _ = daemon.key("outsider", tier="unrestricted")
    assert decided(daemon, outsider, trusted=True) == ("native", "mode selective: the operator's rule key:outsider")


def test_every_result_explains(daemon):
    result = daemon.run("1")
    assert result["policy"] == {"mode": "selective", "tier": None, "scope": None,
                                "why": "mode selective: not marked as trusted"}
    assert result["engine_reason"] == result["policy"]["why"]
    result = daemon.run("1", mode="all", tier="standard")
    assert result["policy"] == {"mode": "all", "tier": "standard", "scope": None,
                                "why": "mode all: everything is sandboxed"}
    assert result["engine_reason"] == ""
    with daemon.sandbox() as sandbox:
        result = sandbox.python("1")
        assert result["policy"]["why"] == "what lives on is a sandbox, whatever the mode"


def test_a_keys_tier_is_told(daemon, keys):
    assert daemon.run("1", key=keys["standard"])["policy"]["tier"] == "standard"
    assert daemon.run("1", key=keys["standard"], tier="sandbox")["policy"]["tier"] == "sandbox"


def test_tiers_without_direct_are_sandboxed(daemon, keys):
    for tier, key in keys.items():
        engine, why = decided(daemon, key, trusted=True)
        has = tier in ("elevated", "unrestricted")
        assert engine == ("direct" if has else "native"), tier
        assert has or why == f"the tier {tier} has no engine direct"
    assert decided(daemon, trusted=True, tier="sandbox") == ("native", "the tier sandbox has no engine direct")
    assert decided(daemon, trusted=True, tier="unrestricted")[0] == "direct"
    error = plan(daemon, keys["standard"], trusted=True, engine="direct").refused(403, "policy_denied")
    assert "standard" in error["message"]


def test_a_requests_tier_brings_limits(daemon, keys):
    def limits(key=None, **asked):
        return plan(daemon, key, **asked).ok()["dry_run"]["limits"]
    assert limits()["memory"] == 512 << 20
    assert limits(tier="standard")["memory"] == 300 << 20 and limits(tier="standard")["timeout"] == 20
    assert limits(tier="elevated", mode="all")["memory"] == 2 << 30
    assert limits(tier="standard", limits={"memory": "64m"})["memory"] == 64 << 20
    for key, asked in ((None, {"tier": "standard"}), (keys["standard"], {})):
        error = plan(daemon, key, limits={"memory": "301m"}, **asked).refused(403, "policy_denied")
        assert "memory" in error["message"] and "standard" in error["message"]
    # A key's tier brings nothing, and lowers what there is.
    assert limits(keys["standard"])["memory"] == 300 << 20
    assert limits(keys["elevated"], mode="all")["memory"] == 512 << 20


def test_tiers_and_mounts(daemon, keys):
    def asked(access, source="/usr/share"):
        return {"mounts": [{"source": source, "target": "/data", "access": access}]}
    for tier, most in {"sandbox": "", "restricted": "ro", "standard": "ro", "elevated": "rw", "unrestricted": "rw"}.items():
        for key, more in ((keys[tier], {}), (None, {"tier": tier})):
            for access in ("ro", "rw"):
                answer = plan(daemon, key, **asked(access, "/srv"), **more)
                if access <= most:
                    answer.ok()
                else:
                    assert tier in answer.refused(403, "policy_denied")["message"]


def test_sandboxes_have_tiers(daemon, keys):
    made = daemon.post("/v1/sandboxes", {"tier": "standard", "dry_run": True}).ok()["dry_run"]
    assert made["limits"]["memory"] == 300 << 20 and made["policy"]["tier"] == "standard"
    daemon.post("/v1/sandboxes", {"limits": {"memory": "1g"}}, key=keys["standard"]).refused(403, "policy_denied")
    made = daemon.post("/v1/sandboxes", {}, key=keys["standard"]).ok(201)
    try:
        url = f"/v1/sandboxes/{made['id']}/runs"
        assert daemon.post(url, {"code": "1"}, key=keys["standard"]).ok()["policy"]["tier"] == "standard"
        error = daemon.post(url, {"code": "1", "limits": {"timeout": 21}}, key=keys["standard"]).refused(403, "policy_denied")
        assert "timeout" in error["message"]
    finally:
        daemon.delete(f"/v1/sandboxes/{made['id']}")


def test_cay_run_asks_the_same(daemon):
    host = {"CAY_HOST": f"unix:{daemon.socket}"}
    run = daemon.cay.run
    assert run("--json", "-c", "1", env=host).ok().json["policy"]["mode"] == "selective"
    result = run("--json", "--mode", "all", "--tier", "standard", "-c", "1", env=host).ok().json
    assert result["policy"]["mode"] == "all" and result["policy"]["tier"] == "standard"
    done = run("--trusted", "--", "id", "-u", env=host)
    assert done.text == "60123\n" and done.errors.count("without a sandbox") == 1
    assert run("--mode", "off", "-c", "1", env=host).rc == 125
