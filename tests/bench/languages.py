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


def runtimes():
    out = subprocess.run([CAY, "runtimes", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return {row["language"]: row for row in json.loads(out)["runtimes"]}


def seconds(language, engine):
    began = time.perf_counter()
    subprocess.run([CAY, "run", "--engine", engine, "-l", language.name, "-c", language.echo],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(language):
    times = {"direct": [], "native": []}
    for _ in range(ROUNDS):
        for engine, series in times.items():
            series.append(seconds(language, engine) * 1e3)
    return {engine: statistics.median(series) for engine, series in times.items()}


def describe(language, versions, times):
    extra = times["native"] - times["direct"]
    lines = [f"## {language.title}", "",
             f"`-l {language.name}`" + (f", also {', '.join(versions['aliases'])}"
                                        if versions["aliases"] else "")
             + f"; files {', '.join(versions['extensions'])}; package {versions['package']}", "",
             f"Tried: {versions['version'] or 'no version'}. "
             f"{times['direct']:.0f} ms without an island, {times['native']:.0f} ms on one "
             f"({extra:+.1f} ms{', with compiling' if language.compiled else ''}).", ""]
    if language.special:
        lines += [language.special, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(runtimes(), indent=1)[:1500])
