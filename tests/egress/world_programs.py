"""What package managers, git and a database's clients find in the world: indexes, repositories, servers."""

import base64
import hashlib
import io
import json
import os
import pwd
import shutil
import subprocess
import tarfile
import zipfile

from support import must_work, wait_until

# The one ordinary user with a shell that Debian's packages bring; sshd can let somebody in only as whom it runs.
USER = "postgres"


def digest(data, name="sha256"):
    return hashlib.new(name, data)


def wheel():
    """A package for pip: a name and its bytes."""
    files = {
        "tiny.py": b"answer = 42\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(digest(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for name, data in files.items())
    files["tiny-1.0.dist-info/RECORD"] = (record + "tiny-1.0.dist-info/RECORD,,\n").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in files.items():
            z.writestr(name, data)
    return "tiny-1.0-py3-none-any.whl", out.getvalue()


def tarball():
    """A package for npm."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps({"name": "tiny", "version": "1.0.0", "main": "index.js"})),
                           ("index.js", "module.exports = 42;\n")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def indexes():
    """{path: bytes} of an index for pip and of a registry for npm; HOST stands for the host that is asked."""
    name, package = wheel()
    tar = tarball()
    version = {"name": "tiny", "version": "1.0.0", "dist": {
        "tarball": "https://HOST/tiny/-/tiny-1.0.0.tgz",
        "shasum": digest(tar, "sha1").hexdigest(),
        "integrity": "sha512-" + base64.b64encode(digest(tar, "sha512").digest()).decode()}}
    return {
        "/simple/tiny/":
            f'<!doctype html><a href="/files/{name}#sha256={digest(package).hexdigest()}">{name}</a>\n'.encode(),
        f"/files/{name}": package,
        "/tiny": json.dumps(
            {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode(),
        "/tiny/-/tiny-1.0.0.tgz": tar,
    }


def repository(place):
    """A bare repository with one commit, as files that a plain HTTP server can give out."""
    work, bare = place / "work", place / "project.git"
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1",
           **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}

    def git(*args):
        subprocess.run(["git", *map(str, args)], env=env, check=True, capture_output=True)
    git("init", "-q", "-b", "main", work)
    (work / "readme").write_text("cloned\n")
    git("-C", work, "add", "readme")
    git("-C", work, "commit", "-q", "-m", "first")
    git("clone", "-q", "--bare", work, bare)
    git("-C", bare, "update-server-info")
    return bare


def of_directory(prefix, directory):
    return {f"{prefix}/{path.relative_to(directory)}": path.read_bytes()
            for path in directory.rglob("*") if path.is_file()}


class Programs:
    """A repository, sshd and PostgreSQL, in the world."""

    def __init__(self, world, place):
        self.world = world
        user = pwd.getpwnam(USER)
        self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self.own = place / "own"
        self.own.mkdir()
        bare = repository(self.own)
        world.files |= of_directory("/project.git", bare)
        subprocess.run(["chown", "-R", f"{USER}:", self.own], check=True)
        self._start_sshd(self.own)
        self._start_postgres()
        for port in (22, 5432):
            wait_until(lambda port=port: world.connects("127.0.0.1", port, "far"), 20, f"port {port} of the world")

    def _user_runs(self, *command):
        done = subprocess.run([*self.as_user, *map(str, command)], cwd=self.own, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.own)})
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    def _start_sshd(self, own):
        sshd = shutil.which("sshd", path="/usr/sbin")
        if not sshd:
            must_work("sshd is not there (tools/setup test)")
        for name in ("host", "client"):
            self._user_runs("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", own / name)
        (own / "sshd_config").write_text(
            f"Port 22\nHostKey {own}/host\nAuthorizedKeysFile {own}/client.pub\nStrictModes no\nUsePAM no\n"
            f"PidFile none\nPasswordAuthentication no\nUseDNS no\nLogLevel ERROR\n")
        self.client_key = (own / "client").read_text()
        self.host_key = (own / "host.pub").read_text()
        self.world.start(*self.as_user, sshd, "-D", "-e", "-f", own / "sshd_config", cwd=own)

    def _start_postgres(self):
        found = sorted(os.scandir("/usr/lib/postgresql"), key=lambda e: float(e.name))
        if not found:
            must_work("PostgreSQL is not there (tools/setup test)")
        programs, data = f"{found[-1].path}/bin", self.own / "db"
        self._user_runs(f"{programs}/initdb", "-D", data, "-A", "trust", "-U", USER, "--no-sync", "--no-instructions",
                        "-E", "UTF8", "--locale=C")
        with open(data / "pg_hba.conf", "a") as f:
            f.write("host all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n")
        # The little memory that it needs; nothing of it must outlive the test.
        self.world.start(*self.as_user, f"{programs}/postgres", "-D", data, "-c", "listen_addresses=*", "-c",
                         "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=1MB", "-c",
                         "max_connections=10", "-c", "dynamic_shared_memory_type=mmap", "-c", "log_connections=on",
                         cwd=self.own)
