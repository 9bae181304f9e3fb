"""Another kernel than this machine's: Debian's 6.1, emulated, on pure cgroup v2 (tests/vm/run).

What is tested there are the files in inside/, tests/places and the escape suite, as they are here:
this only says which, and shows what they said; conftest.py boots. An emulated processor is slow
(2 s a test), so there is a choice of the attacks (CHOICE, DELEGATED) unless CAY_SOAK=1 asks for all.
"""

import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "places"), str(HERE.parent / "integration")]
from environments import save  # noqa: E402: by the paths above
from support import SOAK, must_work  # noqa: E402

UNAVAILABLE = 77  # tests/vm/run

# What another kernel could answer otherwise: limits, kills, fences, races in directories. As an
# ordinary user only where that makes a difference to the kernel: init has the same id then. A root
# inside has other capabilities, which no limit asks for.
CHOICE = ["tests/escape/test_limit_attacks.py", "tests/escape/test_fence_attacks.py",
          "tests/escape/test_init_attacks.py", "tests/escape/test_leak_attacks.py",
          "tests/escape/test_network_attacks.py", "tests/escape/test_workspace_attacks.py",
          "tests/escape/test_warm_attacks.py",
          "-k", "((not user and not workspace and not warm and not (inside and limit_attacks)) or init_attacks "
          "or (warm_attacks and not science) "
          "or (swapped_after and root)) and not IMPOSSIBLE"]
# 65,536 mappings take longer there than the run may; its /usr has links that lead nowhere.
IMPOSSIBLE = "(exhaustion and (mappings or watches))"
# The rest of the attacks on limits is about time and death, which no delegation changes.
DELEGATED = ["-k", "not test_delegated or memory or process or cpu or killed or raise or default_run or doctor"]

ESCAPE = ["tests/escape", "-k", "not IMPOSSIBLE and not science"] if SOAK else CHOICE
# What science needs is not installed there.
SERVE = ("(root or test_warm) and not user and not set_of_its_own and not packages and not compile and not starved"
         # There is no pandas, without which its set is no larger than others.
         " and not into_its_memory and not without_room"
         + ("" if SOAK else " and not terminals_and_pipes"))
# What leaves an island is the kernel's part before it is cay-egress's.
EGRESS = ["tests/escape/test_egress_attacks.py", "-k",
          "not user and (addresses or rebinding or test_udp or other_protocols or death or rules_that)"]
# What no manager has a part in is tried with the system's alone, and not how long it waits at most.
UNITS = ["-k", "not (half or (units and user and (killed or memory or dies)))"]


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


def passed(machine):
    code, output = machine
    said = keep_what_was_found(output)
    print(said)
    if code == UNAVAILABLE:
        must_work(said)
    if code != 0:
        pytest.fail(f"exit code {code}:\n{said}", pytrace=False)


def say(capsys, what):
    with capsys.disabled():
        print(f"\n[tests/vm: {what}: {'all of them' if SOAK else 'a choice; all of them with CAY_SOAK=1'}]", flush=True)


# The longest first: they are booted in this order.

@pytest.mark.vm(*(word.replace("IMPOSSIBLE", IMPOSSIBLE) for word in ESCAPE))
def test_escape(machine, capsys):
    """As root and as an ordinary user, races at their 100 rounds."""
    say(capsys, "the escape suite on cgroup v2")
    passed(machine)


@pytest.mark.vm("tests/places/test_environments.py", "tests/places/test_container.py", "tests/places/test_delegated.py",
                *([] if SOAK else DELEGATED))
def test_places(machine, capsys):
    """In a container, and with the attacks on the limits in a delegated cgroup."""
    say(capsys, "attacks on limits, in a delegated cgroup of v2")
    passed(machine)


@pytest.mark.vm(*EGRESS)
def test_egress(machine):
    """Networks, with tproxy and nflog as modules of the kernel's."""
    passed(machine)


@pytest.mark.vm("tests/vm/inside/systemd.py", "tests/vm/inside/units.py", *([] if SOAK else UNITS), options=["--systemd"])
def test_systemd(machine):
    """A user's session, and the daemon as a unit."""
    passed(machine)


if SOAK:
    # On a hybrid host a user's systemd has no controllers to delegate.
    @pytest.mark.vm("tests/vm/inside/units.py", "-k", "root", options=["--systemd", "--hybrid"])
    def test_systemd_of_a_hybrid_host(machine):
        passed(machine)


@pytest.mark.vm("tests/serve/test_sandboxes.py", "tests/serve/test_live_attacks.py", "tests/serve/test_warm.py", "-k", SERVE)
def test_serve(machine):
    """Live sandboxes, whose commands have cgroups of their own; and islands of zygotes, whose are below their zygote's."""
    passed(machine)


@pytest.mark.vm("tests/vm/inside/cgroup2.py")
def test_cgroup2(machine):
    passed(machine)
