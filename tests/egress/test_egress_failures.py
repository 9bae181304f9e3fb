"""What goes wrong outside looks inside as it would anywhere; what goes well is byte-exact."""

import hashlib
import json

import pytest

import world as places
from support import MIB, SLOWNESS
from world_dns import Says
from world_servers import pattern

ANY_PORT = ["*.example.org:*"]


@pytest.mark.parametrize("name, errors, why", [
    ("nowhere.example.org", {"EAI_NONAME"}, "no such name"),
    ("broken.example.org", {"EAI_AGAIN"}, "no answer of the name servers")])
def test_names_that_lead_nowhere(traveller, name, errors, why):
    result = traveller.python(f"say(attempt(tcp, {name!r}, 80))")
    assert result.json in errors, result.egress
    result.failed(name, why)


def test_name_servers_that_say_nothing(root_traveller):
    result = root_traveller.python("say(attempt(tcp, 'silent.example.org', 80))")
    assert result.json == "EAI_AGAIN", result.egress
    result.failed("silent.example.org", "no answer of the name servers")


def test_name_without_addresses(root_traveller):
    """It is one, so nothing failed; there is nothing to connect to."""
    result = root_traveller.python("say(attempt(tcp, 'empty.example.org', 80))")
    assert result.json in ("EAI_NONAME", "EAI_NODATA") and not result.of("empty.example.org", "allowed")


def test_closed_port(traveller):
    """The error comes from connect() itself, at once, and as the other side's answer."""
    result = traveller.python("""
name = socket.gethostbyname('tcp.example.org')
s = socket.socket(); began = time.monotonic()
how = attempt(s.connect, (name, 9)); seconds = time.monotonic() - began
n = socket.socket(); n.setblocking(False)
first = attempt(n.connect, (name, 9))
import select
select.select([], [n], [], 5)
say([how, seconds, first, errno.errorcode[n.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]])
""", allow=ANY_PORT)
    how, seconds, first, later = result.json
    assert [how, first, later] == ["ECONNREFUSED", "EINPROGRESS", "ECONNREFUSED"]
    assert seconds < 0.9 * SLOWNESS, "a second is when the kernel tries again"
    assert (9, "connection refused") in result.of("tcp.example.org", "failed")


def test_unreachable(traveller):
    result = traveller.python("say(attempt(tcp, 'unreachable.example.org', 80))")
    assert result.json in ("EHOSTUNREACH", "ENETUNREACH")
    result.failed("unreachable.example.org", "unreachable")


def test_nobody_answers(root_traveller, config):
    """The connect goes on as long as it is allowed to, then fails as one into nothing does."""
    result = root_traveller.python("""
began = time.monotonic()
say([attempt(tcp, 'beyond.example.org', 80, 30), time.monotonic() - began])""", config=config("[network]\nconnect_timeout = 2\n"))
    how, seconds = result.json
    assert how in ("ETIMEDOUT", "EHOSTUNREACH") and 1.9 < seconds < 9 * SLOWNESS
    result.failed("beyond.example.org", "timed out")
    assert any(f"6 {places.BEYOND}:80" == stray for stray in root_traveller.world.strays), "the control: it was tried"


def test_a_program_may_give_up_before(root_traveller):
    result = root_traveller.python("""
say([attempt(tcp, 'beyond.example.org', 80, 0.5), everything(tool('send 5')).hex()])""", allow=ANY_PORT)
    assert result.json == ["slow", pattern(5).hex()]


def test_reset(traveller):
    result = traveller.python("""
s = tool('reset'); first = s.recv(100).decode()
say([first, attempt(s.recv, 1)])""", allow=ANY_PORT)
    assert result.json == ["last words\n", "ECONNRESET"]


def test_end_in_order(traveller):
    """The other side's end is an end, not an error."""
    assert traveller.python("say(everything(tool('send 3')).hex())", allow=ANY_PORT).json == pattern(3).hex()


def test_half_close(traveller):
    """The other side reads to the end, and only then answers."""
    result = traveller.python("""
s = tool('sum'); s.sendall(b'abc'); s.shutdown(socket.SHUT_WR)
say(everything(s).decode())""", allow=ANY_PORT)
    assert json.loads(result.json) == [3, hashlib.sha256(b"abc").hexdigest()]


def test_half_close_of_the_other_side(root_traveller):
    """Our half goes on after theirs has ended; nobody is told of an error."""
    result = root_traveller.python("""
s = tool('echo'); s.sendall(b'one'); one = s.recv(3).decode(); s.sendall(b'two'); s.shutdown(socket.SHUT_WR)
say([one, everything(s).decode()])""", allow=ANY_PORT)
    assert result.json == ["one", "two"]


def test_large_transfers(traveller):
    """100 MB in and 100 MB out, byte for byte, and counted."""
    size = 100 * 1000 * 1000
    result = traveller.python(f"""
s, digest, n = tool('send {size}'), hashlib.sha256(), 0
while data := s.recv(1 << 18): digest.update(data); n += len(data)
piece, left = bytes(range(256)) * 256, {size}
s = tool('sum'); s.settimeout(60)
while left: s.sendall(piece[:left]); left -= len(piece[:left])
s.shutdown(socket.SHUT_WR)
say([n, digest.hexdigest(), everything(s).decode()])""", allow=ANY_PORT)
    expected = hashlib.sha256(pattern(size)).hexdigest()
    n, down, up = result.json
    assert (n, down) == (size, expected) and json.loads(up) == [size, expected]
    entry = result.allowed("tcp.example.org", 9000)
    assert size <= entry["bytes_in"] < size + 1000 and size <= entry["bytes_out"] < size + 1000


def test_many_at_once(root_traveller):
    """200 connections, each with its own answer."""
    result = root_traveller.python("""
sockets = [tool('echo') for _ in range(200)]
for n, s in enumerate(sockets): s.sendall(b'%d' % n); s.shutdown(socket.SHUT_WR)
say([everything(s).decode() for s in sockets] == [str(n) for n in range(200)])""", allow=ANY_PORT)
    assert result.json is True
    assert result.allowed("tcp.example.org", 9000)["times"] == 200


def test_one_beside_the_other(traveller):
    """Each is made while the one before it is still open on one side, and then that one ends."""
    result = traveller.python("""
sizes = []
for _ in range(10):
    s = tool('send 100'); sizes.append(len(everything(s)))
say(sizes)""", allow=ANY_PORT)
    assert result.json == [100] * 10


def test_slow_answers(root_traveller):
    """A byte now and then is no idle connection, and each comes when it was sent."""
    result = root_traveller.python("""
s = tool('slow 6'); times = []
while s.recv(1): times.append(time.monotonic())
say(times[-1] - times[0])""", allow=ANY_PORT)
    assert 0.4 < result.json < 3 * SLOWNESS


def test_either_protocol(traveller):
    """Only IPv6, only IPv4, one address of two that is dead, names of the hosts file."""
    world = traveller.world
    result = traveller.python("""
def get(name):
    s = tcp(name, 80); s.sendall(b'GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' % name.encode()); return everything(s)[-40:].decode()
began = time.monotonic()
say([get(n).rpartition(' ')[2] for n in ('v4.example.org', 'v6.example.org', 'half.example.org', 'listed.example.org')]
    + [time.monotonic() - began])""")
    *hosts, seconds = result.json
    assert hosts == [f"{n}.example.org\n" for n in ("v4", "v6", "half", "listed")]
    assert seconds < 3 * SLOWNESS, "the next address is tried before the dead one is given up"
    assert world.reached_at(places.WEB6) and not world.names.asked_for("listed.example.org")


def test_ipv6_inside_is_empty(root_traveller):
    """AAAA has no records, so that programs take the way there is."""
    result = root_traveller.python("""
how = []
try: how = socket.getaddrinfo('v6.example.org', 80, socket.AF_INET6)
except socket.gaierror as e: how = name_of(e)
say([how, [a[4][0] for a in socket.getaddrinfo('v6.example.org', 80, type=socket.SOCK_STREAM)]])""")
    six, [four] = result.json
    assert six in ("EAI_NODATA", "EAI_NONAME") and four.startswith("198.18.1.")


def test_huge_answer(traveller):
    """More addresses than a datagram holds: the world is asked again by TCP."""
    result = traveller.python("say(attempt(tcp, 'huge.example.org', 80))")
    assert result.json == "worked", result.egress
    assert "huge.example.org" in [q.name for q in traveller.world.names.queries if q.transport == "tcp"]


def chain(world, links, end):
    for n in range(links):
        world.names.zone[f"c{n}.example.org"] = Says(cname=f"c{n + 1}.example.org")
    world.names.zone[f"c{links}.example.org"] = end


def test_chain(root_traveller):
    """A name of a name: only the first one must be allowed, as only it is asked for."""
    world = root_traveller.world
    world.names.zone["first.example.org"] = Says(cname="edge.example.net")
    world.names.zone["edge.example.net"] = Says(a=(places.WEB,))
    chain(world, 8, Says(a=(places.WEB,)))
    result = root_traveller.python("say([attempt(tcp, 'first.example.org', 80), attempt(tcp, 'c0.example.org', 80)])")
    assert result.json == ["worked", "worked"], result.egress


@pytest.mark.parametrize("links, end", [(400, Says(a=(places.WEB,))), (5, Says(cname="c0.example.org"))])
def test_endless_chain(root_traveller, links, end):
    """Ends in time and in order, whatever is made of it; the next name is found."""
    chain(root_traveller.world, links, end)
    result = root_traveller.python("""
began = time.monotonic()
say([attempt(tcp, 'c0.example.org', 80), attempt(tcp, 'www.example.org', 80), time.monotonic() - began])""")
    how, after, seconds = result.json
    assert after == "worked" and seconds < 20 * SLOWNESS
    assert how in ("EAI_NONAME", "EAI_AGAIN", "EAI_NODATA") or (how == "worked" and links == 400), result.egress


def test_an_address_lives_as_long_as_its_answer_says(root_traveller):
    """The world's answer is kept for its time to live, then asked for again."""
    world = root_traveller.world
    world.names.zone["short.example.org"] = Says(a=(places.WEB,), ttl=5)
    result = root_traveller.python("""
for wait in (0, 0.5, 6):
    time.sleep(wait); how = attempt(tcp, 'short.example.org', 80)
say(how)""")
    assert result.json == "worked"
    asked = [q for q in world.names.asked_for("short.example.org") if q.type == "A"]
    assert len(asked) == 2, asked


def test_output_of_a_run_without_egress(root_traveller):
    """A program that goes nowhere has an empty list."""
    result = root_traveller.send("true")
    assert result.ok().egress == [] and result.all["network"] == "allowlist"


@pytest.mark.parametrize("size", [0, 1, 65536, 3 * MIB])
def test_http_bodies(root_traveller, size):
    result = root_traveller.direct("sh", "-c", f"curl -sS http://www.example.org/bytes/{size} | sha256sum")
    assert result.ok().out.split()[0] == hashlib.sha256(pattern(size)).hexdigest()
