"""Attacks through files: what an island leaves in a shared directory, and what --get brings out."""

import os
import subprocess
import sys

import pytest

from attack import assert_refused, tries, x86_64
from support import OURS


@x86_64
def test_set_id_bits_devices_and_capabilities(cay, shared):
    """A writable workspace is no way to leave a set-id file, a device or a capability on the host."""
    path, config = shared
    results = tries(cay, """
open('plain', 'w').close()
fd = os.open('plain', os.O_RDWR)
attempt('chmod', lambda: os.chmod('plain', 0o4755))
attempt('chmod g', lambda: os.chmod('plain', 0o2755))
attempt('chmod high', lambda: call(90, b'plain', ctypes.c_long(0o4755 | 0xffff << 32)))
attempt('fchmod', lambda: os.fchmod(fd, 0o6755))
attempt('fchmodat', lambda: call(268, -100, b'plain', 0o4755))
attempt('fchmodat2', lambda: call(452, -100, b'plain', 0o4755, 0))
attempt('open', lambda: os.open('a', os.O_CREAT | os.O_WRONLY, 0o4755))
attempt('tmpfile', lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755))
attempt('creat', lambda: call(85, b'b', 0o4755))
attempt('openat2', lambda: call(437, -100, b'c', struct.pack('3Q', os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24))
attempt('mkdir', lambda: call(83, b'd', 0o2777))
attempt('mkdirat', lambda: call(258, -100, b'e', 0o7777))
attempt('mknod', lambda: os.mknod('f', 0o104755))
attempt('device', lambda: os.mknod('g', 0o20666, os.makedev(1, 3)))
attempt('disk', lambda: os.mknod('h', 0o60666, os.makedev(254, 0)))
attempt('whiteout', lambda: os.mknod('i', 0o20666, 0))
attempt('capability', lambda: os.setxattr('plain', 'security.capability', bytes.fromhex('01000002ffff') + bytes(14)))
attempt('capability 3', lambda: os.setxattr('plain', 'security.capability', bytes.fromhex('01000003ffff') + bytes(18)))
attempt('trusted', lambda: os.setxattr('plain', 'trusted.x', b'x'))
attempt('chown', lambda: os.chown('plain', 0, 0))
attempt('immutable', lambda: fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x10)))
attempt('control', lambda: os.chmod('plain', 0o755))
""", "--workspace", f"{path}:rw", config=config)
    assert results.pop("control") == "worked"
    assert_refused(results, "EPERM", "ENOSYS", "EOVERFLOW", "EINVAL", "EOPNOTSUPP", "ENOTTY")
    cay.run("--workspace", f"{path}:rw", "--", "sh", "-c",
            "cp -p /usr/bin/su p; install -m 4755 /usr/bin/id q; tar -C /usr/bin -c su | tar -xp; true",
            config=config)
    for entry in os.scandir(path):
        st = entry.stat(follow_symlinks=False)
        assert st.st_mode & 0o6000 == 0 and st.st_uid == 1234, entry.name
        assert entry.is_file(follow_symlinks=False), entry.name
        assert "security.capability" not in os.listxattr(entry.path)


SWAP = """
import ctypes, os
exchange = ctypes.CDLL(None).renameat2
for name in ('d', 'sub'):
    os.makedirs(name, exist_ok=True)
    os.symlink(VICTIM, name + '-link')
open('d/f', 'w').write('inside')
print('up', flush=True)
while True:
    exchange(-100, b'd', -100, b'd-link', 2)
    exchange(-100, b'sub', -100, b'sub-link', 2)
"""


def test_swapped_directories(cay, shared, place):
    """CVE-2021-30465: a directory swaps with a symlink while another run mounts, puts and gets."""
    path, config = shared
    victim = place / "victim"
    victim.mkdir(mode=0o700)
    (victim / "f").write_text("HOSTSECRET")
    (place / "new").write_text("new")
    swapper = cay.start("run", "--workspace", f"{path}:rw", "-c", f"VICTIM = {str(victim)!r}\n{SWAP}",
                        config=config)
    assert swapper.stdout.readline() == b"up\n"
    ok = 0
    try:
        for n in range(60):
            out = place / f"out{n}"
            done = cay.run("--workspace", f"{path}:rw", "--put", f"{place}/new:d/f", "--get", f"d/*:{out}/",
                           "--", "true", config=config)
            ok += done.rc == 0
            assert not [f for f in out.rglob("*") if f.is_file() and "HOSTSECRET" in f.read_text()]
            done = cay.run("--workspace", f"{path}/sub:rw", "--", "sh", "-c", "cat f; echo >w", config=config)
            assert b"HOSTSECRET" not in done.out
    finally:
        swapper.terminate()
        swapper.communicate(timeout=5)
    assert ok > 0, "the swap was never lost: nothing was tried"
    assert [p.name for p in victim.iterdir()] == ["f"] and (victim / "f").read_text() == "HOSTSECRET"


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


def test_get_of_a_sparse_file_is_bounded(cay):
    """An island of 5 MB of disk must not make cay itself hold 200 MB, nor write them out."""
    assert _peak_mib(cay, "--disk", "5m", "--get", "o", "-c", "open('o', 'w').truncate(200 << 20)") < 100


@x86_64
def test_leases(cay, shared):
    """A lease on a file of a shared directory stops the host's open() for 45 s: refused."""
    path, config = shared
    assert_refused(tries(cay, """
f = open('leased', 'w+')
attempt('lease', lambda: fcntl.fcntl(f, 1024, fcntl.F_WRLCK))
""", "--workspace", f"{path}:rw", config=config), "EPERM", "EINVAL")


def test_get_reads_only_what_the_island_may(cay, shared, place):
    """Root's private file in the workspace is not handed out, readable by all."""
    path, config = shared
    (path / "private").write_text("ROOTS")
    (path / "private").chmod(0o600)
    done = cay.run("--workspace", f"{path}:rw", "--get", f"*:{place}/out/", "--", "true", config=config)
    assert b"ROOTS" not in done.out and not (place / "out" / "private").exists()


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
