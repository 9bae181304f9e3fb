"""The sixteen languages, each by real programs: arguments, input, exit codes, files, compilers."""

import signal
import stat

import pytest

from language_table import LANGUAGES, SLOW
from support import SANITIZED, must_work, named, wait_until

# The sanitizers look at cay alone.
TRIED = [l for l in LANGUAGES if not (SANITIZED and l.name in SLOW)]
COMPILED = [l for l in TRIED if l.compiled]
WORDS = ["one", "two words", "-x", "--help", "ünï", ""]
ECHOED = "".join(f"{w}\n" for w in WORDS) + "INPUT\n"


def names(rows):
    return [l.name for l in rows]


@pytest.fixture(params=TRIED, ids=names(TRIED))
def language(request, cay):
    need(cay, request.param)
    return request.param


@pytest.fixture(params=COMPILED, ids=names(COMPILED))
def compiled(request, cay):
    need(cay, request.param)
    return request.param


def need(cay, language):
    done = cay("runtimes", "--json", language.name)
    if done.rc != 0 or cay.run("--dry-run", "-l", language.name, "-c", language.echo).rc != 0:
        must_work(f"{language.title} is not on this machine")


def save(place, language, code, name=None):
    path = place / (name or language.file)
    path.write_text(code)
    return path.name


def test_snippet_with_arguments_and_input(cay, language):
    done = cay.run("-l", language.name, "-c", language.echo, "--", *WORDS, input="input\n").ok()
    assert done.text == ECHOED
    assert done.errors == ""


def test_file_by_its_extension(cay, place, language):
    name = save(place, language, language.echo)
    done = cay.run(name, *WORDS, input="input\n").ok()
    assert done.text == ECHOED
    assert done.errors == ""


def test_code_from_standard_input(cay, language):
    done = cay.run("-l", language.name, "-", "a", "b", input=language.echo).ok()
    assert done.text == "a\nb\n"


def test_exit_code(cay, language):
    done = cay.run("--json", "-l", language.name, "-c", language.leave)
    assert done.rc == 3, done.errors
    result = done.json
    assert (result["status"], result["exit_code"], result["language"]) == (
        "failed", 3, language.name)
    assert result["message"] == "exited with code 3"
    assert bool(result["compile"]) == language.compiled
    if language.compiled:
        assert result["compile"]["success"] and result["compile"]["exit_code"] == 0


def test_long_code_goes_in_as_a_file(cay, language):
    code = language.echo + "\n" + f"{language.comment} {'x' * 70}\n" * 1450
    assert cay.run("-l", language.name, "-c", code, "--", "a").ok().text == "a\n"


def test_read_only_workspace(cay, place, language):
    """Nothing is written beside a script that lies in a workspace for reading."""
    name = save(place, language, language.echo)
    before = sorted(p.name for p in place.iterdir())
    done = cay.run("--workspace", ".", name, "a").ok()
    assert done.text == "a\n"
    assert sorted(p.name for p in place.iterdir()) == before


def test_direct(cay, place, language):
    """The same words without a sandbox, where that is asked for by name."""
    done = cay.run("--engine", "direct", "-l", language.name, "-c", language.echo, "--", "a b",
                   input="x").ok()
    assert done.text == "a b\nX" + ("\n" if language.name == "r" else "")
    name = save(place, language, language.echo)
    assert cay.run("--engine", "direct", name, "a").ok().text == "a\n"


def test_output_is_text(cay, language):
    """UTF-8 in, UTF-8 out, whatever the language thinks of locales."""
    done = cay.run("-l", language.name, "-c", language.echo, "--", "Grüße, 世界").ok()
    assert done.text == "Grüße, 世界\n"


# What compilers do.

def test_compiler_refuses(cay, compiled):
    done = cay.run("--json", "-l", compiled.name, "-c", compiled.broken)
    result = done.json
    assert done.rc == result["exit_code"] == result["compile"]["exit_code"] != 0
    assert result["status"] == "failed" and not result["success"]
    assert result["message"] == f"compiling failed with code {done.rc}"
    assert not result["compile"]["success"]
    assert "error" in result["compile"]["output"].lower() or compiled.name == "go"
    assert result["compile"]["output"] and result["compile"]["wall_ms"] > 0
    assert (result["stdout"], result["stderr"]) == ("", "")


def test_compiler_refuses_on_a_terminal(cay, compiled):
    """Passed through, what it says is on standard error, and the program never ran."""
    done = cay.run("-l", compiled.name, "-c", compiled.broken)
    assert done.rc != 0 and done.out == b""
    assert done.said == [f"cay: compiling failed with code {done.rc}"]
    assert len(done.errors.splitlines()) > 1


@pytest.fixture
def c(cay):
    need(cay, next(l for l in LANGUAGES if l.name == "c"))
    return cay


def test_warnings_are_told_apart(c):
    code = '#warning "mind"\n#include <stdio.h>\nint main(void) { fputs("mine", stderr); return 0; }'
    result = c.run("--json", "-l", "c", "-c", code).ok().json
    assert "mind" in result["compile"]["output"] and "mine" not in result["compile"]["output"]
    assert result["stderr"] == "mine"


# Each name is eight of the one before: the compiler is at it until something stops it.
SLOW = "".join(f"#define A{i + 1} A{i} A{i} A{i} A{i} A{i} A{i} A{i} A{i}\n" for i in range(12))


def slow_c():
    return "#define A0 x + \n" + SLOW + "int x; int main(void) { return A12 0; }"


def test_time_limit_while_compiling(c):
    result = c.run("--json", "--timeout", "700ms", "-m", "4g", "-l", "c", "-c", slow_c()).json
    assert (result["status"], result["timed_out"]) == ("timeout", True)
    assert result["message"].endswith("reached while compiling")
    assert result["compile"]["success"] is False and result["compile"]["exit_code"] is None
    assert 500 < result["compile"]["wall_ms"] < 20000


def test_memory_limit_while_compiling(c):
    result = c.run("--json", "-m", "64m", "-l", "c", "-c", slow_c(), timeout=60).json
    assert result["status"] == "out_of_memory", result
    assert result["message"] == "memory limit of 64 MiB reached while compiling"


def test_limits_hold_for_both_together(c):
    """The compiler's time counts: a run is one run."""
    code = "#include <unistd.h>\nint main(void) { sleep(60); return 0; }"
    done = c.run("--json", "--timeout", "1s", "-l", "c", "-c", code)
    result = done.json
    assert result["status"] == "timeout" and result["message"] == "time limit of 1 s reached"
    assert result["compile"]["success"] and done.seconds < 10


def test_compiler_floods(c):
    """What it says is bounded as a program's output is."""
    errors = "".join(f"int f{i}(void) {{ return undeclared{i}; }}\n" for i in range(3000))
    result = c.run("--json", "--output-limit", "10k", "-l", "c", "-c", errors).json
    assert result["compile"]["output_truncated"] and result["status"] == "failed"
    assert len(result["compile"]["output"]) < 11000


def test_cancelled_while_compiling(c):
    running = c.start("run", "-m", "4g", "-l", "c", "-c", slow_c())
    wait_until(lambda: named(running.pid, "cc1"))
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 128 + signal.SIGTERM
    assert err.decode().splitlines()[-1].endswith("while compiling")


def test_compiler_is_on_the_island(c, place):
    """It sees what a program would, and not the host."""
    secret = place / "secret.h"
    secret.write_text("#error seen\n")
    result = c.run("--json", "-l", "c", "-c", f'#include "{secret}"\nint main(void) {{}}').json
    assert "No such file" in result["compile"]["output"]
    shadow = c.run("--json", "-l", "c", "-c", '#include "/etc/shadow"\nint main(void) {}').json
    assert "No such file" in shadow["compile"]["output"]


def test_compiler_reads_no_input(c):
    """Standard input is the program's."""
    code = '#include "/dev/stdin"\n#include <stdio.h>\nint main(void) { return getchar() - 43; }'
    assert c.run("-l", "c", "-c", code, input="-").rc == 2


def test_a_large_environment_for_both(c):
    """More than fits an order to an island that waits: it has it already."""
    env = [part for n in range(8) for part in ("-e", f"V{n}={'x' * 100000}")]
    code = ('#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
            'int main(void) { printf("%zu", strlen(getenv("V7"))); }')
    assert c.run(*env, "-l", "c", "-c", code).ok().text == "100000"


def test_compiler_that_is_a_program(cay, place, config):
    """A compiler of the caller's making can't fake its end: the channel is not its own."""
    fake = place / "toolchain" / "bin"
    fake.mkdir(parents=True)
    (fake / "gcc-20").write_text("#!/bin/sh\nls -l /proc/self/fd >&2\nexit 7\n")
    (fake / "gcc-20").chmod(0o755)
    conf = config(f"[language c]\npath = {fake.parent}\n")
    done = cay.run("--json", "-l", "c", "-c", "int main;", config=conf)
    result = done.json
    assert done.rc == 7 and result["compile"]["exit_code"] == 7
    assert "socket" not in result["compile"]["output"]


def test_what_a_compiler_left_running_goes(cay, place, config):
    fake = place / "toolchain" / "bin"
    fake.mkdir(parents=True)
    (fake / "gcc-20").write_text("#!/bin/sh\nsleep 54 >/dev/null 2>&1 &\nprintf '#!/bin/sh\\necho ran\\n'"
                              " >/tmp/cay-build/main\nchmod +x /tmp/cay-build/main\n")
    (fake / "gcc-20").chmod(0o755)
    conf = config(f"[language c]\npath = {fake.parent}\n")
    assert cay.run("-l", "c", "-c", "int main;", config=conf).ok().text == "ran\n"


def test_missing_compiler_output(cay, place, config):
    """A compiler that says well and made nothing: the program is not there, in words."""
    fake = place / "toolchain" / "bin"
    fake.mkdir(parents=True)
    (fake / "gcc-20").write_text("#!/bin/sh\nexit 0\n")
    (fake / "gcc-20").chmod(0o755)
    conf = config(f"[language c]\npath = {fake.parent}\n")
    done = cay.run("-l", "c", "-c", "int main;", config=conf)
    assert done.rc == 127 and "not found" in done.errors and "has the source a main?" in done.errors


# What is special.

def test_javascript_modules_and_require(cay):
    need(cay, LANGUAGES[1])
    assert cay.run("-l", "node", "-c", "console.log(require('os').hostname())").ok().text == "cay\n"
    assert cay.run("-l", "js", "-c", "console.log(await Promise.resolve(7))").ok().text == "7\n"
    assert cay.run("-l", "nodejs", "-c", "-1").ok().text == ""


def test_typescript_is_transpiled(cay, place):
    need(cay, LANGUAGES[2])
    (place / "lib.ts").write_text("export namespace N { export const x: number = 40 }\n")
    (place / "main.ts").write_text(
        "import { N } from './lib'\nenum Colour { Red = 2 }\n"
        "class P { constructor(private readonly y: number) {} get(): number { return this.y } }\n"
        "console.log(N.x + new P(Colour.Red).get())\n")
    assert cay.run("--workspace", ".", "main.ts").ok().text == "42\n"


def test_typescript_traces_name_the_source(cay):
    need(cay, LANGUAGES[2])
    done = cay.run("-l", "ts", "-c", "type A = string\n\nfunction f(): never {\n  throw new Error('x')\n}\nf()")
    assert done.rc == 1 and "main.ts:4" in done.errors


def test_php_with_and_without_its_mark(cay):
    need(cay, LANGUAGES[4])
    for code in ("echo 42;", "<?php echo 42;", "<?= 42;"):
        assert cay.run("-l", "php", "-c", code).ok().text == "42"
    assert cay.run("-l", "php", "-c", "echo 42;" + " " * 110000).ok().text == "42"


def test_java_finds_the_class(cay, place):
    need(cay, LANGUAGES[-1])
    body = '{ public static void main(String[] a) { System.out.println("ran " + a.length); } }'
    for source in (f"public class Other {body}", f"package a.b; class Deep {body}",
                   f"/* class No */ interface I {{}} public final class Yes implements I {body}"):
        assert cay.run("-l", "java", "-c", source, "--", "x").ok().text == "ran 1\n"
    error = cay.refused("-l", "java", "-c", "// nothing")
    assert "class" in error["message"]


def test_java_knows_the_limit(cay):
    need(cay, LANGUAGES[-1])
    code = ("class A { public static void main(String[] a) {"
            " System.out.println(Runtime.getRuntime().maxMemory() >> 20); } }")
    small = int(cay.run("-l", "java", "-c", code).ok().text)
    large = int(cay.run("-m", "1g", "-l", "java", "-c", code).ok().text)
    assert small < 300 and small < large < 600


def test_nothing_is_executable_by_others(cay):
    """What was compiled belongs to the program alone."""
    need(cay, LANGUAGES[13])
    code = ('#include <stdio.h>\n#include <sys/stat.h>\nint main(void) { struct stat s;'
            ' stat("/tmp/cay-build", &s); printf("%o", s.st_mode & 0777); return 0; }')
    mode = int(cay.run("-l", "c", "-c", code).ok().text, 8)
    assert stat.S_IMODE(mode) == 0o700


def test_dry_run_shows_both(cay):
    need(cay, LANGUAGES[13])
    plan = cay.run("--dry-run", "--json", "-l", "c", "-c", "int main;").ok().json["dry_run"]
    assert plan["compile"][0].endswith("gcc-12") or "gcc" in plan["compile"][0]
    assert plan["argv"] == ["/tmp/cay-build/main"]
    text = cay.run("--dry-run", "-l", "c", "-c", "int main;").ok().text
    assert "compile" in text


def test_missing_language_names_its_package(cay, tmp_path):
    error = cay.refused("-l", "cobol", "-c", "x")
    assert error["code"] == "runtime_not_found"
