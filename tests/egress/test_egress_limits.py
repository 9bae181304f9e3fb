"""How much may go out at once, in all, and how fast; and that the operator's word counts."""

import json

import pytest

import world as places
from support import MIB, OURS, SLOWNESS, wait_until

ANY_PORT = ["*.example.org:*"]


def network(config, text):
    return config("[network]\n" + text)


def test_connections(traveller, config):
    result = traveller.python("""
held, how = [], []
def hold():
    s = tool('hold'); s.recv(5); held.append(s)
for _ in range(6): how.append(attempt(hold))
held.pop().close(); time.sleep(0.5)
how.append(attempt(hold))
say(how)""", allow=ANY_PORT, config=network(config, "connections = 4\n"))
    how = result.json
    assert how[:4] == ["worked"] * 4 and "worked" not in how[4:6] and how[6] == "worked", how
    assert set(how[4:6]) <= {"ECONNREFUSED", "EHOSTUNREACH", "ECONNRESET", "ENETUNREACH", "EACCES"}
    result.denied("tcp.example.org", "too many connections at once")


def test_connections_in_the_making_count(root_traveller, config):
    """Those that nobody has answered yet are connections, too."""
    result = root_traveller.python("""
name, started = socket.gethostbyname('beyond.example.org'), []
for _ in range(50):
    s = socket.socket(); s.setblocking(False); s.connect_ex((name, 80)); started.append(s)
time.sleep(1)
say(sum(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0 for s in started))""",
                                   config=network(config, "connections = 4\n"))
    assert result.json >= 46, result.egress
    tried = [s for s in root_traveller.world.strays if s == f"6 {places.BEYOND}:80"]
    assert 1 <= len(tried) <= 3 * 4, "each may be tried again by the kernel, but no more than four at once"


def test_bytes(traveller, config):
    result = traveller.python("""
n = 0
try:
    s = tool('send 20000000')
    while data := s.recv(1 << 16): n += len(data)
    how = 'end'
except OSError as e: how = name_of(e)
say([n, how, attempt(tool, 'echo')])""", allow=ANY_PORT, config=network(config, "bytes = 2m\n"))
    n, how, after = result.json
    assert 0 < n <= 2 * MIB and after != "worked", result.egress
    assert how in ("end", "ECONNRESET")
    result.denied("tcp.example.org", "limit of bytes reached")


def test_rate(traveller, config):
    result = traveller.python("""
s, n, began = tool('send 1500000'), 0, time.monotonic()
while data := s.recv(1 << 16): n += len(data)
down = time.monotonic() - began
s, began = tool('sum'), time.monotonic()
s.sendall(bytes(1500000)); s.shutdown(socket.SHUT_WR); s.recv(1)
say([n, down, time.monotonic() - began])""", allow=ANY_PORT, config=network(config, "rate = 1m\n"))
    n, down, up = result.json
    assert n == 1500000 and 1 < down < 8 * SLOWNESS and 1 < up < 8 * SLOWNESS


def test_rate_is_of_all_connections(root_traveller, config):
    result = root_traveller.python("""
import threading
began = time.monotonic()
threads = [threading.Thread(target=lambda: everything(tool('send 500000'))) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
say(time.monotonic() - began)""", allow=ANY_PORT, config=network(config, "rate = 1m\n"))
    assert 1.4 < result.json < 8 * SLOWNESS


def test_idle(traveller, config):
    """Ended after its time of silence; one that says something now and then is not."""
    result = traveller.python("""
idle, slow = tool('hold'), tool('slow 15'); idle.recv(5); began = time.monotonic()
how = attempt(lambda: idle.recv(1) and 1 / 0); seconds = time.monotonic() - began
say([how, seconds, len(everything(slow))])""", allow=ANY_PORT, config=network(config, "idle_timeout = 1\n"))
    how, seconds, n = result.json
    assert how in ("worked", "ECONNRESET") and 0.8 < seconds < 4 * SLOWNESS and n == 15
    wait_until(lambda: "held no more" in [r.said for r in traveller.world.reached], 5, "the other side's end")


@pytest.mark.parametrize("most, mode, allow", [("none", "allowlist", ["www.example.org"]), ("allowlist", "full", [])])
def test_the_operator_bounds_the_mode(root_traveller, config, most, mode, allow):
    """What is more than the operator allows is refused before anything is run."""
    arguments = root_traveller.arguments(["true"], allow=allow, mode=mode)
    done = root_traveller.cay.run(*arguments, config=network(config, f"mode = {most}\n"))
    assert done.rc == OURS and done.error["code"] == "policy_denied"


def test_the_operators_rules(root_traveller, config):
    """Only what both allow; what either blocks is blocked."""
    path = network(config, "allow = *.example.org\nallow = evil.test\nblock = deep.below.example.org\n")
    result = root_traveller.python("""
say([attempt(tcp, n, 80) for n in ('www.example.org', 'deep.below.example.org', 'evil.test', 'other.example.net')])""",
                                   mode="full", allow=(), config=path)
    first, second, third, fourth = result.json
    assert (first, third) == ("worked", "worked") and "EAI_NONAME" == second == fourth
    result.denied("deep.below.example.org", "in block list")
    result.denied("other.example.net", "not allowed by the operator")
    assert not root_traveller.world.saw("other.example.net", "deep.below.example.org")


def test_a_call_narrows_the_operators_rules(root_traveller, config):
    path = network(config, "allow = *.example.org\n")
    result = root_traveller.python("say([attempt(tcp, n, 80) for n in ('www.example.org', 'npm.example.org', 'evil.test')])",
                                   allow=["www.example.org"], config=path)
    assert result.json == ["worked", "EAI_NONAME", "EAI_NONAME"]


def test_addresses_the_operator_lists(traveller, config):
    """A service of the host's own, and one of a private network, each by address and port."""
    world = traveller.world
    world.names.zone["inner.example.org"] = places.Says(a=(places.PRIVATE,))
    path = network(config, f"address = 127.0.0.1:9000\naddress = {places.PRIVATE}:80\n")
    result = traveller.python("""
say([everything(tool('send 3', 'host.cay.internal')).hex(), attempt(tcp, 'host.cay.internal', 8080),
     attempt(tcp, 'inner.example.org', 80), attempt(tcp, 'inner.example.org', 8080)])""",
                              allow=["host.cay.internal:*", "*.example.org:*"], config=path)
    sent, loopback, inner, inner_other = result.json
    assert sent == "000102" and inner == "worked" and "worked" not in (loopback, inner_other), result.egress
    result.denied("inner.example.org", "leads to an address that is not public")
    assert {(r.address, r.port) for r in world.reached} == {("127.0.0.1", 9000), (places.PRIVATE, 80)}


def test_many_names(root_traveller):
    """Each has an address of its own, which leads to it alone."""
    root_traveller.world.names.zone["*.many.example.org"] = places.Says(a=(places.WEB,))
    result = root_traveller.python("""
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    found = list(pool.map(lambda n: socket.gethostbyname(f'n{n}.many.example.org'), range(500)))
s = tcp(found[321], 80); s.sendall(b'GET / HTTP/1.0\\r\\nHost: n321.many.example.org\\r\\n\\r\\n')
say([len(set(found)), everything(s)[-40:].decode()])""", allow=["*.many.example.org"])
    n, answer = result.json
    assert n == 500 and answer.endswith("n321.many.example.org\n")


def test_two_runs_have_nothing_to_do_with_each_other(root_traveller):
    """One holds all connections it may; the other has all of its own."""
    first = root_traveller.begin("""
held = [tool('hold') for _ in range(20)]; print('held', flush=True); sys.stdin.read()""", allow=ANY_PORT)
    try:
        assert root_traveller.python("say(attempt(tool, 'echo'))", allow=ANY_PORT).json == "worked"
    finally:
        out, err = first.communicate(timeout=30)
    assert first.returncode == 0, err
    assert json.loads(out)["stdout"].startswith("held")


def test_the_end_of_a_run_is_the_end_of_its_connections(root_traveller):
    result = root_traveller.python("""
import signal
tool('hold').recv(5); os.kill(os.getpid(), signal.SIGKILL)""", allow=ANY_PORT)
    assert result.all["signal"] == 9
    wait_until(lambda: "held no more" in [r.said for r in root_traveller.world.reached], 5, "the connection's end")
    assert result.allowed("tcp.example.org", 9000)["bytes_in"] == 5
