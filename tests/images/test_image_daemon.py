"""Images by a daemon: pulled by its API, islands and sandboxes of them, removed; as root and as a user."""

import shutil

import pytest

from maker import Maker
from makers import Image, Tree, ann, busybox
from support import wait_until


@pytest.fixture(autouse=True)
def nothing_left():
    """A daemon keeps islands ready: what is left is looked at when it has ended."""


@pytest.fixture(params=["root", "user"])
def daemon(request, scratch, binary_runs):
    maker = Maker(scratch)
    made = maker(request.param)
    yield made
    maker.end()


@pytest.fixture
def pushed(one_registry):
    """An image whose user is Ann, with a variable and a working directory."""
    return one_registry.push("daemon/ann:1", Image(busybox(), ann(), user="ann", env=["A=1"], workdir="/home"))


def pull(daemon, reference):
    with daemon.events("POST", "/v1/images", {"reference": reference}, timeout=60) as events:
        seen = list(events)
    assert seen[-1][0] == "image", seen[-1]
    assert {name for name, _ in seen[:-1]} <= {"progress"}
    return seen[-1][1]


def test_life_of_an_image(daemon, pushed):
    request = {"argv": ["/bin/sh", "-c", "id -un; pwd; echo $A; touch /x 2>/dev/null || echo ro"], "image": pushed}
    assert daemon.post("/v1/runs", request).failure == (404, "image_not_found")
    image = pull(daemon, pushed)
    assert image["names"] == [pushed] and image["user"] == "ann"
    result = daemon.post("/v1/runs", request).ok()
    assert result["stdout"] == "ann\n/home\n1\nro\n" and result["image"] == pushed
    by_id = daemon.post("/v1/runs", {**request, "image": image["id"][:12]}).ok()
    assert by_id["stdout"] == result["stdout"] and by_id["image"] == image["id"][:12]
    assert daemon.delete(f"/v1/images/{image['id'][:12]}").status == 204
    assert daemon.get("/v1/images").ok() == {"images": []}
    assert daemon.post("/v1/runs", request).failure == (404, "image_not_found")


def test_without_events(daemon, pushed):
    image = daemon.post("/v1/images", {"reference": pushed}).ok()
    assert image["names"] == [pushed] and daemon.get(f"/v1/images?name={pushed}").ok() == image


def test_a_sandbox_of_an_image(daemon, pushed):
    image = pull(daemon, pushed)
    with daemon.sandbox(image=pushed) as made:
        assert daemon.get(f"/v1/sandboxes/{made.id}").ok()["image"] == pushed
        ran = daemon.post(f"/v1/sandboxes/{made.id}/runs", {"command": "id -un; echo kept >/tmp/x"}).ok()
        assert ran["stdout"] == "ann\n" and ran["image"] == pushed and ran["language"] == "sh"
        ran = daemon.post(f"/v1/sandboxes/{made.id}/runs", {"argv": ["cat", "/tmp/x"]}).ok()
        assert ran["stdout"] == "kept\n"
        # What the image has not is not taken from elsewhere.
        answer = daemon.post(f"/v1/sandboxes/{made.id}/runs", {"code": "print(1)"})
        assert answer.failure == (404, "runtime_not_found") and pushed in answer.json["error"]["message"]
        assert daemon.delete(f"/v1/images/{image['id']}").failure == (409, "conflict")
    assert daemon.delete(f"/v1/images/{image['id']}").status == 204


def ahead(daemon):
    return daemon.metric('cay_pool_size{pool="islands"}')


def stand_ahead(daemon, request):
    """Until islands of this kind wait; how many of all kinds."""
    wait_until(lambda: ahead(daemon) >= 4, 10, "islands ahead")
    others = ahead(daemon)
    for _ in range(2):
        daemon.post("/v1/runs", request).ok()
    seen = []

    def settled():
        seen.append(ahead(daemon))
        return seen[-1] > others and len(seen) > 20 and len(set(seen[-20:])) == 1
    wait_until(settled, 10, "islands ahead of the image")
    return seen[-1]


def test_what_is_used_again_stands_ahead(daemon, pushed):
    pull(daemon, pushed)
    full = stand_ahead(daemon, {"argv": ["id", "-un"], "image": pushed})
    with daemon.events("POST", "/v1/runs", {"command": "id -un; sleep 60", "image": pushed}) as events:
        events.until("stdout")
        assert ahead(daemon) == full - 1
    with daemon.sandbox(image=pushed) as made:
        assert daemon.post(f"/v1/sandboxes/{made.id}/runs", {"command": "id -un"}).ok()["stdout"] == "ann\n"


def test_one_that_stands_ahead_can_be_removed(daemon, pushed):
    """And neither what was removed nor what was replaced is used."""
    request = {"command": "id -un", "image": pushed}
    image = pull(daemon, pushed)
    stand_ahead(daemon, request)
    assert daemon.delete(f"/v1/images/{image['id']}").status == 204
    assert daemon.post("/v1/runs", request).failure == (404, "image_not_found")
    assert not list((daemon.place / "images/roots").iterdir())
    assert pull(daemon, pushed)["id"] == image["id"]
    for _ in range(3):
        assert daemon.post("/v1/runs", request).ok()["stdout"] == "ann\n"


def test_a_new_image_is_used_at_once(daemon, one_registry):
    def push(text):
        tree = Tree()
        tree.file("text", text.encode())
        return one_registry.push("daemon/again:1", Image(busybox(), tree.data))
    for text in ("one", "two"):
        reference = push(text)
        pull(daemon, reference)
        request = {"argv": ["cat", "/text"], "image": reference}
        assert daemon.post("/v1/runs", request).ok()["stdout"] == text
        stand_ahead(daemon, request)
        assert daemon.post("/v1/runs", request).ok()["stdout"] == text


@pytest.mark.parametrize("after", ["use", "delete"])
def test_a_kept_sandbox_whose_image_is_not_allowed_any_more(daemon, pushed, cay, after):
    """It is shown, says why, and can be deleted; allowed again, it goes on."""
    pull(daemon, pushed)
    made = daemon.post("/v1/sandboxes", {"image": pushed, "persistent": True, "name": "kept"}).ok(201)
    path, settings = f"/v1/sandboxes/{made['id']}", daemon.config.read_text()
    daemon.post(f"{path}/runs", {"command": "echo mine >/workspace/x"}).ok()
    daemon.stop()
    daemon.config.write_text(settings.replace("[images]\n", "[images]\nallow = other/*\n"))
    daemon.expect_errors = True
    daemon.start()
    assert [s["id"] for s in daemon.get("/v1/sandboxes").ok()["sandboxes"]] == [made["id"]]
    now = daemon.get(path).ok()
    assert now["state"] == "unusable" and "not allowed" in now["reason"] and now["image"] == pushed
    assert now["limits"] == made["limits"]
    ran = daemon.post(f"{path}/runs", {"command": "cat /workspace/x"}).refused(403, "policy_denied")
    assert made["id"] in ran["message"] and pushed in ran["message"]
    daemon.post(f"{path}/resume").refused(403, "policy_denied")
    assert daemon.get(f"{path}/files?path=x").status == 403
    assert daemon.request("PATCH", path, {"labels": {"a": "b"}}).ok()["labels"] == {"a": "b"}
    assert daemon.post("/v1/sandboxes", {"name": "kept"}).failure == (409, "conflict")
    if daemon.who == "user":
        cay.prefix = daemon.cay.prefix
    assert "unusable" in cay("ps", env={"CAY_HOST": f"unix:{daemon.socket}"}).ok().text
    if after == "delete":
        daemon.delete("/v1/sandboxes/kept").ok()
        assert daemon.get("/v1/sandboxes").ok()["sandboxes"] == []
        wait_until(lambda: not list((daemon.state / "workspaces").iterdir()), 10, "the workspace's end")
    daemon.stop()
    daemon.config.write_text(settings)
    daemon.start()
    if after == "use":
        now = daemon.get(path).ok()
        assert (now["state"], now["reason"], now["labels"]) == ("stopped", None, {"a": "b"})
        assert daemon.post(f"{path}/runs", {"command": "cat /workspace/x"}).ok()["stdout"] == "mine\n"
        daemon.delete(path).ok()


def test_a_kept_sandbox_whose_image_comes_back(daemon, pushed):
    image = pull(daemon, pushed)
    made = daemon.post("/v1/sandboxes", {"image": pushed, "persistent": True}).ok(201)
    path = f"/v1/sandboxes/{made['id']}"
    daemon.expect_errors = True
    daemon.restart()
    daemon.delete(f"/v1/images/{image['id']}").ok(204)
    daemon.restart()
    assert daemon.get(path).ok()["state"] == "unusable"
    daemon.post(f"{path}/resume").refused(404, "image_not_found")
    pull(daemon, pushed)
    assert daemon.post(f"{path}/runs", {"command": "id -un"}).ok()["stdout"] == "ann\n"
    assert daemon.get(path).ok()["state"] == "live"
    daemon.delete(path).ok()


def test_writable_and_root(daemon, pushed):
    pull(daemon, pushed)
    line = "id -u; echo new >/etc/new && cat /etc/new"
    result = daemon.post("/v1/runs", {"command": line, "image": pushed, "writable": True, "user": "root"}).ok()
    assert result["stdout"] == "0\nnew\n", result
    again = daemon.post("/v1/runs", {"command": "cat /etc/new", "image": pushed}).ok()
    assert again["exit_code"] == 1


def test_a_pull_that_fails_says_why(daemon, one_registry):
    missing = f"{one_registry.host}/daemon/nosuch:1"
    answer = daemon.post("/v1/images", {"reference": missing})
    assert answer.status >= 400 and "nosuch" in answer.json["error"]["message"]
    with daemon.events("POST", "/v1/images", {"reference": missing}, timeout=60) as events:
        name, data = list(events)[-1]
    assert name == "error" and data["error"] == {**answer.json["error"], "request_id": data["error"].get("request_id")}
    assert daemon.get("/v1/images").ok() == {"images": []}


def test_the_verb(daemon, pushed, cay):
    if daemon.who == "user":
        cay.prefix = daemon.cay.prefix
    env = {"CAY_HOST": f"unix:{daemon.socket}"}
    done = cay("image", "pull", pushed, env=env, timeout=60).ok()
    id = daemon.get(f"/v1/images?name={pushed}").ok()["id"]
    assert done.text.strip() == id[:12]
    assert cay("run", "--image", pushed, "--", "id", "-un", env=env).ok().text == "ann\n"
    cay("image", "rm", pushed, env=env).ok()
    assert daemon.get("/v1/images").ok() == {"images": []}


def test_a_pull_goes_on_without_its_client(daemon, pushed):
    """And nothing is left of it when the daemon ends, either."""
    stream = daemon.events("POST", "/v1/images", {"reference": pushed}, timeout=60)
    stream.close()
    daemon.stop()
    shutil.rmtree(daemon.place / "images", ignore_errors=True)
