"""Languages and their versions: what is here, which one is used, and what is said if it is not."""

import pathlib
import re
import shutil
import subprocess

import pytest

from support import OURS, must_work


def pythons():
    """{"3.10.13": prefix, …} as pyenv has them."""
    pyenv = shutil.which("pyenv")
    root = pyenv and subprocess.run([pyenv, "root"], capture_output=True, text=True).stdout.strip()
    if not root:
        return {}
    return {p.name: p for p in (pathlib.Path(root) / "versions").iterdir()
            if re.fullmatch(r"3\.\d+\.\d+", p.name) and (p / "bin" / "python3").exists()}


def one(minor):
    for version, prefix in pythons().items():
        if version.startswith(f"{minor}."):
            return version, prefix
    must_work(f"no python {minor} of pyenv's")


@pytest.fixture
def both(config, root):
    versions = [one("3.10"), one("3.12")]
    lines = "".join(f"path = {prefix}\n" for _, prefix in versions)
    return config(f"[language python]\n{lines}"), *(v for v, _ in versions)


def version_of(cay, *options, **more):
    return cay.run(*options, "-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))",
                   **more).ok().text.strip()


def test_list(cay):
    lines = cay("runtimes").ok().text.splitlines()
    assert lines[0].split() == ["LANGUAGE", "VERSION", "DEFAULT", "SOURCE", "PROGRAM"]
    assert any(line.startswith("python ") and "/usr/bin/python3" in line for line in lines)
    assert any(line.startswith("sh ") for line in lines)


def test_list_as_json(cay):
    found = cay("runtimes", "--json").ok().json["runtimes"]
    python = [r for r in found if r["language"] == "python"]
    assert sum(r["default"] for r in python) == 1
    assert set(python[0]) == {"language", "version", "program", "root", "source", "default", "reason"}


def test_list_of_one_language(cay):
    found = cay("runtimes", "--json", "sh").ok().json["runtimes"]
    assert {r["language"] for r in found} == {"sh"}


def test_list_of_an_unknown_language(cay):
    done = cay("runtimes", "klingon")
    assert done.rc == OURS and len(done.said) == 1 and "python" in done.said[0]


def test_version_in_the_result(cay):
    listed = [r for r in cay("runtimes", "--json", "python").json["runtimes"] if r["default"]][0]
    result = cay.run("--json", "-c", "import sys; print(sys.version.split()[0])").ok().json
    assert result["version"] == listed["version"] == result["stdout"].strip()


def test_side_by_side(cay, both):
    conf, older, newer = both
    assert version_of(cay, "-l", "python@3.10", config=conf) == older
    assert version_of(cay, "-l", "python@3.12", config=conf) == newer
    assert version_of(cay, "-l", f"python@{older}", config=conf) == older
    assert version_of(cay, "-l", "py@3.10", config=conf) == older
    result = cay.run("--json", "-l", "python@3.10", "-c", "1", config=conf).ok().json
    assert result["version"] == older


def test_hosts_own_is_still_there(cay, both):
    conf, *_ = both
    host = [r["version"] for r in cay("runtimes", "--json", "python").json["runtimes"]][0]
    assert version_of(cay, "-l", f"python@{host}", config=conf) == host


def test_standard_library_of_another_version_works(cay, both):
    conf, older, _ = both
    code = ("import json, ssl, sqlite3, ctypes, zlib, hashlib, sys; print(sys.prefix);"
            "import os; print(os.access(sys.prefix, os.W_OK))")
    out = cay.run("-l", "python@3.10", "-c", code, config=conf).ok().text.split()
    assert out[0].endswith(older) and out[1] == "False"


def test_runtimes_directory_brings_nothing_else_along(cay, both):
    """It lies below /root, perhaps: only the prefix itself may be seen."""
    conf, older, _ = both
    prefix = pythons()[older]
    parent = prefix.parent
    assert cay.inside(f"os.listdir('{parent}')", "-l", "python@3.10", config=conf) == [older]
    top = f"/{parent.parts[1]}"
    seen = cay.inside(f"[n for _, ds, fs in os.walk('{top}') for n in fs if n.startswith('.bash')]",
                      "-l", "python@3.10", config=conf)
    assert seen == []


def test_scripts_work_with_a_version(cay, place, both):
    conf, older, _ = both
    (place / "x.py").write_text("import sys; print(sys.version.split()[0])")
    assert cay.run("-l", "python@3.10", "--workspace", ".", "x.py", config=conf).ok().text.strip() == older


def test_preferred_is_3_12(cay, both):
    conf, _, newer = both
    assert version_of(cay, config=conf) == newer
    row = [r for r in cay("runtimes", "--json", "python", config=conf).json["runtimes"] if r["default"]][0]
    assert row["version"] == newer and row["reason"] == "preferred" and str(conf) in row["source"]


def test_prefer_in_settings(cay, both, config):
    conf, older, _ = both
    conf = config(conf.read_text() + "prefer = 3.10\n")
    assert version_of(cay, config=conf) == older


def test_preferred_that_is_not_here_means_the_newest(cay, config):
    conf = config("[language python]\nprefer = 3.99\n")
    row = [r for r in cay("runtimes", "--json", "python", config=conf).json["runtimes"] if r["default"]][0]
    assert row["reason"] == "newest"
    assert version_of(cay, config=conf) == row["version"]


def test_version_that_is_not_here(cay, both):
    conf, older, newer = both
    error = cay.refused("-l", "python@3.3", "-c", "1", config=conf)
    assert error["code"] == "runtime_not_found"
    assert "3.3" in error["message"] and older in error["message"] and newer in error["message"]
    assert "path" in error["hint"]


def test_version_is_not_a_prefix_of_digits(cay, both):
    """3.1 is not 3.10 and not 3.12."""
    conf, *_ = both
    assert cay.refused("-l", "python@3.1", "-c", "1", config=conf)["code"] == "runtime_not_found"


@pytest.mark.parametrize("version", ["", "x", "3.x", "../3", "3.12;", ".", "3..1"])
def test_bad_version(cay, version):
    assert cay.refused("-l", f"python@{version}", "-c", "1")["code"] == "invalid_request"


def test_version_of_a_language_without_any(cay):
    error = cay.refused("-l", "sh@5", "-c", "true")
    assert error["code"] == "runtime_not_found"


def test_path_that_is_not_there(cay, config):
    conf = config("[language python]\npath = /nowhere\n")
    error = cay.refused("-c", "1", config=conf)
    assert "/nowhere" in error["message"] and str(conf) in error["message"]


def test_path_without_a_python(cay, config, place):
    conf = config(f"[language python]\npath = {place}\n")
    assert str(place) in cay.refused("-c", "1", config=conf)["message"]


def test_no_probe_is_executed(cay, config, place, root):
    """A program that is only looked at must not be run on the host."""
    (place / "bin").mkdir()
    fake = place / "bin" / "python3.15"
    fake.write_text(f"#!/bin/sh\ntouch {place}/executed\necho 3.15.0\n")
    fake.chmod(0o755)
    cay("runtimes", config=config(f"[language python]\npath = {place}\n"))
    cay.run("-l", "python@3.15", "-c", "1", config=config(f"[language python]\npath = {place}\n"))
    assert not (place / "executed").exists()
