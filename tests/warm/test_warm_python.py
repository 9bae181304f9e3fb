"""What is special about a cloned interpreter: nothing of it is the same as its sisters' that should not be."""

import importlib.util
import os
import signal
import subprocess
import time

import plain
import pytest
from support import must_work

ENV = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/proc/nowhere", "TZ": "Asia/Kolkata"}
SCIENCE = ["numpy", "pandas", "matplotlib.pyplot"]


@pytest.fixture(scope="module", params=plain.pythons().values(), ids=plain.pythons())
def zygote(request):
    with plain.Zygote(request.param, plain.default_modules()) as z:
        yield z


def warm(z, code, *args, env=ENV, **how):
    return z.run([z.python, "-c", code, *args], env, **how)


def cold(z, code, *args, env=ENV):
    done = subprocess.run([z.python, "-c", code, *args], env=env, cwd="/", input=b"", capture_output=True, timeout=60)
    return done.stdout, done.stderr, done.returncode


def output(z, code, **how):
    out, err, status = warm(z, code, **how)
    assert (err, status) == (b"", 0)
    return out.decode().strip()


# Whether it is a clone that runs

MARKER = "print('plain_warm' in open('/proc/self/maps').read())"


def test_it_is_a_clone(zygote):
    assert output(zygote, MARKER) == "True"


@pytest.mark.parametrize("name, value", [
    ("PYTHONHASHSEED", "0"), ("PYTHONPATH", "/nowhere"), ("PYTHONUNBUFFERED", "1"), ("LC_ALL", "C"),
    ("LD_LIBRARY_PATH", "/nowhere")])
def test_what_an_interpreter_reads_at_its_start_makes_it_start(zygote, name, value):
    assert output(zygote, MARKER, env={**ENV, name: value}) == "False"


@pytest.mark.parametrize("options", [["-u"], ["-B"], ["-X", "utf8"], ["-I"]])
def test_so_do_options(zygote, options):
    out, err, status = zygote.run([zygote.python, *options, "-c", MARKER], ENV)
    assert (out, err, status) == (b"False\n", b"", 0)


# Randomness

@pytest.mark.parametrize("code", [
    "import random; print(random.random())", "import random; print(random.gauss(0, 1))",
    "import uuid; print(uuid.uuid4())", "import secrets; print(secrets.token_hex())",
    "import tempfile; print(tempfile.mktemp())", "import ssl; print(ssl.RAND_bytes(16))",
    "import random; print(random.Random().random())"])
def test_no_two_get_the_same(zygote, code):
    assert len({output(zygote, code) for _ in range(4)}) == 4


def test_nor_with_numpy():
    if not importlib.util.find_spec("numpy"):
        must_work("numpy is not installed")
    with plain.Zygote("/usr/bin/python3", plain.default_modules() + SCIENCE) as z:
        assert output(z, MARKER + "; import numpy, sys; print(len(sys.modules) > 100)") == "True\nTrue"
        for code in ("import numpy; print(numpy.random.rand())",
                     "import numpy.random; print(numpy.random.default_rng().random())"):
            assert len({output(z, code) for _ in range(4)}) == 4
        assert output(z, "import os; print([n for n in os.environ if 'THREADS' in n or 'MPL' in n])") == "[]"
        for code in ("import matplotlib; print(matplotlib.get_backend(), 'tempfile' in dir(matplotlib))",
                     "import matplotlib.pyplot as p; print(p.get_backend())"):
            assert warm(z, code)[0] == cold(z, code)[0]


# Nothing inherited

@pytest.mark.parametrize("code", [
    "import sys; print(list(sys.modules))",
    "import os; print(os.listdir('/proc/self/fd'), dict(os.environ))",
    "print(open('/proc/self/cmdline').read(), open('/proc/self/comm').read(), open('/proc/self/environ').read())",
    "import sys; print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.warnoptions)",
    "import signal; print([signal.getsignal(n) for n in signal.valid_signals()])",
    "print([l for l in open('/proc/self/status') if l.startswith(('SigB', 'SigC', 'SigI'))])",
    "import sys; print([hasattr(sys, n) for n in ('last_type', 'last_value', 'last_exc')], sys.excepthook)",
    "import warnings; print(warnings.filters)",
    "import atexit, threading; print(atexit._ncallbacks(), [t.name for t in threading.enumerate()])",
    "import time, datetime; print(time.tzname, time.timezone, datetime.datetime.fromtimestamp(0))",
    "import site; print(site.USER_BASE, site.USER_SITE, site.ENABLE_USER_SITE)",
    "import logging, time; print(abs(time.time_ns() - logging._startTime * (1 if logging._startTime > 1e12 else 1e9)) < 5e9)",
    "import sys, json; print(list(sys.modules))",
    "import urllib.request, sys; print(sorted(sys.modules))",
    "import xml; print(hasattr(xml, 'etree'))",
])
def test_as_cold(zygote, code):
    got, wanted = warm(zygote, code, "a", "b c"), cold(zygote, code, "a", "b c")
    assert got == wanted


def test_what_is_nearer_is_imported(zygote, tmp_path):
    """A module of the program's own comes before one that was loaded ahead; also for others that need it."""
    (tmp_path / "main.py").write_text("import json, csv; print(json.MINE, csv.__file__ is None, csv.re.MINE)")
    (tmp_path / "json.py").write_text("MINE = 1")
    (tmp_path / "re.py").write_text("MINE = 2")
    argv = [zygote.python, str(tmp_path / "main.py")]
    done = subprocess.run(argv, env=ENV, cwd="/", input=b"", capture_output=True, timeout=60)
    assert zygote.run(argv, ENV) == (done.stdout, done.stderr, done.returncode)


# The end

@pytest.mark.parametrize("code, status", [
    ("", 0), ("import sys; sys.exit(3)", 3), ("import sys; sys.exit(256 + 7)", 7), ("import sys; sys.exit(-1)", 255),
    ("import sys; sys.exit('x')", 1), ("import sys; sys.exit(None)", 0), ("1/0", 1), ("raise SystemExit(4)", 4),
    ("raise KeyboardInterrupt", -signal.SIGINT), ("import os; os._exit(5)", 5), ("import os; os.abort()", -signal.SIGABRT),
    ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM), ("(", 1),
    ("import atexit, os; atexit.register(os._exit, 6)", 6)])
def test_status(zygote, code, status):
    assert warm(zygote, code)[2] == status
    assert warm(zygote, code) == cold(zygote, code)


def test_what_was_not_written_is_written(zygote, tmp_path):
    assert output(zygote, f"f = open({str(tmp_path / 'x')!r}, 'w'); f.write('all of it')") == ""
    assert (tmp_path / "x").read_text() == "all of it"


def test_output_that_can_not_be_written(zygote):
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        out, err, status = warm(zygote, "print(1)", fds=(-1, full, -1))
    finally:
        os.close(full)
    assert status == 120 and b"No space left on device" in err


def test_streams_that_are_closed(zygote):
    out, err, status = warm(zygote, "import sys; print(sys.stdin, sys.stderr, sys.__stdin__)", fds=(None, -1, None))
    assert (out, status) == (b"None None None\n", 0)


# The zygote itself

def test_it_knows_when_its_files_have_changed(tmp_path):
    (tmp_path / "preloaded.py").write_text("VALUE = 1")
    env = {**ENV, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    with plain.Zygote("/usr/bin/python3", ["preloaded"], env=env) as z:
        assert output(z, MARKER + "; import preloaded; print(preloaded.VALUE)", env=env) == "True\n1"
        time.sleep(1.1)
        assert output(z, "", env=env) == "" and not z.last["stale"]
        (tmp_path / "preloaded.py").write_text("VALUE = 22")
        time.sleep(1.1)
        assert output(z, "", env=env) == "" and z.last["stale"]


def test_modules_that_are_not_there_do_not_matter():
    with plain.Zygote("/usr/bin/python3", ["no_such_module", "json"]) as z:
        assert output(z, MARKER) == "True"
