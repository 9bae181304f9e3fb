"""The client believes no daemon: answers that are too long, of the wrong kind, or meant to harm."""

import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from support import OURS, STRANGER, Cay, must_work, on_terminal, wait_until

EVIL = "\x1b]0;pwned\x07\x1b[2J\u202e\x9b"


class Server:
    """Takes requests on a unix socket; answer(method, path, body) gives the bytes, or sends them itself."""

    def __init__(self, path):
        self.path, self.asked, self.answer = str(path), [], None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection, connection.makefile("rb") as stream:
                while self._one(connection, stream):
                    pass
        except OSError:
            pass

    def _one(self, connection, stream):
        line = stream.readline().decode()
        if not line.endswith(" HTTP/1.1\r\n"):
            return False
        method, path, _ = line.split()
        headers = {}
        while (line := stream.readline().decode().strip()):
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        body = stream.read(int(headers.get("content-length", 0)))
        if headers.get("transfer-encoding") == "chunked" and not getattr(self, "early", False):
            while (size := int(stream.readline(), 16)):
                body += stream.read(size)
                stream.readline()
            stream.readline()
        self.asked.append((method, path, headers, body))
        data = self.answer(method, path, body)
        if callable(data):
            data(connection)
            return False
        connection.sendall(data)
        return not getattr(self, "closes", False)

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # or accept() holds it
        except OSError:
            pass
        self.listener.close()
        for connection in self.connections:
            connection.close()


def http(status, body, type="application/json", **headers):
    if not isinstance(body, bytes):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
    more = "".join(f"{n.replace('_', '-')}: {v}\r\n" for n, v in headers.items())
    return (f"HTTP/1.1 {status} X\r\nContent-Type: {type}\r\nContent-Length: {len(body)}\r\n{more}\r\n").encode() + body


def events(*list):
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in list)
    return http(200, text, "text/event-stream")


def result(**more):
    return dict({"status": "ok", "message": "", "exit_code": 0, "signal": None, "files": []}, **more)


@pytest.fixture
def server(place):
    server = Server(place / "s.sock")
    yield server
    server.close()


@pytest.fixture
def cli(cay, server):
    def run(*args, **more):
        return cay(*args, env={"CAY_HOST": f"unix:{server.path}"}, **more)
    return run


def fails(done, *words):
    assert done.rc == OURS and len(done.said) == 1, (done.rc, done.errors)
    assert all(w in done.errors for w in words), done.errors
    assert not any(c in done.errors for c in "\x1b\x07\x9b\u202e")


# What is no HTTP, or not ours

BAD = {
    "nothing": b"",
    "no http": b"hello\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "huge header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "cut short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{}",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "redirect": http(302, "", Location="http://elsewhere/"),
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "html": http(200, "<html>hello</html>", "text/html"),
    "no json": http(200, "{"),
    "two values": http(200, "{}{}"),
    "deep": http(200, "[" * 100000),
    "duplicate": http(200, '{"sandboxes":[],"sandboxes":[]}'),
    "wrong type": http(200, {"sandboxes": {}}),
    "a list": http(200, []),
    "not there": http(404, "nothing here", "text/plain"),
    "an evil error": http(500, {"error": {"code": EVIL, "message": EVIL + "\nx", "hint": EVIL}}),
    "a long error": http(500, {"error": {"message": "m" * 60000}}),
    "an endless error": http(500, "x" * 3000000),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("args", [("ps",), ("run", "-c", "1"), ("run", "--json", "-c", "1")], ids=" ".join)
def test_bad_answers(cli, server, bad, args):
    if bad in (BAD["wrong type"], BAD["a list"]) and args != ("ps",):
        bad = http(200, {"status": 7})
    server.answer, server.closes = lambda *_: bad, True
    fails(cli(*args))


def test_endless_answer(cli, server):
    def pour(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
    server.answer = lambda *_: pour
    fails(cli("ps"), "longer than")


def test_endless_event(cli, server):
    def pour(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
        while True:
            connection.sendall(b"x" * 0x100000)
    server.answer = lambda *_: pour
    fails(cli("run", "-c", "1"), "longer than")


def test_endless_pages(cli, server):
    server.answer = lambda *_: http(200, {"sandboxes": [], "cursor": "again&x=1"})
    fails(cli("ps"), "no end")
    assert server.asked[1][1] == "/v1/sandboxes?cursor=again%26x%3D1"


# Runs

@pytest.mark.parametrize("wrong", [
    {}, result(status=None), result(status="nonsense"), result(status=["ok"]), result(exit_code=-1),
    result(exit_code=256), result(exit_code=3), result(status="failed", exit_code=1 << 40),
    result(status="signal", signal=-9), result(status="signal", signal=1000)], ids=str)
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=str)
def test_wrong_results(cli, server, wrong, flags):
    server.answer = lambda *_: http(200, wrong) if flags else events(("result", wrong))
    fails(cli("run", *flags, "-c", "1"), "no result")


@pytest.mark.parametrize("list", [
    [], [("start", {})], [("stdout", {"text": "x"})], [("unknown", {})], [("result", "text")],
    [("stdout", {"text": 7}), ("result", result())], [("stdout", {"base64": "!"}), ("result", result())],
    [("stderr", []), ("result", result())]], ids=str)
def test_streams_without_a_result(cli, server, list):
    server.answer = lambda *_: events(*list)
    done = cli("run", "-c", "1")
    assert done.rc == OURS and len(done.said) == 1


def test_events_that_are_not_asked_for(cli, server):
    server.answer = lambda *_: events(("news", {"x": 1}), ("stdout", {"text": "a"}), ("result", result()),
                                      ("stdout", {"text": "b"}))
    assert cli("run", "-c", "1").ok().text == "a"


def test_an_error_after_the_start(cli, server):
    server.answer = lambda *_: events(("start", {}), ("error", {"error": {
        "code": "not_found", "message": "x: command not found", "hint": "", "details": {"exit_code": 127}}}))
    done = cli("run", "--", "x")
    assert done.rc == 127 and done.errors == "cay: x: command not found\n"


def test_a_message_does_not_act(cli, server):
    server.answer = lambda *_: events(("result", result(status="failed", exit_code=1, message=EVIL, isolation={
        "degraded": [EVIL, 7, "memory"]})))
    done = cli("run", "-c", "1")
    assert done.rc == 1 and len(done.said) == 3
    assert not any(c in done.errors for c in "\x1b\x07\x9b\u202e")


def test_output_does_not_act_on_a_terminal(cay, server):
    server.answer = lambda *_: events(("stdout", {"text": EVIL + "plain"}), ("result", result()))
    code, seen = on_terminal(cay, "run", "-c", "1", env={"CAY_HOST": f"unix:{server.path}", "TERM": "xterm"})
    assert code == 0 and b"plain" in seen and b"\x1b]" not in seen and b"\x1b[2J" not in seen


def test_files_that_would_leave_their_place(cli, server, place):
    data = base64.b64encode(b"evil").decode()
    names = ["../evil", "/evil", "a/../../evil", "..", ".", "", "a//b", "out/\x1bx", 7, None, "\0"]
    (place / "in").mkdir()
    for name in names:
        server.answer = lambda *_: events(("result", result(files=[{"path": name, "data": data}])))
        cli("run", "--get", "**", "--get", "..x", "-c", "1", cwd=place / "in")
    found = sorted(str(p.relative_to(place)) for p in place.rglob("*"))
    assert {"s.sock", "in"} | {f for f in found if f.startswith("in/")} == set(found)
    assert not [f for f in found if "\x1b" in f], found
    assert not os.path.exists("/evil")


def test_files_do_not_go_through_links(cli, server, place):
    (place / "in").mkdir()
    (place / "target").mkdir()
    (place / "in/d").symlink_to(place / "target")
    (place / "in/f").symlink_to(place / "target/f")
    data = base64.b64encode(b"new").decode()
    server.answer = lambda *_: events(("result", result(files=[{"path": p, "data": data} for p in ("f", "d/x")])))
    cli("run", "--get", "**", "-c", "1", cwd=place / "in")
    assert list((place / "target").iterdir()) == [] and (place / "in/f").read_text() == "new"


def test_what_is_sent(cli, server, place):
    (place / "x.py").write_text("print(1)")
    server.answer = lambda *_: events(("result", result()))
    cli("run", "-e", "A=1", "-m", "64m", "--timeout", "1.5", "--workspace", ".:rw", "-v", "/opt:/mnt", "-c", "code",
        "arg", input=b"\xff").ok()
    method, path, headers, body = server.asked[0]
    assert (method, path, headers["host"], headers["accept"]) == ("POST", "/v1/runs", "localhost", "text/event-stream")
    sent = json.loads(body)
    assert sent["code"] == "code" and sent["args"] == ["arg"] and sent["env"]["A"] == "1"
    assert sent["limits"] == {"memory": 64 << 20, "timeout": "1500ms"}
    assert sent["workspace"] == {"access": "rw", "source": str(place)}
    assert sent["mounts"] == [{"access": "ro", "source": "/opt", "target": "/mnt"}]
    assert base64.b64decode(sent["stdin_base64"]) == b"\xff"
    cli("run", "x.py").ok()
    sent = json.loads(server.asked[1][3])
    assert (sent["code"], sent["filename"], sent["language"]) == ("print(1)", "x.py", "python")


# Sandboxes

def test_ids_that_would_act(cli, server):
    for id in (EVIL, 7, None, "a b"):
        server.answer = lambda *_: http(201, {"id": id})
        fails(cli("create"), "no sandbox")
    server.answer = lambda *_: http(201, {"id": "key_x", "key": EVIL})
    fails(cli("key", "create", "x"), "no key")
    server.answer = lambda *_: http(204, "")
    fails(cli("create"))


def test_runtimes_that_would_act(cli, server):
    runtime = {"language": "python", "version": EVIL, "program": EVIL, "tool": EVIL, "source": EVIL, "lacks": EVIL}
    for found in ([runtime, 7, None, {}, {"language": "python"}], {}, None):
        server.answer = lambda *_: http(200, {"runtimes": found, "missing": []})
        done = cli("runtimes")
        assert "\x1b" not in done.text and done.rc == 0, done.errors


def test_names_that_would_act(cli, server):
    box = {"id": EVIL, "name": EVIL, "state": [], "created": "x", "last_used": 1 << 62, "expires": -5}
    server.answer = lambda *_: http(200, {"sandboxes": [box, 7, None, {}], "cursor": None})
    done = cli("ps").ok()
    assert len(done.text.splitlines()) == 5
    server.answer = lambda *_: http(200, {"a": {"b" + EVIL: [EVIL, {}]}, EVIL: EVIL, "created": 1 << 62})
    text = done.text + cli("show", "x").ok().text
    assert not any(c in text for c in "\x1b\x07\x9b\u202e")
    server.answer = lambda *_: http(200, {"sandboxes": [{"name": "$(touch x)", "id": "`x`"}, {"name": "good"}]})
    assert cli("__complete", "rm", "").ok().text == "good\t\n"


def test_names_are_encoded(cli, server):
    server.answer = lambda *_: http(200, {})
    cli("show", "a/../b?c=d&e#f g\n").ok()
    assert server.asked[0][1] == "/v1/sandboxes/a%2F..%2Fb%3Fc%3Dd%26e%23f%20g%0A"
    for name in ("", ".", ".."):
        fails(cli("show", name), "can't be a sandbox")


def test_logs_that_would_act_on_nothing(cli, server):
    server.answer = lambda *_: http(200, {"logs": [{"stream": "stdout", "text": "a"}, {"stream": 7}, 8, {},
                                                   {"stream": "stderr", "base64": "/w=="}]})
    done = cli("logs", "x").ok()
    assert (done.out, done.err) == (b"a", b"\xff")


# Copies

def tree(entries, data=b"data"):
    def answer(method, path, body):
        if "/files/stat" in path:
            return http(200, {"name": "d", "type": "directory", "mode": "0755"})
        if "/files/list" in path:
            return http(200, {"entries": entries})
        return http(200, data, "application/octet-stream")
    return answer


NAMES = ["../evil", "..", ".", "", "/evil", "a/evil", "evil\0", "evil\x1b[2J", "evil\n", "e" * 300, 7, None, [], {}]


def test_copied_names_stay_in_their_place(cli, server, place):
    server.answer = tree([{"name": n, "type": t, "mode": "0777", "size": 1} for n in NAMES for t in ("file", "directory")]
                         + [{"name": "good", "type": "file", "mode": "4777"}, {"name": "l", "type": "symlink"},
                            {"name": "x", "type": 7}, 9, None])
    done = cli("cp", "x:d", "out")
    assert done.rc == 0 and "left out" in done.errors
    assert sorted(str(p.relative_to(place)) for p in place.rglob("*")) == ["out", "out/good", "s.sock"]
    assert (place / "out/good").read_bytes() == b"data" and (place / "out/good").stat().st_mode & 0o7000 == 0


def test_a_tree_without_end(cli, server, place):
    server.answer = tree([{"name": "d", "type": "directory"}])
    fails(cli("cp", "x:d", "out"))
    server.answer = tree([{"name": f"f{n}", "type": "file"} for n in range(12000)], b"")
    done = cli("cp", "x:d", "out2", timeout=60)
    assert done.rc == OURS and "more than 10000 files" in done.errors


def test_copies_replace_links_and_no_devices(cli, server, place):
    (place / "out").mkdir()
    (place / "victim").write_text("old")
    (place / "out/f").symlink_to(place / "victim")
    (place / "out/d").symlink_to(place)
    (place / "out/p").mkdir()
    os.mkfifo(place / "out/q")
    server.answer = tree([{"name": "f", "type": "file"}])
    cli("cp", "x:d/.", "out").ok()
    assert (place / "victim").read_text() == "old" and (place / "out/f").read_bytes() == b"data"
    for name, type in (("d", "directory"), ("p", "file"), ("q", "file")):
        server.answer = tree([{"name": name, "type": type}])
        assert cli("cp", "x:d/.", "out").rc == OURS
    assert not [n for n in os.listdir(place / "out") if n.startswith(".cay")]


def test_a_copy_that_is_cut_short_leaves_what_was_there(cli, server, place):
    (place / "f").write_text("old")

    def answer(method, path, body):
        if "/files/stat" in path:
            return http(200, {"name": "f", "type": "file"})
        return lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
    server.answer = answer
    fails(cli("cp", "x:f", "f"), "lost")
    assert (place / "f").read_text() == "old" and sorted(os.listdir(place)) == ["f", "s.sock"]


def test_a_refusal_before_all_is_sent(cli, server, place):
    (place / "big").write_bytes(b"x" * (32 << 20))

    def answer(method, path, body):
        if method == "PUT":
            return http(413, {"error": {"code": "too_large", "message": "no room for that"}})
        return http(200, {"name": "d", "type": "directory"})
    server.answer, server.early = answer, True
    fails(cli("cp", "big", "x:"), "no room for that")


def test_a_connection_that_is_closed_between_requests(cli, server, place):
    server.answer, server.closes = tree([{"name": f"f{n}", "type": "file"} for n in range(5)]), True
    cli("cp", "x:d", "out").ok()
    assert len(os.listdir(place / "out")) == 5


# Silence

@pytest.mark.parametrize("args", [("ps",), ("run", "-c", "1"), ("exec", "x", "--", "true"), ("logs", "-f", "x"),
                                  ("cp", "x:f", ".")], ids=" ".join)
def test_ctrl_c_while_a_daemon_is_silent(cay, server, args):
    server.answer = lambda *_: lambda connection: time.sleep(20)
    p = cay.start(*args, env={"CAY_HOST": f"unix:{server.path}"}, stdin=subprocess.DEVNULL)
    wait_until(lambda: server.asked, 10, "the request")
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=5)
    assert p.returncode == 130 and out == b""


# The default socket

@pytest.fixture
def stranger(scratch):
    """cay of a user whose default socket is the server's."""
    if os.geteuid() != 0:
        must_work("only root can be another user")
    place = pathlib.Path(tempfile.mkdtemp(prefix="u-", dir=scratch))
    os.chown(place, STRANGER, STRANGER)
    place.chmod(0o755)
    (place / "work").mkdir()
    os.chown(place / "work", STRANGER, STRANGER)
    cay = Cay(place / "work", place / "home", scratch / "tmp")
    cay.env["XDG_RUNTIME_DIR"] = str(place)
    cay.prefix = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    server = Server(place / "cay.sock")
    os.chmod(place / "cay.sock", 0o777)
    server.answer = lambda *_: events(("stdout", {"text": "by a daemon\n"}), ("result", result()))
    yield cay, server, place / "work"
    server.close()
    shutil.rmtree(place)


def test_the_default_socket_is_used_where_it_makes_no_difference(stranger):
    cay, server, place = stranger
    (place / "x.py").write_text("print('here')")
    (place / "in").write_text("in")
    assert cay.run("--", "echo", "here").ok().text == "by a daemon\n"
    assert cay.run("x.py").ok().text == "by a daemon\n"
    with open(place / "in") as file:
        assert cay.run("--", "cat", stdin=file).ok().text == "by a daemon\n"
    assert json.loads(server.asked[-1][3])["stdin"] == "in"


def test_a_default_daemon_without_room_is_none(stranger):
    cay, server, place = stranger
    server.answer = lambda *_: http(503, {"error": {"code": "at_capacity", "message": "full"}})
    (place / "x.sh").write_text("cat; echo $0")
    (place / "in").write_text("in\n")
    with open(place / "in") as file:
        done = cay.run("--allow-degraded", "x.sh", stdin=file).ok()
    assert done.text == "in\n/workspace/x.sh\n" and len(server.asked) == 1
    done = cay.run("--allow-degraded", "--", "true", env={"CAY_HOST": f"unix:{server.path}"})
    assert done.rc == OURS and done.said == ["cay: full"]


def test_settings_of_a_call_are_not_a_daemons(stranger):
    cay, server, place = stranger
    (place / "cay.conf").write_text("[isolation]\nallow_degraded = yes\n")
    assert cay.run("--", "echo", "here", config=place / "cay.conf").ok().text == "here\n"
    assert not server.asked


@pytest.mark.parametrize("args", [("--workspace", "."), ("-v", ".:/mnt"), ("--put", "x.py"), ("--get", "*.png"),
                                  ("--stdin", "x.py"), ("--engine", "direct"), ("--dry-run",)], ids=" ".join)
def test_the_default_socket_is_not_used_where_it_does(stranger, args):
    cay, server, place = stranger
    (place / "x.py").write_text("print('here')")
    cay.run("--allow-degraded", *args, "--", "true").ok()
    assert not server.asked


def test_input_that_comes_as_it_comes_is_not_sent(stranger):
    cay, server, _ = stranger
    assert cay.run("--allow-degraded", "--", "cat", input="x").ok().text == "x"
    assert not server.asked


def test_a_socket_that_nobody_listens_on(stranger):
    cay, server, place = stranger
    server.close()
    assert cay.run("--allow-degraded", "--", "echo", "here").ok().text == "here\n"
    done = cay("ps")
    assert done.rc == OURS and "cay serve" in done.errors
