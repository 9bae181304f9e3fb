"""Fixtures of tests with images: `from image_fixtures import *` in a conftest that has fixtures.py's too."""

import os
import pathlib
import shutil
import tempfile

import pytest

import debian
from lying import Lying
from registry import Registry, Tokens
from stock import Stock
from support import Cay, STRANGER, must_work


def given_to(who, path):
    """The directory, as its new owner's."""
    if who == "user":
        if os.geteuid() != 0:
            must_work("only root can be another user")
        os.chown(path, STRANGER, STRANGER)
    return path


def cay_of(who, scratch, place):
    home = scratch / ("home" if who == "root" else "stranger")
    home.mkdir(exist_ok=True)
    given_to(who, home)
    cay = Cay(given_to(who, place), home, scratch / "tmp")
    if who == "user":
        cay.prefix = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    return cay


@pytest.fixture(params=["root", "user"])
def stock(request, scratch, place):
    """cay and a store of its own: as whoever runs the tests, and as an ordinary user."""
    return Stock(cay_of(request.param, scratch, place), place, request.param)


@pytest.fixture
def root_stock(scratch, place):
    """For what does not depend on who it is."""
    return Stock(cay_of("root", scratch, place), place, "root")


@pytest.fixture(scope="session", params=["root", "user"])
def library(request, scratch, binary_runs):
    """A store for the whole session, with an image of Debian's Python; tests only read it."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="l-", dir=scratch))
    place.chmod(0o755)
    made = Stock(cay_of(request.param, scratch, place), place, request.param, f"[mounts]\nread = {scratch}\n")
    made.image("import", "debian:python", debian.python_root(), timeout=120).ok()
    yield made
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def one_registry(scratch):
    place = pathlib.Path(tempfile.mkdtemp(prefix="r-", dir=scratch))
    made = Registry(place)
    yield made
    made.stop()
    shutil.rmtree(place)


@pytest.fixture
def registry(place):
    """One of the test's own."""
    made = Registry(place / "registry")
    yield made
    made.stop()


@pytest.fixture
def basic_registry(place):
    made = Registry(place / "registry", auth="basic")
    yield made
    made.stop()


@pytest.fixture
def tokens(place):
    made = Tokens(place / "tokens", anonymous=("open/it",))
    yield made
    made.end()


@pytest.fixture
def token_registry(place, tokens):
    made = Registry(place / "registry", tokens=tokens)
    yield made
    made.stop()


@pytest.fixture
def lying():
    """lying({"it:1": image}): a registry that lies, see lying.py."""
    made = []

    def make(images):
        made.append(Lying(images))
        return made[-1]
    yield make
    for server in made:
        server.end()
