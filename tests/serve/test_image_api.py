"""Images by the API: what is there, who may see, use, pull and remove it."""

import pytest

from image_store import ImageStore

HUB = "docker.io/library/"


@pytest.fixture(scope="module")
def store(daemon):
    made = ImageStore(daemon.place / "images")
    made.put_pythons()
    return made


def dry(daemon, key=None, **request):
    return daemon.post("/v1/runs", {"code": "1", "dry_run": True, **request}, key=key)


def test_list_and_one(daemon, store):
    images = daemon.get("/v1/images").ok()["images"]
    assert {i["names"][0] for i in images} == {f"{HUB}python:3.10-slim", f"{HUB}python:3.12-slim"}
    for name in "python:3.10-slim", f"{HUB}python:3.10-slim", "a" * 12, "a" * 64:
        assert daemon.get(f"/v1/images?name={name}").ok()["id"] == "a" * 64
    assert daemon.get("/v1/images?name=nosuch").failure == (404, "image_not_found")


def test_what_comes_later_is_seen_too(daemon, store):
    """The api may read names and records, also those that were not there when it was confined."""
    store.put(f"{HUB}later:1", "c")
    assert daemon.get("/v1/images?name=later:1").ok()["id"] == "c" * 64
    (store.place / "names" / "docker.io%2Flibrary%2Flater:1").unlink()
    (store.place / "records" / f"{'c' * 64}.json").unlink()


def test_a_run_says_its_image(daemon, store):
    plan = dry(daemon, image="python:3.10-slim").ok()["dry_run"]
    assert (plan["image"], plan["version"]) == (f"{HUB}python:3.10-slim", "3.10.9")
    assert dry(daemon).ok()["dry_run"]["image"] == f"{HUB}python:3.12-slim"
    assert dry(daemon, image="host").ok()["dry_run"]["image"] == "host"
    assert daemon.post("/v1/runs", {"code": "print(1)", "image": "host"}).ok()["image"] == "host"


def test_an_image_that_is_not_here_is_not_pulled(daemon, store):
    for path, request in ("/v1/runs", {"code": "1"}), ("/v1/sandboxes", {}):
        answer = daemon.post(path, {**request, "image": "127.0.0.1:1/x:1"})
        assert answer.failure == (404, "image_not_found")
        assert answer.json["error"]["hint"] == "cay image pull 127.0.0.1:1/x:1"


def test_a_sandbox_has_one_image(daemon, store):
    plan = daemon.post("/v1/sandboxes", {"image": "python:3.10-slim", "dry_run": True}).ok()["dry_run"]
    assert plan["image"] == f"{HUB}python:3.10-slim"
    with daemon.sandbox() as made:
        assert daemon.get(f"/v1/sandboxes/{made.id}").ok()["image"] == "host"
        # Not one of the store's, which the sandbox is not made of.
        ran = daemon.post(f"/v1/sandboxes/{made.id}/runs", {"code": "print(1)"}).ok()
        assert ran["image"] == "host" and ran["version"] != "3.12.1"
        answer = daemon.post(f"/v1/sandboxes/{made.id}/runs", {"code": "1", "image": "python:3.10-slim"})
        assert answer.failure == (400, "invalid_request")


def test_runtimes_say_why(daemon, store):
    found = daemon.get("/v1/runtimes?language=python").ok()["runtimes"]
    assert [(r["image"], r["source"], r["reason"]) for r in found if r["default"]] == \
        [(f"{HUB}python:3.12-slim", "store", "preferred")]


def test_a_key_sees_and_uses_what_its_bounds_say(daemon, store):
    key, _ = daemon.key(f"images-{daemon.who}", bounds={"images": ["python:3.10*"]})
    assert [i["id"][0] for i in daemon.get("/v1/images", key=key).ok()["images"]] == ["a"]
    # What it may not see is told of in the same words as what is not there.
    def words(name):
        error = daemon.get(f"/v1/images?name={name}", key=key).refused(404, "image_not_found")
        return [error[part].replace(name, "it") for part in ("message", "hint")]
    assert words("python:3.12-slim") == words("python:3.99-slim") and words("b" * 12) == words("d" * 12)
    assert [dry(daemon, key, image=digit * 12).failure for digit in "bd"] == [(404, "image_not_found")] * 2
    assert dry(daemon, key, image="python:3.10-slim").ok()["dry_run"]["version"] == "3.10.9"
    for more in {"image": "python:3.12-slim"}, {"image": "python:3.99"}, {"image": "host"}, {"language": "sh"}:
        assert dry(daemon, key, **more).failure == (403, "policy_denied"), more
    # Its default is what it may have.
    assert dry(daemon, key, language="python@3").ok()["dry_run"]["version"] == "3.10.9"


def test_only_operators_pull_and_remove(daemon, store):
    key, _ = daemon.key(f"no-images-{daemon.who}")
    for answer in (daemon.post("/v1/images", {"reference": "x"}, key=key),
                   daemon.request("DELETE", "/v1/images/python:3.10-slim", key=key)):
        assert answer.failure == (403, "policy_denied")
    assert daemon.get("/v1/images?name=python:3.10-slim").ok()


def test_the_verb_asks_the_daemon(daemon, store, cay):
    env = {"CAY_HOST": f"unix:{daemon.socket}"}
    text = cay("image", "list", env=env).ok().text
    assert "python:3.10-slim" in text and "a" * 12 in text
    assert cay("image", "inspect", "--json", "python:3.10-slim", env=env).ok().json["id"] == "a" * 64
    done = cay("image", "load", "-", env=env)
    assert done.rc != 0 and "CAY_HOST" in done.errors
    done = cay("image", "rm", "nosuch:1", env=env)
    assert done.rc != 0 and "nosuch" in done.errors
