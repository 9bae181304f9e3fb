"""The rows of docs/policy-table.md, as a daemon answers them: each asked for once, by a dry run."""

import pathlib
import re

import pytest

from maker import Maker

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "policy-table.md"
SETTINGS = """[serve]
mode = {}
direct_user = 60123
direct_over_tcp = yes
[selective]
sandbox = label:risky
[network]
allow = *.example.org
"""


def table(title):
    """Its rows as dicts."""
    part = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", FILE.read_text(), re.M | re.S)[1]
    lines = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line)) for line in lines[2:]]


@pytest.fixture(scope="module")
def daemons(scratch, binary_runs):
    """By the operator's mode."""
    maker = Maker(scratch)
    yield {mode: maker(settings=SETTINGS.format(mode)) for mode in ("all", "selective", "off")}
    maker.end()


@pytest.fixture(scope="module")
def keys(daemons):
    """Of all tiers, and one without direct, for each daemon."""
    made = {}
    for mode, daemon in daemons.items():
        for tier in ("sandbox", "restricted", "standard", "elevated", "unrestricted"):
            made[mode, tier] = daemon.key(tier, tier=tier)[0]
        made[mode, "without"] = daemon.key("without", tier="unrestricted", bounds={"engines": ["native"]})[0]
    return made


def asked(row):
    body = {"trusted": row["trusted"] != "no", "dry_run": True}
    body.update({"command": "true", "network": {"mode": "full"}} if row["shell with a network"] == "yes" else {"code": "1"})
    if row["scope"] == "yes":
        body["scope"] = "session:table"
    if row["engine"]:
        body["engine"] = row["engine"]
    if row["rule"] == "yes":
        body["labels"] = {"risky": "1"}
    if row["tier"] == "without":
        body["tier"] = "sandbox"
    return body


@pytest.mark.parametrize("row", table("Where it runs"), ids=lambda row: ",".join(filter(None, row.values()))[:80])
def test_where_it_runs(daemons, keys, row):
    mode = row["mode"] or "off"
    answer = daemons[mode].post("/v1/runs", asked(row), key=keys[mode, "without"] if row["key"] == "without" else None)
    if row["runs"] == "denied":
        assert row["why"] in answer.refused(403, "policy_denied")["message"]
        return
    plan = answer.ok()["dry_run"]
    assert plan["engine"] == {"sandbox": "native", "direct": "direct"}[row["runs"]]
    assert row["why"] in plan["policy"]["why"] and plan["policy"]["mode"] == mode
    assert plan["policy"]["scope"] == ("session:table" if row["scope"] == "yes" else None)


@pytest.mark.parametrize("row", [row for row in table("Which mode is in force") if not row["who asks"] and not row["engine"]],
                         ids=lambda row: ",".join(filter(None, row.values())))
def test_which_mode_is_in_force(daemons, row):
    body = {"code": "1", "dry_run": True}
    if row["request"] != "nothing":
        body["mode"] = row["request"]
    answer = daemons[row["operator"] or "off"].post("/v1/runs", body)
    if row["in force"] == "denied":
        answer.refused(403, "policy_denied")
    else:
        assert answer.ok()["dry_run"]["policy"]["mode"] == row["in force"]


@pytest.mark.parametrize("whose", ["request's", "key's"])
def test_networks_by_tier(daemons, keys, whose):
    for row in table(f"Network by the {whose} tier"):
        tier = row.pop("tier")
        for mode, gets in row.items():
            body = {"code": "1", "dry_run": True}
            if mode != "nothing":
                body["network"] = {"mode": mode}
            if whose == "request's" and tier != "-":
                body["tier"] = tier
            answer = daemons["all"].post("/v1/runs", body, key=keys["all", tier] if whose == "key's" and tier != "-" else None)
            if gets == "denied":
                assert tier in answer.refused(403, "policy_denied")["message"]
            else:
                assert answer.ok()["dry_run"]["network"] == gets, (tier, mode)
