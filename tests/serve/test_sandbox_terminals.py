"""Terminals of sandboxes over WebSockets: GET /v1/sandboxes/{id}/terminal."""
import hashlib
import os
import time

import pytest

from memory import Memory
from sandbox import Sandbox
from support import must_work, wait_until
from terminal import Terminal
from websocket import TEXT, Refused

pytestmark = pytest.mark.parametrize("daemon", ["root"], indirect=True)

# A prompt that echo can't be mistaken for.
READY = "PS1=; PS2=; stty -echo; echo re''ady\n"


def shell(sandbox, **options):
    """One that says nothing by itself."""
    t = Terminal(sandbox, command="exec sh -i", **options)
    t.type(READY)
    t.until("ready\r\n")
    return t


def program(sandbox, command, **options):
    """Runs it to its end; what it printed, what was said of its end, the goodbye."""
    with Terminal(sandbox, command=command, **options) as t:
        goodbye = t.end()
        return t.seen, t.said[-1]["exit"], goodbye


def test_hello(sandbox):
    with Terminal(sandbox) as t:
        assert t.hello == {"terminal": t.id, "sandbox": sandbox.id, "replay": 0}
        assert t.id.startswith("term_")


def test_a_shell(sandbox):
    with shell(sandbox) as t:
        t.type("echo $((6*7)); tty; pwd\n")
        assert t.until("/workspace\r\n") == b"42\r\n/dev/pts/0\r\n"
        t.type("exit 7\n")
        assert t.end().code == 1000 and t.said == [{"exit": {"exit_code": 7, "signal": None}}]


def test_the_shell_that_is_meant(sandbox):
    with Terminal(sandbox) as t:
        t.type("echo =$0=$-=; shopt -q login_shell && echo log''in\n")
        t.until("=bash=")
        assert b"i" in t.until("=\r\n")
        t.until("login\r\n")
        t.until("$ ")  # else the key may come while readline changes the terminal's mode
        t.type(b"\x04")
        assert t.end().code == 1000 and t.said[-1]["exit"]["exit_code"] == 0


def test_it_is_in_the_sandbox(sandbox):
    sandbox.sh("echo kept > file")
    assert program(sandbox, "cat file; id -u")[0] == b"kept\r\n1000\r\n"


@pytest.mark.parametrize("size", [{}, {"cols": 132, "rows": 50}, {"cols": 1, "rows": 1},
                                  {"cols": 1000, "rows": 1000}])
def test_size(sandbox, size):
    out, _, _ = program(sandbox, "stty size", **size)
    assert out.decode().split() == [str(size.get("rows", 24)), str(size.get("cols", 80))]


def test_one_that_is_stopped_is_started(daemon):
    if os.geteuid() != 0:
        must_work("needs root, for loop devices")
    with daemon.sandbox(persistent=True, idle_timeout=1) as sandbox:
        wait_until(lambda: sandbox.show()["state"] == "stopped", 10, "the idle time-out")
        with shell(sandbox) as t:
            t.type("stat -f -c %T /workspace\n")
            t.until("ext2/ext3\r\n")


def test_resize(sandbox):
    line = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    with Terminal(sandbox, command=line, cols=90, rows=30) as t:
        t.until("30 90\r\n")
        for cols, rows in [(111, 44), (1, 1), (1000, 1000)]:
            t.say(resize=[cols, rows])
            t.until(f"{rows} {cols}\r\n")


def test_colours_and_term(sandbox):
    assert program(sandbox, r"printf '\033[31mred\033[0m'; echo $TERM")[0] == \
        b"\x1b[31mred\x1b[0mxterm-256color\r\n"
    assert program(sandbox, "echo $TERM", term="vt100")[0] == b"vt100\r\n"


def test_bytes_go_through_as_they_are(sandbox):
    every = bytes(range(256)) * 200
    with Terminal(sandbox, command="stty raw -echo; echo ready; head -c 51200") as t:
        t.until("ready\n")
        t.type(every)
        t.end()
        assert t.seen == every


@pytest.mark.parametrize("how", ["key", "signal"])
def test_ctrl_c_interrupts(sandbox, how):
    with shell(sandbox) as t:
        t.type("sleep 60; echo status $?\n")
        time.sleep(0.3)
        t.type(b"\x03") if how == "key" else t.say(signal="INT")
        t.type("\necho on\n")
        assert b"status 0" not in t.until("on\r\n", 5)


def test_a_signal_reaches_a_program_that_has_no_keys(sandbox):
    with Terminal(sandbox, command="stty raw; echo r''eady; exec sleep 60") as t:
        t.until("eady")
        time.sleep(0.1)
        t.say(signal="QUIT")
        assert t.end().code == 1000 and t.said[-1]["exit"] == {"exit_code": None, "signal": 3}


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_kill(sandbox, signal):
    with Terminal(sandbox, command="trap '' TERM HUP INT; echo r''eady; sleep 60; sleep 60") as t:
        t.until("ready")
        t.say(signal=signal)
        assert t.end().code == 1000 and t.said[-1]["exit"] == {"exit_code": None, "signal": 9}
    wait_until(lambda: sandbox.sh("pgrep -c sleep || true")["stdout"] == "0\n", 10, "the end of what it started")


def test_hang_up(sandbox):
    with Terminal(sandbox, command="echo r''eady; exec sleep 60") as t:
        t.until("ready")
        t.say(signal="HUP")
        assert t.end().code == 1000 and t.said[-1]["exit"] == {"exit_code": None, "signal": 1}


def test_hang_up_that_is_ignored(sandbox):
    with Terminal(sandbox, command="trap '' HUP; echo r''eady; sleep 60") as t:
        t.until("ready")
        t.say(signal="HUP")
        assert t.end().code == 1000 and t.said[-1]["exit"] == {"exit_code": None, "signal": 9}


def test_signals_that_can_t_be_sent(sandbox):
    with shell(sandbox) as t:
        t.say(signal="USR1")
        t.type("echo still\n")
        t.until("still")
        assert t.said[0]["error"]["code"] == "unsupported"


@pytest.mark.parametrize("command, exit", [
    ("true", (0, None)), ("exit 42", (42, None)), ("kill -9 $$", (None, 9)), ("nosuchthing", (127, None))])
def test_exit_status(sandbox, command, exit):
    _, said, goodbye = program(sandbox, command)
    assert (said["exit_code"], said["signal"]) == exit and goodbye.code == 1000


def test_all_output_comes_before_the_end(sandbox):
    for _ in range(20):
        assert program(sandbox, "seq 1 3000")[0].endswith(b"2999\r\n3000\r\n")


@pytest.mark.parametrize("text", [
    b"hello", b"{}", b"[]", b'{"resize":[80]}', b'{"resize":[0,24]}', b'{"resize":[80,1001]}',
    b'{"resize":[80,24],"signal":"INT"}', b'{"resize":["80","24"]}', b'{"signal":"STOP"}', b'{"signal":9}',
    b'{"nothing":1}', b'{"resize":[80,24]}x', b"[" * 5000])
def test_what_makes_no_sense_is_closed(sandbox, text):
    with Terminal(sandbox) as t:
        t.send(TEXT, text)
        assert t.end().code == 1008


@pytest.mark.parametrize("query", [
    {"cols": 0, "rows": 24}, {"cols": 1001, "rows": 24}, {"cols": 80}, {"cols": "x", "rows": 1},
    {"term": "a b"}, {"term": "$(id)"}, {"term": ""}, {"term": "x" * 65}, {"command": ""}, {"size": 1},
    {"terminal": "term_0000000000000000", "command": "id"}])
def test_bad_queries(sandbox, query):
    with pytest.raises(Refused) as refused:
        Terminal(sandbox, **query)
    assert refused.value.status == 400 and refused.value.body["error"]["code"] == "invalid_request"


def test_what_is_not_there(sandbox):
    nobody = Sandbox(sandbox.daemon, "sbx_0000000000000000")
    for where, query in [(nobody, {}), (sandbox, {"terminal": "term_0000000000000000"})]:
        with pytest.raises(Refused) as refused:
            Terminal(where, **query)
        assert refused.value.status == 404


def test_without_an_upgrade_nothing_is_started(daemon, sandbox):
    answer = sandbox.request("GET", "/terminal")
    assert answer.status == 426 and answer.headers["upgrade"] == "websocket"
    assert sandbox.show()["busy"] == 0


# Coming back

def test_reattach_with_replay(sandbox):
    with shell(sandbox) as t:
        t.type("echo before; x=remembered; (sleep 0.3; echo meanwhile) &\n")
        t.until("before\r\n")
        id = t.id
    time.sleep(0.6)
    with Terminal(sandbox, terminal=id, cols=70, rows=20) as t:
        assert t.hello["terminal"] == id and t.hello["replay"] > 0
        seen = t.until("meanwhile\r\n")
        assert b"before\r\n" in seen
        t.type("echo $x; stty size\n")
        t.until("remembered\r\n20 70\r\n")


def test_what_ended_meanwhile_is_told(sandbox):
    with Terminal(sandbox, command="echo last; sleep 0.2; echo words; exit 9") as t:
        id = t.id
    time.sleep(0.6)
    with Terminal(sandbox, terminal=id) as t:
        assert t.end().code == 1000
        assert t.seen == b"last\r\nwords\r\n" and t.said[-1]["exit"]["exit_code"] == 9
    with pytest.raises(Refused) as refused:
        Terminal(sandbox, terminal=id)
    assert refused.value.status == 404


def test_only_the_last_is_kept(sandbox):
    with Terminal(sandbox, command="seq 1 200000; echo fi''n; read x") as t:
        id = t.id
    wait_until(lambda: sandbox.sh("pgrep -c seq || true")["stdout"] == "0\n", 10, "the end of its output")
    with Terminal(sandbox, terminal=id) as t:
        assert t.hello["replay"] <= 256 << 10
        t.until("200000\r\nfin\r\n")
        t.type("\n")
        assert t.end().code == 1000


def test_taking_over(sandbox):
    with shell(sandbox) as first:
        with Terminal(sandbox, terminal=first.id) as second:
            goodbye = first.end()
            assert (goodbye.code, goodbye.reason) == (4001, "taken over")
            second.type("echo mine\n")
            second.until("mine\r\n")


def test_a_terminal_of_another_sandbox(daemon, sandbox):
    with daemon.sandbox() as other, shell(sandbox) as t, pytest.raises(Refused) as refused:
        Terminal(other, terminal=t.id)
    assert refused.value.status == 404


def test_at_most_eight(sandbox):
    held = [Terminal(sandbox) for _ in range(8)]
    with pytest.raises(Refused) as refused:
        Terminal(sandbox)
    assert refused.value.status == 503 and refused.value.body["error"]["code"] == "at_capacity"
    held[0].type("exit\n")
    held[0].end()
    Terminal(sandbox).socket.close()
    for t in held:
        t.socket.close()


def test_those_that_ended_give_way(sandbox):
    for _ in range(12):
        Terminal(sandbox, command="true").socket.close()
        time.sleep(0.05)


# Much, and slowly

def test_a_slow_reader_holds_the_program_up(daemon, sandbox):
    memory = Memory(daemon)
    with Terminal(sandbox, command="yes 0123456789abcdef | head -c 200000000; echo fi''n",
                  timeout=60) as t:
        time.sleep(2)
        assert memory.grown() < 16 << 20
        size = 0
        while not t.said:
            t.step()
            size += len(t.seen)
            last, t.seen = t.seen[-16:], b""
            if size > 20 << 20:
                break
        assert size > 20 << 20 and memory.grown() < 16 << 20
        t.say(signal="KILL")


def test_what_nobody_reads_is_held_back(daemon, sandbox):
    memory = Memory(daemon)
    with Terminal(sandbox, command="stty raw -echo; echo r''eady; sleep 60", timeout=1) as t:
        t.until("ready")
        with pytest.raises(TimeoutError):
            for _ in range(400):
                t.type(b"x" * 65536)
        assert memory.grown() < 16 << 20


def test_much_input_arrives(sandbox):
    with Terminal(sandbox, command="stty raw -echo; echo r''eady; head -c 3000000 | md5sum",
                  timeout=60) as t:
        t.until("ready")
        data = os.urandom(3000000)
        for at in range(0, len(data), 100000):
            t.type(data[at:at + 100000])
        t.end()
        assert hashlib.md5(data).hexdigest().encode() in t.seen


def test_clients_that_vanish(daemon, sandbox):
    fds = daemon.fds()
    for n in range(30):
        try:
            Terminal(sandbox, command="seq 1 20000" if n % 2 else "true").socket.close()
        except Refused as refused:
            assert refused.status == 503  # eight of them still print
            time.sleep(0.2)
    wait_until(lambda: daemon.fds() <= fds + 1, 10, "the end of their connections")


# The sandbox

def test_deleting_the_sandbox(daemon, sandbox):
    with shell(sandbox) as t:
        assert daemon.delete(sandbox.url).status == 200
        goodbye = t.end()
        assert (goodbye.code, goodbye.reason) == (1001, "the sandbox is gone")
        assert t.said[-1]["exit"] == {"exit_code": None, "signal": 9}


def test_a_paused_sandbox(daemon, sandbox):
    with shell(sandbox) as t:
        sandbox.request("POST", "/pause")
        t.type("echo later\n")
        with pytest.raises(Refused) as refused:
            Terminal(sandbox)
        assert refused.value.status == 409
        sandbox.request("POST", "/resume")
        t.until("later\r\n")


def test_not_idle_while_attached(daemon):
    with daemon.sandbox(idle_timeout=1) as used, daemon.sandbox(idle_timeout=1) as other:
        with shell(used) as t:
            wait_until(lambda: daemon.get(other.url).status == 410, 10, "the idle time-out")
            time.sleep(1)  # it would have come for this one, too
            t.type("echo here\n")
            t.until("here\r\n")


def test_a_full_screen_program(sandbox):
    with Terminal(sandbox, command="seq 1 1000 | less", cols=80, rows=10) as t:
        t.until("9\r\n")
        t.type("G")
        t.until("1000")
        t.type("q")
        assert t.end().code == 1000 and t.said[-1] == {"exit": {"exit_code": 0, "signal": None}}
