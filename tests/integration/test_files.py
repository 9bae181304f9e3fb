"""Files in before (--put) and out after (--get)."""

import base64
import hashlib
import os
import stat

import pytest

from support import MIB, OURS


# In

def test_put_file(cay, place):
    (place / "data.csv").write_text("a,b\n")
    assert cay.python("print(open('data.csv').read(), end='')", "--put", "data.csv") == "a,b\n"


def test_put_from_anywhere_keeps_only_the_name(cay, scratch):
    (scratch / "home" / "x.txt").write_text("x")
    assert cay.inside("os.listdir('.')", "--put", scratch / "home" / "x.txt") == ["x.txt"]


@pytest.mark.parametrize("dest, seen", [
    ("b", "/workspace/b"), ("d/e/b", "/workspace/d/e/b"), ("/workspace/b", "/workspace/b"),
    ("/tmp/b", "/tmp/b"), ("/tmp/d/b", "/tmp/d/b")])
def test_put_file_to(cay, place, dest, seen):
    (place / "a").write_text("x")
    assert cay.python(f"print(open('{seen}').read())", "--put", f"a:{dest}") == "x\n"


def test_put_directory(cay, place):
    (place / "d" / "deep").mkdir(parents=True)
    (place / "d" / "deep" / "f").write_text("x")
    (place / "d" / "empty").mkdir()
    walk = "sorted(os.path.join(d, n) for d, ds, fs in os.walk('.') for n in ds + fs)"
    assert cay.inside(walk, "--put", "d") == ["./d", "./d/deep", "./d/deep/f", "./d/empty"]
    assert cay.inside(walk, "--put", "d/") == ["./d", "./d/deep", "./d/deep/f", "./d/empty"]
    assert cay.inside(walk, "--put", "d:x/y") == ["./x", "./x/y", "./x/y/deep", "./x/y/deep/f",
                                                  "./x/y/empty"]


def test_put_several(cay, place):
    for name in "abc":
        (place / name).write_text(name)
    assert cay.inside("sorted(os.listdir('.'))", "--put", "a", "--put", "b", "--put", "c:d") \
        == ["a", "b", "d"]


def test_put_files_are_the_programs_own(cay, place):
    (place / "a").write_text("x")
    (place / "a").chmod(0o600)
    (place / "d").mkdir(mode=0o700)
    (place / "d" / "b").write_text("y")
    cay.python("import os; os.stat('a').st_uid == os.getuid() or exit(3); open('a', 'a').write('z')\n"
               "open('d/b', 'a').write('z'); open('d/new', 'w'); os.unlink('a')", "--put", "a", "--put", "d")
    assert (place / "a").read_text() == "x"


def test_put_keeps_the_executable_bit_and_no_other(cay, place):
    (place / "a").write_text("x")
    for mode, seen in ((0o755, 0o755), (0o644, 0o644), (0o600, 0o644), (0o6755, 0o755)):
        (place / "a").chmod(mode)
        assert cay.inside("os.stat('a').st_mode & 0o7777", "--put", "a") == seen


def test_put_a_large_file_is_exact(cay, place):
    data = os.urandom(20 * MIB)
    (place / "a").write_bytes(data)
    code = "import hashlib; print(hashlib.sha256(open('a', 'rb').read()).hexdigest())"
    assert cay.python(code, "--put", "a").strip() == hashlib.sha256(data).hexdigest()


def test_put_counts_as_disk(cay, place):
    (place / "a").write_bytes(bytes(3 * MIB))
    error = cay.refused("--disk", "2m", "--put", "a", "--", "true")
    assert error["code"] == "too_large" and "--disk" in error["hint"]


def test_put_missing(cay):
    error = cay.refused("--put", "nowhere", "--", "true")
    assert error["code"] == "not_found" and "nowhere" in error["message"]


@pytest.mark.parametrize("dest", ["../x", "/etc/x", "/x", "a/../../x", "/workspace/../etc/x", "."])
def test_put_outside(cay, place, dest):
    (place / "a").write_text("x")
    assert cay.refused("--put", f"a:{dest}", "--", "true")["code"] == "invalid_request"


@pytest.mark.parametrize("text", ["", ":", ":x", "x:"])
def test_put_bad(cay, text):
    assert cay.refused("--put", text, "--", "true")["code"] == "invalid_request"


def test_put_does_not_wait_for_a_fifo(cay, place):
    os.mkfifo(place / "fifo")
    done = cay.run("--put", "fifo", "--", "true", timeout=5)
    assert done.rc == OURS
    (place / "d").mkdir()
    os.mkfifo(place / "d" / "fifo")
    (place / "d" / "f").touch()
    assert cay.inside("os.listdir('d')", "--put", "d", timeout=5) == ["f"]


def test_put_follows_the_name_given_but_no_link_below(cay, place):
    (place / "real").write_text("x")
    (place / "link").symlink_to("real")
    (place / "d").mkdir()
    (place / "d" / "out").symlink_to("/etc/shadow")
    (place / "d" / "f").touch()
    assert cay.python("print(open('link').read())", "--put", "link:link") == "x\n"
    assert cay.inside("os.listdir('d')", "--put", "d") == ["f"]


def test_put_into_a_read_only_workspace(cay, place):
    (place / "a").touch()
    error = cay.refused("--workspace", ".", "--put", "a:b", "--", "true")
    assert "read-only" in error["message"] and not (place / "b").exists()
    cay.run("--workspace", ".", "--put", "a:/tmp/b", "--", "test", "-f", "/tmp/b").ok()


# Out

MAKE = """
import os
for path, text in {'a.txt': 'A', 'b.txt': 'B', 'c.bin': 'C', 'd/e.txt': 'E', 'd/f/g.txt': 'G', '.h': 'H'}.items():
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    open(path, 'w').write(text)
open('/tmp/t.txt', 'w').write('T')
"""


@pytest.mark.parametrize("glob, paths", [
    ("a.txt", ["a.txt"]),
    ("*.txt", ["a.txt", "b.txt"]),
    ("?.bin", ["c.bin"]),
    ("[ab].txt", ["a.txt", "b.txt"]),
    ("d", ["d/e.txt", "d/f/g.txt"]),
    ("d/", ["d/e.txt", "d/f/g.txt"]),
    ("d/*", ["d/e.txt"]),
    ("*/e.txt", ["d/e.txt"]),
    ("**/*.txt", ["a.txt", "b.txt", "d/e.txt", "d/f/g.txt"]),
    ("d/**", ["d/e.txt", "d/f/g.txt"]),
    ("./a.txt", ["a.txt"]),
    ("/workspace/a.txt", ["a.txt"]),
    ("/workspace/d", ["d/e.txt", "d/f/g.txt"]),
    (".h", [".h"]),
    ("/tmp/t.txt", ["/tmp/t.txt"]),
    ("/tmp/*", ["/tmp/t.txt"]),
    ("none", []),
])
def test_get_into_the_result(cay, place, glob, paths):
    done = cay.run("--json", "--get", glob, "-c", MAKE).ok()
    assert [f["path"] for f in done.json["files"]] == paths
    assert list(place.iterdir()) == []
    assert bool(done.said) == (not paths)


def test_get_content(cay):
    data = bytes(range(256))
    files = cay.run("--json", "--get", "x", "-c", "open('x', 'wb').write(bytes(range(256)))").json["files"]
    assert len(files) == 1 and set(files[0]) == {"path", "size", "data"}
    assert files[0]["size"] == 256 and base64.b64decode(files[0]["data"]) == data


def test_get_empty_file(cay, place):
    cay.run("--get", "x", "-c", "open('x', 'w')").ok()
    assert (place / "x").read_bytes() == b""
    assert cay.run("--json", "--get", "x", "-c", "open('x', 'w')").json["files"] \
        == [{"path": "x", "size": 0, "data": ""}]


def found(place):
    return sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())


def test_get_into_the_current_directory(cay, place):
    cay.run("--get", "*.txt", "--get", "d", "-c", MAKE).ok()
    assert found(place) == ["a.txt", "b.txt", "d/e.txt", "d/f/g.txt"]
    assert (place / "d" / "e.txt").read_text() == "E"


def test_get_everything(cay, place):
    cay.run("--get", ".", "-c", MAKE).ok()
    assert {"a.txt", "b.txt", "c.bin", "d/e.txt", "d/f/g.txt"} <= set(found(place))


def test_get_star_is_what_is_new(cay, place):
    """As in the API: wherever it is, and not what was put in."""
    for name in "same", "changed":
        (place / name).write_text("old")
    out = place / "out"
    cay.run("--put", "same", "--put", "changed", "--get", "*:out/", "-c",
            "import os; open('changed', 'a').write('er'); os.makedirs('.d/e'); open('.d/e/f', 'w'); open('new', 'w')").ok()
    assert found(out) == [".d/e/f", "changed", "new"] and (out / "changed").read_text() == "older"
    done = cay.run("--put", "same", "--get", "*", "-c", "1")
    assert done.rc == 0 and "--get *: no file matches" in done.errors
    (place / "script.py").write_text("open('x', 'w')")
    cay.run("--get", "*:made/", "script.py").ok()
    assert found(place / "made") == ["x"]


def test_get_into_a_directory(cay, place):
    (place / "there").mkdir()
    cay.run("--get", "*.txt:there", "--get", "c.bin:made/", "-c", MAKE).ok()
    assert found(place) == ["made/c.bin", "there/a.txt", "there/b.txt"]


def test_get_under_another_name(cay, place):
    (place / "there").mkdir()
    cay.run("--get", "a.txt:x", "--get", f"b.txt:{place}/there/y", "-c", MAKE).ok()
    assert found(place) == ["there/y", "x"] and (place / "x").read_text() == "A"


def test_get_many_under_one_name_is_no_loss(cay, place):
    """Two files to one name: an error, or a directory; never one that silently vanishes."""
    done = cay.run("--get", "*.txt:one", "-c", MAKE)
    assert done.said or found(place) == ["one/a.txt", "one/b.txt"]


def test_get_of_tmp(cay, place):
    cay.run("--get", "/tmp/t.txt", "-c", MAKE).ok()
    assert (place / "t.txt").read_text() == "T"


def test_get_nothing_matched(cay):
    done = cay.run("--get", "none*", "-c", "print(1)").ok()
    assert done.text == "1\n" and done.errors == "cay: --get none*: no file matches\n"


def test_get_outside(cay):
    error = cay.refused("--get", "/etc/passwd", "-c", "1")
    assert "/etc/passwd" in error["message"]


def test_get_outside_is_refused_before_the_program_runs(cay):
    done = cay.run("--get", "/etc/passwd", "--", "echo", "ran")
    assert done.rc == OURS and done.out == b""


def test_get_after_failure_and_timeout(cay, place):
    assert cay.run("--get", "x", "--", "sh", "-c", "echo 1 > x; exit 3").rc == 3
    assert (place / "x").read_text() == "1\n"
    assert cay.run("--timeout", "2", "--get", "y", "--", "sh", "-c", "echo 2 > y; sleep 9").rc == 124
    assert (place / "y").read_text() == "2\n"


def test_get_when_out_of_memory(cay, place):
    assert cay.run("-m", "64m", "--get", "x", "-c",
                   "f = open('x', 'w'); f.write('1'); f.close(); b'x' * (1 << 30)").rc == 137
    assert (place / "x").read_text() == "1"


def test_get_of_a_symlink_out(cay, place):
    done = cay.run("--get", "l", "--get", "d", "--get", "r", "-c",
                   "import os; os.symlink('/etc/passwd', 'l'); os.symlink('/etc', 'd');"
                   "open('r', 'w').write('real')").ok()
    assert found(place) == ["r"] and len(done.said) == 2
    done = cay.run("--json", "--get", "**", "-c", "import os; os.symlink('/etc/passwd', 'l')").ok()
    assert done.json["files"] == []


def test_get_of_a_fifo_does_not_hang(cay, place):
    done = cay.run("--get", "**", "-c", "import os; os.mkfifo('p'); open('f', 'w')", timeout=10).ok()
    assert found(place) == ["f"]


def test_get_of_a_socket_is_skipped(cay, place):
    cay.run("--get", "**", "-c", "import socket; socket.socket(socket.AF_UNIX).bind('s'); open('f', 'w')").ok()
    assert found(place) == ["f"]


def test_get_of_an_unreadable_file(cay, place):
    done = cay.run("--get", "f", "-c", "import os; open('f', 'w').write('x'); os.chmod('f', 0)")
    assert done.rc == 0 and (done.said or (place / "f").read_text() == "x")


def test_get_of_a_huge_sparse_file_is_bounded(cay, place):
    done = cay.run("--json", "--get", "f", "-c", "open('f', 'w').truncate(8 << 40)", timeout=20)
    assert done.rc == OURS and done.error["code"] == "too_large"


def test_get_does_not_follow_a_link_of_the_callers(cay, place):
    (place / "precious").write_text("keep")
    (place / "x").symlink_to("precious")
    cay.run("--get", "x", "-c", "open('x', 'w').write('new')").ok()
    assert (place / "precious").read_text() == "keep"
    assert not (place / "x").is_symlink() and (place / "x").read_text() == "new"


def test_get_does_not_follow_a_linked_directory_of_the_callers(cay, place, scratch):
    (scratch / "home" / "elsewhere").mkdir(exist_ok=True)
    (place / "d").symlink_to(scratch / "home" / "elsewhere")
    done = cay.run("--get", "d", "-c", "import os; os.mkdir('d'); open('d/x', 'w').write('new')")
    assert done.rc == OURS and len(done.said) == 1
    assert list((scratch / "home" / "elsewhere").iterdir()) == []


def test_get_odd_names_stay_below(cay, place):
    code = r"open('a\nb', 'w'); open('..x', 'w'); open(' ', 'w'); open('\x1b[2J', 'w')"
    done = cay.run("--get", "*", "--get", "..x", "-c", code)
    assert done.rc == 0 and done.errors.count("left out a file with control characters") == 2
    assert {"..x", " "} == {p.name for p in place.iterdir()}


def test_got_files_are_plain(cay, place):
    cay.run("--get", "x", "-c", "import os; open('x', 'w'); os.chmod('x', 0o777)").ok()
    st = (place / "x").stat()
    assert st.st_uid == os.geteuid() and st.st_mode & 0o6022 == 0


def test_get_from_a_workspace_on_the_host(cay, place):
    (place / "w").mkdir()
    (place / "w" / "f").write_text("x")
    files = cay.run("--json", "--workspace", "w", "--get", "f", "-c", "1").ok().json["files"]
    assert [f["path"] for f in files] == ["f"]


def test_put_and_get(cay, place):
    (place / "in.txt").write_text("hello")
    cay.run("--put", "in.txt", "--get", "out.txt", "-c",
            "open('out.txt', 'w').write(open('in.txt').read().upper())").ok()
    assert (place / "out.txt").read_text() == "HELLO"


def test_get_a_large_file_is_exact(cay, place):
    cay.run("--get", "x", "-c", "open('x', 'wb').write(bytes(range(256)) * (40 << 12))").ok()
    assert (place / "x").read_bytes() == bytes(range(256)) * (40 << 12)


def test_file_that_grows_while_it_is_read(cay, place):
    """A background process must not be able to keep --get busy: it is dead by then."""
    done = cay.run("--get", "x", "--", "sh", "-c", "(while :; do echo x >> x; done) & sleep 0.1").ok()
    assert done.seconds < 5 and (place / "x").exists()


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFIFO], ids=["device", "fifo"])
def test_get_takes_no_place_of_what_is_no_file(cay, place, root, kind):
    """Root's --get to /dev/null must not make a file of that."""
    os.mknod(place / "null", kind | 0o666, os.makedev(1, 3))
    done = cay.run("--get", "x:null", "--", "sh", "-c", "echo 1 > x")
    assert done.rc == OURS and len(done.said) == 1 and "null" in done.said[0]
    assert stat.S_IFMT((place / "null").lstat().st_mode) == kind
    assert cay.run("--get", "x:file", "--", "sh", "-c", "echo 1 > x").ok() and (place / "file").exists()
