"""docs/environments.md says what is so: each place that can be had here is looked at again. The rest
is looked at in tests/vm, by this file too (cgroup v2) and by inside/systemd.py."""

import pytest

import environments
from environments import PLACES, look, recorded, save
from support import PURE_V2, Cay
from test_container import CONTAINER, DEFAULT, doctor, flags_of, without

HERE = "cgroup v2" if PURE_V2 else "cgroup v1 hybrid"


def compare(place, cay):
    seen = look(cay)
    save(place, seen)
    assert recorded().get(place) == seen, f"docs/environments.json differs at '{place}': make environments"


def test_root(cay, root):
    compare(f"root, {HERE}", cay)


def test_user(stranger):
    compare(f"user, {HERE}", stranger)


def test_delegated(delegated):
    compare(f"user, delegated {'cgroup v2' if PURE_V2 else 'cgroup v1'}", delegated)


@pytest.mark.cgroups("v1")  # the page has containers once
@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("flags", [False, True], ids=["default", "flags"])
def test_container(scratch, place, root, who, flags):
    def make(parts):
        cay = Cay(place, scratch / "home", scratch / "tmp")
        cay.prefix = ["/usr/bin/python3", str(CONTAINER), *parts, *(["user"] if who == "user" else []), "--"]
        return cay
    parts = DEFAULT
    if flags:
        parts = without(DEFAULT, flags_of(doctor(make(DEFAULT))[1]))
    compare(f"container{' with flags' if flags else ''}, {who}", make(parts))


def test_page_is_made_of_what_was_recorded():
    assert list(recorded()) == sorted(PLACES)
    assert environments.PAGE.read_text() == environments.page(recorded())
