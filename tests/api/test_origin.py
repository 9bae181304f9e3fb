"""Attack 32: web pages that talk to the server behind their reader's back. And no header of CORS."""
import pytest

from api_support import get, post, request, server  # noqa: F401

HOSTS = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "127.1", "2130706433",
         "localhost:x", "[::1", "localhost:80:80", "user@localhost"]


@pytest.mark.parametrize("host", HOSTS)
def test_dns_rebinding(server, host):
    """A name that came to mean this address is not one of ours, also for what only reads."""
    for data in (get("/v1/health", host=host), post("/echo", b"x", host=host)):
        answer = server.ask(data)
        assert (answer.status, answer.code) == (403, "policy_denied")


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1234", "127.0.0.1", "[::1]:80", "10.0.0.1",
                                  "cay.example", "cay.example:443"])
def test_dns_rebinding_control(server, host):
    assert server.ask(get("/v1/health", host=host)).status == 200


def test_unix_clients_may_say_what_they_like(server):
    with server.local() as c:
        assert c.ask(get("/v1/health", host="anything")).status == 200


ORIGINS = ["http://evil.example", "null", "http://localhost:1", "https://localhost.evil.example", "",
           "file://localhost", "http://localhost, http://evil.example"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_cross_site(server, origin):
    for data in (post("/echo", b"x", f"Origin: {origin}"),
                 request("DELETE", "/items/x", [f"Origin: {origin}"]),
                 get("/ws", f"Origin: {origin}", "Upgrade: websocket", "Connection: Upgrade",
                     "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + "A" * 22 + "==")):
        for client in (server.client(), server.local()):
            with client as c:
                answer = c.ask(data)
                assert (answer.status, answer.code) == (403, "policy_denied")
                assert not [h for h in answer.headers if h.startswith("access-control")]


def test_two_origins(server):
    data = post("/echo", b"x", "Origin: http://localhost", "Origin: http://evil.example")
    assert server.ask(data).status == 403


def test_cross_site_control(server):
    """Our own page, and no page at all; what only reads tells a foreign page nothing."""
    assert server.ask(post("/echo", b"x", "Origin: http://localhost")).body == b"x"
    assert server.ask(post("/echo", b"x", "Origin: https://cay.example", host="cay.example")).body == b"x"
    assert server.ask(post("/echo", b"x")).body == b"x"
    answer = server.ask(get("/v1/health", "Origin: http://evil.example"))
    assert answer.status == 200
    assert not [h for h in answer.headers if h.startswith("access-control")]


def test_preflight_gets_no_permission(server):
    answer = server.ask(request("OPTIONS", "/echo", ["Origin: http://evil.example",
                                                     "Access-Control-Request-Method: POST"]))
    assert answer.status == 403
    assert not [h for h in answer.headers if h.startswith("access-control")]
