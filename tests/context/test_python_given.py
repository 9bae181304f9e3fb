"""The Python driver, bare: what cells are given beside their code: standard input, history, get_ipython()."""

from test_python_driver import d, fine, python, shown, source  # noqa: F401: fixtures


# Standard input

def test_stdin_is_empty(d):
    """And nobody is asked, who would be by input()."""
    assert shown(d, "import sys\nsys.stdin.read(), sys.stdin.readline()") == "('', '')"
    assert shown(d, "sys.stdin.fileno(), sys.stdin.isatty(), sys.stdin.name, sys.stdin.buffer.read()") == (
        "(0, False, '<stdin>', b'')")


def test_stdin_is_what_was_given(d):
    d.given_at_once = 5
    fine(d.run("import sys"))

    def read(code, given):
        return fine(d.run(code, given=given)).text
    assert read("sys.stdin.read()", "one\ntwo\nZo\u00eb") == "'one\\ntwo\\nZo\u00eb'"
    assert read("list(sys.stdin)", "1\n2\n3") == "['1\\n', '2\\n', '3']"
    assert read("sys.stdin.buffer.read(), sys.stdin.read()", "a\r\n") == "(b'a\\r\\n', '')"
    assert read("sum(map(int, sys.stdin))", "".join(f"{n}\n" for n in range(1000))) == "499500"
    # input() goes on where it was left; what the cell has not read is not the next one's.
    assert read("sys.stdin.readline(), input(), input(), sys.stdin.read(2)", "1\n2\n3\nabcdef") == "('1\\n', '2', '3', 'ab')"
    assert read("sys.stdin.read()", "next") == "'next'"
    assert read("sys.stdin.read(1)", "xyz") == "'x'"
    assert read("sys.stdin.read()", "") == "''"
    cell = d.run("sys.stdin.readline()\ninput()", given="only\n")
    assert cell.exception["name"] == "EOFError"


def test_stdin_in_odd_places(d):
    code = """import os, sys, threading
seen = []
t = threading.Thread(target=lambda: seen.append(sys.stdin.read())); t.start(); t.join()
if not (child := os.fork()):
    os._exit(len(sys.stdin.read()))
seen, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sys.stdin.read()"""
    assert fine(d.run(code, given="mine")).text == "([''], 0, 'mine')"
    fine(d.run("import io; sys.stdin = io.StringIO('own')"))
    assert fine(d.run("sys.stdin.read()", given="given")).text == "'own'"
    fine(d.run("sys.stdin.close()"))
    assert fine(d.run("sys.stdin.read()", given="given")).text == "'given'"


# History

def test_in_and_out(d):
    assert shown(d, "x = 1; x + 1") == "2"
    assert shown(d, "In[1], Out[1], _1, _i, _i1") == "('x = 1; x + 1', 2, 2, 'x = 1; x + 1', 'x = 1; x + 1')"
    fine(d.run("x"))
    fine(d.run("3;"))
    assert shown(d, "sorted(Out), len(In), In is _ih, Out is _oh") == "([1, 2, 3], 6, True, True)"
    assert shown(d, "_i, _ii, _iii") == "('sorted(Out), len(In), In is _ih, Out is _oh', '3;', 'x')"
    fine(d.run("Out"))
    assert shown(d, "7 in Out, 6 in Out") == "(False, True)"
    assert fine(d.run("%who")).stdout.split() == ["x"]


def test_out_keeps_a_few(d):
    fine(d.run("import weakref\nclass C: pass\nc = C(); first = weakref.ref(c)\nc"))
    fine(d.run("del c"))
    fine(d.run("'x'"))
    assert shown(d, "first() is None, Out[1] is _1") == "(False, True)"
    fine(d.run("'a' * 1000000"))
    assert shown(d, "sorted(Out)") == "[3, 4, 5]"
    assert shown(d, "'_1' in globals(), first() is None") == "(False, True)"
    for n in range(100):
        fine(d.run(str(n)))
    assert shown(d, "3 in Out, '_3' in globals(), len(Out), Out[8], _8, Out[107]") == "(False, False, 100, 0, 0, 99)"


def test_reset_lets_go_of_what_was_shown(d):
    fine(d.run("import weakref\nclass C: pass\nc = C(); __first = weakref.ref(c)\nc"))
    fine(d.run("%reset -f"))
    assert shown(d, "__first() is None, Out, len(In)") == "(True, {}, 4)"


def test_get_ipython(d):
    """A notebook that was saved as a program."""
    cell = d.run("""a = 5
get_ipython().system('echo {a} $a')
get_ipython().run_line_magic('matplotlib', 'inline')
get_ipython().run_cell_magic('bash', '', 'echo cell\\n')
lines = get_ipython().getoutput("printf 'x\\\\ny'")
lines, get_ipython().run_line_magic('who_ls', ''), get_ipython().user_ns is globals()""")
    assert fine(cell).stdout == "5 5\ncell\n"
    assert cell.text == "(['x', 'y'], ['a', 'lines'], True)"
    assert d.run("get_ipython().kernel").exception["name"] == "AttributeError"
