"""The machines of this session's tests, which are booted when it begins and asked for when it comes to them.

An emulated processor takes minutes, and what happens in there disturbs nobody here: they work beside
the other tests, behind them in line for the CPUs; one at a time, and two when the others are done.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
from support import SOAK  # noqa: E402: by the path above

NICENESS = 5
TIMEOUT = 1200 * (10 if SOAK else 1)

# What the tests find out about this place goes home in their output.
TEST_AND_TELL = """python3 -B -m pytest -q --color=no -p no:cacheprovider --durations=5 "$@"
code=$?
for f in build/places/*.json; do
    if [ -e "$f" ]; then echo "PLACE $(tr -d '\\n' <"$f")"; fi
done
exit $code"""


class Machines:
    def __init__(self):
        self.line = concurrent.futures.ThreadPoolExecutor(2)
        self.at_once, self.asked_for = threading.Semaphore(1), False
        self.booted, self.running, self.ended = {}, set(), False

    def boot(self, item):
        mark = item.get_closest_marker("vm")
        self.booted[item.nodeid] = self.line.submit(self._run, mark.args, mark.kwargs.get("options", []))

    def _run(self, tests, options):
        with self.at_once:
            return None if self.ended else self._boot(tests, options)

    def _boot(self, tests, options):
        # Its image is made with mounts, which are nobody else's to see.
        apart = ["unshare", "--mount"] if os.geteuid() == 0 else []
        machine = subprocess.Popen(
            [*apart, "nice", "-n", str(NICENESS), HERE / "run", "--timeout", str(TIMEOUT), *options, "--",
             "sh", "-c", TEST_AND_TELL, "sh", *tests],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.running.add(machine)
        said = machine.communicate()[0]
        return machine.returncode, said

    def result(self, item):
        if not self.asked_for:
            self.asked_for = True
            self.at_once.release()
        return self.booted[item.nodeid].result()

    def end(self):
        """Those that nobody came for."""
        self.ended = True
        self.line.shutdown(wait=False, cancel_futures=True)
        for machine in self.running:
            machine.terminate()
        self.line.shutdown()


machines = Machines()


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "vm(*tests, options=[]): boots another kernel in an emulator, for these tests (minutes)")


def pytest_collection_finish(session):
    if not session.config.option.collectonly:
        for item in session.items:
            if item.get_closest_marker("vm"):
                machines.boot(item)


def pytest_sessionfinish():
    machines.end()


@pytest.fixture
def machine(request):
    """What its machine's pytest said: (exit code, words)."""
    return machines.result(request.node)
