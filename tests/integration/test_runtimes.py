"""Languages and their versions: what is here, which one is used, and what is said if it is not."""

import pathlib
import re
import shutil
import subprocess

import pytest

from nodes import node
from support import OURS, must_work

LANGUAGES = ["python", "javascript", "typescript", "ruby", "php", "perl", "lua", "r", "bash", "sh",
             "zsh", "go", "rust", "c", "c++", "java"]

# How a program says which version it is, and where that stands in what it says.
SAYS = {
    "python": (["-V"], r"Python (\S+)"),
    "javascript": (["--version"], r"v(\S+)"),
    "typescript": (["--version"], r"v(\S+)"),
    "ruby": (["-e", "puts RUBY_VERSION"], r"(\S+)"),
    "php": (["-n", "-v"], r"PHP ([\d.]+)"),
    "perl": (["-e", "print $^V"], r"v(\S+)"),
    "lua": (["-v"], r"Lua (\S+)"),
    "r": (["--version"], r"version (\S+)"),
    "bash": (["--version"], r"version ([\d.]+)"),
    "zsh": (["--version"], r"zsh (\S+)"),
    "go": (["version"], r"go version go(\S+)"),
    "rust": (["--version"], r"rustc ([\d.]+)"),
    "c": (["-dumpfullversion"], r"(\S+)"),
    "c++": (["-dumpfullversion"], r"(\S+)"),
    "java": (["-version"], r'version "([^"]+)"'),
}


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


def runtimes(cay, *args, **more):
    return cay("runtimes", "--json", *args, **more).ok().json["runtimes"]


def default(cay, *args, **more):
    return [r for r in runtimes(cay, *args, **more) if r["default"]][0]


def test_list(cay):
    lines = cay("runtimes").ok().text.splitlines()
    assert lines[0].split() == ["LANGUAGE", "VERSION", "DEFAULT", "PROGRAM"]
    assert list(dict.fromkeys(line.split()[0] for line in lines[1:])) == LANGUAGES
    assert any(line.startswith("python ") and "/usr/bin/python3" in line for line in lines)


def test_list_fits_a_terminal(cay):
    lines = cay("runtimes").ok().text.splitlines()
    assert max(map(len, lines)) <= 80 and not [line for line in lines if line != line.rstrip()]
    column = lines[0].index("PROGRAM")
    assert all(line[column - 1] == " " and line[column] != " " for line in lines)


def test_list_as_json(cay):
    answer = cay("runtimes", "--json").ok().json
    python = [r for r in answer["runtimes"] if r["language"] == "python"]
    assert sum(r["default"] for r in python) == 1
    assert set(python[0]) == {"language", "version", "program", "tool", "lacks", "root", "source", "image",
                              "default", "reason"}
    assert {r["language"] for r in answer["runtimes"] + answer["missing"]} == set(LANGUAGES)
    assert all(set(r) == {"language", "package", "image"} for r in answer["missing"])


@pytest.mark.parametrize("language", SAYS)
def test_versions_are_what_the_programs_say(cay, language):
    found = runtimes(cay, language)
    if not found:
        must_work(f"no {language} here")
    options, pattern = SAYS[language]
    for runtime in found:
        done = subprocess.run([runtime["program"], *options], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"})
        said = re.search(pattern, done.stdout + done.stderr)
        assert said and runtime["version"] == said[1], runtime


@pytest.mark.parametrize("language, tool", [("java", "javac"), ("typescript", "esbuild")])
def test_tool(cay, language, tool):
    found = runtimes(cay, language)
    if not found or found[0]["lacks"]:
        must_work(f"no {language} with {tool} here")
    assert pathlib.Path(found[0]["tool"]).name == tool and pathlib.Path(found[0]["tool"]).exists()


def test_java_without_a_compiler(cay, config, place):
    """A JRE is not taken, and the javac of another Java isn't either."""
    (place / "jre" / "bin").mkdir(parents=True)
    (place / "jre" / "release").write_text('JAVA_VERSION="99.0.1"\n')
    (place / "jre" / "bin" / "java").write_text("")
    (place / "jre" / "bin" / "java").chmod(0o755)
    conf = config(f"[language java]\npath = {place}/jre\n")
    listed = runtimes(cay, "java", config=conf)
    assert listed[0]["version"] == "99.0.1" and listed[0]["lacks"] == "javac"
    assert not listed[0]["default"] and listed[0]["tool"] is None
    assert "no javac; install the Debian package default-jdk-headless" in cay("runtimes", config=conf).text
    error = cay.refused("-l", "java@99", "-c", "1", config=conf)
    assert error["code"] == "runtime_not_found" and "javac" in error["message"]
    assert "default-jdk-headless" in error["hint"]


def without(cay, *programs):
    """cay, on a machine that lacks these programs."""
    hide = "".join(f"mount --bind /dev/null {p} && " for p in programs)
    cay.prefix = ["unshare", "--mount", "sh", "-c", f'{hide}exec "$@"', "sh"]
    return cay


def test_language_that_is_not_here(cay, root):
    found = [r["program"] for r in runtimes(cay, "zsh")] or must_work("no zsh to take away")
    cay = without(cay, *found)
    answer = cay("runtimes", "--json", "zsh").ok().json
    assert answer == {"runtimes": [], "missing": [{"language": "zsh", "package": "zsh", "image": "zshusers/zsh:5.9"}]}
    line = cay("runtimes", "zsh").ok().text.splitlines()[1]
    assert line.split(None, 3) == ["zsh", "-", "missing",
                                   "cay image pull zshusers/zsh:5.9, or install the Debian package zsh"]
    error = cay.refused("-l", "zsh", "-c", "1")
    assert error["code"] == "runtime_not_found" and error["message"] == "no zsh found"
    assert "install the Debian package zsh" in error["hint"]


def test_typescript_without_esbuild_or_node(cay, root):
    tools = {r["tool"] for r in runtimes(cay, "ts")} - {None} or must_work("no esbuild to take away")
    programs = [r["program"] for r in runtimes(cay, "ts")]
    error = without(cay, *tools).refused("-l", "ts@20", "-c", "1")
    assert error["code"] == "runtime_not_found" and "no esbuild found" in error["message"]
    assert "install the Debian packages nodejs esbuild" in error["hint"]
    error = without(cay, *programs).refused("-l", "ts", "-c", "1")
    assert error["message"] == "no node found, which typescript runs on"


def test_source_has_file_and_line(cay, config, place):
    (place / "bin").mkdir()
    (place / "bin" / "lua5.3").write_text("")
    (place / "bin" / "lua5.3").chmod(0o755)
    conf = config(f"# x\n[language lua]\nprefer = 5.3\npath = {place}\n")
    row = default(cay, "lua", config=conf)
    assert row["source"] == f"{conf}:4" and row["version"] == "5.3" and row["reason"] == "preferred"
    assert f"{place}/bin/lua5.3 ({conf}:4)" in cay("runtimes", "lua", config=conf).text


@pytest.fixture
def nodes(config):
    """Settings with Node 18, 22 and 24, and their versions by major one."""
    found = {major: node(major) for major in (18, 22, 24)}
    lines = "".join(f"path = {prefix}\n" for _, prefix in found.values())
    return config(f"[language javascript]\n{lines}"), {m: version for m, (version, _) in found.items()}


def test_nodes_side_by_side(cay, nodes):
    conf, versions = nodes
    listed = {r["version"]: r for r in runtimes(cay, "node", config=conf)}
    for major, version in versions.items():
        program = listed[version]["program"]
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
        assert said == f"v{version}"
        for language in ("node", "js", "javascript", "typescript"):
            plan = cay.run("--dry-run", "--json", "-l", f"{language}@{major}", "-c", "1",
                           config=conf).ok().json["dry_run"]
            assert plan["version"] == version
            assert plan["language"] == ("typescript" if language == "typescript" else "javascript")


def test_nodes_run(cay, nodes, place):
    conf, versions = nodes
    (place / "x.js").write_text("console.log(process.version)")
    for major, version in versions.items():
        said = cay.run("--workspace", ".", "-l", f"node@{major}", "x.js", config=conf).ok().text.strip()
        assert said == f"v{version}"


def test_preferred_node_is_20(cay, nodes):
    conf, versions = nodes
    row = default(cay, "javascript", config=conf)
    if not any(r["version"].startswith("20.") for r in runtimes(cay, "javascript")):
        must_work("this machine's own Node is not a 20")
    assert row["version"].startswith("20.") and row["reason"] == "preferred" and row["source"] == "host"
    conf = config_with(conf, "prefer = 22\n")
    assert default(cay, "javascript", config=conf)["version"] == versions[22]
    assert default(cay, "typescript", config=conf)["version"] == versions[22]


def test_typescript_without_esbuild(cay, nodes):
    """Node has done without since 22.7; what is older needs it."""
    conf, versions = nodes
    lacking = {r["version"]: r["lacks"] for r in runtimes(cay, "ts", config=conf)}
    assert lacking[versions[22]] is None and lacking[versions[24]] is None
    if not any(r["tool"] for r in runtimes(cay, "ts", config=conf)):
        assert lacking[versions[18]] == "esbuild"


def config_with(conf, line):
    conf.write_text(conf.read_text() + line)
    return conf


def test_nothing_is_read_twice(cay, nodes):
    """A lookup is on the way of every run: no program is opened once its version is known."""
    if not shutil.which("strace"):
        must_work("strace is not there")
    conf, _ = nodes
    # A store of the machine's own would be looked through, too.
    conf.write_text(f"[images]\nstore = {conf}.images\n{conf.read_text()}")
    runtimes(cay, "javascript", config=conf)
    cay.prefix = ["strace", "-f", "-e", "trace=open,openat,getdents64,execve", "-o", str(conf) + ".trace"]
    # A sanitized cay can't look for leaks while it is traced.
    cay("runtimes", "javascript", config=conf, env={"ASAN_OPTIONS": "detect_leaks=0"}).ok()
    trace = pathlib.Path(str(conf) + ".trace").read_text()
    assert "/runtimes" in trace or "runtimes\"" in trace
    assert not re.findall(r"bin/node|getdents|libnode", trace)


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
