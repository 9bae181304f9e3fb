"""Completion: the candidates, and that real shells offer them."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time

import pytest

from support import CAY, ROOT, must_work

BASH = ROOT / "packaging" / "completion" / "cay.bash"
ZSH = ROOT / "packaging" / "completion" / "_cay"


def candidates(cay, *words):
    return [line.split("\t")[0] for line in cay("__complete", *words).ok().text.splitlines()]


def python_version(cay):
    found = cay("runtimes", "--json", "python").ok().json["runtimes"]
    return [r["version"] for r in found if r["default"]][0]


# The candidates

def test_verbs(cay):
    listed = re.findall(r"^  (\w+) {2,}", cay("help").ok().text, re.M)
    assert candidates(cay, "") == candidates(cay) == listed
    assert candidates(cay, "ru") == ["run", "runtimes"]
    assert candidates(cay, "nonsense") == candidates(cay, "nonsense", "") == []


def test_options_of_every_verb(cay):
    for verb in candidates(cay, ""):
        text = cay(verb, "--help").ok().text.split("\nexamples:")[0]
        in_help = set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.M))
        assert set(candidates(cay, verb, "-")) == in_help | {"--help"}, verb


def test_languages_and_versions(cay):
    version = python_version(cay)
    assert candidates(cay, "run", "-l", "py") == ["python", f"python@{version}"]
    assert candidates(cay, "run", "--language", "python@") == [f"python@{version}"]
    assert candidates(cay, "run", "--language=py") == ["--language=python", f"--language=python@{version}"]
    assert candidates(cay, "run", "-l", "klingon") == []
    assert "sh" in candidates(cay, "run", "-l", "")
    assert "python" in candidates(cay, "runtimes", "p")


def test_other_names_of_languages(cay):
    found = cay("runtimes", "--json", "node").ok().json["runtimes"]
    if not found:
        must_work("there is no node")
    assert candidates(cay, "run", "-l", "no")[:2] == ["node", f"node@{found[0]['version']}"]
    assert candidates(cay, "run", "-l", "node@") == [f"node@{r['version']}" for r in found]
    assert "py" not in candidates(cay, "run", "-l", "py")


def test_choices(cay):
    assert candidates(cay, "config", "s") == ["show", "set"]
    assert candidates(cay, "run", "--engine", "n") == ["native"]
    assert candidates(cay, "help", "doc") == ["doctor"]


@pytest.mark.parametrize("words", [[""], ["x"], ["--put", ""], ["--put=x"], ["--stdin", "x"], ["--workspace", ""],
                                   ["-v", "x"], ["--json", ""], ["x.py", ""], ["x.py", "--json"],
                                   ["-l", "python", "x"], ["--", "ls", ""]], ids=" ".join)
def test_files(cay, words):
    assert candidates(cay, "run", *words) == [":files"]


def test_directories(cay):
    assert candidates(cay, "exec", "--pictures", "") == [":files"]


@pytest.mark.parametrize("words", [["-v", "x:"], ["--put", "x:y"], ["--memory", ""], ["-c", ""], ["--get", "x"],
                                   ["--workdir", "/"]], ids=" ".join)
def test_nothing_to_offer(cay, words):
    assert candidates(cay, "run", *words) == []


def test_commands(cay):
    assert candidates(cay, "run", "--", "l") == [":commands"]


def test_values_are_no_options(cay):
    assert candidates(cay, "run", "-c", "--js") == []
    assert candidates(cay, "run", "-c", "x", "--js") == ["--json"]


def test_broken_settings_are_survived(cay, config):
    done = cay("__complete", "run", "-l", "", config=config("[nonsense\n")).ok()
    assert done.text == "" and done.err == b""


# bash

def bash(cay, line, words):
    """COMPREPLY for the cursor at the end of line, which bash has parted into words."""
    # To readline an @ is part of the piece that it replaces.
    piece = words[-1] if words[-2] != "@" else "@" + words[-1]
    script = (f"source {shlex.quote(str(BASH))}\n"
              f"COMP_WORDS=({' '.join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}\n"
              f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}\n"
              f"_cay {shlex.quote(CAY)} {shlex.quote(piece)}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"")
    done = subprocess.run(["bash", "-c", script], env=cay.env, cwd=cay.directory, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


def test_bash(cay, place):
    version = python_version(cay)
    (place / "script.py").touch()
    assert bash(cay, "cay do", ["cay", "do"]) == ["doctor"]
    assert bash(cay, "cay run --la", ["cay", "run", "--la"]) == ["--language"]
    assert bash(cay, "cay run -l py", ["cay", "run", "-l", "py"]) == ["python", f"python@{version}"]
    assert bash(cay, "cay run scr", ["cay", "run", "scr"]) == ["script.py"]
    assert bash(cay, "cay run --put ", ["cay", "run", "--put", ""]) == ["script.py"]
    assert bash(cay, "cay run -c 'a b' --js", ["cay", "run", "-c", "'a b'", "--js"]) == ["--json"]


def test_bash_parts_words(cay, place):
    """As readline does at = : and @: only what is behind = and :, or from @ on, is replaced."""
    version = python_version(cay)
    (place / "script.py").touch()
    assert bash(cay, "cay run -l python@", ["cay", "run", "-l", "python", "@"]) == [f"@{version}"]
    assert bash(cay, f"cay run -l python@{version[0]}", ["cay", "run", "-l", "python", "@", version[0]]) == [
        f"@{version}"]
    assert bash(cay, "cay run --engine=n", ["cay", "run", "--engine", "=", "n"]) == ["native"]
    assert bash(cay, "cay run --put=", ["cay", "run", "--put", "="]) == ["script.py"]
    assert bash(cay, "cay  run   --put=scr", ["cay", "run", "--put", "=", "scr"]) == ["script.py"]
    assert bash(cay, "cay run --put x:", ["cay", "run", "--put", "x", ":"]) == []


# Shells on a terminal

class Shell:
    """An interactive shell in which cay is the binary under test."""

    def __init__(self, cay, argv, env, setup):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(cay.directory)
            os.execvpe(argv[0], argv, dict(cay.env, TERM="dumb", PS1="> ", PROMPT="> ", **env))
        self.type(setup + "\necho rea''dy\n", until="ready")

    def type(self, text, until, seconds=10):
        """Types a line, and waits for what it prints and for the next prompt."""
        os.write(self.master, text.encode())
        seen, end = "", time.monotonic() + seconds
        while "> " not in seen.partition(until)[2]:
            assert time.monotonic() < end, f"no {until!r} in {seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                seen += os.read(self.master, 65536).decode(errors="replace")
        return seen

    def close(self):
        os.write(self.master, b"\x03\nexit\n")
        end = time.monotonic() + 5
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            assert time.monotonic() < end, "the shell does not end"
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    pass
        os.close(self.master)


@pytest.fixture(params=["bash", "zsh"])
def shell(cay, place, request):
    name = request.param
    if not shutil.which(name):
        must_work(f"{name} is not there")
    (place / "bin").mkdir()
    (place / "bin" / "cay").symlink_to(CAY)
    path = f"PATH={place}/bin:$PATH"
    if name == "bash":
        shell = Shell(cay, ["bash", "--norc", "--noprofile", "-i"], {},
                      f"{path}; bind 'set bell-style none'; source {BASH}")
    else:
        shell = Shell(cay, ["zsh", "-f", "-i"], {},
                      f"{path}; unsetopt zle_bracketed_paste prompt_sp; fpath=({ZSH.parent} $fpath); autoload -U compinit; "
                      f"compinit -u -D; zstyle ':completion:*' menu no; unsetopt beep list_beep")
    yield shell
    shell.close()


def test_shell_completes(cay, place, shell):
    (place / "my script.py").write_text("print('script ran')")
    shell.type("cay ver\t\n", until="cay 0.")
    shell.type("cay run --eng\tna\t -c 'print(6*7)'\n", until="\n42")
    shell.type("cay run my\t\n", until="script ran")
    shell.type("cay run --engine=nat\t -c 'print(7*7)'\n", until="\n49")


def test_shell_completes_versions(cay, shell):
    version = python_version(cay)
    shell.type("cay run -l pyth\t@\t -c 'import platform; print(platform.python_version() + \"!\")'\n",
               until=f"\n{version}!")
