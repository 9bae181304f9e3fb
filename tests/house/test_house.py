"""The rules of the house (STYLE.md), as far as a machine can check them."""

import ast
import collections
import importlib.util
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
CAY = os.environ.get("CAY_BIN", str(ROOT / "build" / "cay"))
PAGE = ROOT / "docs" / "cay.1.scd"

# A room may include itself and those before it.
ROOMS = ["base", "core", "context", "spec", "settings", "policy", "image", "egress", "warm", "engine",
         "store", "session", "api", "cli"]

SOURCES = sorted(SRC.rglob("*.c"))
HEADERS = sorted(SRC.rglob("*.h"))
FLAGS = ["-fsyntax-only", f"-I{SRC}", "-isystem", sysconfig.get_path("include"), "-D_GNU_SOURCE",
         '-DCAY_VERSION="0"', "-std=gnu17"]

MAX_LINES = 700


def must_work(reason):
    if os.environ.get("CAY_MUST_WORK") == "1":
        pytest.fail(f"must work here, but: {reason}", pytrace=False)
    pytest.skip(reason)


def name(path):
    return str(path.relative_to(ROOT))


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=[name(p) for p in paths])


def compiler():
    found = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    return found or must_work("there is no C compiler")


def room_of(path):
    """"engine" of engine/native/mount.h; None of main.c, which may include everything."""
    parts = pathlib.PurePath(path).parts
    return parts[0] if len(parts) > 1 else None


def engine_of(path):
    """"native" of engine/native/mount.h; None of what all engines share."""
    parts = pathlib.PurePath(path).parts
    return parts[1] if parts[0] == "engine" and len(parts) > 2 else None


def includes(path):
    """What is included with quotes, as (line number, name)."""
    for n, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if found:
            yield n, found[1]


def broken_includes(source, included):
    """Why source (relative to src/) may not include what it does, as a list of words."""
    own, theirs = room_of(source), room_of(included)
    if theirs is None:
        # Made at build time beside the objects, or next to the file: no room of ours.
        return []
    if theirs not in ROOMS:
        return [f"{included}: no such room"]
    if own is not None and ROOMS.index(theirs) > ROOMS.index(own):
        return [f"{own} may not include {theirs}"]
    if engine_of(source) and engine_of(included) and engine_of(source) != engine_of(included):
        return [f"the engine {engine_of(source)} may not include {engine_of(included)}"]
    if own == "engine" and not engine_of(source) and engine_of(included):
        return [f"what engines share may not include {engine_of(included)}"]
    if own in ("session", "api") and engine_of(included):
        return [f"{own} speaks to engines by what they share, not to {engine_of(included)}"]
    return []


def test_there_is_something_to_check():
    assert len(SOURCES) > 20 and len(HEADERS) > 20


def test_rooms_are_known():
    assert {p.name for p in SRC.iterdir() if p.is_dir()} <= set(ROOMS)
    assert [p.name for p in SRC.glob("*.c")] == ["main.c"]


@pytest.mark.parametrize("source, included, fine", [
    ("cli/run.c", "engine/engine.h", True), ("base/fd.c", "base/fd.h", True),
    ("base/fd.c", "core/error.h", False), ("policy/plan.c", "engine/watch.h", False),
    ("engine/native/native.c", "engine/watch.h", True), ("main.c", "cli/cli.h", True),
    ("engine/native/native.c", "engine/direct/x.h", False), ("engine/watch.c", "engine/native/x.h", False),
    ("session/job.c", "engine/service.h", True), ("session/job.c", "engine/native/x.h", False),
    ("api/runs.c", "engine/direct/x.h", False), ("cli/run.c", "nowhere/x.h", False)])
def test_the_include_rule_itself(source, included, fine):
    assert (broken_includes(source, included) == []) == fine


@each(SOURCES + HEADERS)
def test_includes(path):
    source = str(path.relative_to(SRC))
    wrong = [f"{name(path)}:{n}: {why}" for n, included in includes(path)
             for why in broken_includes(source, included)]
    assert not wrong, "\n".join(wrong)


@each(SOURCES + HEADERS)
def test_includes_exist(path):
    missing = [f"{name(path)}:{n}: {included}" for n, included in includes(path)
               if not (SRC / included).exists() and room_of(included)]
    assert not missing


@each(HEADERS)
def test_header_is_self_contained(path, tmp_path):
    # Twice: it must bear that, too.
    main = tmp_path / "main.c"
    main.write_text(f'#include "{path.relative_to(SRC)}"\n' * 2)
    done = subprocess.run([compiler(), *FLAGS, "-Wall", "-Werror", main], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@each(HEADERS)
def test_header_has_a_guard(path):
    assert re.search(r"^#pragma once$", path.read_text(), re.M)


# Banned functions

def banned():
    return re.findall(r"^#define (\w+)\(.*BANNED\(", (SRC / "base" / "banned.h").read_text(), re.M)


def test_banned_names():
    assert {"strcpy", "strcat", "sprintf", "atoi", "system", "gets"} <= set(banned())


CALLS = {"strcpy": "strcpy(b, b)", "strcat": "strcat(b, b)", "sprintf": 'sprintf(b, "x")',
         "atoi": "atoi(b)", "system": "system(b)", "strtok": "strtok(b, b)"}


@pytest.mark.parametrize("function", CALLS)
def test_banned_function_does_not_compile(function, tmp_path):
    main = tmp_path / "main.c"
    command = [compiler(), *FLAGS, "-w", main]
    main.write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                    "int main(void) { char b[9] = \"\"; (void)%s; return 0; }\n" % CALLS[function])
    assert subprocess.run(command, capture_output=True).returncode == 0
    done = subprocess.run([*command, "-include", SRC / "base" / "banned.h"], capture_output=True, text=True)
    assert done.returncode != 0 and f"sorry_{function}_is_banned" in done.stderr


def code_of(text):
    """The text without comments and strings, with its lines."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*'
    return re.sub(pattern, lambda m: "\n" * m[0].count("\n"), text, flags=re.S)


@each([p for p in SOURCES + HEADERS if p.name != "banned.h"])
def test_banned_functions_are_not_used(path):
    names = banned() + ["vfork", "setjmp", "longjmp", "rand", "srand", "strerror_r"]
    wrong = re.findall(rf"(?<![\w.>])({'|'.join(names)})\s*\(", code_of(path.read_text()))
    assert not wrong


def test_banned_header_is_in_front_of_every_file():
    assert "base/banned.h" in (ROOT / "meson.build").read_text()


# The build

def test_every_source_is_built():
    text = "\n".join(p.read_text() for p in ROOT.glob("**/meson.build")
                     if "build" not in p.relative_to(ROOT).parts[:-1])
    missing = [name(p) for p in SOURCES
               if f"'{p.relative_to(SRC)}'" not in text and f"'{name(p)}'" not in text]
    assert not missing


def test_every_unit_test_is_built():
    text = (ROOT / "tests" / "meson.build").read_text()
    missing = [name(p) for p in (ROOT / "tests" / "unit").glob("test_*.c")
               if p.stem not in text and p.stem.removeprefix("test_") not in text]
    assert not missing


# The fuzzers

FUZZ = ROOT / "tests" / "fuzz"


def test_every_fuzzer_is_built_and_has_a_corpus():
    names = {p.stem.removeprefix("fuzz_") for p in FUZZ.glob("fuzz_*.c")}
    assert len(names) > 10
    assert {p.name for p in (FUZZ / "corpus").iterdir()} == names
    assert set(re.findall(r"'([a-z_]+)'[,\]]", (FUZZ / "meson.build").read_text())) >= names
    assert not [n for n in names if not any((FUZZ / "corpus" / n).iterdir())]


def test_corpora_are_small():
    files = [p for p in (FUZZ / "corpus").rglob("*") if p.is_file()]
    assert not [name(p) for p in files if p.stat().st_size > 4096]


# Form

TEXTS = (SOURCES + HEADERS + sorted((ROOT / "tests").rglob("*.[ch]"))
         + sorted((ROOT / "tests").rglob("*.py")) + sorted(SRC.rglob("meson.build")))


@each(TEXTS)
def test_white_space(path):
    raw = path.read_bytes()
    text = raw.decode()
    assert b"\r" not in raw and (not raw or raw.endswith(b"\n")) and not raw.endswith(b"\n\n")
    lines = list(enumerate(text.splitlines(), 1))
    assert not [n for n, line in lines if line != line.rstrip()], "space at the end of a line"
    if path.suffix in (".c", ".h"):
        # Tabs indent; spaces may follow to align, or stand in front of a comment's star.
        assert not [n for n, line in lines if re.match(r" (?!\*)", line)], "indented with spaces"
        assert not [n for n, line in lines if re.match(r"\t* +\t", line)], "a tab behind spaces"
    else:
        assert not [n for n, line in lines if "\t" in line], "a tab"


@each([p for p in TEXTS if p.suffix in (".c", ".h", ".py")])
def test_length(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_LINES, f"{len(lines)} lines"


@pytest.fixture(scope="module")
def badly_formatted():
    """File: lines. By one clang-format for all, which takes longer to start than to look at a file."""
    tool = shutil.which("clang-format")
    if not tool:
        must_work("no clang-format")
    done = subprocess.run([tool, "--dry-run", "-Werror", *SOURCES, *HEADERS], capture_output=True, text=True, cwd=ROOT)
    found = collections.defaultdict(list)
    for path, line in re.findall(r"^(.+?):(\d+):\d+: error", done.stderr, re.M):
        found[path].append(line)
    assert bool(found) == (done.returncode != 0), done.stderr
    return found


@each(SOURCES + HEADERS)
def test_format(path, badly_formatted):
    places = badly_formatted[str(path)]
    assert not places, f"{name(path)}: {len(places)} places, from line {places[:5]} on"


# The manual

def page():
    if not PAGE.exists():
        must_work(f"{name(PAGE)} is not there yet")
    return PAGE.read_text().replace("\\", "")


def told(*args):
    if not os.access(CAY, os.X_OK):
        must_work(f"{CAY} is not built")
    return subprocess.run([CAY, *args], capture_output=True, text=True, check=True).stdout


def options_in_help():
    text = told("run", "--help").split("\nexamples:")[0]
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text)) - {"--help"}


def section(text, verb):
    """What the page says below the heading of a verb."""
    found = re.search(rf"^#+ (?:cay )?\*?{verb}\b.*?$(.*?)(?=^#|\Z)", text, re.M | re.S | re.I)
    return found and found[1]


def test_page_has_every_option_of_run():
    missing = {o for o in options_in_help() if not re.search(rf"{o}(?![\w-])", page())}
    assert not missing


def test_page_has_no_option_that_run_has_not():
    text = section(page(), "run") or page()
    known = options_in_help() | {"--help"}
    for verb in re.findall(r"^  (\w+) {2,}", told("help"), re.M):
        if verb not in ("help", "version", "run"):
            known |= set(re.findall(r"--[a-z][a-z-]+", told(verb, "--help")))
    assert not set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text)) - known


def test_page_has_a_section_for_every_verb():
    headings = re.findall(r"^#+ (.*)$", page(), re.M)
    words = {w.lower() for h in headings for w in re.findall(r"[A-Za-z]+", h)}
    missing = set(re.findall(r"^  (\w+) {2,}", told("help"), re.M)) - words
    assert not missing


# The attacks

def attack_tests():
    """The numbers of the tests in tests/escape; a test without one is called a control."""
    for path in sorted((ROOT / "tests/escape").glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = [d.args[0].value for d in node.decorator_list
                         if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "attack"]
                yield f"{name(path)}::{node.name}", marks, ast.get_docstring(node)


def test_attacks_are_described():
    """README's table is made by `make attacks`; its numbers, texts and counts must not go stale."""
    sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "tests/escape")]
    from attack import ATTACKS
    from table import table, written
    tests = list(attack_tests())
    assert not [t for t, marks, text in tests if not text or (len(marks) != 1 and "control" not in t)]
    counts = collections.Counter(marks[0] for _, marks, _ in tests if marks)
    assert set(counts) == {number for family in ATTACKS.values() for number in family}
    assert written() == list(table(ATTACKS, counts))


# The languages

def test_languages_are_described():
    """docs/languages.md is made by `make languages`; what it says of each must not go stale."""
    sys.path.insert(0, str(ROOT / "tests/integration"))
    from language_table import LANGUAGES
    text = (ROOT / "docs/languages.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", text, re.M)
    assert rows[1:] == [(l.title, l.name) for l in LANGUAGES]  # behind the heads of the columns
    for language in LANGUAGES:
        if language.special:
            assert f"- **{language.title}**: {language.special}" in text
    known = re.findall(r'\.name = "([^"]+)",\n', (ROOT / "src/spec/language.c").read_text())
    assert known == [l.name for l in LANGUAGES]


# The API's description

def test_the_description_is_what_is_served():
    """tools/openapi was called after the last change of api/openapi.yaml."""
    if not importlib.util.find_spec("yaml"):
        must_work("there is no python3-yaml")
    tool = runpy.run_path(str(ROOT / "tools" / "openapi"))
    assert tool["text"]() == (ROOT / "api" / "openapi.json").read_text()


def test_no_two_test_files_have_one_name():
    """pytest takes the second for the first, and stops."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(n for n in set(names) if names.count(n) > 1) == []


def test_no_picture_of_a_cell_is_left():
    """cay saves those as cay-N.png and the like where it is called."""
    places = [ROOT, *(p for top in ("src", "tests", "docs", "sdk", "tools") for p in (ROOT / top).rglob("*") if p.is_dir())]
    assert [name(p) for d in places for p in d.glob("cay-[0-9]*.*") if p.suffix in (".png", ".jpg", ".gif", ".svg")] == []
