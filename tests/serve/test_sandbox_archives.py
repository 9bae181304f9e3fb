"""Trees of files as archives, out of sandboxes and into them."""
import contextlib
import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
import threading
import time
import zipfile

import pytest

from memory import GROWTH_MAX
from support import SANITIZED, must_work

MB = 1 << 20


def tar_of(*entries, mode="w", **kwargs):
    """Of (name, what): bytes are a file, or a TarInfo's fields."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **kwargs) as t:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            data = what if isinstance(what, bytes) else b""
            info.size = len(data)
            if isinstance(what, dict):
                for field, value in what.items():
                    setattr(info, field, value)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put(sandbox, data, path="in"):
    return sandbox.files("POST", "/archive", body=data, path=path)


def get(sandbox, path=".", **params):
    answer = sandbox.files("GET", "/archive", path=path, **params)
    assert answer.status == 200, answer.body
    return answer


# What a tree is: names, types, modes, targets, times and bytes.
SHOW = r"""
import hashlib, os, sys
top = os.fsencode(sys.argv[1])
for here, dirs, files in sorted(os.walk(top)):
    for name in sorted(dirs + files):
        path = os.path.join(here, name)
        st = os.lstat(path)
        what = os.readlink(path) if os.path.islink(path) else b'' if os.path.isdir(path) else open(path, 'rb').read()
        times = '' if os.path.isdir(path) or os.path.islink(path) else int(st.st_mtime)
        print(os.path.relpath(path, top), oct(st.st_mode), hashlib.sha1(what).hexdigest(), times)
"""

MAKE = r"""
import os
os.makedirs('t/a/b/c'); os.makedirs('t/empty'); os.makedirs('t/deep/' + '/'.join('x' * 40))
for name, data in {'t/f': b'1', 't/a/zero': b'', 't/a/big': os.urandom(700000), b't/caf\xe9': b'latin', 't/ü\n': b'n',
                   't/-rf': b'', 't/' + 'l' * 200: b'long', 't/a/sh': b'#!/bin/sh\n'}.items():
    open(name, 'wb').write(data)
os.chmod('t/a/sh', 0o755); os.chmod('t/f', 0o600); os.chmod('t/empty', 0o700); os.chmod('t/a/b', 0o711)
os.utime('t/f', (1, 1234567890))
os.symlink('f', 't/link'); os.symlink('/etc/passwd', 't/out'); os.symlink('nowhere', 't/a/dangling'); os.symlink('a', 't/dir')
"""


@pytest.mark.parametrize("form, start", [("tar", b""), ("tar.gz", b"\x1f\x8b"), ("tar.zst", b"\x28\xb5\x2f\xfd")])
def test_round_trip(sandbox, form, start):
    assert sandbox.python(MAKE)["status"] == "ok"
    packed = get(sandbox, "t", format=form)
    assert packed.body.startswith(start)
    done = put(sandbox, packed.body, "copy")
    assert done.status == 200, done.body
    assert done.json["skipped"] == 0 and done.json["bytes"] == 700000 + 1 + 5 + 1 + 4 + 10
    before, after = (sandbox.python(SHOW, args=[top]) for top in ("t", "copy"))
    assert before["status"] == "ok" and before["stdout_truncated"] is False
    assert before["stdout"].count("\n") > 50
    assert after["stdout"] == before["stdout"]
    assert done.json["entries"] == before["stdout"].count("\n")
    assert sandbox.show()["busy"] == 0


def test_gnu_tar_reads_it_and_is_read(sandbox, tmp_path):
    sandbox.python(MAKE)
    subprocess.run(["tar", "-xf", "-", "-C", tmp_path], input=get(sandbox, "t").body, check=True, timeout=60)
    assert (tmp_path / "f").read_bytes() == b"1" and os.readlink(tmp_path / "out") == "/etc/passwd"
    assert (tmp_path / "f").stat().st_mtime == 1234567890 and (tmp_path / "empty").is_dir()
    packed = subprocess.run(["tar", "-cf", "-", "-C", tmp_path, "."], capture_output=True, check=True, timeout=60)
    assert put(sandbox, packed.stdout, "again").status == 200
    assert sandbox.python(SHOW, args=["again"])["stdout"] == sandbox.python(SHOW, args=["t"])["stdout"]


def test_one_file_as_an_archive(sandbox):
    sandbox.write("d/x", b"abc")
    with tarfile.open(fileobj=io.BytesIO(get(sandbox, "d/x").body)) as t:
        assert t.getnames() == ["x"] and t.extractfile("x").read() == b"abc"


def test_an_empty_tree(sandbox):
    sandbox.post("mkdir", {"path": "d"})
    assert tarfile.open(fileobj=io.BytesIO(get(sandbox, "d").body)).getnames() == []
    assert put(sandbox, tar_of(), "e").json == {"entries": 0, "bytes": 0, "skipped": 0}


def test_zip(sandbox):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a/b.txt", "text" * 1000)
        z.writestr("ü", "x")
    assert put(sandbox, out.getvalue()).json["entries"] == 2
    assert sandbox.read("in/a/b.txt").body == b"text" * 1000 and sandbox.read("in/ü").body == b"x"


def test_without_a_path_it_is_the_workspace(sandbox):
    assert sandbox.request("POST", "/files/archive", body=tar_of(("x", b"1"))).status == 200
    assert sandbox.read("x").body == b"1"
    answer = sandbox.request("GET", "/files/archive")
    assert answer.headers["content-type"] == "application/x-tar"
    assert tarfile.open(fileobj=io.BytesIO(answer.body)).getnames() == ["x"]


def test_what_is_behind_the_end_is_left(sandbox):
    assert put(sandbox, tar_of(("x", b"1")) + bytes(3 * MB)).json["entries"] == 1
    assert put(sandbox, tar_of(("x", b"1"), mode="w:gz") + b"rubbish" * 100000).status in (200, 400)


def test_in_pieces(sandbox, daemon):
    data = tar_of(("a", b"x" * 5000), ("b/c", b"y" * 70000), mode="w:gz")
    with contextlib.closing(daemon.connection()) as c:
        c.putrequest("POST", f"{sandbox.url}/files/archive?path=in")
        c.putheader("Transfer-Encoding", "chunked")
        c.endheaders()
        for n in range(0, len(data), 7):
            piece = data[n:n + 7]
            c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        c.send(b"0\r\n\r\n")
        assert json.loads(c.getresponse().read()) == {"entries": 2, "bytes": 75000, "skipped": 0}
    assert sandbox.read("in/b/c").body == b"y" * 70000


def test_an_idempotency_key_does_not_stand_for_another_archive(sandbox):
    for data, status in ((b"1", 200), (b"2", 409), (b"1", 200)):
        answer = sandbox.files("POST", "/archive", body=tar_of(("x", data)), path="in", headers={"Idempotency-Key": "k"})
        assert answer.status == status, answer.body
        assert sandbox.read("in/x").body == b"1"


# Hostile ones

HOSTILE = {
    "absolute": [("/tmp/cay-evil", b"x")],
    "up": [("../cay-evil", b"x")],
    "up in the middle": [("a/../../cay-evil", b"x")],
    "through a link": [("l", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}), ("l/cay-evil", b"x")],
    "through a link up": [("l", {"type": tarfile.SYMTYPE, "linkname": ".."}), ("l/cay-evil", b"x")],
    "character device": [("dev", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
    "block device": [("dev", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
    "fifo": [("fifo", {"type": tarfile.FIFOTYPE})],
    "hard link out": [("h", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})],
    "hard link up": [("h", {"type": tarfile.LNKTYPE, "linkname": "../secret"})],
    "hard link through a link": [("l", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
                                 ("h", {"type": tarfile.LNKTYPE, "linkname": "l/passwd"})],
    "below a file": [("f", b"x"), ("f/y", b"x")],
    "long name": [("n" * 300, b"x")],
    "long path": [("p/" * 2500 + "x", b"x")],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives(sandbox, case):
    sandbox.write("secret", b"mine")
    answer = put(sandbox, tar_of(*HOSTILE[case]))
    assert answer.status in (400, 404, 409, 413), answer.body
    assert answer.error["code"] in ("invalid_request", "not_found", "conflict", "too_large")
    found = sandbox.sh("find / -xdev -name 'cay-evil*' 2>/dev/null; find /workspace /tmp -name 'cay-evil*';"
                       "find /workspace ! -type f ! -type d ! -type l; find /workspace -links +1 -type f")["stdout"]
    assert found == ""
    assert sandbox.read("secret").body == b"mine"
    assert not os.path.exists("/tmp/cay-evil")
    assert sandbox.show()["busy"] == 0


def test_set_id_bits_are_taken_off(sandbox):
    assert put(sandbox, tar_of(("s", {"mode": 0o6755}), ("d", {"type": tarfile.DIRTYPE, "mode": 0o7777}))).status == 200
    assert sandbox.stat("in/s").json["mode"] == "0755" and sandbox.stat("in/d").json["mode"] == "0777"


def test_owners_are_not_taken_over(sandbox):
    assert put(sandbox, tar_of(("x", {"uid": 0, "gid": 0, "uname": "root"}))).status == 200
    assert sandbox.sh("test -O in/x && echo own")["stdout"] == "own\n"


def test_names_twice(sandbox):
    assert put(sandbox, tar_of(("x", b"1"), ("x", b"22"), ("d", {"type": tarfile.DIRTYPE}),
                               ("d", {"type": tarfile.DIRTYPE}))).status == 200
    assert sandbox.read("in/x").body == b"22"


def test_hard_links_inside(sandbox):
    assert put(sandbox, tar_of(("a", b"1"), ("b/c", {"type": tarfile.LNKTYPE, "linkname": "a"}))).status == 200
    assert sandbox.read("in/b/c").body == b"1"


@pytest.mark.parametrize("data", [b"", b"rubbish" * 999, b"\x1f\x8b\x08rubbish", b"PK\x03\x04rubbish",
                                  b"\x28\xb5\x2f\xfdrubbish", tar_of(("x", b"y" * 99999))[:50000],
                                  tar_of(("x", os.urandom(99999)), mode="w:gz")[:50000]],
                         ids=["empty", "rubbish", "gzip", "zip", "zstd", "cut", "cut gzip"])
def test_what_is_no_archive(sandbox, data):
    assert put(sandbox, data).failure == (400, "invalid_request")
    assert sandbox.sh("find . -type f")["stdout"] == ""
    assert sandbox.show()["busy"] == 0


def sparse_tar(size):
    """GNU's: a file of that size with one byte at its end, in a kilobyte."""
    def number(n):
        return b"%011o\0" % n if n < 8 ** 11 else b"\x80" + n.to_bytes(11, "big")
    h = bytearray(512)
    h[0:1], h[100:108], h[108:116], h[116:124] = b"s", b"0000644\0", b"0000000\0", b"0000000\0"
    h[124:136], h[136:148], h[156:157], h[257:265] = number(512), number(0), b"S", b"ustar  \0"
    h[386:398], h[398:410], h[483:495] = number(size - 512), number(512), number(size)
    h[148:156] = b" " * 8
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h) + b"e" * 512 + bytes(1024)


def test_a_huge_sparse_file(daemon):
    with daemon.sandbox(limits={"disk": "50m"}) as s:
        started = time.monotonic()
        answer = put(s, sparse_tar(8 << 40))
        assert answer.failure == (413, "too_large"), answer.body
        assert "disk" in answer.error["message"] + answer.error["hint"]
        assert time.monotonic() - started < 20
        assert s.sh("find . -type f")["stdout"] == ""


class Bomb:
    """Others must be served while it goes off."""

    def __init__(self, daemon):
        self.daemon = daemon

    def slowest(self, work):
        done, slow = threading.Event(), [0.0]

        def ask():
            while not done.is_set():
                started = time.monotonic()
                assert self.daemon.get("/v1/health", timeout=30).status == 200
                slow[0] = max(slow[0], time.monotonic() - started)
                time.sleep(0.005)

        t = threading.Thread(target=ask)
        t.start()
        try:
            return work(), slow[0]
        finally:
            done.set()
            t.join()


def test_a_gzip_bomb(daemon):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as z:
        info = tarfile.TarInfo("bomb")
        info.size = 2000 * MB
        z.write(info.tobuf())
        for _ in range(500):
            z.write(bytes(MB))
    with daemon.sandbox(limits={"disk": "50m"}) as s:
        before = daemon.rss()
        answer, slowest = Bomb(daemon).slowest(lambda: put(s, out.getvalue()))
        assert answer.failure == (413, "too_large")
        assert slowest < (5 if SANITIZED else 1)
        assert all(now - before[name] < GROWTH_MAX for name, now in daemon.rss().items())
        assert s.sh("find . -type f")["stdout"] == ""


def test_a_zstd_bomb_that_is_only_skipped(daemon):
    """A directory with bytes, which are passed over: the reader never comes back by itself."""
    if not shutil.which("zstd"):
        must_work("there is no zstd")
    info = tarfile.TarInfo("d")
    info.type, info.size = tarfile.DIRTYPE, 3000 * MB
    p = subprocess.Popen(["zstd", "-q", "-c", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found = []
    t = threading.Thread(target=lambda: found.append(p.stdout.read()))
    t.start()
    p.stdin.write(info.tobuf())
    for _ in range(1500):
        p.stdin.write(bytes(2 * MB))
    p.stdin.close()
    t.join()
    p.wait()
    with daemon.sandbox() as s:
        answer, slowest = Bomb(daemon).slowest(lambda: put(s, found[0]))
        assert answer.status in (200, 400, 413)
        assert slowest < (10 if SANITIZED else 2)


def test_many_entries(daemon):
    with daemon.sandbox(limits={"disk": "100m"}) as s:
        data = tar_of(*((f"d{n % 100}/{n}", b"") for n in range(20000)), mode="w:gz")
        answer, slowest = Bomb(daemon).slowest(lambda: put(s, data))
        assert answer.json["entries"] == 20000
        assert slowest < 2
        assert len(tarfile.open(fileobj=io.BytesIO(get(s, "in").body)).getnames()) == 20100


def test_a_full_disk(daemon):
    with daemon.sandbox(limits={"disk": "20m"}) as s:
        answer = put(s, tar_of(("a", b"1"), ("b", os.urandom(40 * MB)), ("c", b"3")))
        assert answer.failure == (413, "too_large")
        assert "disk" in answer.error["message"] + answer.error["hint"]
        assert s.names("in") == ["a"]


def test_large_trees_in_constant_memory(daemon):
    with daemon.sandbox(limits={"disk": "700m", "memory": "1500m"}) as s:
        s.sh("mkdir t; for n in 1 2 3 4 5 6; do head -c 50000000 /dev/urandom > t/$n; done")
        before = daemon.rss()
        with contextlib.closing(daemon.connection()) as out, contextlib.closing(daemon.connection(timeout=120)) as back:
            out.request("GET", f"{s.url}/files/archive?path=t")
            answer = out.getresponse()
            assert answer.status == 200
            pieces = iter(lambda: answer.read(MB), b"")
            back.request("POST", f"{s.url}/files/archive?path=copy", body=pieces, encode_chunked=True,
                         headers={"Transfer-Encoding": "chunked"})
            done = json.loads(back.getresponse().read())
        assert done == {"entries": 6, "bytes": 300_000_000, "skipped": 0}
        grown = {name: now - before[name] for name, now in daemon.rss().items()}
        assert max(grown.values()) < GROWTH_MAX, grown
        assert s.sh("cd t && for f in *; do cmp $f ../copy/$f; done && echo same")["stdout"] == "same\n"
