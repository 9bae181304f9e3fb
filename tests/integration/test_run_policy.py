"""Modes and tiers of `cay run` without a daemon."""

import pytest

SELECTIVE = "[serve]\nmode = selective\n[selective]\nsandbox = language:bash\n"


def ran(cay, *words, **more):
    result = cay.run("--json", *words, "-c", "true" if "bash" in words else "1", **more).ok().json
    return result["engine"], result["policy"]["why"]


def test_everything_is_sandboxed(cay):
    result = cay.run("--json", "--trusted", "-c", "1").ok().json
    assert result["engine"] == "native" and result["engine_reason"] == ""
    assert result["policy"] == {"mode": "all", "tier": None, "scope": None, "why": "mode all: everything is sandboxed"}


def test_less_cannot_be_asked_for(cay):
    for mode in ("off", "selective"):
        error = cay.refused("--mode", mode, "-c", "1")
        assert error["code"] == "policy_denied" and "mode is all" in error["message"]


def test_selective(cay, config):
    settings = config(SELECTIVE)
    assert ran(cay, config=settings) == ("native", "mode selective: not marked as trusted")
    assert ran(cay, "--trusted", config=settings) == ("direct", "mode selective: marked as trusted")
    assert ran(cay, "--trusted", "-l", "bash", config=settings) == (
        "native", "mode selective: the operator's rule language:bash")
    assert ran(cay, "--trusted", "--mode", "all", config=settings) == ("native", "mode all: everything is sandboxed")
    assert ran(cay, "--trusted", "--tier", "standard", config=settings) == (
        "native", "the tier standard has no engine direct")
    error = cay.refused("--mode", "off", "-c", "1", config=settings)
    assert error["code"] == "policy_denied"


def test_without_a_sandbox_it_says_so(cay, config):
    settings = config("[serve]\nmode = off\n")
    done = cay.run("-c", "print(1)", config=settings).ok()
    assert done.text == "1\n" and done.errors.count("ran without a sandbox (mode off: no sandbox)") == 1
    result = cay.run("--json", "-c", "1", config=settings).ok().json
    assert "ran without a sandbox" in result["message"] and result["engine_reason"].startswith("mode off")
    assert ran(cay, "--mode", "all", config=settings)[0] == "native"
    assert ran(cay, "--mode", "selective", config=settings)[0] == "native"
    assert "mode off: no sandbox" in cay.run("--dry-run", "-c", "1", config=settings).ok().text
    # A network is a sandbox's to have.
    assert cay.refused("--allow-domain", "a.b", "-c", "1", config=settings)["code"] == "unsupported"


def test_by_name_is_the_callers_own(cay, config):
    assert ran(cay, "--engine", "direct") == ("direct", "asked for by name: no sandbox")
    assert cay.refused("--engine", "direct", "--mode", "all", "-c", "1")["code"] == "policy_denied"
    assert cay.refused("--engine", "direct", "--tier", "standard", "-c", "1")["code"] == "policy_denied"
    assert ran(cay, "--engine", "direct", "--tier", "unrestricted")[0] == "direct"


def test_settings_have_to_agree(cay, config):
    error = cay.refused("-c", "1", config=config("[serve]\nmode = off\n[engine]\ndirect = no\n"))
    assert "[engine] direct = no" in error["message"]


def test_a_tier_brings_limits(cay, config):
    settings = config("[tier standard]\nmemory = 200m\nnetwork = none\n")
    plan = cay.run("--json", "--dry-run", "--tier", "standard", "-c", "1", config=settings).ok().json["dry_run"]
    assert plan["limits"]["memory"] == 200 << 20 and plan["policy"]["tier"] == "standard"
    error = cay.refused("--tier", "standard", "-m", "201m", "-c", "1", config=settings)
    assert error["code"] == "policy_denied" and "standard" in error["message"]


def test_a_list_that_nobody_has_written_brings_nothing(cay, config):
    words = ("--json", "--dry-run", "--tier", "standard", "-c", "1")
    assert cay.run(*words).ok().json["dry_run"]["network"] == "none"
    listed = config("[network]\nallow = a.example.org\n")
    assert cay.run(*words, config=listed).ok().json["dry_run"]["network"] == "allowlist"
    error = cay.refused("--tier", "standard", "--network", "allowlist", "-c", "1")
    assert "no domain is listed" in error["message"]


@pytest.mark.parametrize("words", [("--mode", "most"), ("--tier", "god")])
def test_no_such_thing(cay, words):
    assert cay.refused(*words, "-c", "1")["code"] == "invalid_request"


@pytest.mark.parametrize("line, says", [
    ("sandbox = shel", "did you mean 'shell'"), ("sandbox = language", "needs a value"),
    ("sandbox = tier:god", "tier"), ("sandboxes = shell", "sandbox")])
def test_rules_that_are_none(cay, config, line, says):
    done = cay.run("--json", "-c", "1", config=config(f"[selective]\n{line}\n"))
    assert done.rc == 125 and says in str(done.json["error"]), done.json
