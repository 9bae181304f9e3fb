"""What is otherwise in containers of Docker and Podman, and why; docs/engines.md has it as a table.

    tests/conformance/in_containers.py --write    writes that table
"""

import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- differences: made by tests/conformance/in_containers.py -->\n", "<!-- /differences -->\n"

IMAGE = "localhost/cay-test:python"  # Debian's, with python3, perl and bash
HAS_NOT = ("javascript", "typescript", "ruby", "php", "lua", "r", "zsh", "go", "rust", "c", "cpp", "java")


def isolation(first):
    return dict(first, user="none", namespaces=["pid", "mount", "net", "ipc", "uts"])


# Of every result: the value of a field, or a function of native's; and why.
BY_DESIGN = {
    "image": (IMAGE, "the image's name, as the engine knows it; without `--image` the language's own"),
    "version": (None, "`null`: only the engine knows what its image has"),
    "isolation": (isolation, "the engine's namespaces: no user namespace (but for rootless engines), none for time "
                             "and cgroups; the rest is read back inside as on an island"),
    "engine": (None, "its name"),
    "engine_reason": ("asked for by name", "why this engine was taken"),
}

# What engines add to every environment.
ENVIRONMENT = {"docker": ["HOSTNAME=cay"], "podman": ["HOSTNAME=cay", "TERM=xterm", "container=podman"]}

# By the case's name in cases.py: why, and what differs there: a value, or a function of native's; None: not compared.
NO_NETWORK = "not had in a container: `unsupported`"
KERNELS = "the engine's own; what matters of it is told in `isolation`, and read back from inspect by tests/containers"
OTHERWISE = {
    "a network that refuses": (NO_NETWORK, None),
    **dict.fromkeys(("compile error", "compile error of typescript", "compiler killed", "compile warning", *HAS_NOT),
                    ("the tests' image has no such language", None)),
    "no such version": ("which version an image has that was named is the image's", None),
    "disk": ("`disk` is shared out beforehand: half of it is `/workspace`",
             {"stdout": "1\n4194304\n"}),
    "environment": ("`HOSTNAME` is set; by Podman `TERM` and `container`, too", {}),
    "no working directory": ("the words of the error", {
        "error": lambda first: dict(first, message=first["message"].removeprefix("set up the island (workdir): "))}),
    "cwd": ("`/tmp` is root's, with the sticky bit; so is Podman's `/workspace`, open to all", None),
    "ids": ("the user has a name only where the image has a user 1000", None),
    "session": ("programs are ended before PID 1 where memory is out", {
        "stdout": lambda first: first.replace(" 0\n", " 600\n")}),
    "processes seen": ("PID 1 is `/cay-guest-…`, and the engine masks other parts of `/proc`", None),
    "rlimits": (KERNELS, None),
    "state": (KERNELS, None),
    "mounts": (KERNELS, None),
    "namespaces": (KERNELS, None),
    "root": ("the image's files", None),
}


def otherwise(engine):
    def environment(first):
        return "".join(f"{line}\n" for line in sorted([*first.splitlines(), *ENVIRONMENT[engine]]))
    return {**OTHERWISE, "environment": (OTHERWISE["environment"][0], {"stdout": environment})}


def table():
    rows = ["| | In a container |", "|---|---|", "| **Of every result** | |"]
    rows += [f"| `{field}` | {why} |" for field, (_, why) in BY_DESIGN.items()]
    rows += ["| **Where a program looks** | |"]
    reasons = {}
    for case, (why, fields) in OTHERWISE.items():
        reasons.setdefault((why, fields is None), []).append(case)
    rows += [f"| {', '.join(cases)} | {why}{' *' if skipped else ''} |" for (why, skipped), cases in reasons.items()]
    return "\n".join(rows) + "\n\n\\* not compared by the suite.\n"


def with_table(text):
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + table() + END, text, flags=re.S)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    DOCS.write_text(with_table(DOCS.read_text()))
