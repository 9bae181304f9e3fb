"""Attacks through a host directory that was mounted: what lies in it, what is left in it, what it is."""

import itertools
import os
import shutil
import socket
import subprocess

import pytest

from attack import assert_refused, attack, compile_c, told, tries
from support import OURS, STRANGER

# Where images of other engines were attacked: what a mount, a device or a file of ours goes to.
TARGETS = ("dev", "dev/null", "dev/pts", "proc", "tmp", "workspace", "etc", "sub")


@attack(3)
@pytest.mark.parametrize("kind", ["symlink", "file", "dangling"])
def test_mount_points_that_an_island_made(workspace, island, place, config, kind):
    """Mounts below a mount whose places were made symlinks or files: the start fails, the host is untouched."""
    victim = place / "victim"
    victim.mkdir()
    inner = place / "inner"
    inner.mkdir()
    (inner / "mark").write_text("inner")
    make = {"symlink": f"os.symlink({str(victim)!r}, 'sub')", "file": "open('sub', 'w').close()",
            "dangling": f"os.symlink({str(victim / 'new')!r}, 'sub')"}[kind]
    conf = config(f"[mounts]\nwrite = {workspace.path}\nread = {inner}\n")
    both = ("-v", f"{workspace.path}:/data:rw", "-v", f"{inner}:/data/sub")
    island.run("-v", f"{workspace.path}:/data:rw", "-w", "/data", "-c", f"import os\n{make}", config=conf).ok()
    done = island.run(*both, "--", "ls", "-la", "/data/sub/", config=conf)
    assert done.rc == OURS and "mount /data/sub" in done.errors, done
    assert list(victim.iterdir()) == [] and (inner / "mark").read_text() == "inner"
    told("mount refused")
    # The control: with a directory there it is mounted.
    (workspace.path / "sub").unlink()
    (workspace.path / "sub").mkdir()
    assert island.run(*both, "--", "cat", "/data/sub/mark", config=conf).ok().text == "inner"


@attack(3)
def test_places_of_the_island_in_a_workspace(workspace, island, place):
    """A workspace in which /dev, /proc, /tmp and the like are symlinks: cay's own places are elsewhere."""
    victim = place / "victim"
    victim.mkdir()
    (victim / "null").write_text("mine")
    for name in TARGETS:
        if "/" not in name:
            (workspace.path / name).symlink_to(victim)
    (workspace.path / "cay-build").symlink_to(victim)
    out = island.run(*workspace.options, "-c", """
import os
print(os.path.realpath('dev'), os.stat('/dev/null').st_rdev == os.makedev(1, 3), os.path.ismount('/proc'))
print(os.path.exists('dev/null'))""", config=workspace.config).ok().text
    assert out == f"{victim} True True\nFalse\n"
    assert [p.name for p in victim.iterdir()] == ["null"] and (victim / "null").read_text() == "mine"


SWAP = """
import ctypes, os, sys
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


@pytest.fixture
def swapper(workspace, island, place):
    """An island that swaps directories of the workspace with links to a victim; gives the victim."""
    victim = place / "victim"
    victim.mkdir(mode=0o755)
    (victim / "f").write_text("HOSTSECRET")
    (victim / "secret").write_text("HOSTSECRET")
    if island.prefix:
        for path in (victim, victim / "f", victim / "secret"):
            os.chown(path, STRANGER, STRANGER)
    p = island.start("run", "--timeout", "1h", *workspace.options, "-c", f"VICTIM = {str(victim)!r}\n{SWAP}",
                     config=workspace.config)
    assert p.stdout.readline() == b"up\n"
    yield victim
    p.terminate()
    p.communicate(timeout=5)
    assert sorted(f.name for f in victim.iterdir()) == ["f", "secret"]
    assert {f.read_text() for f in victim.iterdir()} == {"HOSTSECRET"}


@attack(4)
def test_swapped_directories(island, workspace, place, swapper, race_rounds):
    """CVE-2021-30465, 2018-15664: a directory swaps with a symlink while another run mounts, puts and gets."""
    (place / "new").write_text("new")
    ways = {"put and get": 0, "mounted": 0}
    for _ in range(race_rounds):
        done = island.run(*workspace.options, "--json", "--put", f"{place}/new:d/f", "--get", "d/*", "--", "true",
                          config=workspace.config)
        assert b"HOSTSECRET" not in done.out and b"SE9TVFNFQ1JFV" not in done.out
        ways["put and get"] += done.rc == 0
        done = island.run("--workspace", f"{workspace.path}/sub:rw", "--", "sh", "-c", "cat f secret; echo >w",
                          config=workspace.config)
        assert b"HOSTSECRET" not in done.out
        ways["mounted"] += done.rc == 0
    # The control: it did go through where it met the directory.
    assert all(0 < n for n in ways.values()), ways
    told(f"{race_rounds} rounds, no host file")


@attack(9)
def test_swapped_after_the_check(island, workspace, swapper, race_rounds):
    """The source of a mount swaps with a link to a directory that settings forbid, all the while."""
    conf = workspace.config.with_name("forbid.conf")
    conf.write_text(f"[mounts]\nwrite = {workspace.path.parent}\nforbid = {swapper}\n")
    ends = {"forbidden": 0, "mounted": 0}
    for _ in range(race_rounds):
        done = island.run("-v", f"{workspace.path}/sub:/data:rw", "--", "sh", "-c",
                          "cat /data/secret; echo >/data/w", config=conf)
        assert b"HOSTSECRET" not in done.out
        ends["forbidden" if "forbidden" in done.errors else "mounted"] += 1
    assert all(0 < n for n in ends.values()), ends  # both sides of the race were met
    told(f"{race_rounds} rounds, no host file")


FORBIDDEN = ["/etc", "/etc/shadow", "/", "/root", "/proc", "/sys", "/dev", "/run", "/home", "//etc", "/usr/../etc",
             "/etc/.", "/proc/self/root/etc", "/proc/1/root", "/proc/self/cwd", "/proc/self/fd/0", "/dev/fd/0"]


@attack(9)
def test_forbidden_mounts(island, config):
    """Forbidden paths by all their names, with settings that allow everything."""
    conf = config("[mounts]\nread = /\nwrite = /\n")
    for path, access in itertools.product(FORBIDDEN, ("", ":rw")):
        done = island.run("--json", "-v", f"{path}:/data{access}", "--", "true", config=conf)
        assert done.rc == OURS, done
        assert done.error["code"] in ("policy_denied", "invalid_request"), done.error
        told(done.error["code"])


@attack(9)
def test_forbidden_mounts_through_links(island, place, config):
    """Symlinks to forbidden paths, chains of them, and one in the middle of the path."""
    conf = config("[mounts]\nread = /\nwrite = /\n")
    (place / "etc").symlink_to("/etc")
    (place / "again").symlink_to("etc")
    (place / "up").symlink_to("..")
    (place / "fine").mkdir()
    for path in ("etc", "again", "etc/ssl/../../etc", "up/../../etc", "etc/sudoers.d"):
        done = island.run("--json", "-v", f"{place}/{path}:/data", "--", "true", config=conf)
        assert done.rc == OURS and done.error["code"] in ("policy_denied", "not_found"), done
        told(done.error["code"])
    assert island.run("-v", f"{place}/fine:/data", "--", "ls", "/data", config=conf).rc == 0


@attack(9)
def test_forbidden_mounts_by_a_bind_mount(cay, place, config, root):
    """A bind mount of a forbidden directory, and of a parent of one, elsewhere on the host."""
    conf = config("[mounts]\nread = /\nwrite = /\n")
    cay.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                  'for d in root etc; do mkdir -p "$0/$d"; mount --bind "/$d" "$0/$d"; done; exec "$@"', str(place)]
    for path in ("root", "etc", ""):
        done = cay.run("--json", "-v", f"{place}/{path}:/data", "--", "true", config=conf)
        assert done.rc == OURS and done.error["code"] == "policy_denied", done
        told("policy_denied")
    cay.prefix = []
    assert cay.run("-v", f"{place}/etc:/data", "--", "ls", "/data", config=conf).rc == 0  # not mounted there


@attack(7)
def test_hard_links_to_files_outside(workspace, island, place):
    """A name in the workspace is a hard link to a file outside: put and get replace the name, not the file."""
    outside = place / "outside"
    outside.write_text("mine")
    outside.chmod(0o640)
    os.link(outside, workspace.path / "linked")
    before = outside.stat()
    (place / "new").write_text("new")
    island.run(*workspace.options, "--put", f"{place}/new:linked", "--", "true", config=workspace.config).ok()
    assert (workspace.path / "linked").read_text() == "new"
    (workspace.path / "linked").unlink()
    os.link(outside, workspace.path / "linked")
    island.run(*workspace.options, "--get", f"/tmp/linked:{workspace.path}/linked", "--", "sh", "-c",
               "echo got >/tmp/linked", config=workspace.config)
    os.link(outside, workspace.path / "again")
    assert_refused(tries(island, """
attempt('write', lambda: open('again', 'w'))
attempt('append', lambda: open('again', 'a'))
attempt('read', lambda: open('again'))
attempt('truncate', lambda: os.truncate('again', 0))
attempt('chmod', lambda: os.chmod('again', 0o666))
attempt('chown', lambda: os.chown('again', 1000, 1000))
attempt('times', lambda: os.utime('again', (0, 0)))
attempt('link', lambda: os.link('again', 'more'))
attempt('attribute', lambda: os.setxattr('again', 'user.x', b'x'))
attempt('rename', lambda: os.rename('again', '/tmp/again'))
""", *workspace.options, config=workspace.config), "EACCES", "EPERM", "EOVERFLOW", "EXDEV")
    after = outside.stat()
    assert outside.read_text() == "mine"
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)


SET_ID = """
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
attempt('socket', lambda: os.mknod('j', 0o140666))
attempt('bound socket', lambda: socket.socket(socket.AF_UNIX).bind('k'))
attempt('moved socket', lambda: (socket.socket(socket.AF_UNIX).bind('/tmp/k'), os.rename('/tmp/k', 'k')))
attempt('linked socket', lambda: os.link('/tmp/k', 'l'))
attempt('capability', lambda: os.setxattr('plain', 'security.capability', bytes.fromhex('01000002ffff') + bytes(14)))
attempt('capability 3', lambda: os.setxattr('plain', 'security.capability', bytes.fromhex('01000003ffff') + bytes(18)))
attempt('trusted', lambda: os.setxattr('plain', 'trusted.x', b'x'))
attempt('chown', lambda: os.chown('plain', 0, 0))
attempt('immutable', lambda: fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x10)))
attempt('control: chmod', lambda: os.chmod('plain', 0o755))
attempt('control: socket', lambda: socket.socket(socket.AF_UNIX).bind('/tmp/own'))
"""


@attack(10)
def test_set_id_bits_devices_and_sockets_left_behind(island, workspace):
    """A writable workspace is no way to leave a set-id file, device, socket or capability on the host."""
    results = tries(island, SET_ID, *workspace.options, config=workspace.config)
    assert [results.pop(name) for name in list(results) if "control" in name] == ["worked"] * 2
    if island.uid == 0:  # to itself, who is the directory's owner outside
        assert results.pop("chown") == "worked"
    assert_refused(results, "EPERM", "EACCES", "ENOSYS", "EOVERFLOW", "EINVAL", "EOPNOTSUPP", "ENOTTY", "EXDEV")
    island.run(*workspace.options, "--", "sh", "-c",
               "cp -p /usr/bin/su p; install -m 4755 /usr/bin/id q; tar -C /usr/bin -c su | tar -xp; true",
               config=workspace.config)
    for entry in os.scandir(workspace.path):
        st = entry.stat(follow_symlinks=False)
        assert st.st_mode & 0o6000 == 0 and st.st_uid == workspace.owner, entry.name
        assert entry.is_file(follow_symlinks=False), entry.name
        assert "security.capability" not in os.listxattr(entry.path)


WHO = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    printf("%d %d %d", getuid(), geteuid(), getegid());
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "CapEff:", 7) == 0)
            printf(" %s", line + 8);
    return 0;
}
"""


@attack(10)
def test_set_id_programs_and_capabilities_gain_nothing(island, workspace, place):
    """A set-uid root program, a set-gid one and one with file capabilities, in a mounted directory."""
    program = compile_c(place, "who", WHO)
    ways = {}
    for name, mode in (("uid", 0o4755), ("gid", 0o2755), ("cap", 0o755)):
        ways[name] = workspace.path / name
        shutil.copy(program, ways[name])
        os.chown(ways[name], 0, 0)
        ways[name].chmod(mode)
    os.setxattr(ways["cap"], "security.capability", bytes.fromhex("0100000200000020") + bytes(12))  # cap_sys_admin
    for name, path in ways.items():
        # The control: on the host the same file does give something.
        outside = subprocess.run(["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", path],
                                 capture_output=True, text=True).stdout
        assert outside.strip() != f"{STRANGER} {STRANGER} {STRANGER} {0:016x}", name
        out = island.run(*workspace.options, "--", f"./{name}", config=workspace.config).ok().text
        assert out.strip() == f"{island.uid} {island.uid} {island.uid} {island.capabilities:016x}"
        told("the same uid, no capability more")


@attack(10)
def test_devices_in_a_mounted_directory(cay, shared):
    """A device node that the host has in the directory: it can't be opened."""
    path, config = shared
    os.mknod(path / "null", 0o20666, os.makedev(1, 3))
    os.chmod(path / "null", 0o666)
    open(path / "null").close()  # the control
    assert_refused(tries(cay, "attempt('device', lambda: open('null'))", "--workspace", path, config=config), "EACCES")


@pytest.fixture
def service(workspace):
    """A service of the host's, with its socket in the directory."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace.path / "service"))
        server.listen()
        yield workspace.path / "service"


def _connects(island, workspace):
    return tries(island, "attempt('connect', lambda: socket.socket(socket.AF_UNIX).connect('/workspace/service'))",
                 "--workspace", workspace.path, config=workspace.config)


@attack(11)
def test_socket_of_another_owner(island, workspace, service):
    """A socket in a directory mounted read-only that belongs to somebody else, with the usual mode."""
    os.chmod(service, 0o755)
    assert_refused(_connects(island, workspace), "EACCES")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(service))  # the control


@attack(11)
@pytest.mark.xfail(strict=True, reason="a known limit, said in SECURITY.md: no kernel of ours can refuse a connect by path")
def test_socket_of_the_owner(island, workspace, service):
    """A socket in a directory mounted read-only that belongs to the directory's owner."""
    os.chown(service, workspace.owner, workspace.owner)
    assert_refused(_connects(island, workspace), "EACCES", "ECONNREFUSED", "EPERM")


@attack(11)
def test_no_socket_without_a_mount(island, workspace, service, place):
    """No directory is mounted by default: no path leads to the host's sockets, not of the current directory either."""
    os.chmod(service, 0o777)
    results = tries(island, f"""
for path in ({str(service)!r}, '/workspace/service', '/run/dbus/system_bus_socket', '/var/run/docker.sock'):
    attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))""", cwd=workspace.path)
    assert_refused(results, "ENOENT")
