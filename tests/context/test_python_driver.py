"""The Python driver, bare: what cells give, with each interpreter that is there."""

import base64
import json
import os
import re
import signal
import subprocess
import time

import plain
import pytest
from driver import Driver, Ended, python_text

PYTHONS = plain.pythons(oldest=9)


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    return python_text(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module", params=PYTHONS)
def python(request):
    return PYTHONS[request.param]


@pytest.fixture
def d(python, source, tmp_path):
    with Driver([python, "-c", source], cwd=tmp_path, env={"HOME": str(tmp_path)}) as driver:
        yield driver


@pytest.fixture
def system(source, tmp_path):
    """With the packages of Debian's interpreter."""
    with Driver([PYTHONS["system"], "-c", source], cwd=tmp_path, env={"HOME": str(tmp_path)}) as driver:
        yield driver


def fine(cell):
    assert cell.exception is None and cell.exit_code == 0, cell
    return cell


def shown(d, code):
    return fine(d.run(code)).text


def raised(d, code, name):
    cell = d.run(code)
    assert cell.exception and cell.exception["name"] == name, cell
    return cell.exception


# Values

@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("'a'", "'a'"), ("x = 1\nx", "1"), ("[1, 2]", "[1, 2]"), ("int", "int"),
    ("(  # a comment;\n 5\n)", "5"), ("'semi;colon'", "'semi;colon'"), ("6 # ;", "6"), ("'\u00e9;'", "'\u00e9;'"),
    ("if True:\n    7\n8", "8"), ("\n\n9\n\n", "9"), ("lambda x: x", "<function __main__.<lambda>(x)>")])
def test_value_of_the_last_expression(system, code, text):
    assert shown(system, code) == text


@pytest.mark.parametrize("code", [
    "None", "x = 1", "1;", "1 ; # why", "(1\n) ;", "'\u00e9'; ", "if True:\n    7", "def f(): pass", "", "# nothing",
    "1; x = 2", "for i in range(3): i"])
def test_nothing_to_show(system, code):
    cell = fine(system.run(code))
    assert cell.results == [] and cell.stdout == "" and cell.stderr == ""


def test_state_is_kept(d):
    fine(d.run("import math\nx = 20\ndef f(y): return x + y + math.floor(1.5)"))
    assert shown(d, "x += 1\nf(20)") == "42"


def test_last_values(d):
    for n in range(1, 5):
        fine(d.run(str(n)))
    assert shown(d, "_, __, ___") == "(4, 3, 2)"
    fine(d.run("for _ in range(9): pass"))
    fine(d.run("'no longer there'"))
    assert shown(d, "_") == "8"


def test_last_value_keeps_nothing_alive(d):
    fine(d.run("import weakref\nclass A: pass\na = A()\nr = weakref.ref(a)"))
    fine(d.run("a"))
    fine(d.run("del a, _"))
    for n in range(3):
        fine(d.run(str(n)))
    assert shown(d, "r() is None") == "True"


def test_failure_keeps_nothing_alive(d):
    fine(d.run("import gc, weakref\nclass A: pass\ndef f():\n    a = A()\n    global r\n    r = weakref.ref(a)\n    1/0"))
    raised(d, "f()", "ZeroDivisionError")
    assert shown(d, "r() is None") == "True"


def test_own_displayhook(d):
    fine(d.run("import sys\nbefore = sys.displayhook\nsys.displayhook = lambda v: print('value', v)"))
    cell = fine(d.run("42"))
    assert (cell.stdout, cell.results) == ("value 42\n", [])
    fine(d.run("sys.displayhook = before"))
    assert shown(d, "43") == "43"


def test_main(d):
    assert shown(d, "__name__, __doc__, sorted(n for n in globals() if not n.startswith('_'))") == \
        "('__main__', None, ['In', 'Out'])"
    assert shown(d, "import sys\nsys.modules['__main__'].__dict__ is globals(), sys.argv") == "(True, [''])"


def test_classes_of_cells(d):
    fine(d.run("import dataclasses, pickle\n@dataclasses.dataclass\nclass P:\n    x: int\n    y: list"))
    assert shown(d, "pickle.loads(pickle.dumps(P(1, [2])))") == "P(x=1, y=[2])"
    fine(d.run("import enum, typing\nclass C(enum.Enum):\n    A = 1\nclass T(typing.NamedTuple):\n    a: int"))
    assert shown(d, "pickle.loads(pickle.dumps((C.A, T(1)))) == (C.A, T(1))") == "True"


def test_source_of_functions(d):
    fine(d.run("def first(a):\n    return a + 1  # why"))
    fine(d.run("def second():\n    pass"))
    cell = fine(d.run("import inspect\nprint(inspect.getsource(first) + inspect.getsource(second))"))
    assert cell.stdout == "def first(a):\n    return a + 1  # why\ndef second():\n    pass\n\n"


def test_future_is_kept(d):
    fine(d.run("from __future__ import annotations"))
    fine(d.run("def f(x: nowhere): pass"))
    assert shown(d, "f.__annotations__") == "{'x': 'nowhere'}"


# What is shown

def test_bundle(d):
    fine(d.run("""
class All:
    def _repr_html_(self): return "<b>x</b>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_jpeg_(self): return b"jpeg", {"width": 3}
    def _repr_svg_(self): return "<svg/>"
    def _repr_markdown_(self): return "*x*"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1, 2.5, None, True, 10 ** 30, float("nan")], 3: (4,)}
    def __repr__(self): return "All!"
"""))
    data = fine(d.run("All()")).results[0]
    assert data == {
        "text/plain": "All!", "text/html": "<b>x</b>", "image/svg+xml": "<svg/>", "text/markdown": "*x*",
        "text/latex": "$x$", "image/png": base64.b64encode(b"\x89PNG").decode(),
        "image/jpeg": base64.b64encode(b"jpeg").decode(),
        "application/json": {"a": [1, 2.5, None, True, 1e30, None], "3": [4]}}
    assert fine(d.run("All")).results == [{"text/plain": "__main__.All"}]


def test_mimebundle_goes_first(d):
    fine(d.run("""class M:
    def _repr_mimebundle_(self, include=None, exclude=None): return {"text/html": "whole", "text/plain": "p"}, {}
    def _repr_html_(self): return "part"
    def _repr_latex_(self): return "latex" """))
    assert fine(d.run("M()")).results == [{"text/html": "whole", "text/plain": "p", "text/latex": "latex"}]


def test_shows_itself(d):
    fine(d.run("class S:\n    def _ipython_display_(self): display(1); print('by itself')"))
    cell = fine(d.run("S()"))
    assert (cell.results, cell.stdout) == ([{"text/plain": "1"}], "by itself\n")


def test_has_any_name_one_asks_for(d):
    assert list(fine(d.run("from unittest.mock import MagicMock\nMagicMock(name='m')")).results[0]) == ["text/plain"]


def test_failing_reprs(d):
    fine(d.run("""class F:
    def _repr_html_(self): raise ValueError("in html")
    def _repr_latex_(self): return 5
    def _repr_markdown_(self): return "*fine*"
    def __repr__(self): raise KeyError("in repr")"""))
    cell = fine(d.run("F()"))
    assert cell.results == [{"text/markdown": "*fine*"}]
    assert "ValueError: in html" in cell.stderr and "KeyError: 'in repr'" in cell.stderr and "<cay>" not in cell.stderr
    assert shown(d, "1") == "1"


def test_display(d):
    fine(d.run("class H:\n    def _repr_html_(self): return 'h'\n    def __repr__(self): return 'r'"))
    cell = fine(d.run("display(1, 'a')\ndisplay(H())\ndisplay(H(), exclude=['text/plain'])\n"
                      "display({'text/plain': 'raw'}, raw=True)\n2"))
    assert cell.results == [
        {"text/plain": "1"}, {"text/plain": "'a'"}, {"text/html": "h", "text/plain": "r"}, {"text/html": "h"},
        {"text/plain": "raw"}, {"text/plain": "2"}]


def test_results_come_as_they_are_made(d):
    d.begin("import time\ndisplay('now')\ntime.sleep(60)")
    assert d.wait("result", 20)["data"] == {"text/plain": "'now'"}
    d.interrupt()
    d.end()


@pytest.mark.parametrize("code, text", [
    ("list(range(1100))[-1:] + [list(range(1100))]", ",\n  ...]]"),
    ("{1: {2, 3}, 'k': (1,), None: frozenset()}", "{1: {2, 3}, 'k': (1,), None: frozenset()}"),
    ("l = [1]; l.append(l)\nl", "[1, [...]]"),
    ("class P:\n    def _repr_pretty_(self, p, cycle):\n        with p.group(2, 'P(', ')'):\n            "
     "p.text('a,'); p.breakable(); p.pretty([1])\nP()", "P(a, [1])"),
    ("{'a' * 30: ['b' * 30, 'c' * 30]}", f"{{'{'a' * 30}': ['{'b' * 30}',\n  '{'c' * 30}']}}")])
def test_layout(system, code, text):
    assert shown(system, code).endswith(text)


# Bounds

def test_large_values(system):
    fine(system.run("class Big:\n    def _repr_png_(self): return bytes(12 << 20)\n    def __repr__(self): return 'big'"))
    cell = fine(system.run("Big()"))
    assert cell.results == [{"text/plain": "big"}]
    assert cell.notes == ["a result of 16.0 MiB of image/png was left out: the limit is 4 MiB"]


def test_large_text_is_cut(system):
    cell = fine(system.run("class T:\n    def __repr__(self): return '\\x1b' * (5 << 20)\nT()"))
    size = len(json.dumps(cell.text))
    assert (4 << 20) - 100 < size <= 4 << 20
    assert cell.notes == ["a result of 30.0 MiB of text/plain was cut: the limit is 4 MiB"]
    cell = fine(system.run("'x' * (9 << 20)"))
    assert len(cell.text) <= 4 << 20 and cell.text.startswith("'xxx") and len(cell.notes) == 2


def test_all_of_a_cell(system):
    cell = fine(system.run("class M:\n    def _repr_html_(self): return 'x' * (3 << 20)\n    def __repr__(self): return 'm'\n"
                           "for _ in range(7): display(M())"))
    assert [len(r) for r in cell.results] == [2] * 5 + [1] * 2
    assert cell.notes == ["a result of 3.0 MiB of text/html was left out: "
                          "the limit of all that a cell shows is 16 MiB"] * 2
    assert len(fine(system.run("M()")).results[0]) == 2


def test_many_results(system):
    cell = fine(system.run("for n in range(100): display(n)"))
    assert [r["text/plain"] for r in cell.results] == [str(n) for n in range(64)]
    assert cell.notes == ["36 results were left out: the limit is 64"]


def test_what_is_bounded_besides(system):
    cell = fine(system.run("display({'t' * (5 << 20): 'x', 'text/html': 'y'}, raw=True)"))
    assert cell.results == [{"text/html": "y"}] and len(cell.notes) == 1 and len(cell.notes[0]) < 300
    system.begin("input('p' * (20 << 20))")
    assert len(system.wait("input")["prompt"]) == 16 << 10
    system.answer("")
    system.end()
    assert len(raised(system, "raise type('E' * 10 ** 6, (Exception,), {})", "E" * 1000)["traceback"]) < 300_000


def test_text_that_no_utf8_can_hold(system):
    fine(system.run("class S:\n    def __repr__(self): return '\\ud800 \\0'"))
    assert shown(system, "S()") == "? \0"
    assert raised(system, "raise ValueError('\\udcff')", "ValueError")["value"] == "?"


def test_results_that_nobody_wants(system):
    system.begin("display(1)\n2", rich=False)
    assert fine(system.end()).results == []


# Exceptions

def test_exception(d):
    fine(d.run("def f(x):\n    return 1 / x"))
    cell = d.run("y = 1\nf(0)")
    assert cell.exit_code == 1 and cell.stderr == "" and cell.stdout == ""
    assert (cell.exception["name"], cell.exception["value"]) == ("ZeroDivisionError", "division by zero")
    lines = [line for line in cell.exception["traceback"].splitlines() if set(line) - set(" ^~")]
    assert lines == ["Traceback (most recent call last):", "  Cell In[2], line 2", "    f(0)",
                     "  Cell In[1], line 2, in f", "    return 1 / x", "ZeroDivisionError: division by zero"]


def test_syntax_error(d):
    error = raised(d, "x = 1\ny = (1 +* 2)", "SyntaxError")
    assert error["traceback"] == "  Cell In[1], line 2\n    y = (1 +* 2)\n            ^\nSyntaxError: invalid syntax\n"
    raised(d, "x", "NameError")
    raised(d, "if True:\nx", "IndentationError")
    raised(d, "return 5", "SyntaxError")


def test_nothing_runs_of_a_cell_that_is_wrong_at_its_end(d):
    assert d.run("print('begun')\nbreak").stdout == ""


def test_chained(d):
    error = raised(d, "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('outer') from e", "ValueError")
    assert "ZeroDivisionError: division by zero\n\nThe above exception was the direct cause" in error["traceback"]
    assert error["traceback"].count("Cell In[1], line ") == 2 and "<cay>" not in error["traceback"]


def test_exception_groups(d):
    if shown(d, "import sys\nsys.version_info >= (3, 11)") != "True":
        raised(d, "ExceptionGroup", "NameError")
        return
    error = raised(d, "def f(): raise KeyError('k')\ntry: f()\nexcept Exception as e: one = e\n"
                   "raise ExceptionGroup('both', [one, ValueError('v')])", "ExceptionGroup")
    assert error["value"] == "both (2 sub-exceptions)"
    assert "Cell In[2], line 1, in f" in error["traceback"] and "| ValueError: v" in error["traceback"]


def test_recursion(d):
    error = raised(d, "def f(n): return f(n + 1)\nf(0)", "RecursionError")
    assert "maximum recursion depth exceeded" in error["value"] and len(error["traceback"]) < 2000
    fine(d.run("import sys\nsys.setrecursionlimit(15)"))
    assert shown(d, "[1]") == "[1]"


def test_exceptions_that_raise(d):
    error = raised(d, "class E(Exception):\n    def __str__(self): raise ValueError\nraise E()", "E")
    assert error["value"] == "<exception str() failed>"


def test_long_exceptions_are_cut(d):
    error = raised(d, "raise ValueError('x' * (3 << 20))", "ValueError")
    assert len(error["value"]) < 300_000 and "characters were left out" in error["value"]


@pytest.mark.parametrize("code, status, value", [
    ("import sys; sys.exit(3)", 3, "3"), ("import sys; sys.exit()", 0, ""), ("exit(258)", 2, "258"),
    ("raise SystemExit('words')", 1, "words")])
def test_exit(d, code, status, value):
    fine(d.run("kept = 1"))
    cell = d.run(code)
    assert cell.exit_code == status and cell.exception["name"] == "SystemExit" and cell.exception["value"] == value
    assert shown(d, "kept") == "1"


def test_process_is_gone(d):
    with pytest.raises(Ended, match="status 7"):
        d.run("import os\nprint('x', flush=True)\nos._exit(7)")


# Output

def test_output(d):
    cell = fine(d.run("import sys, os\nprint('out')\nprint('err', file=sys.stderr)\nos.write(1, b'raw\\n')\n"
                      "sys.stdout.write('no newline')\nos.system('echo child')"))
    assert cell.stdout == "out\nraw\nno newlinechild\n" or cell.stdout == "out\nraw\nchild\nno newline", cell
    assert cell.stderr == "err\n"


def test_output_of_c(system):
    assert fine(system.run("import ctypes\nctypes.CDLL(None).printf(b'by C\\n');")).stdout == "by C\n"


def test_output_comes_as_it_is_written(d):
    d.begin("import time\nprint('now')\ntime.sleep(60)")
    d.output("stdout", "now\n", 20)
    d.interrupt()
    assert d.end().exception["name"] == "KeyboardInterrupt"


@pytest.mark.parametrize("code", [
    "sys.stdout.close()", "sys.stdout = None", "sys.stdout = sys.stderr = 5", "os.close(1)", "os.close(1); os.close(2)",
    "f = open(os.devnull, 'w')\nos.dup2(f.fileno(), 1)", "sys.stdout.close(); sys.__stdout__ = None; os.close(1)",
    "del sys.stdout, sys.stderr", "sys.stdin.close(); os.close(0)", "sys.stdout.detach()",
    "os.closerange(3, 900)"])
def test_streams_that_cells_break(system, code):
    system.run(f"import os, sys\n{code}")
    cell = fine(system.run("print('out')\nprint('err', file=sys.stderr)\nos.write(1, b'raw')\nsys.stdin.read(), open('/dev/stdin').read()"))
    assert cell.stdout == "out\nraw" and cell.stderr == "err\n" and cell.text == "('', '')"


def test_a_stream_of_the_users_own_stays(system):
    fine(system.run("import io, sys\nsys.stdout = mine = io.StringIO()\nprint('a')"))
    fine(system.run("print('b')"))
    assert shown(system, "mine.getvalue()") == r"'a\nb\n'"


def test_output_that_is_not_ascii(system):
    assert fine(system.run("print('\u00e9\u4e2d')")).stdout == "\u00e9\u4e2d\n"


def test_warnings(d):
    cell = fine(d.run("import warnings\nwarnings.warn('careful')"))
    assert "Cell In[1]:2: UserWarning: careful" in cell.stderr
    assert "careful" in fine(d.run("import warnings\nwarnings.warn('careful')")).stderr


# Input

def test_input(d):
    d.begin("a = input('name? ')\nimport getpass\nb = getpass.getpass('secret? ')\na, b")
    assert d.wait("input") == {"type": "input", "prompt": "name? ", "password": False}
    d.answer("me")
    assert d.wait("input") == {"type": "input", "prompt": "secret? ", "password": True}
    d.answer("\u00e9\0")
    assert fine(d.end()).text == r"('me', '\u00e9\x00')".encode().decode("unicode_escape").replace("\0", "\\x00")


def test_input_that_nobody_gives(d):
    d.begin("input()")
    d.wait("input")
    d.refuse("no input here")
    cell = d.end()
    assert (cell.exception["name"], cell.exception["value"]) == ("EOFError", "no input here")


def test_output_before_input_is_there(d):
    d.begin("print('question', end='')\ninput()")
    d.wait("input")
    d.output("stdout", "question", 20)
    d.answer("")
    assert fine(d.end()).text == "''"


def test_interrupt_while_input_waits(d):
    d.begin("input()")
    d.wait("input")
    d.interrupt()
    assert d.end().exception["name"] == "KeyboardInterrupt"
    d.answer("too late")
    d.begin("input()")
    d.wait("input")
    d.answer("in time")
    assert fine(d.end()).text == "'in time'"


# Interrupts

@pytest.mark.parametrize("code", [
    "import time; print('begun'); time.sleep(100)", "print('begun')\nwhile True: pass",
    "import subprocess; print('begun'); subprocess.run(['sleep', '100'])", "print('begun')\n!sleep 100",
    "import re; print('begun'); re.match('(a+)+b', 'a' * 60)",
    "import asyncio\nasync def f():\n    print('begun'); await asyncio.sleep(100)\nawait f()",
    "async def f():\n    print('begun')\n    while True: pass\nawait f()",
    "import threading; print('begun'); threading.Event().wait()",
    "print('begun')\nwhile True: display(1)", "import asyncio\nprint('begun')\nasyncio.run(asyncio.sleep(100))"])
def test_interrupt(d, code):
    fine(d.run("kept = 1"))
    d.begin(code)
    d.output("stdout", "begun", 20)
    time.sleep(0.05)
    d.interrupt()
    cell = d.end(20)
    assert cell.exception["name"] == "KeyboardInterrupt" and cell.exit_code == 1
    assert "Cell In[2], line" in cell.exception["traceback"] and "<cay>" not in cell.exception["traceback"]
    assert shown(d, "kept") == "1"


def test_interrupt_between_cells(d):
    fine(d.run("x = 1"))
    for _ in range(20):
        d.interrupt()
    assert shown(d, "x") == "1"


def test_interrupts_at_any_moment(system):
    """Messages stay whole, each cell ends once, and the interpreter lives on."""
    for n in range(150):
        system.begin(f"for i in range(40): display('x' * 2000)\n{n}")
        time.sleep(n % 30 / 10000)
        system.interrupt()
        cell = system.end(20)
        if cell.exception is None:
            assert cell.results[-1] == {"text/plain": str(n)}
        else:
            assert cell.exception["name"] == "KeyboardInterrupt"
    assert shown(system, "5") == "5"


def test_interrupt_while_a_message_is_half_written(system):
    for _ in range(5):
        system.begin("print('begun')\ndisplay('x' * (2 << 20))")
        system.output("stdout", "begun", 20)
        assert system.selector.select(20)  # the message has begun; nobody reads, so it waits in the middle
        system.interrupt()
        time.sleep(0.05)
        cell = system.end(20)
        assert cell.exception["name"] == "KeyboardInterrupt" and len(cell.text) == (2 << 20) + 2


def test_finally_runs_when_an_await_is_interrupted(d):
    d.begin("import asyncio\ntry:\n    print('begun')\n    await asyncio.sleep(100)\nfinally:\n"
            "    await asyncio.sleep(0.01)\n    print('cleaned')")
    d.output("stdout", "begun", 20)
    time.sleep(0.05)
    d.interrupt()
    cell = d.end(20)
    assert cell.exception["name"] == "KeyboardInterrupt" and "cleaned" in cell.stdout


def test_a_handler_of_the_cells_own(d):
    fine(d.run("import os, signal\nheard = []\nsignal.signal(signal.SIGINT, lambda *_: heard.append(1))\n"
               "os.kill(os.getpid(), signal.SIGINT)\nassert heard == [1]"))
    assert shown(d, "signal.getsignal(signal.SIGINT) is signal.default_int_handler") == "True"


# Await

def test_await(d):
    fine(d.run("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x * 2"))
    assert shown(d, "await f(21)") == "42"
    assert shown(d, "x = await f(1)\nasync with asyncio.Lock():\n    y = [n async for n in aiter_() ] if False else x\ny") == "2"
    error = raised(d, "async def g():\n    1 / 0\nawait g()", "ZeroDivisionError")
    assert error["traceback"].startswith("Traceback (most recent call last):\n  Cell In[4], line 3\n")


def test_tasks_live_on(d):
    fine(d.run("import asyncio\nasync def slow():\n    await asyncio.sleep(0.05)\n    return 'done'\n"
               "task = asyncio.create_task(slow())\nawait asyncio.sleep(0)"))
    assert shown(d, "task.done()") == "False"
    assert shown(d, "await task") == "'done'"


def test_asyncio_run(d):
    assert shown(d, "import asyncio\nasync def f(): return 1\nasyncio.run(f())") == "1"
    assert shown(d, "await f()") == "1"
    fine(d.run("asyncio.get_event_loop().close() if False else None\nimport asyncio\nl = None\n"
               "async def h():\n    global l\n    l = asyncio.get_running_loop()\nawait h()\n"))
    fine(d.run("l.close()"))
    assert shown(d, "await f()") == "1"


def test_exit_while_awaiting(d):
    cell = d.run("import asyncio, sys\nasync def f(): sys.exit(3)\nawait f()")
    assert cell.exit_code == 3 and cell.exception["name"] == "SystemExit"
    cell = d.run("task = asyncio.create_task(f())\nawait asyncio.sleep(60)")
    assert cell.exit_code == 3 and cell.exception["name"] == "SystemExit"


# Processes and threads

def test_fork(d):
    cell = fine(d.run("import os\npid = os.fork()\nif not pid:\n    print('child')\n    display(5)\n"
                      "else:\n    status = os.waitpid(pid, 0)[1]"))
    assert cell.results == [] and cell.stdout == "child\n5\n"
    assert shown(d, "status") == "0"
    cell = fine(d.run("pid = os.fork()\nif not pid:\n    1 / 0\nstatus = os.waitpid(pid, 0)[1]\nos.WEXITSTATUS(status)"))
    assert cell.text == "1" and "ZeroDivisionError" in cell.stderr
    assert shown(d, "pid = os.fork()\nif not pid:\n    exit(9)\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])") == "9"


def test_multiprocessing(d):
    fine(d.run("import multiprocessing\ndef square(x): return x * x"))
    assert shown(d, "with multiprocessing.get_context('fork').Pool(2) as p: r = p.map(square, range(4))\nr") == "[0, 1, 4, 9]"


def test_threads_outlive_a_cell(d):
    fine(d.run("import threading\ngo, seen = threading.Event(), []\n"
               "def later():\n    go.wait(20)\n    print('from the thread')\n    seen.append(1)\n"
               "t = threading.Thread(target=later)\nt.start()"))
    cell = fine(d.run("go.set()\nt.join()\nseen"))
    assert cell.stdout == "from the thread\n" and cell.text == "[1]"


def test_programs_have_nothing_of_ours(d):
    listed = fine(d.run("import subprocess, signal\nprint(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, "
                        "close_fds=False, text=True).stdout.split())\n!grep SigIgn /proc/self/status")).stdout.splitlines()
    assert listed[0] == "['0', '1', '2', '3']"
    assert int(listed[1].split()[1], 16) & (1 << (signal.SIGINT - 1)) == 0
    assert shown(d, "import os\n'MPLBACKEND' in os.environ") == "False"


def test_group_of_its_own(d):
    assert os.getpgid(d.process.pid) == d.process.pid == d.ready["pid"]


def test_leaves_when_the_channel_ends(d):
    fine(d.run("import atexit\natexit.register(print, 'bye')"))
    d.control.close()
    assert d.process.wait(20) == 0
    assert d.streams['stdout'].read(100) == b"bye\n"


# Magics

@pytest.mark.parametrize("code, out", [
    ("!echo hi", "hi\n"), ("x = 5\n!echo {x + 1} $x $HOMELESS {{y}}", "6 5 {y}\n"), ("if True:\n    !echo in", "in\n"),
    ("!echo '{print $1}'", "{print $1}\n"), ("%%bash\necho a\necho b", "a\nb\n"), ("%%sh\necho $((1 + 1))", "2\n"),
    ("print('''\n%foo\n!bar''')", "\n%foo\n!bar\n"), ("!printf 'a\\\n b\\n'\nprint('c')", "a  b\nc\n"),
    ("!echo \"don't\"\nprint(1)", "don't\n1\n"), ("print(7\n%len('1234'))\n!echo x", "3\nx\n"), ("print(7 \\\n% 4)\n!echo x", "3\nx\n"),
    ("for i in range(2):\n    !echo {i}\nprint('# %x', 5 % 3)", "0\n1\n# %x 2\n"),
    ("def f(n):\n    !echo {n}\nf(4)", "4\n"), ("%env A=b c\n!echo $A", "env: A=b c\nb c\n"),
    ("%matplotlib inline\nprint(1)", "1\n"), ("%%writefile f.txt\nx = 1\n", "Writing f.txt\n")])
def test_magics(system, code, out):
    assert fine(system.run(code)).stdout == out


@pytest.mark.parametrize("code, text", [
    ("x = !printf 'a\\nb'\nx", "['a', 'b']"), ("x = !printf 'a\\nb'\nx.n + x.s", r"'a\nba b'"), ("%pwd", None),
    ("p = %pwd\nlen(p) > 1", "True"), ("%time 1 + 1", "2"), ("!false\n_exit_code", "1"), ("%env HOME", None),
    ("a = 1\n%who_ls", "['a']"), ("%%time\nx = 20\nx + 1", "21"), ("!!echo a", "['a']")])
def test_magics_with_values(system, tmp_path, code, text):
    assert shown(system, code) == (text or repr(str(tmp_path)))


def test_magics_keep_lines(system):
    error = raised(system, "!true\n%pwd\nx = !true\n!true \\\n  && true\n1 / 0", "ZeroDivisionError")
    assert "Cell In[1], line 6\n    1 / 0" in error["traceback"]
    error = raised(system, "def f():\n    %time 1 / 0\nf()", "ZeroDivisionError")
    assert "Cell In[2] %time, line 1\n    1 / 0" in error["traceback"] and "<cay>" not in error["traceback"]
    error = raised(system, "!true\nx = = 5", "SyntaxError")
    assert "Cell In[3], line 2\n    x = = 5" in error["traceback"]


def test_timeit(system):
    line = r" per loop \(mean \xb1 std\. dev\. of 2 runs, 10 loops each\)\n"
    cell = fine(system.run("x = 5\n%timeit -n 10 -r 2 x + 1"))
    assert re.fullmatch(r"[\d.]+ \wss? \xb1 [\d.]+ \ws" + line, cell.stdout), cell.stdout
    assert "10 loops each" in fine(system.run("%%timeit -n 10 -r 2 y = x\ny + 1")).stdout
    assert "loops each" in fine(system.run("%timeit -r 1 x")).stdout


def test_cd(system, tmp_path):
    (tmp_path / "below").mkdir()
    assert fine(system.run("%cd below")).stdout == f"{tmp_path}/below\n"
    assert shown(system, "import os\nos.getcwd()") == repr(f"{tmp_path}/below")
    assert fine(system.run("%cd -")).stdout == f"{tmp_path}\n"
    raised(system, "%cd nowhere", "FileNotFoundError")


def test_magics_that_are_not_there(system):
    assert raised(system, "%nope 5", "UsageError")["value"] == "Line magic function `%nope` not found."
    assert raised(system, "%%nope\nx", "UsageError")["value"] == "Cell magic `%%nope` not found."
    assert raised(system, "%%bash\nexit 3", "CalledProcessError")["value"].endswith("status 3.")
    raised(system, "%config InlineBackend.figure_formats = ['nope']", "UsageError")


def test_pip(system):
    assert fine(system.run("%pip --version")).stdout.startswith("pip ")


def test_help(system):
    out = fine(system.run("def f(a):\n    'Says so.'\nf?")).stdout
    assert "Signature: f(a)" in out and "Says so." in out


# Pictures and tables

FIGURE = "<Figure size 640x480 with 1 Axes>"


def is_png(data):
    return base64.b64decode(data).startswith(b"\x89PNG\r\n")


def test_figures(system):
    cell = fine(system.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint(plt.get_fignums())"))
    assert [r["text/plain"] for r in cell.results] == [FIGURE] and is_png(cell.results[0]["image/png"])
    cell = fine(system.run("plt.plot([1])\nplt.show()\ndisplay(5)\nplt.figure().add_subplot()\n6"))
    assert [r["text/plain"] for r in cell.results] == [FIGURE, "5", FIGURE, "6"]
    assert shown(system, "plt.get_fignums()") == "[]"
    cell = system.run("plt.plot([1])\n1 / 0")
    assert [r["text/plain"] for r in cell.results] == [FIGURE] and cell.exception["name"] == "ZeroDivisionError"
    fig = fine(system.run("fig, ax = plt.subplots()\nplt.close(fig)\nfig")).results
    assert len(fig) == 1 and is_png(fig[0]["image/png"])


def test_figures_as_svg(system):
    fine(system.run("%config InlineBackend.figure_formats = ['svg']"))
    cell = fine(system.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);"))
    assert set(cell.results[0]) == {"text/plain", "image/svg+xml"} and "<svg" in cell.results[0]["image/svg+xml"]


def test_figures_elsewhere(system):
    """A backend that the user has chosen stays; programs that are started know nothing of ours."""
    cell = fine(system.run("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1]);"))
    assert cell.results == []
    cell = fine(system.run("!python3 -c 'import matplotlib.pyplot as p; p.plot([1]); print(p.get_backend())'"))
    assert cell.stdout.lower() == "agg\n"


def test_tables(system):
    cell = fine(system.run("import pandas as pd\npd.DataFrame({'a': [1, 2]})"))
    assert set(cell.results[0]) == {"text/plain", "text/html"}
    assert cell.text == "   a\n0  1\n1  2" and "<table" in cell.results[0]["text/html"]


def test_pil(system):
    cell = fine(system.run("from PIL import Image\nImage.new('RGB', (2, 2))"))
    assert is_png(cell.results[0]["image/png"])


def test_ipythons_display(system):
    cell = fine(system.run("from IPython.display import HTML, Markdown, display, clear_output\nclear_output()\n"
                           "display(HTML('<i>x</i>'))\nMarkdown('*y*')"))
    assert [r.get("text/html") or r["text/markdown"] for r in cell.results] == ["<i>x</i>", "*y*"]


# Start

def test_start_imports_little(system):
    """What a start imports is what a bare interpreter has, and the built-in modules."""
    names = fine(system.run("import sys\nprint(*sorted(sys.modules))")).stdout.split()
    bare = subprocess.run([PYTHONS["system"], "-c", "import sys; print(*sorted(sys.modules))"],
                                        capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}).stdout.split()
    assert set(names) - set(bare) <= {"_ast", "_json", "atexit"}
