"""How programs of this machine are run on an island: with the default limits, and silently.

A program that is not there is a loud skip, and a failure in CI. What a test gives beyond the
defaults it says, and why.
"""

import importlib.util
import shutil
import textwrap

from support import must_work

# What an island has as PATH; this machine's own may have more.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Debian's, with Debian's modules. It also runs these tests.
PYTHON = "/usr/bin/python3"

PNG = b"\x89PNG\r\n\x1a\n"


def need(*programs):
    for name in programs:
        if not shutil.which(name, path=PATH):
            must_work(f"{name} is not there (tools/setup test)")


def need_module(*modules):
    for name in modules:
        if not importlib.util.find_spec(name):
            must_work(f"the Python module {name} is not there (tools/setup test)")


def run(cay, *command, options=(), errors="", **more):
    """Runs a command that must succeed and say nothing on stderr; returns what it printed."""
    more.setdefault("timeout", 90)
    done = cay.run(*options, "--", *command, **more).ok()
    if errors is not None:
        assert done.errors == errors
    return done.text


def python(cay, code, *options, **more):
    return run(cay, PYTHON, "-c", textwrap.dedent(code), options=options, **more)


def shell(cay, script, *options, interpreter="bash", **more):
    """A script that ends at the first command that fails."""
    return run(cay, interpreter, "-euc", textwrap.dedent(script), options=options, **more)


def put(place, **files):
    """Writes the files and returns the options that copy them in; "_" in a name stands for a dot."""
    options = []
    for name, text in files.items():
        path = place / name.replace("_", ".")
        path.write_text(textwrap.dedent(text))
        options += ["--put", path.name]
    return options
