"""Standard input, output and errors of other kinds than pipes: closed, files, a terminal; warm as cold."""

import contextlib
import os
import pty
import subprocess
import threading

import plain
import pytest

PYTHONS = plain.pythons()
if os.environ.get("CAY_SOAK") != "1":
    PYTHONS = {"system": PYTHONS["system"]}
ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}

STATE = """
import os, sys
def state(f):
    if f is None: return None
    return f.isatty(), f.line_buffering, f.write_through, f.encoding, f.errors, f.seekable(), type(f.buffer).__name__
with open("state", "w") as out:
    for f in sys.stdin, sys.stdout, sys.stderr: print(state(f), file=out)
    print(sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout, sorted(os.listdir("/proc/self/fd"))[:4], file=out)
    print(out.fileno(), [os.stat(f"/proc/self/fd/{n}").st_mode for n in range(3)
                         if os.path.exists(f"/proc/self/fd/{n}")], file=out)
"""
ENDS = {
    "nothing more": "",
    "prints": "print('x')\nsys.stderr.write('y')",
    "fails": "1/0",
    "exits with text": "sys.exit('text')",
    "reads": "print(repr(input('prompt')), repr(sys.stdin.readline()))",
    "appends": "print('a', flush=True); os.system('echo b'); print('c')",
    "starts another": "import subprocess; subprocess.run([sys.executable, '-c', 'print(input())'])",
}
INPUT = b"one\ntwo\n"


def cold(python, argv, cwd, fds):
    """As Zygote.run() with fds, by a shell that closes what is to be closed."""
    closing = "".join(f" {n}<&-" for n, fd in enumerate(fds) if fd is None)
    return subprocess.run(["/bin/sh", "-c", f'exec "$@"{closing}', "sh", *argv], env=ENV, cwd=cwd,
                          stdin=fds[0], stdout=fds[1], stderr=fds[2], timeout=60).returncode


@contextlib.contextmanager
def warm_start(python):
    with plain.Zygote(python, plain.default_modules()) as zygote:
        def run(_, argv, cwd, fds):
            zygote.start(argv, ENV, cwd, fds)
            return zygote.wait()
        yield run


def test_the_cold_way_itself(tmp_path):
    """Two ways that both show nothing would be the same, too."""
    python = PYTHONS["system"]
    state, output, errors, status = with_files(cold, python, tmp_path / "a", STATE + ENDS["prints"], ())
    assert (output, errors, status) == (b"x\n", b"y", 0) and state.startswith(b"(False, False, False, 'utf-8'")
    assert with_files(cold, python, tmp_path / "b", STATE + ENDS["reads"], ())[1] == b"prompt'one' 'two\\n'\n"
    state, output, _, _ = with_files(cold, python, tmp_path / "c", STATE + ENDS["prints"], (0, 1))
    assert state.startswith(b"None\nNone\n(False,") and output == b""
    state, seen, _ = with_terminal(cold, python, tmp_path / "d", STATE + ENDS["reads"])
    assert state.startswith(b"(True, True,") and b"prompt" in seen and b"'one'" in seen


def with_files(way, python, place, code, closed):
    """What is in the files that were its output and errors, its state and status."""
    place.mkdir()
    (place / "input").write_bytes(INPUT)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(place / name, mode, buffering=0))
                 for name, mode in (("input", "rb"), ("output", "wb"), ("errors", "wb"))]
        fds = [None if n in closed else f.fileno() for n, f in enumerate(files)]
        status = way(python, [python, "-c", code], str(place), fds)
    return [(place / n).read_bytes() for n in ("state", "output", "errors")] + [status]


def with_terminal(way, python, place, code):
    place.mkdir()
    master, slave = pty.openpty()
    seen = []

    def look():
        with contextlib.suppress(OSError):  # the last of the other end's has closed it
            while data := os.read(master, 4096):
                seen.append(data)
    os.write(master, INPUT)
    reader = threading.Thread(target=look)
    reader.start()
    status = way(python, [python, "-c", code], str(place), [slave] * 3)
    os.close(slave)
    reader.join()
    os.close(master)
    return [(place / "state").read_bytes(), b"".join(seen), status]


@pytest.mark.parametrize("name", PYTHONS)
def test_files_and_closed_ones(name, tmp_path):
    python, wrong = PYTHONS[name], []
    with warm_start(python) as warm:
        for closed in (), (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2):
            for end, code in ENDS.items():
                place = tmp_path / f"{''.join(map(str, closed))}-{end}"
                both = []
                for way in cold, warm:
                    both.append(with_files(way, python, place, STATE + code, closed))
                    place.rename(f"{place}-{len(both)}")
                wrong += [f"closed {closed}, {end}: {both}"] if both[0] != both[1] else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", PYTHONS)
def test_a_terminal(name, tmp_path):
    python, wrong = PYTHONS[name], []
    with warm_start(python) as warm:
        for end, code in ENDS.items():
            place = tmp_path / end
            both = []
            for way in cold, warm:
                both.append(with_terminal(way, python, place, STATE + code))
                place.rename(f"{place}-{len(both)}")
            wrong += [f"{end}: {both}"] if both[0] != both[1] else []
    assert not wrong, "\n".join(wrong)
