"""Who is told a password, and where a registry can lead a pull to."""

import base64
import json
import ssl
import subprocess

import pytest

import lying as lies
from makers import Image, busybox
from registry import IDENTITY, PASSWORD, USER, credentials
from support import OURS

DISTANT = "registry.example"
SECRET = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@lies.about("manifests")
def asks_for_a_name(request):
    """Answers those who show the password, and nobody else."""
    if request.headers.get("Authorization") == SECRET:
        request.tell_the_truth()
    else:
        request.answer(401, b"", WWW_Authenticate='Basic realm="x"')


def elsewhere(server, image, host):
    """All blobs are at another place."""
    for ref in image.blobs:
        server.lies.append(lies.about("blobs", ref)(
            lambda request: request.answer(307, b"", Location=f"http://{host}{request.path}")))


def of_hosts(place, name):
    """Before a command: it finds this machine by that name."""
    (place / "hosts").write_text(f"127.0.0.1 localhost {name}\n")
    return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', place / "hosts"]


def shown(server):
    return [r.headers["Authorization"] for r in server.requests if "Authorization" in r.headers]


def test_a_password_does_not_follow_a_redirect(root_stock, lying):
    """To a place that has blobs, as some registries do; and the control: the registry itself is shown it."""
    image = Image(busybox())
    other, server = lying({"it:1": image}), lying({"it:1": image})
    server.lies.append(asks_for_a_name)
    elsewhere(server, image, other.host)
    knows = credentials(root_stock.place / "docker", server.host)
    root_stock.image("pull", server.name("it:1"), env={"DOCKER_CONFIG": knows}).ok()
    assert set(shown(server)) == {SECRET}
    assert len(other.asked("blobs")) == len(image.blobs) and shown(other) == []


def test_a_password_is_not_shown_unasked(root_stock, lying):
    server = lying({"it:1": Image(busybox())})
    knows = credentials(root_stock.place / "docker", server.host)
    root_stock.image("pull", server.name("it:1"), env={"DOCKER_CONFIG": knows}).ok()
    assert shown(server) == []


def test_a_password_is_not_a_mirrors(root_stock, lying):
    """It is kept for the registry, whose mirror asks for one."""
    image = Image(busybox())
    mirror, server = lying({"it:1": image}), lying({"it:1": image})
    mirror.lies.append(asks_for_a_name)
    root_stock.configure(f"mirror = {server.host}=http://{mirror.host}\n")
    knows = credentials(root_stock.place / "docker", server.host)
    root_stock.image("pull", server.name("it:1"), env={"DOCKER_CONFIG": knows}).ok()
    assert len(mirror.asked("manifests")) == 1 and shown(mirror) == []
    assert len(server.asked("manifests")) == 1


@pytest.mark.parametrize("realm", ["http://192.0.2.1/token", "ftp://127.0.0.1/token", "https://u:p@127.0.0.1/token"])
def test_a_token_is_not_asked_for_anywhere(root_stock, lying, realm):
    server = lying({"it:1": Image(busybox())})
    server.lies.append(lies.status("manifests", 401, WWW_Authenticate=f'Bearer realm="{realm}"'))
    knows = credentials(root_stock.place / "docker", server.host)
    done = root_stock.image("pull", server.name("it:1"), env={"DOCKER_CONFIG": knows})
    assert done.rc == OURS and "none is asked for" in done.errors and done.seconds < 10


def test_a_helper_is_named_and_not_run(root_stock, lying, place):
    server = lying({"it:1": Image(busybox())})
    server.lies.append(asks_for_a_name)
    ran = place / "ran"
    helper = place / "bin" / "docker-credential-trap"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\ntouch {ran}\n")
    helper.chmod(0o755)
    (place / "docker").mkdir()
    (place / "docker" / "config.json").write_text(json.dumps({"credsStore": "trap"}))
    done = root_stock.image("pull", server.name("it:1"), env={
        "DOCKER_CONFIG": place / "docker", "PATH": f"{helper.parent}:/usr/bin:/bin"})
    assert done.rc == OURS and "docker-credential-trap" in done.errors
    assert not ran.exists()


@pytest.fixture
def with_tls(lying, place):
    """with_tls(images): one that has TLS, and the file with its certificate."""
    def make(images):
        server, key, certificate = lying(images), place / "key.pem", place / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-subj", "/CN=tests", "-addext", f"subjectAltName=IP:127.0.0.1,DNS:{DISTANT}", "-days", "2"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        return server, certificate
    return make


def test_a_token_is_not_asked_for_here_by_a_distant_one(root_stock, lying, with_tls, place):
    """Without TLS, of this machine's own services; and the control: a registry that is here itself may."""
    server, certificate = with_tls({"it:1": Image(busybox())})
    here = lying({})
    server.lies.append(lies.status("manifests", 401, WWW_Authenticate=f'Bearer realm="http://{here.host}/v2/"'))
    root_stock.cay.prefix = of_hosts(place, DISTANT)
    distant = server.name("it:1").replace("127.0.0.1", DISTANT)
    done = root_stock.image("pull", distant, env={"SSL_CERT_FILE": certificate})
    assert done.rc == OURS and "none is asked for" in done.errors, done.errors
    assert len(server.asked("manifests")) == 1 and here.requests == []
    root_stock.image("pull", server.name("it:1"), env={"SSL_CERT_FILE": certificate})
    assert len(here.requests) == 1


def test_certificates_are_checked(root_stock, with_tls):
    server, certificate = with_tls({"it:1": Image(busybox())})
    done = root_stock.image("pull", server.name("it:1"))
    assert done.rc == OURS and "certificate" in done.errors
    root_stock.nothing()
    root_stock.image("pull", server.name("it:1"), env={"SSL_CERT_FILE": certificate}).ok()


def test_from_tls_no_way_leads_back(root_stock, lying, with_tls):
    """A redirect to what has none, also on this machine."""
    image = Image(busybox())
    plain = lying({"it:1": image})
    server, certificate = with_tls({"it:1": image})
    elsewhere(server, image, plain.host)
    done = root_stock.image("pull", server.name("it:1"), env={"SSL_CERT_FILE": certificate})
    assert done.rc == OURS and "redirects to where cay does not go" in done.errors
    assert plain.requests == []
    root_stock.nothing()


# Identity tokens

def test_an_identity_token(root_stock, token_registry, tokens):
    """It is changed for a token of access, shown to who gives those out and to nobody else, and in no URL."""
    name = token_registry.push("closed/it:1", Image(busybox()))
    began = len(tokens.requests)
    knows = credentials(root_stock.place / "docker", token_registry.host, "00000000", "", identitytoken=IDENTITY)
    root_stock.image("pull", name, env={"DOCKER_CONFIG": knows}).ok()
    asked = tokens.requests[began:]
    assert asked and all(authorization is None for _, authorization in asked)
    assert asked[0][0] == {"grant_type": "refresh_token", "service": "tests", "client_id": "cay",
                           "scope": "repository:closed/it:pull", "refresh_token": IDENTITY}
    assert "identity" not in token_registry.log
    root_stock.check(images=1)


def test_a_wrong_identity_token(root_stock, token_registry):
    name = token_registry.push("closed/it:1", Image(busybox()))
    knows = credentials(root_stock.place / "docker", token_registry.host, identitytoken="another")
    done = root_stock.image("pull", name, env={"DOCKER_CONFIG": knows})
    assert done.rc == OURS and "denies access with the identity token kept for it" in done.errors, done.errors
    assert "another" not in done.errors
    root_stock.nothing()
