"""Pulls from a registry that lies: each lie is found out, named, and leaves nothing in the store."""

import os
import re
import signal
import time

import pytest

import lying as lies
from image_fixtures import cay_of
from makers import ELSEWHERE, Image, Index, Tree, busybox, compact, digest
from stock import Stock
from support import MIB, OURS, wait_until

NOISE = Tree().file("noise", bytes(range(256)) * 4096).data


def good():
    return Image(busybox(), NOISE)


def refused(stock, server, *words, name="it:1", seconds=30):
    """Fails within that time, says one of the words, and there is nothing of it."""
    done = stock.image("pull", server.name(name), timeout=seconds + 10)
    assert done.rc == OURS, (done.rc, done.errors)
    assert len(done.said) == 1, done.errors
    assert any(re.search(word, done.errors, re.I) for word in words), done.errors
    assert done.seconds < seconds
    stock.nothing()
    return done


def test_control_honest(stock, lying):
    """The same server and images without a lie."""
    server = lying({"it:1": good()})
    stock.image("pull", server.name("it:1")).ok()
    stock.check(images=1)


# Bytes that are not what their names say

@pytest.mark.parametrize("part", ["layer", "config"])
def test_wrong_digest(stock, lying, part):
    image = good()
    ref = image.layers[1] if part == "layer" else digest(image.config)
    server = lying({"it:1": image})
    server.lies.append(lies.wrong_bytes("blobs", ref))
    refused(stock, server, "digest")
    assert ref.partition(":")[2] not in stock.entries("partial"), "what is wrong is not resumed"


def test_wrong_manifest_of_a_digest(root_stock, lying):
    image = good()
    server = lying({"it:1": image})
    server.lies.append(lies.wrong_bytes("manifests"))
    refused(root_stock, server, "digest", name=f"it@{image.digest}")


def test_wrong_manifest_behind_an_index(root_stock, lying):
    image = good()
    server = lying({"it:1": Index(image)})
    server.lies.append(lies.other_bytes("manifests", Image(NOISE).manifest, image.digest))
    refused(root_stock, server, "digest", "size", "bytes")


def test_longer_layer(root_stock, lying):
    image = good()
    server = lying({"it:1": image})
    server.lies.append(lies.longer(image.layers[1]))
    refused(root_stock, server, "size", "bytes", "length", "more")


def test_layer_is_not_gzip(root_stock, lying):
    """By its media type it is; its digest is right."""
    def lie(image):
        junk = b"neither gzip nor tar" * 100
        image.manifest_fields["layers"][1] = Image._part(image.manifest_fields["layers"][1]["mediaType"], junk)
        image.junk = junk
    image = Image(busybox(), NOISE, lie=lie)
    image.blobs[digest(image.junk)] = image.junk
    refused(root_stock, lying({"it:1": image}), "archive", "tar", "gzip", "format", "digest")


def test_layer_is_another_than_the_config_says(root_stock, lying):
    """The bytes are what the manifest says; what is in them is not what the configuration says."""
    def lie(image):
        image.fields["rootfs"]["diff_ids"][1] = digest(b"another")
    refused(root_stock, lying({"it:1": Image(busybox(), NOISE, lie=lie)}), "digest", "configuration")


def test_config_has_fewer_layers_than_the_manifest(root_stock, lying):
    def lie(image):
        image.fields["rootfs"]["diff_ids"].pop()
    refused(root_stock, lying({"it:1": Image(busybox(), NOISE, lie=lie)}), "layers")


def test_config_of_another_platform(root_stock, lying):
    """The index says that it is this one's."""
    image = Image(busybox(), architecture=ELSEWHERE)
    image.platform = good().platform
    refused(root_stock, lying({"it:1": Index(image)}), ELSEWHERE)


def test_config_of_an_image_that_is_here(root_stock, lying):
    """Who knows an image's id, and has nothing of it, gives it no name."""
    image = good()
    honest, server = lying({"it:1": image}), lying({"it:1": image})
    root_stock.image("pull", honest.name("it:1")).ok()
    server.lies.append(lies.status("blobs", 404))
    done = root_stock.image("pull", server.name("it:1"))
    assert done.rc == OURS and "404" in done.errors, done.errors
    assert list(root_stock.names()) == [honest.name("it:1")]


# Too much

@pytest.mark.parametrize("size", ["said", "endless"])
def test_huge_manifest(root_stock, lying, size):
    server = lying({"it:1": good()})
    if size == "said":
        server.lies.append(lies.other_bytes("manifests", b'{"schemaVersion":2,"x":"' + b" " * (40 * MIB) + b'"}'))
    else:
        server.lies.append(lies.endless("manifests"))
    refused(root_stock, server, "more than it may", seconds=10)


def test_endless_layer(root_stock, lying):
    server = lying({"it:1": good()})
    server.lies.append(lies.endless("blobs"))
    refused(root_stock, server, "size", "bytes", "length", "more", "large", seconds=10)
    kept = sum((root_stock.store / "partial" / n).stat().st_size for n in root_stock.entries("partial"))
    assert kept < 8 * MIB


def test_manifest_of_too_many_layers(root_stock, lying):
    def lie(image):
        image.manifest_fields["layers"] *= 5000
        image.fields["rootfs"]["diff_ids"] *= 5000
    refused(root_stock, lying({"it:1": Image(NOISE, lie=lie)}), "layers")


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"schemaVersion":2}', b"[" * 100_000,
                                  b'{"schemaVersion":1,"fsLayers":[]}', compact({"schemaVersion": 2, "layers": [{}]})],
                         ids=range(9))
def test_no_manifest(root_stock, lying, text):
    server = lying({"it:1": good()})
    server.lies.append(lies.other_bytes("manifests", text))
    refused(root_stock, server, "")


def test_size_that_is_negative(root_stock, lying):
    def lie(image):
        image.manifest_fields["layers"][1]["size"] = -1
    refused(root_stock, lying({"it:1": Image(busybox(), NOISE, lie=lie)}), "size")


@pytest.mark.parametrize("name", ["sha256:../../../../../tmp/x", "sha256:" + "A" * 64, "md5:" + "0" * 32, "x", ""])
def test_digest_that_is_none(root_stock, lying, name):
    def lie(image):
        image.manifest_fields["layers"][1]["digest"] = name
    refused(root_stock, lying({"it:1": Image(busybox(), NOISE, lie=lie)}), "digest")


def test_no_platform_of_ours(root_stock, lying):
    server = lying({"it:1": Index(Image(busybox(), architecture=ELSEWHERE), Image(busybox(), architecture="s390x"))})
    done = refused(root_stock, server, "platform")
    assert f"linux/{ELSEWHERE}" in done.errors and "linux/s390x" in done.errors


# Elsewhere

@pytest.mark.parametrize("kind", ["manifests", "blobs"])
@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "//", "\x01"],
                         ids=["file", "ftp", "gopher", "nowhere", "no text"])
def test_redirect(root_stock, lying, kind, to):
    server = lying({"it:1": good()})
    server.lies.append(lies.redirect(kind, to))
    done = refused(root_stock, server, "")
    assert "root:" not in done.errors


def test_redirect_in_a_circle(root_stock, lying):
    server = lying({"it:1": good()})
    server.lies.append(lies.redirect("blobs", f"/v2/it/blobs/{good().layers[0]}"))
    refused(root_stock, server, "redirect")
    assert len(server.asked("blobs")) < 60


def test_redirect_to_another_server_is_followed(root_stock, lying):
    """As registries do that keep blobs elsewhere; who asked them is not told there."""
    image = good()
    other, server = lying({"it:1": image}), lying({"it:1": image})
    for ref in image.blobs:
        server.lies.append(lies.about("blobs", ref)(
            lambda request: request.answer(307, b"", Location=f"http://{other.host}{request.path}")))
    root_stock.image("pull", server.name("it:1")).ok()
    assert len(other.asked("blobs")) == len(image.blobs)
    assert not [r for r in other.requests if "Authorization" in r.headers]


# Never the last word

def test_unauthorized_for_ever(root_stock, lying):
    """It hands out a token each time, and never takes it."""
    server = lying({"it:1": good()})
    challenge = f'Bearer realm="http://{server.host}/v2/",service="x",scope="repository:it:pull"'
    server.lies.append(lies.about("base")(lambda request: request.answer(200, b'{"token":"x"}')))
    server.lies.append(lies.status("manifests", 401, WWW_Authenticate=challenge))
    refused(root_stock, server, "denies")
    assert len(server.requests) < 10


@pytest.mark.parametrize("challenge", ["Bearer", 'Bearer realm="file:///etc/passwd"', "Basic", "Digest x", 'Bearer realm="',
                                       "Bearer realm=" + "x" * 20000], ids=range(6))
def test_challenge_that_is_none(root_stock, lying, challenge):
    server = lying({"it:1": good()})
    server.lies.append(lies.status("manifests", 401, WWW_Authenticate=challenge))
    refused(root_stock, server, "")
    assert len(server.requests) < 10


def test_busy_and_then_not(root_stock, lying):
    """429 with the time to wait, which is waited."""
    server = lying({"it:1": good()})
    server.lies.append(lies.status("manifests", 429, times=1, Retry_After=1))
    server.lies.append(lies.status("blobs", 429, times=1, Retry_After=1))
    began = time.monotonic()
    root_stock.image("pull", server.name("it:1")).ok()
    assert time.monotonic() - began >= 2
    root_stock.check(images=1)


def test_out_of_order_and_then_not(root_stock, lying):
    server = lying({"it:1": good()})
    server.lies.append(lies.status("blobs", 503, times=1))
    root_stock.image("pull", server.name("it:1")).ok()
    root_stock.check(images=1)


def test_busy_for_a_year(root_stock, lying):
    server = lying({"it:1": good()})
    server.lies.append(lies.status("manifests", 429, Retry_After=31536000))
    refused(root_stock, server, "429", "busy", "many", seconds=60)


@pytest.mark.parametrize("ranges", [True, False], ids=["resumed", "from scratch"])
def test_broken_in_the_middle(stock, lying, ranges):
    image = good()
    server = lying({"it:1": image})
    server.ranges = ranges
    middle = len(image.blobs[image.layers[1]]) // 2
    server.lies.append(lies.broken(image.layers[1], middle, times=1))
    stock.image("pull", server.name("it:1")).ok()
    stock.check(images=1)
    first, second = (r for r in server.asked("blobs") if r.ref == image.layers[1])
    assert "Range" not in first.headers and second.headers["Range"] == f"bytes={middle}-"


def test_slow(root_stock, lying):
    """A byte a second is next to nothing, and not waited for."""
    image = good()
    server = lying({"it:1": image})
    server.lies.append(lies.slow(image.layers[1]))
    root_stock.configure("stall_timeout = 2\n")
    refused(root_stock, server, "slow", "stall", "time", seconds=30)


# What is tried again, as it might be better next time; all of them at once, as each takes its time

def shifted(ref):
    """Broken off in the middle, and then it goes on where nobody asked it to."""
    @lies.about("blobs", ref)
    def another_part(request):
        body, _ = request.truth()
        request.answer(206, body[10:], Content_Range=f"bytes 10-{len(body) - 1}/{len(body)}")
    return [lies.broken(ref, 1000, times=1), another_part]


# What: lies about a layer, what is said of them.
LASTING = {
    "truncated": (lambda ref: [lies.truncated(ref)], "size|bytes|length|short"),
    "wrong length": (lambda ref: [lies.wrong_length(ref)], "size|bytes|length|more|broke"),
    "busy": (lambda ref: [lies.status("manifests", 429, Retry_After=0)], "429|busy|many"),
    "broken": (lambda ref: [lies.broken(ref, 0, times=None)], "broke|reset|connection"),
    "another part": (shifted, "range|digest|part|bytes|size"),
}


def test_lies_that_last(scratch, place, lying):
    image, begun = good(), {}
    for what, (make, _) in LASTING.items():
        own = place / what.replace(" ", "-")
        own.mkdir()
        stock, server = Stock(cay_of("root", scratch, own), own, "root"), lying({"it:1": image})
        server.lies += make(image.layers[1])
        begun[what] = stock, server, stock.start("image", "pull", server.name("it:1"))
    ended = {what: pull.communicate(timeout=60)[1].decode() for what, (_, _, pull) in begun.items()}
    for what, (stock, server, pull) in begun.items():
        assert pull.returncode == OURS, (what, ended[what])
        assert re.search(LASTING[what][1], ended[what].splitlines()[-1], re.I), (what, ended[what])
        assert 2 < len(server.requests) < 20, what
        stock.nothing()


# Registries that hold up those who ask others

def test_one_that_drips_holds_up_nobody_else(stock, lying):
    """Both have the same layer: who asks the good one waits a while for what the other is at, and no longer."""
    image = Image(Tree().file("noise", os.urandom(2 * MIB)).data)
    ref = image.layers[0].partition(":")[2]
    bad, good = lying({"it:1": image}), lying({"it:1": image})
    bad.lies.append(lies.dripping(image.layers[0]))
    held = stock.start("image", "pull", bad.name("it:1"))
    try:
        wait_until(lambda: ref in stock.entries("partial"), 10, "the download")
        began = time.monotonic()
        several = [stock.start("image", "pull", good.name("it:1")) for _ in range(2)]
        for pull in several:
            _, errors = pull.communicate(timeout=60)
            assert pull.returncode == 0, errors
        assert 5 < time.monotonic() - began < 40
        assert held.poll() is None, "it was never quick"
        assert stock.entries("partial") == [ref], "what was for one alone is gone"
        # Who comes now finds the layer there.
        assert stock.image("pull", good.name("it:1")).ok().seconds < 5
    finally:
        held.send_signal(signal.SIGTERM)
        held.communicate(timeout=20)
    stock.check(images=1)


def test_what_others_have_left_for_themselves(root_stock, lying):
    """A download of a process's own whose process was killed is nobody's, and goes."""
    root_stock.image("prune").ok()
    left = root_stock.store / "partial" / f"{'a' * 64}.4711"
    left.write_bytes(b"x")
    root_stock.image("pull", lying({"it:1": good()}).name("it:1")).ok()
    assert not left.exists()


def test_others_that_are_quick_are_waited_for(root_stock, lying):
    """Of two at once, one downloads."""
    image = Image(Tree().file("noise", os.urandom(4 * MIB)).data)
    server = lying({"it:1": image})
    server.lies.append(lies.dripping(image.layers[0], MIB))
    several = [root_stock.start("image", "pull", server.name("it:1")) for _ in range(2)]
    for pull in several:
        _, errors = pull.communicate(timeout=60)
        assert pull.returncode == 0, errors
    assert len([r for r in server.asked("blobs") if r.ref == image.layers[0]]) == 1
