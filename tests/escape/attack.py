"""How attacks are made: code that runs on an island, one try a line, and says how each ended."""

import json
import platform

import pytest

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are x86_64's")

PRELUDE = """
import ctypes, errno, fcntl, json, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
results = {}
def call(number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *args)
    if result < 0: raise OSError(ctypes.get_errno(), '')
    return result
def attempt(name, f):
    try: results[name] = 'worked'; f()
    except OSError as e: results[name] = errno.errorcode.get(e.errno, str(e.errno))
def in_child(f):
    pid = os.fork()
    if pid == 0:
        try: f()
        finally: os._exit(0)
    return os.waitpid(pid, 0)[1]
"""


def tries(cay, code, *options, **more):
    """Runs code on an island; returns {name: 'worked' or the error's name}."""
    out = cay.run(*options, "-c", PRELUDE + code + "\nprint(json.dumps(results))", **more).ok().text
    return json.loads(out.splitlines()[-1])


def assert_refused(results, *errors):
    """All of them, and there were some, with one of these errors."""
    assert results
    wrong = {name: how for name, how in results.items() if how not in errors}
    assert not wrong, wrong
