"""The world itself, with plain programs: what the other tests find denied works here."""

import json
import socket
import subprocess

import pytest

import world as places
from support import wait_until
from world_dns import Says
from world_servers import TOOL_PORT, pattern


def ask(world, name, kind="A", *options, server=None):
    import dns.message
    import dns.query
    query = dns.message.make_query(name, kind)
    return world.inside(lambda: dns.query.udp_with_fallback(query, server or places.RESOLVER, 3))


def values(answer):
    return [item.to_text() for rrset in answer[0].answer for item in rrset]


def test_names(world):
    assert values(ask(world, "www.example.org")) == [places.WEB]
    assert values(ask(world, "www.example.org", "AAAA")) == [places.WEB6]
    assert ask(world, "nowhere.example.org")[0].rcode() == 3
    assert ask(world, "broken.example.org")[0].rcode() == 2
    answer, by_tcp = ask(world, "huge.example.org")
    assert by_tcp and len(answer.answer[0]) == 500
    assert [q.name for q in world.names.queries if q.transport == "tcp"] == ["huge.example.org"]


def test_names_that_change(world):
    world.names.zone["r.example.org"] = [Says(a=(places.WEB,), ttl=0), Says(a=(places.PRIVATE,), ttl=0)]
    assert [values(ask(world, "r.example.org")) for _ in range(3)] == [
        [places.WEB], [places.PRIVATE], [places.PRIVATE]]


def test_chain(world):
    for n in range(20):
        world.names.zone[f"c{n}.example.org"] = Says(cname=f"c{n + 1}.example.org")
    world.names.zone["c20.example.org"] = Says(a=(places.WEB,))
    assert values(ask(world, "c0.example.org"))[-1] == places.WEB


def test_resolver_of_programs(world):
    """By /etc/resolv.conf and /etc/hosts of the world alone."""
    assert places.WEB in world.run("getent", "ahostsv4", "www.example.org").stdout
    assert places.WEB in world.run("getent", "ahostsv4", "listed.example.org").stdout
    assert [q.name for q in world.names.queries if q.type == "A"] == ["www.example.org"]


@pytest.mark.parametrize("url", ["http://www.example.org/", "https://www.example.org/", "http://www.example.org:8080/"])
def test_web(world, url):
    done = world.run("curl", "-sS", "--cacert", world.ca, url)
    assert done.stdout == "hello from www.example.org\n", done.stderr
    assert world.saw("www.example.org")


def test_certificates_are_checked(world):
    assert "certificate" in world.run("curl", "-sS", "https://www.example.org/").stderr


def tool(world, line, address=places.WEB):
    def talk():
        with socket.create_connection((address, TOOL_PORT), 10) as s:
            s.sendall(line)
            s.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: s.recv(1 << 16), b""))
    return world.inside(talk)


def test_tools(world):
    assert tool(world, b"echo\nab\ncd") == b"ab\ncd"
    assert tool(world, b"send 100000\n") == pattern(100000)
    assert json.loads(tool(world, b"sum\nabc"))[0] == 3
    assert tool(world, b"slow 3\n", places.WEB6) == b"..."
    with pytest.raises(ConnectionResetError):
        tool(world, b"reset\n")
    assert {r.address for r in world.reached} == {places.WEB, places.WEB6}


def test_what_can_not_be_reached(world):
    with pytest.raises(ConnectionRefusedError):
        world.inside(lambda: socket.create_connection((places.WEB, 9), 3))
    with pytest.raises(OSError, match="No route|unreachable"):
        world.inside(lambda: socket.create_connection((places.UNREACHABLE, 80), 3))
    assert not world.strays
    with pytest.raises(TimeoutError):
        world.inside(lambda: socket.create_connection((places.BEYOND, 80), 0.3))
    assert f"6 {places.BEYOND}:80" in world.strays


def test_nothing_of_it_is_seen_outside(world):
    """The machine's own network has none of the addresses, and its files are as they were."""
    out = subprocess.run(["ip", "addr"], capture_output=True, text=True, check=True).stdout
    assert places.WEB not in out
    assert places.RESOLVER not in open("/etc/resolv.conf").read()


def test_datagrams(world):
    def send(address):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"x", (address, 443))
    world.inside(lambda: send(places.WEB))
    wait_until(lambda: world.reached, 5, "a datagram")
    world.inside(lambda: send(places.BEYOND))
    wait_until(lambda: world.strays == [f"17 {places.BEYOND}:443"], 5, "one that nobody takes")
