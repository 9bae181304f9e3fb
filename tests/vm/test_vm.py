"""Another kernel than this machine's: Debian's 6.1, emulated, on pure cgroup v2 (tests/vm/run).

What is tested there are the files in inside/, tests/places and the escape suite, as they are here:
this only boots, and shows what they said. An emulated processor is slow, so what does not depend on
the kernel (SAME_ANYWHERE) is left out unless CAY_SOAK=1 asks for all.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "places"))
from environments import save  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
UNAVAILABLE = 77  # tests/vm/run
SOAK = os.environ.get("CAY_SOAK") == "1"

# Refused by cay itself, before the kernel is asked for anything.
SAME_ANYWHERE = ["tests/escape/test_cli_attacks.py", "tests/escape/test_get_destination.py"]

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


def in_vm(*tests, options=(), timeout=600):
    """Runs these by the machine's pytest."""
    p = subprocess.run(
        [HERE / "run", "--timeout", str(timeout * (10 if SOAK else 1)), *options, "--",
         "sh", "-c", TEST_AND_TELL, "sh", *tests],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False)
    said = keep_what_was_found(p.stdout)
    print(said)
    if p.returncode == UNAVAILABLE:
        if os.environ.get("CAY_MUST_WORK") == "1":
            pytest.fail(f"must work here, but: {said}", pytrace=False)
        pytest.skip(said)
    if p.returncode != 0:
        pytest.fail(f"exit code {p.returncode}:\n{said}", pytrace=False)


def test_cgroup2():
    in_vm("tests/vm/inside/cgroup2.py")


def test_systemd_session():
    in_vm("tests/vm/inside/systemd.py", options=["--systemd"])


def test_places():
    """In a container, and with the attacks on the limits in a delegated cgroup."""
    in_vm("tests/places/test_environments.py", "tests/places/test_container.py", "tests/places/test_delegated.py")


def test_escape(capsys):
    """As root and as an ordinary user, races at their 100 rounds."""
    left_out = [] if SOAK else SAME_ANYWHERE
    with capsys.disabled():
        print(f"\n[tests/vm: the escape suite on cgroup v2, "
              f"{'without ' + ', '.join(left_out) if left_out else 'whole'}]", flush=True)
    in_vm("tests/escape", *(f"--ignore={path}" for path in left_out))
