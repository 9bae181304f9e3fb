"""A part of python.py: text/plain of a value, laid out as IPython lays it out.

A printer builds a tree of texts, possible breaks and groups; then each group is written on one line if
it fits there, and otherwise broken at all of its own breaks. Methods have IPython's names, because
_repr_pretty_(printer, cycle) of users' classes calls them.
"""

import contextlib
import types

WIDTH = 79
ITEMS_MAX = 1000  # of one container
BREAK, NEWLINE = object(), object()


class Group:
    def __init__(self, indent):
        self.indent, self.items = indent, []

    def width(self):
        """On one line; None where it has more than one."""
        if not hasattr(self, "known"):
            widths = [len(i) if isinstance(i, str) else i.width() if isinstance(i, Group) else
                      len(i[1]) if i[0] is BREAK else None for i in self.items]
            self.known = None if None in widths else sum(widths)
        return self.known


class Printer:
    def __init__(self):
        self.root = Group(0)
        self.open, self.stack, self.verbose = [self.root], [], False
        self.max_width, self.max_seq_length, self.newline = WIDTH, ITEMS_MAX, "\n"

    def text(self, text):
        self.open[-1].items.append(text)

    def breakable(self, separator=" "):
        self.open[-1].items.append((BREAK, separator))

    def break_(self):
        self.open[-1].items.append((NEWLINE, ""))

    def begin_group(self, indent=0, open=""):
        if open:
            self.text(open)
        group = Group(indent)
        self.open[-1].items.append(group)
        self.open.append(group)

    def end_group(self, dedent=0, close=""):
        self.open.pop()
        if close:
            self.text(close)

    @contextlib.contextmanager
    def group(self, indent=0, open="", close=""):
        self.begin_group(indent, open)
        try:
            yield
        finally:
            self.end_group(indent, close)

    def indent(self, indent):
        return self.group(indent)

    def pretty(self, value):
        cycle = id(value) in self.stack
        self.stack.append(id(value))
        self.begin_group()
        try:
            printer_of(value)(value, self, cycle)
        finally:
            self.end_group()
            self.stack.pop()

    def separated(self, items, show):
        """Of a container: at most so many, with commas."""
        for n, item in enumerate(items):
            if n:
                self.text(",")
                self.breakable()
            if n == ITEMS_MAX:
                return self.text("...")
            show(item)

    def result(self):
        out = []
        lay_out(self.root, out, 0, 0, 0)
        return "".join(out)


def lay_out(group, out, column, indent, trailing):
    """Writes a group that begins in a column; returns where it ends. What follows has the width trailing."""
    width = group.width()
    flat = width is not None and column + width + trailing <= WIDTH
    indent += group.indent
    after = trailing
    behind = []  # for each item, the width of what follows it up to the next break
    for item in reversed(group.items):
        behind.append(after)
        after = 0 if isinstance(item, tuple) else \
            after + (len(item) if isinstance(item, str) else item.width() or 0)
    for item, after in zip(group.items, reversed(behind)):
        if isinstance(item, str):
            out.append(item)
            column += len(item)
        elif isinstance(item, Group):
            column = lay_out(item, out, column, indent, 0 if flat else after)
        elif flat:
            out.append(item[1])
            column += len(item[1])
        else:
            out.append("\n" + " " * indent)
            column = indent
    return column


def show_repr(value, p, cycle):
    with p.group():
        for n, line in enumerate(repr(value).splitlines()):
            if n:
                p.break_()
            p.text(line)


def show_default(value, p, cycle):
    if type(value).__repr__ is not object.__repr__:
        return show_repr(value, p, cycle)
    with p.group(1, "<"):
        p.pretty(type(value))
        p.text(f" at {id(value):#x}")
        if cycle:
            p.text(" ...")
    p.text(">")


def sequence(start, end):
    def show(value, p, cycle):
        if cycle:
            return p.text(f"{start}...{end}")
        with p.group(len(start), start):
            p.separated(value, p.pretty)
            if len(value) == 1 and isinstance(value, tuple):
                p.text(",")
        p.text(end)
    return show


def in_order(values):
    for key in None, str:
        try:
            return sorted(values, key=key)
        except Exception:
            pass
    return values


def unordered(start, end):
    def show(value, p, cycle):
        if not value:
            return p.text(f"{type(value).__name__}()")
        sequence(start, end)(in_order(value) if len(value) < ITEMS_MAX else value, p, cycle)
    return show


def mapping(start, end):
    def show(value, p, cycle):
        def pair(key):
            p.pretty(key)
            p.text(": ")
            p.pretty(value[key])
        if cycle:
            return p.text("{...}")
        with p.group(len(start), start):
            p.separated(value.keys(), pair)
        p.text(end)
    return show


class Words:
    """A text for p.pretty()."""
    def __init__(self, text):
        self.text = text

    def _repr_pretty_(self, p, cycle):
        p.text(self.text)


def show_call(p, name, *arguments, **named):
    def argument(item):
        prefix, value = item
        with p.group(len(prefix), prefix):
            p.pretty(value)
    with p.group(len(name) + 1, name + "("):
        p.separated([("", a) for a in arguments] + [(f"{k}=", v) for k, v in named.items()], argument)
    p.text(")")


def call_of(arguments):
    """Shows a value as a call of its class; arguments(value) are (positional, named)."""
    def show(value, p, cycle):
        positional, named = ((Words("..."),), {}) if cycle else arguments(value)
        show_call(p, type(value).__name__, *positional, **named)
    return show


def show_class(value, p, cycle):
    if next(c for c in type(value).__mro__ if "__repr__" in vars(c)) is not type:
        return show_repr(value, p, cycle)
    module, name = getattr(value, "__module__", None), value.__qualname__
    p.text(name if module in (None, "builtins") else f"{module}.{name}")


def show_function(value, p, cycle):
    import inspect
    name = getattr(value, "__qualname__", value.__name__)
    if value.__module__ not in (None, "builtins"):
        name = f"{value.__module__}.{name}"
    try:
        name += str(inspect.signature(value))
    except ValueError:
        pass
    p.text(f"<function {name}>")


def show_exception(value, p, cycle):
    name, module = type(value).__qualname__, type(value).__module__
    show_call(p, name if module == "builtins" else f"{module}.{name}", *value.args)


def show_pattern(value, p, cycle):
    import re
    flags = "|".join(f"re.{f.name}" for f in re.RegexFlag
                     if value.flags & f and f.name != "TEMPLATE" and not f & (f - 1))
    pattern = Words("r" + repr(value.pattern).replace("\\\\", "\\"))
    show_call(p, "re.compile", pattern, *([Words(flags)] if flags else []))


def show_super(value, p, cycle):
    with p.group(8, "<super: "):
        p.separated((value.__thisclass__, value.__self__), p.pretty)
    p.text(">")


PRINTERS = {
    **dict.fromkeys((int, float, str, bytes, bool, type(None), types.MethodType, slice, range), show_repr),
    tuple: sequence("(", ")"), list: sequence("[", "]"), dict: mapping("{", "}"),
    set: unordered("{", "}"), frozenset: unordered("frozenset({", "})"),
    types.MappingProxyType: mapping("mappingproxy({", "})"), type(os.environ): mapping("environ{", "}"),
    super: show_super, type: show_class, types.FunctionType: show_function,
    types.BuiltinFunctionType: show_function, BaseException: show_exception,
    types.SimpleNamespace: lambda value, p, cycle: show_call(
        p, "namespace", *([Words("...")] if cycle else ()), **({} if cycle else vars(value))),
}

# Of modules that need not be loaded.
PRINTERS_BY_NAME = {
    ("collections", "defaultdict"): call_of(lambda v: ((v.default_factory, dict(v)), {})),
    ("collections", "OrderedDict"): call_of(lambda v: ((list(v.items()),) if v else (), {})),
    ("collections", "deque"): call_of(lambda v: ((list(v),), {"maxlen": v.maxlen} if v.maxlen is not None else {})),
    ("collections", "Counter"): call_of(lambda v: ((dict(v),) if v else (), {})),
    ("collections", "UserList"): call_of(lambda v: ((v.data,), {})),
    ("re", "Pattern"): show_pattern,
}


def printer_of(value):
    for cls in type(value).__mro__:
        known = PRINTERS.get(cls) or PRINTERS_BY_NAME.get((cls.__module__, cls.__name__))
        if known:
            return known
        own = vars(cls).get("_repr_pretty_")
        if callable(own):
            return own
        if cls is not object and callable(vars(cls).get("__repr__")):
            return show_repr
    return show_default


def pretty(value):
    printer = Printer()
    printer.pretty(value)
    return printer.result()
