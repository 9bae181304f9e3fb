"""What a container engine puts around a program, made by hand: no daemon, and each part apart.

    python3 container.py [filter] [proc] [cgroups] [private] [user] -- COMMAND [ARG…]

filter: a system call filter that answers clone3, unshare and mount as Docker's does. proc: parts of
/proc covered. cgroups: read-only. private: a cgroup namespace of its own, which may be written.
user: an ordinary user. Always: namespaces of its own and the few capabilities that Docker leaves.
"""

import ctypes
import errno
import os
import pathlib
import platform
import struct
import subprocess
import sys

USER = 1000
CAPABILITIES = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
                "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap")

CLONE3 = 435
UNSHARE_AND_MOUNT = {"x86_64": (272, 165), "aarch64": (97, 40)}[platform.machine()]


def shell(line):
    subprocess.run(["sh", "-ec", line], check=True)


def cover_proc():
    """As Docker does: empty files and directories over some, others read-only."""
    shell("mount --bind /dev/null /proc/keys; if [ -d /proc/acpi ]; then mount -t tmpfs -o ro none /proc/acpi; fi;"
          "for d in sys irq; do mount --bind /proc/$d /proc/$d; mount -o remount,bind,ro /proc/$d; done")


def cgroup_mounts():
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    return [p for p in points if p == "/sys/fs/cgroup" or p.startswith("/sys/fs/cgroup/")]


def shut_cgroups():
    for point in reversed(cgroup_mounts()):
        shell(f"mount --bind {point} {point}; mount -o remount,bind,ro {point}")


def own_cgroup():
    """Pure v2 only: the container's cgroup is the top of all that it sees, and has processes."""
    group = pathlib.Path(f"/sys/fs/cgroup/container-{os.getpid()}")
    group.mkdir()
    (group / "cgroup.procs").write_text("0")
    pathlib.Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory +pids +cpu")
    return group


def load_filter():
    """Needs no privilege but the promise not to gain any."""
    def refuse(number, error):
        return [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error)]
    rows = [(0x20, 0, 0, 0), *refuse(CLONE3, errno.ENOSYS)]
    for number in UNSHARE_AND_MOUNT:
        rows += refuse(number, errno.EPERM)
    rows.append((0x06, 0, 0, 0x7fff0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def inside(parts, command):
    if "proc" in parts:
        cover_proc()
    if "private" in parts:
        shell("umount -R /sys/fs/cgroup 2>/dev/null || :; mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    if "cgroups" in parts:
        shut_cgroups()
    if "filter" in parts:
        load_filter()
    few = ",".join(f"+{name}" for name in CAPABILITIES)
    drop = ["setpriv", f"--bounding-set=-all,{few}", "--inh-caps=-all"]
    if "user" in parts:
        drop += [f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    # Not exec: a container has more processes than the one that matters.
    return subprocess.run([*drop, *command], check=False).returncode


def outside(parts, command):
    group = own_cgroup() if "private" in parts else None
    again = [sys.executable, __file__, "inside", *parts, "--", *command]
    flags = ["-m", "-p", "-i", "-u", "-f", "--mount-proc", *(["-C"] if group else [])]
    code = subprocess.run(["unshare", *flags, *again], check=False).returncode
    if group:
        pathlib.Path("/sys/fs/cgroup/cgroup.procs").write_text("0")
        for directory, _, _ in os.walk(group, topdown=False):
            os.rmdir(directory)
    return code


def main():
    words = sys.argv[1:]
    parts, command = words[:words.index("--")], words[words.index("--") + 1:]
    if parts[:1] == ["inside"]:
        return inside(parts[1:], command)
    return outside(parts, command)


if __name__ == "__main__":
    sys.exit(main())
