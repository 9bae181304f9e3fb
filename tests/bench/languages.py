#!/usr/bin/python3
"""make languages: writes docs/languages.md: what each language needs, what was tried, what it costs.

The table of tests/integration/language_table.py says what is run and what is
special; `cay runtimes` says which versions are here; each program is then run in
turns on an island and without one (`--engine direct`), so that only what the
island costs is between the two.
"""
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from language_table import LANGUAGES  # noqa: E402

CAY = os.environ.get("CAY_BIN", str(ROOT / "build/cay"))
DOC = ROOT / "docs/languages.md"
ROUNDS = 9

HEAD = """# Languages

Made by `make languages`, which runs each of them. What is tested is in tests/integration/test_languages.py.

`cay run -l NAME[@VERSION]`, or by FILE's extension, or by its first line (`#!`). Without a version: the preferred one if it is there, else the newest; `cay runtimes` shows what that is and why. Further versions come from directories named in the settings: see the example in cay.conf.

Compiled languages are compiled on the island, under the run's limits and within its time. What the compiler said is in the result's `compile` (`success`, `exit_code`, `output`, `wall_ms`), apart from the program's own output; if it fails, the run is `failed` and the program never begins. Without `--json` it goes to standard error.

"""


def cay_json(*args):
    return json.loads(subprocess.run([CAY, *args], check=True, stdout=subprocess.PIPE).stdout)


def versions_here():
    found = {}
    for row in cay_json("runtimes", "--json")["runtimes"]:
        found.setdefault(row["language"], []).append(row["version"] or "no version")
    return found


def seconds(language, engine):
    began = time.perf_counter()
    subprocess.run([CAY, "run", "--engine", engine, "-l", language.name, "-c", language.echo],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
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
    here = versions_here()
    missing = [l.title for l in LANGUAGES if l.name not in here]
    if missing:
        sys.exit(f"not on this machine: {', '.join(missing)}; `tools/setup test` installs them")
    measured = []
    for language in LANGUAGES:
        print(language.title, file=sys.stderr)
        measured.append((language, here[language.name], measure(language)))
    write(measured)


if __name__ == "__main__":
    main()
