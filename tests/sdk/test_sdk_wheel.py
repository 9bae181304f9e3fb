"""The Python package: built offline, installed offline, and used by every Python that it is for."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from support import CAY, ROOT, must_work

SDK = ROOT / "sdk" / "python"
HERE = pathlib.Path(__file__).resolve().parent
PIP = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1",
       "PIP_ROOT_USER_ACTION": "ignore"}


def run(*words, **more):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def interpreters():
    versions = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    found = {"Debian's": "/usr/bin/python3"}
    for minor in ("3.9", "3.11", "3.12", "3.13"):
        found[minor] = next((str(p / "bin" / "python") for p in sorted(versions.glob(f"{minor}.*"))), None)
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """As pip builds it."""
    place = tmp_path_factory.mktemp("wheel")
    run("/usr/bin/python3", "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, SDK, env={**PIP, "CAY_BINARY": CAY})
    made, = place.glob("*.whl")
    return made


def environment(place, python, *packages):
    """A fresh one, without the pip that it does not need."""
    run(python, "-m", "venv", "--without-pip", place)
    run(python, "-m", "pip", "--python", place / "bin" / "python", "install", "-q", *packages, env=PIP)
    return place / "bin"


def test_what_is_in_the_wheel(wheel):
    assert wheel.name.startswith("cay_sandbox-0.1.0-py3-none-manylinux_2_17_")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.getinfo("cay/bin/cay").external_attr >> 16 & 0o111
        assert archive.read("cay/bin/cay") == pathlib.Path(CAY).read_bytes()
    assert {"cay/__init__.py", "cay/py.typed", "cay/_sync/client.py", "cay/_async/client.py"} <= names
    assert not [n for n in names if "test" in n or "__pycache__" in n]


@pytest.mark.parametrize("name", interpreters())
def test_one_install_is_all(name, wheel, daemon, tmp_path):
    python = interpreters()[name] or must_work(f"no Python {name}")
    where = environment(tmp_path / "venv", python, wheel)
    empty = tmp_path / "cay.conf"
    empty.write_text("")
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert run(where / "python", HERE / "tour.py", f"unix:{daemon.socket}", env=clean, cwd=tmp_path) == "toured\n"
    assert run(where / "cay", "run", "--cold", "-c", "print(1)", env={**clean, "CAY_CONFIG": str(empty)}) == "1\n"


TYPED = """
import cay
async def main() -> None:
    result: cay.SandboxResult = await cay.arun("1", memory="64m", timeout=3, files={"a": b"b"})
    sandbox: cay.AsyncSandbox = await cay.AsyncSandbox.create(ttl=60)
    data: bytes = await sandbox.files.read("a")
    names: list[str] = [event.name async for event in sandbox.stream(command="ls")]
size: int = cay.Sandbox.create().files.write("a", "b").size
"""


def test_its_types(tmp_path):
    def check(*what):
        return subprocess.run(["/usr/bin/python3", "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache",
                               "--enable-incomplete-feature=Unpack", *what], capture_output=True, text=True,
                              env={**os.environ, "MYPYPATH": str(SDK)}, cwd=tmp_path)
    if "No module named" in check("--version").stderr:
        must_work("no mypy")
    (tmp_path / "right.py").write_text(TYPED)
    right = check(SDK / "cay", "right.py")
    assert right.returncode == 0, right.stdout
    (tmp_path / "wrong.py").write_text(TYPED + "cay.run(memroy='64m')\ncay.run(timeout=[])\nx: int = cay.run('').stdout\n")
    wrong = check("wrong.py")
    assert wrong.stdout.count("wrong.py:") == 3, wrong.stdout


def test_the_sdist_makes_a_package_of_the_library_alone(tmp_path):
    code = "import cay_build, sys; print(cay_build.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", code, tmp_path, env={**os.environ, "PYTHONPATH": str(SDK / "backend")}).strip()
    where = environment(tmp_path / "venv", "/usr/bin/python3", tmp_path / name)
    said = "import cay; r = cay.run('1', raise_errors=False); print(r.error.code)"
    environ = {"PATH": "/nowhere", "CAY_HOST": "", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    code = f"import os; os.geteuid = lambda: 1; {said}"
    assert run(where / "python", "-c", code, env=environ, cwd=tmp_path) == "engine_unavailable\n"
    assert not shutil.which("cay", path=str(where))


def test_a_program_that_needs_libraries_is_not_packed(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import cay_build; cay_build.build_wheel('.')"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(SDK / "backend"), "CAY_BINARY": "/bin/true"},
                          capture_output=True, text=True)
    assert done.returncode != 0 and "no static program" in done.stderr and not list(tmp_path.iterdir())
