"""Islands of images: what of the image's configuration applies, what may be written, and by whom."""

import hashlib
import json
import subprocess

import pytest

from makers import Image, Tree, ann, busybox, layout
from stock import Stock
from support import OURS

NAME = "tests/it:1"


def loads(stock, place):
    def load(image):
        stock.image("load", layout(place / "layout", {"1": image}), NAME).ok()
        return stock
    return load


@pytest.fixture
def loaded(stock, place):
    """loaded(image): a stock that has it under NAME."""
    return loads(stock, place)


@pytest.fixture
def root_loaded(root_stock, place):
    """For what there is with many ids alone: without root all files are one user's."""
    return loads(root_stock, place)


# What the image says

def test_a_program_of_the_image(loaded):
    """Its own files, and none of the host's."""
    stock = loaded(Image(busybox(), Tree().file("mark", "of the image").data))
    assert stock.sh(NAME, "cat /mark") == "of the image"
    assert stock.sh(NAME, "ls /usr") == ""
    done = stock.run(NAME, "--", "/usr/bin/python3", "-c", "1")
    assert done.rc == 127, done.errors


def test_result_says_which_image(loaded):
    result = loaded(Image(busybox())).run(NAME, "--json", "--", "/bin/true").ok().json
    assert result["image"] == f"docker.io/{NAME}"


def test_by_id(loaded):
    image = Image(busybox(), Tree().file("mark", "by id").data)
    assert loaded(image).sh(image.id[:12], "cat /mark") == "by id"


def test_environment(loaded):
    stock = loaded(Image(busybox(), env=["FOO=of the image", "PATH=/bin:/other", "EMPTY="]))
    assert stock.sh(NAME, 'echo "$FOO|$PATH|${EMPTY-unset}"') == "of the image|/bin:/other|\n"
    assert stock.sh(NAME, 'echo "$FOO"', "--env", "FOO=of the call") == "of the call\n"


def test_workdir(loaded):
    """Where the image says, if the call says nothing else."""
    stock = loaded(Image(busybox(), Tree().directory("app").data, workdir="/app"))
    assert stock.sh(NAME, "pwd") == "/app\n"
    assert stock.sh(NAME, "pwd", "--workdir", "/workspace") == "/workspace\n"


@pytest.mark.parametrize("workdir, pwd", [("/app/", "/app"), ("//app/./", "/app"), ("app", "/app"), ("//", "/workspace"),
                                          ("/./", "/workspace")])
def test_workdir_as_it_is_written(root_loaded, workdir, pwd):
    stock = root_loaded(Image(busybox(), Tree().directory("app").data, workdir=workdir))
    assert stock.sh(NAME, "pwd") == f"{pwd}\n"


@pytest.mark.parametrize("written, home", [("/home//ann/", "/home/ann"), ("/home/../ann", "/workspace"),
                                           ("ann", "/workspace"), ("/" + 300 * "x", "/workspace")], ids=range(4))
def test_home_as_it_is_written(root_loaded, written, home):
    tree = Tree().file("etc/passwd", f"ann:x:1234:1235:Ann:{written}:/bin/sh\n").directory("home/ann").data
    assert root_loaded(Image(busybox(), tree, user="ann")).sh(NAME, "echo $HOME") == f"{home}\n"


def test_workdir_that_no_layer_has(loaded):
    """It is made, for the image's user, and so is what is above it."""
    stock = loaded(Image(busybox(), ann(), Tree().symlink("way", "/srv").directory("srv").data, user="ann",
                         workdir="/way/new/app"))
    assert stock.sh(NAME, "pwd -P") == "/srv/new/app\n"
    if stock.who == "root":
        assert stock.sh(NAME, "stat -c %u:%g:%a /srv /srv/new .") == "0:0:755\n1234:1235:755\n1234:1235:755\n"


@pytest.mark.parametrize("workdir", ["/root", "/root/app", "/home/ann", "/way", "/bin/sh", "/bin/sh/x", "/tmp/x",
                                     "/workspace/x", "/dev/shm/x", "/scratch/x"])
def test_workdir_that_programs_can_not_enter(root_loaded, workdir):
    """A run that asks for no directory is not to fail for it."""
    tree = Tree().symlink("way", "root").symlink("scratch", "/tmp").directory("root/app").directory("root", 0o700)
    stock = root_loaded(Image(busybox(), ann(), tree.data, workdir=workdir))
    assert stock.sh(NAME, "pwd") == "/workspace\n"
    assert "workdir" not in stock.record(NAME)


def test_workspace_without_a_workdir(loaded):
    stock = loaded(Image(busybox()))
    assert stock.sh(NAME, "pwd; echo mine >f; cat f") == "/workspace\nmine\n"


def test_entrypoint_is_not_run(loaded):
    stock = loaded(Image(busybox(), entrypoint=["/bin/echo", "entrypoint"], cmd=["cmd"]))
    assert stock.sh(NAME, "echo argv") == "argv\n"


def test_user_with_a_home_of_their_own(loaded):
    """A 0700 home is the user's, whatever ids the island has outside."""
    stock = loaded(Image(busybox(), ann(), user="ann"))
    assert stock.sh(NAME, "cat /home/ann/secret; echo $HOME") == "of Ann\n/home/ann\n"
    if stock.who == "root":
        assert stock.sh(NAME, "id -u; id -g; stat -c %u:%g:%a /home/ann /bin/busybox") == \
            "1234\n1235\n1234:1235:700\n0:0:755\n"


def test_another_user_may_not_enter_that_home(root_loaded):
    stock = root_loaded(Image(busybox(), ann()))
    done = stock.run(NAME, "--", "/bin/cat", "/home/ann/secret")
    assert done.rc == 1 and "Permission denied" in done.errors


def test_a_user_by_number(loaded):
    stock = loaded(Image(busybox(), user="4321:99"))
    if stock.who == "root":
        assert stock.sh(NAME, "id -u; id -g") == "4321\n99\n"
    else:
        assert stock.sh(NAME, "echo ran") == "ran\n"


def test_root_of_the_image_is_not_root(loaded):
    """An image without USER: nobody is root unless that is asked for."""
    stock = loaded(Image(busybox()))
    assert stock.sh(NAME, "id -u").strip() != "0"
    assert "CapEff:\t0000000000000000" in stock.sh(NAME, "cat /proc/self/status")


# What may be written

PLACES = ("/", "/etc", "/bin", "/root", "/usr", "/var")


@pytest.mark.parametrize("user", [[], ["--user", "root"]], ids=["user", "root"])
def test_read_only_root(loaded, user):
    stock = loaded(Image(busybox()))
    line = "".join(f"(: >{place.rstrip('/')}/x) 2>&1; " for place in PLACES)
    said = stock.sh(NAME, line + "(: >>/bin/busybox) 2>&1; true", *user).splitlines()
    assert len(said) == len(PLACES) + 1, said
    assert all("Read-only" in s or "denied" in s or "can't create" in s for s in said)
    assert not list(stock.root(NAME).rglob("x"))


def test_tmp_and_workspace_are_writable(loaded):
    assert loaded(Image(busybox())).sh(NAME, "echo a >/tmp/x; echo b >/workspace/x; cat /tmp/x x") == "a\nb\n"


def test_writable_is_the_runs_own(loaded):
    stock = loaded(Image(busybox(), Tree().directory("open", 0o777).file("open/f", "old", 0o666).data))
    before = stock.files(NAME, "open")
    assert stock.sh(NAME, "echo new >/open/f; echo x >/open/x; rm -f /open/f; echo again >/open/f; cat /open/*",
                    "--writable") == "again\nx\n"
    assert stock.files(NAME, "open") == before
    assert stock.sh(NAME, "ls /open; cat /open/f") == "f\nold"


def test_writable_has_a_size(loaded):
    stock = loaded(Image(busybox(), Tree().directory("open", 0o777).data))
    done = stock.run(NAME, "--writable", "--disk", "8M", "--", "/bin/sh", "-c",
                     "dd if=/dev/zero of=/open/x bs=1M count=64 2>&1")
    assert done.rc != 0 and "No space left" in done.text, done


# Root inside

def test_user_root(loaded):
    stock = loaded(Image(busybox(), ann(), user="ann"))
    assert stock.sh(NAME, "id -u; touch /etc/new && chown 0:0 /etc/new && stat -c %u /etc/new", "--user", "root",
                    "--writable") == "0\n0\n"
    assert not (stock.root(NAME) / "etc/new").exists()


def test_user_root_may_give_files_away(root_loaded):
    stock = root_loaded(Image(busybox(), ann()))
    assert stock.sh(NAME, "touch /etc/new && chown 1234:1235 /etc/new && stat -c %u:%g /etc/new", "--user", "root",
                    "--writable") == "1234:1235\n"


def deb(place, owner):
    """A package with one file, which it gives away, in a repository of plain files; returns its path."""
    build = place / "deb"
    (build / "DEBIAN").mkdir(parents=True)
    (build / "usr/share/small").mkdir(parents=True)
    (build / "usr/share/small/mark").write_text("installed\n")
    (build / "DEBIAN/control").write_text("Package: small\nVersion: 1\nArchitecture: all\nMaintainer: tests <t@localhost>\n"
                                          "Description: small\n")
    (build / "DEBIAN/postinst").write_text(f"#!/bin/sh\nset -e\nchown {owner} /usr/share/small/mark\necho configured\n")
    (build / "DEBIAN/postinst").chmod(0o755)
    repository = place / "repository"
    repository.mkdir()
    repository.chmod(0o755)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", build, repository / "small_1_all.deb"], check=True,
                   capture_output=True)
    packages = subprocess.run(["dpkg-deb", "--field", repository / "small_1_all.deb"], check=True, capture_output=True,
                              text=True).stdout
    data = (repository / "small_1_all.deb").read_bytes()
    (repository / "Packages").write_text(f"{packages}Filename: ./small_1_all.deb\nSize: {len(data)}\n"
                                         f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n")
    return repository


INSTALL = """set -e
echo 'deb [trusted=yes] file:/repository ./' >/etc/apt/sources.list
rm -f /etc/apt/sources.list.d/*
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y install small
cat /usr/share/small/mark
stat -c %U /usr/share/small/mark
dpkg -s small | grep Status
"""


def test_apt_get_install(library, place):
    """As root inside, from a repository of files that is mounted."""
    # Without root there is one id: nothing can be another's, and apt must be told not to become another.
    owner = "daemon" if library.who == "root" else "root"
    before = "" if library.who == "root" else "echo 'APT::Sandbox::User \"root\";' >/etc/apt/apt.conf.d/one-id\n"
    done = library.run("debian:python", "--user", "root", "--writable", "-v", f"{deb(place, owner)}:/repository",
                       "--", "/bin/sh", "-c", before + INSTALL, timeout=120).ok()
    said = done.text.replace("\r", "").splitlines()
    assert said[-4:] == ["configured", "installed", owner, "Status: install ok installed"], said
    assert not (library.root("debian:python") / "usr/share/small").exists()


# Mounts and networks

def test_mounts_where_the_image_has_nothing(loaded, place):
    """At targets that are not there, also below others that are not there."""
    stock = loaded(Image(busybox()))
    data = place / "data"
    data.mkdir()
    data.chmod(0o755)
    (data / "f").write_text("of the host")
    (data / "f").chmod(0o644)
    stock.configure(f"[mounts]\nread = {data}\n")
    assert stock.sh(NAME, "cat /mnt/deep/er/f /srv/one/f", "-v", f"{data}:/mnt/deep/er", "-v",
                    f"{data}:/srv/one") == "of the hostof the host"
    assert not (stock.root(NAME) / "mnt").exists() and not (stock.root(NAME) / "srv").exists()


def test_put_and_get(loaded, place):
    stock = loaded(Image(busybox()))
    (place / "in").write_text("given")
    stock.run(NAME, "--put", "in:in", "--get", "out:got", "--", "/bin/sh", "-c", "cat in >out").ok()
    assert (place / "got").read_text() == "given"


def test_no_network(loaded):
    assert loaded(Image(busybox())).sh(NAME, "ls /sys/class/net 2>/dev/null; cat /proc/net/dev").count(":") == 1


def test_network(traveller, place):
    """The way out is the same as with the host's files; names are resolved by the image's own means."""
    stock = Stock(traveller.cay, place, traveller.who)
    stock.image("load", layout(place / "layout", {"1": Image(busybox())}), NAME).ok()
    options = ["--network", "allowlist", "--allow-domain", "www.example.org"]
    assert stock.sh(NAME, "wget -q -O - http://www.example.org/", *options) == "hello from www.example.org\n"
    done = stock.run(NAME, *options, "--", "/bin/sh", "-c", "wget -T 5 -q -O - http://other.example.net/")
    assert done.rc != 0 and done.out == b""


# Languages

def test_python_of_the_image(library):
    """Found when the image was unpacked; not the host's."""
    out = library.run("debian:python", "--json", "-c", "import sys; print(sys.version.split()[0], sys.prefix)").ok().json
    assert out["language"] == "python" and out["version"].startswith("3.11") and out["stdout"] == f"{out['version']} /usr\n"


def test_language_that_the_image_has_not(library):
    error = library.run("debian:python", "--json", "-l", "ruby", "-c", "1").error
    assert error["code"] == "runtime_not_found" and "python" in error["message"] + error["hint"]


def test_python_imports_and_threads(library):
    code = """import concurrent.futures, json, sqlite3, ssl, subprocess, tempfile
with concurrent.futures.ThreadPoolExecutor(4) as pool: total = sum(pool.map(lambda n: n * n, range(10)))
print(json.dumps([total, subprocess.run(['cat', '/etc/debian_version'], capture_output=True, text=True).stdout[:2],
sqlite3.connect(':memory:').execute('select 42').fetchone()[0]]))"""
    assert json.loads(library.run("debian:python", "-c", code).ok().text) == [285, "12", 42]


# While it is used

def test_image_in_use_is_not_removed(loaded):
    stock = loaded(Image(busybox()))
    degraded = ["--allow-degraded"] if stock.who == "user" else []
    running = stock.start("run", *degraded, "--image", NAME, "--", "/bin/sh", "-c", "echo up; read x; cat /etc/passwd")
    assert running.stdout.readline() == b"up\n"
    done = stock.image("rm", NAME)
    out, _ = running.communicate(b"\n", timeout=20)
    assert done.rc == OURS and "sandboxes" in done.errors
    assert running.returncode == 0 and b"root" in out
    stock.image("rm", NAME).ok()
    stock.nothing()


def test_nothing_of_the_store_is_in_the_island(loaded):
    stock = loaded(Image(busybox()))
    seen = stock.sh(NAME, "cat /proc/self/mountinfo")
    outside = [line for line in seen.splitlines() if str(stock.place) in line.split()[4]]
    assert not outside
    assert stock.run(NAME, "--", "/bin/ls", str(stock.store)).rc != 0


def test_island_looks_like_an_island(loaded):
    """Devices, /proc and names are cay's, whatever the image brought."""
    layer = Tree().directory("dev").file("dev/null", "a file").directory("dev/shm").file("etc/hosts", "6.6.6.6 localhost\n")
    stock = loaded(Image(busybox(), layer.file("etc/resolv.conf", "nameserver 6.6.6.6\n").data))
    said = stock.sh(NAME, "test -c /dev/null && test -c /dev/urandom && cat /etc/hosts /etc/resolv.conf; hostname")
    assert "6.6.6.6" not in said and "127.0.0.1" in said
