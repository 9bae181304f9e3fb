"""Scripts: which language they are in, and that they get their arguments."""

import os
import subprocess

import pytest

from support import CAY, OURS, must_work

SHOW = "import sys; print(sys.argv[1:], sys.version_info[0])\n"


def write(place, name, text):
    path = place / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("line", ["#!/usr/bin/env python3", "#!/usr/bin/python3", "#!/usr/bin/env -S python3 -u",
                                  "#!/usr/bin/env -S cay run -l python", "#!/opt/nowhere/python3\r"])
@pytest.mark.parametrize("name", ["script", "script.unknown", "my.tool"])
def test_first_line_decides(cay, place, line, name):
    write(place, name, f"{line}\n{SHOW}")
    assert cay.run(name, "a", "b c").ok().text == "['a', 'b c'] 3\n"


def test_shell_script(cay, place):
    write(place, "tool", "#!/bin/sh -e\necho \"$# $1\"\n")
    assert cay.run("tool", "x", "y").ok().text == "2 x\n"


def test_extension_beats_the_first_line(cay, place):
    write(place, "x.py", f"#!/bin/sh\n{SHOW}")
    assert cay.run("x.py").ok().text == "[] 3\n"


def test_language_option_beats_the_first_line(cay, place):
    write(place, "x", f"#!/bin/sh\n{SHOW}")
    assert cay.run("-l", "python", "x").ok().text == "[] 3\n"


def test_neither_extension_nor_first_line_is_python(cay, place):
    write(place, "x", SHOW)
    assert cay.run("x", "a").ok().text == "['a'] 3\n"


COMPILED = {
    "c": "#include <stdio.h>\nint main(int n, char **v) { puts(v[n - 1]); }\n",
    "go": "package main\nimport (\"fmt\"; \"os\")\nfunc main() { fmt.Println(os.Args[1]) }\n",
    "java": "public class Hello { public static void main(String[] a) { System.out.println(a[0]); } }\n",
    "typescript": "const word: string = process.argv[2];\nconsole.log(word);\n",
}


@pytest.mark.parametrize("language", COMPILED)
def test_first_line_of_a_compiled_language(cay, place, language):
    """Neither its "#!" nor the missing extension is the compiler's business."""
    if not cay("runtimes", "--json", language).json["runtimes"]:
        must_work(f"there is no {language}")
    write(place, "tool", f"#!/usr/bin/env -S cay run -l {language}\n{COMPILED[language]}")
    options = ("-m", "1g", "--disk", "500m", "--pids-limit", "200")
    assert cay.run(*options, "tool", "hello").ok().text == "hello\n"
    assert cay.run(*options, "-l", language, "tool", "again").ok().text == "again\n"


def test_version_in_the_first_line(cay, place):
    write(place, "x", f"#!/usr/bin/python3.3\n{SHOW}")
    error = cay.refused("x")
    assert error["code"] == "runtime_not_found" and "3.3" in error["message"]
    version = cay("runtimes", "--json", "python").json["runtimes"][0]["version"]
    write(place, "x", f"#!/usr/bin/python{version.rsplit('.', 1)[0]}\n{SHOW}")
    assert cay.run("--json", "x").ok().json["version"] == version


def test_unknown_interpreter(cay, place):
    write(place, "x", "#!/usr/bin/cobol -free\n")
    error = cay.refused("x")
    assert error["code"] == "runtime_not_found" and "cobol" in error["message"] and "-l" in error["hint"]


def test_mistyped_language_in_the_first_line(cay, place):
    write(place, "x", "#!/usr/bin/env -S cay run -l pyhton\n")
    error = cay.refused("x")
    assert "x" in error["message"] and "did you mean python?" in error["hint"]


def test_pipe_is_not_looked_into(cay):
    done = cay.shell('mkfifo p; (printf "#!/bin/sh\\nprint(42)\\n" > p) & "$CAY" run p; rm p')
    assert done.text == "42\n", done.errors


def test_executed_directly(cay, place):
    """./script.py a b, with cay as its interpreter."""
    (place / "bin").mkdir()
    (place / "bin" / "cay").symlink_to(CAY)
    env = dict(cay.env, PATH=f"{place}/bin:{cay.env['PATH']}")
    code = "import os, sys; print(sys.argv[1:], os.getuid())\n"
    for name in ("script.py", "script"):
        path = write(place, name, f"#!/usr/bin/env -S cay run -m 64m -l python\n{code}")
        done = subprocess.run([f"./{name}", "a", "--json", "b c"], env=env, cwd=place, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "['a', '--json', 'b c'] 1000\n", "")
        assert os.access(path, os.X_OK)


def test_unreadable_script_says_so(cay):
    done = cay.run("nowhere")
    assert done.rc == OURS and "No such file" in done.errors


def test_a_directory_is_no_script(cay, place):
    for name in (".", str(place), "sub.d"):
        (place / "sub.d").mkdir(exist_ok=True)
        assert "Is a directory" in cay.refused(name)["message"]
