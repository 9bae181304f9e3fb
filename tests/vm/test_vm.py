"""Another kernel than this machine's: Debian's 6.1, emulated, on pure cgroup v2 (tests/vm/run).

What is tested there are the files in inside/, tests/places and the escape suite, as they are here:
this only boots, and shows what they said. An emulated processor is slow (2 s a test), so there is a
choice of the attacks (CHOICE, DELEGATED) unless CAY_SOAK=1 asks for all.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "places"))
from environments import save  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
UNAVAILABLE = 77  # tests/vm/run
SOAK = os.environ.get("CAY_SOAK") == "1"

# What another kernel could answer otherwise: limits, kills, fences, races in directories. As an
# ordinary user only where that makes a difference to the kernel: init has the same id then.
CHOICE = ["tests/escape/test_limit_attacks.py", "tests/escape/test_fence_attacks.py",
          "tests/escape/test_init_attacks.py", "tests/escape/test_leak_attacks.py",
          "tests/escape/test_network_attacks.py", "tests/escape/test_workspace_attacks.py",
          "-k", "((not user and not workspace) or init_attacks or (swapped_after and root)) and not IMPOSSIBLE"]
# 65,536 mappings take longer there than the run may; its /usr has links that lead nowhere.
IMPOSSIBLE = "(exhaustion and (mappings or watches))"
# The rest of the attacks on limits is about time and death, which no delegation changes.
DELEGATED = ["-k", "not test_delegated or memory or process or cpu or killed or raise or default_run or doctor"]

# What no manager has a part in is tried with the system's alone, and not how long it waits at most.
UNITS = ["-k", "not (half or (units and user and (killed or memory or dies)))"]

# What the tests find out about this place goes home in their output.
TEST_AND_TELL = """python3 -B -m pytest -q --color=no -p no:cacheprovider --durations=5 "$@"
code=$?
for f in build/places/*.json; do
    if [ -e "$f" ]; then echo "PLACE $(tr -d '\\n' <"$f")"; fi
done
exit $code"""

pytestmark = pytest.mark.vm


def keep_what_was_found(output):
    """Saves it for `make environments`; returns the rest."""
    rest = []
    for line in output.splitlines():
        if line.startswith("PLACE "):
            found = json.loads(line.removeprefix("PLACE "))
            save(found["place"], found["seen"])
        else:
            rest.append(line)
    return "\n".join(rest)


def start(*tests, options=(), timeout=1200):
    """Boots, and runs these by the machine's pytest."""
    return subprocess.Popen(
        [HERE / "run", "--timeout", str(timeout * (10 if SOAK else 1)), *options, "--",
         "sh", "-c", TEST_AND_TELL, "sh", *tests],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def finish(machine):
    said = keep_what_was_found(machine.communicate()[0])
    print(said)
    if machine.returncode == UNAVAILABLE:
        if os.environ.get("CAY_MUST_WORK") == "1":
            pytest.fail(f"must work here, but: {said}", pytrace=False)
        pytest.skip(said)
    if machine.returncode != 0:
        pytest.fail(f"exit code {machine.returncode}:\n{said}", pytrace=False)


def in_vm(*tests, options=()):
    finish(start(*tests, options=options))


@pytest.fixture(scope="module")
def escape():
    """The longest, from the first test on beside the others: one machine rarely keeps two cores busy."""
    chosen = ["tests/escape", "-k", "not IMPOSSIBLE"] if SOAK else CHOICE
    machine = start(*(word.replace("IMPOSSIBLE", IMPOSSIBLE) for word in chosen))
    yield machine
    if machine.poll() is None:
        machine.send_signal(signal.SIGINT)  # so that it ends its machine, too
        machine.communicate()


@pytest.mark.usefixtures("escape")
def test_cgroup2():
    in_vm("tests/vm/inside/cgroup2.py")


def test_serve():
    """Live sandboxes, whose commands have cgroups of their own."""
    in_vm("tests/serve/test_sandboxes.py", "tests/serve/test_live_attacks.py", "-k",
          "root and not packages and not compiled" + ("" if SOAK else " and not terminals_and_pipes"))


# On a hybrid host a user's systemd has no controllers to delegate.
@pytest.mark.parametrize("options, tests", [
    ([], ["tests/vm/inside/systemd.py", "tests/vm/inside/units.py", *([] if SOAK else UNITS)]),
] + [
    (["--hybrid"], ["tests/vm/inside/units.py", "-k", "root"]),
] * SOAK, ids=["cgroup2"] + ["hybrid"] * SOAK)
def test_systemd(options, tests):
    """A user's session, and the daemon as a unit."""
    in_vm(*tests, options=["--systemd", *options])


def say(capsys, what):
    with capsys.disabled():
        print(f"\n[tests/vm: {what}: {'all of them' if SOAK else 'a choice; all of them with CAY_SOAK=1'}]", flush=True)


def test_places(capsys):
    """In a container, and with the attacks on the limits in a delegated cgroup."""
    say(capsys, "attacks on limits, in a delegated cgroup of v2")
    in_vm("tests/places/test_environments.py", "tests/places/test_container.py", "tests/places/test_delegated.py",
          *([] if SOAK else DELEGATED))


def test_escape(escape, capsys):
    """As root and as an ordinary user, races at their 100 rounds."""
    say(capsys, "the escape suite on cgroup v2")
    finish(escape)
