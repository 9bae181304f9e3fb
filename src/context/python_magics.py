"""A part of python.py: IPython's %magics and !commands, of those that cost little.

translate() turns lines that begin with them into calls of `__cay__`, which is a builtin: they keep their
number and indentation. A line counts only where a statement can begin, so not within strings, brackets
and behind a backslash.
"""

import re

TOKEN = re.compile(r"""
    (?P<string> (?P<long> \"{3}|'{3}) (?s:\\.|(?!(?P=long)).)* (?:(?P=long)|\Z)
              | (?P<quote> ["']) (?:\\(?s:.)|(?!(?P=quote))[^\\\n])* (?P=quote)?)
  | (?P<comment> \#[^\n]*) | (?P<open> [(\[{]) | (?P<close> [)\]}])
  | (?P<joined> \\\n) | (?P<newline> \n) | (?P<other> [^"'\#()\[\]{}\\\n]+ | .)
""", re.X)
LINE = re.compile(r"(?P<indent>[ \t]*)(?:(?P<target>[^\s=!%#'\"()][^=!%#'\"\n]*?)\s*=\s*)?"
                  r"(?P<mark>!!|!(?!=)|%(?=[A-Za-z]))(?P<rest>(?:[^\\\n]|\\.|\\\n)*)")
HELP = re.compile(r"(?P<indent>[ \t]*)(?:\?{1,2}(?P<before>[\w.]+)|(?P<after>[\w.]+)\?{1,2})[ \t]*(?=\n|$)")
CELL = re.compile(r"\s*%%(?P<name>[A-Za-z]\w*)[ \t]*(?P<line>[^\n]*)\n?(?P<body>(?s:.*))")
ALIASES = ("ls", "ll", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "man", "less", "more")


class UsageError(Exception):
    """A magic that is not there, or that was called in a wrong way."""
    __module__ = "builtins"


def translated_line(found):
    """What stands for a magic, over as many lines."""
    mark, target = found["mark"], found["target"]
    rest = found["rest"].replace("\\\n", " ").strip()
    if mark == "%":
        name, _, line = rest.partition(" ")
        code = f"__cay__.line({name!r}, {line.strip()!r})"
    else:
        code = f"__cay__.{'lines' if target or mark == '!!' else 'command'}({rest!r})"
    return found["indent"] + (f"{target} = " if target else "") + code + "\n" * found["rest"].count("\n")


def translate(code):
    builtins.__cay__ = Magics
    cell = CELL.fullmatch(code)
    if cell:
        return f"__cay__.cell({cell['name']!r}, {cell['line'].strip()!r}, {cell['body']!r})"
    out, at, depth, begins = [], 0, 0, True
    while at < len(code):
        if begins:
            found = LINE.match(code, at)
            asked = HELP.match(code, at)
            if found:
                out.append(translated_line(found))
                at, begins = found.end(), False
                continue
            if asked:
                out.append(f"{asked['indent']}__cay__.help({(asked['before'] or asked['after'])!r})")
                at, begins = asked.end(), False
                continue
        token = TOKEN.match(code, at)
        depth += bool(token["open"]) - bool(token["close"])
        begins = bool(token["newline"]) and depth <= 0
        out.append(token[0])
        at = token.end()
    return "".join(out)


def expanded(text, frame):
    """{expression} and $name are Python's; the text as it is where they are not."""
    names = {**frame.f_globals, **frame.f_locals}

    def value(found):
        if found["escaped"]:
            return found["escaped"][0]
        if found["name"]:
            return str(names[found["name"]]) if found["name"] in names else found[0]
        expression, _, form = found["expression"].partition(":")
        return format(eval(expression, names), form)
    try:
        return re.sub(r"(?P<escaped>\$\$|\{\{|\}\})|\$(?P<name>[A-Za-z_]\w*)|\{(?P<expression>[^{}]+)\}", value, text)
    except Exception:
        return text


def caller():
    """The frame of the cell's code, or of a function in it."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == SOURCE:
        frame = frame.f_back
    return frame


class Lines(list):
    """What a command has printed, as IPython's SList."""
    l = property(list)
    n = property("\n".join)
    s = property(" ".join)


def system(argv, **options):
    """Runs a program, whose output is the cell's."""
    import subprocess
    flush()
    ns["_exit_code"] = subprocess.call(argv, **options)


def shell(command):
    system(["/bin/sh", "-c", command])


def own(code, magic):
    """compiled(), of code that a magic was given, with a name by which tracebacks quote it."""
    name = f"Cell In[{State.cells}] {magic}"
    remember(name, code)
    return compiled(code, name)


def duration(seconds, digits=3):
    if seconds >= 60:
        whole = int(seconds)
        parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
        return " ".join(f"{n}{unit}" for n, unit in parts if n)
    for unit, factor in ("s", 1), ("ms", 1e3), ("\xb5s", 1e6), ("ns", 1e9):
        if seconds * factor >= 1 or unit == "ns":
            return f"{seconds * factor:.{digits}g} {unit}"


def options_of(line, letters):
    import getopt
    words = line.split()
    try:
        options, rest = getopt.getopt(words, letters)
    except getopt.GetoptError as error:
        raise UsageError(str(error)) from None
    # What follows them is code, as it was written.
    for _ in range(len(words) - len(rest)):
        line = line.lstrip().partition(" ")[2]
    return dict(options), line.strip()


def magic_time(line, body=None):
    import resource
    import time
    codes, show = own(line if body is None else body, "%time")
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    try:
        value = evaluate(codes)
    finally:
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
        user, kernel = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        print(f"CPU times: user {duration(user)}, sys: {duration(kernel)}, total: {duration(user + kernel)}\n"
              f"Wall time: {duration(wall)}")
    if body is None:
        return value if show else None
    if show:
        sys.displayhook(value)


def magic_timeit(line, body=None):
    import timeit
    options, line = options_of(line, "n:r:qotcp:v:")
    setup, code = ("pass", line) if body is None else (line or "pass", body)
    timer = timeit.Timer(code, setup, globals=ns)
    loops, runs = int(options.get("-n", 0)), int(options.get("-r", 7))
    if not loops:
        loops = next(n for n in (10 ** power for power in range(10)) if timer.timeit(n) >= 0.2 or n == 10 ** 9)
    times = [t / loops for t in timer.repeat(runs, loops)]
    mean = sum(times) / runs
    deviation = (sum((t - mean) ** 2 for t in times) / runs) ** 0.5
    if "-q" not in options:
        print(f"{duration(mean)} \xb1 {duration(deviation)} per loop (mean \xb1 std. dev. of {runs} "
              f"run{'s'[:runs != 1]}, {loops:,} loop{'s'[:loops != 1]} each)")


def magic_cd(line):
    path = line.strip("'\"") or "~"
    if path == "-":
        path = State.directory
    before = os.getcwd()
    os.chdir(os.path.expanduser(path))
    State.directory = before
    print(os.getcwd())


def magic_env(line):
    name, sign, value = line.partition("=") if "=" in line else line.partition(" ")
    name = name.strip()
    if not line:
        return dict(os.environ)
    if not sign:
        if name not in os.environ:
            raise UsageError(f"Environment does not have key: {name}")
        return os.environ[name]
    os.environ[name] = value.strip()
    print(f"env: {name}={value.strip()}")


def magic_pip(line):
    import importlib
    import shlex
    system([sys.executable, "-m", "pip", *shlex.split(line)])
    importlib.invalidate_caches()


def users_names():
    own = {"In": State.inputs, "Out": State.outputs}
    return sorted(name for name in ns if not name.startswith("_") and ns[name] is not own.get(name, ns))


def magic_who(line):
    print("\t".join(users_names()) or "Interactive namespace is empty.")


def magic_whos(line):
    rows = [("Variable", "Type", "Data/Info")]
    rows += [(name, type(ns[name]).__name__, repr(ns[name]).replace("\n", " ")[:60]) for name in users_names()]
    widths = [max(len(row[n]) for row in rows) + 3 for n in (0, 1)]
    for row in rows:
        print(f"{row[0]:{widths[0]}}{row[1]:{widths[1]}}{row[2]}")


def magic_reset(line):
    for name in users_names():
        del ns[name]
    for name in State.shown:
        ns.pop(name, None)
    for number, value in State.outputs.items():
        if ns.get(f"_{number}") is value:
            del ns[f"_{number}"]
    State.outputs.clear()


def magic_run(line):
    import runpy
    import shlex
    words = shlex.split(line)
    if not words:
        raise UsageError("%run needs the name of a file")
    before, sys.argv = sys.argv, words
    try:
        found = runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.argv = before
    ns.update({name: value for name, value in found.items() if not name.startswith("__")})


def magic_config(line):
    name, _, value = line.partition("=")
    name, value = name.strip(), value.strip()
    if name not in ("InlineBackend.figure_formats", "InlineBackend.figure_format"):
        raise UsageError(f"%config knows InlineBackend.figure_formats, and not {name or 'nothing'}")
    wanted = eval(value, ns)
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    known = ("png", "retina", "png2x", "svg", "jpeg", "jpg", "pdf")
    if not wanted or not set(wanted) <= set(known):
        raise UsageError(f"figure formats are {', '.join(known)}")
    State.figure_formats = wanted


def magic_accepted(line):
    """%matplotlib: figures are shown anyway."""


def magic_lsmagic(line):
    print("Available line magics:\n" + "  ".join("%" + name for name in [*LINE_MAGICS, *ALIASES])
          + "\n\nAvailable cell magics:\n" + "  ".join("%%" + name for name in CELL_MAGICS))


def script(program):
    def run(line, body):
        import shlex
        import subprocess
        flush()
        argv = [program, *shlex.split(line)]
        done = subprocess.run(argv, input=body.encode())
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, argv)
    return run


def magic_writefile(line, body):
    options, path = options_of(line, "a")
    path = os.path.expanduser(path.strip("'\""))
    if not path:
        raise UsageError("%%writefile needs the name of a file")
    print(("Appending to" if "-a" in options else "Overwriting" if os.path.exists(path) else "Writing") + f" {path}")
    with open(path, "a" if "-a" in options else "w", encoding="utf-8") as file:
        file.write(body)


def magic_capture(line, body):
    import contextlib
    import io
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        codes, _ = own(body, "%%capture")
        evaluate(codes)
    if line:
        import types
        ns[line.split()[-1]] = types.SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


def shown_as(mime):
    def run(line, body):
        load("show")
        send_bundle({mime: body})
    return run


LINE_MAGICS = {
    "pip": magic_pip, "time": magic_time, "timeit": magic_timeit, "cd": magic_cd, "pwd": lambda line: os.getcwd(),
    "env": magic_env, "set_env": magic_env, "who": magic_who, "who_ls": lambda line: users_names(),
    "whos": magic_whos, "reset": magic_reset, "run": magic_run, "config": magic_config, "matplotlib": magic_accepted,
    "lsmagic": magic_lsmagic, "system": lambda line: Magics.lines(line), "sx": lambda line: Magics.lines(line),
}
CELL_MAGICS = {
    "bash": script("bash"), "sh": script("sh"), "time": magic_time, "timeit": magic_timeit,
    "writefile": magic_writefile, "capture": magic_capture, "html": shown_as("text/html"),
    "HTML": shown_as("text/html"), "markdown": shown_as("text/markdown"), "latex": shown_as("text/latex"),
    "svg": shown_as("image/svg+xml"), "SVG": shown_as("image/svg+xml"),
    "javascript": shown_as("application/javascript"), "js": shown_as("application/javascript"),
}
AS_WRITTEN = ("time", "timeit", "config")  # what they are given is Python


class Magics:
    """What translated cells call."""
    @staticmethod
    def line(name, line):
        if name not in AS_WRITTEN:
            line = expanded(line, caller())
        if name in ALIASES:
            return shell(f"{'ls -l' if name == 'll' else name} {line}")
        if name not in LINE_MAGICS:
            hint = f" (But cell magic `%%{name}` exists.)" if name in CELL_MAGICS else ""
            raise UsageError(f"Line magic function `%{name}` not found.{hint}")
        return LINE_MAGICS[name](line)

    @staticmethod
    def cell(name, line, body):
        if name not in CELL_MAGICS:
            hint = f" (But line magic `%{name}` exists.)" if name in LINE_MAGICS else ""
            raise UsageError(f"Cell magic `%%{name}` not found.{hint}")
        if body and not body.endswith("\n"):
            body += "\n"
        return CELL_MAGICS[name](line if name in AS_WRITTEN else expanded(line, caller()), body)

    @staticmethod
    def command(command):
        shell(expanded(command, caller()))

    @staticmethod
    def lines(command):
        import subprocess
        flush()
        done = subprocess.run(["/bin/sh", "-c", expanded(command, caller())], stdout=subprocess.PIPE)
        ns["_exit_code"] = done.returncode
        return Lines(done.stdout.decode("utf-8", "replace").splitlines())

    @staticmethod
    def help(name):
        import inspect
        frame = caller()
        try:
            value = eval(name, frame.f_globals, frame.f_locals)
        except Exception:
            print(f"Object `{name}` not found.")
            return
        try:
            print(f"Signature: {name}{inspect.signature(value)}")
        except (TypeError, ValueError):
            pass
        print(f"Type:      {type(value).__name__}\nDocstring: {inspect.getdoc(value) or '<no docstring>'}")


class Shell:
    """What get_ipython() is: of IPython's, what a notebook that was saved as a program calls."""
    user_ns = ns

    def run_line_magic(self, name, line):
        return Magics.line(name, line)

    def run_cell_magic(self, name, line, cell):
        return Magics.cell(name, line, cell)

    def system(self, command):
        Magics.command(command)

    def getoutput(self, command):
        return Magics.lines(command)


shell_object = Shell()
