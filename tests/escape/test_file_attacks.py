"""Attacks through files: what an island leaves in a shared directory, and what --get brings out."""

import os
import subprocess
import sys

import pytest

from attack import assert_refused, attack, tries, x86_64
from support import OURS


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
@x86_64
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
