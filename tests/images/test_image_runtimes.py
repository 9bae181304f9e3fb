"""Interpreters in images: found when those are unpacked, chosen by language and version, and really run."""

import json

import pytest

import debian
from image_fixtures import cay_of
from makers import Image, Tree, busybox, layout
from stock import Stock

HUB = "docker.io/library/"


@pytest.fixture(scope="module")
def version(library):
    """Of the Python in Debian's image."""
    found = {r["language"]: r for r in inspect(library, "debian:python")["runtimes"]}
    return found["python"]["version"]


def inspect(stock, name):
    return stock.image("inspect", "--json", name).ok().json


def degraded(stock):
    return ["--allow-degraded"] if stock.who == "user" else []


def run(stock, *words):
    return stock.cay.run(*degraded(stock), *words, config=stock.config)


def test_interpreters_are_found(library, version):
    found = {r["language"]: r for r in inspect(library, "debian:python")["runtimes"]}
    assert {"python", "sh", "perl"} <= set(found)
    assert found["python"]["program"].startswith("/usr/bin/python3") and version.count(".") == 2
    said = run(library, "--image", "debian:python", "-c", "import sys; print(sys.version.split()[0])").ok().text
    assert said.strip().rstrip("+") == version.rstrip("+")


def test_the_result_says_which(library, version):
    result = run(library, "--json", "--image", "debian:python", "-c", "print(1)").ok().json
    assert (result["image"], result["language"], result["version"]) == (f"{HUB}debian:python", "python", version)
    assert run(library, "--json", "--image", "host", "-c", "print(1)").ok().json["image"] == "host"


def test_a_default_image_is_used_for_its_version(library, version, scratch, place):
    """Imported under the name that the language's image has, it is what a run without an image gets."""
    stock = Stock(cay_of(library.who, scratch, place), place, library.who)
    minor = version.rsplit(".", 1)[0]
    stock.image("import", f"python:{minor}-slim", debian.python_root(), timeout=120).ok()
    result = run(stock, "--json", "-l", f"python@{minor}", "-c", "print(open('/etc/hostname').read())").ok().json
    assert (result["image"], result["version"]) == (f"{HUB}python:{minor}-slim", version)
    assert run(stock, "--json", "--image", "host", "-c", "1").ok().json["image"] == "host"
    other = json.loads(run(stock, "--json", "-l", "python@3.6", "-c", "1").text)["error"]
    assert other["code"] == "runtime_not_found" and "cay image pull python:3.6-slim" in other["hint"]


def test_what_is_missing_is_pulled_once(stock, one_registry):
    reference = one_registry.push("runtimes/busybox:1", Image(busybox()))
    words = ("--image", reference, "--", "/bin/sh", "-c", "echo here")
    first = run(stock, *words).ok()
    assert first.text == "here\n" and reference in first.errors  # how it came is told, beside
    asked = one_registry.asked("runtimes/busybox")
    assert asked > 0
    again = run(stock, *words).ok()
    assert again.text == "here\n" and reference not in again.errors and one_registry.asked("runtimes/busybox") == asked


def test_with_json_it_is_pulled_in_silence(stock, one_registry):
    reference = one_registry.push("runtimes/quiet:1", Image(busybox()))
    done = stock.cay.run("--json", *degraded(stock), "--image", reference, "--", "/bin/echo", "here", config=stock.config)
    assert done.ok().json["stdout"] == "here\n" and done.json["image"] == reference
    assert all("degraded" in line for line in done.said)


def test_never_is_never(stock, one_registry):
    reference = one_registry.push("runtimes/never:1", Image(busybox()))
    asked = one_registry.asked("runtimes/never")
    stock.configure("pull = never\n")
    error = json.loads(run(stock, "--json", "--image", reference, "--", "/bin/true").text)["error"]
    assert error["code"] == "image_not_found" and error["hint"] == f"cay image pull {reference}"
    assert one_registry.asked("runtimes/never") == asked


def test_the_default_image_of_java(stock, place):
    """As Temurin's images have it: found by what lies beside the program, of which none is executed."""
    home = "opt/java/openjdk"
    tree = Tree().file(f"{home}/release", 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.5"\n')
    for name in ("java", "javac"):
        tree.program(f"{home}/bin/{name}", "/bin/busybox")
    image = Image(busybox(), tree.data, env=[f"PATH=/{home}/bin:/bin", f"JAVA_HOME=/{home}"])
    stock.image("load", layout(place / "layout", {"eclipse-temurin:21-jdk": image})).ok()
    listed = stock.cay("runtimes", "--json", "java", config=stock.config).ok().json["runtimes"]
    found = [r for r in listed if r["image"] == f"{HUB}eclipse-temurin:21-jdk"]
    assert [(r["version"], r["program"], r["tool"]) for r in found] == [
        ("21.0.5", f"/{home}/bin/java", f"/{home}/bin/javac")], listed
    plan = run(stock, "--json", "--dry-run", "-l", "java@21", "-c", "class Main { void main() {} }").text
    assert f"{HUB}eclipse-temurin:21-jdk" in plan
    missing = json.loads(run(stock, "--json", "-l", "java@11", "-c", "class Main {}").text)["error"]
    assert "cay image pull eclipse-temurin:11-jdk" in missing["hint"], missing
