"""cay-egress alone, on a stage: a network with public addresses, servers and a name server, and wired networks as islands have.

A test is a function that runs in a process of its own, in namespaces of its own:

    @on_stage(settings="…")
    def test_x(stage):
        net = stage.open("allowlist", "+a.org")
        assert net.do(connect, "a.org", 80) == …

What net.do() calls runs in the island's network, in a process of its own.
"""

import ctypes
import functools
import os
import pathlib
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from support import must_work  # noqa: E402: by the path above

ROOT = pathlib.Path(__file__).resolve().parents[2]
EGRESS = str(pathlib.Path(os.environ.get("CAY_BIN", str(ROOT / "build" / "cay"))).with_name("cay-egress"))
LAY_WIRES = str(ROOT / "build-test" / "tests" / "lay_wires")

PUBLIC, PUBLIC6, NOBODY = "93.184.216.34", "2606:2800:220:1::34", "93.184.216.99"
OWN = "93.184.216.200"  # public, and of the host that cay-egress is on
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
PR_SET_PDEATHSIG = 1
MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 0x40000, 0x1000

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, flags):
    check(libc.mount(source.encode(), target.encode(), None, flags, None))


def fork(fn, *args):
    """A process that calls it and ends: its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check(libc.prctl(PR_SET_PDEATHSIG, 9))
            fn(*args)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def end(pid):
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def configure(*lines):
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


def way(device, mine, other):
    """The addresses of one end of the wire between here and far, and that all else is beyond it."""
    return (f"addr add 192.0.2.{mine}/24 dev {device}", f"-6 addr add fd99::{mine}/64 dev {device} nodad",
            f"link set {device} up", f"route add default via 192.0.2.{other}", f"-6 route add default via fd99::{other}")


# The name server

def question(data):
    """Name and type of a query."""
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels).lower(), struct.unpack_from(">H", data, at + 1)[0], data[12:at + 5]


def serve_names(zone, log):
    """zone: name -> addresses; "late.…" takes its time, "mute.…" says nothing."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 53))
    while True:
        data, who = sock.recvfrom(4096)
        name, kind, asked = question(data)
        with open(log, "a") as f:
            f.write(f"{name}\n")
        if name.startswith("mute."):
            continue
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        known = zone.get(name)
        answers = [socket.inet_pton(family, a) for a in known or () if family and (":" in a) == (kind == 28)]
        records = b"".join(struct.pack(">HHHIH", 0xc00c, kind, 1, 60, len(a)) + a for a in answers)
        head = data[:2] + (b"\x81\x80" if known is not None else b"\x81\x83") + struct.pack(">HHHH", 1, len(answers), 0, 0)
        sock.sendto(head + asked + records, who)


class Net:
    """A wired network, and cay-egress told of it."""

    def __init__(self, stage, number):
        self.stage, self.number = stage, number
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def hold():
            check(libc.unshare(CLONE_NEWNET))
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            subprocess.run([LAY_WIRES, str(theirs.fileno())], pass_fds=[theirs.fileno()], check=True)
            os.execvp("sleep", ["sleep", "1000"])
        self.pid = fork(hold)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 16, 8)
        self.fds = list(fds)
        assert len(self.fds) == 4, "no wires"
        self.ns = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)

    def close_fds(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def start(self, fn, *args):
        """Calls it in the network; finish() waits for it."""
        read, write = os.pipe()

        def inside():
            check(libc.setns(self.ns, CLONE_NEWNET))
            os.close(read)
            try:
                result = fn(*args)
            except OSError as e:
                result = e
            with os.fdopen(write, "wb") as f:
                pickle.dump(result, f)
        pid = fork(inside)
        os.close(write)
        return pid, read

    @staticmethod
    def finish(started):
        pid, read = started
        with os.fdopen(read, "rb") as f:
            data = f.read()
        os.waitpid(pid, 0)
        assert data, "it died"
        return pickle.loads(data)

    def do(self, fn, *args):
        return self.finish(self.start(fn, *args))


MODES = {"none": 0, "allowlist": 1, "full": 2}
OPEN, RULES, REPORT, CLOSE = 1, 2, 3, 4
HELLO, FAILED, REPORTED, CLOSED, TOTALS, DONE = 1, 2, 3, 4, 5, 6
VERDICTS = ["allowed", "denied", "failed"]
WHYS = ["", "not_listed", "blocked", "port", "operator", "literal", "not_public", "name_differs", "head", "protocol", "not_a_name",
        "connections", "bytes", "names", "lookups", "no_such_name", "no_answer", "refused", "unreachable", "timed_out", "reset"]
ENTRY = struct.Struct("=254sBBHHIQQ")
ENTRY_SIZE = 280


def request(kind, mode, number, serial=0):
    return struct.pack("=IIQQ24s", kind, mode, number, serial, b"run_%d" % number)


class Stage:
    def __init__(self, directory, settings, zone):
        self.dir = directory
        self.nets, self.pids, self.number = [], [], 0
        check(libc.unshare(CLONE_NEWNET | CLONE_NEWNS))
        mount("none", "/", MS_REC | MS_PRIVATE)
        # Servers are on another host than cay-egress.
        self.far = os.open("/proc/self/ns/net", os.O_RDONLY)
        configure("link set lo up", f"addr add {PUBLIC}/32 dev lo", f"-6 addr add {PUBLIC6}/128 dev lo")
        check(libc.unshare(CLONE_NEWNET))
        self.here = os.open("/proc/self/ns/net", os.O_RDONLY)
        configure("link set lo up", "link add out type veth peer name beyond",
                  f"link set beyond netns /proc/{os.getpid()}/fd/{self.far}", *way("out", 1, 2), f"addr add {OWN}/32 dev lo")
        self.at_far(configure, *way("beyond", 2, 1))
        for name, text in (("resolv.conf", "nameserver 127.0.0.1\nsearch org\n"), ("hosts", f"{PUBLIC} hosts.file\n")):
            path = os.path.join(self.dir, name)
            pathlib.Path(path).write_text(text)
            mount(path, f"/etc/{name}", MS_BIND)
        self.queries_path = os.path.join(self.dir, "queries")
        pathlib.Path(self.queries_path).write_text("")
        self.pids.append(fork(serve_names, zone, self.queries_path))
        time.sleep(0.05)
        self.begin(settings)

    def begin(self, settings):
        path = os.path.join(self.dir, "settings")
        pathlib.Path(path).write_text(settings)
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = os.open(path, os.O_RDONLY)

        def run():
            a, b = os.dup(theirs.fileno()), os.dup(fd)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.closerange(5, 100)
            os.execv(EGRESS, [EGRESS])
        self.log_path = os.path.join(self.dir, "log")
        saved = os.dup(2)
        log = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        self.egress = fork(run)
        os.dup2(saved, 2)
        os.close(saved)
        os.close(log)
        theirs.close()
        os.close(fd)
        self.channel.settimeout(10)
        assert self.hear(HELLO) is not None

    def at_far(self, fn, *args, **more):
        """Calls it in the network of the servers."""
        check(libc.setns(self.far, CLONE_NEWNET))
        try:
            return fn(*args, **more)
        finally:
            check(libc.setns(self.here, CLONE_NEWNET))

    def serve(self, fn, port, address=PUBLIC, backlog=4096):
        """A server: fn is called with each connection, in the one process that there is for it."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if address in (PUBLIC, PUBLIC6):
            sock = self.at_far(socket.create_server, (address, port), family=family, backlog=backlog)
        else:
            sock = socket.create_server((address, port), family=family, backlog=backlog)
        self.pids.append(fork(fn, sock))
        sock.close()

    def say(self, kind, number, mode="none", rules=(), fds=()):
        socket.send_fds(self.channel, [request(kind, MODES[mode], number) + b"".join(r.encode() + b"\0" for r in rules)], fds)

    def hear(self, kind):
        """The next answer of a kind, as (number, unlisted, entries, raw); others are dropped."""
        while True:
            data = self.channel.recv(1 << 20)
            assert data, "cay-egress has ended: " + self.log()
            got, n, number, unlisted = struct.unpack_from("=IIQQ", data)
            if got == kind:
                break
        entries, at = [], len(data) - n * ENTRY_SIZE
        for k in range(n if kind in (REPORTED, CLOSED) else 0):
            name, verdict, why, port, _, times, bytes_in, bytes_out = ENTRY.unpack_from(data, at + k * ENTRY_SIZE)
            entries.append({"name": name.split(b"\0")[0].decode(), "verdict": VERDICTS[verdict], "why": WHYS[why],
                            "port": port, "times": times, "in": bytes_in, "out": bytes_out})
        return number, unlisted, entries, data

    def open(self, mode, *rules):
        self.number += 1
        net = Net(self, self.number)
        self.nets.append(net)
        self.say(OPEN, net.number, mode, rules, net.fds)
        net.close_fds()
        return net

    def rules(self, net, mode, *rules):
        self.say(RULES, net.number, mode, rules)
        return self.report(net)

    def report(self, net):
        self.say(REPORT, net.number)
        return self.hear(REPORTED)[2]

    def totals(self):
        names = ("networks", "connections", "allowed", "denied", "failed", "in", "out")
        return dict(zip(names, struct.unpack_from("=7Q", self.hear(TOTALS)[3], 32)))

    def queries(self):
        return pathlib.Path(self.queries_path).read_text().split()

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def close(self):
        # All of which have a copy of the channel.
        for pid in self.pids + [n.pid for n in self.nets]:
            end(pid)
        self.channel.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.egress, os.WNOHANG)
            if pid:
                break
            time.sleep(0.01)
        else:
            end(self.egress)
            raise AssertionError("cay-egress does not end with its channel")
        assert status == 0, f"cay-egress ended with {status}: {self.log()}"


ZONE = {"a.org": [PUBLIC], "b.org": [PUBLIC], "six.org": [PUBLIC6], "both.org": [PUBLIC, PUBLIC6], "nobody.org": [NOBODY],
        "private.org": ["10.1.2.3", "127.0.0.1"], "own.org": [OWN], "mixed.org": ["127.0.0.1", PUBLIC], "empty.org": [],
        "slow.org": [NOBODY, PUBLIC]}


def on_stage(settings="", zone=ZONE):
    def decorate(test):
        @functools.wraps(test)
        def wrapped(tmp_path):
            out = tmp_path / "out"
            if os.geteuid() != 0:
                must_work("only root makes such networks here")

            def run():
                fd = os.open(out, os.O_WRONLY | os.O_CREAT, 0o600)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
                stage = Stage(directory, settings, zone)
                try:
                    test(stage)
                except BaseException:
                    print(stage.log(), flush=True)
                    raise
                finally:
                    stage.close()
            with tempfile.TemporaryDirectory(prefix="egress-") as directory:
                _, status = os.waitpid(fork(run), 0)
            assert status == 0, out.read_text()
            print(out.read_text())
        del wrapped.__wrapped__
        return wrapped
    return decorate


# What programs on an island do

def query(name, kind=1, server="198.18.0.1", tcp=False, raw=None, flags=b"\x01\x00"):
    """(rcode, [addresses]); None: no answer."""
    wire = b"".join(bytes([len(x)]) + x.encode() for x in name.split(".") if x) + b"\0"
    data = raw or os.urandom(2) + flags + struct.pack(">HHHH", 1, 0, 0, 0) + wire + struct.pack(">HH", kind, 1)
    if tcp:
        with socket.create_connection((server, 53), timeout=10) as s:
            s.sendall(struct.pack(">H", len(data)) + data)
            answer = receive(s, struct.unpack(">H", receive(s, 2))[0])
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(15)
            s.connect((server, 53))
            s.send(data)
            answer = s.recv(4096)
    assert answer[:2] == data[:2]
    n = struct.unpack_from(">H", answer, 6)[0]
    return answer[3] & 15, [socket.inet_ntoa(answer[-16 * k:][12:16]) for k in range(1, n + 1)]


def receive(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError(data)
        data += more
    return data


def dial(name, port, timeout=15):
    """A connection to a name, by its address; OSError as programs see it."""
    code, found = query(name)
    if code != 0 or not found:
        raise socket.gaierror(code, f"{name}: {code}")
    return socket.create_connection((found[0], port), timeout=timeout)


def talk(name, port, text=b"hello"):
    with dial(name, port) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        out = b""
        while data := s.recv(1 << 16):
            out += data
        return out


def literal(address, port, timeout=15):
    with socket.create_connection((address, port), timeout=timeout) as s:
        s.sendall(b"x")
        s.shutdown(socket.SHUT_WR)
        return s.recv(100)


# What servers do

def echo(sock):
    """One connection after the other: says back what it hears, when it has heard all."""
    while True:
        c, _ = sock.accept()
        data = b""
        try:
            while more := c.recv(1 << 16):
                data += more
            c.sendall(data)
        except ConnectionError:
            pass
        c.close()
