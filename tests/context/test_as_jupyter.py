"""The same cells in a context and in a real Jupyter kernel (Debian's python3-ipykernel) give the same."""

import os
import re

import pytest
from cells import CELLS, DIFFERENT, REASONS
from driver import ROOT, Driver, python_text
from support import must_work

TIMEOUT_S = 60
ADDRESS = re.compile(r"0x[0-9a-f]{6,16}|(?<=id=')\d+")
TIME = re.compile(r"\d[\d.e+]* (?:ns|\xb5s|ms|s)\b")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BINARY = ("image/png", "image/jpeg", "image/svg+xml", "application/pdf")
PAGE = ROOT / "docs" / "contexts.md"


class Jupyter:
    """A kernel, as a front end that can show everything sees it."""
    def __init__(self, home):
        try:
            from jupyter_client.manager import start_new_kernel
            import ipykernel  # noqa: F401, which the kernel is
        except ImportError as error:
            must_work(str(error))
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        os.environ["JUPYTER_RUNTIME_DIR"] = str(home)
        self.manager, self.client = start_new_kernel(
            kernel_name="python3", env=env, cwd=str(home), startup_timeout=TIMEOUT_S)

    def run(self, code):
        ident = self.client.execute(code, allow_stdin=False, stop_on_error=False)
        seen = {"results": [], "stdout": "", "error": None}
        value = []
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") != ident:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "display_data":
                seen["results"].append(content["data"])
            elif kind == "execute_result":
                value.append(content["data"])
            elif kind == "stream" and content["name"] == "stdout":
                seen["stdout"] += content["text"]
            elif kind == "status" and content["execution_state"] == "idle":
                break
        seen["results"] += value  # a context sends it last
        reply = self.reply(ident)
        if reply["status"] == "error":
            last = COLOUR.sub("", reply["traceback"][-1]).splitlines()[-1] if reply["traceback"] else ""
            seen["error"] = (reply["ename"], reply["evalue"], last)
        return seen

    def reply(self, ident):
        while True:
            message = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") == ident:
                return message["content"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def as_context(d, code):
    cell = d.run(code, TIMEOUT_S)
    error = cell.exception and (cell.exception["name"], cell.exception["value"],
                                (cell.exception["traceback"].splitlines() or [""])[-1])
    return {"results": cell.results, "stdout": cell.stdout, "error": error}


def comparable(seen):
    """Addresses, times and pictures are different each time; of pictures it is the type that counts."""
    def value(mime, data):
        return mime if mime in BINARY else ADDRESS.sub("0x", data) if isinstance(data, str) else data
    return {**seen, "stdout": TIME.sub("T", seen["stdout"]), "results": [{m: value(m, v) for m, v in r.items()} for r in seen["results"]]}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """{cell: (in a context, in Jupyter)}"""
    homes = [tmp_path_factory.mktemp(name) for name in ("context", "jupyter")]
    kernel = Jupyter(homes[1])
    try:
        with Driver(["/usr/bin/python3", "-c", python_text(homes[0])], cwd=homes[0], env={"HOME": str(homes[0])}) as d:
            return {name: (comparable(as_context(d, code)), comparable(kernel.run(code)))
                    for name, code in CELLS.items()}
    finally:
        kernel.close()


@pytest.mark.parametrize("name", [name for name in CELLS if name not in DIFFERENT])
def test_the_same(both, name):
    ours, jupyters = both[name]
    assert ours == jupyters


@pytest.mark.parametrize("name", DIFFERENT)
def test_differences_are_there(both, name):
    """A row that is no longer true has to go."""
    ours, jupyters = both[name]
    assert ours != jupyters


def test_differences_are_documented():
    listed = PAGE.read_text().partition("nothing else of them does:\n\n")[2].partition("\n\n")[0]
    assert listed.splitlines() == [f"- {reason}" for reason in REASONS]


def test_there_are_enough():
    assert len(CELLS) - len(DIFFERENT) >= 60
