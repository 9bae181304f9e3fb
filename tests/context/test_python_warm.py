"""The Python driver in an interpreter that was cloned from a zygote: what it hooks is found there, too."""

import time

import plain
import pytest
from driver import Driver, python_text
from support import must_work


class Cloned:
    """A zygote's last program, as subprocess has it."""
    def __init__(self, zygote):
        self.zygote, self.returncode = zygote, None

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            self.returncode = self.zygote.wait()
        return self.returncode

    kill = wait


class WarmDriver(Driver):
    def __init__(self, zygote, *args, **kwargs):
        self.zygote = zygote
        super().__init__(*args, **kwargs)

    def start(self, argv, env, cwd, fds):
        self.zygote.start(argv, env, str(cwd), fds)
        return Cloned(self.zygote)


@pytest.fixture(scope="module")
def zygote():
    if not plain.MODULE.exists():
        must_work(f"{plain.MODULE} is not built")
    with plain.Zygote("/usr/bin/python3", plain.modules_of("science")) as z:
        yield z


@pytest.fixture
def d(zygote, tmp_path):
    with WarmDriver(zygote, ["/usr/bin/python3", "-c", python_text(tmp_path)], cwd=tmp_path) as driver:
        yield driver


def test_figures(d):
    begun = time.monotonic()
    cell = d.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert cell.exception is None and cell.results[0]["text/plain"] == "<Figure size 640x480 with 1 Axes>"
    assert "image/png" in cell.results[0] and time.monotonic() - begun < 20


def test_modules_are_still_given(d):
    """The hook of imports leaves sys.meta_path alone, and with it what the zygote has loaded."""
    assert d.run("import time\nbegun = time.process_time()\nimport numpy, pandas\n"
                 "time.process_time() - begun < 0.1").text == "True"


def test_errors_and_input(d):
    cell = d.run("def f():\n    1 / 0\nf()")
    assert "Cell In[1], line 2, in f\n    1 / 0\n" in cell.exception["traceback"]
    assert d.run("import inspect\ninspect.getsource(f)").text == r"'def f():\n    1 / 0\n'"
    d.begin("from getpass import getpass\ngetpass()")
    assert d.wait("input")["password"]
    d.answer("x")
    assert d.end().text == "'x'"
