#!/usr/bin/python3
"""Where cay was tried, and what came of it: docs/environments.json, as tests recorded it, and
docs/environments.md, which is made of it (`make environments`).

A place is looked at by two commands, `cay doctor --json` and `cay run --json -- true`, once as it is
and once with --allow-degraded. test_environments.py does so wherever it runs, and compares.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = ROOT / "docs" / "environments.json"
PAGE = ROOT / "docs" / "environments.md"
FOUND = ROOT / "build" / "places"  # what tests found, a file for each place

# In the order of the page: what each is, and who tries it.
PLACES = {
    "root, cgroup v1 hybrid": "root on a machine with cgroup v1 for limits and an empty v2 tree beside it",
    "root, cgroup v2": "root on Debian's own kernel with cgroup v2 alone",
    "user, cgroup v1 hybrid": "an ordinary user, nothing delegated",
    "user, cgroup v2": "the same",
    "user, delegated cgroup v1": "an ordinary user in a directory of each hierarchy that root gave away",
    "user, delegated cgroup v2": "an ordinary user in a cgroup that root or a service manager gave away",
    "user, session of systemd": "an ordinary user, logged in: a scope is asked for",
    "container, root": "root of a container with Docker's defaults: filter, covered /proc, read-only cgroups",
    "container, user": "an ordinary user of that container",
    "container with flags, root": "with the flags that doctor names",
    "container with flags, user": "the same",
}

HEAD = """# Where it runs

Made by `make environments` of what tests found (docs/environments.json); each `make test` tries these places again and compares. `cay doctor` says the same on your machine.

"""

UBUNTU = """
## Ubuntu's restricted user namespaces

Not tried: no kernel with that switch here. Where the sysctl `kernel.apparmor_restrict_unprivileged_userns` is 1, an ordinary user's `cay` gets user namespaces without rights in them, or none; nothing runs, and doctor names the profile that gives them: [packaging/apparmor/cay](../packaging/apparmor/cay), installed to `/etc/apparmor.d` where AppArmor 4 is, loaded by `apparmor_parser -r /etc/apparmor.d/cay`. Root is not restricted. What doctor says is tested against files that look like that machine, the profile's grammar by AppArmor's parser.

## In containers

The flags take away part of what holds the container itself: its system call filter, the covers of `/proc`, and with `--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw` its root may change the limits of everything on the machine. Better: `cay` beside containers, not in them; or a container with limits of its own, the first two flags, and `--allow-degraded`.

Islands of several containers with root's ids take the same range of host ids (0x70000000 and up), as each container has its own `/run/cay/ids`: mount one `/run/cay` into all of them if their islands share writable volumes.
"""


def outcome(done):
    """Of a run with --json: "ok", or the error's code."""
    result = json.loads(done.out)
    return result["error"]["code"] if "error" in result else result["status"]


def look(cay):
    """What there is to know of a place, without what differs from kernel to kernel."""
    doctor = json.loads(cay("doctor", "--json").out)
    rows = {row["control"]: row for row in doctor["controls"]}
    degraded = cay.run("--json", "--allow-degraded", "--", "true")
    result = json.loads(degraded.out)
    return {
        "run": outcome(cay.run("--json", "--", "true")),
        "degraded_run": outcome(degraded),
        "degraded": result.get("isolation", {}).get("degraded"),
        "ids": rows["user ids"]["how"],
        "limits": {name: row["how"] if row["ok"] else "none" for name, row in rows.items() if name.endswith("limit")},
        "host_directories": rows["host directories"]["how"] if rows["host directories"]["ok"] else "none",
        "failing": [{"control": row["control"], "reason": row["reason"], "todo": row["todo"]}
                    for row in doctor["controls"] if row["required"] and not row["ok"]],
    }


def save(place, seen):
    FOUND.mkdir(parents=True, exist_ok=True)
    name = place.replace(",", "").replace(" ", "-")
    (FOUND / f"{name}.json").write_text(json.dumps({"place": place, "seen": seen}, indent=1, sort_keys=True) + "\n")


def recorded():
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def works(seen):
    if seen["run"] == "ok":
        return "all of it"
    if seen["degraded_run"] == "ok":
        return "refused; all but " + " and ".join(seen["degraded"]) + " with `--allow-degraded`"
    return "refused, also with `--allow-degraded`"


def advice(seen):
    """Each piece of advice once, with what it is for."""
    lines = {}
    for row in seen["failing"]:
        lines.setdefault(row["todo"], []).append(row["control"])
    return "; ".join(f"**{', '.join(controls)}**: {todo}" for todo, controls in lines.items()) or "A default run is fully enforced."


def page(found):
    out = [HEAD, "| Place | What works | memory, processes, CPU | `--workspace`, `-v` |", "\n|---|---|---|---|\n"]
    for place, what in PLACES.items():
        seen = found[place]
        limits = ", ".join(seen["limits"][f"{name} limit"] for name in ("memory", "process", "cpu"))
        out.append(f"| **{place}**: {what} | {works(seen)} | {limits} | {seen['host_directories']} |\n")
    out.append("\n## What doctor says\n\n")
    out += [f"- **{place}** — {advice(found[place])}\n" for place in PLACES]
    return "".join(out) + UBUNTU


def main():
    found = recorded()
    for path in sorted(FOUND.glob("*.json")):
        entry = json.loads(path.read_text())
        found[entry["place"]] = entry["seen"]
    missing = [place for place in PLACES if place not in found]
    if missing:
        sys.exit(f"environments.py: no test has recorded: {'; '.join(missing)}")
    RECORDED.write_text(json.dumps({place: found[place] for place in PLACES}, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
