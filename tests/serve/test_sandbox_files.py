"""The files of live sandboxes: in, out, listed, moved and watched."""
import ast
import base64
import contextlib
import hashlib
import http.client
import json
import os
import socket
import threading
import time

import pytest

from memory import GROWTH_MAX, Peak
from support import SOAK, wait_until

MB = 1 << 20


# In and out

@pytest.mark.parametrize("data", [b"", b"x", "grüße\n".encode(), bytes(range(256)) * 999, os.urandom(3 * MB + 7)],
                         ids=["empty", "one", "text", "binary", "large"])
def test_what_is_written_is_read(sandbox, data):
    made = sandbox.write("a/b/c.bin", data)
    assert made.status == 201
    assert made.json["path"] == "a/b/c.bin" and made.json["size"] == len(data) and made.json["mode"] == "0644"
    assert abs(made.json["mtime"] - time.time()) < 60
    got = sandbox.read("a/b/c.bin")
    assert (got.status, got.body) == (200, data)
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-length"] == str(len(data))
    assert got.headers["x-cay-mode"] == "0644"
    assert sandbox.show()["busy"] == 0


def test_code_sees_what_was_written_and_is_seen(sandbox):
    sandbox.write("in.txt", b"21")
    done = sandbox.python("open('out.txt', 'w').write(str(int(open('in.txt').read()) * 2))")
    assert done["status"] == "ok", done
    assert sandbox.read("out.txt").body == b"42"
    assert sandbox.read("/workspace/out.txt").body == b"42"


NAMES = ["with space", "new\nline", "-rf", "~", "~root", "ü", "日本", "a'b\"c", "$(id)", "a;b|c&d", "*", "..x", "...",
         "%41", "a\\b", "\x01\x1b[31m", "+", "=", "#", "?", b"\xff\xfe", b"caf\xe9", "x" * 255]


def test_odd_names(sandbox):
    for name in NAMES:
        assert sandbox.write(name, repr(name).encode()).status == 201, name
    for name in NAMES:
        assert sandbox.read(name).body == repr(name).encode()
    entries = sandbox.list()["entries"]
    exact = {base64.b64decode(e["name_base64"]) if "name_base64" in e else e["name"].encode() for e in entries}
    assert exact == {n if isinstance(n, bytes) else n.encode() for n in NAMES}
    assert [e["name"] for e in entries if "name_base64" in e] == ["caf�", "��"]
    done = sandbox.python("import os; print(len(os.listdir(b'.')))")
    assert done["stdout"] == f"{len(NAMES)}\n"
    for name in NAMES:
        assert sandbox.files("DELETE", path=name).json == {"removed": 1}
    assert sandbox.list()["entries"] == []


def test_a_file_that_is_replaced_keeps_its_mode(sandbox):
    assert sandbox.write("x", b"1", mode="0750").json["mode"] == "0750"
    again = sandbox.write("x", b"22")
    assert (again.status, again.json["mode"], again.json["size"]) == (200, "0750", 2)
    assert sandbox.write("x", b"22", mode="600").json["mode"] == "0600"
    assert sandbox.read("x").headers["x-cay-mode"] == "0600"


def test_append(sandbox):
    assert sandbox.write("log", b"a", append=1).status == 201
    assert sandbox.write("log", b"b", append=1).json["size"] == 2
    assert sandbox.read("log").body == b"ab"


def test_no_overwriting(sandbox):
    assert sandbox.write("x", b"1", overwrite=0).status == 201
    assert sandbox.write("x", b"2", overwrite=0).failure == (409, "conflict")
    assert sandbox.read("x").body == b"1"


@pytest.mark.parametrize("mode", ["4755", "888", "rw", "", "07777", "7", "-644", "0o644"])
def test_bad_modes(sandbox, mode):
    assert sandbox.write("x", b"", mode=mode).failure == (400, "invalid_request")


@pytest.mark.parametrize("method, what, params", [
    ("GET", "", {}), ("PUT", "", {}), ("DELETE", "", {}), ("GET", "/stat", {}), ("GET", "", {"path": ""}),
    ("GET", "", {"path": "x", "mode": "644"}), ("PUT", "", {"path": "x", "append": "maybe"}),
    ("GET", "/list", {"depth": "0"}), ("GET", "/list", {"depth": "65"}), ("GET", "/list", {"limit": "0"}),
    ("GET", "/list", {"limit": "10001"}), ("GET", "/list", {"cursor": "%%%"}), ("GET", "/list", {"cursor": "AA=="}),
    ("GET", "/archive", {"format": "rar"}), ("GET", "/watch", {"depth": "1"}), ("PUT", "", {"path": "a/.."}),
    ("GET", "", {"path": "x" * 5000}), ("PUT", "", {"path": "y" * 300}), ("PUT", "", {"path": "."})])
def test_bad_requests(sandbox, method, what, params):
    answer = sandbox.files(method, what, body=b"x" if method == "PUT" else None, **params)
    assert answer.failure == (400, "invalid_request"), answer.body


def test_nul_in_a_path(sandbox):
    assert sandbox.request("GET", "/files?path=a%00b").failure == (400, "invalid_request")
    assert sandbox.post("mkdir", {"path": "a\0b"}).failure == (400, "invalid_request")


def test_what_is_not_there(sandbox, daemon):
    for answer in (sandbox.read("nix"), sandbox.stat("nix"), sandbox.files("DELETE", path="nix"),
                   sandbox.files("GET", "/list", path="nix"), sandbox.files("GET", "/archive", path="nix"),
                   sandbox.files("GET", "/watch", path="nix"), sandbox.post("move", {"from": "nix", "to": "x"}),
                   daemon.get("/v1/sandboxes/sbx_0000000000000000/files?path=x"),
                   daemon.request("PUT", "/v1/sandboxes/nix/files?path=x", body=b"data")):
        assert answer.failure == (404, "not_found")
    assert sandbox.show()["busy"] == 0


def test_directories_are_no_files(sandbox):
    sandbox.post("mkdir", {"path": "d"})
    answer = sandbox.read("d")
    assert answer.failure == (409, "conflict") and "archive" in answer.error["hint"]
    assert sandbox.write("d", b"x").failure == (409, "conflict")
    assert sandbox.read("d/x/../../y").status == 404


def test_what_may_not_be(sandbox):
    assert sandbox.write("/usr/bin/x", b"x").failure == (403, "policy_denied")
    assert sandbox.write("/proc/x", b"x").status in (403, 404)
    sandbox.write("secret", b"x", mode="000")
    assert sandbox.read("secret").failure == (403, "policy_denied")


def test_files_of_proc_have_no_size_and_are_read(sandbox):
    answer = sandbox.read("/proc/self/status")
    assert answer.status == 200 and b"\nPid:" in answer.body
    assert sandbox.read("/proc/self/status", {"Range": "bytes=0-3"}).status == 416


# Ranges

@pytest.mark.parametrize("header, first, last", [
    ("bytes=0-0", 0, 0), ("bytes=0-99", 0, 99), ("bytes=90-", 90, 99), ("bytes=-10", 90, 99), ("bytes=-1000", 0, 99),
    ("bytes=50-1000", 50, 99), ("bytes=99-99", 99, 99)])
def test_ranges(sandbox, header, first, last):
    data = bytes(range(100))
    sandbox.write("x", data)
    got = sandbox.read("x", {"Range": header})
    assert (got.status, got.body) == (206, data[first:last + 1])
    assert got.headers["content-range"] == f"bytes {first}-{last}/100"


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=9999999999-"])
def test_ranges_behind_the_end(sandbox, header):
    sandbox.write("x", b"y" * 100)
    got = sandbox.read("x", {"Range": header})
    assert got.failure == (416, "invalid_request") and got.headers["content-range"] == "bytes */100"


@pytest.mark.parametrize("header", ["bytes=5-2", "bytes=", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4",
                                    "bytes=--1", "bytes=18446744073709551615-", "bytes=" + "9" * 50])
def test_ranges_that_are_none_are_passed_over(sandbox, header):
    sandbox.write("x", b"y" * 10)
    got = sandbox.read("x", {"Range": header})
    assert (got.status, got.body) == (200, b"y" * 10)


def test_head(sandbox, daemon):
    sandbox.write("x", b"y" * 12345)
    with contextlib.closing(daemon.connection()) as c:
        for headers, status, length in (({}, 200, "12345"), ({"Range": "bytes=-5"}, 206, "5")):
            c.request("HEAD", f"{sandbox.url}/files?path=x", headers=headers)
            answer = c.getresponse()
            assert (answer.status, answer.headers["content-length"], answer.read()) == (status, length, b"")
    assert sandbox.show()["busy"] == 0


# Atomic

def test_a_reader_sees_the_old_or_the_new(sandbox):
    old, new = b"o" * 300_000, b"n" * 400_000
    sandbox.write("x", old)
    stop = threading.Event()

    def writer():
        while not stop.is_set():
            sandbox.write("x", new)
            sandbox.write("x", old)

    t = threading.Thread(target=writer)
    t.start()
    try:
        seen = {sandbox.read("x").body for _ in range(60)}
        inside = sandbox.python("seen = {open('x').read() for _ in range(2000)}\n"
                                "print(sorted((len(s), len(set(s))) for s in seen))")["stdout"]
    finally:
        stop.set()
        t.join()
    assert seen <= {old, new}
    assert set(ast.literal_eval(inside)) <= {(300_000, 1), (400_000, 1)}
    assert sandbox.names() == ["x"]


@pytest.mark.parametrize("chunked", [False, True])
def test_an_upload_that_breaks_off_leaves_nothing(sandbox, daemon, chunked):
    sandbox.write("x", b"old")
    for path in ("x", "new/file"):
        c = daemon.connection()
        c.putrequest("PUT", f"{sandbox.url}/files?path={path}")
        c.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(10 * MB))))
        c.endheaders()
        piece = b"z" * MB
        c.send(b"%x\r\n%s\r\n" % (MB, piece) if chunked else piece)
        time.sleep(0.1)
        c.close()
    sandbox.wait_idle()
    assert sandbox.read("x").body == b"old"
    assert sandbox.read("new/file").status == 404
    assert sandbox.sh("find . -type f")["stdout"] == "./x\n"
    assert sandbox.sh("ls -la /proc/*/fd 2>/dev/null | grep -c deleted")["stdout"] == "0\n"


def test_an_append_that_breaks_off_is_taken_back(sandbox, daemon):
    sandbox.write("x", b"old")
    c = daemon.connection()
    c.putrequest("PUT", f"{sandbox.url}/files?path=x&append=1")
    c.putheader("Content-Length", "1000000")
    c.endheaders(b"z" * 500000)
    time.sleep(0.1)
    c.close()
    sandbox.wait_idle()
    assert sandbox.read("x").body == b"old"


# Large

class Source:
    """Bytes that are made as they are read, and summed."""

    def __init__(self, size):
        self.left, self.sum, self.block = size, hashlib.blake2b(), os.urandom(MB)
        self.size = size

    def __iter__(self):
        while self.left:
            piece = self.block[:min(self.left, MB)]
            self.left -= len(piece)
            self.sum.update(piece)
            yield piece


def upload(daemon, url, source, timeout=300):
    with contextlib.closing(daemon.connection(timeout=timeout)) as c:
        c.request("PUT", url, body=iter(source), headers={"Content-Length": str(source.size)})
        answer = c.getresponse()
        return answer.status, json.loads(answer.read())


def download(daemon, url, pause=0, timeout=300):
    summed, size = hashlib.blake2b(), 0
    with contextlib.closing(daemon.connection(timeout=timeout)) as c:
        c.request("GET", url)
        answer = c.getresponse()
        assert answer.status == 200
        while piece := answer.read(MB):
            summed.update(piece)
            size += len(piece)
            time.sleep(pause)
    return size, summed.hexdigest()


@pytest.mark.parametrize("size", [300 * MB, 2048 * MB] if SOAK else [300 * MB])
def test_large_files_in_constant_memory(daemon, size):
    with daemon.sandbox(limits={"disk": size + 50 * MB, "memory": size + 512 * MB}) as s:
        source = Source(size)
        with Peak(daemon) as peak:
            status, made = upload(daemon, f"{s.url}/files?path=big", source)
            assert (status, made["size"]) == (201, size)
            assert download(daemon, f"{s.url}/files?path=big") == (size, source.sum.hexdigest())
        assert max(peak.grown.values()) < GROWTH_MAX, peak.grown


def test_a_slow_reader_holds_the_agent_back(daemon):
    with daemon.sandbox(limits={"disk": "200m", "memory": "512m"}) as s:
        s.sh("head -c 100000000 /dev/zero > big")
        with Peak(daemon) as peak, contextlib.closing(daemon.connection()) as c:
            c.request("GET", f"{s.url}/files?path=big")
            answer = c.getresponse()
            time.sleep(1)
            # Others are served meanwhile.
            started = time.monotonic()
            assert s.stat("big").json["size"] == 100_000_000
            assert time.monotonic() - started < 1
            assert s.show()["busy"] == 1
            got = 0
            while got < 100_000_000:
                piece = answer.read(8 * MB)
                assert piece == bytes(len(piece)) and piece
                got += len(piece)
                time.sleep(0.02)
            assert answer.read() == b""
        s.wait_idle()
        assert max(peak.grown.values()) < GROWTH_MAX, peak.grown


def test_a_slow_writer(sandbox, daemon):
    with contextlib.closing(daemon.connection()) as c:
        c.putrequest("PUT", f"{sandbox.url}/files?path=slow")
        c.putheader("Content-Length", "500")
        c.endheaders()
        for n in range(5):
            assert sandbox.read("slow").status == 404
            c.send(bytes([65 + n]) * 100)
            time.sleep(0.1)
        assert c.getresponse().status == 201
    assert sandbox.read("slow").body == b"".join(bytes([65 + n]) * 100 for n in range(5))


def test_a_stopped_agent_does_not_stop_the_daemon(daemon):
    """User code runs as the agent's user and may stop it."""
    with daemon.sandbox(limits={"disk": "200m", "memory": "512m"}) as s:
        s.sh("head -c 50000000 /dev/zero > big")
        c = daemon.connection()
        c.request("GET", f"{s.url}/files?path=big")
        time.sleep(0.2)
        s.sh("for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 ] || [ $n = $$ ] || kill -STOP $n; done 2>/dev/null")
        assert daemon.get("/v1/health", timeout=5).status == 200
        assert s.show()["busy"] >= 1
        c.close()
        s.wait_idle()


def test_twenty_at_once(daemon):
    with daemon.sandbox(limits={"disk": "300m", "memory": "1g", "pids": 100}) as s:
        datas = [os.urandom(2 * MB + n) for n in range(20)]
        wrong = []

        def one(n):
            if s.write(f"f{n}", datas[n]).status != 201 or s.read(f"f{n}").body != datas[n]:
                wrong.append(n)

        threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong and len(s.names()) == 20
        assert s.show()["busy"] == 0


def test_a_full_disk_names_the_limit(daemon):
    with daemon.sandbox(limits={"disk": "20m"}) as s:
        answer = s.write("big", b"x" * (30 * MB))
        assert answer.failure == (413, "too_large")
        assert "disk" in answer.error["message"] + answer.error["hint"]
        assert s.names() == []
        assert s.write("small", b"x" * MB).status == 201


# What is going on meanwhile

@pytest.mark.parametrize("what", ["read", "write", "pack", "unpack", "watch"])
def test_a_sandbox_that_ends_in_the_middle(daemon, what):
    with daemon.sandbox(limits={"disk": "200m", "memory": "512m"}) as s:
        s.sh("mkdir d; head -c 50000000 /dev/zero > d/big")
        c = daemon.connection(timeout=20)
        if what in ("write", "unpack"):
            c.putrequest(*(("PUT", f"{s.url}/files?path=x") if what == "write"
                           else ("POST", f"{s.url}/files/archive")))
            c.putheader("Content-Length", str(10 * MB))
            c.endheaders()
            if what == "write":
                c.send(b"x" * MB)
        else:
            path = {"read": "?path=d/big", "pack": "/archive?path=d", "watch": "/watch?path=d"}[what]
            c.request("GET", f"{s.url}/files{path}")
            answer = c.getresponse()
        time.sleep(0.2)
        assert s.show()["busy"] == 1
        assert daemon.delete(s.url).status == 200
        if what in ("write", "unpack"):
            answer = c.getresponse()
            assert answer.status == 410
            assert json.loads(answer.read())["error"]["code"] == "expired"
        elif what == "watch":
            assert answer.read().decode().startswith("event: end\ndata: {")
        else:
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
        c.close()
        assert s.read("d/big").status in (404, 410)
    assert daemon.get("/v1/health").status == 200


def test_a_paused_sandbox(sandbox, daemon):
    sandbox.write("x", b"1")
    paused = sandbox.request("POST", "/pause")
    if daemon.who == "user" and paused.status == 422:
        assert paused.failure == (422, "unsupported")
        return
    assert paused.status == 200
    for answer in (sandbox.read("x"), sandbox.write("x", b"2"), sandbox.files("GET", "/archive")):
        assert answer.failure == (409, "conflict")
        assert "resume" in answer.error["message"] + answer.error["hint"]
    assert sandbox.request("POST", "/resume").status == 200
    assert sandbox.read("x").body == b"1"


def test_a_gone_sandbox(daemon):
    with daemon.sandbox() as s:
        daemon.delete(s.url)
        for answer in (s.read("x"), s.write("x", b"y" * MB), s.files("GET", "/list")):
            assert answer.status in (404, 410)


def test_clients_that_go_free_the_sandbox(sandbox, daemon):
    sandbox.sh("head -c 30000000 /dev/urandom > big; mkdir -p d; cp big d/")
    for path in ("?path=big", "/archive?path=d", "/archive?path=d&format=tar.gz", "/watch?path=d"):
        c = daemon.connection()
        c.request("GET", f"{sandbox.url}/files{path}")
        c.getresponse()
        assert sandbox.show()["busy"] == 1
        c.close()
        sandbox.wait_idle()
    assert sandbox.sh("ls /proc | grep -c '^[0-9]'")["stdout"] in ("3\n", "4\n", "5\n")


# Links, and what else may be in the way

def test_links_lead_no_further_than_the_island(sandbox):
    host = open("/etc/passwd", "rb").read()
    sandbox.sh("ln -s /etc/passwd p; ln -s ../../../../../../etc/passwd q; ln -s / r; ln -s /proc/1/root s;"
               "ln -s /proc/1/cwd t; ln -s loop loop")
    own = sandbox.sh("cat /etc/passwd")["stdout"].encode()
    assert own and own != host
    for path in ("p", "q", "r/etc/passwd", "../etc/passwd", "../../../../../../../etc/passwd", "/etc/passwd",
                 "//etc//passwd", "/proc/self/root/etc/passwd"):
        assert sandbox.read(path).body == own, path
    for path in ("s/etc/passwd", "t/x"):
        assert sandbox.read(path).status in (403, 404)
    assert sandbox.read("loop").failure == (400, "invalid_request")
    assert sandbox.write("p", b"mine").status == 200
    assert sandbox.stat("p").json["type"] == "file"
    assert sandbox.read("/etc/passwd").body == own


def test_no_file_of_the_host_is_reached(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("host")
    os.chmod(tmp_path, 0o777)
    os.chmod(secret, 0o666)
    assert sandbox.read(str(secret)).status in (403, 404)
    assert sandbox.write(str(secret), b"x").status in (201, 403, 404)
    assert sandbox.write("../" * 20 + str(secret), b"x").status in (200, 201, 403, 404)
    assert secret.read_text() == "host"


ROUNDS = 10_000 if SOAK else 100

FLIP = r"""
import ctypes, os
os.makedirs('d/in', exist_ok=True)
open('d/in/f', 'w').write('inside')
os.symlink('/etc', 'l')
libc = ctypes.CDLL(None)
open('ready', 'w').close()
while not os.path.exists('stop'):
    libc.renameat2(-100, b'd', -100, b'l', 2)
"""


def test_races_with_links_stay_inside(daemon):
    with daemon.sandbox(limits={"pids": 100}) as s:
        host = open("/etc/passwd", "rb").read()
        own = s.read("/etc/passwd").body
        before = {name: os.lstat(f"/etc/{name}").st_mtime_ns for name in os.listdir("/etc")}
        t = threading.Thread(target=s.request, args=("POST", "/runs", {"language": "python", "code": FLIP}),
                             kwargs={"timeout": 600})
        t.start()
        try:
            wait_until(lambda: s.stat("ready").status == 200, 20, "the race")
            seen = set()
            for n in range(ROUNDS):
                got = s.read("d/passwd")
                seen.add(got.status)
                assert got.status == 404 or got.body == own != host
                seen.add(s.write("d/cay-race", b"x").status)
                s.files("DELETE", path="d/cay-race", recursive=1)
                s.post("mkdir", {"path": "d/cay-dir/x"})
                s.post("move", {"from": "d/in", "to": "d/cay-moved", "overwrite": True})
                s.post("move", {"from": "d/cay-moved", "to": "d/in"})
        finally:
            s.write("stop", b"")
            t.join(timeout=60)
        # It did race: both directories were met.
        assert {200, 404} <= seen <= {200, 201, 403, 404}
        assert {name: os.lstat(f"/etc/{name}").st_mtime_ns for name in os.listdir("/etc")} == before


def test_fifos_and_such_do_not_block(sandbox):
    done = sandbox.python("import os, socket\nos.mkfifo('fifo')\n"
                          "s = socket.socket(socket.AF_UNIX); s.bind('sock')\nos.symlink('/dev/zero', 'dev')")
    assert done["status"] == "ok", done
    for path in ("fifo", "sock", "dev", "/dev/zero", "/dev/tty"):
        started = time.monotonic()
        assert sandbox.read(path).status in (400, 403, 404), path
        assert sandbox.write(path, b"x", append=1).status in (400, 403, 404, 409), path
        assert time.monotonic() - started < 2
    types = {e["name"]: e["type"] for e in sandbox.list()["entries"]}
    assert types == {"fifo": "fifo", "sock": "socket", "dev": "symlink"}
    assert sandbox.stat("dev", follow=1).json["type"] == "device"
    assert sandbox.files("GET", "/archive").status == 200


def test_a_file_that_grows_is_read_as_it_was(sandbox):
    t = threading.Thread(target=sandbox.sh, args=(
        "head -c 10000000 /dev/zero > x; touch ready; while [ ! -e stop ]; do echo more >> x; done",))
    t.start()
    try:
        wait_until(lambda: sandbox.stat("ready").status == 200, 20, "the file")
        for _ in range(5):
            got = sandbox.read("x")
            assert got.status == 200 and len(got.body) == int(got.headers["content-length"])
    finally:
        sandbox.write("stop", b"")
        t.join()


def test_a_file_that_shrinks_is_broken_off(sandbox, daemon):
    sandbox.sh("head -c 50000000 /dev/zero > x")
    with contextlib.closing(daemon.connection()) as c:
        c.request("GET", f"{sandbox.url}/files?path=x")
        answer = c.getresponse()
        sandbox.sh(": > x")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
    sandbox.wait_idle()


def test_a_huge_sparse_file(daemon):
    with daemon.sandbox(limits={"memory": "256m"}) as s:
        done = s.sh("truncate -s 8T x || truncate -s 1T x || truncate -s 10G x; stat -c %s x")
        size = int(done["stdout"])
        assert s.stat("x").json["size"] == size
        assert s.read("x", {"Range": "bytes=1000000000-1000000009"}).body == bytes(10)
        c = daemon.connection()
        c.request("GET", f"{s.url}/files?path=x")
        answer = c.getresponse()
        assert answer.headers["content-length"] == str(size) and answer.read(MB) == bytes(MB)
        c.close()
        s.wait_idle()


# List, stat, mkdir, move, remove

def test_list(sandbox):
    sandbox.sh("mkdir -p a/b/c; echo 12345 > a/f; chmod 600 a/f; ln -s f a/l; touch -d @1234567890.5 a/b/t")
    assert sandbox.names() == ["a"]
    entries = {e["path"]: e for e in sandbox.list("a", depth=3)["entries"]}
    assert list(entries) == ["a/b", "a/b/c", "a/b/t", "a/f", "a/l"]
    assert entries["a/f"] == {"path": "a/f", "name": "f", "type": "file", "size": 6, "mode": "0600",
                              "mtime": entries["a/f"]["mtime"]}
    assert (entries["a/l"]["type"], entries["a/l"]["target"]) == ("symlink", "f")
    assert entries["a/b"]["type"] == "directory"
    assert entries["a/b/t"]["mtime"] == 1234567890.5
    assert [e["path"] for e in sandbox.list("/workspace/a/")["entries"]] == [
        "/workspace/a/b", "/workspace/a/f", "/workspace/a/l"]
    assert sandbox.files("GET", "/list", path="a/f").failure == (400, "invalid_request")


def test_list_goes_on_by_its_cursor(sandbox):
    sandbox.python("import os\nfor n in range(2500):\n  os.makedirs(f'd{n % 50}', exist_ok=True)\n"
                   "  open(f'd{n % 50}/ü?>{n}', 'w').close()")
    seen, cursor, rounds = [], None, 0
    while True:
        page = sandbox.list(depth=2, limit=700, **({"cursor": cursor} if cursor else {}))
        seen += [e["path"] for e in page["entries"]]
        cursor, rounds = page["cursor"], rounds + 1
        if not cursor:
            break
        assert len(page["entries"]) == 700
    assert rounds == 4 and len(seen) == len(set(seen)) == 2550
    assert seen == [e["path"] for e in sandbox.list(depth=2, limit=10000)["entries"]]


def test_stat(sandbox):
    sandbox.write("x", b"abc")
    sandbox.sh("ln -s x l; ln -s nowhere n")
    assert sandbox.stat("x").json["size"] == 3
    assert (sandbox.stat("l").json["type"], sandbox.stat("l").json["target"]) == ("symlink", "x")
    assert (sandbox.stat("l", follow=1).json["type"], sandbox.stat("l", follow=1).json["size"]) == ("file", 3)
    assert sandbox.stat("n").status == 200 and sandbox.stat("n", follow=1).status == 404


def test_mkdir(sandbox):
    made = sandbox.post("mkdir", {"path": "a/b", "mode": "0700"})
    assert (made.status, made.json["type"], made.json["mode"]) == (201, "directory", "0700")
    assert sandbox.post("mkdir", {"path": "a/b"}).status == 200
    sandbox.write("f", b"")
    assert sandbox.post("mkdir", {"path": "f"}).failure == (409, "conflict")
    for body in ({}, {"path": 1}, {"path": "x", "mode": 644}, {"path": "x", "more": 1}, {"path": "x", "to": "y"}, [],
                 {"path": ""}):
        assert sandbox.post("mkdir", body).failure == (400, "invalid_request"), body


def test_move(sandbox):
    sandbox.write("a", b"1")
    moved = sandbox.post("move", {"from": "a", "to": "d/b"})
    assert (moved.status, moved.json["path"], moved.json["name"]) == (200, "d/b", "b")
    sandbox.write("c", b"2")
    assert sandbox.post("move", {"from": "c", "to": "d/b"}).failure == (409, "conflict")
    assert sandbox.post("move", {"from": "c", "to": "d/b", "overwrite": True}).status == 200
    assert sandbox.read("d/b").body == b"2" and sandbox.names() == ["d"]
    assert sandbox.post("move", {"from": "d/b", "to": "/tmp/x"}).status == 200
    assert sandbox.read("/tmp/x").body == b"2"
    for body in ({"from": "x"}, {"to": "x"}, {"from": "x", "to": "y", "overwrite": 1}, {"from": "x", "to": ""}):
        assert sandbox.post("move", body).failure == (400, "invalid_request"), body


def test_remove(sandbox):
    sandbox.sh("mkdir -p a/b/c; touch a/1 a/b/2; ln -s / a/root; mkdir empty")
    assert sandbox.files("DELETE", path="empty").json == {"removed": 1}
    assert sandbox.files("DELETE", path="a").failure == (409, "conflict")
    assert sandbox.files("DELETE", path="a", recursive=1).json == {"removed": 6}
    for path in (".", "/", "/workspace"):
        assert sandbox.files("DELETE", path=path, recursive=1).status in (400, 403, 409), path
    assert sandbox.sh("echo still here")["stdout"] == "still here\n"


# Watch

def test_watch(sandbox):
    sandbox.post("mkdir", {"path": "d/sub"})
    with sandbox.watch("d", recursive=1) as w:
        sandbox.write("d/sub/x", b"1")
        assert next(w)[1] == {"change": "created", "path": "d/sub/x", "type": "file"}
        sandbox.post("mkdir", {"path": "d/new"})
        assert next(w) == ("change", {"change": "created", "path": "d/new", "type": "directory"})
        sandbox.post("move", {"from": "d/sub/x", "to": "d/new/y"})
        assert next(w)[1] == {"change": "moved", "path": "d/sub/x", "to": "d/new/y", "type": "file"}
        sandbox.sh("echo more >> d/new/y")
        assert next(w)[1] == {"change": "modified", "path": "d/new/y", "type": "file"}
        sandbox.files("DELETE", path="d/new/y")
        assert next(w)[1] == {"change": "deleted", "path": "d/new/y", "type": "file"}
        sandbox.files("DELETE", path="d", recursive=1)
        while (event := next(w))[0] != "end":
            assert event[1]["change"] == "deleted"
        assert next(w, None) is None
    sandbox.wait_idle()


def test_a_watch_that_nobody_reads_keeps_nothing(sandbox, daemon):
    with sandbox.watch(".") as w:
        with Peak(daemon) as peak:
            sandbox.python("import os\nfor n in range(30000):\n  open(f'{n % 500:0200}', 'w').close()\n"
                           "  os.unlink(f'{n % 500:0200}')")
        assert max(peak.grown.values()) < GROWTH_MAX, peak.grown
        assert next(w)[0] == "change"


def test_watch_of_a_file_is_refused(sandbox):
    sandbox.write("x", b"")
    assert sandbox.files("GET", "/watch", path="x").status in (400, 404)


def test_a_daemon_that_ends_does_not_wait_for_those_who_watch(make_daemon):
    daemon = make_daemon()
    with daemon.sandbox() as s, s.watch(".") as w:
        started = time.monotonic()
        daemon.ask_to_end()
        assert next(w) == ("end", {"reason": "the daemon is ending"})
        daemon.stop()
        assert time.monotonic() - started < 10


# The connection itself

def test_one_connection_for_many(sandbox, daemon):
    with contextlib.closing(daemon.connection()) as c:
        for n in range(200):
            c.request("PUT", f"{sandbox.url}/files?path=f{n % 7}", body=b"x" * n * 100)
            assert c.getresponse().read()
            c.request("GET", f"{sandbox.url}/files?path=f{n % 7}")
            assert c.getresponse().read() == b"x" * n * 100
    assert sandbox.show()["busy"] == 0


def test_expect_continue_is_refused_before_the_body(sandbox, daemon):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(daemon.socket))
        s.sendall(f"PUT {sandbox.url}x/files?path=x HTTP/1.1\r\nHost: l\r\nContent-Length: 1000000\r\n"
                  "Expect: 100-continue\r\n\r\n".encode())
        assert s.recv(100).startswith(b"HTTP/1.1 404 ")
