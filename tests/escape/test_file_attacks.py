"""Attacks through files that go in by --put and come out by --get."""

import base64
import os
import socket
import subprocess
import sys

from attack import assert_refused, attack, told, tries
from support import OURS, STRANGER


def result_files(result):
    """The files in a result of --json: {path: bytes}."""
    return {f["path"]: base64.b64decode(f["data"]) for f in result["files"]}


@attack(6)
def test_get_of_odd_things(island, place):
    """A FIFO, a socket, links, 8 TiB of nothing: prompt, and no host file is touched or read."""
    (place / "keep").write_text("mine")
    done = island.run("--get", "o*", "--get", "l/**", "-c", """
import os, socket
os.mkfifo('o-fifo'); socket.socket(socket.AF_UNIX).bind('o-sock')
os.symlink('/etc/passwd', 'o-link'); os.symlink('/etc', 'l'); os.symlink('keep', 'o-keep')
open('o-real', 'w').write('x')""").ok()
    assert done.seconds < 5
    assert sorted(p.name for p in place.iterdir()) == ["keep", "o-real"]
    done = island.run("--get", "o*", "-c", "open('o-huge', 'w').truncate(8 << 40)")
    assert done.rc == OURS and done.seconds < 5 and "more than" in done.errors
    assert not (place / "o-huge").exists()


@attack(5)
def test_get_does_not_write_through_links(island, place, scratch):
    """Links in the caller's directory are replaced, or refused as directories; never followed."""
    target = scratch / "target"
    target.mkdir(exist_ok=True)
    (target / "f").write_text("mine")
    (place / "d").symlink_to(target)
    (place / "f").symlink_to(target / "f")
    island.run("--get", "d/*", "-c", "import os; os.mkdir('d'); open('d/f', 'w').write('evil')")
    island.run("--get", "f", "-c", "open('f', 'w').write('evil')")
    assert (target / "f").read_text() == "mine" and os.listdir(target) == ["f"]


def _peak_mib(cay, *args):
    """The peak of cay's own resident memory in MiB."""
    argv, env = cay._arguments(["run", *args], None, None)
    code = ("import resource, subprocess, sys\n"
            "subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)")
    return int(subprocess.run([sys.executable, "-c", code, *argv], env=env, cwd=cay.directory,
                              capture_output=True, timeout=40).stdout)


@attack(6)
def test_get_of_a_sparse_file_is_bounded(cay):
    """An island of 5 MB of disk must not make cay itself hold 200 MB, nor write them out."""
    assert _peak_mib(cay, "--disk", "5m", "--get", "o", "-c", "open('o', 'w').truncate(200 << 20)") < 100


@attack(18)
def test_leases(cay, shared):
    """A lease on a file of a shared directory stops the host's open() for 45 s: refused."""
    path, config = shared
    assert_refused(tries(cay, """
f = open('leased', 'w+')
attempt('lease', lambda: fcntl.fcntl(f, 1024, fcntl.F_WRLCK))
""", "--workspace", f"{path}:rw", config=config), "EPERM", "EINVAL")


@attack(6)
def test_get_reads_only_what_the_island_may(cay, shared, place):
    """Root's private file in the workspace is not handed out, readable by all."""
    path, config = shared
    (path / "private").write_text("ROOTS")
    (path / "private").chmod(0o600)
    done = cay.run("--workspace", f"{path}:rw", "--get", f"*:{place}/out/", "--", "true", config=config)
    assert b"ROOTS" not in done.out and not (place / "out" / "private").exists()


@attack(13)
def test_what_the_island_says_of_itself_stays(island):
    """/sys is on the same file system as /tmp, and a user's island is of one id: read-only all the same."""
    results = tries(island, """
for path in [os.path.join(d, n) for d, _, names in os.walk('/sys') for n in names]:
    attempt(f'write {path}', lambda: os.open(path, os.O_WRONLY))
    attempt(f'chmod {path}', lambda: os.chmod(path, 0o666))
    attempt(f'unlink {path}', lambda: os.unlink(path))
    attempt(f'link {path}', lambda: os.link(path, '/tmp/x'))
for path in [d for d, _, _ in os.walk('/sys')]:
    attempt(f'mkdir in {path}', lambda: os.mkdir(f'{path}/x'))
    attempt(f'rename {path}', lambda: os.rename(path, '/tmp/y'))
""")
    assert_refused(results, "EROFS", "EACCES", "EPERM", "EXDEV", "EBUSY")
    assert tries(island, "attempt('tmp', lambda: os.mkdir('/tmp/x'))") == {"tmp": "worked"}


@attack(5)
def test_names_that_lead_out(island, place):
    """--get through links to /etc and /, through "..", "//", absolute and odd names: none leads out."""
    (place / "mine").write_text("mine")
    done = island.run("--json", "-c", """
import os
os.symlink('/etc', 'link'); os.symlink('/', 'root'); os.symlink('..', 'up'); os.symlink('/proc/self/root', 'magic')
os.mkdir('real'); open('real/f', 'w').write('fine'); os.symlink('real', 'alias')
for name in ('a\\nb', 'a\\\\b', '-rf', '*', 'n' * 255, '...', ' ', 'x\\x1b[2J', b'\\xff'): open(name, 'w').write('fine')
""", *[o for glob in ("link/*", "link/passwd", "root/etc/passwd", "up/etc/passwd", "magic/etc/passwd", "alias/f",
                      "**", ".../*", "*") for o in ("--get", glob)]).json
    files = result_files(done)
    assert {"real/f", "-rf", "*", "n" * 255, "a\nb"} <= set(files)
    assert not [n for n in files if n.startswith(("link", "root", "up/", "magic", "alias"))]
    assert set(files.values()) == {b"fine"}
    told("kept inside")


@attack(5)
def test_names_to_put(island, place):
    """--put to names that lead out or are too long: refused, and nothing runs."""
    (place / "f").write_text("x")
    for name in ("../x", "a/../../x", "/etc/x", "/workspace/../x", "/tmp/../etc/x", "a/./b", "n" * 256, "d/" + "n" * 4096):
        done = island.run("--json", "--put", f"{place}/f:{name}", "--", "echo", "ran")
        assert done.rc == OURS and done.error["code"] in ("invalid_request", "too_large"), done
        told(done.error["code"])


@attack(5)
def test_control_names_to_put(island, place):
    """The control: // is one slash, and 2,000 levels are made on the island."""
    (place / "f").write_text("x")
    island.run("--put", f"{place}/f:" + "d/" * 2000 + "f", "--", "true").ok()
    assert island.run("--put", f"{place}/f:d//e/f", "--", "cat", "/workspace/d/e/f").ok().text == "x"


@attack(5)
def test_get_of_thousands_of_levels(island, place, race_rounds):
    """A tree of thousands of levels: --get is prompt, and refuses it."""
    done = island.run("--get", "**", "--disk", "200m", "-c", f"""
import os
top = os.getcwd()
for n in range({10 * race_rounds if race_rounds < 10000 else race_rounds}):
    os.mkdir('d'); os.chdir('d')
open('deep', 'w').write('x')
os.chdir(top); open('shallow', 'w').write('fine')""", timeout=30)
    assert done.rc == OURS and "deeper than" in done.errors and list(place.iterdir()) == []
    told("refused")


@attack(6)
def test_file_that_another_island_changes(cay, shared, place):
    """A file in a shared workspace grows, shrinks and is replaced while --get reads it: prompt and bounded."""
    path, config = shared
    writer = cay.start("run", "--workspace", f"{path}:rw", "-c", """
import os
fd = os.open('o', os.O_RDWR | os.O_CREAT)
print('up', flush=True)
while True:
    for n in (1, 1 << 20, 8 << 20, 0): os.ftruncate(fd, n); os.pwrite(fd, b'x' * min(n, 4096), 0)
""", config=config)
    assert writer.stdout.readline() == b"up\n"
    try:
        for n in range(20):
            done = cay.run("--workspace", path, "--get", f"o:{place}/out{n}", "--", "true", config=config)
            assert done.seconds < 5 and done.rc in (0, OURS), done
            if done.rc == 0:
                assert (place / f"out{n}").stat().st_size <= 8 << 20
    finally:
        writer.terminate()
        writer.communicate(timeout=5)
    told("bounded")


@attack(8)
def test_hostile_tree_to_put(island, place, root):
    """A directory to --put with links out, links to nowhere, pipes, sockets, devices, set-id bits, hard links."""
    tree = place / "tree"
    tree.mkdir()
    (tree / "fine").write_text("fine")
    (tree / "abs").symlink_to("/etc/passwd")
    (tree / "rel").symlink_to("../../../../etc/passwd")
    (tree / "dir").symlink_to("/etc")
    (tree / "loop").symlink_to("loop")
    os.link(tree / "fine", tree / "hard")
    os.mkfifo(tree / "fifo")
    os.mknod(tree / "device", 0o20666, os.makedev(1, 5))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tree / "sock"))
    (tree / "setuid").write_text("x")
    (tree / "setuid").chmod(0o6755)
    if island.prefix:
        for p in [tree, *tree.iterdir()]:
            os.chown(p, STRANGER, STRANGER, follow_symlinks=False)
        (tree / "setuid").chmod(0o6755)
    done = island.run("--put", tree, "-c", """
import os
print(sorted((n, oct(os.lstat('tree/' + n).st_mode), os.lstat('tree/' + n).st_uid) for n in os.listdir('tree')))""")
    found = eval(done.ok().text)
    assert found == [(name, mode, island.uid)
                     for name, mode in (("fine", "0o100644"), ("hard", "0o100644"), ("setuid", "0o100755"))]
    assert done.seconds < 5
    told("left out: links, pipes, sockets, devices, set-id bits")


@attack(8)
def test_endless_tree_to_put(island, place):
    """A tree deeper than the limit, and one larger than the disk: refused, and nothing runs."""
    deep = place / "deep"
    deep.mkdir()
    at = deep
    for _ in range(100):
        at = at / "d"
        at.mkdir()
    (place / "big").mkdir()
    with open(place / "big" / "f", "wb") as f:
        f.truncate(1 << 40)  # no block of it is there: what counts is what would be read
    for name in ("deep", "big"):
        done = island.run("--json", "--put", place / name, "--", "echo", "ran", timeout=30)
        assert done.rc == OURS and done.error["code"] in ("invalid_request", "too_large"), done
        assert done.seconds < 10
        told(done.error["code"])
