"""The profile for machines where AppArmor lets only programs with one make user namespaces. This
kernel has no AppArmor: what doctor says there is in tests/unit/test_surroundings.c; here is its
grammar, and where it is installed."""

import re
import shutil
import subprocess

import pytest

from support import ROOT, must_work

PROFILE = ROOT / "packaging" / "apparmor" / "cay"


def parse(path):
    return subprocess.run(["apparmor_parser", "--skip-kernel-load", "--skip-cache", path],
                          capture_output=True, text=True, check=False)


@pytest.fixture
def profile(place):
    """A copy that this parser knows every rule of: before version 4 there is no userns."""
    if not shutil.which("apparmor_parser"):
        must_work("apparmor_parser is not there: apt install apparmor")
    said = subprocess.run(["apparmor_parser", "--version"], capture_output=True, text=True, check=True)
    text = PROFILE.read_text()
    if int(re.search(r"version (\d+)", said.stdout)[1]) < 4:
        assert text.count("\n  userns,\n") == 1 and text.count("abi <abi/4.0>,\n") == 1
        text = text.replace("\n  userns,\n", "\n").replace("abi <abi/4.0>,\n", "abi <abi/3.0>,\n")
    copy = place / "cay"
    copy.write_text(text)
    return copy


def test_grammar(profile):
    done = parse(profile)
    assert done.returncode == 0, done.stderr
    profile.write_text(profile.read_text().replace("flags=(unconfined)", "flags=(unconfimed)"))
    assert parse(profile).returncode != 0  # the control


def test_it_is_for_the_installed_program():
    assert re.search(r"^profile cay /usr/\{,local/\}bin/cay ", PROFILE.read_text(), re.M)


@pytest.mark.parametrize("wanted", [True, False])
def test_install(place, wanted):
    """Into /etc only if wanted, as a parser before version 4 would choke on it there."""
    if not shutil.which("meson"):
        must_work("meson is not there")
    subprocess.run(["meson", "setup", place / "b", ROOT, "--prefix=/usr",
                    f"-Dapparmor={'enabled' if wanted else 'disabled'}"], capture_output=True, check=True)
    plan = subprocess.run(["meson", "introspect", "--installed", place / "b"],
                          capture_output=True, text=True, check=True).stdout
    assert ("/etc/apparmor.d/cay" in plan) == wanted
