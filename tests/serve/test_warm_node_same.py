"""A program does the same in a node that had waited for it as in a fresh one: every byte of it, and how it ends.

tests/warm/node/THEME.txt hold the programs, written as corpus.py says, but for `run`: code (unless it says otherwise), file,
both, or mjs. Both are runs of one daemon, on islands.
"""

import functools
import pathlib
import re
import shlex

import corpus
import pytest

from maker import Maker
from zygotes import run_waited

PROGRAMS = pathlib.Path(corpus.__file__).parent / "node"
KINDS = {"code": [None], "file": ["main.js"], "both": [None, "main.js"], "mjs": ["main.mjs"]}

# Of two cold starts they differ, too.
VARIES = re.compile(r"\b0x[0-9a-f]{9,16}\b|\(node:\d+\)|duration_ms:? [\d.]+|\([\d.]+ms\)")


def parsed(name, text):
    """(name, body of a request) for each way that it is run."""
    options, (_, code), *others = {}, *corpus.split(text, "---")
    while found := re.match(r"# (args|stdin|env|run): (.*)\n", code):
        options.setdefault(found[1], []).append(found[2])
        code = code[found.end():]
    files = [{"path": path, "text": body} for path, body in others]
    body = {"language": "javascript", "args": shlex.split("".join(options.get("args", []))),
            "stdin": corpus.unescaped("".join(options.get("stdin", []))).decode(),
            "env": dict(pair.split("=", 1) for pair in options.get("env", []))}
    for main in KINDS[options.get("run", ["code"])[0]]:
        if main:
            yield f"{name}-{main}", {**body, "file": main, "files": [*files, {"path": main, "text": code}]}
        else:
            yield name, {**body, "code": code, "files": files}


@functools.cache
def programs():
    return {theme.stem: dict(found for name, text in corpus.split(theme.read_text(), "===")[1:] for found in parsed(name, text))
            for theme in sorted(PROGRAMS.glob("*.txt"))}


@pytest.fixture(scope="module")
def daemon(scratch, binary_runs):
    maker = Maker(scratch)
    yield maker()
    maker.end()


def told(done):
    return {what: VARIES.sub("…", str(done.get(what))) for what in
            ("stdout", "stderr", "stdout_base64", "stderr_base64", "status", "exit_code", "signal", "message")}


@pytest.mark.parametrize("theme", programs())
def test_warm_is_as_cold(daemon, theme):
    found = []
    for name, body in programs()[theme].items():
        cold, warm = told(daemon.post("/v1/runs", {**body, "cold": True}).ok()), told(run_waited(daemon, body))
        found += [f"{name}: {what}\n  cold {cold[what]!r}\n  warm {warm[what]!r}" for what in cold if cold[what] != warm[what]]
    assert not found, f"{len(found)} differ\n" + "\n".join(found)


def test_the_corpus():
    names = [name for theme in programs().values() for name in theme]
    assert len(names) == len(set(names)) > 200


# What could be wrong with one that had waited, each done on purpose: programs that must see it.
FAULTS = {
    "a frame is below": ("(() => {{ {code} }})()", ["throw", "whole_stack", "var_is_global"]),
    "a variable is left": ("process.env.LEFT = 1; {code}", ["env"]),
    "a listener is left": ("process.on('exit', () => {{}}); {code}", ["listeners"]),
    "an option is left": ("process.execArgv.push('-r'); {code}", ["exec_argv"]),
    "a module is left": ("require.cache.left = module; {code}", ["cache"]),
    "a file is open": ("require('fs').openSync('/dev/null'); {code}", ["descriptors"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_differences_are_seen(daemon, fault):
    wrong, seeing = FAULTS[fault]
    bodies = {name: body for theme in programs().values() for name, body in theme.items() if name in seeing}
    assert len(bodies) == len(seeing)
    for name, body in bodies.items():
        right, other = (told(daemon.post("/v1/runs", {**body, "code": code, "cold": True}).ok())
                        for code in (body["code"], wrong.format(code=body["code"])))
        assert right != other, name
