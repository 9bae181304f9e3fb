"""The Python driver of a context: runs one cell after the other in one interpreter.

Started as `python3 -c`, joined with its parts by tools/driver. Fd 0 is the control channel, on which
both sides send JSON texts that each end with a NUL byte; it moves to a high number, and cells read
/dev/null. Fds 1 and 2 are pipes that outlive all cells. A cell runs in the real __main__; this file
has a namespace of its own, so nothing of it is in the user's way.

What is needed at every start is here and costs no import that the interpreter has not made: _json,
_signal and _ast are the built-in halves of json, signal and ast. The parts python_*.py are executed
in this namespace by load() when a cell first needs them.

A SIGINT becomes a KeyboardInterrupt while a cell runs, is nothing between cells, and waits while a
message is half written or read.
"""

import _ast
import _frozen_importlib
import _json
import _signal
import _thread
import builtins
import io
import os
import sys
from posix import dup2, fstat, getpid, read, write

SOURCE = "<cay>"  # this file's name in tracebacks, and that of the parts
VALUE_MAX = 4 << 20  # bytes of one MIME value with its type, as JSON
CELL_MAX = 16 << 20  # of all a cell shows
CELL_BUNDLES = 64
PROMPT_MAX = 16 << 10  # characters
SOURCES_MAX = 16 << 20  # characters of cells that tracebacks can quote, and of In
OUT_MAX, OUT_ALL = 100, 3  # values in Out: plain ones, and any

ONLY_AST, TOP_LEVEL_AWAIT = 0x400, 0x2000  # ast.PyCF_*
COROUTINE = 0x80  # inspect.CO_COROUTINE

PLAIN = (int, float, bool, complex, bytes, str)  # their repr() is all there is to show
BACKEND = "module://cay_figures"
JSON_TYPE = "application/json"

ns = sys.modules["__main__"].__dict__
main_thread = _thread.get_ident()


class State:
    """Of the context, and of the cell that runs."""
    cells = 0
    rich = True
    bundles = size = unseen = 0  # what the cell has shown, and could not
    running = False
    future = 0  # the __future__ features that earlier cells have asked for
    shown = {}  # "_": id of what was put there
    sources = {}  # "Cell In[1]": its lines, for linecache
    sources_size = 0
    loop = None  # asyncio's, from the first cell on that awaits
    figure_formats = ["png"]
    inputs, outputs = [""], {}  # In and Out


def code_of(part):
    text = PARTS[part]  # or its code: warm starts have compiled it
    return compile(text, SOURCE, "exec") if type(text) is str else text


def load(part):
    """Makes the names of a part this file's. Interrupted, it does it again next time."""
    if part in PARTS:
        exec(code_of(part), globals())
        PARTS.pop(part, None)


# Messages

class Decoding:
    """What _json.make_scanner() asks for."""
    strict, object_hook, object_pairs_hook, memo = False, None, None, {}
    parse_float, parse_int, parse_constant = float, int, float


def not_json(value):
    raise TypeError(f"{type(value).__name__} is not JSON")


scan = _json.make_scanner(Decoding)
encoder = _json.make_encoder(None, not_json, _json.encode_basestring, None, ":", ",", False, False, False)


def encode(value):
    return "".join(encoder(value, 0)).encode("utf-8", "replace")


class Uninterrupted:
    """A SIGINT that comes within is heard at its end."""
    def __enter__(self):
        self.late, self.before = False, None
        if _thread.get_ident() == main_thread:
            self.before = _signal.signal(_signal.SIGINT, self.note) or _signal.default_int_handler

    def note(self, *_):
        self.late = True

    def __exit__(self, *_):
        if self.before is not None:
            _signal.signal(_signal.SIGINT, self.before)
            if self.late and callable(self.before):
                self.before(_signal.SIGINT, None)


def move(fd, *places):
    """A copy of a descriptor out of the way, not for programs that are started."""
    for place in places:
        try:
            return dup2(fd, place, False)
        except OSError:  # beyond the limit of open files
            pass
    return os.dup(fd)


def no_stdin():
    null = os.open(os.devnull, os.O_RDWR)
    if null:
        dup2(null, 0)
        os.close(null)


class Channel:
    def __init__(self):
        self.fd = move(0, 1000, 240, 60)
        self.lock = _thread.allocate_lock()
        self.pending = bytearray()
        no_stdin()

    def leave(self):
        """In a process that was forked off: the channel is its parent's."""
        os.close(self.fd)
        self.fd = -1

    def send(self, message):
        if self.fd < 0:
            return
        data = memoryview(encode(message) + b"\0")
        with Uninterrupted(), self.lock:
            while data:
                try:
                    data = data[write(self.fd, data):]
                except OSError:  # nobody is there to hear of anything any more
                    os._exit(1)

    def receive(self, ready=None):
        """The next message; None when there will be none. ready() may raise, and then nothing is lost."""
        looked = 0
        while True:
            end = self.pending.find(0, looked)
            if end >= 0:
                text = self.pending[:end].decode()
                del self.pending[:end + 1]
                return scan(text, 0)[0]
            looked = len(self.pending)
            if ready:
                ready()
            with Uninterrupted():
                data = read(self.fd, 1 << 16)
                self.pending += data
            if not data:
                return None


def may_ask():
    return channel.fd >= 0 and State.running and _thread.get_ident() == main_thread


def answered(question):
    import select
    channel.send({"type": "input", **question})
    while True:
        message = channel.receive(lambda: select.select([channel.fd], [], []))
        if message is None:
            raise EOFError("the context ends")
        if message.get("type") == "input":
            break
    if "error" in message:
        raise EOFError(message["error"])
    return message["text"]


def ask(prompt="", password=False):
    """input() and getpass()."""
    if not may_ask():
        raise EOFError("input is only for the main thread of a cell that runs")
    flush()
    if not given.used:
        return answered({"prompt": str(prompt)[:PROMPT_MAX], "password": password})
    print(prompt, end="", flush=True)
    line = given.text.readline()
    if not line:
        raise EOFError("the input has ended")
    return line.removesuffix("\n")


def input(prompt="", /):
    """Reads a line, which whoever runs the cell has to send."""
    return ask(prompt)


class Given(io.RawIOBase):
    """sys.stdin's bytes: the input that was sent with the cell, and none where there was none. Nobody is asked."""
    name = "<stdin>"
    used, left = False, b""

    def __init__(self):
        self.text = io.TextIOWrapper(io.BufferedReader(self), "utf-8")

    def readable(self):
        return True

    def fileno(self):
        return 0

    def readinto(self, room):
        if not self.left and may_ask():
            try:
                self.left = memoryview(answered({"stream": True}).encode())
                self.used = True
            except EOFError:
                pass
        count = min(len(room), len(self.left))
        room[:count], self.left = self.left[:count], self.left[count:]
        return count


def give_stdin():
    """What is left of the last cell's is not this one's."""
    global given
    before, given = given, Given()
    if sys.stdin is before.text or not is_usable(getattr(sys, "stdin", None)):
        sys.stdin = given.text


# Results

def note(text):
    channel.send({"type": "note", "text": text})


def mebibytes(size):
    return f"{size / (1 << 20):.1f} MiB"


def memory_of(value):
    """What it takes of CELL_MAX: a value of JSON is larger, where it is kept, than its text."""
    if isinstance(value, dict):
        return 256 + sum(64 + len(encode(name)) + memory_of(v) for name, v in value.items())
    if isinstance(value, list):
        return 256 + sum(map(memory_of, value))
    return 64 + (len(encode(value)) if isinstance(value, str) else 0)


def bounded(mime, value):
    """The value, cut where it has to be and can be, and its size; None where it can't."""
    size = len(encode(value)) + len(encode(mime))
    if size <= VALUE_MAX:
        return value, max(size, memory_of(value))
    if mime != "text/plain":
        note(f"a result of {mebibytes(size)} of {mime[:100]} was left out: the limit is {VALUE_MAX >> 20} MiB")
        return None, 0
    note(f"a result of {mebibytes(size)} of {mime} was cut: the limit is {VALUE_MAX >> 20} MiB")
    while size > VALUE_MAX:
        value = value[:len(value) * VALUE_MAX // size - 1]
        size = len(encode(value)) + len(encode(mime))
    return value, size


def publish(data):
    """Sends a bundle, as far as the limits allow."""
    if not State.rich or channel.fd < 0:
        return
    if State.bundles >= CELL_BUNDLES:
        State.unseen += 1
        return
    kept, total = {}, 0
    for mime, value in data.items():
        value, size = bounded(mime, value)
        if value is not None and State.size + total + size > CELL_MAX:
            note(f"a result of {mebibytes(size)} of {mime[:100]} was left out: "
                 f"the limit of all that a cell shows is {CELL_MAX >> 20} MiB")
        elif value is not None:
            kept[mime], total = value, total + size
    if kept:
        State.bundles, State.size = State.bundles + 1, State.size + total
        channel.send({"type": "result", "data": kept})


def display(*objects, **options):
    """Shows values: as HTML, as pictures, and so on, if they have _repr_html_() and its like."""
    load("show")
    return display_objects(objects, **options)


def keep_input(code):
    """In, _i and _i1, with the code as it was sent."""
    State.inputs.append(code)
    ns[f"_i{State.cells}"] = code
    ns.update(zip(("_i", "_ii", "_iii"), State.inputs[-2:0:-1] + [""] * 3))


def is_plain(value):
    return type(value) in PLAIN and not (isinstance(value, (int, str, bytes)) and sys.getsizeof(value) > 1000)


def keep_output(value):
    """Out and _1, but for Out itself. What may be large is not kept alive for it."""
    if value is State.outputs:
        return
    State.outputs[State.cells] = ns[f"_{State.cells}"] = value
    kept = list(State.outputs)
    for number in kept[:-OUT_MAX] + [n for n in kept[-OUT_MAX:-OUT_ALL] if not is_plain(State.outputs[n])]:
        if ns.get(f"_{number}") is State.outputs.pop(number):
            del ns[f"_{number}"]


def get_ipython():
    """What code expects that was written as a notebook: run_line_magic() and a few others, and no more."""
    load("magics")
    return shell_object


def displayhook(value):
    """sys.displayhook while the context lives: the value of a cell's last expression."""
    if value is None:
        return
    if is_plain(value):
        publish({"text/plain": repr(value)})
    else:
        load("show")
        display_objects((value,))
    keep_output(value)
    # Not if the user has put something else there. By id, lest this keep anything alive.
    if all(name not in ns or State.shown.get(name) == id(ns[name]) for name in ("_", "__", "___")):
        for name, older in ("___", "__"), ("__", "_"):
            if older in ns:
                ns[name] = ns[older]
        ns["_"] = value
        State.shown = {name: id(ns[name]) for name in ("_", "__", "___") if name in ns}


# Streams

def is_usable(stream):
    try:
        return callable(stream.write) and not stream.closed
    except BaseException:  # no stream, or one that was taken apart
        return False


class Stream:
    """sys.stdout or sys.stderr, which cells may close, replace or lead elsewhere."""
    def __init__(self, name, fd, *places):
        self.name, self.fd = name, fd
        self.kept = move(fd, *places)
        self.identity = self.identify()
        self.own = getattr(sys, name)
        if self.own is None:
            self.open()
        else:
            self.own.reconfigure(encoding="utf-8", line_buffering=True)

    def identify(self):
        try:
            status = fstat(self.fd)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def open(self):
        self.own = open(self.fd, "w", 1, "utf-8", "backslashreplace", closefd=False)
        setattr(sys, self.name, self.own)
        setattr(sys, f"__{self.name}__", self.own)

    def flush(self):
        for stream in {id(s): s for s in (getattr(sys, self.name, None), self.own)}.values():
            try:
                stream.flush()
            except BaseException:  # closed, no stream at all, or what it writes to is gone: restore()
                pass

    def restore(self):
        self.flush()
        if self.identify() != self.identity:
            dup2(self.kept, self.fd)
            self.flush()
        if not is_usable(getattr(sys, self.name, None)):
            if not is_usable(self.own):
                self.open()
            setattr(sys, self.name, self.own)


def flush():
    for stream in streams:
        stream.flush()
    if "ctypes" in sys.modules:  # C's own buffers
        try:
            sys.modules["ctypes"].CDLL(None).fflush(None)
        except Exception:
            pass


def restore():
    """After a cell, what the next one and this file need."""
    flush()
    for stream in streams:
        stream.restore()
    if not is_usable(getattr(sys, "stdin", None)):
        no_stdin()
        give_stdin()
    if sys.getrecursionlimit() < 200:
        sys.setrecursionlimit(1000)


# Imports. A finder in sys.meta_path would do, but warm starts give modules only as long as it is untouched.

def imported_linecache(module):
    for name, lines in State.sources.items():
        module.cache[name] = (0, None, lines, name)


def imported_getpass(module):
    module.getpass = lambda prompt="Password: ", *_, **__: ask(prompt, True)


def figures():
    """The module of matplotlib's backend."""
    module = sys.modules.get("cay_figures")
    if not module:
        module = type(sys)("cay_figures")
        module.state, module.show_objects, module.BACKEND = State, display, BACKEND
        exec(code_of("figures"), module.__dict__)
        sys.modules["cay_figures"] = module
    return module


def imported_matplotlib(module):
    if not os.environ.get("MPLBACKEND"):
        module.rcParams["backend"] = BACKEND


def imported_ipython(module):
    load("show")
    for name in "display", "update_display", "publish_display_data", "clear_output":
        setattr(module, name, globals()[name])


hooks = {"linecache": imported_linecache, "getpass": imported_getpass, "matplotlib": imported_matplotlib,
         "IPython.core.display_functions": imported_ipython}


def after_import():
    for name in [n for n in hooks if n in sys.modules]:
        module = sys.modules[name]
        # Not while its own code runs.
        if not getattr(getattr(module, "__spec__", None), "_initializing", False) and name in hooks:
            hooks.pop(name)(module)


# Named as importlib's own, so that tracebacks leave it out.
IMPORT = """
def _find_and_load(name, import_):
    module = figures() if name == "cay_figures" else original(name, import_)
    after_import()
    return module
"""


def hook_imports():
    hooked = {"original": _frozen_importlib._find_and_load, "after_import": after_import, "figures": figures}
    exec(compile(IMPORT, "<frozen importlib._bootstrap>", "exec"), hooked)
    _frozen_importlib._find_and_load = hooked["_find_and_load"]
    after_import()


# Cells

def remember(name, code):
    """For tracebacks and inspect.getsource()."""
    lines = [line + "\n" for line in code.split("\n")]
    State.sources[name] = lines
    State.sources_size += len(code)
    cache = sys.modules["linecache"].cache if "linecache" in sys.modules else {}
    cache[name] = (len(code), None, lines, name)
    while State.sources_size > SOURCES_MAX and len(State.sources) > 1:
        oldest = next(iter(State.sources))
        forget_input(oldest)
        State.sources_size -= sum(map(len, State.sources.pop(oldest)))
        cache.pop(oldest, None)


def forget_input(name):
    number = name[len("Cell In["):].partition("]")[0]
    if name.endswith("]") and number.isdecimal() and int(number) < len(State.inputs):
        State.inputs[int(number)] = ""
        ns.pop(f"_i{number}", None)


def parse(code, name):
    """(tree, the code as it is in the tree): magics are looked for only in what is not Python."""
    flags = ONLY_AST | TOP_LEVEL_AWAIT | State.future
    try:
        return compile(code, name, "exec", flags, True), code
    except SyntaxError:
        load("magics")
        translated = translate(code)
        if translated == code:
            raise
    return compile(translated, name, "exec", flags, True), translated


def is_quiet(code, value):
    """Whether a semicolon follows the last expression. What follows it besides is parentheses and comments."""
    lines = code.encode("utf-8", "replace").split(b"\n")[value.end_lineno - 1:]
    lines[0] = lines[0][value.end_col_offset:]
    return any(b";" in line.partition(b"#")[0] for line in lines)


def compiled(code, name):
    """The code objects of a cell, and whether the value of the last one is to be shown."""
    tree, code = parse(code, name)
    body, flags, show = tree.body, TOP_LEVEL_AWAIT | State.future, False
    if "__future__" in code:
        import __future__
        codes = compile(tree, name, "exec", flags, True)
        for feature in __future__.all_feature_names:
            flags |= codes.co_flags & getattr(__future__, feature).compiler_flag
        State.future = flags & ~TOP_LEVEL_AWAIT
    last = body.pop().value if body and type(body[-1]) is _ast.Expr else None
    codes = [compile(tree, name, "exec", flags, True)] if body else []
    if last is not None:
        show = not is_quiet(code, last)
        codes.append(compile(_ast.Expression(last), name, "eval", flags, True))
    return codes, show


def evaluate(codes):
    """Runs what compiled() has made; the value of the last one."""
    if any(code.co_flags & COROUTINE for code in codes):
        load("await")
        return run_awaiting(codes)
    value = None
    for code in codes:
        value = eval(code, ns)
    return value


def execute(code, name):
    codes, show = compiled(code, name)
    value = evaluate(codes)
    if show:
        show_figures()
        sys.displayhook(value)


def show_figures():
    """Those that a cell has left open."""
    if "cay_figures" in sys.modules and "matplotlib.pyplot" in sys.modules:
        figures().show_open()


def attempt(code, name):
    """Runs a cell; returns what it has raised."""
    failure = None
    try:
        try:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            try:
                execute(code, name)
            finally:
                show_figures()
                if State.unseen:
                    note(f"{State.unseen} results were left out: the limit is {CELL_BUNDLES}")
        except BaseException as error:
            failure = error
        _signal.signal(_signal.SIGINT, between_cells)
    except KeyboardInterrupt as error:  # it came at the very end
        failure = error
    try:
        return failure
    finally:
        failure = None  # its traceback has this frame, and would keep alive all that the cell's had


def between_cells(*_):
    """SIGINT's handler, and not SIG_IGN, which programs that a thread starts would inherit."""


def exit_code(failure):
    if failure is None:
        return 0
    if not isinstance(failure, SystemExit):
        return 1
    code = failure.code
    return code & 0xff if isinstance(code, int) else 0 if code is None else 1


def run(code, rich):
    State.cells += 1
    State.rich, State.bundles, State.size, State.unseen = rich, 0, 0, 0
    name = f"Cell In[{State.cells}]"
    keep_input(code)
    remember(name, code)
    if given.used:
        give_stdin()
    ns.pop("__warningregistry__", None)  # a line of this cell is not the same line of an earlier one
    State.running = True
    failure = attempt(code, name)
    _signal.signal(_signal.SIGINT, between_cells)
    State.running = False
    restore()
    done = {"type": "done", "exit_code": exit_code(failure), "exception": None}
    if failure is not None:
        try:
            load("errors")
            done["exception"] = described(failure)
        except Exception:  # as when there is no memory left
            done["exception"] = {"name": type(failure).__name__, "value": "", "traceback": ""}
        if channel.fd < 0:
            end_forked(failure, done["exception"])
    if channel.fd < 0:
        sys.exit()
    failure = None
    channel.send(done)


def end_forked(failure, exception):
    """A process that the cell has forked off, and that has come to the cell's end."""
    if isinstance(failure, SystemExit):
        raise failure
    sys.stderr.write(exception["traceback"])
    sys.exit(1)


def main():
    while True:
        message = channel.receive()
        if message is None:
            return
        if message["type"] == "run":  # or an answer that came too late
            run(message["code"], message["rich"])


try:
    os.setsid()
except OSError:  # it leads a group already
    pass
_signal.signal(_signal.SIGINT, between_cells)
channel = Channel()
given = Given()
sys.stdin = given.text
streams = Stream("stdout", 1, 1001, 241, 61), Stream("stderr", 2, 1002, 242, 62)
os.register_at_fork(after_in_child=channel.leave)
builtins.input, builtins.display, builtins.get_ipython = input, display, get_ipython
ns["In"], ns["Out"] = ns["_ih"], ns["_oh"] = State.inputs, State.outputs
sys.displayhook = displayhook
sys.argv = [""]
hook_imports()
channel.send({"type": "ready", "pid": getpid()})
main()
