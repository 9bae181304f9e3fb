"""Cells that a context and a Jupyter kernel are both given, one after the other, and where they differ.

docs/contexts.md has the reasons, too: test_as_jupyter.py compares.
"""

CLASSES = '''
class Html:
    def _repr_html_(self): return "<b>bold</b>"
    def __repr__(self): return "Html()"
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": "<i>x</i>", "text/plain": "bundle", "application/json": {"a": [1, 2]}}
    def _repr_html_(self): return "not this"
class Many:
    def _repr_markdown_(self): return "*x*"
    def _repr_latex_(self): return "$x$"
    def _repr_svg_(self): return "<svg></svg>"
    def _repr_json_(self): return {"k": [None, True, 1.5]}
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_jpeg_(self): return b"\\xff\\xd8"
    def _repr_javascript_(self): return "1"
    def __repr__(self): return "Many()"
class Itself:
    def _ipython_display_(self): display("by itself")
class Failing:
    def _repr_html_(self): raise ValueError("no html")
    def _repr_markdown_(self): return "*fine*"
    def __repr__(self): return "Failing()"
class Nothing:
    def _repr_html_(self): return None
    def __repr__(self): return "Nothing()"
class Pretty:
    def _repr_pretty_(self, p, cycle):
        with p.group(7, "Pretty(", ")"):
            for n in range(40):
                if n:
                    p.text(",")
                    p.breakable()
                p.pretty(n)
class Plain: pass
'''

# name: code
CELLS = {
    # values
    "integer": "6 * 7", "float": "0.1 + 0.2", "string": "'it\\'s'", "bytes": "b'\\x00a'", "none": "None",
    "quiet": "42;", "quiet with comment": "42;  # why", "comment with semicolon": "42  # ;", "assignment": "a = 5",
    "kept": "a + 1", "underscore": "_ * 2", "two underscores": "(_, __)", "boolean": "True", "ellipsis": "...",
    "complex": "1 + 2j", "expression in a block": "if True:\n    7", "two expressions": "1\n2",
    "last is a statement": "1\nb = 2", "empty": "", "only a comment": "# nothing",
    "multi-line string": "'''a\nb'''", "walrus": "(w := 4)", "big integer": "10 ** 100",
    "integer that has too many digits": "10 ** 5000",
    # layout
    "long list": "list(range(60))", "very long list": "list(range(1001))", "short nested": "[[1, 2], {'a': (3,)}]",
    "long nested": "[{'name': 'n' * 20, 'values': list(range(12))} for _ in range(3)]",
    "long dict": "{('key%d' % n): 'v' * 12 for n in range(8)}", "set": "{3, 1, 2}", "empty set": "set()",
    "mixed set": "{1, 'a', None}", "frozenset": "frozenset([2, 1])", "one tuple": "(1,)", "recursive": "r = [1]; r.append(r)\nr",
    "recursive dict": "s = {}; s['me'] = s\ns", "class": "int, str", "function": "def f(x, *, y=1): pass\nf", "builtin": "len, print",
    "lambda": "lambda: 0", "exception value": "ValueError('x', 1), KeyError()", "range": "range(3), slice(1, 2)",
    "collections": "import collections as c\n[c.Counter('aab'), c.defaultdict(int, a=1), c.OrderedDict(a=1), c.deque([1], 3)]",
    "namespace": "import types\ntypes.SimpleNamespace(a=1, b='x')", "pattern": "import re\nre.compile(r'a\\d', re.I)",
    "dict views": "{1: 2}.keys(), {1: 2}.items()", "mapping proxy": "types.MappingProxyType({1: 2})",
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int\nD(1), D",
    "enum": "import enum\nclass E(enum.Enum): A = 1\nE.A, E", "long strings": "['x' * 50, 'y' * 50]", "super": "class B(int):\n    def f(self): return super()\nB(3).f()",
    "array in a list": "import numpy as np\n[np.eye(3), np.arange(3)]", "array in a dict": "{'a': np.eye(2), 'b': 1}",
    "subclass of list": "class L(list): pass\nL([1, 2])", "subclass with repr": "class R(dict):\n    def __repr__(self): return 'mine'\nR()",
    # bundles
    "classes": CLASSES, "html": "Html()", "bundle": "Bundle()", "many types": "Many()", "shows itself": "Itself()",
    "failing repr": "Failing()", "repr of nothing": "Nothing()", "pretty": "Pretty()", "class of bundle": "Html",
    "object": "Plain()", "object in a list": "[Plain(), Html()]", "display": "display(1, 'two')\ndisplay(Html())\n3",
    "display raw": "display({'text/plain': 'raw', 'text/html': '<p>'}, raw=True)",
    "display some types": "display(Html(), exclude=['text/html'])",
    "mock": "from unittest.mock import MagicMock\nMagicMock(name='m')",
    "table": "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})", "series": "pd.Series([1.5, 2])",
    "styled table": "pd.DataFrame().style.to_html() and None", "array": "np.arange(6).reshape(2, 3)",
    "image": "from PIL import Image\nImage.new('RGB', (2, 2))",
    "ipython's classes": "from IPython.display import HTML, JSON, Latex, Markdown\nHTML('<i>x</i>')",
    "ipython's display": "import IPython.display\nIPython.display.display(Markdown('*m*'), Latex('$l$'))", "json": "JSON({'a': 1})",
    # figures
    "figure left open": "import matplotlib.pyplot as plt\nplt.plot([1, 2]);", "figure shown": "plt.plot([1])\nplt.show()",
    "two figures": "plt.figure().add_subplot(); plt.figure().add_subplot();", "empty figure": "plt.figure();",
    "figure as value": "fig, ax = plt.subplots(2); plt.close(fig)\nfig", "figure and value": "plt.plot([1])\n5",
    "figure that is closed": "plt.plot([1]); plt.close()", "svg": "%config InlineBackend.figure_formats = ['svg']\nplt.plot([1]);",
    # output
    "print": "print('out')\nprint('a', 'b', sep='-')", "raw": "import sys\nn = sys.stdout.write('x\\n')",
    "stderr": "print('err', file=sys.stderr)", "carriage return": "print('1\\r2')", "not ascii": "print('\u00e9\u4e2d\U0001f600')",
    # errors
    "division": "1 / 0", "name": "nowhere", "syntax": "x = = 1", "indentation": "if True:\nx", "key": "{}['k']",
    "in a function": "def g(): raise ValueError('in g')\ng()", "chained": "try: 1 / 0\nexcept Exception as e: raise KeyError('k') from e",
    "group": "raise ExceptionGroup('g', [ValueError(1), KeyError(2)])", "note": "e = ValueError('v'); e.add_note('noted'); raise e",
    "assertion": "assert 1 == 2, 'not so'", "empty message": "raise ValueError", "own exception": "class Own(Exception): pass\nraise Own('mine')",
    "recursion": "def h(): h()\nh()", "import": "import nowhere_at_all", "attribute": "(1).nothing", "unicode": "raise ValueError('\u00e9')",
    "interrupt by itself": "raise KeyboardInterrupt", "exit": "import sys; sys.exit(3)", "exit with words": "raise SystemExit('words')",
    "return": "return 1", "unbalanced": "(1", "await outside": "def k(): await x", "error in display": "display(1 / 0)",
    "after an error": "print('before')\n1 / 0\nprint('after')", "type error": "len(5)", "unpack": "x, y = 1",
    # await
    "await": "import asyncio\nawait asyncio.sleep(0, 'slept')", "async with": "async with asyncio.Lock(): 5", "await and value": "z = await asyncio.sleep(0, 2)\nz + 1",
    "async error": "async def boom(): 1 / 0\nawait boom()", "gather": "await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))",
    "task": "async def t(): return 't'\ntask = asyncio.create_task(t())\nawait task", "asyncio.run": "asyncio.run(asyncio.sleep(0, 'ran'))",
    "task without await": "task = asyncio.create_task(t())",
    # magics
    "shell": "!echo hi", "shell to a variable": "lines = !printf 'a\\nb'\nlines", "shell with values": "!echo {a + 1} $a",
    "pwd": "import os\np = %pwd\np == os.getcwd()", "writefile": "%%writefile file.txt\nx", "written": "open('file.txt').read()", "cd": "%cd /", "env": "%env CAY_CELL=1", "env asked": "%env CAY_CELL",
    "bash": "%%bash\necho $((1 + 1))", "bash that fails": "%%bash\nexit 3", "unknown magic": "%nope", "unknown cell magic": "%%nope\nx",
    "percent in a string": "'''\n%nope\n'''", "percent in an expression": "(7\n% 4)",
    "html magic": "%%html\n<b>x</b>", "time of a value": "%time 5", "matplotlib magic": "%matplotlib inline", "last value of a magic": "%pwd",
    "help": "len?", "exit code": "!false\n_exit_code", "magic in a block": "for n in range(2):\n    !echo {n}", "capture": "%%capture out\nprint('x')", "captured": "out.stdout",
    # the rest
    "name of main": "__name__", "pickle": "import pickle\npickle.loads(pickle.dumps(D(2)))", "source": "import inspect\ninspect.getsource(f)",
    "history": "_1", "out": "Out[1]", "in": "In[1], _i1", "last in": "_i, _ii", "in of a magic": "%pwd\nIn[-1]",
    "kept out": "[1]", "more": "'more'", "out of last": "Out[max(Out)], _", "and": "'and'", "more again": "'more'",
    "out that is let go": "[1] in Out.values()", "get_ipython": "get_ipython().__class__.__name__", "warning": "import warnings\nwarnings.warn('w')",
    "future": "from __future__ import annotations\ndef q(x: nowhere): pass\nq.__annotations__", "future kept": "def q2(x: nowhere): pass\nq2.__annotations__",
    "doc": "'''doc'''\n__doc__", "argv": "len(sys.argv)", "isatty": "sys.stdout.isatty()",
    "stdin": "sys.stdin.read()", "type of underscore": "del _; 3",
}

# reason: cells
REASONS = {
    "A syntax error names the cell (`Cell In[3]`), and not a file in `/tmp`.":
        ("syntax", "indentation", "return", "await outside"),
    "A bracket that is never closed is that, and not `incomplete input`.": ("unbalanced",),
    "The end of a traceback is Python's own: notes and the members of groups are there, "
    "an exception without words has no colon, and one of a module has the module's name.":
        ("group", "note", "empty message", "interrupt by itself"),
    "`%%bash` that fails says which program failed, and not the whole script.": ("bash that fails",),
    "A magic that does not exist has a traceback, and nothing on stderr.": ("unknown magic", "unknown cell magic"),
    "`asyncio.run()` works: the event loop runs only while a cell awaits.": ("asyncio.run",),
    "`asyncio.create_task()` needs an `await` in the same cell.": ("task without await",),
    "Commands (`!`) have no terminal: their lines end with `\\n`, and stderr is stderr.":
        ("shell", "shell with values", "magic in a block"),
    "`%%html` and its like give no `text/plain` besides.": ("html magic",),
    "`obj?` prints; there is no pager.": ("help",),
    "`Out` and `_1` have the last three values, and plain ones (numbers, texts) of the last hundred: "
    "what is large is not kept in memory for them.": ("out that is let go",),
    "`In` has cells as they were sent.": ("in of a magic",),
    "`get_ipython()` has `run_line_magic()`, `run_cell_magic()`, `system()`, `getoutput()` and `user_ns`, "
    "and nothing else; IPython's own function of that name says that there is none.": ("get_ipython",),
    "`sys.argv` is `['']`.": ("argv",),
}
DIFFERENT = {cell: reason for reason, cells in REASONS.items() for cell in cells}
