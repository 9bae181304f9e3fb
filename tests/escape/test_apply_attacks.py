"""Attacks through changes that come back from an overlay: cay run --apply, and cay apply."""

import http.server
import json
import os
import pathlib
import stat
import subprocess
import threading
import urllib.parse

import pytest

from attack import attack, told
from support import OURS


@pytest.fixture
def tree(place):
    path = place / "tree"
    (path / "sub").mkdir(parents=True)
    (path / "a").write_text("a\n")
    return path


@pytest.fixture
def victim(place):
    path = place / "victim"
    path.mkdir()
    (path / "f").write_text("mine\n")
    return path


@pytest.fixture
def writable(config, tree):
    return config(f"[mounts]\nwrite = {tree}\n")


def kept(victim):
    return [p.name for p in victim.iterdir()] == ["f"] and (victim / "f").read_text() == "mine\n"


@attack(38)
def test_links_do_not_come_back(cay, tree, victim, writable):
    """Links that lead out, by a name, by `..`, by another link; none is made, and nothing goes through one."""
    done = cay.run("--workspace", "tree:overlay", "--apply", "-c", f"""
import os
os.symlink({str(victim)!r}, 'absolute'); os.symlink('../victim', 'up'); os.symlink('../../victim', 'sub/up')
os.symlink('.', 'sub/here'); os.symlink('here/../../victim', 'sub/chain'); os.symlink('../a', 'sub/good')
os.symlink('sub/../../victim', 'through')""", config=writable)
    assert done.rc == OURS and done.errors.count("leads out of the directory") == 5, done.errors
    assert sorted(p.name for p in tree.rglob("*") if p.is_symlink()) == ["good", "here"]
    assert kept(victim)
    told("links left out")


@attack(38)
def test_what_the_host_has_there_is_not_followed(cay, tree, victim, writable):
    """Directories and files of the layer where the host got links meanwhile: nothing is written through them."""
    program = cay.start("run", "--workspace", "tree:overlay", "--apply", "--", "sh", "-c",
                        "echo evil > sub/f; mkdir d; echo evil > d/f; echo evil > a; echo ready; read line",
                        config=writable)
    assert program.stdout.readline() == b"ready\n"
    (tree / "sub").rmdir()
    (tree / "a").unlink()
    for name in ("sub", "d"):
        (tree / name).symlink_to(victim)
    (tree / "a").symlink_to(victim / "f")
    _, errors = program.communicate(b"\n", timeout=30)
    assert program.returncode == OURS, errors
    assert kept(victim) and (tree / "sub").is_symlink() and (tree / "a").is_symlink()
    told("not followed")


@attack(38)
@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
def test_what_was_mounted_meanwhile_is_not_emptied(cay, liar, tree, victim, writable, root, force):
    """A directory is deleted in which the host has mounted another by now: that keeps what it has."""
    (tree / "sub" / "mnt").mkdir()
    liar.answer = {"source": str(tree), "since": 1 << 50, "truncated": False, "unreadable": 0,
                   "changes": [entry("sub", "deleted", "directory")]}
    env = {"CAY_HOST": f"http://127.0.0.1:{liar.server_port}", "CAY_API_KEY": "cay_" + "0" * 40}
    subprocess.run(["mount", "--bind", victim, tree / "sub" / "mnt"], check=True)
    try:
        done = cay("apply", *force, "--to", tree, "sbx", env=env, config=writable)
        assert done.rc == OURS and "mounted" in done.errors, done.errors
    finally:
        subprocess.run(["umount", tree / "sub" / "mnt"], check=True)
    assert kept(victim)
    cay("apply", *force, "--to", tree, "sbx", env=env, config=writable).ok()
    assert not (tree / "sub").exists()
    told("left as it is")


@attack(38)
def test_special_files_and_bits_do_not_come_back(cay, tree, writable):
    """Pipes, sockets, set-id and sticky bits, hard links, names with control characters."""
    done = cay.run("--workspace", "tree:overlay", "--apply", "-c", """
import os, socket
os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('sock'); open('x\\x1b[2J', 'w'); open('e', 'w').write('e')
os.link('e', 'h'); os.mkdir('d'); os.chmod('d', 0o1777)
for mode in (0o4755, 0o2755):
    try: os.chmod('e', mode)
    except PermissionError: pass
os.chmod('e', 0o755)""", config=writable).ok()
    assert sorted(p.name for p in tree.iterdir()) == ["a", "d", "e", "h", "sub"]
    assert "3 left out" in done.errors
    assert stat.S_IMODE((tree / "d").stat().st_mode) == 0o777 and (tree / "e").stat().st_nlink == 1
    told("left out")


@attack(38)
def test_the_host_file_below_a_hard_link_is_unchanged(cay, tree, victim, writable):
    """A file of the directory that is a hard link to one outside: the one outside stays."""
    os.link(victim / "f", tree / "linked")
    cay.run("--workspace", "tree:overlay", "--apply", "--", "sh", "-c", "echo evil > linked", config=writable).ok()
    assert (tree / "linked").read_text() == "evil\n" and kept(victim)
    told("the outside file is unchanged")


@attack(38)
def test_a_layer_that_is_played_with(cay, tree):
    """Attributes and devices that mean something to overlayfs: refused, or without meaning."""
    out = cay.run("--workspace", "tree:overlay", "--diff", "-c", """
import os
for name in ('user.overlay.opaque', 'user.overlay.redirect', 'user.overlay.whiteout', 'user.overlay.metacopy'):
    try: os.setxattr('sub', name, b'y')
    except OSError: pass
    try: os.setxattr('a', name, b'/etc/passwd')
    except OSError: pass
for kind in (0o020000, 0o060000):
    try: os.mknod('n%o' % kind, kind | 0o600, 0); print('made')
    except OSError: pass
print(open('a').read(), os.listdir('sub'), os.path.exists('/tmp/overlay'), sorted(os.listdir('/tmp')))""").ok()
    assert out.text == "a\n [] False []\n" and "deleted" not in out.errors
    told("no meaning")


# A daemon that lies: what it says of changes is what user code could have had a hand in.

class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = urllib.parse.urlparse(self.path).path
        body = json.dumps(self.server.answer).encode() if path.endswith("/diff") else b"evil\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def liar():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def entry(path, change="added", kind="file", **more):
    return {"path": path, "name": pathlib.Path(path).name, "change": change, "type": kind, "size": 5, "mode": "0644",
            "mtime": 0, **more}


@attack(38)
def test_paths_of_a_daemon_that_lies(cay, liar, tree, victim, place, writable):
    """Absolute paths, `..`, paths through links, modes with set-id bits, other directories: inside or refused."""
    (tree / "out").symlink_to(victim)
    liar.answer = {"source": str(victim), "since": 1 << 50, "truncated": False, "unreadable": 0, "changes": [
        entry(f"{victim}/f"), entry("../victim/f"), entry("sub/../../victim/f"), entry("out/f"), entry("out/new"),
        entry("out/f", "deleted"), entry("./x"), entry("sub//x"), entry(""), entry("dev", kind="device"),
        entry("l", kind="symlink", target="../victim"), entry("set", mode="6755"), entry("bad", "moved")]}
    env = {"CAY_HOST": f"http://127.0.0.1:{liar.server_port}", "CAY_API_KEY": "cay_" + "0" * 40}
    assert "--to DIR" in cay("apply", "sbx", env=env, config=writable).errors
    done = cay("apply", "--to", tree, "sbx", env=env, config=writable)
    assert done.rc == OURS and "left out" in done.errors, done.errors
    assert kept(victim) and sorted(p.name for p in tree.iterdir()) == ["a", "out", "set", "sub"], done.errors
    assert stat.S_IMODE((tree / "set").stat().st_mode) == 0o755
    told("inside, or left out")
