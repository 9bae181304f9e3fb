"""Which image and interpreter a run would get, and what is said where it gets none."""

import json

import pytest

from image_store import ImageStore
from support import OURS

HUB = "docker.io/library/"


@pytest.fixture
def store(place):
    made = ImageStore(place / "images")
    made.put_pythons()
    return made


@pytest.fixture
def config(store, place):
    """With settings behind those that say where the store is."""
    def write(settings="pull = never\n"):
        file = place / "images.conf"
        file.write_text(store.settings + settings)
        return file
    return write


@pytest.fixture
def plan(cay, config):
    """What --dry-run says of a run."""
    def ask(*words, settings="pull = never\n"):
        return cay.run("--dry-run", "--json", *words, config=config(settings)).ok().json["dry_run"]
    return ask


@pytest.fixture
def refused(cay, config):
    def ask(*words, settings="pull = never\n"):
        return cay.refused(*words, config=config(settings))
    return ask


def chosen(plan):
    return plan["image"], plan["version"], plan["argv"][0]


def test_the_image_that_is_asked_for(plan):
    assert chosen(plan("--image", "python:3.10-slim", "-c", "1")) == \
        (f"{HUB}python:3.10-slim", "3.10.9", "/usr/local/bin/python3.10")
    assert plan("--image", "a" * 12, "-c", "1")["version"] == "3.10.9"
    assert plan("--image", f"{HUB}python:3.12-slim", "-l", "python@3", "-c", "1")["version"] == "3.12.1"
    argv = plan("--image", "python:3.10-slim", "--", "id", "-u")
    assert argv["argv"] == ["id", "-u"] and argv["version"] is None


def test_the_preferred_version_in_the_store_comes_before_the_host(plan):
    assert chosen(plan("-c", "1"))[:2] == (f"{HUB}python:3.12-slim", "3.12.1")
    assert chosen(plan("-l", "python@3.10", "-c", "1"))[:2] == (f"{HUB}python:3.10-slim", "3.10.9")


def test_host_is_the_host(plan):
    assert plan("--image", "host", "-c", "1")["image"] == plan("--", "true")["image"] == "host"
    assert plan("-l", "sh", "-c", "1")["image"] == "host"


def test_settings_come_first(plan, store):
    store.put(f"{HUB}mine:latest", "c", [("python", "3.12.0", "/opt/python")])
    settings = "pull = never\n[language python]\nimage = mine\n"
    assert chosen(plan("-c", "1", settings=settings)) == (f"{HUB}mine:latest", "3.12.0", "/opt/python")
    assert plan("-l", "python@3.10", "-c", "1", settings=settings)["version"] == "3.10.9"


def test_an_alias(plan):
    assert plan("--image", "old", "-c", "1", settings="alias = old=python:3.10-slim\n")["version"] == "3.10.9"


def test_a_version_that_is_not_here(refused):
    error = refused("-l", "python@3.9", "-c", "1")
    assert error["code"] == "runtime_not_found" and "python 3.9 is not here" in error["message"]
    assert "cay image pull python:3.9-slim" in error["hint"]


def test_a_language_that_the_image_has_not(refused):
    error = refused("--image", "python:3.10-slim", "-l", "ruby", "-c", "1")
    assert error["code"] == "runtime_not_found"
    assert error["message"] == f"the image {HUB}python:3.10-slim has no ruby; it has python 3.10.9"
    error = refused("--image", "python:3.10-slim", "-l", "python@3.12", "-c", "1")
    assert "there is 3.10.9" in error["message"]


def test_an_image_that_is_not_here(refused):
    error = refused("--image", "python:3.9-slim", "-c", "1")
    assert error["code"] == "image_not_found" and error["hint"] == "cay image pull python:3.9-slim"
    assert error["message"] == "the image python:3.9-slim is not here"


@pytest.mark.parametrize("image", ["", "/x", "x:", "x@sha256:1", "UPPER", "a b", "x" * 600])
def test_what_names_no_image(refused, image):
    assert refused("--image", image, "-c", "1")["code"] == "invalid_request"


def test_the_operator_says_which(refused, plan):
    settings = "allow = python:3.12*\n"
    assert plan("--image", "python:3.12-slim", "-c", "1", settings=settings)["version"] == "3.12.1"
    for name in "python:3.10-slim", "a" * 12, "nosuch":
        error = refused("--image", name, "-c", "1", settings=settings)
        assert error["code"] == "policy_denied" and "[images] allow" in error["hint"], name


def test_what_the_host_can_not_give(refused):
    error = refused("--writable", "--", "true")
    assert error["code"] == "unsupported" and "--image" in error["hint"]
    error = refused("--engine", "direct", "--image", "python:3.10-slim", "-c", "1")
    assert error["code"] == "unsupported" and "image" in error["message"]


def test_runtimes(cay, config):
    done = cay("runtimes", "--json", "python", config=config()).ok().json["runtimes"]
    found = {r["version"]: r for r in done}
    assert found["3.12.1"]["image"] == f"{HUB}python:3.12-slim" and found["3.12.1"]["source"] == "store"
    assert found["3.12.1"]["default"] and found["3.12.1"]["reason"] == "preferred"
    assert not found["3.10.9"]["default"]
    assert any(r["source"] == "host" and r["image"] is None for r in done)
    text = cay("runtimes", "python", config=config()).ok().text
    assert f"/usr/local/bin/python3.12 in the image {HUB}python:3.12-slim\n" in text


# cay image

def test_list(cay, config, store):
    store.put(None, "d", created="2020-01-02T03:04:05Z", size_bytes=3 << 20)
    lines = cay("image", "list", config=config()).ok().text.splitlines()
    assert lines[0].split() == ["NAME", "ID", "CREATED", "SIZE"]
    assert sorted(line.split()[:2] for line in lines[1:]) == \
        [["-", "d" * 12], ["python:3.10-slim", "a" * 12], ["python:3.12-slim", "b" * 12]]
    assert "3 MiB" in lines[1] and " days" in lines[1]  # the only one with a date is the newest
    images = cay("image", "list", "--json", config=config()).ok().json["images"]
    assert {i["id"][0]: i["names"] for i in images} == {
        "a": [f"{HUB}python:3.10-slim"], "b": [f"{HUB}python:3.12-slim"], "d": []}


def test_inspect(cay, config, store):
    store.put(f"{HUB}odd:1", "e", [("sh", "", "/bin/sh")], env=["A=\033[2Jx"], user="web", workdir="/srv",
              entrypoint=["/run"], layers=["f" * 64])
    text = cay("image", "inspect", "odd:1", config=config()).ok().text
    for line in (f"name          {HUB}odd:1", "user          web", "workdir       /srv", "entrypoint    /run",
                 "runtime       sh - (/bin/sh)", f"layer         {'f' * 64}"):
        assert line in text.splitlines()
    assert "\033" not in text
    done = cay("image", "inspect", "--json", "odd:1", "a" * 12, config=config()).ok()
    assert [json.loads(line)["id"][0] for line in done.text.splitlines()] == ["e", "a"]
    assert cay("image", "inspect", "nosuch", config=config()).rc == OURS


@pytest.mark.parametrize("words", [[], ["lst"], ["inspect"], ["pull"], ["pull", "a", "b"], ["import", "a"],
                                   ["list", "x"], ["prune", "x"], ["rm"]], ids=" ".join)
def test_what_makes_no_sense(cay, words):
    done = cay("image", *words)
    assert done.rc == OURS and len(done.said) == 1 and "cay image" in done.errors
    assert words != ["lst"] or "did you mean list?" in done.errors


def test_completion(cay, config):
    done = cay("__complete", "run", "--image", "py", config=config()).ok().text
    assert sorted(line.split("\t")[0] for line in done.splitlines()) == ["python:3.10-slim", "python:3.12-slim"]


def test_a_damaged_record_is_said(cay, config, store):
    store.put(f"{HUB}bad:1", "f", uid=-5)
    error = cay.refused("--image", "bad:1", "-c", "1", config=config())
    assert error["code"] == "internal" and "uid" in error["message"]


def test_what_is_not_in_the_store_is_pulled(cay, config):
    """Nobody listens there: what the pull has to say is what the run says."""
    error = cay.refused("--image", "127.0.0.1:1/nobody:1", "-c", "1", config=config(""))
    assert "127.0.0.1:1" in error["message"], error
    done = cay.run("--image", "127.0.0.1:1/nobody:1", "-c", "1", config=config(""))
    assert done.rc == OURS and done.out == b"" and "127.0.0.1:1" in done.errors
