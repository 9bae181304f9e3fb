"""A program does the same, started warm, as it does in a fresh interpreter: every byte of it, and how it ends."""

import dataclasses
import os
import subprocess

import corpus
import plain
import pytest
from support import must_work

SOAK = os.environ.get("CAY_SOAK") == "1"
WORKERS = 2
# The first interpreter takes all programs, each other one of so many, and not the same: else it takes minutes.
SHARES = 1 if SOAK else 10
PYTHONS = plain.pythons()
THEMES = sorted({p.theme for p in corpus.programs()})


class Warm:
    """A zygote as a way; another takes its place when it is lost, which is a difference of its own."""

    def __init__(self, python, scratch, more=()):
        self.python, self.modules, self.zygote = python, [*plain.default_modules(), *more], None
        self.way = corpus.plain_way(scratch, self.run)

    def run(self, argv, env, cwd, stdin):
        if not self.zygote:
            self.zygote = plain.Zygote(self.python, self.modules)
            self.zygote.socket.settimeout(corpus.TIMEOUT_S)
        try:
            return self.zygote.run(argv, env, cwd, stdin)
        except (EOFError, OSError) as error:
            self.close()
            return b"", repr(error).encode(), None

    def close(self):
        if self.zygote:
            self.zygote.process.kill()
            self.zygote.close()
            self.zygote = None


@pytest.fixture(scope="module", params=PYTHONS)
def both(request, tmp_path_factory):
    """The interpreter's number and path, and for each worker the cold way and the warm one."""
    scratch = tmp_path_factory.mktemp(request.param)
    python = PYTHONS[request.param]
    warm = [Warm(python, scratch) for _ in range(WORKERS)]
    yield list(PYTHONS).index(request.param), python, [(corpus.cold(scratch), w.way) for w in warm]
    for w in warm:
        w.close()


def chosen(number, python, theme):
    share = corpus.programs() if number == 0 else corpus.programs()[number % SHARES::SHARES]
    return [p for p in share if p.theme == theme and corpus.runs_on(python, p)]


@pytest.mark.parametrize("theme", THEMES)
def test_warm_is_as_cold(both, theme):
    number, python, pairs = both
    found = corpus.differences(python, chosen(number, python, theme), pairs)
    assert not found, f"{len(found)} programs differ\n" + "\n".join(found)


SCIENCE = ["numpy", "pandas", "matplotlib.pyplot"]


def test_with_science_loaded(tmp_path):
    """What these leave behind at their import must not show, whether a program uses them or not."""
    python = PYTHONS["system"]
    if not {"numpy", "pandas", "matplotlib"} <= corpus.facts(python)[1]:
        must_work("numpy, pandas and matplotlib are not all there")
    mine = [p for p in corpus.programs() if corpus.runs_on(python, p) and p.name not in corpus.UNEQUAL_WITH_SCIENCE
            and (SOAK or {"numpy", "pandas", "matplotlib"} & set(p.needs) or p.theme == "threads")]
    warm = [Warm(python, tmp_path, SCIENCE) for _ in range(WORKERS)]
    try:
        found = corpus.differences(python, mine, [(corpus.cold(tmp_path), w.way) for w in warm])
    finally:
        for w in warm:
            w.close()
    assert not found, f"{len(found)} programs differ\n" + "\n".join(found)


# What the interpreter reads at its start: a program that has one of these may be started cold.
READ_AT_START = ("PYTHON", "LANG", "LC_")


@pytest.mark.parametrize("name", PYTHONS)
def test_programs_are_run_warm(name, tmp_path):
    """Were they all started cold after all, the comparison would show nothing."""
    python, marker = PYTHONS[name], "import gc; print(gc.get_freeze_count() > 0)"
    kinds = {(p.arguments[0] == "-c", p.env): p for p in corpus.programs()
             if p.arguments[0] in ("-c", "{dir}/" + corpus.MAIN) and not any(e.startswith(READ_AT_START) for e in p.env)}
    assert len(kinds) > 10
    warm = Warm(python, tmp_path)
    try:
        for (is_code, env), program in kinds.items():
            arguments = ("-c", marker) if is_code else program.arguments
            marked = dataclasses.replace(program, arguments=arguments, files=((corpus.MAIN, marker.encode()),), cwd=".")
            assert warm.way(python, marked) == (b"True\n", b"", 0), env
    finally:
        warm.close()


def test_the_corpus():
    names = [p.name for p in corpus.programs()]
    assert len(names) == len(set(names)) > 300
    assert len(THEMES) > 5
    assert not set(corpus.UNEQUAL) - set(names)


def test_what_is_left_out_is_little():
    """Each program runs somewhere, and what is compared in its own way stays an exception."""
    assert len(corpus.UNEQUAL) < 20
    assert all(reason and callable(compared) for reason, compared in corpus.UNEQUAL.values())


# What a clone could do wrong, each done on purpose: programs that must see it.
FAULTS = {
    "a module is there already": ("import json", ["shadow_json", "shadow_re"]),
    "a descriptor is open": ("import os; os.dup2(os.open('/dev/null', 0), 9)", ["fds"]),
    "a signal is ignored": ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
                            ["signal_handlers", "signal_child_sees"]),
    "a handler is left": ("import atexit; atexit.register(print, 'mine')", ["atexit_count", "exit_nothing", "exit_3"]),
    "a filter is left": ("import warnings; warnings.simplefilter('ignore')", ["warning_kinds", "warning_filters"]),
    "output is lost": ("import os, atexit; atexit.register(os._exit, 0)", ["exit_3", "unflushed_binary"]),
    "the environment is another": ("import os; os.environ['X'] = '1'", ["environ", "subprocess_env_whole"]),
    "a thread is there": ("import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
                          ["thread_main", "thread_native_id", "ensure_no_extra_threads"]),
    "a generator has been used": ("import random; random.gauss(0, 1)", ["random_gauss_next"]),
}
NAIVE = """import sys
del sys.argv[0], sys.path[0]
{before}
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), {{"__name__": "__main__", "__file__": sys.argv[0]}})
"""


def naive(scratch, before=""):
    """A way that starts cold, but runs programs by another: what looks like a clone's first attempt."""
    def run(argv, env, cwd, stdin):
        return corpus.start([argv[0], "-c", NAIVE.format(before=before), *argv[1:]], env, cwd, stdin)
    return corpus.plain_way(scratch, run)


def named(names):
    found = [p for p in corpus.programs() if p.name in names]
    assert len(found) == len(names)
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_differences_are_seen(fault, tmp_path):
    before, seeing = FAULTS[fault]
    python, programs, cold = PYTHONS["system"], named(seeing), corpus.cold(tmp_path)
    assert not corpus.differences(python, programs, [(cold, naive(tmp_path))])
    assert len(corpus.differences(python, programs, [(cold, naive(tmp_path, before))])) == len(programs)


def test_a_frame_below_is_seen(tmp_path):
    python, cold = PYTHONS["system"], corpus.cold(tmp_path)
    programs = named(["frames", "main_globals", "recursion_depth", "argv"])
    assert not corpus.differences(python, programs, [(cold, cold)])
    assert len(corpus.differences(python, programs, [(cold, naive(tmp_path))])) == len(programs)


# What must not be the same in two clones of one interpreter.
FRESH = """
import os, random, secrets, tempfile, time, uuid
print(random.random()); print(random.Random().random()); print(random.getrandbits(64)); print(random.gauss(0, 1))
print(uuid.uuid4()); print(uuid.uuid1()); print(secrets.token_hex()); print(os.urandom(8)); print(tempfile.mktemp())
print(random.SystemRandom().random()); print(next(tempfile._get_candidate_names()))
import multiprocessing, email.utils, email.generator
print(multiprocessing.current_process().authkey.hex())
print(email.utils.make_msgid()); print(email.generator._make_boundary())
"""
FRESH_NUMPY = """
import numpy as np
print(np.random.rand()); print(np.random.default_rng().random()); print(np.random.RandomState().rand())
"""


@pytest.mark.parametrize("name", PYTHONS)
def test_randomness_is_fresh(name):
    python = PYTHONS[name]
    code = FRESH
    modules = [*plain.default_modules(), "multiprocessing", "email.generator"]
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
        code, modules = code + FRESH_NUMPY, [*modules, "numpy", "numpy.random"]
    with plain.Zygote(python, modules) as zygote:
        runs = [zygote.run([python, "-c", code], {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}) for _ in range(3)]
    assert all((err, status) == (b"", 0) for _, err, status in runs), runs
    for values in zip(*(out.splitlines() for out, _, _ in runs), strict=True):
        assert len(set(values)) == len(runs), values
