"""What cay-egress does for the networks it is told of, without cay around it."""

import errno
import os
import select
import socket
import struct
import subprocess
import time

from stage import CLOSE, CLOSED, OWN, PUBLIC, PUBLIC6, dial, echo, literal, on_stage, query, receive, request, talk


def entry(entries, name, port=None):
    found = [e for e in entries if e["name"] == name and port in (None, e["port"])]
    assert len(found) == 1, (name, entries)
    return found[0]


def is_error(result, *numbers):
    return isinstance(result, OSError) and result.errno in numbers


@on_stage()
def test_an_allowed_name_is_reached_and_others_are_not(stage):
    stage.serve(echo, 80)
    net = stage.open("allowlist", "+a.org")
    assert net.do(talk, "a.org", 80) == b"hello"
    assert net.do(query, "b.org") == (3, [])
    assert "b.org" not in stage.queries() and "a.org" in stage.queries()
    entries = stage.report(net)
    a = entry(entries, "a.org")
    assert (a["verdict"], a["port"], a["times"], a["in"], a["out"]) == ("allowed", 80, 1, 5, 5)
    assert entry(entries, "b.org")["why"] == "not_listed"


@on_stage()
def test_what_is_not_there_looks_as_it_does_elsewhere(stage):
    net = stage.open("allowlist", "+*:*")
    assert net.do(query, "nowhere.org") == (3, [])
    assert net.do(query, "empty.org") == (0, [])
    assert net.do(query, "a.org", 28) == (0, [])
    assert net.do(query, "a.org", 16) == (0, [])
    assert is_error(net.do(talk, "a.org", 81), errno.ECONNREFUSED)
    assert is_error(net.do(literal, PUBLIC, 80), errno.ECONNREFUSED)
    assert net.do(query, "private.org") == (3, [])
    entries = stage.report(net)
    assert entry(entries, "nowhere.org")["why"] == "no_such_name"
    assert entry(entries, "a.org")["why"] == "refused"
    assert entry(entries, PUBLIC)["why"] == "literal"
    assert entry(entries, "private.org")["why"] == "not_public"


@on_stage()
def test_dns_over_tcp_and_to_others(stage):
    net = stage.open("allowlist", "+a.org")
    assert net.do(query, "a.org", 1, "198.18.0.1", True) == (0, ["198.18.1.0"])
    assert net.do(query, "a.org", 1, "8.8.8.8") == (5, [])
    assert is_error(net.do(query, "a.org", 1, "8.8.8.8", True), errno.ECONNREFUSED)
    assert entry(stage.report(net), "8.8.8.8")["why"] == "literal"
    full = stage.open("full")
    for tcp in (False, True):
        assert full.do(query, "a.org", 1, "8.8.8.8", tcp) == (0, ["198.18.1.0"])


@on_stage()
def test_names_are_not_completed_and_the_hosts_file_is_read(stage):
    """The stage's resolv.conf says "search org", and its hosts file knows hosts.file."""
    net = stage.open("allowlist", "+*")
    assert net.do(query, "a") == (3, [])
    assert net.do(query, "hosts.file")[0] == 0
    assert "hosts.file" not in stage.queries()


@on_stage()
def test_full_mode(stage):
    stage.serve(echo, 25)
    net = stage.open("full", "-b.org")
    assert net.do(literal, PUBLIC, 25) == b"x"
    assert net.do(talk, "a.org", 25) == b"hello"
    assert net.do(query, "b.org") == (3, [])
    assert net.do(query, "private.org") == net.do(query, "own.org") == (3, [])
    assert entry(stage.report(net), "private.org")["why"] == "not_public"
    for address in ("10.0.0.1", "169.254.169.254", "198.18.5.5", "192.168.1.1", "100.64.0.1"):
        assert is_error(net.do(literal, address, 80), errno.ECONNREFUSED), address
        assert entry(stage.report(net), address)["why"] == "not_public"


@on_stage()
def test_addresses_of_both_kinds(stage):
    stage.serve(echo, 80, PUBLIC6)
    stage.serve(echo, 81)
    net = stage.open("allowlist", "+*:*")
    assert net.do(talk, "six.org", 80) == b"hello"
    assert net.do(talk, "both.org", 80) == b"hello"
    assert net.do(talk, "both.org", 81) == b"hello"
    assert net.do(talk, "mixed.org", 81) == b"hello"
    begin = time.monotonic()
    assert net.do(talk, "slow.org", 81) == b"hello"
    assert 0.2 < time.monotonic() - begin < 2


@on_stage("[network]\nconnect_timeout = 2\n")
def test_nobody_answers(stage):
    net = stage.open("allowlist", "+*")
    begin = time.monotonic()
    talking = net.start(talk, "nobody.org", 80)
    assert net.do(query, "mute.org")[0] == 2
    assert is_error(net.finish(talking), errno.EHOSTUNREACH, errno.ETIMEDOUT)
    assert 1.9 < time.monotonic() - begin < 9
    entries = stage.report(net)
    assert entry(entries, "nobody.org")["why"] == "timed_out"
    assert entry(entries, "mute.org")["why"] == "no_answer"


@on_stage("[network]\naddress = 127.0.0.1:81\n")
def test_addresses_that_the_operator_lists(stage):
    stage.serve(echo, 81, "127.0.0.1")
    stage.serve(echo, 82, "127.0.0.1")
    net = stage.open("allowlist", "+host.cay.internal:*", "+private.org:*")
    assert net.do(talk, "host.cay.internal", 81) == b"hello"
    assert net.do(talk, "private.org", 81) == b"hello"
    assert is_error(net.do(talk, "host.cay.internal", 82), errno.ECONNREFUSED)
    assert "host.cay.internal" not in stage.queries()


@on_stage(f"[network]\naddress = {OWN}:81\n")
def test_addresses_of_the_host_itself(stage):
    """No firewall stands between them and us: what listens there is the host's to open."""
    for port in (80, 81):
        stage.serve(echo, port, OWN)
    net = stage.open("full")
    assert is_error(net.do(talk, "own.org", 80), errno.ECONNREFUSED)
    assert is_error(net.do(literal, OWN, 80), errno.ECONNREFUSED)
    assert net.do(talk, "own.org", 81) == b"hello"
    assert entry(stage.report(net), "own.org", port=80)["why"] == "not_public"


def exchange_halves(name, port):
    """Ends its half, and hears all that comes after."""
    with dial(name, port) as s:
        s.sendall(bytes(100000))
        s.shutdown(socket.SHUT_WR)
        total = 0
        while data := s.recv(1 << 16):
            total += len(data)
        return total


def count_then_send(sock):
    while True:
        c, _ = sock.accept()
        total = 0
        while data := c.recv(1 << 16):
            total += len(data)
        time.sleep(0.05)
        c.sendall(b"y" * (2 * total))
        c.close()


def speak_first_and_listen(sock):
    """Ends its own half first."""
    while True:
        c, _ = sock.accept()
        c.sendall(b"bye")
        c.shutdown(socket.SHUT_WR)
        data = b""
        while more := c.recv(1000):
            data += more
        os.write(sock_pipe[1], data)
        c.close()


sock_pipe = os.pipe()


def hear_and_speak(name, port):
    with dial(name, port) as s:
        heard = receive(s, 3)
        assert s.recv(10) == b""
        time.sleep(0.05)
        s.sendall(b"still here")
    return heard


@on_stage()
def test_half_a_connection_can_end(stage):
    stage.serve(count_then_send, 80)
    stage.serve(speak_first_and_listen, 443)
    net = stage.open("allowlist", "+a.org")
    assert net.do(exchange_halves, "a.org", 80) == 200000
    assert net.do(hear_and_speak, "a.org", 443) == b"bye"
    assert os.read(sock_pipe[0], 100) == b"still here"


def close_or_shut(name, port, closes, seconds):
    """Ends its half of a connection; what comes within a time, and how it ends."""
    s = dial(name, port)
    s.sendall(b"\0")
    if not closes:
        s.shutdown(socket.SHUT_WR)
        s.settimeout(seconds)
        return s.recv(10)
    s.close()
    return time.sleep(seconds)


@on_stage()
def test_a_far_side_that_never_ends(stage):
    """Of a socket that was closed nothing is kept for long; one that only says no more may wait for its answer."""
    stage.serve(keep_all, 80)
    closed, waiting = stage.open("allowlist", "+a.org"), stage.open("allowlist", "+a.org")
    # The kernel's own minute, in which it answers for a socket that was closed.
    closed.do(lambda: open("/proc/sys/net/ipv4/tcp_fin_timeout", "w").write("1"))
    ends = [closed.start(close_or_shut, "a.org", 80, True, 7), waiting.start(close_or_shut, "a.org", 80, False, 7)]
    while stage.totals()["connections"] < 2:
        pass
    begin = time.monotonic()
    while stage.totals()["connections"] > 1:
        assert time.monotonic() - begin < 9
    assert isinstance(waiting.finish(ends[1]), TimeoutError)
    closed.finish(ends[0])


def reset(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()


def reset_all(sock):
    while True:
        c, _ = sock.accept()
        c.recv(1)
        reset(c)


def tell_resets(sock):
    while True:
        c, _ = sock.accept()
        try:
            while c.recv(10):
                pass
            os.write(sock_pipe[1], b"end")
        except ConnectionResetError:
            os.write(sock_pipe[1], b"reset")


def send_and_listen(name, port):
    with dial(name, port) as s:
        s.sendall(b"\0")
        return s.recv(1)


def send_and_reset(name, port):
    s = dial(name, port)
    s.sendall(b"\0")
    time.sleep(0.1)
    reset(s)


@on_stage()
def test_resets_are_passed_on(stage):
    stage.serve(reset_all, 80)
    stage.serve(tell_resets, 443)
    net = stage.open("allowlist", "+a.org")
    assert is_error(net.do(send_and_listen, "a.org", 80), errno.ECONNRESET)
    net.do(send_and_reset, "a.org", 443)
    assert os.read(sock_pipe[0], 100) == b"reset"


def keep_all(sock):
    kept = []
    while True:
        kept.append(sock.accept()[0])


def keep_while_open(sock):
    """As many at once as there are, each until the other side ends it."""
    kept = [sock]
    while True:
        for s in select.select(kept, [], [])[0]:
            if s is sock:
                kept.append(sock.accept()[0])
            elif not s.recv(1000):
                s.close()
                kept.remove(s)


def connect_many(name, port, n, seconds=0):
    """How many of n connections at once there were, and what became of the others."""
    kept, errors = [], []
    _, found = query(name)
    for _ in range(n):
        try:
            kept.append(socket.create_connection((found[0], port), timeout=10))
        except OSError as e:
            errors.append(e.errno)
    time.sleep(seconds)
    return len(kept), errors


@on_stage("[network]\nconnections = 5\ntotal_connections = 8\n")
def test_connections_are_limited(stage):
    stage.serve(keep_while_open, 80)
    nets = [stage.open("allowlist", "+a.org") for _ in range(2)]
    first = nets[0].start(connect_many, "a.org", 80, 7, 2)
    while stage.totals()["connections"] < 5:
        pass
    assert nets[1].do(connect_many, "a.org", 80, 7) == (3, [errno.ECONNREFUSED] * 4)
    assert nets[0].finish(first) == (5, [errno.ECONNREFUSED] * 2)
    assert {e["why"]: e["times"] for e in stage.report(nets[0])} == {"": 5, "connections": 2}
    while stage.totals()["connections"] > 0:
        pass
    assert nets[1].do(connect_many, "a.org", 80, 5) == (5, [])


def pour(sock):
    while True:
        c, _ = sock.accept()
        time.sleep(0.05)
        try:
            while True:
                c.sendall(b"z" * 65536)
        except OSError:
            c.close()


def drink(name, port, seconds=60):
    """Bytes until it ends, and in how long."""
    total, begin = 0, time.monotonic()
    with dial(name, port) as s:
        try:
            while time.monotonic() - begin < seconds and (data := s.recv(1 << 18)):
                total += len(data)
        except ConnectionResetError:
            pass
    return total, time.monotonic() - begin


@on_stage("[network]\nbytes = 20000000\n")
def test_bytes_are_limited(stage):
    stage.serve(pour, 80)
    net = stage.open("allowlist", "+a.org")
    total, _ = net.do(drink, "a.org", 80)
    assert 1000000 < total <= 20000000
    assert is_error(net.do(drink, "a.org", 80), errno.ECONNREFUSED)
    entries = {e["why"]: e for e in stage.report(net)}
    assert entries[""]["in"] == 20000000 and entries["bytes"]["times"] == 2


@on_stage("[network]\nrate = 1000000\n")
def test_the_rate_is_limited(stage):
    stage.serve(pour, 80)
    net = stage.open("allowlist", "+a.org")
    total, seconds = net.do(drink, "a.org", 80, 2)
    assert 0.7 < total / seconds / 1000000 < 1.3


def drink_from(name, ports, seconds):
    """Bytes of each of some connections at once, in the same time."""
    socks = [dial(name, port) for port in ports]
    totals = dict.fromkeys(socks, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for s in select.select(socks, [], [], 0.1)[0]:
            totals[s] += len(s.recv(1 << 18))
    return list(totals.values())


@on_stage("[network]\ntotal_rate = 2000000\n")
def test_the_rate_of_all_is_kept_and_shared(stage):
    """Between networks, however many connections each has; and within one between those."""
    for port in range(1, 10):
        stage.serve(pour, port)
    modest, greedy = (stage.open("allowlist", "+a.org:*") for _ in range(2))
    drinking = [net.start(drink_from, "a.org", ports, 3) for net, ports in ((modest, [1]), (greedy, range(2, 10)))]
    one, many = (modest.finish(d) for d in drinking)
    assert 0.7 < (sum(one) + sum(many)) / 3 / 2000000 < 1.2, (one, many)
    assert 0.6 < sum(one) / sum(many) < 1.6, (one, many)
    assert min(many) > max(many) / 3, many


@on_stage("[network]\nconnection_rate = 5\n")
def test_new_connections_have_a_rate(stage):
    """Those that are more come later; of all of them none fails, and others' have their own."""
    stage.serve(echo, 80)
    stage.serve(keep_while_open, 443)
    hasty, other = stage.open("allowlist", "+a.org"), stage.open("allowlist", "+a.org")
    begin = time.monotonic()
    connecting = hasty.start(connect_many, "a.org", 443, 15)
    assert other.do(talk, "a.org", 80) == b"hello" and time.monotonic() - begin < 1
    assert hasty.finish(connecting) == (15, [])
    assert 1.8 < time.monotonic() - begin < 8, time.monotonic() - begin
    assert entry(stage.report(hasty), "a.org")["times"] == 15


def ask_all(names, enough=None):
    """Answers to questions that are asked all at once, or enough of them, with when each came."""
    found, begin = {}, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect(("198.18.0.1", 53))
        for k, name in enumerate(names):
            wire = b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0"
            s.send(struct.pack(">HHHHHH", k, 256, 1, 0, 0, 0) + wire + b"\0\1\0\1")
        while len(found) < (enough or len(names)):
            answer = s.recv(4096)
            found[answer[0] << 8 | answer[1]] = (answer[3] & 15, time.monotonic() - begin)
    return found


@on_stage("[network]\nlookup_rate = 10\n")
def test_lookups_have_a_rate(stage):
    """Those that are more wait, up to a number; names that are known cost none."""
    net = stage.open("allowlist", "+*")
    found = net.do(ask_all, [f"x{k}.org" for k in range(20)])
    assert {code for code, _ in found.values()} == {3}
    assert 0.8 < max(when for _, when in found.values()) < 4
    assert net.do(query, "a.org")[0] == 0
    assert max(when for _, when in net.do(ask_all, ["a.org"] * 30 + ["b.org"]).values()) < 1
    net = stage.open("allowlist", "+*")
    assert len(net.do(ask_all, [f"y{k}.org" for k in range(160)], 36)) == 36
    assert {e["why"] for e in stage.report(net)} == {"no_such_name", "lookups"}


@on_stage("[network]\nidle_timeout = 1\n")
def test_who_says_nothing_is_left(stage):
    stage.serve(keep_all, 80)
    net = stage.open("allowlist", "+a.org")
    begin = time.monotonic()
    assert is_error(net.do(send_and_listen, "a.org", 80), errno.ECONNRESET)
    assert 0.9 < time.monotonic() - begin < 3


@on_stage()
def test_new_rules_apply_at_once(stage):
    stage.serve(pour, 80)
    net = stage.open("allowlist", "+a.org")
    drinking = net.start(drink, "a.org", 80)
    time.sleep(0.3)
    entries = stage.rules(net, "allowlist", "+b.org")
    total, seconds = net.finish(drinking)
    assert total > 0 and seconds < 2
    assert {e["why"] for e in entries} == {"", "not_listed"}
    assert net.do(query, "a.org") == (3, [])
    assert net.do(query, "b.org")[0] == 0
    # The address is still known inside: of no use.
    assert is_error(net.do(literal, "198.18.1.0", 80), errno.ECONNREFUSED)


def send_datagram(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((address, port))
        s.send(b"x")
        return s.recv(10)


@on_stage()
def test_datagrams_are_refused(stage):
    for net in (stage.open("allowlist", "+*:*"), stage.open("full")):
        assert is_error(net.do(send_datagram, PUBLIC, 123), errno.ECONNREFUSED)
        assert entry(stage.report(net), PUBLIC)["why"] == "protocol"


@on_stage()
def test_requests_that_make_no_sense(stage):
    stage.serve(echo, 80)
    net = stage.open("allowlist", "+a.org")
    null = os.open("/dev/null", os.O_RDWR)
    sockets = socket.socketpair() + socket.socketpair()
    pair = [s.fileno() for s in sockets]
    for packet, fds in ((b"", []), (b"x", []), (b"x" * 15, [null]), (request(1, 1, 9), []),
                        (request(1, 1, 9), [null] * 4), (request(1, 1, 9), pair),
                        (request(1, 99, 9), pair), (request(1, 1, 0), pair),
                        (request(1, 1, net.number), pair), (request(2, 1, 77), []),
                        (request(2, 1, net.number) + b"+a..b\0", []),
                        (request(2, 1, net.number) + b"+a.org", [null]),
                        (request(3, 0, 77), []), (request(4, 0, 77), []),
                        (request(99, 0, 77), [null] * 16), (b"\xff" * 131072, []), (b"\xff" * 140000, [])):
        if packet:
            socket.send_fds(stage.channel, [packet], fds)
    assert net.do(talk, "a.org", 80) == b"hello"
    assert len(os.listdir(f"/proc/{stage.egress}/fd")) < 25


@on_stage()
def test_closing_tells_all_and_ends_all(stage):
    stage.serve(pour, 80)
    net = stage.open("allowlist", "+a.org")
    drinking = net.start(drink, "a.org", 80)
    time.sleep(0.3)
    stage.say(CLOSE, net.number)
    number, unlisted, entries, _ = stage.hear(CLOSED)
    assert number == net.number and unlisted == 0 and entry(entries, "a.org")["in"] > 0
    net.finish(drinking)
    again = stage.open("allowlist", "+a.org")
    assert again.do(drink, "a.org", 80, 0.1)[0] > 0


def ask_for_many(n):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("198.18.0.1", 53))
        for k in range(n):
            s.send(struct.pack(">HHHHHH", k & 0xffff, 256, 1, 0, 0, 0) + b"\6n%05d\3org\0" % k + b"\0\1\0\1")
            if k % 50 == 0:
                time.sleep(0.001)
    return n


@on_stage()
def test_entries_are_counted_when_they_are_too_many(stage):
    net = stage.open("allowlist", "+a.org")
    net.do(ask_for_many, 300)
    stage.say(CLOSE, net.number)
    _, unlisted, entries, _ = stage.hear(CLOSED)
    assert len(entries) == 75 and unlisted > 50
    assert stage.log().count('"denied"') < 60


def see_congestion_control(name, port):
    """What the kernel uses for a connection, at both of its ends."""
    with dial(name, port) as s:
        s.sendall(b"x")
        lines = subprocess.run(["ss", "-Htin"], capture_output=True, text=True, check=True).stdout.splitlines()
        return [word for line in lines for word in line.split() if word in ("reno", "cubic", "bbr")]


@on_stage()
def test_nothing_is_paced_between_an_island_and_us(stage):
    stage.serve(echo, 80)
    net = stage.open("allowlist", "+a.org")
    assert net.do(see_congestion_control, "a.org", 80) == ["reno", "reno"]
