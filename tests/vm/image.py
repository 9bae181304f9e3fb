"""The images that tests/vm/run boots: a small Debian as a disk, and Debian's kernel for it.

Making one takes a minute or two and needs root and Debian's mirror. It is kept in build/vm under the
kernel's version and what this file and guest say.
"""

import dataclasses
import fcntl
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / "build" / "vm"


@dataclasses.dataclass
class Machine:
    architecture: str  # Debian's word for it
    emulator: list
    package: str       # that has the emulator
    program: str
    # The serial lines: the kernel's messages, the command's output, its exit code.
    console: str
    lines: list


AMD64 = Machine("amd64", ["qemu-system-x86_64", "-cpu", "max"], "qemu-system-x86", "build/cay",
                "ttyS0", ["-serial", "chardev:out", "-serial", "chardev:code"])
ARM64 = Machine("arm64", ["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a76"], "qemu-system-arm",
                "build-arm64/cay", "ttyAMA0",
                ["-device", "pci-serial,chardev=out", "-device", "pci-serial,chardev=code"])

TOOLS = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "dpkg-deb": "dpkg", "apt-get": "apt"}
PACKAGES = ["systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd",
            "python3", "python3-pytest", "util-linux", "procps", "iproute2",
            "gcc", "libc6-dev",  # some attacks are written in C
            "kmod",              # finds the kernel's parts of an island's way out
            "openssl", "python3-dnspython",  # tests/egress/world.py
            "libc-ares2",        # cay-egress's
            "libcurl4", "busybox-static",  # cay-image's, and what tests' images are made of
            "libarchive13", "libinih1", "libjansson4", "libseccomp2", "libsqlite3-0", "libssl3", "libwslay1"]  # cay-api's
UNPACKED = ["base-files", "base-passwd", "dash", "coreutils", "grep", "sed", "tar", "findutils", "mount",
            *(name for name in PACKAGES if "systemd" not in name and "dbus" not in name)]
# What of the kernel's modules is wanted, and what that needs.
MODULES = ["net/netfilter", "net/ipv4/netfilter", "net/ipv6/netfilter", "lib", "crypto",
           "drivers/net/dummy.ko", "drivers/net/veth.ko"]  # tests/egress/world.py
SMALL = ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
         "--dpkgopt=path-exclude=/usr/share/locale/*"]
MIRROR = "http://deb.debian.org/debian"
IMAGE_MIB = 1000

# An ordinary user of the image; under systemd, with a session's systemd of their own.
USER = ("vm", 1000)

UNIT = f"""[Unit]
Description=The command that tests/vm/run was given
Wants=user@{USER[1]}.service
After=multi-user.target systemd-logind.service user@{USER[1]}.service
[Service]
Type=oneshot
ExecStart=/cay-vm
TimeoutStartSec=infinity
[Install]
WantedBy=graphical.target
"""


class Unavailable(Exception):
    pass


def call(*argv, **more):
    p = subprocess.run(argv, text=True, capture_output=True, **more)
    if p.returncode:
        last = (p.stderr or p.stdout).strip().splitlines()[-3:]
        raise Unavailable(f"{shlex.join(map(str, argv))}: {' / '.join(last)}")
    return p.stdout


def kernel_package():
    """The package that the name without a version stands for, by apt's lists on this machine."""
    name = "linux-image-cloud-amd64"

    def look():
        found = re.search(r"Depends: (linux-image-\S+)", call("apt-cache", "depends", name))
        if not found:
            raise Unavailable(f"apt does not know {name}")
        return found[1]
    try:
        return look()
    except Unavailable:
        call("apt-get", "update", "-q")
        return look()


def fetch_kernel(package, work):
    try:
        call("apt-get", "download", "-q", package, cwd=work)
    except Unavailable:  # the lists may be older than the mirror
        call("apt-get", "update", "-q")
        call("apt-get", "download", "-q", package, cwd=work)
    call("dpkg-deb", "-x", next(work.glob("linux-image*.deb")), work / "kernel")
    return next((work / "kernel" / "boot").glob("vmlinuz-*"))


def add_modules(kernel, root):
    version = kernel.name.removeprefix("vmlinuz-")
    modules = kernel.parents[1] / "lib/modules" / version
    to = root / "usr/lib/modules" / version
    to.mkdir(parents=True)
    for name in modules.glob("modules.*"):
        shutil.copy(name, to)
    for name in MODULES:
        (to / "kernel" / name).parent.mkdir(parents=True, exist_ok=True)
        call("cp", "-r", modules / "kernel" / name, to / "kernel" / name)
    call("chroot", root, "depmod", version)


def add_guest(root):
    shutil.copy(HERE / "guest", root / "cay-vm")
    (root / "cay-vm").chmod(0o755)
    (root / "cay").mkdir()
    (root / "etc/hostname").write_text("vm\n")


def unpack_root(root):
    """Of another architecture: nothing of it can be run here. Returns its kernel."""
    call("mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64",
         "--hook-directory=/usr/share/mmdebstrap/hooks/merged-usr",
         "--include=" + ",".join(["linux-image-cloud-arm64", *UNPACKED]), *SMALL, "bookworm", root, MIRROR)
    add_guest(root)
    # What the packages' own scripts would have done.
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    (root / "etc/shadow").write_text("root:*:::::::\n")
    (root / "etc/shadow").chmod(0o640)
    (root / "usr/bin/cc").symlink_to("gcc")
    shutil.rmtree(root / "usr/lib/modules")
    return next((root / "boot").glob("vmlinuz-*"))


def make_root(root):
    call("mmdebstrap", "--quiet", "--variant=minbase", "--include=" + ",".join(PACKAGES),
         *SMALL, "bookworm", root, MIRROR)
    add_guest(root)
    call("chroot", root, "useradd", "-m", "-u", str(USER[1]), "-s", "/bin/sh", USER[0])
    (root / "var/lib/systemd/linger").mkdir(parents=True, exist_ok=True)
    (root / "var/lib/systemd/linger" / USER[0]).touch()
    (root / "etc/systemd/system/cay-vm.service").write_text(UNIT)
    call("chroot", root, "systemctl", "set-default", "graphical.target")
    call("chroot", root, "systemctl", "enable", "cay-vm.service")
    call("chroot", root, "systemctl", "mask", "getty.target", "serial-getty@.service",
         "e2scrub_reap.service", "apt-daily.timer", "apt-daily-upgrade.timer",
         "systemd-timesyncd.service", "systemd-update-utmp.service")


def make_image(place, machine, package):
    if os.geteuid() != 0:
        raise Unavailable("making the image needs root")
    print(f"tests/vm/run: making {place}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=CACHE) as name:
        work = pathlib.Path(name)
        work.chmod(0o755)
        if machine is ARM64:
            kernel = unpack_root(work / "root")
        else:
            kernel = fetch_kernel(package, work)
            make_root(work / "root")
            add_modules(kernel, work / "root")
        (work / "made").mkdir()
        call("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", work / "root",
             work / "made" / "root.img", f"{IMAGE_MIB}M")
        shutil.copy(kernel, work / "made" / "vmlinuz")
        (work / "made").rename(place)


def image(machine):
    """The directory that has vmlinuz and root.img, made if it is not there."""
    for tool, package in {**TOOLS, machine.emulator[0]: machine.package}.items():
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is not there: apt install {package}")
    package = "arm64" if machine is ARM64 else kernel_package()
    recipe = hashlib.sha256(pathlib.Path(__file__).read_bytes() + (HERE / "guest").read_bytes())
    place = CACHE / f"{package.removeprefix('linux-image-')}-{recipe.hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            make_image(place, machine, package)
            for old in CACHE.glob("arm64-*" if machine is ARM64 else "*-cloud-*"):
                if old != place:
                    shutil.rmtree(old)
    return place
