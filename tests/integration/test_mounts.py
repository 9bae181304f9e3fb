"""Host directories: none by default, only allowed ones, never forbidden ones, and as their owner's."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from support import OURS, must_work

OWNER = 1234  # of the directories that are mounted; nobody on any machine


@pytest.fixture
def data(scratch):
    """A host directory with a file, owned by somebody."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="d-", dir=scratch))
    path.chmod(0o755)
    (path / "file").write_text("content")
    if os.geteuid() == 0:
        os.chown(path, OWNER, OWNER)
        os.chown(path / "file", OWNER, OWNER)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def readable(config, data):
    return config(f"[mounts]\nread = {data}\n")


@pytest.fixture
def writable(config, data):
    return config(f"[mounts]\nwrite = {data}\n")


def denied(cay, *args, **more):
    error = cay.refused(*args, "--", "true", **more)
    assert error["code"] == "policy_denied", error
    return error["message"]


# The workspace

def test_nothing_is_mounted_by_default(cay, place):
    (place / "mine").write_text("x")
    assert cay.inside("os.listdir('/workspace')") == []
    assert cay.inside(f"os.path.exists('{place}')") is False


def test_current_directory_as_workspace(cay, place):
    (place / "mine").write_text("x")
    assert cay.inside("[os.getcwd(), os.listdir('.'), open('mine').read()]", "--workspace", ".") \
        == ["/workspace", ["mine"], "x"]


def test_workspace_is_read_only(cay, place):
    (place / "mine").write_text("x")
    code = ("import errno, os\nfor f in (lambda: open('new', 'w'), lambda: open('mine', 'a'),\n"
            "          lambda: os.unlink('mine'), lambda: os.chmod('mine', 0o777), lambda: os.mkdir('d')):\n"
            "  try: f(); print('worked')\n  except OSError as e: print(errno.errorcode[e.errno])")
    assert cay.python(code, "--workspace", ".").split() == ["EROFS"] * 5
    assert [p.name for p in place.iterdir()] == ["mine"]


def test_tmp_stays_writable_beside_a_workspace(cay):
    cay.python("open('/tmp/x', 'w'); open('/dev/shm/x', 'w')", "--workspace", ".")


def test_sub_directory_of_the_current_one(cay, place):
    (place / "sub").mkdir()
    (place / "sub" / "f").touch()
    assert cay.inside("os.listdir('.')", "--workspace", "sub") == ["f"]
    assert cay.inside("os.listdir('.')", "--workspace", place / "sub") == ["f"]
    assert cay.inside("os.listdir('.')", "--workspace", "sub/../sub:ro") == ["f"]


def test_current_directory_is_not_writable_without_leave(cay):
    message = denied(cay, "--workspace", ".:rw")
    assert "read-only" in message


def test_parent_of_the_current_directory_is_refused(cay, place):
    (place / "sub").mkdir()
    assert "not allowed" in denied(cay, "--workspace", "..", cwd=place / "sub")


def test_link_out_of_the_current_directory_is_refused(cay, place, data):
    (place / "link").symlink_to(data)
    assert str(data) in denied(cay, "--workspace", "link")


def test_link_inside_the_workspace_leads_nowhere(cay, place):
    (place / "link").symlink_to("/root")
    (place / "passwd").symlink_to("/etc/passwd")
    assert cay.inside("[os.path.exists('link'), 'cay:' in open('passwd').read()]",
                      "--workspace", ".") == [False, True]


def test_writable_workspace(cay, data, writable, root):
    cay.python("open('out', 'w').write('x')", "--workspace", f"{data}:rw", config=writable)
    assert (data / "out").read_text() == "x"


def test_workspace_missing(cay):
    error = cay.refused("--workspace", "nowhere", "--", "true")
    assert error["code"] == "not_found" and "nowhere" in error["message"]


def test_workspace_is_a_file(cay, place):
    (place / "f").touch()
    error = cay.refused("--workspace", "f", "--", "true")
    assert "no directory" in error["message"] and "--put" in error["hint"]


# Volumes

def test_volume_needs_leave(cay, data):
    message = denied(cay, "-v", f"{data}:/data")
    assert message == f"mount of {data} is not allowed"


def test_hint_says_how_to_allow(cay, data):
    assert f"read = {data}" in cay.refused("-v", f"{data}:/data", "--", "true")["hint"]
    assert f"write = {data}" in cay.refused("-v", f"{data}:/data:rw", "--", "true")["hint"]


@pytest.mark.parametrize("mode", ["", ":ro"])
def test_volume_read_only(cay, data, readable, root, mode):
    code = ("print(open('/data/file').read())\ntry: open('/data/new', 'w')\n"
            "except OSError as e: print(e.strerror)")
    assert cay.python(code, "-v", f"{data}:/data{mode}", config=readable) \
        == "content\nRead-only file system\n"


def test_volume_at_a_deep_target(cay, data, readable, root):
    assert cay.inside("os.listdir('/a/b/c')", "-v", f"{data}:/a/b/c", config=readable) == ["file"]
    assert cay.inside("os.listdir('/mnt')", "-v", f"{data}:/mnt", config=readable) == ["file"]


def test_sub_directory_of_an_allowed_one(cay, data, readable, root):
    (data / "sub").mkdir()
    assert cay.inside("os.listdir('/data')", "-v", f"{data}/sub:/data", config=readable) == []


def test_name_that_only_begins_like_an_allowed_one(cay, data, readable, scratch):
    other = pathlib.Path(f"{data}x")
    other.mkdir()
    try:
        assert "not allowed" in denied(cay, "-v", f"{other}:/data", config=readable)
    finally:
        other.rmdir()


def test_read_leave_is_no_write_leave(cay, data, readable):
    assert "read-only" in denied(cay, "-v", f"{data}:/data:rw", config=readable)


def test_write_leave_is_read_leave(cay, data, writable, root):
    cay.run("-v", f"{data}:/data:ro", "--", "test", "-f", "/data/file", config=writable).ok()


def test_written_files_belong_to_the_directorys_owner(cay, data, writable, root):
    code = ("import os\nopen('/data/new', 'w').write('x'); os.mkdir('/data/dir')\n"
            "open('/data/dir/deep', 'w'); open('/data/file', 'a').write('!')\n"
            "print([os.stat(p).st_uid for p in ('/data', '/data/file', '/data/new')])")
    assert cay.python(code, "-v", f"{data}:/data:rw", config=writable) == "[1000, 1000, 1000]\n"
    for name in ("new", "dir", "dir/deep", "file"):
        st = os.stat(data / name)
        assert (st.st_uid, st.st_gid) == (OWNER, OWNER), name
    assert (data / "file").read_text() == "content!"


def test_other_owners_files_stay_out_of_reach(cay, data, writable, root):
    (data / "roots").write_text("secret")
    (data / "roots").chmod(0o600)
    code = ("try: open('/data/roots')\nexcept OSError as e: print(e.strerror)\n"
            "import os; print(os.stat('/data/roots').st_uid)")
    assert cay.python(code, "-v", f"{data}:/data:rw", config=writable) == "Permission denied\n65534\n"


SET_ID = """
import ctypes, os
def tell(name, f):
    try: f(); print(name, 'worked')
    except OSError as e: print(name, e.strerror)
open('plain', 'w').close()
os.mkdir('dir')
tell('chmod', lambda: os.chmod('plain', 0o4755))
tell('chmod-g', lambda: os.chmod('plain', 0o2755))
tell('fchmod', lambda: os.fchmod(os.open('plain', 0), 0o6755))
tell('open', lambda: os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755))
tell('dir', lambda: os.chmod('dir', 0o2755))
tell('mknod', lambda: os.mknod('node', 0o104755))
tell('mkdir', lambda: os.mkdir('dir2', 0o2755))
l = ctypes.CDLL(None, use_errno=True)
def fchmodat2():
    if l.syscall(452, -100, b'plain', 0o4755, 0) < 0: raise OSError(ctypes.get_errno(), 'no')
tell('fchmodat2', fchmodat2)
tell('usual', lambda: os.chmod('plain', 0o755))
"""


def test_set_id_bits_can_not_be_left_on_the_host(cay, data, writable, root):
    out = cay.python(SET_ID, "--workspace", f"{data}:rw", config=writable)
    words = dict(line.split(" ", 1) for line in out.splitlines())
    assert words.pop("usual") == "worked"
    words.pop("mkdir")  # a set-group-id bit there is dropped by the kernel, or refused
    assert "worked" not in words.values(), words
    for directory, names, files in os.walk(data):
        for name in names + files:
            assert os.lstat(os.path.join(directory, name)).st_mode & 0o6000 == 0, name


def test_set_id_program_on_a_volume_gains_nothing(cay, data, readable, root):
    shutil.copy("/usr/bin/id", data / "id")
    os.chown(data / "id", 0, 0)
    (data / "id").chmod(0o6755)
    assert cay.run("-v", f"{data}:/data", "--", "/data/id", "-u", config=readable).ok().text == "1000\n"


def test_devices_on_a_volume_are_dead(cay, data, readable, root):
    os.mknod(data / "null", 0o20666, os.makedev(1, 3))
    code = "try: open('/data/null')\nexcept OSError as e: print(e.strerror)"
    assert cay.python(code, "-v", f"{data}:/data", config=readable) == "Permission denied\n"


def test_several_volumes(cay, data, place, config, root):
    conf = config(f"[mounts]\nread = {data}\nread = {place}\n")
    assert cay.inside("[os.listdir('/a'), os.listdir('/b')]", "-v", f"{data}:/a", "-v", f"{place}:/b",
                      config=conf) == [["file"], ["cay.conf"]]


def test_mounts_below_a_volume_are_read_only_too(cay, data, readable, root):
    """Recursive read-only: a tmpfs below must not stay writable."""
    (data / "sub").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", data / "sub"]).returncode != 0:
        must_work("can't mount here")
    try:
        done = cay.run("-v", f"{data}:/data", "-c", "open('/data/sub/x', 'w')", config=readable)
        assert done.rc != 0
        assert os.listdir(data / "sub") == []
    finally:
        subprocess.run(["umount", data / "sub"], check=True)


# Forbidden, whatever a list allows

@pytest.fixture
def everything(config):
    return config("[mounts]\nread = /\nwrite = /\n")


FORBIDDEN = ["/etc", "/etc/shadow", "/etc/passwd", "/root", "/proc", "/proc/1", "/sys", "/sys/fs/cgroup",
             "/dev", "/dev/shm", "/run", "/", "/etc/", "//root", "/usr/../root", "/root/.", "/var/run"]


@pytest.mark.parametrize("path", FORBIDDEN)
def test_forbidden(cay, everything, path):
    if not os.path.exists(path):
        assert cay.refused("-v", f"{path}:/data", "--", "true", config=everything)["code"] == "not_found"
        return
    for mode in ("", ":rw"):
        assert "forbidden" in denied(cay, "-v", f"{path}:/data{mode}", config=everything)
    assert "forbidden" in denied(cay, "--workspace", path, config=everything)


def test_control_something_else_is_allowed(cay, everything, data, root):
    cay.run("-v", f"{data}:/data", "--", "true", config=everything).ok()
    cay.run("-v", "/usr/share:/data", "--", "true", config=everything).ok()


def test_forbidden_in_the_current_directory(cay, root):
    assert "forbidden" in denied(cay, "--workspace", ".", cwd="/etc")
    assert "forbidden" in denied(cay, "--workspace", ".", cwd="/")


@pytest.mark.parametrize("linked", [False, True], ids=["plain", "home is a symlink"])
@pytest.mark.parametrize("name", [".ssh", ".aws", ".gnupg", ".config"])
def test_forbidden_in_every_home(cay, everything, place, root, name, linked):
    """"~" means every home in passwd, by whatever path it is reached."""
    home, listed = place / "homes" / "alice", place / "homes" / "alice"
    (home / name / "below").mkdir(parents=True)
    if linked:
        (place / "link").symlink_to("homes")
        listed = place / "link" / "alice"
    passwd = place / "passwd"
    passwd.write_text(pathlib.Path("/etc/passwd").read_text()
                      + f"alice:x:7777:7777::{listed}:/bin/sh\n")
    # A passwd of our own, in a mount namespace that nobody else sees.
    cay.prefix = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', str(passwd)]
    for path in (home / name, home / name / "below", home, listed / name):
        assert "forbidden" in denied(cay, "-v", f"{path}:/data", config=everything), path
    (home / "work").mkdir()
    cay.run("-v", f"{home}/work:/data", "--", "true", config=everything).ok()


def test_forbidden_through_a_symlink(cay, everything, place, root):
    (place / "link").symlink_to("/root")
    (place / "chain").symlink_to("link")
    (place / "sub").symlink_to("/")
    for path in ("link", "chain", "sub/root", "sub/etc"):
        assert "forbidden" in denied(cay, "-v", f"{place}/{path}:/data", config=everything)
        assert "forbidden" in denied(cay, "--workspace", path, config=everything)


@pytest.mark.parametrize("path", ["/proc/self/root", "/proc/self/root/root", "/proc/self/cwd",
                                  "/proc/1/root/root", "/dev/fd/{fd}", "/proc/self/fd/{fd}"])
def test_forbidden_through_a_magic_link(cay, everything, path, root):
    fd = os.open("/root", os.O_PATH)
    try:
        error = cay.refused("-v", f"{path.format(fd=fd)}:/data", "--", "true", config=everything, pass_fds=[fd])
        # PID 1's root is out of reach where it may not be traced, for root too.
        assert error["code"] == "policy_denied" or "Permission denied" in error["message"]
    finally:
        os.close(fd)


@pytest.mark.parametrize("source, below", [("/root", ""), ("/", "root"), ("/", ""), ("/etc", "")])
def test_forbidden_through_a_bind_mount(cay, everything, place, root, source, below):
    point = place / "bound"
    point.mkdir()
    if subprocess.run(["mount", "--bind", source, point]).returncode != 0:
        must_work("can't mount here")
    try:
        message = denied(cay, "-v", f"{point}/{below}:/data", config=everything)
        assert "forbidden" in message
        # The directory above brings it along.
        assert "forbidden" in denied(cay, "-v", f"{place}:/data", config=everything)
    finally:
        subprocess.run(["umount", point], check=True)


def test_operator_can_forbid_more(cay, data, config):
    conf = config(f"[mounts]\nread = /\nforbid = {data}/private\n")
    (data / "private").mkdir()
    assert "forbidden" in denied(cay, "-v", f"{data}/private:/data", config=conf)
    assert f"it holds {data}/private" in denied(cay, "-v", f"{data}:/data", config=conf)


def test_refused_mount_runs_nothing(cay, place, data):
    done = cay.run("-v", f"{data}:/data", "--", "echo", "ran")
    assert done.rc == OURS and done.out == b"" and len(done.said) == 1


# Targets

@pytest.mark.parametrize("target", ["/", "/proc", "/proc/sys", "/dev", "/dev/shm", "/etc", "/usr/lib",
                                    "/bin", "/lib64", "/tmp", "/workspace", "/workspace/sub", "data",
                                    "../data", "/a/../etc", "/a/./b", "//a", "/a//b", "", "/sbin",
                                    "/lib32", "/libx32", "/sys", "/sys/fs/cgroup"])
def test_bad_target(cay, data, readable, target):
    error = cay.refused("-v", f"{data}:{target}", "--", "true", config=readable)
    assert error["code"] == "invalid_request"


@pytest.mark.parametrize("text", ["", ":", "/x", ":/x", "/x:", "/x:ro", "/x:/y:xx"])
def test_bad_volume(cay, text):
    assert cay.refused("-v", text, "--", "true")["code"] == "invalid_request"


def test_the_same_target_twice(cay, data, readable):
    error = cay.refused("-v", f"{data}:/data", "-v", f"{data}:/data", "--", "true", config=readable)
    assert error["code"] == "invalid_request"


def test_source_with_a_colon_and_spaces(cay, scratch, config, root):
    odd = scratch / "od:d né"
    odd.mkdir()
    try:
        conf = config(f"[mounts]\nread = {odd}\n")
        cay.run("-v", f"{odd}:/data", "--", "test", "-d", "/data", config=conf).ok()
    finally:
        odd.rmdir()


def test_too_many_volumes(cay, data, readable):
    many = [word for n in range(33) for word in ("-v", f"{data}:/d{n}")]
    assert cay.refused(*many, "--", "true", config=readable)["code"] == "invalid_request"
