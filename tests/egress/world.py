"""A world for tests: a network of its own in which cay runs, with name servers, public and private addresses and servers.

    holder          `cat` as PID 1 of new pid, mount and network namespaces: they end with it, and it
                    with us, as its standard input is ours.
    its network     lo, with every address there is; all others are beyond a veth pair, where nobody
                    answers, but what is sent there is noted (`strays`).
    home            the network of the host that cay is on, one hop away from all that; servers are there, too, on its
                    loopback and on its own public address.
    its files       the machine's, with a resolv.conf and a hosts of the world's own.
    servers         threads of this process with sockets that were born in those networks, so that a test can
                    program them and look at what they saw; sshd and PostgreSQL are processes.

cay is started at home, in the world's mounts, by nsenter; its pids are the test's own, as traces() looks at those.
"""

import ctypes
import functools
import os
import pathlib
import socket
import struct
import subprocess
import threading
import time

import world_dns
import world_programs
import world_servers
from support import SLOWNESS, must_work
from world_dns import Says

# Where who is. The names below example.org are what tests allow, the others what they don't.
WEB, WEB6 = "93.184.216.34", "2606:2800:220:1::34"
OTHER, OTHER6 = "151.101.1.69", "2a04:4e42::645"
RESOLVER, OTHER_RESOLVER = "192.168.53.53", "8.8.8.8"
METADATA, METADATA6 = "169.254.169.254", "fd00:ec2::254"
PRIVATE = "10.1.2.3"
OWN, OWN6 = "93.184.216.200", "2606:2800:220:1::200"  # of the host that cay is on
UNREACHABLE = "93.184.216.99"  # the world's routers say so
BEYOND = "93.184.216.100"      # nobody answers; as all that is not named here
MANY = "93.185.0.0/16"         # all of them here

ADDRESSES = [WEB, OTHER, RESOLVER, OTHER_RESOLVER, METADATA, PRIVATE, "172.16.0.1", "192.168.1.1", "100.64.0.1",
             "192.0.0.192", "100.100.100.200"]
ADDRESSES6 = [WEB6, OTHER6, METADATA6, "fc00::1", "64:ff9b::a01:203", "2002:a01:203::1"]

HOSTS = ["www.example.org", "pypi.example.org", "npm.example.org", "git.example.org", "db.example.org",
         "tcp.example.org", "deep.below.example.org", "example.org"]
FORBIDDEN = ["other.example.net", "evil.test", "goodexample.org", "example.org.evil.test"]

# This machine's own may lead elsewhere, as its other variables may.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

HOME, FAR = "home", "far"

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 0x0003


def zone():
    """What the name server says before a test changes it."""
    known = {name: Says(a=(WEB,), aaaa=(WEB6,)) for name in HOSTS}
    known |= {name: Says(a=(OTHER,), aaaa=(OTHER6,)) for name in FORBIDDEN}
    known |= {
        "v4.example.org": Says(a=(WEB,)),
        "v6.example.org": Says(aaaa=(WEB6,)),
        "silent.example.org": world_dns.SILENCE,
        "broken.example.org": world_dns.SERVFAIL,
        "unreachable.example.org": Says(a=(UNREACHABLE,)),
        "beyond.example.org": Says(a=(BEYOND,)),
        "half.example.org": Says(a=(BEYOND, WEB)),
        "huge.example.org": Says(a=tuple(f"93.185.{n // 250}.{n % 250}" for n in range(500))),
        "empty.example.org": Says(),
    }
    return known


def authority(place):
    """A certificate authority and a certificate of its for all names; returns the paths of both."""
    names = ["*.example.org", "*.below.example.org", "*.example.net", *HOSTS, *FORBIDDEN]
    (place / "names").write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in names) + "\n"
                                 "extendedKeyUsage=serverAuth\n")

    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], cwd=place, check=True, capture_output=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=world", "-days", "2",
            "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=www.example.org")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
            "certificate.pem", "-days", "2", "-extfile", "names")
    (place / "both.pem").write_text((place / "certificate.pem").read_text() + (place / "key.pem").read_text())
    return place / "ca.pem", place / "both.pem"


class World:
    def __init__(self, place):
        if os.geteuid() != 0:
            must_work("only root can make a world")
        self.place = pathlib.Path(place)
        self.reached, self.strays, self.files = [], [], {}
        self.names = world_dns.Names()
        self.servers, self.processes = [], []
        try:
            self._begin()
        except BaseException:
            self.end()
            raise

    # Its life

    def _begin(self):
        self.unshare = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # What comes back went through all of it.
        self.unshare.stdin.write(b"\n")
        self.unshare.stdin.flush()
        self.unshare.stdout.readline()
        pid = self.unshare.pid
        self.holder = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())
        self._make_network()
        self.ca, certificate = authority(self.place)
        self.files = world_programs.indexes()
        self.reset()
        self.servers = self.inside(lambda: [
            *world_servers.serve(self, certificate),
            *(server for address in (RESOLVER, OTHER_RESOLVER) for server in world_dns.serve(self.names, address))], FAR)
        self.servers += self.inside(lambda: world_servers.serve(self, certificate))
        self.inside(self._listen_for_strays, FAR)

    def end(self):
        """All of it, whatever state it is in."""
        for server in self.servers:
            server.shutdown()
            server.server_close()
        if hasattr(self, "unshare"):
            self.unshare.stdin.close()
            self.unshare.wait(10)
            self.unshare.stdout.close()
        for process in self.processes:
            process.wait(10)

    def _make_network(self):
        (self.place / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
        (self.place / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{WEB} listed.example.org\n")
        lines = ["ip link set lo up",
                 # So that an ordinary user's sshd may listen where ssh looks for it.
                 "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
                 *(f"ip addr add {a}/32 dev lo" for a in ADDRESSES),
                 *(f"ip addr add {a}/128 dev lo nodad" for a in ADDRESSES6),
                 "ip link add beyond type veth peer name wire",
                 "for d in beyond wire; do echo 0 >/proc/sys/net/ipv6/conf/$d/accept_dad; ip link set $d up; done",
                 # Nobody on the other side has this address: what is sent there is seen and dropped.
                 "ip addr add 192.168.99.2/24 dev beyond; ip addr add fd99::2/64 dev beyond nodad",
                 *(f"ip neigh add {a} lladdr 02:00:00:00:00:99 dev beyond nud permanent"
                   for a in ("192.168.99.1", "fd99::1")),
                 "ip route add default via 192.168.99.1; ip -6 route add default via fd99::1",
                 f"ip route add unreachable {UNREACHABLE}",
                 f"ip route add local {MANY} dev lo",
                 "for f in ipv4/ip_forward ipv6/conf/all/forwarding; do echo 1 >/proc/sys/net/$f; done",
                 # A router that says each time what can't be reached.
                 "for f in ipv4/icmp_ratelimit ipv6/icmp/ratelimit; do echo 0 >/proc/sys/net/$f; done",
                 *(f"mount --bind {self.place}/{name} /etc/{name}" for name in ("resolv.conf", "hosts"))]
        lines += [f"touch {self.place}/home; unshare --net={self.place}/home true",
                  f"ip link add door type veth peer name home netns {self.place}/home",
                  *way("door", 1),
                  f"nsenter --net={self.place}/home sh -euc '",
                  "ip link set lo up",
                  f"ip addr add {OWN}/32 dev lo; ip addr add {OWN6}/128 dev lo nodad",
                  *way("home", 2),
                  "ip route add default via 192.168.77.1; ip -6 route add default via fd77::1'",
                  f"ip route add {OWN} via 192.168.77.2; ip -6 route add {OWN6} via fd77::2"]
        done = self.run("sh", "-euc", "\n".join(lines), net=FAR)
        assert done.returncode == 0, done.stderr

    def _listen_for_strays(self):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        sock.bind(("wire", ETH_P_ALL))

        def take():
            while True:
                try:
                    frame, (_, _, kind, *_) = sock.recvfrom(65535)
                except OSError:
                    return
                # Only what was sent to the way out, not what the kernel says among neighbours.
                if kind == socket.PACKET_OTHERHOST and frame[:6] == bytes.fromhex("020000000099"):
                    self.strays.append(describe(frame))
        sock.settimeout(None)
        threading.Thread(target=take, daemon=True).start()

    @functools.cached_property
    def programs(self):
        """sshd and PostgreSQL, from when a test first wants them."""
        return world_programs.Programs(self, self.place)

    # What tests do with it

    def reset(self):
        """Nothing was asked or reached, and names say what they did at first."""
        self.names.zone = zone()
        self.names.forget()
        self.reached.clear()
        self.strays.clear()

    def settle(self):
        """The same, once servers have noted what they were sent so far."""
        seen = -1
        while seen != len(self.reached):
            seen = len(self.reached)
            time.sleep(0.2 * SLOWNESS)
        self.reset()

    def net(self, net):
        """The file of a network: FAR, or of the host that cay is on."""
        return f"/proc/{self.holder}/" + ("ns/net" if net == FAR else f"root{self.place}/home")

    def enter(self, directory="/", net=HOME):
        """The words in front of a command that is to run in the world; its pids are ours."""
        return ["nsenter", f"--net={self.net(net)}", f"--mount=/proc/{self.holder}/ns/mnt", f"--wdns={directory}", "--"]

    def run(self, *command, cwd="/", net=HOME, **more):
        """A program of the world's own, to its end."""
        env = {"PATH": PATH, "HOME": str(self.place), **more.pop("env", {})}
        return subprocess.run([*self.enter(cwd, net), *map(str, command)], capture_output=True, text=True, timeout=60,
                              env=env, **more)

    def start(self, *command, cwd="/"):
        """One that lives as long as the world: in its pid namespace, so that it can't outlive it."""
        space = f"/proc/{self.holder}/ns"
        log = open(self.place / f"log.{len(self.processes)}", "wb")
        with log:
            self.processes.append(subprocess.Popen(
                ["nsenter", f"--net={space}/net", f"--mount={space}/mnt", f"--pid={space}/pid", f"--wdns={cwd}", "--",
                 *map(str, command)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": PATH}))

    def inside(self, function, net=HOME):
        """What the function returns when called by a thread that is in one of the world's networks."""
        result = []

        def call():
            libc = ctypes.CDLL(None, use_errno=True)
            fd = os.open(self.net(net), os.O_RDONLY | os.O_CLOEXEC)
            try:
                if libc.setns(fd, CLONE_NEWNET) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
                result.append((True, function()))
            except BaseException as e:  # the caller's to see
                result.append((False, e))
            finally:
                os.close(fd)
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        good, value = result[0]
        if not good:
            raise value
        return value

    def connects(self, address, port, net=HOME):
        try:
            self.inside(lambda: socket.create_connection((address, port), 5).close(), net)
            return True
        except OSError:
            return False

    def saw(self, *names):
        """What of these names, or of anything sent nowhere, reached a server; [] where nothing did."""
        return ([q for name in names for q in self.names.asked_for(name)]
                + [r for r in self.reached if r.host.partition(":")[0] in names] + self.strays)

    def reached_at(self, *addresses):
        return [r for r in self.reached if r.address in addresses]


def way(device, mine):
    """One end of the wire between home and far."""
    return (f"echo 0 >/proc/sys/net/ipv6/conf/{device}/accept_dad; ip link set {device} up",
            f"ip addr add 192.168.77.{mine}/24 dev {device}; ip addr add fd77::{mine}/64 dev {device} nodad")


def describe(frame):
    """"17 8.8.8.8:53" of a packet that was on its way out."""
    kind, packet = struct.unpack("!H", frame[12:14])[0], frame[14:]
    if kind == 0x0800:
        protocol, address = packet[9], socket.inet_ntop(socket.AF_INET, packet[16:20])
        rest = packet[(packet[0] & 15) * 4:]
    else:
        protocol, address = packet[6], socket.inet_ntop(socket.AF_INET6, packet[24:40])
        rest = packet[40:]
    port = struct.unpack("!H", rest[2:4])[0] if protocol in (6, 17) else 0
    return f"{protocol} {address}:{port}"
