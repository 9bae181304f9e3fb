#!/usr/bin/python3
"""Runs pytest, and what failed again, alone: tests/steady.py [pytest's words].

Most tests here are about processes, deadlines and what is left of them, on machines that may be busy with
other things. One failure in thousands tells more if it is known whether it happens again. So where few tests
fail, each is run again: an attack (tests/escape) twenty times in a row, an emulated machine's tests (tests/vm,
minutes) once, others three times. One that fails again has failed; one that does not is named as unsteady on the last lines, and is to be mended. Nothing is run
again with CAY_STEADY=no, nor where more tests fail than a busy machine could be the reason for.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

FEW = 8
ROUNDS = {"tests/escape/": 20, "tests/vm/": 1}
ROUNDS_OF_OTHERS = 3

_failed = {}  # as a plugin: what failed in this session, in order


def pytest_runtest_logreport(report):
    if report.failed:
        _failed[report.nodeid] = None


def pytest_sessionfinish():
    pathlib.Path(os.environ["CAY_FAILED_TESTS"]).write_bytes("\0".join(_failed).encode())


def run(words, failed):
    """pytest's exit code, and what failed."""
    here = str(pathlib.Path(__file__).resolve().parent)
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    failed.write_bytes(b"")
    pytest = [sys.executable, "-m", "pytest", "-q", "--rootdir=.", "-p", "no:cacheprovider", "-p", "steady"]
    code = subprocess.run([*pytest, *words], check=False,
                          env={**os.environ, "PYTHONPATH": path, "CAY_FAILED_TESTS": str(failed)}).returncode
    return code, [name for name in failed.read_bytes().decode().split("\0") if name]


def holds(test, failed):
    """Whether it passes every time when it is alone."""
    rounds = next((n for place, n in ROUNDS.items() if test.startswith(place)), ROUNDS_OF_OTHERS)
    print(f"\nsteady: {test} failed: again, {rounds} in a row", flush=True)
    return all(run([test], failed)[0] == 0 for _ in range(rounds))


def main(words):
    with tempfile.TemporaryDirectory(prefix="steady-") as place:
        failed = pathlib.Path(place) / "failed"
        code, tests = run(words, failed)
        if code != 1 or not tests or len(tests) > FEW or os.environ.get("CAY_STEADY") == "no":
            return code
        lasting = [test for test in tests if not holds(test, failed)]
    for test in tests:
        word = "FAILED again" if test in lasting else "UNSTEADY: failed once, then passed"
        print(f"steady: {word}: {test}")
    return 1 if lasting else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
