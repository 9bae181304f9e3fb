"""Attacks on the network that is not there."""

import json
import os
import socket

from attack import assert_refused, attack, told, tries

# Other ways to write a loopback or metadata address are the same to the kernel.
ADDRESSES = ["1.1.1.1", "8.8.8.8", "10.0.0.1", "192.168.0.1", "172.17.0.1", "169.254.169.254", "169.254.170.2",
             "100.100.100.200", "224.0.0.1", "255.255.255.255"]


@attack(27)
def test_addresses(island):
    """The internet, private networks, metadata services, multicast, broadcast, by TCP and UDP."""
    results = tries(island, f"""
for address in {ADDRESSES}:
    attempt(f'tcp {{address}}', lambda: socket.create_connection((address, 80), 3))
    attempt(f'udp {{address}}', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (address, 53)))
""")
    assert_refused(results, "ENETUNREACH", "EACCES")


@attack(27)
def test_ipv6(island):
    """IPv6 of every scope, mapped IPv4 and the metadata address."""
    results = tries(island, """
for address in ('2606:4700:4700::1111', 'fe80::1', 'fd00:ec2::254', 'fc00::1', 'ff02::1', '::ffff:1.1.1.1',
                '::ffff:169.254.169.254', '64:ff9b::101:101', '2002:101:101::1'):
    attempt(address, lambda: socket.create_connection((address, 80), 3))
    attempt('udp ' + address, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', (address, 53)))
""")
    assert_refused(results, "ENETUNREACH", "EADDRNOTAVAIL", "EINVAL", "EHOSTUNREACH", "EACCES")


@attack(27)
def test_only_loopback_of_its_own(island):
    """Interfaces, routes and neighbours: lo alone; the control: it works."""
    found = json.loads(island.run("-c", """
import json, os, socket
s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); a, _ = s.accept()
c.sendall(b'hi')
print(json.dumps([[n for _, n in socket.if_nameindex()], open('/proc/net/route').read().splitlines()[1:],
                  open('/proc/net/arp').read().splitlines()[1:], a.recv(2).decode(),
                  [l.split()[0] for l in open('/proc/net/dev').read().splitlines()[2:]]]))""").ok().text)
    assert found == [["lo"], [], [], "hi", ["lo:"]]
    told("lo alone")


@attack(27)
def test_names(island):
    """DNS by the C library, by hand to usual servers, over TCP; the host's own resolver on 127.0.0.53."""
    out = island.run("-c", """
import errno, socket
names = []
for name in ('example.com', 'localhost.localdomain', 'metadata.google.internal', 'host.docker.internal', 'a.local'):
    try: socket.getaddrinfo(name, 80); names.append(name)
    except socket.gaierror: pass
query = bytes.fromhex('123401000001000000000000076578616d706c6503636f6d0000010001')
for server in ('127.0.0.53', '127.0.0.1', '127.0.0.11', '8.8.8.8', '10.0.0.2'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2)
    try: s.connect((server, 53)); s.send(query); s.recv(512); names.append(server)
    except OSError: pass
    try: socket.create_connection((server, 53), 0.2); names.append(server + ' tcp')
    except OSError: pass
print(names, socket.getaddrinfo('localhost', 80, socket.AF_INET)[0][4][0], open('/etc/resolv.conf').read().count('nameserver'))""").ok().text
    assert out.startswith("[] 127.0.0.1"), out
    told("none")


@attack(27)
def test_services_of_the_host(island, place):
    """A service of the host's on 127.0.0.1, ::1, an abstract and a pathname socket, by all names of the host."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract, \
            socket.socket(socket.AF_UNIX) as path:
        port = tcp.getsockname()[1]
        abstract.bind(f"\0cay-27-{port}")
        abstract.listen()
        path.bind(str(place / "s"))
        path.listen()
        os.chmod(place / "s", 0o777)
        socket.create_connection(("127.0.0.1", port)).close()  # the control: it listens
        results = tries(island, f"""
for address in ('127.0.0.1', '127.1', '0.0.0.0', '0x7f000001', '2130706433', '::1', '::ffff:127.0.0.1', 'localhost',
                '127.255.255.254'):
    attempt(address, lambda: socket.create_connection((address, {port}), 3))
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0cay-27-{port}'))
attempt('path', lambda: socket.socket(socket.AF_UNIX).connect({str(place / "s")!r}))
""")
    assert_refused(results, "ECONNREFUSED", "ENOENT", "EADDRNOTAVAIL", "ENETUNREACH")


@attack(27)
def test_vsock_and_its_like(island):
    """vsock to the hypervisor, Bluetooth, raw packets, a tun device."""
    results = tries(island, """
for name, family in dict(vsock=40, bluetooth=31, packet=17, can=29, llc=26, xdp=44, smc=43, qrtr=42).items():
    for kind in (1, 2, 3, 5): attempt(f'{name} {kind}', lambda: call(41, family, kind, 0))
attempt('tun', lambda: os.open('/dev/net/tun', os.O_RDWR))
attempt('vsock device', lambda: os.open('/dev/vsock', os.O_RDWR))
""")
    assert_refused(results, "EPERM", "EAFNOSUPPORT", "ENOENT")
