"""The daemon: runs and live sandboxes with a network, rules that change, what is counted and logged."""

import os
import signal
import statistics
import threading
import time

import pytest

import world as places
from maker import Maker
from support import SLOWNESS, SOAK, wait_until
from traveller import PRELUDE

ALLOW = {"mode": "allowlist", "allow": ["*.example.org", "*.example.org:9000"]}
OK, FORBIDDEN = "www.example.org", "other.example.net"
DIRECT = "unset $(env | grep -io '^[a-z]*_proxy' || :)\n"


@pytest.fixture(autouse=True)
def nothing_left():
    """A daemon keeps islands ready, which come and go: what is left is looked at when it has ended."""


@pytest.fixture(scope="module", params=["root", "user"])
def daemon(request, scratch, one_world, binary_runs):
    maker = Maker(scratch, one_world.enter)
    yield maker(request.param)
    maker.end()


@pytest.fixture
def sandbox(daemon, world):
    with daemon.sandbox(network=ALLOW) as made:
        made.write("ca.pem", world.ca.read_bytes())
        yield made


def of(result, name, verdict):
    return [e for e in result["egress"] if (e["name"], e["verdict"]) == (name, verdict)]


def attempts(*names, port=80):
    """Code that says for each name how a connection to it ended."""
    return PRELUDE + f"print(*[attempt(tcp, n, {port}) for n in {names!r}])"


def test_run(daemon, world):
    result = daemon.run(attempts(OK, FORBIDDEN), network=ALLOW)
    assert result["stdout"] == "worked EAI_NONAME\n", result
    assert result["network"] == "allowlist" and of(result, OK, "allowed")[0]["port"] == 80
    assert of(result, FORBIDDEN, "denied")[0]["why"] == "not in allow list"
    assert not world.saw(FORBIDDEN)


def test_each_has_its_own_rules_on_an_island_made_ahead(daemon, world):
    """Two that differ in nothing but rules have the same islands ahead."""
    pool = 'cay_pool_size{pool="islands"}'
    before = daemon.metric(pool)
    for n in range(6):
        name = (OK, FORBIDDEN)[n % 2]
        result = daemon.run(attempts(OK, FORBIDDEN), network={"mode": "allowlist", "allow": [name]})
        assert result["stdout"] == ("worked EAI_NONAME\n", "EAI_NONAME worked\n")[n % 2], result
        assert of(result, name, "allowed")
        if n > 0:
            wait_until(lambda: daemon.metric(pool) > before, 10, "islands ahead with a network")


def test_run_without(daemon, world):
    """The default has no network, whatever ran before it."""
    result = daemon.run(attempts(OK, places.WEB))
    assert "worked" not in result["stdout"] and result["network"] == "none" and result["egress"] == []
    assert not world.names.queries and not world.reached


def test_run_in_the_background(daemon, world):
    """Its entries are kept with its result."""
    run = daemon.post("/v1/runs", {"code": attempts(OK), "network": ALLOW, "background": True}).ok(202)
    wait_until(lambda: daemon.get(f"/v1/runs/{run['id']}").ok()["status"] != "running", 20, "its end")
    kept = daemon.get(f"/v1/runs/{run['id']}").ok()
    assert kept["stdout"] == "worked\n" and of(kept, OK, "allowed")[0]["times"] == 1


def test_pip_in_a_live_sandbox(sandbox, world):
    """In plain words, as everybody types them: the index is named by a variable."""
    result = sandbox.sh(f"""{DIRECT}
        set -e; export PIP_INDEX_URL=https://pypi.example.org/simple PIP_CERT=$PWD/ca.pem
        /usr/bin/python3 -m venv --without-pip v
        /usr/bin/python3 -m pip --python v/bin/python install -q --disable-pip-version-check --no-cache-dir tiny
        v/bin/python -c 'import tiny; print(tiny.answer)'""")
    assert (result["stdout"], result["exit_code"]) == ("42\n", 0), result
    # What one command installed, the next one has.
    assert sandbox.sh("v/bin/python -c 'import tiny; print(tiny.answer)'")["stdout"] == "42\n"
    assert of(result, "pypi.example.org", "allowed")


def test_npm_in_a_live_sandbox(sandbox, world):
    result = sandbox.sh(f"""{DIRECT}
        set -e; export npm_config_registry=https://npm.example.org/ npm_config_cafile=$PWD/ca.pem
        npm install tiny >/dev/null; node -e 'console.log(require("tiny"))'""")
    assert (result["stdout"], result["exit_code"]) == ("42\n", 0), result


def test_nothing_else_is_reachable(sandbox, world):
    """Beside what is allowed, in the same live sandbox, one command after the other."""
    assert sandbox.python(attempts(OK))["stdout"] == "worked\n"
    result = sandbox.python(attempts(FORBIDDEN, places.WEB, places.METADATA, places.PRIVATE, "127.0.0.1"))
    assert "worked" not in result["stdout"]
    assert of(result, FORBIDDEN, "denied") and not of(result, OK, "allowed"), "each command's own entries"
    assert not world.saw(FORBIDDEN) and not world.reached_at(places.METADATA, places.PRIVATE, "127.0.0.1")


def test_rules_change_at_once(sandbox, world):
    assert sandbox.python(attempts(OK, FORBIDDEN))["stdout"] == "worked EAI_NONAME\n"
    changed = sandbox.request("PATCH", json={"network": {"allow": ["*.example.net"]}}).ok()
    assert changed["network"]["allow"] == ["*.example.net"]
    assert sandbox.python(attempts(OK, FORBIDDEN))["stdout"] == "EAI_NONAME worked\n"
    sandbox.request("PATCH", json={"network": {"allow": ["*"], "block": ["*.example.net"]}}).ok()
    assert sandbox.python(attempts(OK, FORBIDDEN))["stdout"] == "worked EAI_NONAME\n"


def test_rules_change_under_a_connection(sandbox, world):
    """One that would not be allowed any more is ended; the address that was known before leads nowhere."""
    code = PRELUDE + """
s, known = tool('hold'), socket.gethostbyname('tcp.example.org'); s.recv(5)
open('ready', 'w').close(); s.settimeout(20)
ended = attempt(s.recv, 1)
print(ended, attempt(tcp, known, 9000))"""
    answer = []
    thread = threading.Thread(target=lambda: answer.append(sandbox.python(code)))
    thread.start()
    wait_until(lambda: "ready" in sandbox.names(), 15, "the connection")
    sandbox.request("PATCH", json={"network": {"allow": ["www.example.org"]}}).ok()
    thread.join()
    ended, again = answer[0]["stdout"].split()
    assert ended in ("worked", "ECONNRESET") and again != "worked", answer
    wait_until(lambda: "held no more" in [r.said for r in world.reached], 5, "the other side's end")


def test_rules_that_nobody_takes(daemon, sandbox, world):
    """A change is an error where cay-egress does not say that it has the rules, and then the old ones hold."""
    egress = daemon.pids()["egress"]
    os.kill(egress, signal.SIGSTOP)
    try:
        answer = sandbox.request("PATCH", json={"network": {"allow": ["*.example.net"]}, "labels": {"a": "1"}})
    finally:
        os.kill(egress, signal.SIGCONT)
    assert answer.failure == (503, "engine_unavailable") and "cay-egress" in answer.error["message"], answer.error
    assert sandbox.show()["network"]["allow"] == ALLOW["allow"] and not sandbox.show().get("labels")
    assert sandbox.python(attempts(OK, FORBIDDEN))["stdout"] == "worked EAI_NONAME\n"


def test_rules_that_the_next_one_takes(daemon, sandbox, world):
    """cay-egress ends before it has read them."""
    egress = daemon.pids()["egress"]
    os.kill(egress, signal.SIGSTOP)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(sandbox.request("PATCH", json={"network": {"allow": ["*.example.net"]}})))
    thread.start()
    time.sleep(0.5)
    assert not answers
    daemon.expect_errors = True
    os.kill(egress, signal.SIGKILL)
    thread.join()
    assert answers[0].ok()["network"]["allow"] == ["*.example.net"]
    assert sandbox.python(attempts(OK, FORBIDDEN))["stdout"] == "EAI_NONAME worked\n"


def test_a_sandbox_says_its_rules(sandbox):
    assert sandbox.show()["network"] == ALLOW | {"block": []}


def test_metrics(daemon, world):
    lines = ['cay_egress_connections_total{verdict="allowed"}', 'cay_egress_connections_total{verdict="denied"}',
             'cay_egress_bytes_total{direction="in"}']
    before = [daemon.metric(line) for line in lines]
    daemon.run(PRELUDE + f"attempt(tcp, '{FORBIDDEN}', 80); everything(tool('send 1000'))", network=ALLOW)
    # Totals come once a second.
    wait_until(lambda: all(daemon.metric(line) > old for line, old in zip(lines, before)), 5, "the counters")
    assert daemon.metric(lines[2]) >= before[2] + 1000


def test_log(daemon, world):
    """What was denied is in the log, with whose it was, once for each outcome; names can't break a line of it."""
    began = len(daemon.log)
    run = daemon.run(attempts("logged.evil.test", "logged.evil.test"), network=ALLOW)
    wait_until(lambda: "logged.evil.test" in daemon.log[began:], 5, "a line about it")
    lines = [line for line in daemon.log[began:].splitlines() if "logged.evil.test" in line]
    assert all("denied" in line and "not in allow list" in line and run["id"] in line for line in lines)


def requests(sandbox, n, gap=0.02):
    """Seconds that each of n small requests took, in a sandbox."""
    result = sandbox.python(PRELUDE + f"""
socket.gethostbyname('{OK}')
for _ in range({n}):
    began = time.monotonic(); s = tcp('{OK}', 80)
    s.sendall(b'GET / HTTP/1.0\\r\\nHost: {OK}\\r\\n\\r\\n'); everything(s)
    print(time.monotonic() - began); time.sleep({gap})""")
    assert result["exit_code"] == 0, result
    return list(map(float, result["stdout"].split()))


FLOOD_SECONDS = 10 if SOAK else 1.5

FLOODS = {
    "connections": """
name = socket.gethostbyname('tcp.example.org')
while time.monotonic() < end:
    s = socket.socket(); s.setblocking(False); s.connect_ex((name, 9000)); held = (globals().get('held', []) + [s])[-200:]
""",
    "names": """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n = 0
while time.monotonic() < end:
    n += 1; name = b'n%d' % n
    s.sendto(struct.pack('!6H', n & 65535, 256, 1, 0, 0, 0) + bytes([len(name)]) + name
             + b'\\7example\\3org\\0\\0\\1\\0\\1', ('198.18.0.1', 53))
""",
    "bytes": """
s = tool('sum')
while time.monotonic() < end: s.sendall(bytes(1 << 20))
""",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_who_floods_does_not_slow_its_neighbours(daemon, world, flood):
    with daemon.sandbox(network=ALLOW) as calm, daemon.sandbox(network=ALLOW) as wild:
        alone = statistics.median(requests(calm, 20))
        thread = threading.Thread(target=lambda: wild.python(
            PRELUDE + f"end = time.monotonic() + {FLOOD_SECONDS}\n" + FLOODS[flood], limits={"timeout": 15}))
        thread.start()
        time.sleep(0.2)
        try:
            beside = requests(calm, 20)
        finally:
            thread.join()
    assert statistics.median(beside) < max(20 * alone, 0.5 * SLOWNESS), (alone, beside)


def test_total_connections(scratch, world):
    """Of all sandboxes together."""
    maker = Maker(scratch, world.enter)
    hold = PRELUDE + """
held = []
for _ in range(6):
    try: s = tool('hold'); s.recv(5); held.append(s)
    except OSError: pass
print(len(held), flush=True); open('ready', 'w').close(); time.sleep(3)"""
    try:
        daemon = maker("root", "[network]\ntotal_connections = 8\n")
        with daemon.sandbox(network=ALLOW) as one, daemon.sandbox(network=ALLOW) as two:
            answers = []
            first = threading.Thread(target=lambda: answers.append(one.python(hold)))
            first.start()
            wait_until(lambda: "ready" in one.names(), 15, "the first one's connections")
            answers.append(two.python(hold))
            first.join()
            assert sorted(int(a["stdout"]) for a in answers) == [2, 6], answers
    finally:
        maker.end()


def test_a_mode_that_is_none(daemon):
    answer = daemon.post("/v1/runs", {"code": "1", "network": {"mode": "everything"}})
    assert answer.failure == (400, "invalid_request") and "allowlist" in answer.error["message"] + answer.error["hint"]


def test_environment_of_a_sandbox(sandbox):
    out = sandbox.sh("env")["stdout"]
    assert "http_proxy=http://198.18.0.1:3128" in out


def test_programs_by_proxy(sandbox, world):
    result = sandbox.sh(f"curl -sSf http://{OK}/; curl -sSf http://{FORBIDDEN}/")
    assert result["stdout"] == f"hello from {OK}\n" and "403" in result["stderr"]
