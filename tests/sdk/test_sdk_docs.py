"""The snippets of the SDKs' pages and their examples run as they stand, and print what the page says."""

import asyncio
import os
import pathlib
import re
import subprocess
import sys

import pytest

from snippets import snippets
from support import CAY, ROOT

SDK = ROOT / "sdk" / "python"
PYTHON = snippets("python.md", "python")


@pytest.fixture
def environ(here):
    return {**os.environ, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}


def check(words, environ, output, cwd):
    done = subprocess.run(words, env=environ, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not output or done.stdout == output
    return done.stdout


def test_there_are_snippets():
    assert len(PYTHON) >= 9 and sum(1 for _, output in PYTHON if output) >= 6


@pytest.mark.parametrize("snippet", PYTHON, ids=range(len(PYTHON)))
def test_python(snippet, environ, tmp_path):
    assert check([sys.executable, "-c", snippet[0]], environ, snippet[1], tmp_path)


def test_how_it_is_installed(tmp_path):
    (code, _), = snippets("python.md", "sh")
    environ = {**os.environ, "CAY_SOURCE": str(ROOT), "CAY_BINARY": CAY, "PATH": f"/usr/bin:{os.environ['PATH']}",
               "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_CACHE_DIR": "1"}
    environ.pop("CAY_HOST", None)
    assert check(["bash", "-euo", "pipefail", "-c", code], environ, None, tmp_path).endswith("42\n")


@pytest.mark.parametrize("name, output", [
    ("function_tool", "45\n"), ("langchain_tool", "[done]\n90\n"), ("tool_loop", "The poem has 3 lines.\n")])
def test_example(name, output, environ, tmp_path):
    check([sys.executable, SDK / "examples" / f"{name}.py"], environ, output, tmp_path)


def test_tools_answer_nonsense_with_words(here, monkeypatch):
    monkeypatch.syspath_prepend(str(SDK / "examples"))
    import function_tool
    import langchain_tool
    import tool_loop
    assert "1" in function_tool.run_code('{"code": "print(1)"}')
    for nonsense in ("", "[]", "1", "{}", '{"code": 1}', '{"code": "1", "engine": "direct"}'):
        assert function_tool.run_code(nonsense).startswith("[the arguments"), nonsense
    assert "ZeroDivisionError" in function_tool.run_code('{"code": "1/0"}')
    session = langchain_tool.PythonSession()
    try:
        assert "NameError" in session.invoke({"code": "nothing"})
        assert asyncio.run(session.ainvoke({"code": "6 * 7"})) == "42"
    finally:
        session.close()
    assert session.invoke({"code": "1"}).startswith("[")
    said = []
    model = tool_loop.scripted(("no_such_tool", {}), ("read_file", {"path": "none"}), ("read_file", {"x": 1}), "end")

    def complete(messages, tools):
        said.append(messages[-1]["content"])
        return model(messages, tools)
    assert tool_loop.answer("?", complete) == "end"
    assert all(text.startswith("[") for text in said[1:]), said
    assert not pathlib.Path("none").exists()


def test_the_readmes(environ, tmp_path):
    for page, output in (("README.md", "42\n42\n"), ("sdk/python/README.md", "42\n")):
        code, = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
        check([sys.executable, "-c", code], environ, output, tmp_path)
