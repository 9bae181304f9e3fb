"""Attacks by root of an island (--user root): what its capabilities reach is its own alone."""

import os

from attack import assert_refused, attack, told, tries

ROOT = ("--user", "root")


@attack(13)
def test_root_and_the_machine(cay):
    """Devices, loopback, raw sockets, host name, clock, priorities, quotas, others' files of /proc: refused."""
    results = tries(cay, """
attempt('device', lambda: os.mknod('/tmp/device', 0o20666, os.makedev(1, 3)))
attempt('whiteout', lambda: os.mknod('/tmp/whiteout', 0o20000, 0))
attempt('loopback down', lambda: fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0) + bytes(22)))
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt('hostname', lambda: socket.sethostname('x'))
attempt('clock', lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
attempt('chroot', lambda: os.chroot('/tmp'))
attempt('nice', lambda: os.nice(-5))
attempt('files', lambda: call(302, 0, 7, struct.pack('2Q', 1 << 20, 1 << 20), 0))
for path in ('1/mem', '1/environ', '1/root', '1/fd', '1/exe', '1/maps', '1/oom_score_adj'):
    attempt(path, lambda: os.listdir('/proc/' + path) if path in ('1/fd', '1/root') else open('/proc/' + path, 'r+b'))
attempt('trace init', lambda: call(101, 16, 1, 0, 0))
attempt('file capability', lambda: os.setxattr('/tmp', 'security.capability', bytes(20)))
attempt('trusted', lambda: os.setxattr('/tmp', 'trusted.x', b'1'))
""", *ROOT)
    assert_refused(results, "EPERM", "EACCES", "EAFNOSUPPORT", "EINVAL", "EPROTONOSUPPORT")
    assert tries(cay, """
attempt('ids', lambda: (os.setgroups([5]), os.setresgid(7, 7, 7), os.setresuid(8, 8, 8)))
""", *ROOT) == {"ids": "worked"}


@attack(7)
def test_root_and_files_of_others(cay, shared):
    """In a writable directory: files of the host's other users, whatever their mode is."""
    path, config = shared
    for name, owner in (("mine", path.stat().st_uid), ("theirs", 4321), ("roots", 0)):
        (path / name).write_text("secret")
        os.chown(path / name, owner, owner)
        (path / name).chmod(0o600)
    results = tries(cay, """
for name in ('mine', 'theirs', 'roots'):
    attempt('read ' + name, lambda: open(name).read())
    attempt('write ' + name, lambda: open(name, 'a').write('x'))
    attempt('chmod ' + name, lambda: os.chmod(name, 0o644))
    attempt('chown ' + name, lambda: os.chown(name, 0, 0))
attempt('to another', lambda: os.chown('mine', 12, 12))
""", *ROOT, "--workspace", f"{path}:rw", config=config)
    assert [results.pop(f"{what} mine") for what in ("read", "write", "chmod", "chown")] == ["worked"] * 4
    assert_refused(results, "EPERM", "EACCES", "EOVERFLOW", "EINVAL")
    assert (path / "theirs").read_text() == "secret" and (path / "theirs").stat().st_uid == 4321
    assert (path / "roots").read_text() == "secret" and (path / "roots").stat().st_mode & 0o777 == 0o600


@attack(10)
def test_root_and_set_id_bits_on_the_host(cay, shared):
    """A root that could set them on a root of its own can't where a host directory can be written to."""
    path, config = shared
    assert_refused(tries(cay, """
open('x', 'w').close()
attempt('chmod', lambda: os.chmod('x', 0o4755))
attempt('in tmp', lambda: (open('/tmp/x', 'w').close(), os.chmod('/tmp/x', 0o4755)))
attempt('open', lambda: os.open('y', os.O_CREAT | os.O_WRONLY, 0o4755))
""", *ROOT, "--workspace", f"{path}:rw", config=config), "EPERM")
    assert (path / "x").stat().st_mode & 0o6000 == 0
    told("none on the host")
