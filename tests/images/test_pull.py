"""cay image pull from Debian's docker-registry, with images that skopeo pushed."""

import os
import shutil
import signal
import subprocess

import pytest

from image_fixtures import given_to
from makers import ELSEWHERE, HERE, Image, Index, Tree, ann, busybox, layers_with_whiteouts
from registry import credentials
from support import OURS, wait_until


def marked(text, **more):
    """An image that differs from others by what it says of itself."""
    return Image(busybox(), Tree().file("mark", text).data, **more)


def noise(megabytes):
    """A layer that does not get smaller."""
    return Tree().file("noise", os.urandom(megabytes << 20)).data


def marks(stock, name):
    return (stock.root(name) / "mark").read_text()


# What is pushed is what is there

@pytest.mark.parametrize("form", ["oci", "v2s2"])
def test_one_image(stock, one_registry, form):
    image = Image(busybox(), ann(), user="ann", env=["A=1"], workdir="/home")
    reference = one_registry.push(f"pull/{form}:1", image, "--format", form)
    stock.image("pull", reference).ok()
    stock.check(images=1)
    record = stock.record(reference)
    assert list(stock.names()) == [reference] and len(record["layers"]) == 2
    assert (record["user"], record["uid"], record["gid"], record["home"]) == ("ann", 1234, 1235, "/home/ann")
    assert (stock.root(reference) / "home/ann/secret").read_text() == "of Ann\n"
    if form == "oci":  # Docker's has another configuration, and so another id
        assert record["id"] == image.id and record["manifest"] == image.digest.partition(":")[2]
    if stock.who == "root":
        assert stock.owner(reference, "home/ann") == (1234, 1235)
        assert stock.owner(reference, "bin/busybox") == (0, 0)


def test_whiteouts(stock, one_registry):
    layers, expected = layers_with_whiteouts()
    reference = one_registry.push("pull/whiteouts:1", Image(busybox(), *layers))
    stock.image("pull", reference).ok()
    assert stock.files(reference, "w") == expected


def test_zstd(stock, one_registry):
    reference = one_registry.push("pull/zstd:1", Image(busybox(), noise(1), compress=False),
                                  "--dest-compress", "--dest-compress-format", "zstd")
    raw = subprocess.run(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{reference}"],
                         capture_output=True, text=True, check=True).stdout
    assert "tar+zstd" in raw  # and beside it the layer that the registry had as gzip
    stock.image("pull", reference).ok()
    assert (stock.root(reference) / "noise").stat().st_size == 1 << 20


def test_this_platform_of_several(stock, one_registry):
    reference = one_registry.push("pull/multi:1", Index(marked("other", architecture=ELSEWHERE), marked("mine")))
    stock.image("pull", reference).ok()
    assert marks(stock, reference) == "mine" and stock.record(reference)["architecture"] == HERE


def test_another_platform_if_asked_for(root_stock, one_registry):
    reference = one_registry.push("pull/multi:2", Index(
        marked("mine"), marked("v6", architecture="arm", variant="v6"), marked("v7", architecture="arm", variant="v7")))
    root_stock.image("pull", "--platform", "linux/arm/v7", reference).ok()
    assert marks(root_stock, reference) == "v7" and root_stock.record(reference)["architecture"] == "arm"


def test_no_such_platform(root_stock, one_registry):
    reference = one_registry.push("pull/multi:3", Index(marked("other", architecture=ELSEWHERE)))
    done = root_stock.image("pull", reference)
    assert done.rc == OURS and f"linux/{ELSEWHERE}" in done.errors
    root_stock.nothing()


def test_by_digest(root_stock, one_registry):
    image = marked("by digest")
    one_registry.push("pull/digest:1", image)
    root_stock.image("pull", one_registry.name(f"pull/digest@{image.digest}")).ok()
    assert marks(root_stock, image.digest) == "by digest"


@pytest.mark.parametrize("name", ["pull/nowhere:1", "pull/oci:nowhere"])
def test_nothing_of_that_name(root_stock, one_registry, name):
    one_registry.push("pull/oci:1", marked("there"))
    done = root_stock.image("pull", one_registry.name(name))
    assert done.rc == OURS and name in done.errors and len(done.said) == 1
    root_stock.nothing()


def test_a_tag_that_moves(root_stock, one_registry):
    reference = one_registry.push("pull/moves:1", marked("one"))
    root_stock.image("pull", reference).ok()
    one_registry.push("pull/moves:1", marked("two"))
    root_stock.image("pull", reference).ok()
    assert marks(root_stock, reference) == "two"


# What is there is not fetched again

def test_shared_layers_come_once(root_stock, registry):
    big = noise(2)
    first, second = Image(big, busybox()), Image(big, Tree().file("mark", "x").data)
    for name, image in (("a:1", first), ("b:1", second)):
        root_stock.image("pull", registry.push(name, image)).ok()
    assert registry.asked(f"blobs/{first.layers[0]}") == 1
    assert len(root_stock.entries("layers")) == 3
    one, other = (os.stat(root_stock.root(name) / "noise") for name in ("a:1", "b:1"))
    assert one.st_ino == other.st_ino


def test_a_second_pull_fetches_no_layer(root_stock, registry):
    image = marked("again")
    reference = registry.push("again:1", image)
    root_stock.image("pull", reference).ok()
    root_stock.image("pull", reference).ok()
    assert registry.asked(f"blobs/{image.layers[0]}") == 1


def test_parallel_pulls_of_one_image(stock, registry):
    reference = registry.push("same:1", Image(busybox(), noise(8), noise(8)))
    running = [stock.start("image", "pull", reference) for _ in range(4)]
    ended = [(p.communicate(timeout=60), p.returncode) for p in running]
    assert [code for _, code in ended] == [0] * 4, ended
    stock.check(images=1)
    assert (stock.root(reference) / "noise").stat().st_size == 8 << 20


def test_parallel_pulls_of_images_that_share_layers(root_stock, registry):
    shared = [busybox(), noise(4)]
    names = [registry.push(f"some{n}:1", Image(*shared, Tree().file("mark", str(n)).data)) for n in range(4)]
    running = [root_stock.start("image", "pull", name) for name in names]
    ended = [(p.communicate(timeout=60), p.returncode) for p in running]
    assert [code for _, code in ended] == [0] * 4, ended
    root_stock.check(images=4)
    assert [marks(root_stock, name) for name in names] == ["0", "1", "2", "3"]
    assert len(root_stock.entries("layers")) == 6


# Who may

def test_basic_auth(stock, basic_registry):
    reference = basic_registry.push("closed/it:1", marked("closed"))
    done = stock.image("pull", reference)
    assert done.rc == OURS and len(done.said) == 1 and basic_registry.host in done.errors
    stock.nothing()
    knows = credentials(stock.place / "docker", basic_registry.host)
    stock.image("pull", reference, env={"DOCKER_CONFIG": knows}).ok()
    assert marks(stock, reference) == "closed"


def test_basic_auth_with_a_wrong_password(root_stock, basic_registry):
    reference = basic_registry.push("closed/it:1", marked("closed"))
    knows = credentials(root_stock.place / "docker", basic_registry.host, password="of nobody")
    done = root_stock.image("pull", reference, env={"DOCKER_CONFIG": knows})
    assert done.rc == OURS and "of nobody" not in done.errors
    root_stock.nothing()


def test_token_for_everybody(stock, token_registry, tokens):
    reference = token_registry.push("open/it:1", marked("open"))
    tokens.requests.clear()
    stock.image("pull", reference).ok()
    assert marks(stock, reference) == "open"
    query, who = tokens.requests[0]
    assert query["scope"] == "repository:open/it:pull" and query["service"] == "tests" and who is None


def test_token_for_those_who_know_the_password(stock, token_registry, tokens):
    reference = token_registry.push("closed/it:1", marked("closed"))
    assert stock.image("pull", reference).rc == OURS
    stock.nothing()
    knows = credentials(stock.place / "docker", token_registry.host)
    tokens.requests.clear()
    stock.image("pull", reference, env={"DOCKER_CONFIG": knows}).ok()
    assert marks(stock, reference) == "closed"
    assert len(tokens.requests) <= 2, "a token is for all of the repository"


def test_the_password_is_not_another_registrys(root_stock, token_registry, tokens):
    reference = token_registry.push("closed/it:1", marked("closed"))
    knows = credentials(root_stock.place / "docker", "registry.example.org")
    tokens.requests.clear()
    assert root_stock.image("pull", reference, env={"DOCKER_CONFIG": knows}).rc == OURS
    assert [who for _, who in tokens.requests if who] == []


# Registries that are not where the name says, or not there

def test_mirror(stock, registry):
    registry.push("library/thing:1", marked("mirrored"))
    stock.configure(f"mirror = docker.io=http://{registry.host}\n")
    stock.image("pull", "thing:1").ok()
    assert marks(stock, "docker.io/library/thing:1") == "mirrored"


def test_offline(stock, registry):
    reference = registry.push("off:1", marked("here"))
    stock.image("pull", reference).ok()
    registry.stop()
    done = stock.image("pull", reference)
    assert done.rc == OURS and registry.host in done.errors
    stock.check(images=1)
    assert stock.sh(reference, "cat /mark") == "here"


def test_run_pulls_what_is_missing(stock, registry):
    reference = registry.push("missing:1", marked("pulled"))
    assert stock.sh(reference, "cat /mark") == "pulled"
    registry.stop()
    assert stock.sh(reference, "cat /mark") == "pulled"


def test_run_does_not_pull_if_told_so(root_stock, registry):
    reference = registry.push("never:1", marked("x"))
    root_stock.configure("pull = never\n")
    done = root_stock.run(reference, "--json", "--", "/bin/true")
    assert done.rc == OURS and done.error["code"] == "image_not_found" and f"cay image pull {reference}" in done.errors
    assert registry.asked("never") == 0


# The end before the end

@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_pull_that_is_ended_leaves_nothing_and_is_resumed(stock, lying, sig):
    image = Image(busybox(), noise(4))
    server = lying({"it:1": image})

    def halfway(request):
        if request.asked.ref != image.layers[1]:
            return False
        body = request.truth()[0]
        request.begin(len(body))
        request.wfile.write(body[:len(body) // 2])
        request.wfile.flush()
        held.append(request)
        wait_until(lambda: pull.poll() is not None, 20, "its end")
        return True
    held = []
    server.lies.append(halfway)
    pull = stock.start("image", "pull", server.name("it:1"))
    kept = stock.store / "partial" / image.layers[1].partition(":")[2]
    wait_until(lambda: held and kept.exists() and kept.stat().st_size > 1 << 20, 20, "half of it")
    pull.send_signal(sig)
    pull.communicate(timeout=20)
    assert pull.returncode in (128 + sig, -sig)
    for part in ("names", "records", "roots"):
        assert stock.entries(part) == []
    server.lies.clear()
    server.requests.clear()
    stock.image("pull", server.name("it:1")).ok()
    stock.check(images=1)
    again = [r for r in server.asked("blobs") if r.ref == image.layers[1]]
    assert len(again) == 1 and again[0].headers["Range"].startswith("bytes=")
    assert stock.entries("partial") == []


def test_a_store_that_may_not_be_written(stock, one_registry):
    if stock.who == "root":
        stock.store.write_text("a file")
    else:
        stock.store.mkdir(mode=0o555)
    done = stock.image("pull", one_registry.push("pull/refused:1", marked("x")))
    assert done.rc == OURS and str(stock.store) in done.errors and len(done.said) == 1


def test_a_disk_that_is_full(root_stock, registry):
    """A file system of 4 MiB for an image of 16."""
    reference = registry.push("big:1", Image(busybox(), noise(16)))
    root_stock.store.mkdir()
    inside = 'mount -t tmpfs -o size=4m,mode=755 none "$0"; "$@"; code=$?; ls "$0"/names; exit $code'
    root_stock.cay.prefix = ["unshare", "--mount", "sh", "-c", inside, root_stock.store]
    done = root_stock.image("pull", reference)
    assert done.rc == OURS and "space" in done.errors, done.errors
    assert reference not in done.text


def test_what_is_over_the_budget_is_not_downloaded(stock, lying):
    """Nor is what an earlier pull left kept; what fits is pulled."""
    image = Image(busybox(), noise(8))
    server, layer = lying({"it:1": image, "small:1": marked("x")}), image.layers[1].partition(":")[2]
    stock.configure("budget = 6m\n")
    stock.image("pull", server.name("small:1")).ok()
    (stock.store / "partial" / layer).write_bytes(image.blobs[image.layers[1]][:1 << 20])
    given_to(stock.who, stock.store / "partial" / layer)
    done = stock.image("pull", server.name("it:1"))
    assert done.rc == OURS and "room" in done.errors and "budget" in done.errors, done.errors
    assert image.layers[1] not in {r.ref for r in server.asked("blobs")}
    assert stock.entries("partial") == []
    stock.configure("budget = 60m\n")
    stock.image("pull", server.name("it:1")).ok()
    stock.check(images=2)


@pytest.mark.parametrize("reference", ["UPPER/x", "x:", "x@sha256:12", "a b", "-x", "x/../y", "http://x/y", ""])
def test_no_reference(root_stock, reference):
    done = root_stock.image("pull", "--", reference) if reference.startswith("-") else root_stock.image("pull", reference)
    assert done.rc == OURS and len(done.said) == 1
    root_stock.nothing()


def test_no_more_than_needs_be_is_written(root_stock, registry):
    """Its own directory alone, as what a confined process may write."""
    reference = registry.push("where:1", marked("x"))
    before = {path for path in root_stock.place.iterdir()}
    root_stock.image("pull", reference).ok()
    assert {path for path in root_stock.place.iterdir()} - before == {root_stock.store}
    shutil.rmtree(root_stock.store)
