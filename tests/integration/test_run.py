"""What is run: code, scripts, commands, with their arguments, input and surroundings."""

import hashlib
import subprocess

import pytest

from support import CANNOT_EXECUTE, MIB, NOT_FOUND, OURS


def test_code(cay):
    done = cay.run("-c", "print(42)").ok()
    assert (done.out, done.err) == (b"42\n", b"")


def test_code_glued_to_its_option(cay):
    assert cay.run("-cprint(42)").ok().text == "42\n"


def test_empty_code_does_nothing(cay):
    assert cay.run("-c", "").ok().out == b""


def test_code_gets_arguments(cay):
    code = "import sys; print(sys.argv)"
    assert cay.run("-c", code, "a b", "--memory", "-x", "").ok().text \
        == "['-c', 'a b', '--memory', '-x', '']\n"


CODES = {
    "quotes": """print('''it's "quoted" `so` $HOME \\\\ ''')""",
    "lines": "for i in range(3):\n\tif i:\n\t\tprint(i)\n",
    "unicode": "é = '日本 🏝'; print(é)",
    "leading dash": "-1; print('-')",
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES.keys())
def test_code_arrives_as_written(cay, code):
    bare = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, check=True)
    assert cay.run("-c", code).ok().out == bare.stdout


def test_long_code_goes_in_as_a_file(cay):
    code = "x = '" + "a" * 200_000 + "'\nprint(len(x))"
    assert cay.run("-", input=code).ok().text == "200000\n"


def test_long_code_keeps_its_arguments(cay):
    code = "#" * 200_000 + "\nimport sys; print(sys.argv[1:])"
    assert cay.run("-", "a", "b", input=code).ok().text == "['a', 'b']\n"


def test_code_from_stdin(cay):
    assert cay.run("-", "x", input="import sys\nprint(sys.argv[1:])").ok().text == "['x']\n"


def test_empty_code_from_stdin(cay):
    assert cay.run("-", input=b"").ok().out == b""


def test_code_from_stdin_leaves_no_input(cay):
    assert cay.run("-", input="import sys; print(repr(sys.stdin.read()))").ok().text == "''\n"


@pytest.mark.parametrize("language, program, code", [
    ("python", "/usr/bin/python3", b"print(1)\n'\0'\nprint(2)\n"),
    ("sh", "/bin/sh", b"echo before\necho '\0'\necho after\n")], ids=["python", "sh"])
def test_nul_in_code_is_the_interpreters_to_judge(cay, place, language, program, code):
    """An argument would be cut short at the NUL: it must go in as a file, and mean what it means there."""
    (place / "code").write_bytes(code)
    bare = subprocess.run([program, place / "code"], capture_output=True)
    done = cay.run("-l", language, "-", input=code)
    assert (done.rc, done.out) == (bare.returncode, bare.stdout)


def test_code_that_is_too_large_is_refused(cay):
    done = cay.run("--json", "-", input=b"#" * (17 * MIB))
    assert done.rc == OURS and done.error["code"] == "too_large"


def test_script_from_anywhere(cay, scratch):
    script = scratch / "home" / "some where.py"
    script.write_text("import sys; print(__file__, sys.argv[1:])")
    done = cay.run(script, "a", "-m", "--").ok()
    assert done.text == "/workspace/some where.py ['a', '-m', '--']\n"


def test_script_in_the_current_directory(cay, place):
    (place / "x.py").write_text("print('here')")
    assert cay.run("x.py").ok().text == "here\n"


def test_script_is_copied_not_shared(cay, place):
    (place / "x.py").write_text("open(__file__, 'w').write('gone')")
    cay.run("x.py").ok()
    assert (place / "x.py").read_text() != "gone"


def test_script_only_its_owner_may_read(cay, place):
    (place / "x.py").write_text("print('read')")
    (place / "x.py").chmod(0o600)
    assert cay.run("x.py").ok().text == "read\n"


def test_script_imports_a_put_neighbour(cay, place):
    (place / "main.py").write_text("import near; print(near.x)")
    (place / "near.py").write_text("x = 'beside'")
    done = cay.run("main.py")
    assert done.rc == 1 and "ModuleNotFoundError" in done.errors
    assert cay.run("--put", "near.py", "main.py").ok().text == "beside\n"


def test_workspace_script_runs_in_place(cay, place):
    (place / "sub").mkdir()
    (place / "sub" / "main.py").write_text("import near; print(near.x, __file__)")
    (place / "sub" / "near.py").write_text("x = 'beside'")
    assert cay.run("--workspace", ".", "sub/main.py").ok().text \
        == "beside /workspace/sub/main.py\n"


def test_script_outside_the_workspace_still_runs(cay, place, scratch):
    (scratch / "home" / "out.py").write_text("import os; print(sorted(os.listdir('.')))")
    (place / "a").touch()
    assert cay.run("--workspace", ".", scratch / "home" / "out.py").ok().text == "['a']\n"


def test_extension_decides(cay, place):
    (place / "x.sh").write_text('echo "$0 $1 ${#}"')
    assert cay.run("x.sh", "one").ok().text == "/workspace/x.sh one 1\n"


def test_language_option_beats_the_extension(cay, place):
    (place / "x.txt").write_text("echo sh $((1 + 1))")
    assert cay.run("-l", "sh", "x.txt").ok().text == "sh 2\n"


def test_no_extension_means_python(cay, place):
    (place / "dir.sh").mkdir()
    (place / "dir.sh" / "script").write_text("print('python')")
    assert cay.run("dir.sh/script").ok().text == "python\n"


def test_unknown_extension(cay, place):
    (place / "x.zig").write_text("")
    error = cay.refused("x.zig")
    assert error["code"] == "runtime_not_found" and "x.zig" in error["message"]
    assert "-l" in error["hint"]


def test_unknown_language(cay):
    error = cay.refused("-l", "klingon", "-c", "1")
    assert error["code"] == "runtime_not_found" and "klingon" in error["message"]


@pytest.mark.parametrize("typed, meant", [("pyhton", "python"), ("Python", "python"), ("pythn@3", "python")])
def test_did_you_mean_a_language(cay, typed, meant):
    assert f"did you mean {meant}?" in cay.refused("-l", typed, "-c", "1")["hint"]


def test_missing_script(cay):
    error = cay.refused("nowhere.py")
    assert error["code"] == "not_found"
    assert "nowhere.py" in error["message"] and "No such file" in error["message"]


def test_directory_as_script(cay, place):
    (place / "d.py").mkdir()
    assert "d.py" in cay.refused("d.py")["message"]


def test_nothing_to_run(cay):
    error = cay.refused()
    assert error["code"] == "invalid_request" and "nothing to run" in error["message"]
    assert cay.refused("--")["code"] == "invalid_request"


def test_sh(cay):
    assert cay.run("-l", "sh", "-c", 'echo "$0" "$1" $((6 * 7))', "arg").ok().text == "sh arg 42\n"


def test_command(cay):
    assert cay.run("--", "echo", "-c", "--json", "a b").ok().text == "-c --json a b\n"


def test_command_is_not_a_shell_line(cay):
    assert cay.run("--", "echo", "$HOME;", "`id`", "*").ok().text == "$HOME; `id` *\n"


@pytest.mark.parametrize("code", [0, 1, 3, 125, 255])
def test_exit_code(cay, code):
    assert cay.run("-c", f"raise SystemExit({code})").rc == code


def test_command_not_found(cay):
    done = cay.run("--", "no-such-command")
    assert done.rc == NOT_FOUND
    assert len(done.said) == 1 and "no-such-command" in done.said[0]
    assert cay.run("--", "/no/such/command").rc == NOT_FOUND
    assert cay.run("--json", "--", "no-such-command").error["code"] == "not_found"


def test_command_not_executable(cay, place):
    for path in ("/etc/passwd", "/usr"):
        done = cay.run("--", path)
        assert done.rc == CANNOT_EXECUTE, path
        assert len(done.said) == 1 and path in done.said[0] and "Permission denied" in done.said[0]


def test_put_program_is_executed(cay, place):
    (place / "tool").write_text("#!/bin/sh\necho tool $1\n")
    (place / "tool").chmod(0o755)
    assert cay.run("--put", "tool", "--", "./tool", "x").ok().text == "tool x\n"
    assert cay.run("--put", "tool", "--", "/workspace/tool", "x").ok().text == "tool x\n"
    (place / "tool").chmod(0o644)
    assert cay.run("--put", "tool", "--", "./tool").rc == CANNOT_EXECUTE


def test_program_that_is_no_program(cay, place):
    (place / "junk").write_bytes(b"\x7fELF junk")
    (place / "junk").chmod(0o755)
    done = cay.run("--put", "junk", "--", "./junk")
    assert done.rc == CANNOT_EXECUTE and "Exec format error" in done.errors


# Environment

def environment(cay, *options, **more):
    return cay.inside("dict(os.environ)", *options, **more)


def test_environment_is_small_and_not_the_callers(cay):
    env = environment(cay, env={"SECRET": "token", "LD_PRELOAD": "", "PYTHONSTARTUP": "/x"})
    env.pop("LC_CTYPE", None)  # Python's own doing
    assert set(env) == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG",
                        "GOMEMLIMIT"}
    assert env["HOME"] == "/workspace" and env["USER"] == "cay" and env["TMPDIR"] == "/tmp"


def test_env_value(cay):
    env = environment(cay, "-e", "A=1", "--env", "B=x=y z", "-e", "C=", "-eD=4", "--env=E=5")
    assert [env[k] for k in "ABCDE"] == ["1", "x=y z", "", "4", "5"]


def test_env_later_one_wins_and_overrides_ours(cay):
    env = environment(cay, "-e", "A=1", "-e", "A=2", "-e", "HOME=/tmp")
    assert env["A"] == "2" and env["HOME"] == "/tmp"


def test_env_by_name_passes_the_callers(cay):
    env = environment(cay, "-e", "MINE", "-e", "NOT_SET", env={"MINE": "né\n"})
    assert env["MINE"] == "né\n" and "NOT_SET" not in env


def test_env_file(cay, place):
    (place / "vars").write_text("# a comment\n\nA=1\n  B = 2\nMINE\nURL=http://x/#y\nLAST=z")
    done = cay.run("--json", "--env-file", "vars", "-c", "1")
    assert done.rc == OURS and "vars:4" in done.error["message"]  # "B " is no name
    (place / "vars").write_text("# a comment\n\nA=1\r\n  B=2\nMINE\nURL=http://x/#y\nLAST=z")
    env = environment(cay, "--env-file", "vars", env={"MINE": "m"})
    assert (env["A"], env["B"], env["MINE"], env["URL"], env["LAST"]) \
        == ("1", "2", "m", "http://x/#y", "z")


def test_env_file_missing(cay):
    error = cay.refused("--env-file", "nowhere", "-c", "1")
    assert "nowhere" in error["message"] and error["code"] == "not_found"


@pytest.mark.parametrize("bad", ["=x", "1A=x", "A-B=x", "", "A B=x"])
def test_env_bad_name(cay, bad):
    assert cay.refused("-e", bad, "-c", "1")["code"] == "invalid_request"


def test_environment_that_is_too_large(cay, place):
    for name in "AB":
        (place / name).write_text("".join(f"{name}{i}={'x' * 1000}\n" for i in range(600)))
    cay.run("--env-file", "A", "--", "true").ok()
    error = cay.refused("--env-file", "A", "--env-file", "B", "--", "true")
    assert error["code"] == "too_large" and "environment" in error["message"]


def test_env_file_that_is_too_large(cay, place):
    (place / "vars").write_text("A=1\n" * (300 << 10))
    assert cay.refused("--env-file", "vars", "-c", "1")["code"] == "too_large"


# Standard input

READ = "import sys; sys.stdout.write(sys.stdin.read().upper())"


def test_stdin_is_passed(cay):
    assert cay.run("-c", READ, input="abc\n").ok().text == "ABC\n"


def test_stdin_from_a_file(cay, place):
    (place / "in").write_text("from a file")
    assert cay.run("--stdin", "in", "-c", READ, input="not this").ok().text == "FROM A FILE"


def test_stdin_file_missing(cay):
    assert "nowhere" in cay.refused("--stdin", "nowhere", "-c", "1")["message"]


def test_code_from_stdin_with_stdin_from_a_file(cay, place):
    (place / "in").write_text("data")
    assert cay.run("--stdin", "in", "-", input=READ).ok().text == "DATA"


def test_stdin_of_50_mb(cay):
    data = bytes(range(256)) * (50 * MIB // 256)
    done = cay.run("--", "cat", input=data).ok()
    assert hashlib.sha256(done.out).digest() == hashlib.sha256(data).digest()


def test_stdin_is_interactive(cay):
    p = cay.start("run", "--", "cat")
    for word in (b"one\n", b"two\n"):
        p.stdin.write(word)
        p.stdin.flush()
        assert p.stdout.readline() == word
    out, err = p.communicate(timeout=10)
    assert (p.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_stdio(cay, closed):
    done = cay.shell(f'''"$CAY" run -c "import os; os.write(1, b'out'); os.write(2, b'err')
assert os.read(0, 1) == b''
assert sorted(os.listdir('/proc/self/fd'))[:3] == ['0', '1', '2']" {closed}''')
    assert done.rc == 0, done.errors


def test_program_that_does_not_read_its_input(cay):
    done = cay.run("-c", "print('done')", input=b"x" * (5 * MIB)).ok()
    assert done.text == "done\n" and done.seconds < 5


def test_program_that_closes_its_input(cay):
    code = "import os, time; os.close(0); time.sleep(0.2); print('done')"
    assert cay.run("-c", code, input=b"x" * (5 * MIB)).ok().text == "done\n"


def test_input_that_never_comes_does_not_hold_cay(cay):
    p = cay.start("run", "-c", "print('done')")
    assert p.stdout.read() == b"done\n"
    assert p.wait(timeout=5) == 0
    p.stdin.close()
    p.stdout.close()
    p.stderr.close()


def test_stdin_file_leaves_the_callers_input_alone(cay):
    done = cay.shell('printf "a\\nb\\nc\\n" | while read -r x; do '
                     '"$CAY" run --stdin /dev/null -- echo "$x"; done').ok()
    assert done.text == "a\nb\nc\n"


# Surroundings

def test_workspace_is_home_empty_and_writable(cay):
    code = ("import os; print(os.getcwd(), os.listdir('.'), os.path.expanduser('~'));"
            "open('a', 'w').write('x'); os.mkdir('d'); print(sorted(os.listdir('/workspace')))")
    assert cay.python(code) == "/workspace [] /workspace\n['a', 'd']\n"


def test_workspace_is_fresh_each_time(cay):
    cay.python("open('a', 'w'); open('/tmp/a', 'w')")
    assert cay.inside("os.listdir('.') + os.listdir('/tmp')") == []


def test_code_is_not_in_the_workspace(cay):
    assert cay.run("-", input="import os; print(os.listdir('.'))").ok().text == "[]\n"


def test_user_and_host(cay):
    done = cay.run("--", "sh", "-c", "id -u; id -g; id -un; id -G; hostname; whoami").ok()
    assert done.text.split() == ["1000", "1000", "cay", "1000", "cay", "cay"]


@pytest.mark.parametrize("given, seen", [
    ("/tmp", "/tmp"), ("/", "/"), ("/usr/lib", "/usr/lib"), ("/workspace", "/workspace")])
def test_workdir(cay, given, seen):
    assert cay.run("-w", given, "--", "pwd").ok().text.strip() == seen


def test_workdir_relative_to_the_workspace(cay, place):
    (place / "sub").mkdir()
    assert cay.run("--put", "sub", "-w", "sub", "--", "pwd").ok().text == "/workspace/sub\n"


@pytest.mark.parametrize("bad", ["/nowhere", "/workspace/../etc", "..", "/etc/passwd"])
def test_workdir_bad(cay, bad):
    assert "work" in cay.refused("-w", bad, "--", "pwd")["message"]


def test_workdir_through_a_magic_link(cay):
    assert cay.refused("-w", "/proc/self/fd/1", "--", "pwd")["code"] == "invalid_request"
    assert cay.refused("-w", "/proc/self/root", "--", "pwd")["code"] == "invalid_request"


def test_umask_and_signals_are_the_usual_ones(cay):
    done = cay.shell("trap '' PIPE HUP TERM; umask 077;"
                     '"$CAY" run -- sh -c "umask; grep -E \'Sig(Ign|Blk)\' /proc/self/status"').ok()
    words = done.text.split()
    assert words[0] == "0022"
    assert dict(zip(words[1::2], words[2::2])) \
        == {"SigIgn:": "0" * 16, "SigBlk:": "0" * 16}


def test_shared_modules_of_the_host_work(cay):
    code = ("import ssl, sqlite3, ctypes, zlib, decimal, threading, socket, hashlib, lzma, uuid\n"
            "import multiprocessing, asyncio, subprocess, tempfile\n"
            "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
            "with tempfile.TemporaryFile() as f: f.write(b'x')\n"
            "print(subprocess.check_output(['echo', 'child']).decode(), end='')\n"
            "async def f(): return 'async'\n"
            "print(asyncio.run(f()))\n"
            "with multiprocessing.Pool(2) as p: print(p.map(abs, [-1, -2]))\n")
    assert cay.python(code) == "thread\nchild\nasync\n[1, 2]\n"


def test_runs_side_by_side(cay):
    started = [cay.start("run", "-c", f"import os; open('x', 'w'); print({n}, os.listdir('.'))")
               for n in range(20)]
    for n, p in enumerate(started):
        out, err = p.communicate(timeout=30)
        assert (p.returncode, out, err) == (0, f"{n} ['x']\n".encode(), b"")
