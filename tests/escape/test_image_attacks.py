"""Images are hostile by assumption: what is in one must not reach the host, nor give its island more than others have."""

import json
import os
import struct
import subprocess
import tarfile

import pytest

from attack import attack, compile_c, told
from image_fixtures import cay_of
from makers import Image, Tree, ann, busybox, layout
from support import OURS, STRANGER

NAME = "tests/hostile:1"

# Where an island has something mounted, or a file of its own. What a refusal names is alone; the rest is in one image.
TARGETS = {name: [name] for name in ("dev", "proc", "sys", "tmp", "workspace", "run", "etc", "var", "var/tmp")} | {
    "devices": [f"dev/{name}" for name in ("null", "zero", "urandom", "pts", "shm", "console", "ptmx", "fd")],
    "files": [f"etc/{name}" for name in ("hosts", "hostname", "resolv.conf", "passwd", "group", "mtab")]}

# Tries to write and to make files in all of them; says what they are.
PROBE = """
for t in %s; do
  (echo attacked >/$t) 2>/dev/null; (echo attacked >/$t/attacked) 2>/dev/null; (rm -f /$t/mark) 2>/dev/null
done
for d in null zero urandom; do test -c /dev/$d || echo "no device: $d"; done
test -r /proc/self/status || echo "no proc"
grep -q '^Name:.*grep' /proc/self/status || echo "not its own proc"
touch /tmp/x /workspace/x || echo "nothing to write to"
""" % " ".join(name for names in TARGETS.values() for name in names)


@pytest.fixture
def victim(place):
    """A directory of the host's that everybody may write to; where the image's symlinks lead."""
    path = place / "victim"
    path.mkdir()
    (path / "mark").write_text("untouched")
    for name, mode in (("mark", 0o666), (".", 0o777)):
        (path / name).chmod(mode)
    return path


def state(victim):
    return {name: (victim / name).read_text() for name in os.listdir(victim)}


def hostile(targets, kind, victim):
    """A layer in which these are not what they should be."""
    tree = Tree()
    for target in targets:
        if kind == "file":
            tree.file(target, "a file of the image\n", 0o666)
        else:
            tree.symlink(target, {"link": victim, "link to a file": victim / "mark",
                                  "link up": f"{'../' * 30}{str(victim).lstrip('/')}"}[kind])
    return tree.data


KINDS = ["file", "link", "link to a file", "link up"]


def try_image(stock, place, image):
    """Loads and runs it; how it ended: the error where it was refused, else what the probe said."""
    done = stock.image("load", layout(place / "layout", {"1": image}), NAME)
    if done.rc == OURS:
        assert len(done.said) == 1, done.errors
        stock.nothing()
        return done.errors, None
    done.ok()
    options = ["--user", "root", "--writable"] if stock.who == "root" else []
    for more in ([], options):
        done = stock.run(NAME, *more, "--", "/bin/busybox", "sh", "-c", PROBE)
        if done.rc == OURS:
            return done.errors, None
        assert done.rc == 0, (done.rc, done.errors)
        if done.text:
            return None, done.text
    return None, ""


@attack(3)
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_mounted_over(stock, place, victim, target):
    """an image in which what an island mounts or makes is a symlink out of it, or a file"""
    for kind in KINDS:
        image = Image(busybox(), hostile(TARGETS[target], kind, victim))
        error, said = try_image(stock, place, image)
        assert state(victim) == {"mark": "untouched"}, (target, kind)
        if error is not None:
            assert target.partition("/")[0] in error, "which is to be said"
            told("refused, by name")
        else:
            assert said == "", (target, kind, said)
            told("harmless")
        stock.image("rm", NAME)
        subprocess.run(["rm", "-r", place / "layout"], check=True)


def test_control_links_lead_out(place, victim):
    """The same layers, unpacked as they are and entered by nobody's rules but the kernel's, do reach the directory."""
    for kind in ("link", "link to a file", "link up"):
        root = place / kind.replace(" ", "-")
        root.mkdir()
        (place / "layer").write_bytes(hostile(["tmp"], kind, victim))
        with tarfile.open(place / "layer") as tar:
            tar.extractall(root)
        path = root / "tmp" if kind == "link to a file" else root / "tmp" / "mark"
        path.write_text(kind)
        assert state(victim)["mark"] == kind


# What gives rights to who runs it

WHO = """
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
int main(void)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    getresuid(&r, &e, &s);
    getresgid(&rg, &eg, &sg);
    printf("{\\"uids\\": [%u, %u, %u], \\"gids\\": [%u, %u, %u]", r, e, s, rg, eg, sg);
    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "Cap", 3))
            printf(", \\"%.6s\\": \\"%.16s\\"", line, line + 8);
    puts("}");
    return 0;
}
"""

# cap_net_raw,cap_sys_admin=ep, revision 2.
CAPABILITY = struct.pack("<IIIII", 0x02000001, (1 << 13) | (1 << 21), 0, 0, 0)


@pytest.fixture
def programs(place):
    """The program that says who it is, as it is and with what should give it rights: {name: (mode, xattrs)}."""
    return compile_c(place, "who", WHO), {
        "plain": (0o755, None), "setuid": (0o4755, None), "setgid": (0o2755, None), "both": (0o6755, None),
        "capable": (0o755, {"security.capability": CAPABILITY.decode("latin-1")})}


@attack(10)
@pytest.mark.parametrize("options", [[], ["--writable"]], ids=["read-only", "writable"])
def test_rights_in_an_image(stock, place, programs, options):
    """programs in an image with set-id bits and file capabilities"""
    program, kinds = programs
    tree = Tree().directory("open", 0o777)
    for name, (mode, xattrs) in kinds.items():
        tree.program(f"open/{name}", program, mode, xattrs=xattrs)
    stock.image("load", layout(place / "layout", {"1": Image(busybox(), tree.data)}), NAME).ok()
    said = {name: json.loads(stock.run(NAME, *options, "--", f"/open/{name}").ok().text) for name in kinds}
    assert all(one == said["plain"] for one in said.values()), said
    assert len(set(said["plain"]["uids"])) == 1 and said["plain"]["uids"][0] != 0
    assert {said["plain"][cap] for cap in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
    told("uid stays, no capability")
    for name in kinds:
        path = stock.root(NAME) / "open" / name
        assert not path.stat().st_mode & 0o6000
        assert "security.capability" not in os.listxattr(path)


def test_control_rights_work_outside(place, root, programs):
    """On the host the same bits and capability do give them to an ordinary user."""
    program, kinds = programs
    for name, (mode, xattrs) in kinds.items():
        path = place / name
        path.write_bytes(program.read_bytes())
        path.chmod(mode)
        for key, value in (xattrs or {}).items():
            os.setxattr(path, key, value.encode("latin-1"))
    as_user = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    said = {name: json.loads(subprocess.run([*as_user, place / name], capture_output=True, check=True).stdout)
            for name in kinds}
    assert said["plain"]["uids"] == [STRANGER] * 3 and said["plain"]["CapEff"] == "0" * 16
    assert said["setuid"]["uids"][1] == 0 and said["setgid"]["gids"][1] == 0
    assert int(said["capable"]["CapEff"], 16) == (1 << 13) | (1 << 21)


@attack(10)
def test_rights_made_as_root_inside(stock, place, programs):
    """makes a set-id program and devices as root of its own image, and runs it as another"""
    program, _ = programs
    stock.image("load", layout(place / "layout", {"1": Image(busybox(), ann(), Tree().program("who", program).data)}),
                NAME).ok()
    before = subprocess.run(["find", stock.store, "-printf", "%P %m %n %U\n"], capture_output=True, check=True).stdout
    line = """cp /who /bin/mine && chown 0:0 /bin/mine && chmod 6755 /bin/mine
mknod /bin/disk b 8 0; mknod /root/mem c 1 1; mknod /tmp/mem c 1 1; mount -t tmpfs none /root
ls /bin/disk /root/mem /tmp/mem 2>/dev/null
/bin/mine; su -s /bin/sh ann -c /bin/mine"""
    done = stock.run(NAME, "--user", "root", "--writable", "--", "/bin/sh", "-c", line)
    said = [json.loads(text) for text in done.text.splitlines()]
    assert said[0]["uids"] == [0, 0, 0]
    if stock.who == "root":  # without, there is one id alone
        assert said[1]["uids"] == [1234] * 3 and said[1]["gids"] == [1235] * 3 and said[1]["CapEff"] == "0" * 16
        told("uid stays")
    refused = [text for text in done.errors.splitlines() if "not permitted" in text or "denied" in text]
    assert len(refused) >= 4, done.errors
    told("no devices, no mounts")
    after = subprocess.run(["find", stock.store, "-printf", "%P %m %n %U\n"], capture_output=True, check=True).stdout
    assert after == before


@attack(10)
def test_device_nodes_in_an_image(stock, place):
    """an image with nodes of the host's disks and memory"""
    tree = Tree().directory("dev").device("dev/mem", 1, 1).device("mem", 1, 1).device("etc/kmsg", 1, 11)
    done = stock.image("load", layout(place / "layout", {"1": Image(busybox(), tree.data)}), NAME)
    if done.rc == OURS:
        told("refused")
        return
    nodes = stock.sh(NAME, "ls -l /mem /etc/kmsg /dev/mem 2>/dev/null; cat /mem /etc/kmsg /dev/mem | head -c 9; true")
    assert nodes == "", nodes
    told("not there")


BINDS = r"""
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
int main(int argc, char **argv)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    for (int n = 1; n < argc; n++) {
        strncpy(name.sun_path, argv[n], sizeof(name.sun_path) - 1);
        puts(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof(name)) == 0 ? "bound" : "refused");
    }
    return 0;
}
"""


@attack(10)
def test_sockets_below_a_writable_root(stock, place):
    """a socket left in a writable host directory, by a program whose whole root is writable"""
    program = compile_c(place, "binds", BINDS)
    tree = Tree().directory("open", 0o777).program("binds", program)
    stock.image("load", layout(place / "layout", {"1": Image(busybox(), tree.data)}), NAME).ok()
    work = place / "work"
    work.mkdir()
    if stock.who == "user":
        os.chown(work, STRANGER, STRANGER)
    stock.configure(f"[mounts]\nwrite = {work}\n")
    shared = stock.run(NAME, "--writable", "--workspace", f"{work}:rw", "--", "/binds", "/workspace/s", "/tmp/s")
    assert shared.ok().text.split() == ["refused", "bound"] and not os.listdir(work)
    # The control: where nothing stays, there may be some.
    alone = stock.run(NAME, "--writable", "--", "/binds", "/workspace/s", "/open/s")
    assert alone.ok().text.split() == ["bound", "bound"]
    told("none on the host")


# What is in a store

@attack(36)
def test_secrets_of_roots_images(root_stock, place, root):
    """an ordinary user who reads root's image store: environments have passwords in them"""
    store, secret = root_stock.store, "PASSWORD=hunter2"
    image = layout(place / "layout", {NAME: Image(busybox(), Tree().file("etc/key", "hunter2").data, env=[secret])})
    root_stock.image("load", image).ok()
    # As an older cay left them, which the next call mends.
    for part in ("names", "records", "configs", "manifests"):
        (store / part).chmod(0o755)
    root_stock.image("prune").ok()
    find = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups",
            "grep", "-rsl", "hunter2", store]
    assert subprocess.run(find, capture_output=True).stdout == b""
    # Who may not read them has none; which is not an error of runs that need none.
    stranger = cay_of("user", place.parent, place)
    assert stranger("image", "list", config=root_stock.config).ok().text.split() == ["NAME", "ID", "CREATED", "SIZE"]
    done = stranger("image", "inspect", NAME, config=root_stock.config)
    assert done.rc == OURS and "is not here" in done.errors, done.errors
    assert stranger.run("--allow-degraded", "-l", "sh", "-c", "echo 1", config=root_stock.config).ok().text == "1\n"
    told("refused")


def test_control_secrets_of_roots_images(root_stock, place, root):
    """Root finds it in the record, the configuration, the layer and the root."""
    image = layout(place / "layout", {NAME: Image(busybox(), Tree().file("etc/key", "hunter2").data,
                                                  env=["PASSWORD=hunter2"])})
    root_stock.image("load", image).ok()
    found = subprocess.run(["grep", "-rsl", "hunter2", root_stock.store], capture_output=True, text=True).stdout
    assert {line.removeprefix(f"{root_stock.store}/").partition("/")[0] for line in found.splitlines()} == {
        "records", "configs", "layers", "roots"}
