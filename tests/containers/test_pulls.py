"""Images that an engine has not: it pulls them, with the logins of its users, where the operator lets it."""

import base64
import json

import pytest

from makers import Image, busybox
from registry import PASSWORD, USER, Registry

NAME = "small:1"
HELLO = ["--", "/bin/busybox", "echo", "hello"]


@pytest.fixture(scope="module")
def registries(tmp_path_factory):
    """One that is open, and one that wants a name and a password."""
    made = [Registry(tmp_path_factory.mktemp("open")), Registry(tmp_path_factory.mktemp("shut"), auth="basic")]
    for registry in made:
        registry.push(NAME, Image(busybox()))
    yield made
    for registry in made:
        registry.stop()


def image(registry):
    return f"127.0.0.1:{registry.port}/{NAME}"


@pytest.fixture
def run(cay, docker, place):
    """cay run over Docker, which takes registries of this machine without TLS."""
    cay.env.update(docker.environment, DOCKER_CONFIG=str(place))
    pulled = []

    def call(registry, *words, **more):
        pulled.append(image(registry))
        return cay.run("--engine", "docker", "--image", image(registry), *words, timeout=120, **more)
    yield call
    for name in pulled:
        docker.call("rmi", "-f", name)


def log_in(place, registry):
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (place / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{registry.port}": {"auth": auth}}}))


def test_pulled_once(run, registries):
    assert run(registries[0], *HELLO).ok().text == "hello\n"
    asked = registries[0].asked("/manifests/")
    assert asked > 0
    result = json.loads(run(registries[0], "--json", *HELLO).ok().out)
    assert registries[0].asked("/manifests/") == asked
    assert result["image"] == image(registries[0])


def test_with_a_login(run, registries, place):
    error = json.loads(run(registries[1], "--json", *HELLO).out)["error"]
    assert error["code"] == "image_not_found" and "login" in error["hint"]
    log_in(place, registries[1])
    done = run(registries[1], *HELLO)
    assert done.ok().text == "hello\n" and PASSWORD not in done.errors


def test_a_login_that_is_wrong(run, registries, place):
    (place / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{registries[1].port}": {
        "auth": base64.b64encode(b"ann:wrong").decode()}}}))
    error = json.loads(run(registries[1], "--json", *HELLO).out)["error"]
    assert error["code"] == "image_not_found" and "wrong" not in json.dumps(error)


def test_only_what_is_allowed(run, registries, config):
    error = json.loads(run(registries[0], "--json", *HELLO, config=config("[images]\nallow = python:*\n")).out)["error"]
    assert error["code"] == "policy_denied"
