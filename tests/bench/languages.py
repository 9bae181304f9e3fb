#!/usr/bin/python3
"""make languages: writes docs/languages.md: what each language needs, what was tried, what it costs.

The table of tests/integration/language_table.py says what is run and what is
special; every version that `cay runtimes` names is tried; the default one is run in
turns on an island and without one (`--engine direct`), so that only what the
island costs is between the two.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from language_table import LANGUAGES  # noqa: E402
from nodes import STORE  # noqa: E402

CAY = os.environ.get("CAY_BIN", str(ROOT / "build/cay"))
DOC = ROOT / "docs/languages.md"
ROUNDS = 9

HEAD = """# Languages

Made by `make languages`, which runs each of them. What is tested is in tests/integration/test_languages.py.

`cay run -l NAME[@VERSION]`, or by FILE's extension, or by its first line (`#!`). Without a version: the preferred one if it is there, else the newest; `cay runtimes` shows what that is and why. Further versions come from directories named in the settings: see the example in cay.conf.

Compiled languages are compiled on the island, under the run's limits and within its time. What the compiler said is in the result's `compile` (`success`, `exit_code`, `output`, `wall_ms`), apart from the program's own output; if it fails, the run is `failed` and the program never begins. Without `--json` it goes to standard error.

"""


def settings():
    """Names the Pythons of pyenv and the Nodes that the tests installed, where there are any."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    pythons = [p for p in pyenv.glob("3.*") if int(p.name.split(".")[1]) >= 9]
    lines = ["[language python]", *(f"path = {p}" for p in pythons),
             "[language javascript]", *(f"path = {p}" for p in STORE.glob("*.*"))]
    return "\n".join(lines) + "\n"


def run(name, code, engine="native"):
    return subprocess.run([CAY, "run", "--engine", engine, "-l", name, "-c", code],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode


def versions_that_run(language):
    """Those that are here and run the program; the oldest first."""
    found = subprocess.run([CAY, "runtimes", "--json", language.name], check=True,
                           stdout=subprocess.PIPE).stdout
    versions = [row["version"] for row in json.loads(found)["runtimes"]]
    for version in versions:
        name = f"{language.name}@{version}" if version else language.name
        if run(name, language.leave) != 3:
            sys.exit(f"{name} does not run")
    return [version or "no version" for version in reversed(versions)]


def seconds(language, engine):
    began = time.perf_counter()
    if run(language.name, language.echo, engine) != 0:
        sys.exit(f"{language.name} does not run")
    return time.perf_counter() - began


def measure(language):
    """Medians in milliseconds, by engine; in turns, so that a neighbour slows both down."""
    times = {"direct": [], "native": []}
    for _ in range(ROUNDS):
        for engine, series in times.items():
            series.append(seconds(language, engine) * 1e3)
    return {engine: statistics.median(series) for engine, series in times.items()}


def row(language, versions, times):
    return (f"| {language.title} | `{language.name}` | {', '.join(versions)} | "
            f"{times['direct']:.0f} | {times['native']:.0f} | "
            f"{times['native'] - times['direct']:+.1f} |")


def write(measured):
    lines = [HEAD.rstrip(), "", "| Language | `-l` | Tried | Bare, ms | On an island, ms | Difference |",
             "|---|---|---|---|---|---|"]
    lines += [row(*entry) for entry in measured]
    lines += ["", f"Medians of {ROUNDS} cold starts in turns, of a program that prints its "
              "arguments; with compiling where there is that. Bare is `--engine direct`.",
              "", "## What is special", ""]
    lines += [f"- **{l.title}**: {l.special}" for l, _, _ in measured if l.special]
    DOC.write_text("\n".join(lines) + "\n")


def main():
    measured = []
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch, "cay.conf")
        config.write_text(settings())
        for language in LANGUAGES:
            print(language.title, file=sys.stderr)
            times = measure(language)  # of what this machine has by itself
            os.environ["CAY_CONFIG"] = str(config)
            measured.append((language, versions_that_run(language), times))
            del os.environ["CAY_CONFIG"]
    write(measured)


if __name__ == "__main__":
    main()
