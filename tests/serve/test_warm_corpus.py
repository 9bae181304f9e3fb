"""The corpus of tests/warm on islands: what a daemon answers to a program is the same, started warm and cold."""

import base64
import collections
import pathlib
import sys

import pytest

from support import SOAK
from zygotes import warm_up

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "warm"))

import corpus  # noqa: E402: by the path above

PYTHON = "/usr/bin/python3"
WORKERS = 2
SHARES = 1 if SOAK else 10
PLACE = "/workspace"


def can_be_asked_for(program):
    """Code, or a file of it: other words for the interpreter are a command, which starts cold. Links can't be sent, and
    names of variables are those of a shell."""
    return (program.arguments[0] in ("-c", "{dir}/" + corpus.MAIN) and not any(isinstance(c, str) for _, c in program.files)
            and all(e.partition("=")[0].isascii() for e in program.env))


def body(program, scratch):
    corpus.lay_out(program, scratch)
    _, *args = program.argv(PLACE)
    asked = {"file": f"{PLACE}/{corpus.MAIN}"}
    if program.arguments[0] == "-c":
        asked = {"code": args.pop(0)}
    files = [{"path": str(path.relative_to(scratch)), "data": base64.b64encode(path.read_bytes()).decode()}
             for path in sorted(scratch.rglob("*")) if path.is_file()]
    return {**asked, "language": "python", "args": args, "files": files, "workdir": f"{PLACE}/{program.cwd}".removesuffix("/."),
            "stdin_base64": base64.b64encode(program.stdin).decode(), "env": dict(e.split("=", 1) for e in program.env)}


def way(daemon, scratch, starts, **more):
    """Runs programs on islands, and counts how they started."""
    def run(_, program):
        result = daemon.post("/v1/runs", {**body(program, scratch), **more}, timeout=corpus.TIMEOUT_S).ok()
        starts[result["start"]] += 1
        return (result["stdout"].encode(), result["stderr"].encode(),
                (result["status"], result["exit_code"], result["signal"]))
    return run


@pytest.fixture
def programs():
    asked = [p for p in corpus.programs() if corpus.runs_on(PYTHON, p) and can_be_asked_for(p)]
    assert len(asked) > 1000
    return asked[::SHARES]


def test_warm_is_as_cold_on_islands(make_daemon, tmp_path, programs):
    daemon = warm_up(make_daemon())
    starts = collections.Counter()
    pairs = [(way(daemon, tmp_path / f"cold{n}", collections.Counter(), cold=True), way(daemon, tmp_path / f"warm{n}", starts))
             for n in range(WORKERS)]
    found = corpus.differences(PYTHON, programs, pairs, {**corpus.UNEQUAL, **corpus.UNEQUAL_ON_ISLANDS})
    assert not found, f"{len(found)} of {len(programs)} programs differ\n" + "\n".join(found)
    assert sum(count for start, count in starts.items() if start.startswith("warm:")) > 0.8 * len(programs), starts
